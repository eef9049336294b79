"""One round of on-line back-translation (generate, then train) against stock fairseq with the same weights, on one CPU.

Run:  python -m benchmarks.umt [--sentences N] [--blocks N] [--batch-tokens N] [--layers N] [--dim N] [--pieces N]
                               [--threads N] [--precision auto|fp32|bf16]

Ours is the objective ``umt``: greedy with a cache, unpadded, then loss and gradients. Stock does what the task
``online_backtranslation`` does in ``train_step``: SequenceGenerator with beam 1, its outputs collated as sources,
then forward, cross-entropy and gradients of fairseq's TransformerModel. Both have the same weights, sentences, batches
and no dropout, and take turns batch by batch in one process; processor seconds count, for a shared machine. Ours works
in the precision that training would take (``auto``: bfloat16 where the machine is fast at it), stock in float32. The
process keeps its freed memory, as `xling` does; stock alone would not, and is a tenth faster by it. The optimiser's
step is left out of both. Weights and sentences are random with the lengths of captions: SYNTHETIC. Prints Markdown,
with the share of generation, of making batches and of training, and the tokens written for each sentence, which decide
how much both parts have to do; most outputs of random weights are as long as they may be.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.data import data_utils

from xling.data.packing import pack_seq2seq
from xling.models.encoder import working_dtype
from xling.models.generate import EOS, PAD
from xling.models.search import Search
from xling.objectives.seq2seq import example, sequence_loss
from xling.objectives.umt import translate
from xling.training import memory

HERE = Path(__file__).resolve().parent
LONGEST = 24  # tokens of an output; of a share of the source's length stock would take that of the longest in a batch
SEARCH = Search(beam=1, max_len_a=0, max_len_b=LONGEST)


def neighbour() -> Any:
    """Return the benchmark of generation, which makes the two models."""
    spec = importlib.util.spec_from_file_location("benchmark_generate", HERE / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ours(model: Any, symbols: Any, texts: list[np.ndarray]) -> np.ndarray:
    """Return processor seconds of generation, making the batch and training, and the tokens written."""
    marks = [time.process_time()]
    outputs = translate(model, texts, [1] * len(texts), [0] * len(texts), symbols, SEARCH)
    marks.append(time.process_time())
    rows = [
        example(np.append(x, EOS), np.append(y, EOS), 0, 1, symbols) | {"id": np.array([i])}
        for i, (x, y) in enumerate(zip(outputs, texts, strict=True))
    ]
    packed = pack_seq2seq(rows)
    marks.append(time.process_time())
    model.zero_grad(set_to_none=True)
    sequence_loss(model, packed).total.backward()
    marks.append(time.process_time())
    return np.append(np.diff(marks), sum(len(x) + 1 for x in outputs))


def theirs(bench: Any, stock: Any, dictionary: Any, symbols: Any, texts: list[np.ndarray]) -> np.ndarray:
    """Return the same of fairseq."""
    marks = [time.process_time()]
    plain = type(stock).get_normalized_probs
    stock.eval()
    outputs = bench.search_stock(stock, dictionary, symbols, texts, SEARCH, 1 << 30)
    stock.get_normalized_probs = plain.__get__(stock)
    marks.append(time.process_time())
    stock.train()
    order = sorted(range(len(texts)), key=lambda i: -len(outputs[i][0]))
    rows = [torch.tensor([*outputs[i][0], EOS, symbols.lang(0)]) for i in order]
    targets = [torch.tensor([*texts[i].tolist(), EOS]) for i in order]
    before = [torch.tensor([symbols.lang(1), *texts[i].tolist()]) for i in order]
    source = data_utils.collate_tokens(rows, PAD, EOS, left_pad=True)
    lengths = torch.tensor([len(row) for row in rows])
    target, read = (data_utils.collate_tokens(side, PAD, EOS) for side in (targets, before))
    marks.append(time.process_time())
    stock.zero_grad(set_to_none=True)
    logits = stock(source, lengths, read)[0]
    F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum").backward()
    marks.append(time.process_time())
    return np.append(np.diff(marks), sum(len(tokens) + 1 for tokens, _ in outputs))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (
        ("sentences", 400), ("blocks", 5), ("batch-tokens", 1500), ("threads", 1), ("layers", 3), ("dim", 256),
        ("pieces", 5000),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(args.threads)
    bench = neighbour()
    model, symbols, texts = bench.synthetic(args)
    model.cfg.dropout = 0.0
    for module in model.modules():
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    stock, dictionary = bench.stock_of(model, symbols)
    for module in stock.modules():
        if hasattr(module, "p"):
            module.p = 0.0
    model = model.to(working_dtype(args.precision))
    texts = sorted(texts, key=len, reverse=True)
    batches, start = [], 0
    while start < len(texts):
        count = max(1, args.batch_tokens // (len(texts[start]) + 2))
        batches.append(texts[start : start + count])
        start += count
    model.train()
    seconds: dict[str, list[np.ndarray]] = {"xling": [], "fairseq": []}
    for block in range(args.blocks + 1):  # the first warms up
        both = {"xling": np.zeros(4), "fairseq": np.zeros(4)}
        with memory.kept():
            for batch in batches:
                both["xling"] += ours(model, symbols, batch)
                both["fairseq"] += theirs(bench, stock, dictionary, symbols, batch)
        if block:
            for name, spent in both.items():
                seconds[name].append(spent)
    print("| system | sentences/s | generation | batches | training | tokens written |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, blocks in seconds.items():
        *spent, written = np.sum(blocks, 0)
        shares = " | ".join(f"{100 * part / sum(spent):.0f} %" for part in spent)
        per_text = written / len(blocks) / len(texts)
        print(f"| {name} | {len(blocks) * len(texts) / sum(spent):,.1f} | {shares} | {per_text:.1f} |")
    ratios = [b[:3].sum() / a[:3].sum() for a, b in zip(seconds["xling"], seconds["fairseq"], strict=True)]
    print(f"\nratio {statistics.median(ratios):.2f} (median of {len(ratios)} blocks, {min(ratios):.2f} to "
          f"{max(ratios):.2f}); {len(texts)} sentences in {len(batches)} batches, ours in "
          f"{next(model.parameters()).dtype}, torch {torch.__version__}, {args.threads} thread(s)")  # fmt: skip


if __name__ == "__main__":
    main()
