"""Nearest neighbours by inner product: exact, or candidates of a trained index that are scored again exactly.

The index rotates vectors and cuts them to fewer dimensions (OPQ). It sorts them into cells, and keeps a code of 4 bits
for every few dimensions of the difference from the cell's centre (IVF-PQ). It is trained once, on both sides. Shards of
vectors are coded apart and merged in memory when they are searched. With ``device=gpu`` codes have 8 bits for twice the
dimensions, the form that faiss supports there.

Sources: Ge et al. 2013 (OPQ), Jégou et al. 2011 (IVF-PQ), André et al. 2017 (codes of 4 bits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xling.array_types import Float32, Int64
from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.corpora.mining.rows import Ids, VectorRows, Vectors

BLOCK_ROWS = 131_072
MIN_TRAINED = 1_000
"""Fewer keys than this are searched exactly; codes could not be trained on them."""

_MAX_CODES, _MAX_DIM = 64, 256
_GPU_CODES = (1, 2, 3, 4, 8, 12, 16, 20, 24, 28, 32)  # the numbers that faiss's kernels know
_CELLS_PER_ROOT, _TRAIN_PER_CELL, _MIN_PER_CELL = 2, 64, 39
_TRAIN_ROTATION, _ROUNDS = 32_768, 8
_MIN_PROBES, _ROWS_PROBED = 32, 16_384
_QUERIES_AT_ONCE, _ROWS_AT_ONCE = 4_096, 16_384


def exact_nearest(
    queries: Float32[np.ndarray, "queries dim"], keys: VectorRows, k: int, block: int, device: str = "cpu"
) -> tuple[Float32[np.ndarray, "queries k"], Int64[np.ndarray, "queries k"]]:
    """Return the k best of all keys for each query, best first; only one block of keys is in memory."""
    import faiss

    search: Callable[..., Any] = _knn_on_gpu if device == "gpu" else faiss.knn
    best = np.full((len(queries), k), -1, np.float32)
    ids = np.full((len(queries), k), -1, np.int64)
    for start, part in keys.blocks(block):
        cosines, places = search(queries, part, min(k, len(part)), metric=faiss.METRIC_INNER_PRODUCT)
        best, ids = _merge_top(
            np.concatenate([best, cosines], axis=1), np.concatenate([ids, places + start], axis=1), k
        )
    return best, ids


def _knn_on_gpu(queries: Vectors, keys: Vectors, k: int, metric: int) -> Any:
    import faiss

    return faiss.knn_gpu(faiss.StandardGpuResources(), queries, keys, k, metric=metric)


def _merge_top(cosines: Vectors, ids: Ids, k: int) -> tuple[Vectors, Ids]:
    """Return the k largest of each row, falling; what was not found (-1) comes last."""
    order = np.argsort(np.where(ids < 0, np.inf, -cosines), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(cosines, order, 1), np.take_along_axis(ids, order, 1)


def check_device(device: str) -> None:
    """Check that faiss can use the device.

    Raises:
        UserError: ``gpu`` without a GPU or with a faiss that was built without it.
    """
    import faiss

    if device == "gpu" and not (hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus()):
        raise UserError(
            f"device=gpu: faiss {faiss.__version__} sees no GPU here",
            "device=cpu",
            "or install faiss with GPU support on a machine with a GPU",
        )


def train_index(sides: Sequence[VectorRows], device: str = "cpu") -> Any:
    """Return an empty index that is trained on a sample of both sides: rotation, cells and codes.

    Memory: 64 vectors of at most 256 dimensions a cell; there are 2 sqrt(rows of the larger side) cells.
    """
    import faiss

    dim, total = sides[0].dim, sum(map(len, sides))
    num_codes, reduced_dim, codes = _code_shape(dim, device)
    num_cells = int(_CELLS_PER_ROOT * max(map(len, sides)) ** 0.5)
    num_cells = max(1, min(num_cells, total // _MIN_PER_CELL))
    rotation: Any = faiss.OPQMatrix(dim, num_codes, reduced_dim)
    quantizer: Any = faiss.ProductQuantizer(reduced_dim, num_codes, 4)
    rotation.niter, rotation.pq, quantizer.cp.min_points_per_centroid = _ROUNDS, quantizer, 1
    rotation.train(np.concatenate(list(_sample(sides, _TRAIN_ROTATION))))
    sample = [rotation.apply(rows) for rows in _sample(sides, num_cells * _TRAIN_PER_CELL)]
    cells: Any = faiss.index_factory(reduced_dim, f"IVF{num_cells},{codes}", faiss.METRIC_INNER_PRODUCT)
    cells.by_residual = True
    cells.cp.niter, cells.cp.min_points_per_centroid = _ROUNDS, 1
    cells.cp.max_points_per_centroid = 2 * _TRAIN_PER_CELL
    cells.pq.cp.niter, cells.pq.cp.min_points_per_centroid = _ROUNDS, 1
    if device == "gpu":
        cells.clustering_index = faiss.index_cpu_to_all_gpus(faiss.IndexFlatIP(reduced_dim))
    cells.train(np.concatenate(sample))
    cells.clustering_index = None
    return faiss.IndexPreTransform(rotation, cells)


def _code_shape(dim: int, device: str) -> tuple[int, int, str]:
    """Return how many codes a vector has, to how many dimensions it is cut, and faiss's name of the codes."""
    reduced = min(dim, _MAX_DIM)
    num_codes = reduced // -(-reduced // _MAX_CODES)
    if device == "gpu":
        num_codes = max(count for count in _GPU_CODES if count <= max(1, num_codes // 2))
    return num_codes, reduced // num_codes * num_codes, f"PQ{num_codes}" + "x4fs" * (device == "cpu")


def _sample(sides: Sequence[VectorRows], count: int) -> Iterable[Vectors]:
    """Yield about ``count`` rows, in proportion to the sides, one of each stretch of equal length."""
    total = sum(map(len, sides))
    for number, rows in enumerate(sides):
        wanted = min(len(rows), -(-count * len(rows) // total))
        places = (np.arange(wanted) + rng("mine", number).random(wanted)) * (len(rows) / max(1, wanted))
        numbers = np.minimum(places.astype(np.int64), len(rows) - 1)
        for start in range(0, wanted, _ROWS_AT_ONCE):
            yield rows.take(numbers[start : start + _ROWS_AT_ONCE])


def add_codes(trained: Path, rows: VectorRows, target: Path) -> None:
    """Write the trained index with the codes of some rows, numbered from 0."""
    import faiss

    index = faiss.read_index(str(trained))
    for _, block in rows.blocks(_ROWS_AT_ONCE):
        index.add(block)
    faiss.write_index(index, str(target))


def merged(shards: Sequence[Path]) -> Any:
    """Return the codes of all files of `add_codes` as one index, numbered on from shard to shard."""
    import faiss

    whole = faiss.read_index(str(shards[0]))
    for path in shards[1:]:
        part = faiss.read_index(str(path))
        cells, others = faiss.extract_index_ivf(whole).invlists, faiss.extract_index_ivf(part).invlists
        _move_whole_blocks(cells, others, whole.ntotal)
        whole.merge_from(part, whole.ntotal)
    return whole


def _move_whole_blocks(cells: Any, source_cells: Any, first_id: int) -> None:
    """Merge the cells whose length is a multiple of the block size; faiss 1.15 writes past the end of such cells.

    `BlockInvertedLists::add_entries` copies the size of the merged cell, but starts at the end of the old entries.
    The codes of such a cell fill whole blocks, so the added codes can follow them unchanged.

    Args:
        cells: what is added to.
        source_cells: what is added; the entries that were moved are taken out.
        first_id: number of the first added vector.
    """
    import faiss

    array_of: Callable[[Any, int], Any] = faiss.rev_swig_ptr
    cells, source_cells = faiss.downcast_InvertedLists(cells), faiss.downcast_InvertedLists(source_cells)
    if not hasattr(cells, "block_size"):
        return
    for cell in range(cells.nlist):
        size, num_added = cells.list_size(cell), source_cells.list_size(cell)
        if not size or size % cells.block_size or not num_added:
            continue
        cells.resize(cell, size + num_added)
        start, count = (-(-num // cells.n_per_block) * cells.block_size for num in (size, num_added))
        codes = array_of(cells.get_codes(cell), start + count)
        codes[start:] = array_of(source_cells.get_codes(cell), count)
        ids = array_of(cells.get_ids(cell), size + num_added)
        ids[size:] = array_of(source_cells.get_ids(cell), num_added) + first_id
        source_cells.resize(cell, 0)


class SearchIndex:
    """The codes of all shards of one side, in memory: 4 bits for each of at most 64 codes and 8 bytes a vector.

    Args:
        shards: files of `add_codes`, in order.
        keys: the vectors that they code, for exact scores.
        num_candidates: how many of each query are scored exactly.
        probes: cells searched for each query; 0 takes 32, or as many as hold 16,384 vectors.
        device: ``cpu`` or ``gpu``.
    """

    def __init__(
        self,
        shards: Sequence[Path],
        keys: VectorRows,
        num_candidates: int,
        probes: int = 0,
        device: str = "cpu",
    ) -> None:
        import faiss

        whole = merged(shards)
        cells = faiss.extract_index_ivf(whole)
        automatic = max(_MIN_PROBES, -(-_ROWS_PROBED * cells.nlist // max(1, whole.ntotal)))
        cells.nprobe = min(cells.nlist, probes or automatic)
        self._index = faiss.index_cpu_to_all_gpus(whole) if device == "gpu" else whole
        self._key_rows, self._num_candidates = keys, min(num_candidates, len(keys))

    def nearest(
        self, queries: Float32[np.ndarray, "queries dim"], k: int, pool: Executor
    ) -> tuple[Float32[np.ndarray, "queries k"], Int64[np.ndarray, "queries k"]]:
        """Return k neighbours of each query with their exact cosines, best first; -1 where fewer were found."""
        starts = range(0, len(queries), _QUERIES_AT_ONCE)
        ids = np.concatenate(
            list(pool.map(lambda at: self._candidates(queries[at : at + _QUERIES_AT_ONCE]), starts))
        )
        flat, cosines = ids.ravel(), np.full(ids.size, -1, np.float32)
        order = np.argsort(flat, kind="stable")  # keys are read in the order of their files
        order = order[np.searchsorted(flat[order], 0) :]

        def score(start: int) -> None:
            chosen = order[start : start + _ROWS_AT_ONCE]
            keys = self._key_rows.take(flat[chosen])
            cosines[chosen] = np.einsum("ij,ij->i", queries[chosen // self._num_candidates], keys)

        list(pool.map(score, range(0, len(order), _ROWS_AT_ONCE)))
        return _merge_top(cosines.reshape(ids.shape), ids, k)

    def _candidates(self, queries: Vectors) -> Ids:
        # One thread of faiss for each of ours: which of equal codes win must not depend on the number of threads.
        _set_threads(1)
        ids: npt.NDArray[np.int64] = self._index.search(queries, self._num_candidates)[1]
        return ids


def thread_pool(threads: int, device: str = "cpu") -> ThreadPoolExecutor:
    """Return the threads of a search, and give faiss as many for everything else; a GPU is asked by one.

    Args:
        threads: 0 takes those that faiss has: OMP_NUM_THREADS, or all cores.
        device: ``cpu`` or ``gpu``.
    """
    import faiss

    if threads:
        _set_threads(threads)
    return ThreadPoolExecutor(1 if device == "gpu" else faiss.omp_get_max_threads())


def _set_threads(count: int) -> None:
    import faiss

    faiss.omp_set_num_threads(count)
