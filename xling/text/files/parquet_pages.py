"""Sizes of the pages of a Parquet file, unpacked: their heads are read before any of them is unpacked.

A page of some kilobytes may unpack to gigabytes, and 64 rows may lie on 64 such pages. pyarrow unpacks no more than the
head of a page says. Source: apache/parquet-format, ``parquet.thrift``, PageHeader.
"""

from collections.abc import Iterator
from typing import BinaryIO

from xling.text.files import thrift
from xling.text.files.thrift import get

MAX_PAGE_BYTES = 1 << 29
"""Of a page, unpacked; 1,024 texts of 400 kB, which a writer puts on one page, are 400 MB."""
MAX_LISTS_BYTES = 1 << 31
"""Of all pages of a column of lists in a row group, unpacked: a row may lie on all of them."""
_HEAD_BYTES = (1 << 10, 1 << 15, 1 << 24)
"""Bytes in which the head of a page is looked for; pyarrow reads 16 MiB at most."""
_FIELDS = {0: (5, 2), 2: (7, 2), 3: (8, 4)}
"""Type of a page -> the field that describes its values, and in it the field of their encoding."""
_DICTIONARY, _PLAIN, _BY_LENGTH = 2, 0, 6
_OF_DICTIONARY = (2, 8)
"""Encodings of the numbers of values in a dictionary."""


def most_bytes(
    file: BinaryIO, place: tuple[int, int, int], rows: int, is_list: bool = False, is_once: bool = False
) -> int:
    """Return the bytes that any ``rows`` rows of a column of a row group take at most, unpacked.

    Args:
        place: position of the first page in the file, bytes of all pages, and the values on them.
        is_list: a row may have several values.
        is_once: a value of the dictionary is not repeated for each row that has it.

    Raises:
        ValueError: a page, or all pages of lists, are over the limit; or the head of a page is damaged.
    """
    counts, sizes, of_value = list[int](), [0], 0
    for kind, encoding, count, unpacked in _pages(file, *place):
        if kind == _DICTIONARY or encoding not in (_PLAIN, _BY_LENGTH, *_OF_DICTIONARY):
            of_value = max(of_value, unpacked)  # each value may be as long as all of the page
        if kind != _DICTIONARY:
            counts.append(count)
            sizes.append(unpacked)
    if is_list and sum(sizes) > MAX_LISTS_BYTES:
        raise ValueError(f"lists of {sum(sizes):,} bytes in a row group")
    num_pages = len(sizes) if is_list else rows // max(1, min(counts[:-1], default=1)) + 3
    return min(sum(sizes), max(sizes) * num_pages) + (0 if is_once else of_value * rows)


def _pages(file: BinaryIO, start: int, size: int, num_values: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield type, encoding, number of values and unpacked bytes of each page."""
    at = start
    while num_values > 0 and at < start + size:
        head, head_bytes = _head(file, at)
        kind, unpacked, packed = (get(head, number, -1) for number in (1, 2, 3))
        if unpacked > MAX_PAGE_BYTES:
            raise ValueError(f"a page of {unpacked:,} bytes")
        described, encoding = _FIELDS.get(kind, (0, 0))
        values = get(head, described, {})
        count = get(values, 1, 0)
        if min(unpacked, packed, count) < 0:
            raise ValueError("damaged head of a page")
        if described:
            yield kind, get(values, encoding, 0), count, unpacked
        num_values -= count if kind != _DICTIONARY else 0
        at += head_bytes + packed


def _head(file: BinaryIO, at: int) -> tuple[thrift.Struct, int]:
    error = ValueError("no page")
    for size in _HEAD_BYTES:
        file.seek(at)
        data = file.read(size)
        try:
            return thrift.read_struct(data)
        except (ValueError, TypeError) as found:
            error = ValueError(f"damaged head of a page: {found}")
            if len(data) < size:
                break
    raise error
