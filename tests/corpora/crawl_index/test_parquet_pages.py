"""Columns and pages of Parquet from their bytes alone, as pyarrow wrote them."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core import languages
from xling.corpora.crawl_index import cld2, parquet_pages
from xling.corpora.crawl_index.parquet_pages import Footer
from xling.text.files import parquet_pages as unpacked_pages
from xling.text.files import thrift

ROWS = 3000
TABLE = pa.table(
    {
        "language": [["eng", "amh", None, "eng,amh"][i % 4] for i in range(ROWS)],
        "offset": pa.array(np.random.default_rng(1).integers(0, 1 << 30, ROWS), pa.int32()),
        "digest": [None if i % 7 == 0 else f"{i * 7919:032x}" for i in range(ROWS)],
    }
)


def written(**options: object) -> tuple[bytes, Footer]:
    file = io.BytesIO()
    pq.write_table(TABLE, file, row_group_size=1100, write_page_index=True, data_page_size=500, **options)
    data = file.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    assert thrift.written(thrift.read_struct(footer)[0]) == footer
    return data, Footer(footer, len(data))


@pytest.mark.parametrize("codec", ["gzip", "zstd", "snappy", "brotli", "lz4", "none"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_chunks_and_pages_have_the_values_of_the_file(codec: str, version: str, dictionary: bool) -> None:
    options = {"compression": codec, "data_page_version": version, "use_dictionary": dictionary}
    data, footer = written(**options, write_batch_size=100)
    assert list(footer.num_rows) == [1100, 1100, 800]
    for group, num in enumerate(footer.num_rows):
        for name in TABLE.column_names:
            chunk = footer.chunk(group, name)
            want = TABLE.column(name).slice(1100 * group, num).to_pylist()
            assert chunk.values(data[chunk.start :][: chunk.size], num).to_pylist() == want
            pages = chunk.pages(data[chunk.index_start :][: chunk.index_size])
            numbers = pages.of_rows(np.array([3, num // 2, num - 1]))
            head = data[chunk.start :][: chunk.dictionary_bytes]
            piece = head + b"".join(data[pages.starts[i] :][: pages.sizes[i]] for i in numbers)
            rows = pages.rows(numbers)
            assert chunk.values(piece, len(rows)).to_pylist() == [want[i] for i in rows]
            assert len(rows) < num or len(pages.starts) <= 3


@pytest.mark.parametrize(
    ("dictionary", "limits", "said"),
    [
        (False, (999, 1 << 31), "a page of"),
        (True, (999, 1 << 31), "a page of"),
        (True, (2000, 99_000), "more than 99,000 bytes in 100 rows"),
    ],
)
def test_values_that_unpack_to_more_than_the_limits_are_damage(
    dictionary: bool, limits: tuple[int, int], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A language of 1,000 characters stands in each of 100 rows."""
    file = io.BytesIO()
    pq.write_table(pa.table({"language": ["x" * 1000] * 100}), file, use_dictionary=dictionary)
    data = file.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    chunk = Footer(data[-8 - length : -8], len(data)).chunk(0, "language")
    values = data[chunk.start :][: chunk.size]
    assert chunk.values(values, 100).to_pylist() == ["x" * 1000] * 100
    monkeypatch.setattr(unpacked_pages, "MAX_PAGE_BYTES", limits[0])
    monkeypatch.setattr(parquet_pages, "MAX_LISTS_BYTES", limits[1])
    with pytest.raises(ValueError, match=said):
        chunk.values(values, 100)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_metadata_are_told(data: bytes) -> None:
    try:
        struct = thrift.read_struct(data)[0]
    except ValueError:
        return
    assert isinstance(struct, dict)


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_a_damaged_footer_never_names_bytes_outside_the_file(place: int, value: int) -> None:
    data, _ = written()
    length = int.from_bytes(data[-8:-4], "little")
    footer = bytearray(data[-8 - length : -8])
    footer[place % len(footer)] = value
    try:
        damaged = Footer(bytes(footer), len(data))
        chunk = damaged.chunk(0, "offset")
    except ValueError:
        return
    assert chunk.start > 0 and chunk.start + chunk.size <= len(data)


def test_codes_of_languages() -> None:
    told = {
        code: cld2.codes_of(languages.get(code))
        for code in ("sw", "nb", "zh_Hant", "ast", "ckb", "am", "pcm")
    }
    assert told == {
        "sw": ("swa",), "nb": ("nor",), "zh_Hant": ("zho",), "ast": (), "ckb": (), "am": ("amh",), "pcm": (),
    }  # fmt: skip
    for language in languages.LANGUAGES.values():
        assert set(cld2.neighbours_of(language)) <= cld2.CODES
