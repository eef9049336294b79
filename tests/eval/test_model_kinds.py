"""Every kind of suite that an encoder answers, from files to a table, with both controls."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from xling.core.errors import UserError
from xling.eval.rows.suite import load, suites
from xling.eval.run import evaluation, finetune
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import predictions
from xling.eval.scores.score_file import read_scores
from xling.eval.systems import FitConfig
from xling.models.files.model_folder import TASK_FILE

PLACES = ("river", "village", "market")


def write_squad(path: Path, count: int) -> None:
    paragraphs = []
    for number in range(count):
        place = PLACES[number % 3]
        context = (
            f"The teacher sells {'fresh ' * (number % 5 * 9)}bread near the {place}. My neighbour likes it."
        )
        answers = [{"text": place, "answer_start": context.index(place)}]
        question = {"id": f"q{number}", "question": "Where is the bread?", "answers": answers}
        paragraphs.append({"context": context, "qas": [question]})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")


def write_copa(path: Path, count: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "idx": number,
            "premise": "The teacher sells bread.",
            "question": ("cause", "effect")[number % 2],
            "choice1": "My neighbour wants bread.",
            "choice2": "The boat is red.",
            "label": number % 2,
        }
        for number in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_requests(path: Path, count: int, slot: str = "datetime") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = []
    for number in range(count):
        intent = ("alarm/set_alarm", "weather/find")[number % 2]
        words = [
            ("see", "O"),
            ("two", f"B-{slot}"),
            ("books", f"I-{slot}"),
            *[("at", "O")] * (number % 3 * 20),
        ]
        lines = [f"{i}\t{word}\t{intent}\t{tag}" for i, (word, tag) in enumerate(words, 1)]
        blocks.append("\n".join([f"# id = {number}", f"# intent = {intent}", *lines]))
    path.write_text("\n\n".join(blocks) + "\n\n", encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of three suites whose files have no recorded digest."""
    data = tmp_path_factory.mktemp("kinds")
    write_squad(data / "tydiqa/tydiqa.goldp.en.train.json", 16)
    write_squad(data / "tydiqa/tydiqa.goldp.fi.dev.json", 9)
    for split, lang in (("train", "xx"), ("val", "xx"), ("test", "yy")):
        write_copa(data / f"xcopa/{split}.{lang}.jsonl", 10)
    for split, lang in (("train", "xx"), ("valid", "xx"), ("test", "xx"), ("test", "yy"), ("valid", "zz")):
        write_requests(data / f"xsid/{lang}.{split}.conll", 12, "never_seen" if lang == "yy" else "datetime")
    return data


def settings(name: str, folder: Path, model: Path, out: Path, **changes: Any) -> EvalConfig:
    cfg = EvalConfig((name,), out, folder, checkpoint=model, source="en" if name == "mt" else "xx")
    if name != "mt" and not (model / TASK_FILE).exists():  # else nothing is fine-tuned
        fit = FitConfig(epochs=2, lr=2e-3, batch_rows=4, max_length=40)
        cfg = dataclasses.replace(cfg, seeds=(1,), fit=fit)
    return dataclasses.replace(cfg, **changes)


@pytest.mark.parametrize(("name", "source"), [("tydiqa_gold", "en"), ("xcopa", "xx"), ("xsid", "xx")])
def test_from_files_to_a_table_with_controls(
    name: str, source: str, folder: Path, model: Path, tmp_path: Path
) -> None:
    cfg = settings(name, folder, model, tmp_path, source=source)
    text = evaluation.run(cfg)
    assert all(system in text for system in ("pretrained", "random", "majority"))
    scores = read_scores(tmp_path / "tables/scores.json")
    suite = suites()[name]
    assert {(s.system, s.metric) for s in scores} == {
        (system, metric) for system in cfg.systems for metric in suite.metrics
    }
    for path in predictions.files(tmp_path / "predictions"):
        origin = predictions.read_origin(path)
        rows = load(suite, origin.lang, origin.split, folder)
        for row, found in zip(rows, predictions.read(path, rows), strict=True):
            if name == "tydiqa_gold":
                assert found and found in row.fields["context"]
            elif name == "xcopa":
                assert found in (0, 1)
            else:
                assert found[0] in suite.labels and len(found[1]) == len(row.fields["tokens"])
    again = evaluation.run(dataclasses.replace(cfg, checkpoint=model))
    assert again == text


def test_an_answer_that_can_be_learnt_is_learnt(folder: Path, model: Path, tmp_path: Path) -> None:
    fit = FitConfig(epochs=18, lr=4e-3, batch_rows=4, max_length=40)
    cfg = settings("tydiqa_gold", folder, model, tmp_path, source="en", systems=("pretrained", "majority"))
    evaluation.run(dataclasses.replace(cfg, fit=fit))
    found = {(s.system, s.metric): s.value for s in read_scores(tmp_path / "tables/scores.json")}
    assert found["pretrained", "squad_em"] > 60 > found["majority", "squad_em"]


def test_dev_rows_may_train_where_no_training_rows_are(folder: Path, model: Path, tmp_path: Path) -> None:
    cfg = settings("xsid", folder, model, tmp_path, train_split="dev", train_rows=5)
    evaluation.run(cfg)
    scores = read_scores(tmp_path / "tables/scores.json")
    assert {(s.lang, s.split) for s in scores} == {("xx", "test"), ("yy", "test")}
    assert all("train:xsid/dev|rows:5" in s.signature for s in scores)
    with pytest.raises(UserError, match="no test rows in 'zz', and train_split=dev"):
        evaluation.run(dataclasses.replace(cfg, langs=("xx", "zz")))
    with pytest.raises(UserError, match="train and choose on the same rows"):
        evaluation.run(dataclasses.replace(cfg, select=("oracle",)))
    with pytest.raises(UserError, match="translate_train_all with train_split=dev"):
        evaluation.run(dataclasses.replace(cfg, protocol="translate_train_all"))


def test_several_checkpoints_stand_side_by_side(folder: Path, model: Path, tmp_path: Path) -> None:
    cfg = settings("xcopa", folder, model, tmp_path)
    cfg = dataclasses.replace(cfg, checkpoint=None, checkpoints=(f"mine={model}", str(model)))
    text = evaluation.run(cfg)
    assert {s.system for s in read_scores(tmp_path / "tables/scores.json")} == {
        "mine",
        "model",
        "random",
        "majority",
    }
    header = text.splitlines()[2]
    assert [header.index(f": {name} ") for name in ("mine", "model", "random", "majority")] == sorted(
        header.index(f": {name} ") for name in ("mine", "model", "random", "majority")
    )
    for wrong in ((str(model), str(model)), (f"random={model}",)):
        with pytest.raises(UserError, match="models of different names that no system has"):
            evaluation.run(dataclasses.replace(cfg, checkpoints=wrong))
    with pytest.raises(UserError, match="and checkpoint=; valid: models of different names"):
        evaluation.run(dataclasses.replace(cfg, checkpoint=model))


def test_a_fine_tuned_checkpoint_is_scored_once_as_it_is(folder: Path, model: Path, tmp_path: Path) -> None:
    fit = FitConfig(epochs=1, lr=2e-3, batch_rows=4, max_length=40)
    finetune.run(finetune.FinetuneConfig("xcopa", model, tmp_path / "task", folder, source="xx", fit=fit))
    cfg = settings("xcopa", folder, tmp_path / "task", tmp_path / "out", seeds=(1, 2, 3), langs=("yy",))
    cfg = dataclasses.replace(cfg, systems=("pretrained", "majority"))
    text = evaluation.run(cfg)
    (score,) = [s for s in read_scores(cfg.out / "tables/scores.json") if s.system == "pretrained"]
    assert (score.seed, score.select) == (-1, "none")
    assert score.signature.startswith("choice_accuracy:1|fine-tuned|data:") and "|seed:-1|" in score.signature
    assert "±" not in text and "checkpoint chosen by" not in text and "1 seed." in text
    before = {p: p.stat().st_mtime_ns for p in predictions.files(cfg.out)}
    with pytest.raises(UserError, match=r"fit.lr=1.0 changes nothing"):
        evaluation.run(dataclasses.replace(cfg, fit=FitConfig(lr=1.0), seeds=(4,)))
    same = {p for p in before if "pretrained" in p.parts and p.stat().st_mtime_ns == before[p]}
    assert len(same) == 1
    small = dataclasses.replace(cfg, int8=True, systems=("pretrained",), out=tmp_path / "small")
    evaluation.run(small)
    assert "|fine-tuned|int8|" in read_scores(small.out / "tables/scores.json")[0].signature


def test_a_fine_tuned_checkpoint_needs_no_training_rows_and_has_no_random_control(
    folder: Path, model: Path, tmp_path: Path
) -> None:
    fit = FitConfig(epochs=1, lr=2e-3, batch_rows=4, max_length=40)
    finetune.run(finetune.FinetuneConfig("xcopa", model, tmp_path / "task", folder, source="xx", fit=fit))
    write_copa(tmp_path / "data/xcopa/test.yy.jsonl", 10)
    cfg = settings("xcopa", tmp_path / "data", tmp_path / "task", tmp_path / "out", systems=("pretrained",))
    assert "pretrained" in evaluation.run(cfg)
    with pytest.raises(
        UserError, match=r"task is fine-tuned: it has no random control.*; fix: systems=pretrained"
    ):
        evaluation.run(dataclasses.replace(cfg, systems=("pretrained", "random"), out=tmp_path / "other"))
    assert not (tmp_path / "other").exists(), "said before anything is predicted"


@pytest.mark.parametrize("name", ["mt", "xqg"])
def test_an_encoder_writes_no_texts(name: str, model: Path, tmp_path: Path) -> None:
    rows = "".join(
        json.dumps({"id": str(i), "fields": {"text": "bread"}, "label": "the boat"}) + "\n" for i in range(3)
    )
    lang = "en-xx" if name == "mt" else "en"
    for split in ("train", "dev", "test"):
        path = tmp_path / f"rows/{name}/{lang}.{split}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rows)
    cfg = settings(
        name, tmp_path, model, tmp_path / "out", source="en", systems=("pretrained",), langs=(lang,)
    )
    with pytest.raises(UserError, match="is an encoder, which cannot write texts"):
        evaluation.run(cfg)
