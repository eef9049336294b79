"""Beam search against stock fairseq with the same random weights: sentences a second, equal outputs.

Settings: ``scale=tiny``, ``sentences=``, ``batch=`` (source tokens), ``beam=``. 6 + 6 layers of 512, 32,000 pieces.
``profile=NAME`` shows the kernels of one system in place of rates.
"""

from __future__ import annotations

import copy
import statistics
import time
from argparse import Namespace
from typing import Any

from benchmarks.generate import TIE, search_stock, stock_of, synthetic
from benchmarks.gpu.common import Table, device, profile, wait
from xling.models.generate import generate_all
from xling.models.search import Search

BLOCKS = 3


def run(settings: dict[str, str]) -> None:
    """Print and write."""
    tiny = settings.get("scale") == "tiny"
    sentences = int(settings.get("sentences", 40 if tiny else 1024))
    layers, dim, pieces = (1, 64, 800) if tiny else (6, 512, 32_000)
    args = Namespace(layers=layers, dim=dim, pieces=pieces, sentences=sentences)
    model, symbols, sources = synthetic(args)
    model = model.to(device()).eval()
    stock, dictionary = stock_of(model, symbols)
    stock = stock.to(device())
    rounded, stock_rounded = copy.deepcopy(model).bfloat16(), copy.deepcopy(stock).bfloat16()
    search = Search(beam=int(settings.get("beam", 5)), max_len_a=0, max_len_b=60)
    src, tgt = [1] * len(sources), [0] * len(sources)
    for batch in (512,) if tiny else (int(settings["batch"]),) if "batch" in settings else (4096, 16_384):

        def ours(which: Any, batch: int = batch) -> list[tuple[list[int], float]]:
            results = generate_all(which, sources, src, tgt, symbols, search, batch)
            return [(hypotheses[0].tokens.tolist(), hypotheses[0].score) for hypotheses in results]

        def theirs(which: Any, batch: int = batch) -> list[tuple[list[int], float]]:
            return search_stock(which, dictionary, symbols, sources, search, batch)

        systems = {
            "fairseq fp32": lambda: theirs(stock),
            "xling fp32": lambda: ours(model),
            "fairseq bf16": lambda: theirs(stock_rounded),
            "xling bf16": lambda: ours(rounded),
        }
        if "profile" in settings:
            systems[settings["profile"]]()
            profile(systems[settings["profile"]], 1)
            continue
        _compare(systems, batch, args, search)


def _compare(systems: dict[str, Any], batch: int, args: Namespace, search: Search) -> None:
    table = Table(f"beam_{batch}", "beam search", batch_tokens=batch, **vars(args), beam=search.beam)
    outputs, seconds = {}, dict[str, list[float]]()
    for name, system in systems.items():
        try:
            outputs[name] = system()  # also warms up
        except Exception as error:
            table.add(system=name, error=f"{type(error).__name__}: {error}"[:200])
    for _ in range(BLOCKS):
        for name in outputs:
            wait()
            begin = time.perf_counter()
            systems[name]()
            wait()
            seconds.setdefault(name, []).append(time.perf_counter() - begin)
    first = "fairseq fp32"
    for name, results in outputs.items():
        middle = statistics.median(seconds[name])
        pairs = list(zip(outputs[first], results, strict=True))
        same = sum(a == b for (a, _), (b, _) in pairs)
        ties = sum(a != b and abs(x - y) < TIE for (a, x), (b, y) in pairs)
        peer = f"fairseq {name.split()[1]}"
        table.add(
            system=name, sentences_s=args.sentences / middle, tokens_s=sum(len(t) + 1 for t, _ in results) / middle,
            s=middle, spread=f"{min(seconds[name]):.3f} to {max(seconds[name]):.3f}", equal=same, ties=ties,
            times_fp32_stock=statistics.median(seconds[first]) / middle,
            times_stock=statistics.median(seconds[peer]) / middle if peer in seconds else 0.0,
        )  # fmt: skip
