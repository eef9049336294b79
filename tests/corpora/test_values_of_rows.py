"""Values of JSON and Parquet rows of all types: text is text, a date is ISO 8601, all else is counted."""

import datetime
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.common.json_rows import TWICE_NOTE, read_values
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.corpora.sources.jsonl import as_date, as_text
from xling.corpora.sources.source import Context, open_source
from xling.text.document import Ledger

TEXTS = [f"Maktaba {i} ilifunguliwa." for i in range(10)]
DAY = datetime.date(2024, 5, 1)
NOON = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)


def documents(uri):
    ledger = Ledger()
    source = open_source(uri, Context(lang="sw"))
    docs = [doc for shard in source.shards() for doc in source.read(shard, ledger)]
    assert ledger.seen["read"] == len(docs) + sum(ledger.dropped.values())
    return docs, {reason: num for (_, reason), num in ledger.dropped.items()}


def pairs(uri):
    ledger = Ledger()
    context = SourceContext(languages.get("en"), languages.get("sw"))
    found = [row for source in open_sources([uri], context) for row in source.rows(ledger)]
    return found, {reason: num for (_, reason), num in ledger.dropped.items()}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (b"\xc3\xa9", "é"),
        (b"\xe9", None),
        (["a", "b"], "a\nb"),
        (["a", b"b", ""], "a\nb"),
        (["a", 1], None),
        ([["a"]], None),
        ({"sw": "a"}, None),
        (float("nan"), None),
        (True, None),
        (12, None),
        (DAY, None),
    ],
)
def test_text(value, text):
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("2024-05-01", "2024-05-01"),
        ("2024-05", "2024-05"),
        ("2024", "2024"),
        ("2024-05-01T10:00:00Z", "2024-05-01T10:00:00Z"),
        ("2024-05-01T10:00:00+02:00", "2024-05-01T10:00:00+02:00"),
        ("2024-05-01 10:00:00", "2024-05-01T10:00:00"),
        ("2024-05-01 10:00:00 UTC", "2024-05-01T10:00:00Z"),
        (20240501, "2024-05-01"),
        ("20240501100000", "2024-05-01T10:00:00"),
        (1714557600, "2024-05-01T10:00:00Z"),
        (1714557600123, "2024-05-01T10:00:00Z"),
        ("1714557600", "2024-05-01T10:00:00Z"),
        ("Wed, 01 May 2024 10:00:00 GMT", "2024-05-01T10:00:00Z"),
        (DAY, "2024-05-01"),
        (NOON, "2024-05-01T12:00:00+00:00"),
        ("01/05/2024", ""),
        ("2024-13-01", ""),
        ("2024-13", ""),
        ("20241301", ""),
        ("soon", ""),
        (True, ""),
        (float("nan"), ""),
        (1e300, ""),
        ({"$date": 1}, ""),
        (["2024-05-01"], ""),
        (None, ""),
    ],
)
def test_dates(value, date):
    assert as_date(value) == date


def test_json_rows(tmp_path):
    rows = [
        {"text": TEXTS[0], "url": ["http://a", "http://b"], "date": "1/2/2024", "lang": ["sw", "en"]},
        {"text": [TEXTS[1], TEXTS[2]], "url": {"a": 1}, "date": 20240501, "lang": "sw"},
        {"text": float("nan"), "content": TEXTS[3]},
        *({"text": value} for value in (float("nan"), True, 3, {"sw": "x"}, ["a", None])),
        {"text": None},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    docs, dropped = documents(f"jsonl:{tmp_path}/a.jsonl")
    assert [doc.text for doc in docs] == [TEXTS[0], f"{TEXTS[1]}\n{TEXTS[2]}", TEXTS[3]]
    assert [(doc.url, doc.date, doc.meta) for doc in docs[:2]] == [
        ("http://a", "", {}),
        ("", "2024-05-01", {"declared_lang": "sw"}),
    ]
    assert dropped == {"not text": 5, "empty": 1}


def bad_bytes(texts, place):
    """An array of strings, one of which is not UTF-8."""
    cells = [text.encode() for text in texts]
    cells[place] = b"Maktaba \xff\xfe ilifunguliwa."
    binary = pa.array(cells, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(cells), binary.buffers())


@pytest.mark.parametrize(
    ("column", "texts", "num_lost"),
    [
        (pa.array(TEXTS), TEXTS, 0),
        (pa.array(TEXTS, pa.large_string()), TEXTS, 0),
        (pa.array(TEXTS).dictionary_encode(), TEXTS, 0),
        (pa.array([text.encode() for text in TEXTS]), TEXTS, 0),
        (pa.array([[text, "Mbili"] for text in TEXTS]), [f"{text}\nMbili" for text in TEXTS], 0),
        (pa.array([{"sw": text} for text in TEXTS]), [], 10),
        (pa.array(range(10)), [], 10),
        (bad_bytes(TEXTS, 3), [*TEXTS[:3], *TEXTS[4:]], 1),
    ],
)
def test_parquet_columns(tmp_path, column, texts, num_lost):
    pq.write_table(pa.table({"text": column, "n": range(10)}), tmp_path / "a.parquet")
    docs, dropped = documents(f"parquet:{tmp_path}/a.parquet")
    assert [doc.text for doc in docs] == texts
    assert sum(dropped.values()) == num_lost
    found, dropped = pairs(f"parquet:{tmp_path}/a.parquet#text+text")
    assert sum(dropped.values()) == 10 - len(found)
    assert [row[0] for row in found] == (texts if column.type != pa.list_(pa.string()) else [])


def test_times_that_python_does_not_have(tmp_path):
    late = pa.array([10**17] * 9 + [0]).cast(pa.timestamp("ms"))
    nanoseconds = pa.array([1714557600 * 10**9 + 1] * 10).cast(pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"text": TEXTS, "date": late, "other": late}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": TEXTS, "date": nanoseconds}), tmp_path / "b.parquet")
    docs, dropped = documents(f"parquet:{tmp_path}/a.parquet")
    assert [doc.date for doc in docs] == [""] * 9 + ["1970-01-01T00:00:00"]
    assert not dropped
    assert {doc.date for doc in documents(f"parquet:{tmp_path}/b.parquet")[0]} == {
        "2024-05-01T10:00:00+00:00"
    }


def test_a_damaged_row_group_costs_its_rows(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"en": TEXTS, "text": TEXTS}), path, row_group_size=2, compression="zstd")
    data = bytearray(path.read_bytes())
    for name in ("en", "text"):
        place = pq.ParquetFile(path).metadata.row_group(2).column(("en", "text").index(name)).data_page_offset
        data[place : place + 40] = bytes(40)
    path.write_bytes(data)
    docs, dropped = documents(f"parquet:{path}")
    assert [doc.text for doc in docs] == TEXTS[:4] + TEXTS[6:]
    assert dropped == {"damaged row group": 2}
    found, dropped = pairs(f"parquet:{path}#en+text")
    assert len(found) == 8
    assert dropped == {"malformed": 2}
    path.write_bytes(data[:-20])
    assert documents(f"parquet:{path}") == ([], {"damaged Parquet file": 1})


def test_the_field_of_the_text_may_be_named(tmp_path):
    rows = [{"text": "a title", "body": text} for text in TEXTS]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in [*rows, {"text": "no body"}]))
    docs, dropped = documents(f"jsonl:{tmp_path}/a.jsonl#body")
    assert [doc.text for doc in docs] == TEXTS and dropped == {"no text field": 1}
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert [doc.text for doc in documents(f"parquet:{tmp_path}/a.parquet#body")[0]] == TEXTS
    with pytest.raises(UserError, match="no column 'bodi'; valid: columns text, body"):
        documents(f"parquet:{tmp_path}/a.parquet#bodi")


def json_rows(texts):
    return [json.dumps({"text": text, "en": text, "sw": text, "tags": ["a"]}) for text in texts]


@pytest.mark.parametrize("raw", [
    "[" + ",\n".join(json_rows(TEXTS)) + "]\n", "[\n" + ",\n".join(json_rows(TEXTS)) + "\n]",
    "\n".join("\x1e" + row for row in json_rows(TEXTS)), "\n,".join(json_rows(TEXTS)).replace("\n,", ",\n"),
])  # fmt: skip
def test_rows_of_an_array_and_of_a_sequence_are_read(raw, tmp_path):
    (tmp_path / "a.jsonl").write_text(raw)
    docs, dropped = documents(f"jsonl:{tmp_path}/a.jsonl")
    assert [doc.text for doc in docs] == TEXTS and not dropped
    found, dropped = pairs(f"jsonl:{tmp_path}/a.jsonl")
    assert [row[0] for row in found] == TEXTS and not dropped


def test_a_cell_over_the_limit_is_told_by_its_limit(tmp_path):
    pq.write_table(pa.table({"text": [*TEXTS, "x" * (64 << 20) + "x"]}), tmp_path / "a.parquet")
    docs, dropped = documents(f"parquet:{tmp_path}/a.parquet")
    assert len(docs) == len(TEXTS) and dropped == {"cell over 64 MiB": 1}


@pytest.mark.parametrize(
    ("line", "num"),
    [
        ('{"text": "kwanza", "text": "pili"}', 1),
        ('{"text": "pili", "meta": {"text": "a"}}', 0),
        ('{"meta": {"a": 1, "a": 2}, "text": "pili"}', 0),
        ('{"text": "say \\"text\\" here", "url": "u"}', 0),
    ],
)
def test_a_field_that_a_row_has_twice_is_told(line: str, num: int) -> None:
    ledger = Ledger()
    assert read_values(line, ledger) == [json.loads(line)]
    assert ledger.notes.get(TWICE_NOTE, 0) == num
