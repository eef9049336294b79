"""Pre-training against stock fairseq, on one CPU: tokens/s, arithmetic, losses after equal tokens.

Run:  python -m benchmarks.pretrain [small|base|seq2seq] [--objective mmlm|mbart|mass|translation] [--updates N]
                                    [--batch-tokens N] [--blocks N] [--threads N] [--data DIR]
                                    [--systems stock,bf16,fp32]

Stock is fairseq's own task with its model, its Trainer and its Adam in float32, started from its own command line (see
`benchmarks/stock.py`): ``multilingual_masked_lm`` against our MMLM, ``multilingual_denoising`` against mBART and MASS,
``translation``. It and ours (in bfloat16, in float32) read the same shards, have the same shape, dropout, schedule and
tokens in a batch, and take turns block by block in one process with the same threads. Rates count real tokens only, of
both sides where there is a decoder. Both processor and wall seconds are given: on a shared machine the first are the
better measure, but with several threads they count idle spinning too. Time is that of whole updates: fetching the
batch, forward, backward, clipping, optimiser, logging.

Losses are held-out ones, as training losses cannot be compared: stock's masked LM also masks and predicts ``<s>`` and
``</s>``, which are easy. For masked LM all systems are given the same masked batches of our validation text; a model
with a decoder is measured on the validation text in the form that it was trained on. MASS predicts another part of the
text than denoising does, so its loss has no counterpart.

Shapes: ``small`` is 4 layers x 256 with 32,000 pieces, ``base`` is XLM-R base with 250,002, ``seq2seq`` is 3 + 3 layers
x 256 with 8,000. The text is synthetic (Zipf's law, two thirds of the pieces follow from the one before), in three
languages of unequal size; the sides of a pair are word for word translations. ``--data`` names a binarised directory of
real text without pairs instead. Prints Markdown.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.trainer import Trainer
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.stock import PAD, as_roberta, stock
from xling.core.sampling import rng
from xling.core.settings import config
from xling.objectives import OBJECTIVES
from xling.text.files.shards import EOS, NUM_SPECIALS, ShardWriter
from xling.training import assemble, update
from xling.training.settings import PretrainConfig

LANGS = {"en": 1.0, "sw": 0.3, "ur": 0.1}
FOLLOWS = 2 / 3
PAIR = "en-sw"
WARM = 1
POINTS, HELD_OUT = 6, 4  # how often the held-out loss is taken, and on how many batches


@dataclass(frozen=True)
class Shape:
    """A model and its data; ``tokens`` are those of the largest language."""

    layers: int
    dim: int
    heads: int
    vocab: int
    length: int
    batch_tokens: int
    updates: int
    blocks: int
    tokens: int
    lr: float


SHAPES = {
    "small": Shape(4, 256, 4, 32_000, 256, 4096, 240, 12, 1_500_000, 1e-3),
    "base": Shape(12, 768, 12, 250_002, 512, 4096, 12, 4, 1_500_000, 2e-4),
    "seq2seq": Shape(3, 256, 4, 8_000, 128, 4096, 62, 6, 300_000, 1e-3),
}


# --- data ------------------------------------------------------------------------------------------------------------


def write_data(folder: Path, shape: Shape) -> Path:
    """Write shards that stock and ours read; paragraphs of 8 to 60 pieces, documents of about 10 paragraphs.

    No piece begins a word: noise then falls on pieces, as stock's does without a list of words.
    """
    num_pieces = shape.vocab - NUM_SPECIALS - 1
    pieces = "".join(f"p{i} 1\n" for i in range(num_pieces))
    for name in ("mono", "pairs"):
        (folder / name).mkdir()
        (folder / name / "dict.txt").write_text(pieces, encoding="utf-8")
    for lang, share in LANGS.items():
        for split, num in (("train", int(shape.tokens * share)), ("valid", 20_000)):
            items = list(paragraphs(lang, split, num, num_pieces))
            for name in ("mono", "pairs"):
                (folder / name / lang).mkdir(exist_ok=True)
                with ShardWriter(folder / name / lang / split, shape.vocab) as writer:
                    for item in items:
                        writer.add(item)
                    writer.close()
    for split, num in (("train", min(400_000, shape.tokens)), ("valid", 20_000)):
        home = folder / "pairs" / PAIR
        home.mkdir(exist_ok=True)
        for side in PAIR.split("-"):
            (home / f"dict.{side}.txt").write_text(pieces, encoding="utf-8")  # where stock looks for it
            with ShardWriter(home / f"{split}.{PAIR}.{side}", shape.vocab) as writer:
                for item in paragraphs(side, split, num, num_pieces, aligned=True):
                    writer.add(item)
                writer.close()
    return folder


def paragraphs(
    lang: str, split: str, num_tokens: int, num_pieces: int, aligned: bool = False
) -> Iterator[np.ndarray]:
    """Yield items with ``</s>`` behind; ``aligned`` those of all languages say the same, and no document ends."""
    lengths = rng(1, "lengths", split).integers(8, 61, num_tokens // 34)
    draws = rng(1, "text", "all" if aligned else lang, split)
    shares = 1 / (np.arange(num_pieces) + 10.0)
    drawn = draws.choice(num_pieces, int(lengths.sum()), p=shares / shares.sum())
    order = rng(1, "language", lang).permutation(num_pieces)  # every language has its own words
    follows = draws.random(len(drawn)) < FOLLOWS
    text = drawn.copy()
    for i in range(1, len(text)):
        if follows[i]:
            text[i] = (text[i - 1] * 31 + 7) % max(num_pieces // 16, 1)
    text = order[text] + NUM_SPECIALS
    for number, (start, length) in enumerate(zip(np.cumsum(lengths) - lengths, lengths, strict=True)):
        yield np.append(text[start : start + length], EOS)
        if not aligned and number % 10 == 9:
            yield np.array([EOS])


# --- the two systems -------------------------------------------------------------------------------------------------


def ours(
    data: Path, shape: Shape, seed: int, precision: str, objective: str = "mmlm", more: Sequence[str] = ()
) -> Trainer:
    """Return `xling pretrain`'s training."""
    own, decoder = f"objectives.{objective}.", OBJECTIVES[objective].decoder
    # Ours counts the tokens of both sides of a batch, fairseq those of the longer one.
    batch_tokens = shape.batch_tokens * (1 + decoder)
    words = [
        f"data={data}", "out=unused", f"seed={seed}", f"{own}tokens_per_sample={shape.length}", f"{own}alpha=0.3",
        f"model.layers={shape.layers}", f"model.dim={shape.dim}", f"model.heads={shape.heads}",
        f"model.ffn_dim={4 * shape.dim}", f"model.max_positions={shape.length}", f"model.precision={precision}",
        "model.dropout=0.1", "model.attention_dropout=0.1", f"train.batch_tokens={batch_tokens}",
        f"train.updates={shape.updates}", f"train.lr={shape.lr}", f"train.warmup={shape.updates // 10}",
        "train.clip=1.0", "train.weight_decay=0.01",
    ]  # fmt: skip
    words += ["model.plain_head=true"] if decoder else []
    words += [f"{own}join=true"] if objective in ("mass", "mbart") else []
    words += [f"{own}directions={PAIR}"] if objective == "translation" else []
    cfg = config.load(PretrainConfig, overrides=[*words, *more])
    if objective != "mmlm":
        cfg.objectives.pop("mmlm", None)
    trainer, _ = assemble.build_trainer(cfg, Path("unused"))
    return trainer


def batches(trainer: Trainer) -> Iterator[Any]:
    """Yield batches epoch after epoch, as training takes them."""
    epoch = 1
    while True:
        itr = trainer.get_train_iterator(epoch, load_dataset=True)
        trainer.lr_step(epoch)
        trainer.begin_epoch(epoch)
        yield from ([batch] for batch in itr.next_epoch_itr(fix_batches_to_gpus=False, shuffle=False))
        epoch += 1


def size_of(sample: dict[str, Any]) -> tuple[int, int]:
    """Return the real tokens of a batch and the computed ones, including padding."""
    sides = [sample["net_input"]["src_tokens"]]
    if {"decoder", "prev_output_tokens"} & sample["net_input"].keys():
        sides.append(sample["target"])
    return sum(int((side != PAD).sum()) for side in sides), sum(side.numel() for side in sides)


@dataclass
class System:
    """One trainer and what was measured of it; ``held_out`` are (tokens learned from, loss in nats)."""

    name: str
    trainer: Trainer
    precision: str
    stream: Iterator[Any] = field(init=False)
    seen: int = 0
    tokens: int = 0
    computed: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    flops: float = 0.0
    held_out: list[tuple[int, float]] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stream = batches(self.trainer)

    def warm_up(self) -> None:
        """Run untimed updates; the last one counts floating point operations."""
        for _ in range(WARM):
            self._update(next(self.stream))
        samples = next(self.stream)
        with FlopCounterMode(display=False) as counter:
            self._update(samples)
        self.flops = counter.get_total_flops() / size_of(samples[0])[0]

    def block(self, num: int) -> None:
        """Run ``num`` timed updates."""
        with nullcontext() if self.name == "stock" else update.memory_kept():  # as `xling pretrain` does
            self._block(num)

    def _block(self, num: int) -> None:
        wall, cpu, before = time.perf_counter(), time.process_time(), self.tokens
        for _ in range(num):
            samples = next(self.stream)
            self._update(samples)
            real, computed = size_of(samples[0])
            self.tokens, self.computed = self.tokens + real, self.computed + computed
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.wall, self.cpu = self.wall + wall, self.cpu + cpu
        self.rates.append((self.tokens - before) / cpu)

    def _update(self, samples: list[Any]) -> None:
        self.trainer.train_step(samples)
        self.seen += size_of(samples[0])[0]

    @torch.no_grad()
    def measure(self, samples: list[dict[str, Any]]) -> None:
        """Take the mean loss of validation batches, without dropout."""
        model, criterion = self.trainer.get_model().eval(), self.trainer.get_criterion().eval()
        total = num = 0.0
        for sample in samples:
            loss, count, _ = criterion(model, sample)
            total, num = total + float(loss), num + float(count)
        self.held_out.append((self.seen, total / num))


def validation(trainer: Trainer) -> list[dict[str, Any]]:
    """Some validation batches."""
    trainer.task.load_dataset("valid")
    iterator = trainer.get_valid_iterator("valid").next_epoch_itr(shuffle=False)
    return [sample for sample, _ in zip(iterator, range(HELD_OUT), strict=False)]


# --- what is measured ------------------------------------------------------------------------------------------------


def product_rates(shape: Shape) -> dict[str, float]:
    """GFLOP/s of the machine's matrix product (batch x dim x 4 dim) by processor seconds of all threads, best of 20."""
    rates = {}
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        left = torch.randn(shape.batch_tokens, shape.dim).to(dtype)
        right = torch.randn(4 * shape.dim, shape.dim).to(dtype)
        seconds = []
        for _ in range(20):
            begin = time.process_time()
            torch.mm(left, right.t())
            seconds.append((time.process_time() - begin) / torch.get_num_threads())
        rates[name] = 2 * left.numel() * len(right) / min(seconds) / 1e9
    return rates


def speed(data: Path, shape: Shape, names: list[str], seed: int, objective: str) -> None:
    """Print the table of systems: rates, padding, arithmetic and losses after equal tokens."""
    rates = product_rates(shape)
    print(
        f"Matrix product {shape.batch_tokens} x {shape.dim} x {4 * shape.dim}: fp32 {rates['fp32']:.0f} GFLOP/s, "
        f"bf16 {rates['bf16']:.0f} GFLOP/s, ratio {rates['bf16'] / rates['fp32']:.2f}.\n"
    )
    systems, held_out = [], []
    for name in names:
        its_own = stock(data, shape, seed, objective) if name == "stock" else None
        trainer = its_own or ours(data, shape, seed, name, objective)
        systems.append(System(name, trainer, "fp32" if its_own else name))
        if its_own and objective == "mmlm":
            held_out.append([as_roberta(s) for s in validation(ours(data, shape, seed, "fp32"))])
        else:
            held_out.append(validation(trainer))
    for system in systems:
        system.warm_up()
    for number in range(1, shape.blocks + 1):
        for system, samples in zip(systems, held_out, strict=True):
            system.block((shape.updates - WARM - 1) // shape.blocks)
            if number % -(-shape.blocks // POINTS) == 0 or number == shape.blocks:
                system.measure(samples)
    print(
        "| system | tokens/s of CPU | tokens/s of wall | padding | MFLOP a token | GFLOP/s | of the product rate |\n"
        "|---|---:|---:|---:|---:|---:|---:|"
    )
    for system in systems:
        done = system.flops * system.tokens / 1e9 / system.cpu * torch.get_num_threads()
        print(
            f"| {system.name} | {system.tokens / system.cpu:,.0f} | {system.tokens / system.wall:,.0f} "
            f"| {100 * (1 - system.tokens / system.computed):.2f} % | {system.flops / 1e6:,.1f} | {done:.1f} "
            f"| {100 * done / rates[system.precision]:.0f} % |"
        )
    print()
    ratios(systems)
    loss_table(systems)


def ratios(systems: list[System]) -> None:
    """Each system against the first, over all and the spread over blocks."""
    first = systems[0]
    for system in systems[1:]:
        spread = [ours_ / theirs for ours_, theirs in zip(system.rates, first.rates, strict=True)]
        cpu = system.tokens / system.cpu / (first.tokens / first.cpu)
        print(
            f"{system.name} / {first.name}: {cpu:.2f}x by CPU seconds "
            f"(blocks: median {statistics.median(spread):.2f}, {min(spread):.2f} to {max(spread):.2f}), "
            f"{system.tokens / system.wall / (first.tokens / first.wall):.2f}x by wall seconds.  "
        )
    print()


def loss_table(systems: list[System]) -> None:
    """Held-out losses, each with the real tokens learned from."""
    num = len(systems[0].held_out)
    print(f"Held-out loss in nats, after so many thousand real tokens:\n\n| system |{' |' * num}")
    print("|---|" + "---:|" * num)
    for system in systems:
        cells = (f" {loss:.3f} ({tokens / 1000:,.0f}) |" for tokens, loss in system.held_out)
        print(f"| {system.name} |{''.join(cells)}", flush=True)
    print()


def main() -> None:
    """Print the measurements that the command line names."""
    parser = argparse.ArgumentParser(description="Pre-training against stock fairseq.")
    parser.add_argument("shape", nargs="?", choices=list(SHAPES))
    parser.add_argument("--objective", default="mmlm", choices=["mmlm", "mbart", "mass", "translation"])
    for name in ("updates", "batch-tokens", "blocks", "length"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--systems", default="stock,bf16,fp32")
    given = parser.parse_args()
    # Stock calls things that torch has renamed, and logs with missing arguments; both are its own affair.
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(given.threads)
    name = given.shape or ("small" if given.objective == "mmlm" else "seq2seq")
    changed = {k: v for k in ("updates", "batch_tokens", "blocks", "length") if (v := getattr(given, k))}
    shape = Shape(**{**vars(SHAPES[name]), **changed})
    if shape.updates <= WARM + shape.blocks:
        parser.error(
            f"--updates {shape.updates}: more than {WARM + shape.blocks}, so that every block has one"
        )
    with tempfile.TemporaryDirectory() as folder:
        shards = write_data(Path(folder), shape)
        data = given.data or shards / ("pairs" if given.objective == "translation" else "mono")
        print(f"{given.objective}, {name}: {shape}, {given.threads} threads, torch {torch.__version__}\n")
        speed(data, shape, given.systems.split(","), given.seed, given.objective)


if __name__ == "__main__":
    main()
