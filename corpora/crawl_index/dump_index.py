"""The rows of a language in the index of whole dumps, as many as a limit of bytes pays for.

All parts are in an order drawn by a seed, since neighbouring parts hold neighbouring hosts. The language columns come
first. Then come the row groups, those first that cost the fewest bytes a row, until the index and the records that
are known would take more bytes than there are.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import polars as pl

from xling.core.progress import Progress
from xling.corpora.common.ranges import CONNECTIONS, RangeReader, SpentError
from xling.corpora.crawl_index.part import DAMAGE, DIGEST, SCHEMA, Found, PartReader, Wanted, refuse_if_none
from xling.corpora.crawl_index.selection import drawn
from xling.text.files.compressed import raise_if_of_machine

T = TypeVar("T")
LOST_ROWS = "rows in missing or damaged row groups of the index"
RECORD_BYTES, _SMALL_RECORD_BYTES = 20_000, 2_000  # usual, and lowest mean, of records not known yet
_INDEX_SHARE = 0.5  # of the bytes that may come: what the language columns may take
# Of records that are copies: where bytes are scarce, a digest is read if it costs less than these.
_DIGEST_SHARE = 0.1


@dataclass
class IndexRows:
    """Rows of the index and what reading them took.

    Attributes:
        table: by `SCHEMA`, with ``dump``.
        index_bytes: bytes of the index that they took, whether they came now or earlier.
        num_parts: parts of the index.
        notes: what was left out, counted.
        faults: location and reason of each part that could not be read.
    """

    table: pl.DataFrame
    index_bytes: int = 0
    num_parts: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Group:
    part: str
    dump: str
    number: int
    num_matches: int
    columns: tuple[str, ...]
    cost: int

    @property
    def order(self) -> tuple[int, int]:
        """Cheap ones first; those about as cheap in an order that has nothing to do with their hosts."""
        return (self.cost // self.num_matches).bit_length(), drawn(f"{self.part}.{self.number}")


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in lists of as many as there are connections."""
    return (items[i : i + CONNECTIONS] for i in range(0, len(items), CONNECTIONS))


class DumpIndex:
    """The index of one or several dumps.

    Args:
        folder: keeps what was read.
        num_bytes: that the index and the records may take together; 0 for no limit.
        seed: of the order of the parts.
        with_hosts: whether the names of hosts are read.
    """

    def __init__(
        self,
        reader: RangeReader,
        folder: Path,
        wanted: Wanted,
        num_bytes: int,
        seed: int = 0,
        with_hosts: bool = False,
    ) -> None:
        self._reader, self._folder, self._wanted, self._num_bytes = reader, folder, wanted, num_bytes
        self._seed, self._with_hosts = seed, with_hosts

    def read(self, parts: Sequence[tuple[str, str, str]]) -> IndexRows:
        """Return the rows in ``parts``, each a dump, a name and a location.

        Raises:
            UserError: the index cannot be read.
        """
        read = IndexRows(pl.DataFrame(schema={**SCHEMA, "dump": pl.String}), num_parts=len(parts))
        hits = self._find_all(sorted(parts, key=lambda part: drawn(part[1], self._seed)), read)
        groups = list(self._groups(hits, read))
        # Row groups are read while the limits allow, the cheapest first.
        tables: list[pl.DataFrame] = []
        num_rows = record_bytes = 0
        groups.sort(key=lambda group: group.order)
        with (
            Progress("index: rows", len(groups), "row groups") as bar,
            ThreadPoolExecutor(CONNECTIONS) as pool,
        ):
            left = sum(group.num_matches for group in groups)
            for some in _batches(groups):
                mean = record_bytes / num_rows if num_rows else _SMALL_RECORD_BYTES
                cost = sum(group.cost for group in some)
                least = read.index_bytes + cost + record_bytes + mean * min(g.num_matches for g in some)
                if tables and self._num_bytes and least > self._num_bytes:
                    break
                for group, table in zip(some, pool.map(lambda g: self._rows(hits, g), some), strict=True):
                    left -= group.num_matches if isinstance(table, pl.DataFrame) else 0
                    if isinstance(table, pl.DataFrame):
                        read.index_bytes += group.cost
                        num_rows += len(table)
                        record_bytes += int(table["warc_record_length"].fill_null(0).clip(0).sum())
                        tables.append(table.with_columns(dump=pl.lit(group.dump)))
                    elif table:
                        left -= group.num_matches
                        read.notes[LOST_ROWS] += group.num_matches
                bar.update(len(some))
        read.notes["matching rows left out (size= or time=)"] += left
        if tables:
            read.table = pl.concat(tables)
        return read

    def _find_all(
        self, parts: Sequence[tuple[str, str, str]], read: IndexRows
    ) -> dict[tuple[str, str], Found]:
        """Return the matches of the parts, of as many as the limits allow."""
        hits: dict[tuple[str, str], Found] = {}
        with (
            Progress("index: languages", len(parts), "parts") as bar,
            ThreadPoolExecutor(CONNECTIONS) as pool,
        ):
            num_rows = 0
            for some in _batches(parts):
                for (dump, name, _), each in zip(some, pool.map(self._find, some), strict=True):
                    if each is None:
                        continue
                    hits[dump, name] = each
                    num_rows += len(each.rows)
                    read.notes["missing or damaged parts of the index"] += bool(each.fault)
                    read.index_bytes += _language_bytes(each)
                refuse_if_none(list(hits.values()))
                bar.update(len(some))
                is_half = self._num_bytes and read.index_bytes > _INDEX_SHARE * self._num_bytes
                is_enough = self._num_bytes and num_rows * _SMALL_RECORD_BYTES > self._num_bytes
                if is_half or is_enough or not all((dump, name) in hits for dump, name, _ in some):
                    break
        read.notes["parts of the index left out (size= or time=)"] += len(parts) - len(hits)
        read.faults = [each.fault for each in hits.values() if each.fault]
        return hits

    def _find(self, part: tuple[str, str, str]) -> Found | None:
        dump, name, location = part
        try:
            return PartReader(self._reader, self._folder / dump, self._wanted).find(name, location)
        except SpentError:
            return None

    def _groups(self, hits: dict[tuple[str, str], Found], read: IndexRows) -> Iterator[_Group]:
        """Yield the row groups with matches; where bytes are scarce, without digests that do not pay."""
        groups = [group for key, each in hits.items() for group in self._groups_of(*key, each, True, read)]
        total = sum(group.cost for group in groups)
        scarce = bool(self._num_bytes) and total + read.index_bytes > _INDEX_SHARE * self._num_bytes
        for group in groups:
            each = hits[group.dump, group.part]
            columns = each.columns(False, self._with_hosts)
            if scarce and DIGEST in group.columns:
                cheaper = each.cost(group.number, columns)
                if group.cost - cheaper > _DIGEST_SHARE * RECORD_BYTES * group.num_matches:
                    yield _Group(group.part, group.dump, group.number, group.num_matches, columns, cheaper)
                    continue
            yield group

    def _groups_of(
        self, dump: str, name: str, hits: Found, with_digest: bool, read: IndexRows
    ) -> Iterator[_Group]:
        if not hits.footer_bytes:
            return
        columns = hits.columns(with_digest, self._with_hosts)
        for number, num in hits.matches().items():
            try:
                yield _Group(name, dump, number, num, columns, hits.cost(number, columns))
            except ValueError:
                read.notes[LOST_ROWS] += num

    def _rows(self, hits: dict[tuple[str, str], Found], group: _Group) -> pl.DataFrame | bool:
        """Return the rows of a row group; True where it is damaged, False where a limit is reached."""
        try:
            return PartReader(self._reader, self._folder / group.dump, self._wanted).rows_of(
                group.part, hits[group.dump, group.part], group.number, group.columns
            )
        except SpentError:
            return False
        except (*DAMAGE, pl.exceptions.PolarsError) as error:
            raise_if_of_machine(error)
            return True


def _language_bytes(hits: Found) -> int:
    """Return the bytes that the matches of a part took."""
    if not hits.footer_bytes:
        return 0
    chunks = [hits.footer.chunk(g, "content_languages").size for g in range(len(hits.footer.num_rows))]
    return sum(chunks) + len(hits.footer_bytes) + sum(map(len, hits.page_indexes.values()))
