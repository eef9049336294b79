"""What T5's shape costs beside the usual one: a training step and generating, CPU seconds.

Usage: ``python -m benchmarks.t5_shape [ROUNDS]``. Models of 4 + 4 layers of 256 with random weights read random pieces:
SYNTHETIC. By turns in one process on one thread; the least of all rounds but the first, as a Markdown table.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from xling.core.sampling import rng
from xling.data.packing import pack_seq2seq
from xling.data.symbols import Symbols
from xling.models.generate import generate_all
from xling.models.search import Search
from xling.models.seq2seq import Seq2SeqConfig, Seq2SeqModel
from xling.objectives.seq2seq import example

SYMBOLS = Symbols(8000, ("en", "de"))
BASE: dict[str, Any] = {
    "layers": 4, "dim": 256, "heads": 4, "ffn_dim": 1024, "dropout": 0.0, "pre_norm": True, "plain_head": True,
    "unbiased_head": True,
}  # fmt: skip
RELATIVE = {"positions": "relative"}
T5 = {"norm": "rms", "embedding_norm": False, "biases": False, "ffn": "gated_gelu", "untied_head": True}
SHAPES: dict[str, dict[str, Any]] = {
    "learnt positions": {},
    "relative positions": RELATIVE,
    "all of mT5's shape": RELATIVE | T5,
}
SEARCH = Search(beam=4, max_len_a=0, max_len_b=40)


def main(rounds: str = "4") -> int:
    """Measure and print a Markdown table."""
    torch.set_num_threads(1)
    draw = rng(1, "t5_shape")
    lengths = np.sort(draw.integers(8, 120, 30))

    def text(length: int) -> np.ndarray:
        return draw.integers(4, SYMBOLS.mask, length)

    pairs = [(np.append(text(n), 2), np.append(text(max(4, n // 4)), 2)) for n in lengths]
    batch = pack_seq2seq(
        [example(*pair, 0, 1, SYMBOLS) | {"id": np.array([i])} for i, pair in enumerate(pairs)]
    )
    sources = [text(int(n)) for n in draw.integers(8, 40, 24)]
    models = {}
    for name, more in SHAPES.items():
        torch.manual_seed(1)
        models[name] = Seq2SeqModel(Seq2SeqConfig(**BASE | more), SYMBOLS.size)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
    for _ in range(int(rounds)):
        for name, model in models.items():
            both = (lambda m=model: step(m, batch), lambda m=model: write(m, sources))
            first, second = (cpu_seconds(function) for function in both)
            seconds[name].append((first, second))
    print("| | million parameters | a step | generating |\n| --- | ---: | ---: | ---: |")
    for name, model in models.items():
        size = sum(p.numel() for p in model.parameters()) / 1e6
        least = (min(column) for column in zip(*seconds[name][1:], strict=True))
        print(f"| {name} | {size:.1f} | {' | '.join(f'{s:.2f}' for s in least)} |")
    return 0


def step(model: Seq2SeqModel, batch: dict[str, Any]) -> None:
    """Forward and backward."""
    model.train().zero_grad()
    model.loss(model(**batch["net_input"]), batch["target"])[0].backward()


def write(model: Seq2SeqModel, sources: list[np.ndarray]) -> None:
    """Generate from the sources."""
    langs = [0] * len(sources), [1] * len(sources)
    generate_all(model, sources, *langs, SYMBOLS, SEARCH)


def cpu_seconds(function: Callable[[], None]) -> float:
    """Return processor seconds of ``function``."""
    begin = time.process_time()
    function()
    return time.process_time() - begin


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
