"""``xling mine``: translations in two monolingual corpora, found by the margin of their sentence vectors.

A pair is judged by its cosine against the mean cosine of both sides with their k nearest neighbours, so that a
sentence that is near to everything does not win. Neighbours are sought with faiss a block at a time, so memory
is bounded by two blocks and the results.

Source: Artetxe and Schwenk 2019 (margin-based mining), sections 3.1 (ratio, distance) and 3.2 (retrieval).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from xling.core import manifest
from xling.core.answer import Answer
from xling.core.errors import UserError
from xling.core.progress import Progress
from xling.corpora.parallel.of_pair import OfPair
from xling.text import reader
from xling.text.encoders import encoder_of

if TYPE_CHECKING:
    from jaxtyping import Float32, Int64, Real

STAGE_NAME = "mine"
PAIRS = "pairs.tsv"
Vectors = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

# Above so many comparisons `index=auto` searches clusters instead of everything.
_EXACT_COMPARISONS = 4_000_000_000
_CELLS_PER_ROOT, _SHARE_PROBED, _TRAIN_PER_CELL = 4, 0.04, 64


@dataclass(frozen=True)
class MineConfig(OfPair):
    """Two texts, their vectors and what to accept as a translation.

    Attributes:
        pair: the languages, for example ``en-sw``.
        src: text of the first language, a sentence a line.
        tgt: text of the second language.
        src_vectors: ``.npy`` of float (num_lines, dim) for ``src``; empty when ``checkpoint`` makes them.
        tgt_vectors: the same for ``tgt``.
        checkpoint: encoder directory of ``xling pretrain``.
        layer: layer of its sentence vectors, -1 the last.
        pooling: ``mean``, ``max`` or ``cls``.
        out: directory to publish; ``runs/mine/PAIR`` when empty.
        neighbours: k of the margin.
        margin: ``ratio``, ``distance`` or ``absolute``, which is the cosine itself.
        retrieval: ``forward``: the best target of each source; ``backward``: the reverse; ``intersection``: pairs
            that both choose; ``max``: the best of both, each sentence used once.
        threshold: lowest margin kept.
        index: ``exact``, ``clusters`` (IVF, approximate) or ``auto``: exact while it takes about a minute.
        block: vectors of one block.
        threads: threads of faiss; 0 takes all.
    """

    FOLDER = "runs/mine"
    NOT_CONTENT = frozenset({"out", "threads"})

    pair: str
    src: str
    tgt: str
    src_vectors: str = ""
    tgt_vectors: str = ""
    checkpoint: str = ""
    layer: int = -1
    pooling: str = "mean"
    out: str = ""
    neighbours: int = 4
    margin: Literal["ratio", "distance", "absolute"] = "ratio"
    retrieval: Literal["forward", "backward", "intersection", "max"] = "max"
    threshold: float = 1.04
    index: Literal["auto", "exact", "clusters"] = "auto"
    block: int = 131_072
    threads: int = 0

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: an unknown language, a number out of range, no vectors or too many.
        """
        super().__post_init__()
        given = bool(self.src_vectors) + bool(self.tgt_vectors)
        if given == 1 or (given == 2) == bool(self.checkpoint):
            raise UserError(
                "the source of the vectors is missing or given twice",
                "checkpoint=, or src_vectors= and tgt_vectors=",
            )
        for name in ("neighbours", "block"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}", "a whole number from 1")
        if math.isnan(self.threshold):
            raise UserError(f"threshold={self.threshold}", "a number")


def run(cfg: MineConfig) -> Answer:
    """Mine, and publish ``pairs.tsv`` with score, source and target, best first.

    Raises:
        UserError: a file is missing, or vectors and lines differ in number.
    """
    out = cfg.directory
    names = [cfg.src, cfg.tgt, cfg.src_vectors, cfg.tgt_vectors, cfg.checkpoint]
    inputs = [Path(name) for name in names if name]
    if manifest.up_to_date(out, STAGE_NAME, cfg.content(), inputs):
        return _answer(out, "up to date, nothing to do")
    texts = [list(reader.lines(Path(path))) for path in (cfg.src, cfg.tgt)]
    with manifest.publish(out, STAGE_NAME, cfg.content(), inputs) as artifact:
        # Equal sentences would share their neighbours and halve each other's margin.
        firsts = [first_of_each(side) for side in texts]
        vectors = [_vectors(cfg, side, texts[side], firsts[side]) for side in (0, 1)]
        widths = [side.shape[1] for side in vectors]
        if widths[0] != widths[1]:
            raise UserError(
                f"vectors of width {widths[0]} and {widths[1]}", "one width", "make both with one encoder"
            )
        src, tgt, scores = mine(
            vectors[0],
            vectors[1],
            cfg.neighbours,
            cfg.margin,
            cfg.retrieval,
            cfg.index,
            cfg.block,
            cfg.threads,
        )
        kept = scores >= cfg.threshold
        with (artifact.path / PAIRS).open("w", encoding="utf-8") as file:
            for i, j, score in zip(src[kept], tgt[kept], scores[kept], strict=True):
                left, right = (
                    " ".join(texts[s][firsts[s][n]].split()) for s, n in ((0, int(i)), (1, int(j)))
                )
                file.write(f"{score:.5f}\t{left}\t{right}\n")
        artifact.counts |= {
            "pairs": int(kept.sum()),
            "under_threshold": int((~kept).sum()),
            "src_sentences": len(firsts[0]),
            "tgt_sentences": len(firsts[1]),
            "src_repeated": len(texts[0]) - len(firsts[0]),
            "tgt_repeated": len(texts[1]) - len(firsts[1]),
        }
    return _answer(out)


def _answer(out: Path, text: str = "") -> Answer:
    counts = manifest.read(out).counts
    return Answer(f"{out}: {text or manifest.summary(counts)}", {"out": str(out), **counts})


def first_of_each(texts: Sequence[str]) -> Int64[np.ndarray, " sentences"]:
    """Return line numbers of the first occurrence of every non-empty sentence."""
    seen: dict[str, int] = {}
    for number, text in enumerate(texts):
        if text.strip():
            seen.setdefault(text, number)
    return np.array(list(seen.values()), dtype=np.int64)


def _vectors(cfg: MineConfig, side: int, texts: Sequence[str], chosen: Ids) -> Vectors:
    """Return vectors of the chosen lines, of length 1."""
    if cfg.checkpoint:
        encoder = encoder_of(cfg.checkpoint)
        embedded = encoder.embed([texts[i] for i in chosen], cfg.langs[side], cfg.layer, cfg.pooling)
        return normalised(embedded)
    path = Path((cfg.src_vectors, cfg.tgt_vectors)[side])
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} holds no vectors: {error}", "a .npy file of numbers") from None
    if stored.ndim != 2 or len(stored) != len(texts):
        raise UserError(
            f"{path} has shape {stored.shape} for {len(texts):,} lines of {(cfg.src, cfg.tgt)[side]}",
            "a vector a line",
            "make the vectors from this text",
        )
    if stored.dtype.kind not in "fiu":
        raise UserError(f"{path} holds {stored.dtype}", "numbers", "make the vectors again")
    vectors = np.asarray(stored[chosen], dtype=np.float32)
    if not np.isfinite(vectors).all():
        line = int(chosen[np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0]]) + 1
        raise UserError(f"{path}: the vector of line {line:,} is not finite", "finite numbers of 32 bits")
    return normalised(vectors)


def normalised(vectors: Real[np.ndarray, "rows dim"]) -> Float32[np.ndarray, "rows dim"]:
    """Return vectors (n, dim) of length 1, so that inner products are cosines; float32."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(norms, 1e-9), dtype=np.float32)


def nearest(
    queries: Float32[np.ndarray, "queries dim"],
    keys: Float32[np.ndarray, "keys dim"],
    k: int,
    index: str = "exact",
    block: int = 131_072,
    threads: int = 0,
) -> tuple[Float32[np.ndarray, "queries neighbours"], Int64[np.ndarray, "queries neighbours"]]:
    """Return the k keys with the largest inner product for each query, block by block.

    Args:
        queries: (num_queries, dim), of length 1.
        keys: (num_keys, dim), of length 1.
        k: neighbours; fewer keys give fewer.
        index: ``exact``, ``clusters`` or ``auto``.
        block: vectors of one block.
        threads: threads of faiss; 0 takes all.

    Returns:
        cosines and key numbers, (num_queries, k), best first.
    """
    import faiss

    if threads:
        faiss.omp_set_num_threads(threads)
    k = min(k, len(keys))
    best = np.full((len(queries), 0), 0, np.float32)
    ids = np.zeros((len(queries), 0), np.int64)
    approximate = index == "clusters" or (index == "auto" and len(queries) * len(keys) > _EXACT_COMPARISONS)
    for start in range(0, len(keys), block):
        part = keys[start : start + block]
        searcher: Any = _clusters(part) if approximate else faiss.IndexFlatIP(part.shape[1])
        searcher.add(part)
        results = [
            searcher.search(queries[q : q + block], min(k, len(part))) for q in range(0, len(queries), block)
        ]
        new, new_ids = (np.concatenate([result[i] for result in results]) for i in (0, 1))
        # A cluster search may find fewer than k; the gaps get the lowest cosine and are never chosen.
        new = np.where(new_ids < 0, np.float32(-1), new)
        best = np.concatenate([best, new], axis=1)
        ids = np.concatenate([ids, np.where(new_ids < 0, -1, new_ids + start)], axis=1)
        order = np.argsort(-best, axis=1, kind="stable")[:, :k]
        best, ids = np.take_along_axis(best, order, 1), np.take_along_axis(ids, order, 1)
    return best, ids


def _clusters(keys: Vectors) -> Any:
    """Return a trained inverted file: about 4 sqrt(n) clusters, of which 4 % are searched for each query."""
    import faiss

    num_cells = max(1, int(_CELLS_PER_ROOT * len(keys) ** 0.5))
    num_cells = min(num_cells, max(1, len(keys) // 39))  # faiss asks for 39 vectors a cluster
    quantizer = faiss.IndexFlatIP(keys.shape[1])
    searcher = faiss.IndexIVFFlat(quantizer, keys.shape[1], num_cells, faiss.METRIC_INNER_PRODUCT)
    searcher.cp.niter, searcher.cp.seed = 8, 1234
    searcher.cp.max_points_per_centroid = _TRAIN_PER_CELL
    searcher.nprobe = max(8, int(_SHARE_PROBED * num_cells))
    searcher.train(keys)
    return searcher


def mine(
    src: Float32[np.ndarray, "src dim"],
    tgt: Float32[np.ndarray, "tgt dim"],
    k: int = 4,
    margin: str = "ratio",
    retrieval: str = "max",
    index: str = "exact",
    block: int = 131_072,
    threads: int = 0,
) -> tuple[Int64[np.ndarray, " pairs"], Int64[np.ndarray, " pairs"], Float32[np.ndarray, " pairs"]]:
    """Return the pairs of sentences whose vectors are closer than their neighbours.

    Args:
        src: (num_src, dim), of length 1.
        tgt: (num_tgt, dim), of length 1.
        k: neighbours of the margin.
        margin: ``ratio``, ``distance`` or ``absolute``.
        retrieval: ``forward``, ``backward``, ``intersection`` or ``max``.
        index: see `nearest`.
        block: see `nearest`.
        threads: see `nearest`.

    Returns:
        source numbers, target numbers and margins (num_pairs,), best first.
    """
    if not len(src) or not len(tgt):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32)
    with Progress("mine", 2, "directions") as bar:
        to_tgt, tgt_ids = nearest(src, tgt, k, index, block, threads)
        bar.update()
        to_src, src_ids = nearest(tgt, src, k, index, block, threads)
        bar.update()
    src_mean, tgt_mean = to_tgt.mean(axis=1), to_src.mean(axis=1)
    forward = _margins(to_tgt, src_mean[:, None], tgt_mean[tgt_ids], tgt_ids, margin)
    backward = _margins(to_src, tgt_mean[:, None], src_mean[src_ids], src_ids, margin)
    best_tgt, forward_score = _best(tgt_ids, forward)
    best_src, backward_score = _best(src_ids, backward)
    rows, columns = np.arange(len(src)), np.arange(len(tgt))
    if retrieval == "forward":
        chosen = rows, best_tgt, forward_score
    elif retrieval == "backward":
        chosen = best_src, columns, backward_score
    elif retrieval == "intersection":
        agree = best_src[best_tgt] == rows
        chosen = rows[agree], best_tgt[agree], forward_score[agree]
    else:
        chosen = _each_once(
            np.concatenate([rows, best_src]),
            np.concatenate([best_tgt, columns]),
            np.concatenate([forward_score, backward_score]),
            len(src),
            len(tgt),
        )
    order = np.lexsort((chosen[1], chosen[0], -chosen[2]))
    return chosen[0][order], chosen[1][order], chosen[2][order]


def _margins(cosines: Vectors, own: Vectors, other: Vectors, ids: Ids, kind: str) -> Vectors:
    """Return margins (n, k) from cosines and the mean cosines of both sides' neighbourhoods; -inf in gaps."""
    around = (own + other) / np.float32(2)
    if kind == "ratio":
        scores: npt.NDArray[Any] = cosines / np.maximum(around, 1e-9)
    else:
        scores = cosines - around if kind == "distance" else cosines
    return np.where(ids < 0, np.float32(-np.inf), scores).astype(np.float32)


def _best(ids: Ids, scores: Vectors) -> tuple[Ids, Vectors]:
    column = scores.argmax(axis=1)[:, None]
    return np.take_along_axis(ids, column, 1)[:, 0], np.take_along_axis(scores, column, 1)[:, 0]


def _each_once(src: Ids, tgt: Ids, scores: Vectors, num_src: int, num_tgt: int) -> tuple[Ids, Ids, Vectors]:
    """Return pairs from the best down, leaving out those with a sentence that is taken."""
    src_free, tgt_free = np.ones(num_src, bool), np.ones(num_tgt, bool)
    kept = []
    for place in np.lexsort((tgt, src, -scores)):
        i, j = src[place], tgt[place]
        if src_free[i] and tgt_free[j]:
            src_free[i] = tgt_free[j] = False
            kept.append(place)
    chosen = np.array(kept, dtype=np.int64)
    return src[chosen], tgt[chosen], scores[chosen]


def f1_at_best_threshold(
    src: Int64[np.ndarray, " pairs"],
    tgt: Int64[np.ndarray, " pairs"],
    scores: Float32[np.ndarray, " pairs"],
    gold: set[tuple[int, int]],
) -> tuple[float, float, float, float]:
    """Return precision, recall, F1 and threshold of the cut with the best F1, for pairs sorted best first.

    BUCC chooses the threshold on its training set; on a test set choose it on another half (see the benchmark).
    """
    hits = np.cumsum([(int(i), int(j)) in gold for i, j in zip(src, tgt, strict=True)])
    if not len(hits):
        return 0.0, 0.0, 0.0, float("inf")
    sizes = np.arange(1, len(hits) + 1)
    f1 = 2 * hits / (sizes + len(gold))
    cut = int(f1.argmax())
    return float(hits[cut] / sizes[cut]), float(hits[cut] / len(gold)), float(f1[cut]), float(scores[cut])
