"""How much memory a build takes and how fast it is: a synthetic crawl of any size under a memory limit.

Usage: ``python -m benchmarks.mono [MEGABYTES [LIMIT_MB [FOLDER [SETTING=VALUE ...]]]]``, 2000 and 2048 by default.
The crawl is drawn from the sentences of tests/corpora/crawl.py with invented words strewn in, so that its rates
are those of the machinery, not of real pages. The build's processes are watched and killed when they pass the
limit together.
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


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(*map(int, given[:2]), *given[2:]))
