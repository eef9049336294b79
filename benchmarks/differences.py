"""The largest difference of a logit, state or vector between our models and those that transformers reads or writes.

Usage: ``python -m benchmarks.differences FILE [TESTS]``. The tests run once (default: ``tests/hub``), and each of their
comparisons is written to FILE as a line of JSON. Prints Markdown: for each test the number of comparisons, the largest
difference, and the largest value that was compared. Exits with 1 when a test fails or nothing was compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def table(lines: list[str]) -> str:
    """Return a Markdown table of the records of one file, a row for each test."""
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in lines:
        record = json.loads(line)
        rows[record["test"]].append((record["difference"], record["largest"]))
    body = []
    for test, pairs in sorted(rows.items()):
        difference, value = (max(numbers) for numbers in zip(*pairs, strict=True))
        name = test.removeprefix("tests/hub/")
        body.append(f"| `{name}` | {len(pairs)} | {difference:.1e} | {value:.3g} |")
    return "\n".join(
        ["| test | compared | largest difference | largest value |", "| --- | ---: | ---: | ---: |", *body]
    )


def main(words: list[str]) -> int:
    """Run the tests with recording, print the table, return the exit code."""
    path, tests = Path(words[0]).resolve(), words[1:] or ["tests/hub"]
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, "XLING_DIFFERENCES": str(path)}).returncode
    if not path.exists():
        print("nothing was compared", file=sys.stderr)
        return 1
    print(table(path.read_text(encoding="utf-8").splitlines()))
    return int(code != 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
