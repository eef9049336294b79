"""Documents through Parquet and back, and parts that are complete or absent."""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.core.output.parts import Workspace, read_json
from xling.corpora.card.ledgers import RejectLog, ledger_from_json, ledger_to_json, merged_ledger
from xling.corpora.common.shards import read_corpus, read_documents, write_documents
from xling.text.document import Document, Ledger

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_META = st.dictionaries(st.sampled_from(["title", "num_pii_email"]), _TEXT | st.integers(0, 9))
_DOCS = st.lists(st.builds(Document, id=_TEXT, text=_TEXT, url=_TEXT, date=_TEXT, lang=_TEXT, meta=_META))


@given(_DOCS)
def test_documents_come_back_as_they_were(docs: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        write_documents(path, docs)
        assert list(read_documents(path)) == docs


def test_the_same_documents_give_the_same_bytes_in_bounded_groups(tmp_path: Path) -> None:
    docs = [
        Document(str(i), "neno " * 400_000, meta={"lang_score": 0.5, "perplexity": 2.5}) for i in range(9)
    ]
    for name in ("a", "b"):
        write_documents(tmp_path / name, docs)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert pq.ParquetFile(tmp_path / "a").metadata.num_row_groups == 2
    assert next(iter(read_documents(tmp_path / "a"))).meta == {"lang_score": 0.5, "perplexity": 2.5}


def test_no_corpus_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no corpus in"):
        next(read_corpus(tmp_path))


def test_a_part_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)

    def fail() -> None:
        with workspace.write_part("read", 3) as made:
            (made / "docs").write_text("half", encoding="utf-8")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list((tmp_path / "read").iterdir())
    with workspace.write_part("read", 3) as made:
        (made / "docs").write_text("whole", encoding="utf-8")
        assert not workspace.part("read", 3).exists()
    assert (workspace.part("read", 3) / "docs").read_text(encoding="utf-8") == "whole"


def test_of_two_workers_on_one_part_the_faster_wins(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with workspace.write_part("read", 0) as slow:
        (slow / "by").write_text("slow", encoding="utf-8")
        aside = slow.rename(tmp_path / "aside")
        with workspace.write_part("read", 0) as fast:
            (fast / "by").write_text("fast", encoding="utf-8")
        aside.rename(slow)
    assert (workspace.part("read", 0) / "by").read_text(encoding="utf-8") == "fast"
    assert [p.name for p in (tmp_path / "read").iterdir()] == ["00000"]


def test_rejects_are_written_and_ledgers_add_up(tmp_path: Path) -> None:
    for i in range(2):
        folder = tmp_path / str(i)
        folder.mkdir()
        with RejectLog(folder, {("a", "part")}, num_samples=3, max_chars=5) as log:
            for number in range(4):
                doc = Document(f"{i}/{number}", "maneno mengi", url="u", lang="sw")
                log.count_seen("a", doc)
                log.drop("a", "whole", doc)
                log.drop("a", "part", doc, "neno")
            log.count_event("seen", 2)
        assert read_json(folder / "counters.json")["histograms"]["length dropped"] == {"10": 4}
    rows = pl.read_parquet(tmp_path / "*" / "rejects.parquet").sort("id", "reason").to_dicts()
    assert len(rows) == 16
    assert rows[1] == {
        "id": "0/0", "stage": "a", "reason": "whole", "url": "u", "lang": "sw", "text": "manen"
    }  # fmt: skip
    total = merged_ledger([tmp_path / "0", tmp_path / "1"], 5)
    assert total.dropped == {("a", "whole"): 8, ("a", "part"): 8}
    assert total.notes == {"seen": 4}
    assert [name for name, _ in total.samples["a", "whole"]] == ["0/0", "0/1", "0/2", "1/0", "1/1"]
    assert ledger_from_json(ledger_to_json(total)) == total


def test_rejects_may_be_turned_off(tmp_path: Path) -> None:
    with RejectLog(tmp_path, set(), max_chars=0) as log:
        log.drop("a", "b", Document("1", "x"))
    assert not (tmp_path / "rejects.parquet").exists()
    assert isinstance(log, Ledger)
