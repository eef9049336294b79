"""Size and speed of encoders and of what was made of them by `xling trim`, distillation and int8.

Usage: ``python -m benchmarks.compress NAME=CHECKPOINT... [text=FILE] [lines=400] [rounds=5]``, or ``base`` in place of
the checkpoints for XLM-R base's shape with random weights (12 layers of 768; 16,000 pieces, so that it fits anywhere).
Every model reads the same lines of the file, or as many random pieces, in float32, in bfloat16 and in int8, by turns in
one process on one thread: the least processor seconds of all rounds, and how many times fewer than the first model in
float32. Megabytes are those of parameters and buffers of the encoder, without the LM head's own. For bfloat16 and int8
also the cosine of the sentence vectors with those in float32, mean and least.
"""

from __future__ import annotations

import copy
import sys
import time
from pathlib import Path
from typing import Any

import torch

from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.data.packing import pack
from xling.models import checkpoint
from xling.models.encoder import Encoder, EncoderConfig
from xling.models.int8 import num_bytes, quantised
from xling.text import reader, vocab
from xling.transfer.backend import BATCH_TOKENS, _example
from xling.transfer.encode import BOS, EOS, pieces
from xling.transfer.tune import batches_by_tokens

PRECISIONS = ("fp32", "bf16", "int8")
BASE = EncoderConfig(layers=12, dim=768, heads=12, ffn_dim=3072, max_positions=512, dropout=0.0)


def main(*words: str) -> int:
    """Measure and print a Markdown table."""
    given = {"text": "", "lines": "400", "rounds": "5"}
    places = {}
    for word in words:
        name, _, value = word.partition("=")
        (given if name in given else places)[name] = value
    if not places:
        print(__doc__)
        return 2
    torch.set_num_threads(1)
    systems: dict[tuple[str, str], tuple[Any, list[dict[str, Any]]]] = {}
    for name, place in places.items():
        encoder, sequences = _random(int(given["lines"])) if name == "base" else _read(Path(place), given)
        for precision in PRECISIONS:
            variant = copy.deepcopy(encoder).eval()
            variant = quantised(variant) if precision == "int8" else variant.to(_dtype(precision))
            systems[name, precision] = variant, sequences
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in systems}
    vectors = {key: _run(*system) for key, system in systems.items()}  # the first time allocates
    for _ in range(int(given["rounds"])):
        for key, system in systems.items():
            start = time.process_time()
            _run(*system)
            seconds[key].append(time.process_time() - start)
    first = min(next(iter(seconds.values())))
    print("| model | | MB | CPU seconds | times faster | cosine with fp32: mean, least |")
    print("| --- | --- | ---: | ---: | ---: | --- |")
    for (name, precision), (encoder, _) in systems.items():
        best = min(seconds[name, precision])
        cosine = torch.cosine_similarity(vectors[name, precision], vectors[name, "fp32"])
        near = f"{cosine.mean():.4f}, {cosine.min():.4f}" if precision != "fp32" else ""
        print(
            f"| {name} | {precision} | {num_bytes(encoder) / 1e6:.1f} | {best:.2f} | {first / best:.2f} | {near} |"
        )
    return 0


def _dtype(precision: str) -> torch.dtype:
    return torch.bfloat16 if precision == "bf16" else torch.float32


def _read(directory: Path, given: dict[str, str]) -> tuple[Encoder, list[dict[str, Any]]]:
    """Return an encoder and the batches of the lines under its vocabulary."""
    if not given["text"]:
        raise UserError("no text", "text=FILE", "name a file of lines")
    model, _ = checkpoint.load_model(directory)
    processor, room = vocab.load(directory), model.cfg.max_positions
    lines = [line for doc in reader.documents([given["text"]]) for line in doc][: int(given["lines"])]
    return model.encoder, _batches([[BOS, *pieces(processor, line)[: room - 2], EOS] for line in lines])


def _random(lines: int) -> tuple[Encoder, list[dict[str, Any]]]:
    """Return XLM-R base's shape, and sequences of 8 to 64 pieces."""
    torch.manual_seed(1)
    draw = rng("compress")
    return Encoder(BASE, 16_000), _batches(
        [draw.integers(4, 16_000, draw.integers(8, 65)).tolist() for _ in range(lines)]
    )


def _batches(sequences: list[list[int]]) -> list[dict[str, Any]]:
    indices = batches_by_tokens([len(s) for s in sequences], BATCH_TOKENS)
    return [pack([_example(i, sequences[i], 0) for i in batch]) for batch in indices]


def _run(encoder: Any, batches: list[dict[str, Any]]) -> torch.Tensor:
    """Return mean states of all sequences, float32 (lines, dim)."""
    rows = []
    with torch.inference_mode():
        for batch in batches:
            hidden = encoder(**batch["net_input"]).float()
            lengths = [length for count, length in batch["net_input"]["runs"] for _ in range(count)]
            rows += [states.mean(0) for states in hidden.split(lengths)]
    return torch.stack(rows)


if __name__ == "__main__":
    try:
        raise SystemExit(main(*sys.argv[1:]))
    except UserError as error:
        raise SystemExit(f"compress: {error}") from None
