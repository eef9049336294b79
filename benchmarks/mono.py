"""How much memory a build takes and how fast it is: a synthetic crawl of any size under a memory limit.

Usage: ``python benchmarks/mono.py [MEGABYTES [LIMIT_MB [FOLDER]]]``, 2000 and 2048 by default. The crawl is drawn
from the sentences of tests/corpora/crawl.py with numbers strewn in, so that its rates are those of the
machinery, not of real pages. The build's processes are watched and killed when they pass the limit together.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.corpora.crawl import BOILERPLATE, SENTENCES, sentences
from xling.core.sampling import rng

_MB = 1 << 20
_FILE_MB = 100
_SHARE_OF_SWAHILI = 0.7


def write_crawl(folder: Path, num_mb: int) -> int:
    """Write WET files of together ``num_mb`` MiB of text and return the number of documents."""
    folder.mkdir(parents=True)
    pools = {lang: sentences(lang) for lang in SENTENCES}
    langs = list(pools)
    num_docs = 0
    for number in range(-(-num_mb // _FILE_MB)):
        random = rng("benchmark", number)
        left = min(_FILE_MB, num_mb - number * _FILE_MB) * _MB
        with (folder / f"crawl-{number:05d}.warc.wet").open("wb") as handle:
            while left > 0:
                lang = (
                    "sw" if random.random() < _SHARE_OF_SWAHILI else langs[int(random.integers(len(langs)))]
                )
                body = _document(pools[lang], lang, random).encode()
                head = f"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                handle.write(head + body + b"\r\n\r\n")
                left -= len(body)
                num_docs += 1
    return num_docs


def _document(pool: list[str], lang: str, random: object) -> str:
    """A page of some 4 kB: shuffled sentences with words of their own, boilerplate on top and below."""
    order = random.permutation(len(pool))  # type: ignore[attr-defined]
    marks = random.integers(0, 1 << 40, size=8)  # type: ignore[attr-defined]
    joint = "" if lang == "zh" else " "
    lines = []
    for i, mark in enumerate(marks.tolist()):
        words = "".join("aeioubkmt"[(mark >> (3 * k)) % 9] for k in range(10))
        chosen = [pool[order[(i * 3 + k) % len(pool)]] for k in range(6)]
        lines.append(joint.join([*chosen[:3], words, *chosen[3:]]))
    return "\n".join([lines[0], BOILERPLATE, *lines[1:], "Contact | Imprint"])


def _tree_mb(root: int) -> float:
    """Resident memory of a process and its children, MiB; pages they share are counted for each."""
    pids, found = [root], 0.0
    for pid in pids:
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
            found += int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf(
                "SC_PAGESIZE"
            )
        except (FileNotFoundError, ProcessLookupError):
            continue
        pids += map(int, children.split())
    return found / _MB


def main(num_mb: int = 2000, limit_mb: int = 2048, folder: str = "") -> int:
    """Write the crawl, build, watch; print one JSON object."""
    with tempfile.TemporaryDirectory(dir=folder or None) as root:
        num_docs = write_crawl(Path(root) / "crawl", num_mb)
        command = [
            sys.executable, "-m", "xling.cli", "corpus", "mono", "lang=sw", f"out={root}/sw",
            f"source=wet:{root}/crawl/*.wet", "settings.filters.limits.max_repeated_runs=1", "near.min_jaccard=0.95",
        ]  # fmt: skip
        start, peak = time.perf_counter(), 0.0
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while child.poll() is None:
            peak = max(peak, _tree_mb(child.pid))
            if peak > limit_mb:
                os.kill(child.pid, signal.SIGKILL)
            time.sleep(0.05)
        seconds = time.perf_counter() - start
        report = {"crawl_mb": num_mb, "documents": num_docs, "limit_mb": limit_mb, "peak_mb": round(peak, 1)}
        report |= {
            "exit_code": child.returncode,
            "seconds": round(seconds, 1),
            "mb_per_s": round(num_mb / seconds, 2),
        }
        if child.returncode == 0:
            counts = json.loads((Path(root) / "sw" / "manifest.json").read_text(encoding="utf-8"))["counts"]
            report |= {"kept_documents": counts["documents"], "phases": counts["phases"]}
    print(json.dumps(report, indent=1))
    return 0 if child.returncode == 0 else 1


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(*map(int, given[:2]), *given[2:]))
