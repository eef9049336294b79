"""How much memory a build takes and how fast it is: a synthetic crawl of any size under a memory limit.

Usage: ``python -m benchmarks.mono [MEGABYTES [LIMIT_MB [FOLDER [SETTING=VALUE ...]]]]``, 2000 and 2048 by default.
The crawl is drawn from the sentences of tests/corpora/crawl.py with invented words strewn in, so that its rates
are those of the machinery, not of real pages. The build's processes are watched and killed when they pass the
limit together.

``XLING_DATA=FOLDER python -m benchmarks.mono altered [MEGABYTES,... [LANG/LANG/... [FOLDER [SETTING=VALUE ...]]]]``,
``15,30,60,120`` and ``en/all`` by default, builds from altered real pages (``benchmarks/crawl/altered.py``) of several
sizes and prints a row each: processor seconds, MB that the build has read and written by system calls, the files that
it has made, and its peak memory. ``keep_work=true``, so that the files can be counted.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.crawl import altered
from tests.corpora.crawl import write_large_crawl

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
                code, row = _measured(Path(root), lang, words)
                failed += code != 0
                print(f"| {num_mb} | {lang} | {num_pages:,} | {row} |", flush=True)
    return min(1, failed)


def _measured(root: Path, lang: str, words: tuple[str, ...]) -> tuple[int, str]:
    """Run one build in one process; return its exit code, and the cells of what it took."""
    out = root / lang / "out"
    command = [
        sys.executable, "-m", "xling.cli", "corpus", "mono", f"lang={lang}", f"out={out}",
        f"source=wet:{root}/crawl/*.gz", "keep_work=true", *words,
    ]  # fmt: skip
    before, peak = resource.getrusage(resource.RUSAGE_CHILDREN), 0.0
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        peak = max(peak, _tree_mb(child.pid))
        time.sleep(0.05)
    # The counts of a process that has ended stay until it is waited for.
    counted = dict(line.split(": ") for line in Path(f"/proc/{child.pid}/io").read_text("ascii").splitlines())
    code, after = child.wait(), resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    num_files = sum(path.is_file() for path in (root / lang).rglob("*"))
    megabytes = [f"{int(counted[name]) / 1e6:,.1f}" for name in ("rchar", "wchar")]
    return code, f"{seconds:.1f} | {' | '.join(megabytes)} | {num_files:,} | {peak:,.0f}"


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["altered"]:
        sys.exit(of_sizes(*given[1:]))
    sys.exit(main(*map(int, given[:2]), *given[2:]))
