"""Vectors with translations in them, and files of them."""

import numpy as np

from xling.corpora.mining.rows import normalise


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
