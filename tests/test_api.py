"""The public Python interface gives what the commands give, and costs nothing until it is used."""

from __future__ import annotations

import doctest
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import datasets
import numpy as np
import polars as pl
import pytest

import xling
from xling.core.errors import UserError
from xling.core.settings import config
from xling.corpora.toyworld import ToyworldConfig
from xling.corpora.toyworld import run as toyworld
from xling.eval.rows import rows_in_memory
from xling.eval.run.predict import Labeller

Run = Callable[..., "subprocess.CompletedProcess[str]"]

_LIGHT = """
import sys
import xling, xling.corpus
xling.load; xling.Model; xling.corpus.mono
heavy = {"torch", "fairseq", "numpy", "polars", "transformers", "sentencepiece"} & set(sys.modules)
assert not heavy, heavy
assert {"load", "Model", "corpus"} <= set(dir(xling))
"""


def test_the_import_is_light(python: Run) -> None:
    done = python("-c", _LIGHT)
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute"):
        xling.lod  # type: ignore[attr-defined]  # noqa: B018


def test_vectors_are_those_of_an_evaluation(model: Path) -> None:
    from xling.transfer.backend import EncoderBackend

    loaded = xling.load(model)
    texts = ["The teacher sees a red boat.", "My neighbour likes two books."]
    vectors = loaded.encode(texts, lang="eng_Latn", pooling="max")
    assert vectors.shape == (2, 32) and vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, EncoderBackend(model, "m").embed(texts, "en", -1, "max"))
    np.testing.assert_array_equal(vectors, loaded.encode(texts, lang="English", pooling="max"))
    assert loaded.encode([]).shape == (0, 32)
    for wrong in ({"lang": "xx"}, {"lang": None}, {"pooling": "median"}, {"layer": 9}):
        with pytest.raises(UserError):
            loaded.encode(texts, **wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="a list of texts"):
        loaded.encode("one text")


def test_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        xling.load(tmp_path / "nowhere")


def test_translation_needs_a_decoder(model: Path) -> None:
    with pytest.raises(UserError, match="decoder"):
        xling.load(model).translate(["A text."], "en", "ar")


def test_translations_are_those_of_the_translator(
    shards: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    from xling.models.generate.settings import Search
    from xling.training.settings import PretrainConfig
    from xling.training.train import run
    from xling.transfer.translation.translate import Translator

    words = [word for word in tiny if "mmlm" not in word]
    words += [
        "objectives.dae.tokens_per_sample=32",
        f"data={shards}",
        f"out={tmp_path / 'dae'}",
        "train.updates=2",
    ]
    run(config.load(PretrainConfig, overrides=words))
    texts = ["The teacher sees a red boat.", ""]
    loaded = xling.load(tmp_path / "dae")
    for beam in (1, 3):
        expected = Translator(tmp_path / "dae", Search(beam=beam))(texts, "en", "ar")
        assert loaded.translate(texts, "en", "ar", beam=beam) == expected
        assert loaded.translate(texts, "English", "arb_Arab", beam=beam) == expected
    assert expected[1] == ""


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("raw") / "raw"
    toyworld(
        ToyworldConfig(out=str(out), langs=("en", "sw"), num_docs=30, num_pairs=20, num_ner=40, num_nli=20)
    )
    return out


def test_scores_of_a_suite(model: Path, raw: Path, tmp_path: Path) -> None:
    settings = {"seeds": (1,), "fit": {"epochs": 1}, "systems": ("pretrained", "majority")}
    scores = xling.load(model).evaluate("toy_ner", data=raw, **settings)
    assert {(s.system, s.lang) for s in scores} == {
        (s, lang) for s in settings["systems"] for lang in ("en", "sw")
    }
    assert all(0 <= s.value <= 100 and s.signature for s in scores)
    kept = xling.load(model).evaluate(("toy_ner",), data=raw, out=tmp_path / "out", **settings)
    assert (tmp_path / "out/tables/scores.json").is_file()
    assert [(s.lang, s.value) for s in kept] == [(s.lang, s.value) for s in scores]
    with pytest.raises(UserError, match="epoch"):
        xling.load(model).evaluate("toy_ner", data=raw, fit={"epoch": 1})


def test_corpora(raw: Path, tmp_path: Path) -> None:
    plain = {"before_dedup": ("repair",), "dedup": False, "near_dedup": False, "after_dedup": ()}
    source = f"text:{raw}/mono/en.txt"
    folder = xling.corpus.mono("en", source, tmp_path / "en", **plain)
    assert (folder / "card.html").is_file() and folder == tmp_path / "en"
    assert len(list(xling.corpus.texts(folder))) == 30
    files = [raw / "para/en-sw.en", raw / "para/en-sw.sw"]
    pairs = xling.corpus.parallel("en-sw", f"moses:{files[0]}+{files[1]}", tmp_path / "pairs")
    kept = (pairs / "train.en").read_text().splitlines()
    assert kept and set(kept) <= set(files[0].read_text().splitlines())
    with pytest.raises(UserError, match="neardedup"):
        xling.corpus.mono("en", source, tmp_path / "other", neardedup=False)


def test_a_model_of_the_hub_is_opened_where_it_was_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def importer(name: str) -> str:
        asked.append(name)
        return str(tmp_path)

    monkeypatch.setattr("xling.core.commands.runner.load", lambda _: importer)
    loaded = xling.load("hf:some/model")
    assert asked == ["hf:some/model"]
    assert isinstance(loaded, xling.Model) and loaded.path == tmp_path


TOPICS = [{"text": "mechi kubwa", "label": "sport"}, {"text": "kura mpya", "label": "politics"}]


@pytest.fixture(scope="module")
def tuned(model: Path, tmp_path_factory: pytest.TempPathFactory) -> xling.Model:
    out = tmp_path_factory.mktemp("tuned") / "topics"
    return xling.load(model).finetune(out, TOPICS * 8, fit={"epochs": 1})


def test_the_examples_of_the_docstrings(
    model: Path,
    tuned: xling.Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/model").symlink_to(model)

    class Translator:
        def translate(self, texts: list[str], **settings: object) -> list[str]:
            return texts

    from xling import api

    known = {"model": xling.load(model), "tuned": tuned, "mt": Translator(), "xling": xling}
    for module, number in ((api, 6), (rows_in_memory, 2)):
        runner = doctest.DocTestRunner()
        tests = [test for test in doctest.DocTestFinder().find(module) if test.examples]
        for test in tests:
            test.globs.update(known)
            runner.run(test)
        assert len(tests) == number and not runner.failures, capsys.readouterr().out


def test_tables_come_back_with_their_predictions(tuned: xling.Model, model: Path) -> None:
    texts = ["mechi kubwa", "kura mpya"]
    expected = tuned.predict(texts, lang="sw")
    frame = pl.DataFrame({"id": [1, 2], "tweet": texts})
    found = tuned.predict(frame, lang="sw")
    assert isinstance(found, pl.DataFrame) and found.columns == ["id", "tweet", "prediction"]
    assert found["prediction"].to_list() == expected and frame.columns == ["id", "tweet"]
    data = datasets.Dataset.from_dict({"text": texts})
    made = tuned.predict(data, lang="Swahili")
    assert isinstance(made, datasets.Dataset) and list(made["prediction"]) == expected
    plain = xling.load(model)
    np.testing.assert_array_equal(plain.encode(frame, lang="sw"), plain.encode(texts, lang="sw"))
    named = frame.select(pl.col("tweet").alias("maandishi"))
    assert tuned.predict(named, lang="sw")["prediction"].to_list() == expected
    with pytest.raises(UserError, match="a column prediction"):
        tuned.predict(found, lang="sw")
    with pytest.raises(UserError, match="no column text among id"):
        tuned.predict(frame.select("id"), lang="sw")
    with pytest.raises(UserError, match="texts of text"):
        tuned.predict(pl.DataFrame({"text": ["mechi", None]}), lang="sw")


def test_rows_of_a_table_are_those_of_its_file(tuned: xling.Model, tmp_path: Path) -> None:
    file = tmp_path / "sw.test.tsv"
    file.write_text("text\tlabel\n" + "".join(f"{row['text']}\t{row['label']}\n" for row in TOPICS))
    settings = {"systems": ["pretrained"]}
    expected = tuned.evaluate(classes=str(file), **settings)
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["sport", "politics"])}
    )
    data = datasets.Dataset.from_dict(
        {"text": [row["text"] for row in TOPICS], "label": [0, 1]}, features=features
    )
    for rows in (TOPICS, pl.DataFrame(TOPICS), data):
        scores = tuned.evaluate(rows=rows, lang="Kiswahili", **settings)
        assert [(s.lang, s.metric, s.value) for s in scores] == [
            (s.lang, s.metric, s.value) for s in expected
        ]


def test_numbers_of_classes_are_read_as_their_names(tmp_path: Path) -> None:
    tags = datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER"]))
    features = datasets.Features({"tokens": datasets.Sequence(datasets.Value("string")), "ner_tags": tags})
    data = datasets.Dataset.from_dict(
        {"tokens": [["Amina", "alifika"]], "ner_tags": [[1, 0]]}, features=features
    )
    assert rows_in_memory.records_of(data) == [{"tokens": ["Amina", "alifika"], "ner_tags": ["B-PER", "O"]}]
    assert rows_in_memory.write(data, tmp_path / "sw.train.jsonl") == "tags"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no rows"),
        ("a text", "type str"),
        ([{"text": "a"}], "with the columns text"),
        ([{"x": 1, "y": 2, "z": 3}], "with the columns x, y, z"),
    ],
)
def test_rows_that_are_no_rows(rows: object, message: str, model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        xling.load(model).finetune(tmp_path / "out", rows)  # type: ignore[arg-type]
    assert not (tmp_path / "out.rows").exists()


class Frame:
    """What a frame of pandas does where it is gone through: it gives the names of its columns."""

    columns = ("text",)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"text": ["mechi", "kura"]}, "of the type dict"),
        (datasets.DatasetDict({"test": datasets.Dataset.from_dict({"text": ["mechi"]})}), "the type DatasetDict"),
        (Frame(), "of the type Frame"),
        ({"mechi", "kura"}, "of the type set"),
        (pl.LazyFrame({"text": ["mechi"]}), "of the type LazyFrame"),
        (None, "of the type NoneType"),
        ([None], "None"),
        ([1.5], "1.5"),
        ("mechi", "one string"),
    ],
)  # fmt: skip
def test_what_gives_names_or_no_order_is_not_taken_for_texts(
    texts: Any, message: str, tuned: xling.Model, model: Path
) -> None:
    for call in (tuned.predict, xling.load(model).encode):
        with pytest.raises(UserError, match=message):
            call(texts, lang="sw")


def test_half_of_a_character_is_read_as_an_unknown_one(
    tuned: xling.Model, model: Path, tmp_path: Path
) -> None:
    cut, whole = ["mechi \ud83d kubwa"], ["mechi \ufffd kubwa"]
    plain = xling.load(model)
    np.testing.assert_array_equal(plain.encode(cut), plain.encode(whole))
    assert tuned.predict(cut) == tuned.predict(whole)
    rows_in_memory.write([{"text": cut[0], "label": "a"}], tmp_path / "rows.jsonl")
    assert json.loads((tmp_path / "rows.jsonl").read_text()) == {"text": whole[0], "label": "a"}


def test_values_of_numpy_and_torch_are_those_of_python(tmp_path: Path) -> None:
    texts = {"text": ["a", "b"], "label": [1, 0]}
    rows: list[Any] = [
        [{"text": "a", "label": np.bool_(True)}, {"text": "b", "label": np.bool_(False)}],
        datasets.Dataset.from_dict(texts).with_format("torch"),
        datasets.Dataset.from_dict({"tokens": [["a", "b"]], "tags": [["O", "B-X"]]}).with_format("numpy"),
    ]
    found = []
    for each in rows:
        rows_in_memory.write(each, tmp_path / "rows.jsonl")
        found.append([json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()])
    assert [row["label"] for row in found[0]] == [True, False]
    assert [row["label"] for row in found[1]] == [1, 0]
    assert found[2] == [{"tokens": ["a", "b"], "tags": ["O", "B-X"]}]


def test_rows_of_a_program_in_other_forms(tmp_path: Path) -> None:
    names = datasets.ClassLabel(names=["O", "B-PER"])
    features = datasets.Features(
        {"tokens": datasets.List(datasets.Value("string")), "tags": datasets.List(names)}
    )
    data = datasets.Dataset.from_dict({"tokens": [["Amina", "ate"]], "tags": [[1, 0]]}, features=features)
    for form in ("numpy", "torch", "arrow", "pandas", "polars"):
        found = rows_in_memory.records_of(data.with_format(form))
        assert found == [{"tokens": ["Amina", "ate"], "tags": ["B-PER", "O"]}], form
    rows = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]
    assert rows_in_memory.records_of(row for row in rows) == rows
    assert rows_in_memory.records_of([{0: "a", None: "x"}]) == [{"0": "a", "None": "x"}]
    with pytest.raises(UserError, match=r"b'a'; valid: texts; fix: decode it"):
        rows_in_memory.write([{"text": b"a", "label": "x"}], tmp_path / "rows.jsonl")


@pytest.mark.parametrize(
    "texts", [np.array("mechi"), b"mechi", [b"mechi"], [3], [float("nan")], [Path("a")], [[]]]
)
@pytest.mark.parametrize("columns", [("text",), ("token",), ("text_a", "text_b")])
def test_what_is_no_text_is_refused_by_every_task(
    texts: Any, columns: tuple[str, ...], tuned: xling.Model
) -> None:
    labeller = Labeller(tuned.path)
    with mock.patch.object(Labeller, "columns", columns), pytest.raises(UserError, match="texts"):
        [labeller.cells_of(item) for item in rows_in_memory.texts_of(texts, "predict", others=True)]


def test_pairs_in_python_have_two_texts_under_any_usual_names(tuned: xling.Model) -> None:
    labeller = Labeller(tuned.path)
    with mock.patch.object(Labeller, "columns", ("text_a", "text_b")):
        wanted = {"text_a": "a", "text_b": "b"}
        for item in (
            ("a", "b"),
            ["a", "b"],
            np.array(["a", "b"]),
            {"premise": "a", "hypothesis": "b"},
            wanted,
        ):
            assert labeller.cells_of(item) == wanted
        for item in (("a", "b", "yes"), ("a",), ("a", ""), "ab"):
            with pytest.raises(UserError, match="texts of text_a, text_b"):
                labeller.cells_of(item)
    with mock.patch.object(Labeller, "columns", ("token",)):
        assert labeller.cells_of({"tokens": ["a", "b"]}) == {"token": ["a", "b"]}


def test_a_layer_that_is_no_number(model: Path) -> None:
    with pytest.raises(UserError, match="layer=last; valid: -1 to"):
        xling.load(model).encode(["mechi"], layer="last")  # type: ignore[arg-type]
