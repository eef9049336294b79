"""Which tests the processes of ``make test`` keep together."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = "tests/architecture/test_seconds.py"


def test_the_tests_of_a_file_go_to_one_process() -> None:
    """Where pytest-xdist takes no notice of groups, two Slurms run at once and meet on the ports of their jobs."""
    words = [sys.executable, "-m", "pytest", "-v", "--numprocesses", "2", "--dist", "loadgroup", FILE]
    out = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=240).stdout
    workers = re.findall(rf"\[(gw\d)\][^\n]* (?:PASSED|FAILED) {re.escape(FILE)}::\S+@{re.escape(FILE)}", out)
    assert len(workers) >= 2 and len(set(workers)) == 1, out
