"""How much memory a build takes and how fast it is: a synthetic crawl of any size under a memory limit.

Usage: ``python -m benchmarks.mono [MEGABYTES [LIMIT_MB [FOLDER [SETTING=VALUE ...]]]]``, 2000 and 2048 by default.
The crawl is drawn from the sentences of tests/corpora/crawl.py with invented words strewn in, so that its rates
are those of the machinery, not of real pages. The build's processes are watched and killed when they pass the
limit together.

``XLING_DATA=FOLDER python -m benchmarks.mono altered [MEGABYTES,... [LANG/LANG/... [FOLDER [SETTING=VALUE ...]]]]``,
``15,30,60,120`` and ``en/all`` by default, builds from altered real pages (``benchmarks/crawl/altered.py``) of several
sizes and prints a row each: processor seconds, MB that the build has read and written by system calls, the files that
it has made, and its peak memory. ``keep_work=true``, so that the files can be counted.

``XLING_DATA=FOLDER python -m benchmarks.mono streamed [MEGABYTES,... [LANG/LANG/... [FOLDER [SETTING=VALUE ...]]]]``,
``1000,2000`` and ``all`` by default, builds from a dump that is made while it is downloaded, and deleted while it is
read (``benchmarks/crawl/streamed.py``). Its rows say too how many processor seconds follow the routing, and the most
MB of downloads that lay on the disk at once.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crawl import altered, streamed
from tests.corpora.crawl import write_large_crawl
from xling.core.parts import read_json

ROOT = Path(__file__).resolve().parent.parent
_MB = 1 << 20
# The sentences recur, which the filters would take for spam.
_SETTINGS = ("settings.filters.limits.max_repeated_runs=1",)


def _tree_mb(root: int) -> float:
    """Return resident memory of a process and its children, MiB; pages they share are counted for each."""
    pids, num_bytes = [root], 0.0
    for pid in pids:
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
            num_bytes += int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf(
                "SC_PAGESIZE"
            )
        except (FileNotFoundError, ProcessLookupError):
            continue
        pids += map(int, children.split())
    return num_bytes / _MB


def main(num_mb: int = 2000, limit_mb: int = 2048, folder: str = "", *words: str) -> int:
    """Write the crawl, build, watch; print one JSON object."""
    with tempfile.TemporaryDirectory(dir=folder or None) as root:
        num_docs = write_large_crawl(Path(root) / "crawl", num_mb)
        command = [
            sys.executable, "-m", "xling.cli", "corpus", "mono", "lang=sw", f"out={root}/sw",
            f"source=wet:{root}/crawl/*.wet", "near.min_jaccard=0.95", *(words or _SETTINGS),
        ]  # fmt: skip
        start, peak = time.perf_counter(), 0.0
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT)
        while child.poll() is None:
            peak = max(peak, _tree_mb(child.pid))
            if peak > limit_mb:
                os.kill(child.pid, signal.SIGKILL)
            time.sleep(0.05)
        seconds = time.perf_counter() - start
        report = {
            "crawl_mb": num_mb,
            "documents": num_docs,
            "settings": words,
            "limit_mb": limit_mb,
            "peak_mb": round(peak, 1),
        }
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


def of_sizes(sizes: str = "15,30,60,120", langs: str = "en/all", folder: str = "", *words: str) -> int:
    """Build from altered pages of each size, print a row for each build as Markdown; return 0 if all ended well."""
    print("| MB | lang | pages | CPU s | MB read | MB written | files | peak MiB |\n|---|---|" + "---:|" * 6)
    failed = 0
    for num_mb in map(int, sizes.split(",")):
        with tempfile.TemporaryDirectory(dir=folder or None) as root:
            data = Path(os.environ["XLING_DATA"])
            num_pages = altered.write(Path(root) / "crawl", data, num_mb * 1_000_000)
            for lang in langs.split("/"):
                child = started(Path(root) / lang / "out", lang, (f"source=wet:{root}/crawl/*.gz", *words))
                for _ in watched(child):
                    pass
                failed += child.code != 0
                print(f"| {num_mb} | {lang} | {num_pages:,} | {child.row(Path(root) / lang)} |", flush=True)
    return min(1, failed)


def of_streams(sizes: str = "1000,2000", langs: str = "all", folder: str = "", *words: str) -> int:
    """Build from streamed dumps of each size, print a row for each build as Markdown; return 0 if all ended well."""
    columns = (
        "CPU s | MB read | MB written | files | peak MiB | CPU s after routing | MB of downloads at once"
    )
    print(f"| MB | lang | {columns} |\n|---|---|" + "---:|" * 7)
    failed = 0
    for num_mb, lang in itertools.product(map(int, sizes.split(",")), langs.split("/")):
        dump = streamed.Dump(Path(os.environ["XLING_DATA"]), num_mb * 1_000_000)
        with tempfile.TemporaryDirectory(dir=folder or None) as root, streamed.serving(dump) as address:
            out, cache, most = Path(root) / lang / "out", Path(root) / "downloads", 0
            source = (f"source=cc:{streamed.DUMP}", "size=0", f"base_urls.cc={address}", f"cache={cache}")
            for _ in watched(child := started(out, lang, (*source, *words))):
                most = max(most, streamed.delete_read(out, cache))
            failed += child.code != 0
            after = sum(
                read_json(path)["cpu_seconds"]
                for path in Path(root).rglob("facts.json")
                if path.parent.parent.name != "route"
            )
            print(
                f"| {num_mb} | {lang} | {child.row(Path(root) / lang)} | {after:.1f} | {most / 1e6:,.0f} |",
                flush=True,
            )
    return min(1, failed)


@dataclass
class Build:
    """A build in a process of its own, and what it has taken once it has ended."""

    process: subprocess.Popen[bytes]
    code: int = 0
    seconds: float = 0.0
    megabytes: tuple[float, float] = (0.0, 0.0)
    peak: float = 0.0

    def row(self, folder: Path) -> str:
        """Return the cells of what it took; ``folder`` holds all its files."""
        num_files = sum(path.is_file() for path in folder.rglob("*"))
        read, written = (f"{number:,.1f}" for number in self.megabytes)
        return f"{self.seconds:.1f} | {read} | {written} | {num_files:,} | {self.peak:,.0f}"


def started(out: Path, lang: str, words: tuple[str, ...]) -> Build:
    """Start a build in a process of its own."""
    command = [
        sys.executable, "-m", "xling.cli", "corpus", "mono", f"lang={lang}", f"out={out}", "keep_work=true", *words,
    ]  # fmt: skip
    return Build(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT))


def watched(build: Build) -> Iterator[None]:
    """Yield about once a second until a build ends, and note what it takes."""
    child, number = build.process, 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        build.peak = max(build.peak, _tree_mb(child.pid))
        if number % 20 == 0:
            yield
        number += 1
        time.sleep(0.05)
    # The counts of a process that has ended stay until it is waited for.
    counted = dict(line.split(": ") for line in Path(f"/proc/{child.pid}/io").read_text("ascii").splitlines())
    build.megabytes = (int(counted["rchar"]) / 1e6, int(counted["wchar"]) / 1e6)
    build.code, after = child.wait(), resource.getrusage(resource.RUSAGE_CHILDREN)
    build.seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["altered"]:
        sys.exit(of_sizes(*given[1:]))
    if given[:1] == ["streamed"]:
        sys.exit(of_streams(*given[1:]))
    sys.exit(main(*map(int, given[:2]), *given[2:]))
