"""Index of texts that a corpus must not contain, such as test rows, and the search for them in documents.

A row of at least `MIN_LONG_UNITS` units is found anywhere in a document, even if each sixth unit is different. Runs of
`RUN_UNITS` units shared by both give the place where the row might begin. The row is found if all but one of
`UNITS_PER_CHANGE` units match at their places. A shorter row is found only as a complete line. A row of less than
`MIN_UNITS_ALONE` units counts only together with another row of its group in the same document, since such sentences
are common.

Units are words, or characters of scripts without spaces (`xling.text.words.units`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from xling.array_types import Bool, Int64, UInt8, UInt64
from xling.core.errors import UserError
from xling.core.output.digests import identity
from xling.text.words.units import hash_powers, hash_runs, hash_units

FORMAT = "xling-leaks 2"
FILE_NAME = "leaks.json"
"""File that names the arrays; they lie beside it as ``NAME.npy``, and processes map them into memory."""
RUN_UNITS, MIN_LONG_UNITS, MIN_UNITS_ALONE = 5, 8, 10
UNITS_PER_CHANGE = 6
"""One unit in this many may differ."""
NEIGHBOURS = 20
"""Number of neighbouring texts in which the second row needed by a short row is looked for."""
MAX_ROWS_PER_RUN = 64
"""Runs shared by more rows than this are ignored: they are common phrases and slow the search."""
_BITS_A_HASH = 32
_BLOOM_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SEARCH_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


class Entry(NamedTuple):
    """A text to look for, and its group."""

    group: str
    text: str


@dataclass(frozen=True)
class Leaks:
    """Index of texts to look for, by the hashes of their units.

    Attributes:
        groups: names of the groups of texts, such as ``xnli de test text_a``.
        group: int64 (num_entries,), index in ``groups`` of each given text, ordered by row; equal texts share
            a row.
        owned: int64 (num_rows + 1,), offsets of each row's entries in ``group``.
        units: uint64 (num_units,), concatenated hashes of the units of all rows.
        ends: int64 (num_rows + 1,), offsets of the rows in ``units``.
        runs: uint64 (num_runs,), sorted hashes of runs of units of long rows.
        places: int64 (num_runs,), offset of each run in ``units``.
        lines: uint64 (num_lines,), sorted hashes of short rows, also with any one unit left open.
        short: int64 (num_lines,), their rows.
        seen: uint8 (num_bytes,), a Bloom filter of ``runs`` and ``lines`` that rejects most of a document
            cheaply.
    """

    groups: tuple[str, ...]
    group: Int64[np.ndarray, " entries"]
    owned: Int64[np.ndarray, " ends"]
    units: UInt64[np.ndarray, " units"]
    ends: Int64[np.ndarray, " ends"]
    runs: UInt64[np.ndarray, " runs"]
    places: Int64[np.ndarray, " runs"]
    lines: UInt64[np.ndarray, " lines"]
    short: Int64[np.ndarray, " lines"]
    seen: UInt8[np.ndarray, " bytes"]

    @classmethod
    def build(cls, entries: Iterable[Entry]) -> Leaks:
        """Build the index of the given texts; texts without a unit are skipped."""
        groups: dict[str, int] = {}
        units: list[UInt64[np.ndarray, " _"]] = []
        members: list[list[int]] = []
        row_of_units: dict[bytes, int] = {}
        for entry in entries:
            row_units, _ = hash_units(entry.text)
            if len(row_units):
                row = row_of_units.setdefault(row_units.tobytes(), len(units))
                if row == len(units):
                    units.append(row_units)
                    members.append([])
                members[row].append(groups.setdefault(entry.group, len(groups)))
        row_ends = np.cumsum([0, *map(len, units)]).astype(np.int64)
        all_units = np.concatenate([np.zeros(0, np.uint64), *units])
        long_rows = [row for row, own in enumerate(units) if len(own) >= MIN_LONG_UNITS]
        hashes = np.concatenate(
            [np.zeros(0, np.uint64), *(hash_runs(units[row], RUN_UNITS) for row in long_rows)]
        )
        run_places = np.concatenate(
            [
                np.zeros(0, np.int64),
                *(np.arange(row_ends[row], row_ends[row + 1] - RUN_UNITS + 1) for row in long_rows),
            ]
        )
        order = np.argsort(hashes, kind="stable")
        hashes, run_places = hashes[order], run_places[order]
        _, counts = np.unique(hashes, return_counts=True)
        is_common = np.repeat(counts > MAX_ROWS_PER_RUN, counts)
        short_rows = np.flatnonzero(np.diff(row_ends) < MIN_LONG_UNITS)
        lines, line_indices = _line_hashes(
            all_units, row_ends[:-1][short_rows], np.diff(row_ends)[short_rows]
        )
        line_order = np.argsort(lines, kind="stable")
        return cls(
            tuple(groups), np.array([group for own in members for group in own], dtype=np.int64),
            np.cumsum([0, *map(len, members)]).astype(np.int64), all_units, row_ends,
            hashes[~is_common], run_places[~is_common].astype(np.int64), lines[line_order],
            short_rows[line_indices][line_order].astype(np.int64),
            _bloom_filter(np.concatenate([hashes[~is_common], lines])),
        )  # fmt: skip

    def write(self, folder: Path) -> None:
        """Write the index into an existing folder."""
        for name in ARRAY_NAMES:
            np.save(folder / f"{name}.npy", getattr(self, name))
        header = json.dumps({"format": FORMAT, "groups": self.groups})
        (folder / FILE_NAME).write_text(header + "\n", encoding="utf-8")

    def _maybe_indexed(self, hashes: UInt64[np.ndarray, " hashes"]) -> Int64[np.ndarray, " places"]:
        first, second = _bloom_bits(hashes, len(self.seen))
        candidates = np.flatnonzero(
            self.seen[first >> np.uint64(3)] >> (first & np.uint64(7)).astype(np.uint8) & 1
        )
        second = second[candidates]
        passing: Int64[np.ndarray, " places"] = candidates[
            (self.seen[second >> np.uint64(3)] >> (second & np.uint64(7)).astype(np.uint8) & 1).astype(
                np.bool_
            )
        ]
        return passing

    def find(self, text: str) -> Int64[np.ndarray, " found"]:
        """Return the rows contained in a document, int64 (num_found,), sorted."""
        return self.find_each([text])[0]

    def find_each(self, texts: Sequence[str]) -> list[Int64[np.ndarray, " found"]]:
        """Return the rows contained in each document, see `find`; one call for many documents is faster."""
        hashed = [hash_units(text) for text in texts]
        units = np.concatenate([np.zeros(0, dtype=np.uint64), *(own for own, _ in hashed)])
        sizes = [len(own) for own, _ in hashed]
        # Number the lines through all documents.
        first_line = np.cumsum([0, *(int(lines[-1]) + 1 if len(lines) else 0 for _, lines in hashed)])
        line = np.concatenate([np.zeros(0, dtype=np.int64), *(own for _, own in hashed)])
        document = np.repeat(np.arange(len(texts)), sizes)
        rows, starts = self._matches(units, line + first_line[document], document)
        document_of_match = document[starts]
        return [
            np.unique(self._drop_single_short_rows(rows[document_of_match == number]))
            for number in range(len(texts))
        ]

    def find_in(self, texts: Sequence[str]) -> list[tuple[int, int]]:
        """Return (index of a text, row) for short texts that belong together, such as the sides of pairs.

        The second row that a short row needs is looked for among `NEIGHBOURS` texts.
        """
        units, line = hash_units("\n".join(" ".join(text.split("\n")) for text in texts))
        rows, starts = self._matches(units, line, np.zeros_like(line))
        lines = line[starts]
        matches: list[tuple[int, int]] = []
        for stretch in np.unique(lines // NEIGHBOURS).tolist():
            in_stretch = lines // NEIGHBOURS == stretch
            good_rows = set(self._drop_single_short_rows(rows[in_stretch]).tolist())
            matches += [
                (line, row)
                for line, row in sorted(
                    set(zip(lines[in_stretch].tolist(), rows[in_stretch].tolist(), strict=True))
                )
                if row in good_rows
            ]
        return matches

    def _matches(
        self,
        units: UInt64[np.ndarray, " units"],
        line: Int64[np.ndarray, " units"],
        document: Int64[np.ndarray, " units"],
    ) -> Int64[np.ndarray, "2 found"]:
        """Return candidate rows and a unit within each, before short rows are checked.

        No row spans two documents.
        """
        matches: Int64[np.ndarray, "2 found"] = np.hstack(
            [self._find_long_rows(units, document), self._find_short_rows(units, line)]
        )
        return matches

    def _drop_single_short_rows(self, rows: Int64[np.ndarray, " found"]) -> Int64[np.ndarray, " some"]:
        is_short = self.ends[rows + 1] - self.ends[rows] < MIN_UNITS_ALONE
        if not is_short.any():
            return rows
        groups = {
            row: set(self.group[self.owned[row] : self.owned[row + 1]].tolist()) for row in rows.tolist()
        }
        counts = Counter(group for own in groups.values() for group in own)
        is_alone = np.array([all(counts[group] == 1 for group in groups[row]) for row in rows.tolist()])
        kept: Int64[np.ndarray, " some"] = rows[~(is_short & is_alone)]
        return kept

    def _find_long_rows(
        self, units: UInt64[np.ndarray, " units"], document: Int64[np.ndarray, " units"]
    ) -> Int64[np.ndarray, "2 found"]:
        """Return long rows that share a run with the document, and the first unit of that run."""
        hashes = hash_runs(units, RUN_UNITS)
        candidates = self._maybe_indexed(hashes)
        low, high = (np.searchsorted(self.runs, hashes[candidates], side=side) for side in _SEARCH_SIDES)
        counts = high - low
        if not counts.any():
            return np.zeros((2, 0), dtype=np.int64)
        # For every run that a row and the document share, compute where the row would begin.
        run_indices = np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        places = self.places[run_indices]
        rows = np.searchsorted(self.ends, places, side="right") - 1
        starts = np.repeat(candidates, counts) - (places - self.ends[rows])
        # Combine row and place into one number: sorting pairs is ten times slower.
        keys, first_indices, votes = np.unique(
            (rows << 32) + starts + (1 << 31), return_index=True, return_counts=True
        )
        rows, starts = keys >> 32, (keys & 0xFFFFFFFF) - (1 << 31)
        shared_units = np.repeat(candidates, counts)[first_indices]
        is_likely = votes >= np.maximum(1, (self.ends[rows + 1] - self.ends[rows]) // UNITS_PER_CHANGE - 1)
        rows, starts, shared_units = rows[is_likely], starts[is_likely], shared_units[is_likely]
        is_match = self._match_at(units, document, rows, starts, shared_units)
        return np.stack([rows[is_match], shared_units[is_match]])

    def _match_at(
        self,
        units: UInt64[np.ndarray, " units"],
        document: Int64[np.ndarray, " units"],
        rows: Int64[np.ndarray, " rows"],
        starts: Int64[np.ndarray, " rows"],
        shared_units: Int64[np.ndarray, " rows"],
    ) -> Bool[np.ndarray, " rows"]:
        """Return whether enough units of each row match the document at their places, counted from the row's start."""
        if not len(rows):
            return np.zeros(0, dtype=np.bool_)
        row_starts = self.ends[rows]
        lengths = self.ends[rows + 1] - row_starts
        begins = np.cumsum(lengths) - lengths
        offset = np.arange(int(lengths.sum())) - np.repeat(begins, lengths)
        unit_places = np.repeat(starts, lengths) + offset
        is_inside = (unit_places >= 0) & (unit_places < len(units))
        unit_places = np.where(is_inside, unit_places, 0)
        is_inside &= document[unit_places] == np.repeat(document[shared_units], lengths)
        is_equal = is_inside & (self.units[np.repeat(row_starts, lengths) + offset] == units[unit_places])
        min_equal = lengths - lengths // UNITS_PER_CHANGE
        is_match: Bool[np.ndarray, " rows"] = np.add.reduceat(is_equal, begins, dtype=np.int64) >= min_equal
        return is_match

    def _find_short_rows(
        self, units: UInt64[np.ndarray, " units"], line: Int64[np.ndarray, " units"]
    ) -> Int64[np.ndarray, "2 found"]:
        """Return short rows that are whole lines of the document, and where each begins."""
        line_starts = np.flatnonzero(np.diff(line, prepend=-1))
        lengths = np.diff(line_starts, append=len(units))
        short_lines = np.flatnonzero(lengths < MIN_LONG_UNITS)
        hashes, line_indices = _line_hashes(units, line_starts[short_lines], lengths[short_lines])
        candidates = self._maybe_indexed(hashes)
        low, high = (np.searchsorted(self.lines, hashes[candidates], side=side) for side in _SEARCH_SIDES)
        counts = high - low
        rows = self.short[np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))]
        return np.stack([rows, np.repeat(line_starts[short_lines[line_indices[candidates]]], counts)])

    def groups_of(self, rows: Iterable[int]) -> list[str]:
        """Return the groups of the given rows, each once, in the order of the index."""
        places = {
            place for row in rows for place in self.group[self.owned[row] : self.owned[row + 1]].tolist()
        }
        return [self.groups[place] for place in sorted(places)]


ARRAY_NAMES = tuple(field.name for field in fields(Leaks) if field.name != "groups")


def _line_hashes(
    units: UInt64[np.ndarray, " units"],
    line_starts: Int64[np.ndarray, " lines"],
    lengths: Int64[np.ndarray, " lines"],
) -> tuple[UInt64[np.ndarray, " hashes"], Int64[np.ndarray, " hashes"]]:
    """Return hashes of short lines, and of the same lines with any one unit left open if they are long enough.

    Returns:
        The hashes, and the index of the line of each.
    """
    if not len(line_starts):
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    begins = np.cumsum(lengths) - lengths
    offsets = np.arange(int(lengths.sum())) - np.repeat(begins, lengths)
    terms = units[np.repeat(line_starts, lengths) + offsets] * hash_powers(MIN_LONG_UNITS)[offsets]
    count = lengths.astype(np.uint64)
    line_sums = np.add.reduceat(terms, begins)
    line = np.repeat(np.arange(len(line_starts)), lengths)
    line, terms = line[lengths[line] >= UNITS_PER_CHANGE], terms[lengths[line] >= UNITS_PER_CHANGE]
    hashes = np.concatenate([line_sums + count, line_sums[line] - terms - count[line]])
    return hashes, np.concatenate([np.arange(len(line_starts)), line])


def _bloom_bits(
    hashes: UInt64[np.ndarray, " hashes"], num_bytes: int
) -> tuple[UInt64[np.ndarray, " hashes"], UInt64[np.ndarray, " hashes"]]:
    shift = np.uint64(64 - (num_bytes * 8 - 1).bit_length())
    return hashes >> shift, (hashes * _BLOOM_FACTOR) >> shift


def _bloom_filter(hashes: UInt64[np.ndarray, " hashes"]) -> UInt8[np.ndarray, " bytes"]:
    """Build the Bloom filter of all hashes: one bit in 32 is set, so about one of 1,000 other hashes passes."""
    bits = np.zeros(1 << max(10, (len(hashes) * _BITS_A_HASH - 1).bit_length()), dtype=np.bool_)
    for places in _bloom_bits(hashes, len(bits) // 8):
        bits[places] = True
    return np.packbits(bits, bitorder="little")


def read(path_or_folder: str | Path) -> Leaks:
    """Read the index that ``xling eval leaks`` wrote into a folder.

    Raises:
        UserError: there is none.
    """
    path = Path(path_or_folder) / FILE_NAME if Path(path_or_folder).is_dir() else Path(path_or_folder)
    if not path.is_file():
        raise UserError(
            f"no index of test rows at {path_or_folder}", fix="xling eval leaks data=FOLDER out=DIR makes one"
        )
    return _read(path, identity(path))


@lru_cache(maxsize=1)
def _read(path: Path, stamp: tuple[int, ...]) -> Leaks:
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        if header["format"] != FORMAT:
            raise ValueError(header["format"])
        arrays = {name: np.load(path.parent / f"{name}.npy", mmap_mode="r") for name in ARRAY_NAMES}
    except (ValueError, KeyError, OSError, TypeError, EOFError) as error:
        raise UserError(
            f"{path} is not an index of test rows: {error}", FORMAT, "create it again: xling eval leaks"
        ) from None
    return Leaks(
        groups=tuple(header["groups"]), **{name: np.asarray(array) for name, array in arrays.items()}
    )
