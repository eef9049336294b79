"""Cutting a published corpus again: by any column, checked before anything is read."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.corpora.common.shards import read_corpus, write_documents
from xling.corpora.inspect.select import SelectConfig, run
from xling.corpora.parallel.settings import ParallelConfig
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
                | ({"num_boilerplate": 2} if i == 7 else {})
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
        ("num_boilerplate > 1 AND num_duplicate_paragraphs = 0", [7]),
    ],
)
def test_documents_are_cut_by_their_columns(tmp_path: Path, corpus: str, expr: str, left: list[int]) -> None:
    counted = run(SelectConfig(corpus, expr))
    assert counted.data["documents"] == 2 * len(left)
    assert counted.data["of_documents"] == 20
    share = counted.data["characters"] / counted.data["of_characters"]
    assert ("less than half was kept" in str(counted)) == (share < 0.5)
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
        ("lang_score > 'high'", "fits none of the documents"),
    ],
)
def test_a_wrong_expression_is_told(corpus: str, expr: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(SelectConfig(corpus, expr))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "pairs"
    run_local(
        "corpus parallel", ParallelConfig("en-de", ("toyworld:600",), str(out), dev_pairs=20, test_pairs=20)
    )
    return out


def test_sentence_pairs_are_cut_by_what_their_filters_measured(pairs: Path, tmp_path: Path) -> None:
    train = pl.read_parquet(pairs / "shards" / "train.parquet")
    limit = float(train["langid"].median())
    wanted = train.filter(pl.col("langid") > limit)
    expr = f"langid > {limit}"
    assert run(SelectConfig(str(pairs), expr)).data["pairs"] == wanted.height
    out = tmp_path / "cut"
    told = run(SelectConfig(str(pairs), expr, str(out)))
    assert str(told).startswith(f"{wanted.height:,} of {train.height:,} training pairs")
    assert pl.read_parquet(out / "shards" / "train.parquet").equals(wanted)
    assert (out / "train.de").read_text(encoding="utf-8").splitlines() == wanted["tgt"].to_list()
    for name in ("dev.en", "test.de", "shards/dev.parquet"):
        assert (out / name).read_bytes() == (pairs / name).read_bytes()
    again = run(SelectConfig(str(out), "ratio < 1.5 AND src_chars > 10"))
    assert 0 < again.data["pairs"] <= wanted.height
    few = str(run(SelectConfig(str(pairs), "langid > 2")))
    assert f"less than half was kept: 0 of {train.height:,} pairs; 'langid > 2' is not true" in few


@pytest.mark.parametrize(
    ("expr", "message"),
    [("lang_score > 0.9", "column"), ("align >", "not a condition"), ("align", "not a condition"),
     ("ratio > 1000", "leaves none")],
)  # fmt: skip
def test_a_wrong_expression_for_pairs_is_refused(
    pairs: Path, tmp_path: Path, expr: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(SelectConfig(str(pairs), expr, str(tmp_path / "cut")))
    assert not (tmp_path / "cut").exists()
