"""An index of texts that no corpus should hold, such as the rows of test sets, and the search for them in documents.

A row of at least `LONG` units is found anywhere in a document, also where each sixth unit is another one: runs of `RUN`
units that both share say where the row might begin, and it is there if all but one of `CHANGED` units stand in their
places. A shorter row is found where it is a line of its own. One of less than `ALONE` units counts only in company:
with another row of its group in the same document, since such sentences are common.

Units are words, or characters of scripts without spaces (`xling.text.units`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from xling.core.errors import UserError
from xling.text.units import hashed_units, powers, runs

if TYPE_CHECKING:
    from jaxtyping import Bool, Int64, UInt8, UInt64

FORMAT = "xling-leaks 2"
FILE = "leaks.json"
"""What names the arrays, which lie beside it as ``NAME.npy``: a process maps them and reads what it needs."""
RUN, LONG, ALONE = 5, 8, 10
CHANGED = 6
"""One unit of so many may be another one."""
NEAR = 20
"""Texts among which a short row of a list of texts may have company."""
MAX_ROWS = 64
"""Runs of more rows than this are phrases of a language: they say nothing, and cost much."""
_BITS_A_HASH = 32
_ODD = np.uint64(0x9E3779B97F4A7C15)
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


class Entry(NamedTuple):
    """A text that is looked for: what it belongs to, and its id there."""

    group: str
    id: str
    text: str


@dataclass(frozen=True)
class Leaks:
    """Texts that are looked for, by the hashes of their units.

    Attributes:
        groups: what texts belong to, such as ``xnli de test text_a``.
        group: int64 (num_entries,), place in ``groups`` of each text given, row by row; equal texts are one row.
        ids: uint8 (num_bytes,), ids of the texts that were given, in UTF-8 behind each other.
        id_ends: int64 (num_entries + 1,), where each id begins and the last ends.
        owned: int64 (num_rows + 1,), where in ``group`` and ``ids`` those of each row begin and the last end.
        units: uint64 (num_units,), hashes of the units of all rows behind each other.
        ends: int64 (num_rows + 1,), where each row begins and the last ends.
        runs: uint64 (num_runs,), sorted hashes of runs of units of long rows.
        places: int64 (num_runs,), where in ``units`` each begins.
        lines: uint64 (num_lines,), sorted hashes of short rows, also with one unit open.
        short: int64 (num_lines,), their rows.
        seen: uint8 (num_bytes,), a Bloom filter of ``runs`` and ``lines``, which tells most of a document apart.
    """

    groups: tuple[str, ...]
    group: Int64[np.ndarray, " entries"]
    ids: UInt8[np.ndarray, " letters"]
    id_ends: Int64[np.ndarray, " id_ends"]
    owned: Int64[np.ndarray, " ends"]
    units: UInt64[np.ndarray, " units"]
    ends: Int64[np.ndarray, " ends"]
    runs: UInt64[np.ndarray, " runs"]
    places: Int64[np.ndarray, " runs"]
    lines: UInt64[np.ndarray, " lines"]
    short: Int64[np.ndarray, " lines"]
    seen: UInt8[np.ndarray, " bytes"]

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Leaks:
        """The index of texts; those without a unit are left out."""
        groups: dict[str, int] = {}
        units: list[UInt64[np.ndarray, " _"]] = []
        members: list[list[tuple[int, str]]] = []
        known: dict[bytes, int] = {}
        for entry in entries:
            found, _ = hashed_units(entry.text)
            if len(found):
                row = known.setdefault(found.tobytes(), len(units))
                if row == len(units):
                    units.append(found)
                    members.append([])
                members[row].append((groups.setdefault(entry.group, len(groups)), entry.id))
        each = [member for own in members for member in own]
        ends = np.cumsum([0, *map(len, units)]).astype(np.int64)
        flat = np.concatenate([np.zeros(0, np.uint64), *units])
        long = [row for row, own in enumerate(units) if len(own) >= LONG]
        hashes = np.concatenate([np.zeros(0, np.uint64), *(runs(units[row], RUN) for row in long)])
        places = np.concatenate(
            [np.zeros(0, np.int64), *(np.arange(ends[row], ends[row + 1] - RUN + 1) for row in long)]
        )
        order = np.argsort(hashes, kind="stable")
        hashes, places = hashes[order], places[order]
        _, counts = np.unique(hashes, return_counts=True)
        common = np.repeat(counts > MAX_ROWS, counts)
        few = np.flatnonzero(np.diff(ends) < LONG)
        lines, which = _line_hashes(flat, ends[:-1][few], np.diff(ends)[few])
        by_line = np.argsort(lines, kind="stable")
        names = [name.encode("utf-8", "surrogatepass") for _, name in each]
        return cls(
            tuple(groups), np.array([group for group, _ in each], dtype=np.int64),
            np.frombuffer(b"".join(names), dtype=np.uint8), np.cumsum([0, *map(len, names)]).astype(np.int64),
            np.cumsum([0, *map(len, members)]).astype(np.int64), flat, ends,
            hashes[~common], places[~common].astype(np.int64), lines[by_line], few[which][by_line].astype(np.int64),
            _filter(np.concatenate([hashes[~common], lines])),
        )  # fmt: skip

    def write(self, folder: Path) -> None:
        """Write the index into an existing folder."""
        for name in ARRAYS:
            np.save(folder / f"{name}.npy", getattr(self, name))
        facts = json.dumps({"format": FORMAT, "groups": self.groups})
        (folder / FILE).write_text(facts + "\n", encoding="utf-8")

    def _may_hold(self, hashes: UInt64[np.ndarray, " hashes"]) -> Int64[np.ndarray, " places"]:
        """Places of the hashes that the index may hold."""
        first, second = _bits_of(hashes, len(self.seen))
        there = np.flatnonzero(
            self.seen[first >> np.uint64(3)] >> (first & np.uint64(7)).astype(np.uint8) & 1
        )
        second = second[there]
        found: Int64[np.ndarray, " places"] = there[
            (self.seen[second >> np.uint64(3)] >> (second & np.uint64(7)).astype(np.uint8) & 1).astype(
                np.bool_
            )
        ]
        return found

    def find(self, text: str) -> Int64[np.ndarray, " found"]:
        """The rows that a document holds, int64 (num_found,), sorted."""
        return self.find_each([text])[0]

    def find_each(self, texts: Sequence[str]) -> list[Int64[np.ndarray, " found"]]:
        """The rows that each document holds, see `find`; many at once cost less than one by one."""
        hashed = [hashed_units(text) for text in texts]
        units = np.concatenate([np.zeros(0, dtype=np.uint64), *(own for own, _ in hashed)])
        sizes = [len(own) for own, _ in hashed]
        # Lines are numbered through all documents.
        after = np.cumsum([0, *(int(lines[-1]) + 1 if len(lines) else 0 for _, lines in hashed)])
        line = np.concatenate([np.zeros(0, dtype=np.int64), *(own for _, own in hashed)])
        document = np.repeat(np.arange(len(texts)), sizes)
        rows, starts = self._found(units, line + after[document], document)
        held = document[starts]
        return [np.unique(self._in_company(rows[held == number])) for number in range(len(texts))]

    def find_in(self, texts: Sequence[str]) -> list[tuple[int, int]]:
        """Place of a text and row that it holds, for short texts that stand beside each other, such as sides of pairs.

        The company of a short row is looked for among `NEAR` texts.
        """
        units, line = hashed_units("\n".join(" ".join(text.split("\n")) for text in texts))
        rows, starts = self._found(units, line, np.zeros_like(line))
        lines = line[starts]
        found: list[tuple[int, int]] = []
        for part in np.unique(lines // NEAR).tolist():
            here = lines // NEAR == part
            good = set(self._in_company(rows[here]).tolist())
            found += [
                (line, row)
                for line, row in sorted(set(zip(lines[here].tolist(), rows[here].tolist(), strict=True)))
                if row in good
            ]
        return found

    def _found(
        self,
        units: UInt64[np.ndarray, " units"],
        line: Int64[np.ndarray, " units"],
        document: Int64[np.ndarray, " units"],
    ) -> Int64[np.ndarray, "2 found"]:
        """Rows and a unit within each, whether they have company or not; no row lies in two documents."""
        found: Int64[np.ndarray, "2 found"] = np.hstack(
            [self._long(units, document), self._short(units, line)]
        )
        return found

    def _in_company(self, rows: Int64[np.ndarray, " found"]) -> Int64[np.ndarray, " some"]:
        """The rows without short ones that are the only one of their groups."""
        short = self.ends[rows + 1] - self.ends[rows] < ALONE
        if not short.any():
            return rows
        groups = {
            row: set(self.group[self.owned[row] : self.owned[row + 1]].tolist()) for row in rows.tolist()
        }
        counts = Counter(group for own in groups.values() for group in own)
        alone = np.array([all(counts[group] == 1 for group in groups[row]) for row in rows.tolist()])
        kept: Int64[np.ndarray, " some"] = rows[~(short & alone)]
        return kept

    def _long(
        self, units: UInt64[np.ndarray, " units"], document: Int64[np.ndarray, " units"]
    ) -> Int64[np.ndarray, "2 found"]:
        """Rows of many units, and the first unit of a run that each shares."""
        sought = runs(units, RUN)
        where = self._may_hold(sought)
        low, high = (np.searchsorted(self.runs, sought[where], side=side) for side in _SIDES)
        counts = high - low
        if not counts.any():
            return np.zeros((2, 0), dtype=np.int64)
        # Every run of a row that a run of the document is, and where the row would begin then.
        hit = np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        places = self.places[hit]
        rows = np.searchsorted(self.ends, places, side="right") - 1
        starts = np.repeat(where, counts) - (places - self.ends[rows])
        # One number a row and place: sorting pairs costs ten times as much.
        keys, first, votes = np.unique(
            (rows << 32) + starts + (1 << 31), return_index=True, return_counts=True
        )
        rows, starts, shared = keys >> 32, (keys & 0xFFFFFFFF) - (1 << 31), np.repeat(where, counts)[first]
        likely = votes >= np.maximum(1, (self.ends[rows + 1] - self.ends[rows]) // CHANGED - 1)
        rows, starts, shared = rows[likely], starts[likely], shared[likely]
        good = self._are_at(units, document, rows, starts, shared)
        return np.stack([rows[good], shared[good]])

    def _are_at(
        self,
        units: UInt64[np.ndarray, " units"],
        document: Int64[np.ndarray, " units"],
        rows: Int64[np.ndarray, " rows"],
        starts: Int64[np.ndarray, " rows"],
        shared: Int64[np.ndarray, " rows"],
    ) -> Bool[np.ndarray, " rows"]:
        """Whether enough units of each row stand in their places from its start on, in the document of a unit of it."""
        if not len(rows):
            return np.zeros(0, dtype=np.bool_)
        first = self.ends[rows]
        lengths = self.ends[rows + 1] - first
        begins = np.cumsum(lengths) - lengths
        offset = np.arange(int(lengths.sum())) - np.repeat(begins, lengths)
        at = np.repeat(starts, lengths) + offset
        inside = (at >= 0) & (at < len(units))
        at = np.where(inside, at, 0)
        inside &= document[at] == np.repeat(document[shared], lengths)
        same = inside & (self.units[np.repeat(first, lengths) + offset] == units[at])
        enough = lengths - lengths // CHANGED
        good: Bool[np.ndarray, " rows"] = np.add.reduceat(same, begins, dtype=np.int64) >= enough
        return good

    def _short(
        self, units: UInt64[np.ndarray, " units"], line: Int64[np.ndarray, " units"]
    ) -> Int64[np.ndarray, "2 found"]:
        """Rows of few units that are lines of the document, and where each begins."""
        first = np.flatnonzero(np.diff(line, prepend=-1))
        lengths = np.diff(first, append=len(units))
        few = np.flatnonzero(lengths < LONG)
        sought, which = _line_hashes(units, first[few], lengths[few])
        where = self._may_hold(sought)
        low, high = (np.searchsorted(self.lines, sought[where], side=side) for side in _SIDES)
        counts = high - low
        rows = self.short[np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))]
        return np.stack([rows, np.repeat(first[few[which[where]]], counts)])

    def entries(self, row: int) -> list[tuple[str, str]]:
        """Group and id of the texts that a row is."""
        places = range(int(self.owned[row]), int(self.owned[row + 1]))
        return [(self.groups[self.group[place]], self._id(place)) for place in places]

    def _id(self, place: int) -> str:
        return (
            self.ids[self.id_ends[place] : self.id_ends[place + 1]].tobytes().decode("utf-8", "surrogatepass")
        )

    def groups_of(self, rows: Iterable[int]) -> list[str]:
        """The groups that rows belong to, each once, in the order of the index."""
        places = {
            place for row in rows for place in self.group[self.owned[row] : self.owned[row + 1]].tolist()
        }
        return [self.groups[place] for place in sorted(places)]


ARRAYS = tuple(field.name for field in fields(Leaks) if field.name != "groups")


def _line_hashes(
    units: UInt64[np.ndarray, " units"],
    first: Int64[np.ndarray, " lines"],
    lengths: Int64[np.ndarray, " lines"],
) -> tuple[UInt64[np.ndarray, " hashes"], Int64[np.ndarray, " hashes"]]:
    """Hashes of lines of few units in their order, and of the same with any one unit open, if there are enough.

    Args:
        units: of all lines.
        first: where each line begins.
        lengths: units of each.

    Returns:
        The hashes, and which line each is of.
    """
    if not len(first):
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    begins = np.cumsum(lengths) - lengths
    place = np.arange(int(lengths.sum())) - np.repeat(begins, lengths)
    terms = units[np.repeat(first, lengths) + place] * powers(LONG)[place]
    count = lengths.astype(np.uint64)
    whole = np.add.reduceat(terms, begins)
    line = np.repeat(np.arange(len(first)), lengths)
    line, terms = line[lengths[line] >= CHANGED], terms[lengths[line] >= CHANGED]
    hashes = np.concatenate([whole + count, whole[line] - terms - count[line]])
    return hashes, np.concatenate([np.arange(len(first)), line])


def _bits_of(
    hashes: UInt64[np.ndarray, " hashes"], num_bytes: int
) -> tuple[UInt64[np.ndarray, " hashes"], UInt64[np.ndarray, " hashes"]]:
    """Two bits of a filter for each hash."""
    shift = np.uint64(64 - (num_bytes * 8 - 1).bit_length())
    return hashes >> shift, (hashes * _ODD) >> shift


def _filter(hashes: UInt64[np.ndarray, " hashes"]) -> UInt8[np.ndarray, " bytes"]:
    """The bits of all hashes: one in 32 is set, so that one of about 1,000 other hashes passes."""
    bits = np.zeros(1 << max(10, (len(hashes) * _BITS_A_HASH - 1).bit_length()), dtype=np.bool_)
    for places in _bits_of(hashes, len(bits) // 8):
        bits[places] = True
    return np.packbits(bits, bitorder="little")


def read(place: str | Path) -> Leaks:
    """The index that ``xling eval leaks`` has written into a folder.

    Raises:
        UserError: there is none.
    """
    path = Path(place) / FILE if Path(place).is_dir() else Path(place)
    if not path.is_file():
        raise UserError(
            f"no index of test rows at {place}", fix="xling eval leaks data=FOLDER out=DIR makes one"
        )
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _read(path: Path, changed: int) -> Leaks:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts["format"] != FORMAT:
            raise ValueError(facts["format"])
        found = {name: np.load(path.parent / f"{name}.npy", mmap_mode="r") for name in ARRAYS}
    except (ValueError, KeyError, OSError, TypeError, EOFError) as error:
        raise UserError(
            f"{path} is no index of test rows: {error}", FORMAT, "make it anew: xling eval leaks"
        ) from None
    return Leaks(groups=tuple(facts["groups"]), **{name: np.asarray(array) for name, array in found.items()})
