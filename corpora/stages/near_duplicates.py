"""Near-duplicate detection over any number of shards: MinHash with banding, optionally verified exactly.

The steps, each a function over files so that it can be an array element:

1. `sketch_shard` (map over shards) writes the band hashes of every document.
2. `find_pairs` (map over bands) pairs documents that share a band; memory is about 60 bytes a document.
3. `shingle_shard` (map over shards, only with ``min_jaccard``) writes the shingles of the paired documents.
4. `choose` (barrier) joins pairs into clusters and keeps the first document of each, in the order of the
   shards: the result depends neither on workers nor on the order in which parts end.
5. `drop_near_duplicates` (map over shards) drops the others and notes the size of its cluster with each
survivor.

Steps 3 and 5 read the slices of their own shard only.

Sources: Broder 1997 (shingles, MinHash); Leskovec et al., Mining of Massive Datasets, chapter 3 (banding).
With ``b`` bands of ``r`` rows a pair of Jaccard similarity ``s`` is found with probability ``1 - (1 -
s^r)^b``: for 14 x 8, 56 % at 0.7, 92 % at 0.8, 99.95 % at 0.9.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rensa import RMinHash

from xling.core.errors import UserError
from xling.corpora.slices import read_slice, read_slices, write_slices
from xling.corpora.stages import Stage
from xling.text.document import Document, Ledger
from xling.text.units import hashed_units, runs, unspaced_share

if TYPE_CHECKING:
    from jaxtyping import UInt64

STAGE = "near_dedup"
REASONS = {"near_duplicate": "an earlier document is nearly the same"}
PARTIAL: frozenset[str] = frozenset()

_BATCH_DOCS = 500
_BATCH_SHINGLES = 8_000_000  # 64 MB
_HALF, _LOW = np.uint64(32), np.uint64((1 << 32) - 1)  # of a node: shard, position
_MIXER = np.uint64(0x9E3779B97F4A7C15)

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
        seed: of the hash functions.
    """

    bands: int = 14
    rows: int = 8
    shingle_words: int = 5
    shingle_chars: int = 10
    min_jaccard: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("bands", "rows", "shingle_words", "shingle_chars"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}", "a whole number from 1")


def shingles(text: str, cfg: NearDedup) -> UInt64[np.ndarray, " shingles"]:
    """Return the sorted distinct hashes of the shingles of ``text``; a shorter text is one shingle."""
    hashes, _ = hashed_units(text)
    size = cfg.shingle_chars if unspaced_share(text) > 0.5 else cfg.shingle_words
    return np.unique(runs(hashes, max(1, min(size, len(hashes)))))


def sketch_shard(docs: Iterable[Document], out: Path, cfg: NearDedup) -> int:
    """Write the band hashes of a shard's documents and return their number.

    Args:
        docs: the shard, in the order in which `drop_near_duplicates` will see it again.
        out: Parquet file with the columns ``doc`` (position in the shard) and ``band_0`` to ``band_{b-1}``,
            uint64; documents without any word have no row. Written whole or not at all.
        cfg: settings.
    """
    frames, batch, position = [], [], 0
    for position, doc in enumerate(docs, start=1):
        hashes = shingles(doc.text, cfg)
        if len(hashes):
            batch.append((position - 1, hashes))
        if len(batch) == _BATCH_DOCS:
            frames.append(_band_frame(batch, cfg))
            batch = []
    frames.append(_band_frame(batch, cfg))
    _write(pl.concat(frames), out)
    return position


def _band_frame(batch: list[tuple[int, Hashes]], cfg: NearDedup) -> pl.DataFrame:
    """Return the band hashes of a batch, one column per band."""
    offsets = np.cumsum([0, *(len(hashes) for _, hashes in batch)], dtype=np.uint64)
    flat = np.concatenate([np.zeros(0, dtype=np.uint64), *(hashes for _, hashes in batch)])
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(flat, offsets, cfg.bands * cfg.rows, cfg.seed)
    values = np.array(matrix.to_rows(), dtype=np.uint64).reshape(len(batch), cfg.bands, cfg.rows)
    bands = np.zeros(values.shape[:2], dtype=np.uint64)
    for row in range(cfg.rows):
        bands = (bands ^ values[:, :, row]) * _MIXER
        bands ^= bands >> np.uint64(32)
    columns = {f"band_{b}": bands[:, b] for b in range(cfg.bands)}
    return pl.DataFrame({"doc": np.array([p for p, _ in batch], dtype=np.uint32), **columns})


def _write(frame: pl.DataFrame, out: Path) -> None:
    """Write Parquet whole or not at all."""
    temporary = out.with_name(out.name + ".tmp")
    frame.write_parquet(temporary)
    temporary.rename(out)


def _node(shard: int) -> pl.Expr:
    """Return the document number over all shards: shard in the upper half, position in the lower."""
    return pl.col("doc").cast(pl.UInt64) + pl.lit(shard << 32, dtype=pl.UInt64)


def find_pairs(sketch_files: Sequence[Path], band: int, out: Path) -> int:
    """Write the pairs of documents that share the hash of ``band``; return their number.

    Every document of a bucket is paired with its first one.

    Args:
        sketch_files: what `sketch_shard` wrote, in the order of the shards.
        band: which band.
        out: Parquet file with columns ``first`` < ``second``, shard * 2^32 + position. Beside it `ends_file`.
    """
    scans = [
        pl.scan_parquet(path).select(node=_node(shard), hash=pl.col(f"band_{band}"))
        for shard, path in enumerate(sketch_files)
    ]
    pairs = (
        pl.concat(scans)
        .with_columns(first=pl.col("node").min().over("hash"))
        .filter(pl.col("first") != pl.col("node"))
        .select("first", second="node")
        .sort("first", "second")
        .collect()
    )
    nodes = np.unique(np.concatenate([pairs["first"].to_numpy(), pairs["second"].to_numpy()]))
    _write_by_shard(nodes, nodes & _LOW, len(sketch_files), ends_file(out))
    _write(pairs, out)
    return len(pairs)


def ends_file(pair_file: Path) -> Path:
    """Return the folder to which `find_pairs` writes the documents of its pairs, by shard."""
    return pair_file.with_suffix(".u64")


def _write_by_shard(nodes: Hashes, values: Hashes, num_shards: int, out: Path) -> None:
    """Write a value a document, by the shard of its node; the nodes are sorted."""
    ends = np.searchsorted(nodes, np.arange(1, num_shards + 1, dtype=np.uint64) << _HALF)
    write_slices(out, values, ends.astype(np.int64))


def shingle_shard(
    docs: Iterable[Document], shard: int, pair_files: Sequence[Path], out: Path, cfg: NearDedup
) -> None:
    """Write the shingles of those documents of a shard that stand in a pair, for the exact check."""
    wanted = set(read_slices(map(ends_file, pair_files), shard).tolist())
    rows = [(i, shingles(doc.text, cfg)) for i, doc in enumerate(docs) if i in wanted]
    frame = pl.DataFrame(
        {"doc": [i for i, _ in rows], "shingles": [hashes for _, hashes in rows]},
        schema={"doc": pl.UInt32, "shingles": pl.List(pl.UInt64)},
    )
    _write(frame.select("shingles", node=_node(shard)), out)


def choose(
    pair_files: Sequence[Path], num_shards: int, out: Path, cfg: NearDedup, shingle_files: Sequence[Path] = ()
) -> int:
    """Write which documents to drop, and the cluster sizes of those that stay; return how many are dropped.

    Documents connected by pairs are one cluster; its first document stays.

    Args:
        pair_files: what `find_pairs` wrote, one file a band.
        num_shards: of the documents.
        out: file of `xling.corpora.slices`: for each document of a cluster its position in the shard, and in the
            upper half the size of its cluster, or 0 to drop it.
        cfg: settings.
        shingle_files: what `shingle_shard` wrote; needed if ``min_jaccard`` is set.
    """
    assert bool(shingle_files) or not cfg.min_jaccard, "the exact check needs the shingles"
    pairs = pl.scan_parquet(list(pair_files)).unique().sort("first", "second").collect()
    if cfg.min_jaccard:
        pairs = pairs.filter(_exact(pairs, shingle_files, cfg.min_jaccard))
    ends = np.concatenate([pairs["first"].to_numpy(), pairs["second"].to_numpy()])
    nodes, numbers = np.unique(ends, return_inverse=True)
    roots = _roots(numbers[: len(pairs)], numbers[len(pairs) :], len(nodes))
    sizes = np.bincount(roots, minlength=len(nodes)).astype(np.uint64)  # 0 for all but the roots
    _write_by_shard(nodes, (nodes & _LOW) | (sizes << _HALF), num_shards, out)
    return int((sizes == 0).sum())


def _roots(first: NDArray[np.int64], second: NDArray[np.int64], num: int) -> NDArray[np.int64]:
    """Return for each of ``num`` numbers the smallest number that it is connected with."""
    roots = np.arange(num)
    while True:
        before = roots.copy()
        least = np.minimum(roots[first], roots[second])
        np.minimum.at(roots, first, least)
        np.minimum.at(roots, second, least)
        roots = roots[roots]
        if np.array_equal(roots, before):
            return roots


def _exact(pairs: pl.DataFrame, shingle_files: Sequence[Path], min_jaccard: float) -> pl.Series:
    """Return which pairs reach the exact Jaccard similarity, with a bounded number of shingles in memory."""
    stored = pl.scan_parquet(list(shingle_files))
    sizes = dict(stored.select("node", pl.col("shingles").list.len()).collect().iter_rows())
    reached: list[bool] = []
    for batch in _batches(pairs, sizes):
        needed = pl.Series(sorted(set(itertools.chain.from_iterable(batch))), dtype=pl.UInt64)
        documents = stored.filter(pl.col("node").is_in(needed.implode())).collect()
        flat = documents["shingles"].explode().to_numpy()
        parts = np.split(flat, np.cumsum(documents["shingles"].list.len().to_numpy(), dtype=np.int64)[:-1])
        sets = dict(zip(documents["node"].to_list(), parts, strict=True))
        for first, second in batch:
            a, b = sets[first], sets[second]
            shared = len(np.intersect1d(a, b, assume_unique=True))
            reached.append(shared >= min_jaccard * (len(a) + len(b) - shared))
    return pl.Series(reached, dtype=pl.Boolean)


def _batches(pairs: pl.DataFrame, sizes: dict[int, int]) -> Iterator[list[tuple[int, int]]]:
    """Yield pairs in order, grouped so that a group has `_BATCH_SHINGLES` shingles."""
    batch: list[tuple[int, int]] = []
    seen: set[int] = set()
    num_shingles = 0
    for first, second in pairs.iter_rows():
        batch.append((first, second))
        num_shingles += sum(sizes[node] for node in {first, second} - seen)
        seen |= {first, second}
        if num_shingles >= _BATCH_SHINGLES:
            yield batch
            batch, seen, num_shingles = [], set(), 0
    if batch:
        yield batch


def drop_near_duplicates(
    docs: Iterable[Document], shard: int, choice: Path, ledger: Ledger
) -> Iterator[Document]:
    """Yield the documents of a shard that `choose` keeps.

    Args:
        docs: the documents that `sketch_shard` saw, in the same order.
        shard: their position among the shards.
        choice: what `choose` wrote.
        ledger: gets the others as ``near_duplicate``.
    """
    values = read_slice(choice, shard)
    sizes = dict(zip((values & _LOW).tolist(), (values >> _HALF).tolist(), strict=True))
    yield from _Drop(sizes)(docs, ledger)


@dataclass
class _Drop(Stage):
    """Drop documents of one shard, in its order, and store how many documents each kept one represents.

    Args:
        sizes: position -> size of the cluster; 0 for a dropped document; absent for one without copies.
        position: position of the last document.
    """

    sizes: dict[int, int]
    position: int = -1

    name: ClassVar[str] = STAGE
    reasons: ClassVar[dict[str, str]] = REASONS

    def judge(self, doc: Document) -> str | None:
        """See `Stage`."""
        self.position += 1
        size = self.sizes.get(self.position, 1)
        if size > 1:
            doc.meta["cluster_size"] = size
        return None if size else "near_duplicate"
