"""Sorted distinct numbers, and connected components of a graph, in bounded memory: what does not fit goes to disk.

A graph of documents has edges ``low * 2^32 + high``. `connected_stars` turns it into one star for each component,
whose centre is its first document, by rounds of sorting: the large-star and small-star steps of Kiveris et al. 2014
(Connected Components in MapReduce and Beyond). A round reads and writes the edges twice; the number of rounds grows
with the logarithm of the longest chain.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xling.array_types import UInt64

Values = NDArray[np.uint64]
HALF_BITS, LOW_MASK = np.uint64(32), np.uint64((1 << 32) - 1)
_VALUE_BYTES = 8
_MIN_BLOCK = 1 << 10
_MIXER = np.uint64(0x9E3779B97F4A7C15)


class Sorter:
    """Numbers that are added in any order and read in ascending order, each once, as often as needed.

    Args:
        folder: of the files, made when one is needed.
        max_values: numbers in memory; more are written to sorted files.
    """

    def __init__(self, folder: Path, max_values: int) -> None:
        self._folder, self._max_values = folder, max_values
        self._waiting: list[Values] = []
        self._num_waiting = 0
        self._run_files: list[Path] = []

    def add(self, values: UInt64[np.ndarray, " values"]) -> None:
        """Add numbers to those that will be sorted."""
        for first in range(0, len(values), self._max_values):
            part = values[first : first + self._max_values]
            if self._num_waiting + len(part) > self._max_values:
                self._write_run()
            self._waiting.append(part)
            self._num_waiting += len(part)

    def _merge_waiting(self) -> Values:
        """Return what waits in memory, sorted and distinct."""
        if len(self._waiting) != 1:
            waiting = np.concatenate([np.zeros(0, dtype=np.uint64), *self._waiting])
        else:
            waiting = self._waiting[0]
        self._waiting = [np.unique(waiting)]
        self._num_waiting = len(self._waiting[0])
        return self._waiting[0]

    def _write_run(self) -> None:
        values = self._merge_waiting()
        if 2 * len(values) > self._max_values:  # else enough were equal to go on in memory
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{len(self._run_files):05d}.u64"
            path.write_bytes(values.data)
            self._run_files.append(path)
            self._waiting, self._num_waiting = [], 0

    def blocks(self) -> Iterator[UInt64[np.ndarray, " _"]]:
        """Yield all numbers in ascending order, each once, in blocks."""
        rest = self._merge_waiting()
        if not self._run_files:
            if len(rest):
                yield rest
            return
        size = max(_MIN_BLOCK, self._max_values // (len(self._run_files) + 1))
        inputs: list[Iterator[Values]] = [_read_blocks(path, size) for path in self._run_files]
        inputs.append(rest[i : i + size] for i in range(0, len(rest), size))
        yield from merged(inputs)

    def close(self) -> None:
        """Delete the temporary files and all numbers that were added."""
        self._waiting, self._num_waiting, self._run_files = [], 0, []
        shutil.rmtree(self._folder, ignore_errors=True)


def _read_blocks(path: Path, size: int) -> Iterator[Values]:
    for first in range(0, path.stat().st_size // _VALUE_BYTES, size):
        yield np.fromfile(path, dtype="<u8", count=size, offset=_VALUE_BYTES * first)


def merged(inputs: Iterable[Iterator[UInt64[np.ndarray, " _"]]]) -> Iterator[UInt64[np.ndarray, " _"]]:
    """Yield the numbers of several ascending sequences in ascending order, each once.

    Args:
        inputs: sequences as blocks of ascending, distinct numbers; one block of each is in memory.
    """
    block_iterators = list(inputs)
    heads = [next(blocks, None) for blocks in block_iterators]
    while True:
        present = [(i, head) for i, head in enumerate(heads) if head is not None]
        if not present:
            return
        bound = min(head[-1] for _, head in present)
        values_ready = []
        for i, head in present:
            num = int(np.searchsorted(head, bound, side="right"))
            values_ready.append(head[:num])
            heads[i] = head[num:] if num < len(head) else next(block_iterators[i], None)
        yield np.unique(np.concatenate(values_ready))


def split_halves(
    values: UInt64[np.ndarray, " values"],
) -> tuple[UInt64[np.ndarray, " values"], UInt64[np.ndarray, " values"]]:
    """Return the upper and the lower 32 bits of numbers, ``(values,)`` uint64 each."""
    return values >> HALF_BITS, values & LOW_MASK


def join_halves(
    upper: UInt64[np.ndarray, " values"], lower: UInt64[np.ndarray, " values"]
) -> UInt64[np.ndarray, " values"]:
    """Return numbers of two halves, ``(values,)`` uint64."""
    return (upper << HALF_BITS) | lower


def connected_stars(edges: Iterable[UInt64[np.ndarray, " _"]], folder: Path, max_values: int) -> Sorter:
    """Return ``node * 2^32 + first node of its component`` for every node but those first ones.

    Args:
        edges: blocks of edges, packed, in any order and as often as they come; an edge joins two different nodes.
        folder: of files that do not fit into memory; `Sorter.close` of the answer deletes the last of them.
        max_values: edges in memory.
    """
    number = 0

    def sorter() -> Sorter:
        nonlocal number
        number += 1
        return Sorter(folder / str(number), max_values)

    both_directions, last_counts = sorter(), (-1, 0)
    for block in edges:
        _add_both(both_directions, *split_halves(block))
    while True:
        to_smaller = sorter()
        state = _run_large_star(both_directions, to_smaller)
        both_directions.close()
        if state == last_counts:
            return to_smaller
        last_counts = state
        both_directions = sorter()
        for node, neighbours, first in _neighbour_groups(to_smaller):
            is_new = neighbours != first  # a node that has several earlier ones joins them
            _add_both(both_directions, node, first)
            _add_both(both_directions, neighbours[is_new], first[is_new])
        to_smaller.close()


def _add_both(sorter: Sorter, first: Values, second: Values) -> None:
    sorter.add(join_halves(first, second))
    sorter.add(join_halves(second, first))


def _run_large_star(both_directions: Sorter, to_smaller: Sorter) -> tuple[int, int]:
    """Join the later neighbours of every node to its earliest one; return number and checksum of the edges.

    Args:
        both_directions: edges in both directions.
        to_smaller: gets edges from the later node to the earlier one.
    """
    num_edges = checksum = 0
    for node, neighbours, first in _neighbour_groups(both_directions):
        later = neighbours > node
        node, neighbours, first = node[later], neighbours[later], np.minimum(node, first)[later]
        to_smaller.add(join_halves(neighbours, first))
        num_edges += len(node)
        mixed = join_halves(node, neighbours) * _MIXER
        checksum = (checksum + int(np.add.reduce(mixed ^ (mixed >> HALF_BITS)))) % (1 << 64)
    return num_edges, checksum


def _neighbour_groups(edges: Sorter) -> Iterator[tuple[Values, Values, Values]]:
    """Yield nodes, a neighbour of each, and the first neighbour of the node, in blocks in the order of the nodes."""
    last_node, last_neighbour = -1, 0
    for block in edges.blocks():
        node, neighbours = split_halves(block)
        is_start = np.concatenate([[int(node[0]) != last_node], node[1:] != node[:-1]])
        starts = np.maximum.accumulate(np.where(is_start, np.arange(len(node)), 0))
        first = neighbours[starts]
        if not is_start[0]:
            first[node == node[0]] = last_neighbour
        last_node, last_neighbour = int(node[-1]), int(first[-1])
        yield node, neighbours, first


def count_values(
    values: Iterable[UInt64[np.ndarray, " _"]],
) -> Iterator[tuple[UInt64[np.ndarray, " _"], UInt64[np.ndarray, " _"]]]:
    """Yield the distinct numbers of an ascending sequence and how often each stands in it, in blocks."""
    pending, num_pending = np.zeros(0, dtype=np.uint64), 0
    for block in values:
        distinct, counts = np.unique(block, return_counts=True)
        if len(pending) and pending[0] == distinct[0]:
            counts[0] += num_pending
        elif len(pending):
            yield pending, np.array([num_pending], dtype=np.uint64)
        yield distinct[:-1], counts[:-1].astype(np.uint64)
        pending, num_pending = distinct[-1:], int(counts[-1])
    if len(pending):
        yield pending, np.array([num_pending], dtype=np.uint64)
