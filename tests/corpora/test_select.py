"""Cutting a published corpus again: by any column, checked before anything is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xling.core.errors import UserError
from xling.corpora.select import SelectConfig, run
from xling.corpora.shards import read_corpus, write_documents
from xling.text.document import Document


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    folder = tmp_path / "sw"
    (folder / "shards").mkdir(parents=True)
    for number in range(2):
        docs = [
            Document(
                f"{number}/{i}",
                "\n".join(["mstari wa maandishi"] * (i + 1)),
                lang="sw",
                meta={"lang_score": i / 10, "cluster_size": i, "filters": {"ended": i / 10, "words": 3 * i}}
                if i
                else {"lang_score": 0.05},
            )
            for i in range(10)
        ]
        write_documents(folder / "shards" / f"sw-{number:05d}.parquet", docs)
    (folder / "manifest.json").write_text(
        json.dumps({"stage": "corpus mono", "config": {}, "inputs": {}}), encoding="utf-8"
    )
    return str(folder)


@pytest.mark.parametrize(
    ("expr", "left"),
    [
        ("lang_score >= 0.85", [9]),
        ("cluster_size = 1", [0, 1]),
        ("lines > 8 AND chars < 180", [8]),
        ("id LIKE '%/3' OR num_pii_email > 0", [3]),
        ("perplexity < 5", []),
        ("ended > 0.75 AND words < 27", [8]),
        ("ended IS NULL", [0]),
    ],
)
def test_documents_are_cut_by_their_columns(tmp_path: Path, corpus: str, expr: str, left: list[int]) -> None:
    counted = run(SelectConfig(corpus, expr))
    assert counted.data["documents"] == 2 * len(left)
    assert counted.data["of_documents"] == 20
    if left:
        run(SelectConfig(corpus, expr, str(tmp_path / "out")))
        whole = {doc.id: doc for doc in read_corpus(Path(corpus))}
        found = list(read_corpus(tmp_path / "out"))
        assert [doc.id for doc in found] == [f"{number}/{i}" for number in range(2) for i in left]
        assert all(doc == whole[doc.id] for doc in found)
    else:
        with pytest.raises(UserError, match="leaves none of 20"):
            run(SelectConfig(corpus, expr, str(tmp_path / "out")))
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("lang_scor > 1", "unknown column 'lang_scor'.*'lang_score'"),
        ("lang_score >", "is not a condition"),
        ("lang_score + 1", "not a condition"),
        ("lang_score > 'high'", "fits no document"),
    ],
)
def test_a_wrong_expression_is_told(corpus: str, expr: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(SelectConfig(corpus, expr))
