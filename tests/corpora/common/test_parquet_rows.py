"""Rows of Parquet files whose values are many times larger than the files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from xling.corpora.common.parquet_rows import DamagedCell, read_rows


def test_a_dictionary_of_values_is_not_repeated_for_each_row(tmp_path: Path) -> None:
    values = pa.array(["many people went " * 50_000, "x" * 200])
    places = pa.array([0, 1, None, 0] + [0] * 996, pa.int32())
    table = pa.table({"text": pa.DictionaryArray.from_arrays(places, values)})
    pq.write_table(table, tmp_path / "a.parquet")
    rows = list(read_rows(tmp_path / "a.parquet", list, max_bytes=1_000_000))
    texts = [row["text"] for row in rows if row]
    assert len(rows) == len(texts) == 1000 and texts[1:3] == ["x" * 200, None]
    assert all(text is texts[4] for text in texts[3:512])  # one text in a batch, not 510 of 850 kB
    bounded = list(read_rows(tmp_path / "a.parquet", list, max_bytes=1000))
    assert isinstance(bounded[0]["text"], DamagedCell) and bounded[1]["text"] == "x" * 200
