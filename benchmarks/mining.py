"""Mining at scale on random structured vectors: memory, time by phase, and the share of the exact pairs that is found.

Usage: ``python -m benchmarks.mining NUM FOLDER [DIM [SAMPLE [SETTING=VALUE ...]]]``, as in ``1000000 runs/m 128``.

Both sides get NUM vectors of fp16 in FOLDER: centres of topics (one for 500 sentences) plus what a sentence alone has,
of the same length. Half of the sentences have a translation: the same vector, with noise of half that length on each
side.
``xling mine`` runs on them in a process of its own; a run that was stopped goes on. Then SAMPLE sentences (1,000) are
searched exactly: of the pairs that both sides choose, with the exact margin above the threshold, the share that
``pairs.tsv`` holds is printed, with the rate of the exact search (the peer) in products of two vectors a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from xling.core import manifest
from xling.core.sampling import rng
from xling.corpora.mining import margin, search
from xling.corpora.mining.rows import Rows, normalised
from xling.corpora.mining.stage import PAIRS

SIDES = ("src", "tgt")
BLOCK = 65_536
NEIGHBOURS, THRESHOLD = 4, 1.04


def make(num: int, dim: int, folder: Path) -> None:
    """Write both texts and their vectors, a block at a time."""
    topics = rng("topics").standard_normal((max(1, num // 500), dim), dtype=np.float32)
    stores = [
        np.lib.format.open_memmap(folder / f"{side}.npy", "w+", np.float16, (num, dim)) for side in SIDES
    ]
    for start in range(0, num, BLOCK):
        draw, count = rng("block", start), min(BLOCK, num - start)
        meanings = [
            topics[draw.integers(0, len(topics), count)]
            + draw.standard_normal((count, dim), dtype=np.float32)
            for _ in SIDES
        ]
        has_translation = draw.random((count, 1)) < 0.5
        meanings[1] = np.where(has_translation, meanings[0], meanings[1])
        for store, meaning in zip(stores, meanings, strict=True):
            noise = 0.5 * draw.standard_normal((count, dim), dtype=np.float32)
            store[start : start + count] = normalised(meaning + noise)
    for side in SIDES:
        with (folder / f"{side}.txt").open("w", encoding="utf-8") as file:
            file.writelines(f"{i}\n" for i in range(num))


def exact_pairs(folder: Path, sample: int) -> tuple[set[tuple[int, int]], float]:
    """Return pairs of some sources that both sides choose in an exact search, and products a second of that search."""
    sides = [Rows([folder / f"{side}.npy"]) for side in SIDES]
    spent, asked = 0.0, 0

    def near(side: int, numbers: Any) -> tuple[Any, Any, Any]:
        nonlocal spent, asked
        start = time.process_time()
        cosines, ids = search.exact(sides[side].take(numbers), sides[1 - side], NEIGHBOURS, BLOCK)
        spent, asked = spent + time.process_time() - start, asked + len(numbers)
        means = np.full(len(sides[side]), np.nan, np.float32)
        means[numbers] = margin.mean_cosine(cosines, ids)
        return cosines, ids, means

    src = np.sort(rng("sample").choice(len(sides[0]), sample, replace=False))
    to_tgt, tgt_ids, src_means = near(0, src)
    around = np.unique(tgt_ids)
    means = near(1, around)[2]
    first = margin.best(to_tgt, tgt_ids, src_means[src], means, "ratio")
    chosen = first.scores >= THRESHOLD
    src, tgt = src[chosen], first.ids[chosen]
    wanted, places = np.unique(tgt, return_inverse=True)
    to_src, src_ids, _ = near(1, wanted)
    src_means = near(0, np.unique(src_ids))[2]
    back = margin.best(to_src, src_ids, means[wanted], src_means, "ratio")
    agree = back.ids[places] == src
    return set(zip(src[agree].tolist(), tgt[agree].tolist(), strict=True)), asked * len(sides[1]) / spent


def main(arguments: list[str]) -> None:
    """Make vectors if they are not there, mine, and print one JSON object."""
    num, folder = int(arguments[0]), Path(arguments[1])
    dim, sample = (int(text) for text in (*arguments[2:4], *("128", "1000")[len(arguments[2:4]) :]))
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "made").is_file():
        make(num, dim, folder)
        (folder / "made").touch()
    words = [f"{side}={folder}/{side}.txt" for side in SIDES]
    words += [f"{side}_vectors={folder}/{side}.npy" for side in SIDES]
    command = [sys.executable, "-m", "xling.cli", "mine", "pair=en-sw", *words, f"out={folder}/out"]
    start = time.perf_counter()
    subprocess.run([*command, f"threshold={THRESHOLD}", *arguments[4:]], check=True)
    wall = time.perf_counter() - start
    published = manifest.read(folder / "out")
    with (folder / "out" / PAIRS).open(encoding="utf-8") as file:
        rows = (line.split("\t") for line in file)
        mined = {(int(i), int(j)) for _, i, j in rows}
    exact, rate = exact_pairs(folder, sample)
    share = len(exact & mined) / len(exact)
    facts = {
        "num": num, "dim": dim, "pairs": len(mined), "same_row": sum(i == j for i, j in mined), "sampled": len(exact),
        "share_of_exact": round(share, 4), "interval": round(1.96 * (share * (1 - share) / len(exact)) ** 0.5, 4),
        "wall_s": round(wall, 1), "peak_mb": published.peak_memory_mb, "exact_products_per_cpu_s": f"{rate:.3g}",
        "exact_cpu_s_both_directions": round(2 * num * num / rate), "load": round(os.getloadavg()[0], 1),
        "phases": published.counts["phases"],
    }  # fmt: skip
    print(json.dumps(facts))


if __name__ == "__main__":
    main(sys.argv[1:])
