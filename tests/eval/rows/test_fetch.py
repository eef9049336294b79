"""Rows from `datasets` are equal to rows from local files; the hub is stood in for by folders with its columns."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import datasets
import pytest

from xling.core.errors import UserError
from xling.eval.rows import fetch
from xling.eval.rows.fetch import FetchConfig
from xling.eval.rows.suite import languages_at, load, scored_split, suites

NLI = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
TAGS = datasets.ClassLabel(names=["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"])
TEXT = datasets.Value("string")


def hub(folder: Path, config: str, split: str, rows: list[dict[str, Any]], features: Any) -> str:
    """A dataset as a folder with one configuration, as the hub lays it out."""
    data = datasets.Dataset.from_list(rows, features=datasets.Features(features))
    path = folder / config / f"{split}-00000-of-00001.parquet"
    path.parent.mkdir(parents=True)
    data.to_parquet(path)
    (folder / "README.md").write_text(
        f"---\nconfigs:\n- config_name: {config}\n  data_files:\n"
        f"  - split: {split}\n    path: {config}/{split}-*\n---\n"
    )
    return str(folder)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


CASES: list[tuple[str, str, str, list[dict[str, Any]], Any, str, str]] = [
    (
        "xnli",
        "sw",
        "sw",
        [{"premise": "a", "hypothesis": "b", "label": 2}, {"premise": "c", "hypothesis": "d", "label": 0}],
        {"premise": TEXT, "hypothesis": TEXT, "label": NLI},
        "nli/xnli.test.xx.tsv",
        "premise\thypothesis\tlabel\na\tb\tcontradiction\nc\td\tentailment\n",
    ),
    (
        "panx",
        "sw",
        "sw",
        [{"tokens": ["Amina", "went"], "ner_tags": [1, 0]}],
        {"tokens": datasets.List(TEXT), "ner_tags": datasets.List(TAGS)},
        "ner/panx/xx.test.tsv",
        "Amina\tB-PER\nwent\tO\n\n",
    ),
    (
        "sib200",
        "sw",
        "swh_Latn",
        [{"index_id": 7, "category": "sports", "text": "mpira"}],
        {"index_id": datasets.Value("int64"), "category": TEXT, "text": TEXT},
        "sib200/xx.test.tsv",
        "index_id\tcategory\ttext\n7\tsports\tmpira\n",
    ),
    (
        "pawsx",
        "de",
        "de",
        [{"id": 4, "sentence1": "a", "sentence2": "b", "label": 1}],
        {
            "id": datasets.Value("int32"),
            "sentence1": TEXT,
            "sentence2": TEXT,
            "label": datasets.ClassLabel(names=["0", "1"]),
        },
        "pawsx/test.xx.tsv",
        "sentence1\tsentence2\tlabel\na\tb\t1\n",
    ),
    (
        "xcopa",
        "sw",
        "sw",
        [
            {
                "premise": "p",
                "choice1": "a",
                "choice2": "b",
                "question": "cause",
                "label": 1,
                "idx": 3,
                "changed": False,
            }
        ],
        {
            **dict.fromkeys(("premise", "choice1", "choice2", "question"), TEXT),
            "label": datasets.Value("int32"),
            "idx": datasets.Value("int32"),
            "changed": datasets.Value("bool"),
        },
        "xcopa/test.xx.jsonl",
        '{"premise": "p", "choice1": "a", "choice2": "b", "question": "cause", "label": 1, "idx": 3}\n',
    ),
]


@pytest.mark.parametrize(("suite", "lang", "config", "rows", "features", "file", "text"), CASES)
def test_online_rows_equal_local_rows(
    tmp_path: Path, suite: str, lang: str, config: str, rows: Any, features: Any, file: str, text: str
) -> None:
    name = hub(tmp_path / "hub", config, "test", rows, features)
    data = tmp_path / "data"
    data.mkdir()
    said = fetch.run(FetchConfig(suite, (lang,), ("test",), data, name))
    assert f"rows/{suite}/{lang}.test.jsonl: {len(rows)} rows" in said
    path = data / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    fetched = load(suites()[suite], lang, "test", data)
    assert fetched == load(suites()[suite], "xx", "test", data)
    assert lang in languages_at(suites()[suite], "test", data)
    assert scored_split(suites()[suite], lang, data) == "test"


def test_questions_equal_but_for_the_paragraph_number(tmp_path: Path) -> None:
    answers = {"text": datasets.List(TEXT), "answer_start": datasets.List(datasets.Value("int32"))}
    rows = [{"id": "q", "context": "abc", "question": "?", "answers": {"text": ["b"], "answer_start": [1]}}]
    features = {"id": TEXT, "context": TEXT, "question": TEXT, "answers": answers}
    name = hub(tmp_path / "hub", "xquad.sw", "validation", rows, features)
    ((_, _, found),) = fetch.fetch(suites()["xquad"], "sw", "test", name)
    qas = [{"id": "q", "question": "?", "answers": [{"text": "b", "answer_start": 1}]}]
    path = tmp_path / "data/xquad/xquad.xx.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "abc", "qas": qas}]}]}))
    (local,) = load(suites()["xquad"], "xx", "test", tmp_path / "data")
    assert (found.id, found.label) == (local.id, local.label)
    assert {**found.fields, "paragraph": 0} == local.fields


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"suite 'tatoeba' has no online source; valid: .*xnli"):
        list(fetch.fetch(suites()["tatoeba"], "de", "test"))
    name = hub(tmp_path / "hub", *CASES[0][2:3], "test", CASES[0][3], CASES[0][4])
    with pytest.raises(UserError, match=r"gave no 'test' rows of 'xx'"):
        list(fetch.fetch(suites()["xnli"], "xx", "test", name))


def test_a_dataset_of_the_hub_is_asked_for_at_its_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def load_dataset(*words: Any, **named: Any) -> Any:
        asked.append((words, named))
        return datasets.Dataset.from_list(CASES[0][3], features=datasets.Features(CASES[0][4]))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert len(list(fetch.fetch(suites()["xnli"], "sw", "dev"))) == 2
    assert len(list(fetch.fetch(suites()["xnli"], "sw", "test", "me/mine", "0123abc"))) == 2
    assert asked == [
        (
            ("facebook/xnli", "sw"),
            {"split": "validation", "revision": "b8dd5d7af51114dbda02c0e3f6133f332186418e"},
        ),
        (("me/mine", "sw"), {"split": "test", "revision": "0123abc"}),
    ]


def test_rows_of_ones_own_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "rows/toy_ner/sw.test.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"id": "1", "fields": {"tokens": ["a"]}, "label": ["B-PER"]}\n')
    (row,) = load(suites()["toy_ner"], "sw", "test", tmp_path)
    assert (row.fields["tokens"], row.label) == (("a",), ("B-PER",))
    path.write_text('{"id": "1", "fields": {"tokens": ["a"]}, "label": ["B-PET"]}\n')
    with pytest.raises(UserError, match=r"sw\.test\.jsonl:1: unknown label 'PET'"):
        load(suites()["toy_ner"], "sw", "test", tmp_path)
    path.write_text('{"id": "1", "label": []}\n')
    with pytest.raises(UserError, match=r"sw\.test\.jsonl:1: not a row: 'fields'"):
        load(suites()["toy_ner"], "sw", "test", tmp_path)


def test_rows_of_ones_own_beside_the_published_ones_are_not_passed_over(tmp_path: Path) -> None:
    own, published = tmp_path / "rows/toy_ner/sw.test.jsonl", tmp_path / "ner/sw.test.tsv"
    for path, text in (
        (own, '{"id": "1", "fields": {"tokens": ["a"]}, "label": ["O"]}\n'),
        (published, "b\tO\n"),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    with pytest.raises(UserError, match=r"both have the test rows of toy_ner in sw; valid: one of them"):
        load(suites()["toy_ner"], "sw", "test", tmp_path)
    own.unlink()
    assert load(suites()["toy_ner"], "sw", "test", tmp_path)


@pytest.mark.data
def test_real_rows_survive_the_common_format(tmp_path: Path) -> None:
    data = Path(os.environ["XLING_DATA"])
    for name, suite in suites().items():
        for split in suite.splits[-1:]:
            for lang in languages_at(suite, split, data)[:1]:
                rows = load(suite, lang, split, data)
                path = tmp_path / f"rows/{name}/{lang}.{split}.jsonl"
                path.parent.mkdir(parents=True, exist_ok=True)
                records = ({"id": r.id, "fields": dict(r.fields), "label": r.label} for r in rows)
                path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records))
                assert load(suite, lang, split, tmp_path) == rows
