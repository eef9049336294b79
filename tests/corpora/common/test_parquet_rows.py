"""Rows of Parquet files whose values are many times larger than the files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.corpora.reading import read
from xling.text.files import parquet_pages, parquet_rows, thrift
from xling.text.files.parquet_rows import DamagedCell, LongCell, read_rows


def test_a_dictionary_of_values_is_not_repeated_for_each_row(tmp_path: Path) -> None:
    values = pa.array(["many people went " * 50_000, "x" * 200])
    places = pa.array([0, 1, None, 0] + [0] * 996, pa.int32())
    table = pa.table({"text": pa.DictionaryArray.from_arrays(places, values)})
    pq.write_table(table, tmp_path / "a.parquet")
    rows = list(read_rows(tmp_path / "a.parquet", list, max_bytes=1_000_000))
    texts = [row["text"] for row in rows if row]
    assert len(rows) == len(texts) == 1000 and texts[1:3] == ["x" * 200, None]
    assert all(text is texts[4] for text in texts[4:64])  # one text in a batch, not 60 of 850 kB
    bounded = list(read_rows(tmp_path / "a.parquet", list, max_bytes=1000))
    assert isinstance(bounded[0]["text"], DamagedCell) and bounded[1]["text"] == "x" * 200


def test_plain_strings_that_the_file_keeps_once_are_not_unpacked(tmp_path: Path) -> None:
    values, places = ["x" * 1_000_000, "y", "\u00e9t\u00e9"], [0] * 600 + [1, 2, None, 0, 1]
    column = pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), values)
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet", store_schema=False)
    assert pq.read_schema(tmp_path / "a.parquet").field("text").type == pa.string()
    before = pa.total_allocated_bytes()
    texts = []
    for row in read_rows(tmp_path / "a.parquet", list):
        texts.append(row["text"] if row else "damaged")
        assert pa.total_allocated_bytes() - before < 20_000_000  # unpacked, 64 rows take 64 MB
    assert texts == [None if place is None else values[place] for place in places]


def test_texts_after_a_full_dictionary_are_read_as_they_are(tmp_path: Path) -> None:
    wanted = [f"row {n % 700} of the same" for n in range(3000)] + [None, "", "end"]
    table = pa.table({"text": wanted, "numbers": list(range(3003))})
    for limit in (100, 10_000, 1_000_000):
        pq.write_table(table, tmp_path / "a.parquet", dictionary_pagesize_limit=limit, data_page_size=500)
        rows = [row or {} for row in read_rows(tmp_path / "a.parquet", list)]
        assert [row["text"] for row in rows] == wanted
        assert [row["numbers"] for row in rows] == list(range(3003))


def test_cells_are_the_same_whether_read_at_once_or_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dictionary of short values is unpacked; a row group with a long one or with bad bytes is not."""
    texts = [None, "", "é\n", "x" * 300, *(f"{n % 7}" for n in range(200))]
    many = [f"{n}" for n in range(len(texts))]
    raw = pa.array([b"good", b"\xff", None, *([b"fine"] * (len(texts) - 3))]).view(pa.string())
    table = pa.table({"text": texts, "many": many, "raw": raw, "large": pa.array(texts, pa.large_string())})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema) as file:
        for part in (table, table[:0], table[40:]):
            file.write_table(part)

    def rows(max_bytes: int) -> list[list[object]]:
        read = read_rows(tmp_path / "a.parquet", list, max_bytes)
        return [
            [type(cell) if isinstance(cell, DamagedCell) else cell for cell in (row or {}).values()]
            for row in read
        ]

    wanted = {limit: rows(limit) for limit in (1000, 200)}
    assert [row[0] for row in wanted[1000]] == texts + texts[40:]
    assert wanted[1000][1][2] is DamagedCell and wanted[200][3][0] is wanted[200][3][3] is LongCell
    monkeypatch.setattr(parquet_rows, "_LONG_BYTES", -1)
    assert {limit: rows(limit) for limit in wanted} == wanted


def _batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the rows of each batch that is asked for are added."""
    asked, real = [], pq.ParquetFile.iter_batches

    def iter_batches(self: pq.ParquetFile, size: int, **settings: object) -> object:
        asked.append(size)
        return real(self, size, **settings)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    return asked


@pytest.mark.parametrize("lists", [False, True])
def test_rows_on_large_pages_are_read_one_by_one(
    lists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"{n}" * 1000 for n in range(70)]
    column = [[text] for text in texts] if lists else texts
    settings = {"use_dictionary": False, "compression": "zstd"}
    pq.write_table(
        pa.table({"text": column}), tmp_path / "a.parquet", **settings, data_page_size=10, write_batch_size=1
    )
    for limit, rows_at_once in ((140_000, 64), (40_000, 1)):
        monkeypatch.setattr(parquet_rows, "MAX_PAGE_BYTES", limit)
        asked = _batches(monkeypatch)
        assert [row and row["text"] for row in read_rows(tmp_path / "a.parquet", list)] == column
        assert asked == [rows_at_once]


def test_a_page_over_the_limit_costs_its_row_group_and_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([("text", pa.string()), ("lists", pa.list_(pa.string()))])
    with pq.ParquetWriter(tmp_path / "a.parquet", schema, use_dictionary=False) as file:
        for text, words in (("a" * 900, ["a"]), ("b" * 1100, ["b"]), ("c", ["c" * 20] * 99), ("d", ["d"])):
            file.write_table(pa.table({"text": [text], "lists": [words]}, schema))
    monkeypatch.setattr(parquet_pages, "MAX_PAGE_BYTES", 1000)
    of_text = [row and row["text"][:1] for row in read_rows(tmp_path / "a.parquet", lambda names: ["text"])]
    assert of_text == ["a", None, "c", "d"]
    monkeypatch.setattr(parquet_pages, "MAX_PAGE_BYTES", 10_000)
    monkeypatch.setattr(parquet_pages, "MAX_LISTS_BYTES", 2000)
    of_lists = [
        row and row["lists"][0][:1] for row in read_rows(tmp_path / "a.parquet", lambda names: ["lists"])
    ]
    assert of_lists == ["a", "b", None, "d"]


def test_a_group_that_says_to_have_more_rows_than_the_file_has_bytes_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"] * 5}), path, use_dictionary=False, compression=None)
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    footer = thrift.read_struct(content[-8 - size : -8])[0]
    group = thrift.get(footer, 4)[0]
    group[3] = footer[3] = (thrift.I64, 1 << 60)
    thrift.get(thrift.get(group, 1)[0], 3)[5] = (thrift.I64, 1 << 60)
    made = thrift.written(footer)
    data = b"PAR1" + b"\xff" * (len(content) - size - 12)  # no head of a page
    path.write_bytes(data + made + len(made).to_bytes(4, "little") + b"PAR1")
    rows = list(read_rows(path, list))
    assert rows == [None] * path.stat().st_size


def test_the_most_bytes_that_rows_take(tmp_path: Path) -> None:
    """Eight pages of ten texts of 100 bytes, and one of four: five rows lie on three pages at most."""
    settings = {"use_dictionary": False, "compression": None, "data_page_size": 10, "write_batch_size": 10}
    pq.write_table(pa.table({"text": ["x" * 100] * 84}), tmp_path / "a.parquet", **settings)
    column = pq.read_metadata(tmp_path / "a.parquet").row_group(0).column(0)
    place = column.data_page_offset, column.total_compressed_size, column.num_values
    with (tmp_path / "a.parquet").open("rb") as file:
        found = [parquet_pages.most_bytes(file, place, rows) // 1000 for rows in (5, 10, 30, 64)]
        with pytest.raises(ValueError, match="damaged head"):
            parquet_pages.most_bytes(file, (place[0] + 2, *place[1:]), 1)
    assert found == [3, 4, 6, 8]


@pytest.mark.parametrize(
    "head",
    [
        {1: (thrift.I32, 0), 2: (thrift.LIST, (thrift.I32, [1])), 3: (thrift.I32, 1)},
        {1: (thrift.BINARY, b"x"), 2: (thrift.I32, 1), 3: (thrift.I32, 1)},
        {1: (thrift.I32, 0), 2: (thrift.I32, 1), 3: (thrift.I32, 1), 5: (thrift.I32, 4)},
        {1: (thrift.I32, 0), 2: (thrift.I32, 1), 3: (thrift.TRUE, None)},
    ],
)
def test_a_field_of_another_type_in_the_head_of_a_page_is_damage(tmp_path: Path, head: thrift.Struct) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": [f"{i:>40}" for i in range(9)]}), path, row_group_size=3, use_dictionary=False
    )
    place = pq.read_metadata(path).row_group(1).column(0).data_page_offset
    data, new = path.read_bytes(), thrift.written(head)
    path.write_bytes(data[:place] + new + data[place + len(new) :])
    rows = list(read_rows(path, list))
    assert [row["text"].strip() if row else None for row in rows] == [*"012", None, None, None, *"678"]


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("head", [True, False])
def test_damage_in_one_column_leaves_the_others_of_its_row_group(
    tmp_path: Path, codec: str, head: bool
) -> None:
    """A date that cannot be read costs no text, and is not there; of a text that is lost the row is."""
    path = tmp_path / "a.parquet"
    words = [f"Habari ya asubuhi {i}, karibu sana." for i in range(210)]
    dates = [f"2024-05-{i % 28 + 1:02d}" for i in range(210)]
    table = pa.table({"text": words, "date": dates, "url": [f"http://a/{i}" for i in range(210)]})
    pq.write_table(table, path, row_group_size=70, compression=codec, use_dictionary=False)
    whole, found = path.read_bytes(), pq.read_metadata(path)
    for number, name in enumerate(table.column_names):
        column = found.row_group(1).column(number)
        start = column.data_page_offset + (0 if head else column.total_compressed_size // 2)
        path.write_bytes(whole[:start] + b"\xff" * 40 + whole[start + 40 :])
        rows = list(read_rows(path, list))
        assert [row["text"] for row in rows if row and isinstance(row["text"], str)][:70] == words[:70]
        lost = {key for row in rows[70:140] for key, cell in row.items() if isinstance(cell, DamagedCell)}
        assert lost == {name}
        assert rows[:70] + rows[140:] == table.to_pylist()[:70] + table.to_pylist()[140:]
        docs, ledger = read(f"parquet:{path}")
        if name == "text":
            assert 140 <= len(docs) < 210
            assert set(ledger.dropped) <= {("read", "damaged row group"), ("read", "not text")}
        else:
            assert [doc.text for doc in docs] == words
            assert [doc.date for doc in docs[:70]] == dates[:70]
