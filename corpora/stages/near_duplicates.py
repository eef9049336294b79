"""Near-duplicate detection over any number of shards: MinHash with banding, optionally verified exactly.

The steps, each a function over files so that it can be an array element:

1. `sketch_shard` (map over shards) writes the band hashes of every document, sorted by band and range of hashes.
2. `find_pairs` (map over bands and ranges) pairs documents that share a band; memory is one range of one band.
3. `shingle_shard` (map over shards, only with ``min_jaccard``) writes the shingles of the paired documents.
4. `choose_dropped` (barrier) joins pairs into clusters. Of each it keeps the document with the fewest U+FFFD, and of
   those the first in the order of the shards: the result depends neither on workers nor on the order in which parts
   end. What does not fit into memory is sorted on disk (`xling.corpora.common.disk_sort`).
5. `drop_near_duplicates` (map over shards) drops the others and notes the size of its cluster with each
survivor.

Steps 2, 3 and 5 read the slices of their own range or shard only. Documents are numbered over all shards.

Sources: Broder 1997 (shingles, MinHash); Leskovec et al., Mining of Massive Datasets, chapter 3 (banding).
With ``b`` bands of ``r`` rows a pair of Jaccard similarity ``s`` is found with probability ``1 - (1 -
s^r)^b``: for 14 x 8, 56 % at 0.7, 92 % at 0.8, 99.95 % at 0.9.
"""

from __future__ import annotations

import itertools
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, Literal

import numpy as np
import polars as pl
import xxhash
from numpy.typing import NDArray
from rensa import RMinHash

from xling.array_types import Int64, UInt64
from xling.core.errors import UserError
from xling.core.settings import values
from xling.core.settings.values import COUNT, ranged
from xling.corpora.common.disk_sort import (
    HALF_BITS,
    LOW_MASK,
    Sorter,
    connected_stars,
    count_values,
    join_halves,
    merged,
    split_halves,
)
from xling.corpora.common.slices import (
    read_slice,
    read_slices,
    slice_start,
    write_slices,
    write_slices_in_blocks,
)
from xling.corpora.stages import Stage
from xling.text.document import Document, Ledger
from xling.text.words.units import count_units, hash_runs

STAGE = "near_dedup"
REASONS = {
    "near_duplicate": "an earlier document, or one with fewer replacement characters, is nearly the same",
    "in_earlier_corpus": "a document of an earlier corpus (against=) is nearly the same",
}
PARTIAL_REASONS: frozenset[str] = frozenset()

_BATCH_DOCS, _RUN_DOCS = 500, 400_000
_BATCH_SHINGLES = 8_000_000  # 64 MB
_BLOCK_PAIRS, _FILE_BLOCK = 1 << 20, 1 << 14
_MIXER = np.uint64(0x9E3779B97F4A7C15)
HASHES_FILE, POSITIONS_FILE, FLAWED_FILE = "hashes.u64", "positions.u32", "flawed.u32"
# Bytes of memory while pairs are looked for, for each document of a range; and for each pair while they are joined.
BYTES_PER_HASH, _BYTES_PER_PAIR = 60, 64

_IN_EARLIER = 1
"""In place of a cluster's size, which is 2 at the least: the document is in an earlier corpus."""

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class NearDedup:
    """Settings of near-deduplication.

    Args:
        bands: number of bands.
        rows: MinHash values a band; bands * rows values are computed.
        shingle_words: words of a shingle.
        shingle_chars: characters of a shingle where most letters are of scripts without spaces.
        min_jaccard: exact Jaccard similarity of shingles from which a pair counts; 0 trusts the bands.
        scope: documents that are compared: ``all``, or those of one ``dump`` (a source URI).
        seed: of the hash functions.
    """

    bands: int = ranged(14, COUNT)
    rows: int = ranged(8, COUNT)
    shingle_words: int = ranged(5, COUNT)
    shingle_chars: int = ranged(10, COUNT)
    min_jaccard: float = 0.0
    scope: Literal["all", "dump"] = "all"
    seed: int = 0

    def __post_init__(self) -> None:
        values.check(self)


def shingles(text: str, cfg: NearDedup) -> UInt64[np.ndarray, " shingles"]:
    """Return the sorted distinct hashes of the shingles of ``text``; a shorter text is one shingle."""
    hashes, _, _, share = count_units(unicodedata.normalize("NFC", text))
    size = cfg.shingle_chars if share > 0.5 else cfg.shingle_words
    ordered = np.sort(hash_runs(hashes, max(1, min(size, len(hashes)))))
    is_new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def sketch_shard(docs: Iterable[Document], out: Path, cfg: NearDedup, num_ranges: int = 1) -> int:
    """Write the band hashes of a shard's documents and return their number.

    Args:
        docs: the shard, in the order in which `drop_near_duplicates` will see it again. Memory is one band of all of
            them, or all bands of some 400,000.
        out: folder; it appears complete or not at all. Documents without any word are in no band.
        num_ranges: ranges of hashes; `find_pairs` holds one range of a band of all shards in memory.
    """
    temporary = out.with_name(out.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    flawed: list[tuple[int, int]] = []
    numbered_docs, num_numbered, runs_written = _numbered(docs, flawed), 0, list[Path]()
    while chunk := _next_sketches(numbered_docs, cfg):
        bands, positions = [np.zeros((0, cfg.bands), dtype=np.uint64)], list[int]()
        num_docs = 0
        while chunk and num_docs < _RUN_DOCS:
            sketched = [(i, hashes) for i, hashes in chunk if len(hashes)]
            bands.append(_band_hashes([hashes for _, hashes in sketched], cfg))
            positions += [i for i, _ in sketched]
            num_numbered, num_docs = chunk[-1][0] + 1, num_docs + len(chunk)
            chunk = _next_sketches(numbered_docs, cfg) if num_docs < _RUN_DOCS else []
        runs_written.append(temporary / f"{len(runs_written)}")
        _write_run(np.concatenate(bands), np.array(positions, dtype="<u4"), runs_written[-1], num_ranges)
    _join_runs(runs_written, temporary, cfg.bands * num_ranges, num_numbered)
    np.array(flawed, dtype="<u4").tofile(temporary / FLAWED_FILE)
    shutil.rmtree(out, ignore_errors=True)
    temporary.rename(out)
    return num_numbered


def _numbered(docs: Iterable[Document], flawed: list[tuple[int, int]]) -> Iterator[tuple[int, Document]]:
    """Yield the documents with their numbers; those with U+FFFD are listed in ``flawed`` with how many they have."""
    for number, doc in enumerate(docs):
        if num_replaced := doc.text.count("\ufffd"):
            flawed.append((number, num_replaced))
        yield number, doc


def _next_sketches(numbered_docs: Iterator[tuple[int, Document]], cfg: NearDedup) -> list[tuple[int, Hashes]]:
    """Return the numbers and shingles of the next documents, each made while its units are remembered."""
    return [(i, _scoped_shingles(doc, cfg)) for i, doc in itertools.islice(numbered_docs, _BATCH_DOCS)]


def _scoped_shingles(doc: Document, cfg: NearDedup) -> Hashes:
    """Return the shingles of a document; those of two scopes differ."""
    salt = xxhash.xxh64_intdigest(doc.source.encode()) if cfg.scope == "dump" else 0
    return shingles(doc.text, cfg) ^ np.uint64(salt)


def _band_hashes(batch: list[Hashes], cfg: NearDedup) -> Hashes:
    """Return the band hashes of a batch, ``(documents, bands)``."""
    offsets = np.cumsum([0, *(len(hashes) for hashes in batch)], dtype=np.uint64)
    flat = np.concatenate([np.zeros(0, dtype=np.uint64), *batch])
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(flat, offsets, cfg.bands * cfg.rows, cfg.seed)
    values = np.array(matrix.to_rows(), dtype=np.uint64).reshape(len(batch), cfg.bands, cfg.rows)
    bands = np.zeros(values.shape[:2], dtype=np.uint64)
    for row in range(cfg.rows):
        bands = (bands ^ values[:, :, row]) * _MIXER
        bands ^= bands >> np.uint64(32)
    return bands


def _write_run(bands: Hashes, positions: NDArray[np.uint32], out: Path, num_ranges: int) -> None:
    """Write the hashes of some documents, and the documents, by band and range."""
    edges = np.array([(r << 64) // num_ranges for r in range(1, num_ranges)], dtype=np.uint64)
    hashes, docs, lengths = [], [], list[int]()
    for band in bands.T:
        order = np.argsort(band, kind="stable")
        hashes.append(band[order])
        docs.append(positions[order])
        lengths += np.diff([0, *np.searchsorted(hashes[-1], edges), len(order)]).tolist()
    out.mkdir()
    write_slices(out / HASHES_FILE, np.concatenate(hashes), np.cumsum(lengths))
    (out / POSITIONS_FILE).write_bytes(np.concatenate(docs).data)


def _join_runs(run_folders: list[Path], out: Path, num_slices: int, num_docs: int) -> None:
    """Join the slices of runs, and add the number of documents as a last slice."""

    def blocks(
        docs: BinaryIO,
    ) -> Iterator[tuple[UInt64[np.ndarray, " hashes"], Int64[np.ndarray, " slices"]]]:
        for slice_number in range(num_slices):
            parts = [_read_band_slice(folder, slice_number) for folder in run_folders]
            hashes = np.concatenate([np.zeros(0, dtype=np.uint64), *(part[0] for part in parts)])
            order = np.argsort(hashes, kind="stable")
            nodes = np.concatenate([np.zeros(0, dtype=np.uint64), *(part[1] for part in parts)])
            docs.write(nodes[order].astype("<u4").data)
            yield hashes[order], np.bincount([slice_number] * len(order), minlength=num_slices + 1)
        yield np.array([num_docs], dtype=np.uint64), np.bincount([num_slices])

    with (out / POSITIONS_FILE).open("wb") as docs:
        write_slices_in_blocks(out / HASHES_FILE, blocks(docs), num_slices + 1)
    for folder in run_folders:
        shutil.rmtree(folder)


def first_documents(sketches: Sequence[Path]) -> list[int]:
    """Return the number of the first document of each shard, and of all documents.

    Raises:
        UserError: more than 4 billion documents.
    """
    nums = (int(read_slice(sketch / HASHES_FILE, -1)[0]) for sketch in sketches)
    first_numbers = [0, *itertools.accumulate(nums)]
    if first_numbers[-1] >> 32:
        raise UserError(
            f"{first_numbers[-1]:,} documents are too many to compare",
            "fewer than 4,294,967,296",
            "build fewer dumps at once",
        )
    return first_numbers


def find_pairs(sketches: Sequence[Path], numbers: Sequence[int], out: Path, ends: Path | None = None) -> int:
    """Write the pairs of documents that share the hash of a band within one range of hashes; return their number.

    Every document of a bucket is paired with its first one.

    Args:
        sketches: what `sketch_shard` wrote, in the order of the shards.
        numbers: band * number of ranges + range, of each slice; one at a time is in memory.
        out: file of ``first * 2^32 + second``, ascending uint64. Written whole or not at all.
        ends: file of `xling.corpora.common.slices` that gets the documents of the pairs by shard, for `shingle_shard`.
    """
    first_numbers = first_documents(sketches)
    by_slice = [_band_pairs(sketches, first_numbers, number) for number in numbers]
    pairs = by_slice[0] if len(by_slice) == 1 else np.unique(np.concatenate(by_slice))
    if ends:
        of_pairs = np.unique(np.concatenate(split_halves(pairs)))
        write_slices(ends, of_pairs, np.searchsorted(of_pairs, np.array(first_numbers[1:], dtype=np.uint64)))
    temporary = out.with_name(out.name + ".tmp")
    temporary.write_bytes(pairs.data)
    temporary.rename(out)
    return len(pairs)


def _band_pairs(sketches: Sequence[Path], first_numbers: Sequence[int], slice_number: int) -> Hashes:
    """Return the pairs of one slice, ascending; ``first_numbers`` as `first_documents` returns."""
    parts = [
        _read_band_slice(sketch, slice_number, first)
        for sketch, first in zip(sketches, first_numbers[:-1], strict=True)
    ]
    hashes = np.concatenate([np.zeros(0, dtype=np.uint64), *(part[0] for part in parts)])
    nodes = np.concatenate([np.zeros(0, dtype=np.uint64), *(part[1] for part in parts)])
    del parts
    order = np.argsort(hashes, kind="stable")  # documents of a bucket stay in order
    hashes, nodes = hashes[order], nodes[order]
    is_start = np.concatenate([np.ones(min(1, len(hashes)), dtype=bool), hashes[1:] != hashes[:-1]])
    starts = np.maximum.accumulate(np.where(is_start, np.arange(len(hashes)), 0))
    pairs: Hashes = np.sort(join_halves(nodes[starts], nodes)[~is_start])
    return pairs


def _read_band_slice(sketch: Path, slice_number: int, first: int = 0) -> tuple[Hashes, Hashes]:
    """Return the hashes of a slice of a sketch, and their documents, counted from ``first``."""
    hashes, start = (
        read_slice(sketch / HASHES_FILE, slice_number),
        slice_start(sketch / HASHES_FILE, slice_number),
    )
    places = np.fromfile(sketch / POSITIONS_FILE, dtype="<u4", count=len(hashes), offset=4 * start)
    return hashes, places.astype(np.uint64) + np.uint64(first)


def _read_blocks(path: Path) -> Iterator[Hashes]:
    for offset in range(0, path.stat().st_size, 8 * _FILE_BLOCK):
        yield np.fromfile(path, dtype="<u8", count=_FILE_BLOCK, offset=offset)


def shingle_shard(
    docs: Iterable[Document],
    shard: int,
    sketches: Sequence[Path],
    ends: Sequence[Path],
    out: Path,
    cfg: NearDedup,
) -> None:
    """Write the shingles of those documents of a shard that stand in a pair, for the exact check.

    Args:
        docs: the documents that `sketch_shard` saw, in the same order.
        shard: their position among the shards.
        sketches: what `sketch_shard` wrote for all shards.
        ends: the documents of pairs that `find_pairs` wrote.
        out: Parquet file. Written whole or not at all.
    """
    first = first_documents(sketches)[shard]
    wanted = set(read_slices(ends, shard).tolist())
    rows = [(i, shingles(doc.text, cfg)) for i, doc in enumerate(docs, first) if i in wanted]
    frame = pl.DataFrame(
        {"node": [i for i, _ in rows], "shingles": [hashes for _, hashes in rows]},
        schema={"node": pl.UInt64, "shingles": pl.List(pl.UInt64)},
    )
    temporary = out.with_name(out.name + ".tmp")
    frame.write_parquet(temporary)
    temporary.rename(out)


def choose_dropped(
    pair_files: Sequence[Path],
    sketches: Sequence[Path],
    out: Path,
    cfg: NearDedup,
    shingle_files: Sequence[Path] = (),
    memory_mb: int = 1024,
    num_earlier: int = 0,
) -> int:
    """Write which documents to drop, and the cluster sizes of those that stay; return how many are dropped.

    Documents connected by pairs are one cluster; of those with the fewest replacement characters the first stays.

    Args:
        pair_files: what `find_pairs` wrote.
        sketches: what `sketch_shard` wrote, in the order of the shards.
        out: file of `xling.corpora.common.slices`: for each document of a cluster its position in the shard. The
            upper half has the size of its cluster, 0 to drop it, or 1 to drop it since an earlier corpus has it.
        shingle_files: what `shingle_shard` wrote; needed if ``min_jaccard`` is set.
        memory_mb: limit of memory; pairs that do not fit are sorted on disk beside ``out``.
        num_earlier: of the first shards, which are those of earlier corpora; a document of theirs always stays.
    """
    assert bool(shingle_files) or not cfg.min_jaccard, "the exact check needs the shingles"
    num = max(1, (memory_mb << 20) // _BYTES_PER_PAIR)
    folder = out.with_name(out.name + ".sort")
    pairs = merged([_read_blocks(path) for path in pair_files])
    if cfg.min_jaccard:
        pairs = _are_near(pairs, shingle_files, cfg.min_jaccard)
    leaves = connected_stars(pairs, folder / "stars", num)
    cluster_sizes, dropped = Sorter(folder / "sizes", num), Sorter(folder / "chosen", num)
    num_dropped, flawed, kept_instead = 0, _flawed_documents(sketches), dict[int, int]()
    end_of_earlier = np.uint64(first_documents(sketches)[num_earlier])
    flawed_firsts = np.array(sorted(node for node in flawed if node >= end_of_earlier), dtype=np.uint64)
    for node, first in map(split_halves, leaves.blocks()):
        num_dropped += len(node)
        cluster_sizes.add(join_halves(first, node))
        dropped.add(join_halves(node, np.where(first < end_of_earlier, _IN_EARLIER, 0).astype(np.uint64)))
        is_flawed = np.isin(first, flawed_firsts)
        for other, flawed_first in zip(node[is_flawed].tolist(), first[is_flawed].tolist(), strict=True):
            best = kept_instead.get(flawed_first, flawed_first)
            kept_instead[flawed_first] = min(best, other, key=lambda each: (flawed.get(each, 0), each))
    for first, size in count_values(block >> HALF_BITS for block in cluster_sizes.blocks()):
        stays = np.array([kept_instead.get(each, each) for each in first.tolist()], dtype=np.uint64)
        # Of two values of a document the greater one, its size, is read last.
        dropped.add(join_halves(stays, size + np.uint64(1)))
        dropped.add(first[stays != first] << HALF_BITS)
    ends = np.array(first_documents(sketches), dtype=np.uint64)
    write_slices_in_blocks(out, (_split_by_shard(block, ends) for block in dropped.blocks()), len(sketches))
    shutil.rmtree(folder, ignore_errors=True)
    return num_dropped


def _flawed_documents(sketches: Sequence[Path]) -> dict[int, int]:
    """Return the numbers of the documents with replacement characters, and how many each has."""
    flawed: dict[int, int] = {}
    for folder, first in zip(sketches, first_documents(sketches)[:-1], strict=True):
        table = np.fromfile(folder / FLAWED_FILE, dtype="<u4").reshape(-1, 2)
        flawed.update(
            zip((table[:, 0].astype(np.int64) + int(first)).tolist(), table[:, 1].tolist(), strict=True)
        )
    return flawed


def _split_by_shard(block: Hashes, first_numbers: Hashes) -> tuple[Hashes, NDArray[np.int64]]:
    """Return ``size * 2^32 + position`` for ``document * 2^32 + size``, and how many are in each shard."""
    nodes, sizes = split_halves(block)
    shard = np.searchsorted(first_numbers, nodes, side="right") - 1
    return join_halves(sizes, nodes - first_numbers[shard]), np.bincount(
        shard, minlength=len(first_numbers) - 1
    )


def _are_near(
    pairs: Iterable[Hashes], shingle_files: Sequence[Path], min_jaccard: float
) -> Iterator[UInt64[np.ndarray, " _"]]:
    """Yield the pairs that reach the exact Jaccard similarity, with a bounded number of shingles in memory."""
    all_shingles = pl.scan_parquet(list(shingle_files))
    for whole in pairs:
        for block in np.array_split(whole, -(-len(whole) // _BLOCK_PAIRS)):
            first_nodes, second_nodes = (half.tolist() for half in split_halves(block))
            ends = pl.Series(sorted({*first_nodes, *second_nodes}), dtype=pl.UInt64)
            of_ends = all_shingles.filter(pl.col("node").is_in(ends.implode()))
            sizes = dict(of_ends.select("node", pl.col("shingles").list.len()).collect().iter_rows())
            reached: list[bool] = []
            for batch in _batches(zip(first_nodes, second_nodes, strict=True), sizes):
                reached += _reach_similarity(batch, all_shingles, min_jaccard)
            yield block[np.array(reached, dtype=bool)]


def _reach_similarity(
    batch: list[tuple[int, int]], all_shingles: pl.LazyFrame, min_jaccard: float
) -> Iterator[bool]:
    needed = pl.Series(sorted(set(itertools.chain.from_iterable(batch))), dtype=pl.UInt64)
    documents = all_shingles.filter(pl.col("node").is_in(needed.implode())).collect()
    flat = documents["shingles"].explode().to_numpy()
    parts = np.split(flat, np.cumsum(documents["shingles"].list.len().to_numpy(), dtype=np.int64)[:-1])
    sets = dict(zip(documents["node"].to_list(), parts, strict=True))
    for first, second in batch:
        a, b = sets[first], sets[second]
        shared = len(np.intersect1d(a, b, assume_unique=True))
        yield shared >= min_jaccard * (len(a) + len(b) - shared)


def _batches(pairs: Iterable[tuple[int, int]], sizes: dict[int, int]) -> Iterator[list[tuple[int, int]]]:
    """Yield pairs in order, grouped so that a group has `_BATCH_SHINGLES` shingles."""
    batch: list[tuple[int, int]] = []
    nodes_in_batch: set[int] = set()
    num_shingles = 0
    for first, second in pairs:
        batch.append((first, second))
        num_shingles += sum(sizes[node] for node in {first, second} - nodes_in_batch)
        nodes_in_batch |= {first, second}
        if num_shingles >= _BATCH_SHINGLES:
            yield batch
            batch, nodes_in_batch, num_shingles = [], set(), 0
    if batch:
        yield batch


def drop_near_duplicates(
    docs: Iterable[Document], shard: int, dropped_file: Path, ledger: Ledger
) -> Iterator[Document]:
    """Yield the documents of a shard that `choose_dropped` keeps.

    Args:
        docs: the documents that `sketch_shard` saw, in the same order.
        shard: their position among the shards.
        dropped_file: what `choose_dropped` wrote.
        ledger: gets the others as ``near_duplicate``.
    """
    values = read_slice(dropped_file, shard)
    sizes = dict(zip((values & LOW_MASK).tolist(), (values >> HALF_BITS).tolist(), strict=True))
    yield from _DropNearDuplicates(sizes)(docs, ledger)


@dataclass
class _DropNearDuplicates(Stage):
    """Drop documents of one shard, in its order, and store how many documents each kept one represents.

    Args:
        sizes: position -> size of the cluster; 0 for a dropped document, 1 for one of an earlier corpus; absent for
            one without copies.
        position: position of the last document.
    """

    sizes: dict[int, int]
    position: int = -1

    name: ClassVar[str] = STAGE
    reasons: ClassVar[dict[str, str]] = REASONS

    def judge(self, doc: Document) -> str | None:
        """Return why a document is dropped: of a cluster, only the first stays, and gets the cluster's size."""
        self.position += 1
        size = self.sizes.get(self.position)
        if size == _IN_EARLIER:
            return "in_earlier_corpus"
        if size:
            doc.meta["cluster_size"] = size
        return "near_duplicate" if size == 0 else None
