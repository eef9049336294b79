"""Classes as texts: what is written counts only if it is the name of a class."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from xling.core.errors import UserError
from xling.core.settings import config
from xling.eval.rows.suite import suites
from xling.eval.run import evaluation, unused
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import score_file
from xling.eval.systems import FitConfig
from xling.transfer.backend import EncoderBackend
from xling.transfer.generation.text_to_text import TextToText, as_texts
from xling.transfer.task import TASKS

NAMES = ("river", "stone")


def rows(num: int, kind: str = "classify") -> list[Any]:
    fields = [{"text": f"{('sea', 'boat')[i % 2]} {i % 3}"} for i in range(num)]
    if kind == "pair":
        fields = [{"text_a": row["text"], "text_b": "a sea"} for row in fields]
    return [SimpleNamespace(id=str(i), fields=row, label=NAMES[i % 2]) for i, row in enumerate(fields)]


def suite(kind: str = "classify") -> Any:
    return SimpleNamespace(name="own", task=kind, labels=NAMES, scheme="")


def test_a_row_is_its_suite_and_its_named_texts() -> None:
    (row, *_) = as_texts(suite("pair"), TASKS["pair"], rows(2, "pair"))
    assert row.fields == {"text": "own: text_a: sea 0 text_b: a sea"} and row.label == "river"
    with pytest.raises(UserError, match="whose answers are not classes"):
        as_texts(suite("tag"), TASKS["tag"], [])


def test_classes_are_learned_and_written_in_the_language_of_training(writer: Path) -> None:
    kind = "pair"
    backend = EncoderBackend(writer, "pretrained")
    fit = FitConfig(lr=8e-3, epochs=40, batch_rows=8, precision="fp32", text_to_text=True)
    before = {k: v.clone() for k, v in backend._generator.translator.model.state_dict().items()}
    *_, last = backend.fit(suite(kind), rows(40, kind), [], "en", fit)
    decoder = [name for name in last if name.startswith(("decoder.layers", "encoder.layers"))]
    assert not [name for name in decoder if torch.equal(last[name], before[name])], "both sides learn"
    for lang in ("en", "th"):
        answers = backend.predict(last, suite(kind), rows(10, kind), lang)
        assert answers == [row.label for row in rows(10, kind)], "the label of a row is not read"
    unlabelled = [SimpleNamespace(id="0", fields=row.fields, label="?") for row in rows(10, kind)]
    assert backend.predict(last, suite(kind), unlabelled, "en") == answers


def test_what_is_no_name_of_a_class_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = ["river", "River", "river stone", "stone"]
    generator: Any = SimpleNamespace(predict=lambda *_: written)
    answers = TextToText(generator, "en", NAMES).predict({}, suite(), TASKS["classify"], rows(4), "th")
    assert answers == ["river", "", "", "stone"]
    assert "own th: 2 of 4 outputs name no class, and are wrong" in "".join(capsys.readouterr())


def test_a_class_that_the_vocabulary_cannot_write_is_refused(writer: Path) -> None:
    backend, fit = EncoderBackend(writer, "pretrained"), FitConfig(text_to_text=True)
    own = SimpleNamespace(name="own", task="classify", labels=("river", "☃"), scheme="")
    with pytest.raises(UserError, match=r"cannot write the class '☃'.*byte_fallback=true"):
        backend.fit(own, rows(2), [], "en", fit)


def test_an_evaluation_beside_its_control(writer: Path, tmp_path: Path) -> None:
    for name, lang in (("train", "en"), ("test", "en"), ("test", "th")):
        lines = [f"{row.fields['text']}\t{row.label}\n" for row in rows(24)]
        (tmp_path / f"{name}.{lang}.tsv").write_text("text\tlabel\n" + "".join(lines))
    words = [
        f"classes={tmp_path}/*.tsv", f"train={tmp_path}/train.en.tsv", f"checkpoint={writer}",
        f"out={tmp_path}/out", "seeds=1", "fit.epochs=1", "fit.batch_rows=24", "search.max_len_b=2",
        "fit.text_to_text=true", "systems=pretrained,random", "search.beam=2",
    ]  # fmt: skip
    evaluation.run(config.load(EvalConfig, overrides=words))
    scores = score_file.read_scores(tmp_path / "out/tables/scores.json")
    assert {(s.system, s.lang) for s in scores} == {
        (x, y) for x in ("pretrained", "random") for y in ("en", "th")
    }
    assert all("|text-to-text" in s.signature and "|beam:2" in s.signature for s in scores)


@pytest.mark.parametrize(
    "setting", [{"layer_decay": 0.5}, {"text_features": "concat"}, {"pair_features": "match"}]
)
def test_settings_of_a_head_change_nothing(setting: dict[str, Any]) -> None:
    cfg = EvalConfig((), Path("out"), fit=FitConfig(text_to_text=True, **setting))
    with pytest.raises(UserError, match=next(iter(setting))):
        unused.check_fit(cfg, [suites()["sib200"]], [])


def test_suites_without_classes_are_refused() -> None:
    with pytest.raises(UserError, match="text_to_text=true"):
        unused.check_fit(
            EvalConfig((), Path("out"), fit=FitConfig(text_to_text=True)), [suites()["udpos"]], []
        )
