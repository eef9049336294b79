"""How far tests are from their limits: ``python .ci/margins.py tests/objectives/test_contract.py -k overfits``.

A test that compares a measured number with a limit may pass on one processor and fail on another, whose sums are
rounded differently. This runs tests on one and two threads, with the instructions of this processor and with those of
one that has AVX2 alone (and so no bfloat16), and with several seeds where tests read ``--seed``. It prints, for each
comparison of two numbers in an assertion, the value that came nearest to its limit, and the spread of the values over
the runs. A comparison is thin if its limit is nearer than twice that spread: it is printed with ``THIN``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = "XLING_MARGINS"
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
# What pytest shows of a comparison: its values, or a call whose result follows with "=".
TERM = rf"{NUMBER}(?: / {NUMBER})?"
COMPARED = re.compile(rf"(?<![\w.])({TERM}) (<=|<|>=|>) ({TERM})(?![\w.])")
# A comparison, a run, its value and its limit.
Row = tuple[str, str, float, float]


def number(term: str) -> float:
    """Return the value of a number or of a quotient of two."""
    above, _, below = term.partition(" / ")
    return float(above) / float(below or 1)


class Noted:
    """A plugin of pytest: notes every comparison of numbers, one of them not whole, in an assertion that held."""

    def pytest_assertion_pass(self, item: Any, lineno: int, expl: str) -> None:
        """Called after each assertion that held."""
        compared = COMPARED.findall(expl.replace("tensor(", "").replace("np.float64(", "").replace(")", ""))
        rows = [(left, right) for left, _, right in compared if set("./") & set(left + right)]
        with Path(os.environ[OUT]).open("a", encoding="utf-8") as out:
            for place, (left, right) in enumerate(rows):
                out.write(json.dumps([f"{item.nodeid}:{lineno}:{place}", number(left), number(right)]) + "\n")


def runs(words: list[str], seeds: int) -> Iterator[Row]:
    """Run the tests in every way; yields each comparison that held, and 0 against 0 for a test that failed."""
    ways = itertools.product(({}, AVX2), (1, 2), range(1, seeds + 1))
    # Tests that pytest has kept compiled do not call the hook.
    with tempfile.TemporaryDirectory(prefix="margins-") as compiled:
        for instructions, threads, seed in ways:
            yield from one_run(words, instructions | {"PYTHONPYCACHEPREFIX": compiled}, threads, seed)


def one_run(words: list[str], env: dict[str, str], threads: int, seed: int) -> Iterator[Row]:
    """Run the tests in one way."""
    run = f"{'avx2' if env.keys() & AVX2.keys() else 'all instructions'}, threads {threads}, seed {seed}"
    with tempfile.NamedTemporaryFile(prefix="margins-") as noted:
        env = os.environ | env | {"OMP_NUM_THREADS": str(threads), OUT: noted.name}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        hook = ("-p", "no:cacheprovider", "-o", "enable_assertion_pass_hook=true", f"--seed={seed}")
        done = subprocess.run(
            [sys.executable, __file__, "-q", *hook, *words],
            cwd=ROOT, env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode not in (0, 1):
            sys.exit(f"margins: pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        for line in Path(noted.name).read_text(encoding="utf-8").splitlines():
            name, value, limit = json.loads(line)
            yield name, run, value, limit
        for failed in re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE):
            yield f"{failed} FAILED", run, 0.0, 0.0


def main() -> None:
    """Print every comparison, those that are nearest to their limits first; exits with 1 if one is thin or failed."""
    if OUT in os.environ:
        import pytest

        sys.exit(pytest.main(sys.argv[1:], plugins=[Noted()]))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    given, words = parser.parse_known_args()
    compared: dict[str, list[Row]] = {}
    for row in runs(words, given.seeds):
        compared.setdefault(row[0], []).append(row)
    shown = []
    for name, rows in compared.items():
        _, run, value, limit = min(rows, key=lambda row: abs(row[3] - row[2]))
        spread = [max(r[i] for r in rows) - min(r[i] for r in rows) for i in (2, 3)]
        room = abs(limit - value) / max(abs(limit), abs(value), 1e-12)
        is_thin = name.endswith("FAILED") or abs(limit - value) < 2 * max(spread)
        shown.append(
            (not is_thin, room, f"{name}: {value:g} against {limit:g} ({run}), spread {max(spread):.2g}")
        )
    for is_wide, _, text in sorted(shown):
        print(text if is_wide else f"THIN {text}")
    num_thin = sum(not is_wide for is_wide, *_ in shown)
    print(f"{len(shown)} comparisons in {4 * given.seeds} runs, {num_thin} thin")
    sys.exit(bool(num_thin))


if __name__ == "__main__":
    main()
