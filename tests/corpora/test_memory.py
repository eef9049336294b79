"""Memory is bounded by the settings, not by the size of the input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpora.crawl import write_large_crawl


def peak_mb(folder: Path, num_mb: int) -> float:
    """The largest resident memory of any phase of a build over ``num_mb`` of crawl, in a process of its own."""
    write_large_crawl(folder / "crawl", num_mb)
    words = [f"source=wet:{folder}/crawl/*", f"out={folder}/sw", "after_dedup=pii", "lang=sw"]
    command = [sys.executable, "-m", "xling.cli", "corpus", "mono", *words]
    subprocess.run(command, check=True, capture_output=True)
    counts = json.loads((folder / "sw" / "manifest.json").read_text(encoding="utf-8"))["counts"]
    assert counts["documents"] > 200 * num_mb
    return max(float(phase["peak_memory_mb"]) for phase in counts["phases"].values())


@pytest.mark.slow
def test_four_times_the_input_takes_hardly_more_memory(tmp_path: Path) -> None:
    small, large = (peak_mb(tmp_path / str(size), size) for size in (20, 80))
    # Measured: 314, 384 and, for twelve times the input, 462 MiB. A part is held as a whole in some phases.
    assert large < 1.3 * small, (small, large)
