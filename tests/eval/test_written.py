"""Suites that ask for texts, from files to a table, by models with a decoder; and protocols that translate."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from eval_helpers import write_nli

from xling.core.errors import UserError
from xling.core.settings import config
from xling.eval.rows.suite import Example, load, suites
from xling.eval.run import evaluation
from xling.eval.run.plan import Translations
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import predictions
from xling.eval.scores.score_file import read_scores
from xling.eval.systems import FitConfig, SearchConfig
from xling.eval.tables import publish
from xling.eval.tables.publish import RescoreConfig
from xling.models.generate.settings import Search
from xling.transfer.backend import EncoderBackend
from xling.transfer.generation import decoder_system, finetune
from xling.transfer.task import TASKS
from xling.transfer.translation.translate import Translator


@pytest.fixture(scope="module")
def folder(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Translation, summaries and questions made of sentences of the tiny corpus: each asks for the one before."""
    data = tmp_path_factory.mktemp("texts")
    for name in ("mt", "xgiga", "xqg"):
        (data / name).mkdir()
    for lang, count in (("en", 12), ("th", 4)):
        text = [x for x in (corpus / f"{lang}.txt").read_text("utf-8").splitlines() if x][: count + 1]
        rows = list(itertools.pairwise(text))
        for split in ("train", "dev", "test"):
            for side, column in (("x", 1), ("y", 0)):
                put(data / f"xgiga/{split}.{side}.{lang}", [row[column] for row in rows])
            put(data / f"xqg/{split}.e.{lang}.lc", [row[1] for row in rows])
            put(data / f"xqg/{split}.a.{lang}.lc", [row[1].split(" ")[0] for row in rows])
            put(data / f"xqg/{split}.q.{lang}.lc", [row[0] for row in rows])
    put(data / "mt/en-th.test.en", ["The teacher sees a red boat.", "", "My neighbour likes two books. " * 9])
    put(data / "mt/en-th.test.th", ["ครู", "เพื่อน", "หมอ"])
    return data


def put(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def settings(name: str, folder: Path, model: Path, out: Path, **changes: Any) -> EvalConfig:
    fit = FitConfig(lr=8e-3, epochs=2, batch_rows=12, max_length=48)
    cfg = EvalConfig((name,), out, folder, checkpoint=model)
    if name != "mt":  # on which nothing is fine-tuned
        cfg = dataclasses.replace(cfg, seeds=(1,), fit=fit, select=("last",))
    return dataclasses.replace(cfg, search=SearchConfig(beam=2), **changes)


def test_translation_by_our_own_model_with_controls(writer: Path, folder: Path, tmp_path: Path) -> None:
    cfg = settings("mt", folder, writer, tmp_path)
    text = evaluation.run(cfg)
    scores = read_scores(tmp_path / "tables/scores.json")
    assert {(s.system, s.metric) for s in scores} == set(
        itertools.product(("pretrained", "random", "majority"), ("bleu", "chrf", "ter", "in_language"))
    )
    bleu = [s.signature for s in scores if s.metric == "bleu"]
    assert all("beam:2|length:1,1.5,10" in text and "tok:char" in text for text in bleu)
    rows = load(suites()["mt"], "en-th", "test", folder)
    (path,) = (p for p in predictions.files(tmp_path / "predictions") if "pretrained" in str(p))
    made = predictions.read(path, rows)
    own = Translator(writer, Search(beam=2), precision="auto")
    assert made == own([row.fields["text"] for row in rows], "en", "th")
    assert made[0] and made[1] == "" and made[2]
    before = {p.name: p.read_bytes() for p in (tmp_path / "tables").iterdir()}
    assert publish.rescore(RescoreConfig(tmp_path, folder)) == text
    assert evaluation.run(cfg) == text
    assert {p.name: p.read_bytes() for p in (tmp_path / "tables").iterdir()} == before
    greedy = dataclasses.replace(cfg, search=SearchConfig(beam=1))
    evaluation.run(greedy)
    again = [s.signature for s in read_scores(tmp_path / "tables/scores.json") if s.metric == "bleu"]
    assert all("beam:1" in text for text in again)


@pytest.mark.parametrize(("name", "field"), [("xsum", "xgiga"), ("xqg", "xqg")])
def test_generation_is_learned_in_one_language_and_written_in_others(
    name: str, field: str, writer: Path, folder: Path, tmp_path: Path
) -> None:
    fit = FitConfig(lr=8e-3, epochs=2, batch_rows=12, max_length=48)
    cfg = settings(name, folder, writer, tmp_path, langs=("en", "th"), select=("last", "averaged"))
    text = evaluation.run(dataclasses.replace(cfg, fit=fit))
    assert all(system in text for system in ("pretrained last", "pretrained averaged", "random", "majority"))
    scores = read_scores(tmp_path / "tables/scores.json")
    assert {(s.lang, s.metric) for s in scores} == set(
        itertools.product(("en", "th"), suites()[name].metrics)
    )
    copied = {s.lang: s.value for s in scores if s.system == "majority" and s.metric == "rouge_l"}
    assert all(0 < value < 100 for value in copied.values()), "the control writes the source"


def test_what_can_be_learnt_is_written(writer: Path, folder: Path, tmp_path: Path) -> None:
    fit = FitConfig(lr=8e-3, epochs=110, batch_rows=12, max_length=48)
    cfg = settings("xqg", folder, writer, tmp_path, langs=("en",), systems=("pretrained", "majority"))
    evaluation.run(dataclasses.replace(cfg, fit=fit))
    found = {(s.system, s.metric): s.value for s in read_scores(tmp_path / "tables/scores.json")}
    assert found["pretrained", "rouge_l"] > 80 > found["majority", "rouge_l"]


def test_every_side_learns_unless_it_is_frozen(writer: Path, folder: Path) -> None:
    rows = load(suites()["xsum"], "en", "train", folder)
    start = decoder_system.TextGenerator(writer, Search())._published().model.state_dict()
    for frozen, moved in (("none", {"encoder.", "decoder."}), ("decoder", {"encoder."})):
        fit = FitConfig(epochs=1, max_length=48, freeze=frozen)  # type: ignore[arg-type]
        (after,) = decoder_system.TextGenerator(writer, Search()).fit("x", rows, "en", fit)
        changed = [name for name in start if not torch.equal(start[name].float(), after[name].float())]
        layers = {
            part for part in ("encoder.", "decoder.") if any(n.startswith(f"{part}layers") for n in changed)
        }
        assert layers == moved
        assert ("encoder.tokens.weight" in changed) == (frozen == "none")


def test_the_precision_asked_for_is_that_of_the_weights(writer: Path, folder: Path) -> None:
    rows = load(suites()["xsum"], "en", "train", folder)
    labelled = [Example("1", {"text": "a red boat"}, "a"), Example("2", {"text": "fresh bread"}, "b")]
    shape = SimpleNamespace(name="s", task="classify", scheme="", labels=("a", "b"))
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        fit = FitConfig(epochs=1, max_length=48, precision=precision)  # type: ignore[arg-type]
        (after,) = decoder_system.TextGenerator(writer, Search()).fit("x", rows, "en", fit)
        assert {weight.dtype for weight in after.values()} == {dtype}
        (made,) = EncoderBackend(writer, "pretrained").fit(shape, labelled, [], "en", fit)
        assert {weight.dtype for weight in made.model.parameters()} == {dtype}


def test_translating_after_learning_uses_the_published_weights(writer: Path, folder: Path) -> None:
    rows = load(suites()["xsum"], "en", "train", folder)
    system = decoder_system.TextGenerator(writer, Search(beam=1))
    before = system.predict(None, TASKS["mt"], rows, "en-th")
    (learned,) = system.fit("x", rows, "en", FitConfig(lr=8e-3, epochs=1, max_length=48))
    assert system.predict(None, TASKS["mt"], rows, "en-th") == before
    own = system.predict(learned, TASKS["generation"], rows, "en")
    assert system.predict(None, TASKS["mt"], rows, "en-th") == before
    assert system.predict(learned, TASKS["generation"], rows, "en") == own


def test_a_model_that_was_tuned_to_write_is_not_trained_again(
    writer: Path, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "rows").write_text("a red boat\tfresh bread\n", encoding="utf-8")
    words = [f"checkpoint={writer}", f"out={tmp_path / 'tuned'}", f"train={tmp_path}/rows", "fit.epochs=1"]
    finetune.run(config.load(finetune.GenerateConfig, overrides=words))
    (weights,) = decoder_system.TextGenerator(tmp_path / "tuned", Search()).fit("x", [], "en", FitConfig())
    assert (
        weights.keys()
        == decoder_system.TextGenerator(writer, Search())._published().model.state_dict().keys()
    )


def test_the_answer_stands_before_a_source_that_is_cut(writer: Path) -> None:
    translator = Translator(writer, Search())
    example = dataclasses.make_dataclass("Row", ["fields"])
    source = decoder_system.encode_source(
        translator, example({"text": "The teacher sees a boat " * 20, "answer": "bread"})
    )
    answer = translator.truncated_pieces("bread").tolist()
    assert source[: len(answer) + 1].tolist() == [*answer, 2]
    assert len(source) == translator.max_pieces
    whole = decoder_system.encode_source(translator, example({"text": "bread", "answer": ""}))
    assert whole.tolist() == answer


def test_translate_test_and_translate_train_ask_our_own_model_once(
    writer: Path, model: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    for lang in ("en", "th"):
        write_nli(data / f"nli/{lang}.test.tsv", 2, mark="bread ")
    write_nli(data / "nli/en.train.tsv", 4)
    base = EvalConfig(
        ("toy_xnli",), tmp_path / "out", data, ("pretrained", "majority"), model, protocol="translate_test",
        seeds=(1, 2), fit=FitConfig(epochs=1), search=SearchConfig(beam=1), translator=writer,
    )  # fmt: skip
    evaluation.run(base)
    scores = read_scores(tmp_path / "out/tables/scores.json")
    assert all("|mt:" in s.signature and s.protocol == "translate_test" for s in scores)
    made = sorted((tmp_path / "out/translations").iterdir())
    assert [p.name[:6] for p in made] == ["th-en."] * 2, (
        "both sides of the pairs, once for all seeds and systems"
    )
    times = [p.stat().st_mtime_ns for p in made]
    texts = [row.fields["text_a"] for row in load(suites()["toy_xnli"], "th", "test", data)]
    kept = Translations(writer, tmp_path / "out/translations", SearchConfig(beam=1))
    assert kept(texts, "th", "en") == Translator(writer, Search(beam=1), precision="auto")(texts, "th", "en")
    evaluation.run(dataclasses.replace(base, protocol="translate_train", langs=("th",), seeds=(1,)))
    names = sorted(p.name[:6] for p in (tmp_path / "out/translations").iterdir())
    assert names == ["en-th."] * 2 + ["th-en."] * 2
    assert [p.stat().st_mtime_ns for p in made] == times


def test_mistakes(writer: Path, model: Path, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is an encoder, which cannot write texts"):
        evaluation.run(settings("mt", folder, model, tmp_path / "a", systems=("pretrained",)))
    (folder / "mt/en-sw.test.en").write_text("a\n")
    (folder / "mt/en-sw.test.sw").write_text("b\n")
    with pytest.raises(UserError, match="was not trained on 'sw'; valid: ar, en, th"):
        evaluation.run(
            settings("mt", folder, writer, tmp_path / "b", langs=("en-sw",), systems=("pretrained",))
        )
    cfg = settings("mt", folder, writer, tmp_path / "c", langs=("en-th",), systems=("ngram",))
    with pytest.raises(UserError, match="the control ngram has no answer to the mt rows"):
        evaluation.run(dataclasses.replace(cfg, checkpoint=None))
    cfg = settings("xsum", folder, writer, tmp_path / "d", langs=("th",), systems=("pretrained",))
    cfg = dataclasses.replace(cfg, protocol="translate_test")
    with pytest.raises(UserError, match="translate_test needs a translation model; fix: translator="):
        evaluation.run(cfg)
    with pytest.raises(UserError, match="generation rows do not survive translation"):
        evaluation.run(dataclasses.replace(cfg, translator=writer))
