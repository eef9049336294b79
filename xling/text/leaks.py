"""An index of texts that no corpus should hold, such as the rows of test sets, and the search for them in documents.

A row of at least `LONG` units is found anywhere in a document, also where each sixth unit is another one: runs of `RUN`
units that both share say where the row might begin, and it is there if all but one of `CHANGED` units stand in their
places. A shorter row is found where it is a line of its own. One of less than `ALONE` units counts only in company:
with another row of its group in the same document, since such sentences are common.

Units are words, or characters of scripts without spaces (`xling.text.units`).
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from xling.core.errors import UserError
from xling.text.units import hashed_units, runs

if TYPE_CHECKING:
    from jaxtyping import Bool, Int64, UInt64

FORMAT = "xling-leaks 1"
FILE = "leaks.npz"
RUN, LONG, ALONE = 5, 8, 13
CHANGED = 6
"""One unit of so many may be another one."""
NEAR = 20
"""Texts among which a short row of a list of texts may have company."""
MAX_ROWS = 64
"""Runs of more rows than this are phrases of a language: they say nothing, and cost much."""
_BITS = 27
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
        ids: of the texts that were given.
        owned: int64 (num_rows + 1,), where in ``group`` and ``ids`` those of each row begin and the last end.
        units: uint64 (num_units,), hashes of the units of all rows behind each other.
        ends: int64 (num_rows + 1,), where each row begins and the last ends.
        runs: uint64 (num_runs,), sorted hashes of runs of units of long rows.
        places: int64 (num_runs,), where in ``units`` each begins.
        lines: uint64 (num_lines,), sorted hashes of short rows, also with one unit open.
        short: int64 (num_lines,), their rows.
    """

    groups: tuple[str, ...]
    group: Int64[np.ndarray, " entries"]
    ids: tuple[str, ...]
    owned: Int64[np.ndarray, " ends"]
    units: UInt64[np.ndarray, " units"]
    ends: Int64[np.ndarray, " ends"]
    runs: UInt64[np.ndarray, " runs"]
    places: Int64[np.ndarray, " runs"]
    lines: UInt64[np.ndarray, " lines"]
    short: Int64[np.ndarray, " lines"]

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
        few = [(row, line) for row, own in enumerate(units) if len(own) < LONG for line in _lines(own)]
        short = np.array([row for row, _ in few], dtype=np.int64)
        lines = np.array([line for _, line in few], dtype=np.uint64)
        by_line = np.argsort(lines, kind="stable")
        return cls(
            tuple(groups), np.array([group for group, _ in each], dtype=np.int64), tuple(name for _, name in each),
            np.cumsum([0, *map(len, members)]).astype(np.int64), flat, ends,
            hashes[~common], places[~common].astype(np.int64), lines[by_line], short[by_line],
        )  # fmt: skip

    def write(self, folder: Path) -> None:
        """Write the index into an existing folder."""
        facts = json.dumps({"format": FORMAT, "groups": self.groups, "ids": self.ids})
        np.savez(
            folder / FILE, facts=np.frombuffer(facts.encode(), dtype=np.uint8), group=self.group, owned=self.owned,
            units=self.units, ends=self.ends, runs=self.runs, places=self.places, lines=self.lines, short=self.short,
        )  # fmt: skip

    @cached_property
    def _seen(self) -> Bool[np.ndarray, " bits"]:
        """Whether any run begins with these bits: most of a document is told apart by one look."""
        table = np.zeros(1 << _BITS, dtype=np.bool_)
        table[self.runs >> np.uint64(64 - _BITS)] = True
        return table

    @cached_property
    def _row_of(self) -> Int64[np.ndarray, " runs"]:
        return (np.searchsorted(self.ends, self.places, side="right") - 1).astype(np.int64)

    def find(self, text: str) -> Int64[np.ndarray, " found"]:
        """The rows that a document holds, int64 (num_found,), sorted."""
        rows, _ = self._found(text)
        return np.unique(self._in_company(rows))

    def find_in(self, texts: Sequence[str]) -> list[tuple[int, int]]:
        """Place of a text and row that it holds, for short texts that stand beside each other, such as sides of pairs.

        The company of a short row is looked for among `NEAR` texts.
        """
        rows, lines = self._found("\n".join(" ".join(text.split("\n")) for text in texts))
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

    def _found(self, text: str) -> tuple[Int64[np.ndarray, " found"], Int64[np.ndarray, " found"]]:
        """Rows and the lines that they begin in, whether they have company or not."""
        units, line = hashed_units(text)
        if not len(units):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        rows, starts = np.hstack([self._long(units), self._short(units, line)])
        return rows, line[np.clip(starts, 0, len(line) - 1)]

    def _in_company(self, rows: Int64[np.ndarray, " found"]) -> Int64[np.ndarray, " some"]:
        """The rows without short ones that are the only one of their groups."""
        short = np.diff(self.ends)[rows] < ALONE
        if not short.any():
            return rows
        groups = {
            row: set(self.group[self.owned[row] : self.owned[row + 1]].tolist()) for row in rows.tolist()
        }
        counts = Counter(group for own in groups.values() for group in own)
        alone = np.array([all(counts[group] == 1 for group in groups[row]) for row in rows.tolist()])
        kept: Int64[np.ndarray, " some"] = rows[~(short & alone)]
        return kept

    def _long(self, units: UInt64[np.ndarray, " units"]) -> Int64[np.ndarray, "2 found"]:
        """Rows of many units, and where in the document each begins."""
        sought = runs(units, RUN)
        where = np.flatnonzero(self._seen[sought >> np.uint64(64 - _BITS)])
        low = np.searchsorted(self.runs, sought[where], side="left")
        counts = np.searchsorted(self.runs, sought[where], side="right") - low
        total = int(counts.sum())
        if not total:
            return np.zeros((2, 0), dtype=np.int64)
        # Every run of a row that a run of the document is, and where the row would begin then.
        hit = np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(total)
        rows = self._row_of[hit]
        starts = np.repeat(where, counts) - (self.places[hit] - self.ends[rows])
        # One number a row and place: sorting pairs costs ten times as much.
        keys, votes = np.unique((rows << 32) + starts + (1 << 31), return_counts=True)
        pairs = np.stack([keys >> 32, (keys & 0xFFFFFFFF) - (1 << 31)])
        lengths = self.ends[pairs[0] + 1] - self.ends[pairs[0]]
        pairs = pairs[:, votes >= np.maximum(1, lengths // CHANGED - 1)]
        good = [self._is_at(units, row, start) for row, start in pairs.T.tolist()]
        found: Int64[np.ndarray, "2 found"] = pairs[:, np.array(good, dtype=np.bool_)]
        return found

    def _is_at(self, units: UInt64[np.ndarray, " units"], row: int, start: int) -> bool:
        """Whether enough units of a row stand in their places from ``start`` on."""
        own = self.units[self.ends[row] : self.ends[row + 1]]
        first, last = max(0, -start), min(len(own), len(units) - start)
        same = int((own[first:last] == units[start + first : start + last]).sum())
        return same >= len(own) - len(own) // CHANGED

    def _short(
        self, units: UInt64[np.ndarray, " units"], line: Int64[np.ndarray, " units"]
    ) -> Int64[np.ndarray, "2 found"]:
        """Rows of few units that are lines of the document, and where each begins."""
        first = np.flatnonzero(np.diff(line, prepend=-1))
        lengths = np.diff(first, append=len(units))
        few = [(int(a), int(n)) for a, n in zip(first, lengths, strict=True) if n < LONG]
        found: list[tuple[int, int]] = []
        hashes = [(a, line) for a, n in few for line in _lines(units[a : a + n])]
        sought = np.array([line for _, line in hashes], dtype=np.uint64)
        low, high = (np.searchsorted(self.lines, sought, side=side) for side in _SIDES)
        for place in np.flatnonzero(high > low).tolist():
            found += [(int(row), hashes[place][0]) for row in self.short[low[place] : high[place]]]
        return np.array(found, dtype=np.int64).reshape(-1, 2).T

    def entries(self, row: int) -> list[tuple[str, str]]:
        """Group and id of the texts that a row is."""
        places = range(int(self.owned[row]), int(self.owned[row + 1]))
        return [(self.groups[self.group[place]], self.ids[place]) for place in places]

    def groups_of(self, rows: Iterable[int]) -> list[str]:
        """The groups that rows belong to, each once, in the order of the index."""
        places = {
            place for row in rows for place in self.group[self.owned[row] : self.owned[row + 1]].tolist()
        }
        return [self.groups[place] for place in sorted(places)]


def _lines(units: UInt64[np.ndarray, " units"]) -> list[int]:
    """A hash of a few units in their order, and those of the same with any one unit open, if there are enough."""
    count = len(units)
    whole = int(runs(units, count)[0]) + count
    open_places = range(count if count >= CHANGED else 0)
    parts = [
        int(runs(np.where(np.arange(count) == k, np.uint64(0), units), count)[0]) - count for k in open_places
    ]
    return [value & 0xFFFFFFFFFFFFFFFF for value in (whole, *parts)]


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
        with path.open("rb") as file, np.load(file) as arrays:
            facts = json.loads(arrays["facts"].tobytes())
            if facts["format"] != FORMAT:
                raise ValueError(facts["format"])
            names = ("group", "owned", "units", "ends", "runs", "places", "lines", "short")
            found = {name: arrays[name] for name in names}
    except (ValueError, KeyError, OSError, TypeError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} is no index of test rows: {error}", FORMAT, "make it anew: xling eval leaks"
        ) from None
    return Leaks(groups=tuple(facts["groups"]), ids=tuple(facts["ids"]), **found)
