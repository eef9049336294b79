"""Speed of `corpus mono lang=all` from files to routed documents, on real pages, beside CCNet's order and datatrove.

Run:  XLING_DATA=FOLDER python -m benchmarks.routing [times=6] [repeats=3] [datatrove=yes]

The input is ``web/hplt_pages.warc.wet.gz``, ``times`` over. MB are 10^6 bytes of it unpacked, rates are by processor
seconds of this process, which is bound to one core. Ours is the phase ``route`` as a build runs it: digests, reading,
repair, blocklist, length, identification, one Parquet file by language, counts and rejects. CCNet's order reads,
drops short pages, hashes paragraphs and identifies, and writes nothing. datatrove reads, repairs with ftfy and writes
nothing; its identification would download a model and is left out.
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import corpora
from benchmarks.crawl import ccnet
from xling.core.parts import Workspace
from xling.corpora.identify import lid176
from xling.corpora.mono.plan import make_plan
from xling.corpora.mono.route import run_route
from xling.corpora.mono.settings import MonoConfig
from xling.corpora.stages.langid import identify

PAGES = "web/hplt_pages.warc.wet.gz"
STAGES = ("repair", "blocklist", "length")


def ours(path: Path, stages: tuple[str, ...]) -> None:
    """Run the phase ``route`` on one file."""
    with tempfile.TemporaryDirectory() as folder:
        cfg = MonoConfig("all", out=folder, source=(f"wet:{path}",), before_dedup=stages)
        plan = make_plan(cfg)
        workspace = Workspace.beside(Path(folder) / "overview", cfg.content())
        for part in range(len(plan.parts)):
            run_route(cfg, workspace, plan, part)


def ccnet_order(path: Path) -> None:
    """Read, drop short pages, hash paragraphs and identify, one page at a time."""
    model = lid176().model
    for text in ccnet.pages(path):
        ccnet.hashes(text)
        model.predict(text.replace("\n", ""), 1)


def rate(name: str, num_mb: float, repeats: int, step: Callable[[], None]) -> float:
    """Print and return the best rate of some runs, MB a processor second."""
    rates = []
    for _ in range(repeats):
        start = time.process_time()
        step()
        rates.append(num_mb / (time.process_time() - start))
    print(f"| {name} | {max(rates):.1f} | {min(rates):.1f} |", flush=True)
    return max(rates)


def main(arguments: list[str]) -> None:
    """Make the input, run everything, print Markdown."""
    given = dict(argument.split("=", 1) for argument in arguments)
    times, repeats = int(given.get("times", 6)), int(given.get("repeats", 3))
    pages = Path(os.environ["XLING_DATA"]) / PAGES
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "pages.warc.wet.gz"
        path.write_bytes(pages.read_bytes() * times)
        num_mb = times * len(gzip.decompress(pages.read_bytes())) / 1e6
        identify("warm up the identifiers, which are read when first asked")
        ours(pages, (*STAGES, "lines"))
        print(f"{num_mb:.1f} MB\n\n| step | best MB/s | worst MB/s |\n|---|---:|---:|")
        plain = rate(
            "ours: read, repair, blocklist, length, identify, route",
            num_mb,
            repeats,
            lambda: ours(path, STAGES),
        )
        lines = rate(
            "ours, and the classifier of lines", num_mb, repeats, lambda: ours(path, (*STAGES, "lines"))
        )
        theirs = rate(
            "CCNet's order: read, length, hash, identify", num_mb, repeats, lambda: ccnet_order(path)
        )
        print(
            f"\nOurs is {plain / theirs:.1f} times as fast as CCNet's order, with lines {lines / theirs:.1f} times."
        )
        if given.get("datatrove") == "yes":
            print("\ndatatrove on the same file and core:\n\n" + corpora.datatrove(path, Path(temporary)))


if __name__ == "__main__":
    main(sys.argv[1:])
