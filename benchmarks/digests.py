"""What the check of digests costs: seconds for files of some gigabytes, and the share of the stage that reads them.

Run:  python -m benchmarks.digests [gigabytes=5] [text_mb=20]

Prints Markdown. The stages are those that get the most bytes a second: ``binarize`` reads text, ``pretrain`` reads its
shards. Each is measured on a small input; the check takes the same time a byte at any size. Files are made in a
temporary folder (TMPDIR) and hashed while the system still holds them in memory, if they fit there: a disk that is
slower than SHA-256 costs its own time, which a stage that reads the files anyway pays once.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xling.core.output import digests, manifest
from xling.core.settings import config
from xling.corpora import binarize
from xling.text import vocab
from xling.training import train
from xling.training.settings import PretrainConfig

BLOCK = 1 << 26


def seconds(act: Callable[[], Any]) -> float:
    """Return how long something takes, s."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def forget(cache: Path) -> None:
    """Forget all digests, as on another machine."""
    os.environ[digests.CACHE_VARIABLE] = str(cache)
    digests._in_process.clear()
    digests._buckets.clear()


def write(folder: Path, num_bytes: int) -> Path:
    """Publish files of random bytes."""
    with manifest.publish(folder, "binarize", {}) as made:
        for number, start in enumerate(range(0, num_bytes, 1 << 30)):
            with (made.path / f"{number}.bin").open("wb") as file:
                for _ in range(start, min(num_bytes, start + (1 << 30)), BLOCK):
                    file.write(os.urandom(BLOCK))
    return folder


def main(words: list[str]) -> None:
    """Measure, and print a table."""
    given = {"gigabytes": "5", "text_mb": "20"} | dict(word.split("=") for word in words)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        forget(root / "a")
        folder = write(root / "large", int(float(given["gigabytes"]) * 1e9))
        size = sum(path.stat().st_size for path in folder.glob("*.bin"))
        forget(root / "b")
        first = seconds(lambda: manifest.verify(folder))
        digests._in_process.clear()
        second = seconds(lambda: manifest.verify(folder))
        per_byte = first / size
        draw = random.Random(1)
        words_of_text = ["".join(draw.choices("aeiomnrst", k=draw.randrange(2, 9))) for _ in range(5000)]
        lines = "".join(f"{' '.join(draw.choices(words_of_text, k=12))}\n\n" for _ in range(5000))
        text = root / "en.txt"
        text.write_text(lines * max(1, int(float(given["text_mb"]) * 1e6 / len(lines))), encoding="utf-8")
        corpora = {"en": (str(text),)}
        vocab.run(
            vocab.VocabConfig(
                corpora=corpora, out=str(root / "v"), size=2000, coverage=1.0, num_sentences=9999
            )
        )
        made = binarize.BinarizeConfig(vocab=str(root / "v"), out=str(root / "s"), corpora=corpora)
        encoding = seconds(lambda: binarize.run(made))
        tiny = (
            "model.layers=2",
            "model.dim=64",
            "model.heads=2",
            "model.ffn_dim=128",
            "train.batch_tokens=4096",
        )
        small = [*tiny, f"data={root / 's'}", f"out={root / 'm'}", "train.updates=50"]
        training = seconds(lambda: train.run(config.load(PretrainConfig, overrides=small)))
        tokens = 50 * 4096
    print(f"| what | {given['gigabytes']} GB |\n| --- | --- |")
    print(f"| first check | {first:.1f} s, {size / first / 1e9:.2f} GB/s |")
    print(f"| later checks | {second * 1000:.1f} ms |")
    print(f"| share of `binarize` | {100 * per_byte * text_size(given) / encoding:.2f} % |")
    print(
        f"| share of one epoch of `pretrain`, 2 layers of 64 | {100 * per_byte * 2 * tokens / training:.3f} % |"
    )


def text_size(given: dict[str, str]) -> float:
    """Return the bytes of text that `binarize` read."""
    return float(given["text_mb"]) * 1e6


if __name__ == "__main__":
    main(sys.argv[1:])
