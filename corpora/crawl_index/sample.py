"""How many pages of a language a dump's index names, estimated from a few of its parts."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xling.corpora.common.ranges import CONNECTIONS, RangeReader, SpentError
from xling.corpora.crawl_index.dump_index import RECORD_BYTES
from xling.corpora.crawl_index.part import DAMAGE, Found, PartReader, Wanted, refuse_if_none
from xling.corpora.crawl_index.selection import drawn

_LENGTH = "warc_record_length"
_ENOUGH_ROWS = 20_000
"""Matches from which a further part tells little more."""


@dataclass(frozen=True)
class Estimate:
    """Extrapolation from a sample of an index to all of it.

    Attributes:
        pages: of the language in the whole index.
        record_bytes: of their records, compressed.
        parts_read: parts of the index in the sample.
    """

    pages: int
    record_bytes: int
    parts_read: int
    parts: int


def estimate(
    parts: Sequence[tuple[str, str, str]], reader: RangeReader, folder: Path, wanted: Wanted, seed: int
) -> Estimate:
    """Return what a sample of parts says, as many as the reader's limits allow.

    Args:
        parts: dump, name and location of every part.
        reader: with a limit of bytes.
        folder: keeps what was read, for a build too.
        seed: of the order of the parts, since neighbouring ones hold neighbouring hosts.

    Raises:
        UserError: the index cannot be read.
    """
    asked: list[Found] = []
    matches: dict[tuple[str, str], Found] = {}
    readers = {dump: PartReader(reader, folder / dump, wanted) for dump, _, _ in parts}
    with contextlib.suppress(SpentError):
        for dump, name, location in sorted(parts, key=lambda part: drawn(part[1], seed)):
            each = readers[dump].find(name, location)
            asked.append(each)
            if not each.fault:
                matches[dump, name] = each
            if len(asked) in (CONNECTIONS, len(parts)):
                refuse_if_none(asked)
            if sum(len(hits.rows) for hits in matches.values()) >= _ENOUGH_ROWS:
                break
    pages = sum(len(hits.rows) for hits in matches.values()) * len(parts) // max(1, len(matches))
    return Estimate(pages, int(pages * _mean_length(readers, matches)), len(matches), len(parts))


def _mean_length(readers: dict[str, PartReader], matches: dict[tuple[str, str], Found]) -> float:
    """Return the mean bytes of the records of one row group, the usual ones where no byte is left to read them."""
    for (dump, name), hits in matches.items():
        for group in hits.matches():
            with contextlib.suppress(SpentError, *DAMAGE):
                lengths = readers[dump].rows_of(name, hits, group, (_LENGTH,))[_LENGTH].drop_nulls()
                if len(lengths):
                    return sum(lengths.to_list()) / len(lengths)
            return RECORD_BYTES
    return RECORD_BYTES
