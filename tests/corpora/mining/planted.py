"""Vectors with translations in them, files of them, and mining of what lies in memory."""

import numpy as np

from xling.corpora.mining.margin import best, choose_pairs, mean_cosine
from xling.corpora.mining.rows import VectorRows, normalise
from xling.corpora.mining.search import BLOCK_ROWS, exact_nearest


def planted(num_true=200, num_noise=800, dim=32, seed=0):
    """Vectors with true pairs among noise, and a hub: a target near to everything."""
    draw = np.random.default_rng(seed)
    meaning = draw.standard_normal((num_true, dim))
    src = np.concatenate([meaning, draw.standard_normal((num_noise, dim))]) + 1.5 * np.eye(dim)[0]
    tgt = np.concatenate([meaning, draw.standard_normal((num_noise, dim))]) + 1.5 * np.eye(dim)[0]
    src += 0.5 * draw.standard_normal(src.shape)
    tgt += 0.5 * draw.standard_normal(tgt.shape)
    order = draw.permutation(len(tgt))
    place = np.argsort(order)
    gold = {(i, int(place[i])) for i in range(num_true)}
    return normalise(src), normalise(tgt[order]), gold


def write(folder, src, tgt):
    """Write texts and vectors of both sides; return the settings that name them."""
    for name, vectors in (("src", src), ("tgt", tgt)):
        np.save(folder / f"{name}.npy", vectors)
        (folder / f"{name}.txt").write_text("".join(f"{name} {i}\n" for i in range(len(vectors))))
    names = {"src": "src.txt", "tgt": "tgt.txt", "src_vectors": "src.npy", "tgt_vectors": "tgt.npy"}
    return {key: str(folder / name) for key, name in names.items()}


def nearest(queries, keys, k, block=BLOCK_ROWS):
    """Return the cosines and the numbers of the k keys nearest to each query, best first, searched block by block."""
    k, among = min(k, len(keys)), VectorRows([keys])
    pieces = [exact_nearest(piece, among, k, block) for _, piece in VectorRows([queries]).blocks(block)]
    return np.concatenate([p[0] for p in pieces]), np.concatenate([p[1] for p in pieces])


def mine(src, tgt, k=4, margin="ratio", retrieval="max"):
    """Return the pairs of vectors that are closer than their neighbours, as the stage does from files."""
    (to_tgt, tgt_ids), (to_src, src_ids) = nearest(src, tgt, k), nearest(tgt, src, k)
    src_mean, tgt_mean = mean_cosine(to_tgt, tgt_ids), mean_cosine(to_src, src_ids)
    forward = best(to_tgt, tgt_ids, src_mean, tgt_mean, margin)
    return choose_pairs(forward, best(to_src, src_ids, tgt_mean, src_mean, margin), retrieval)
