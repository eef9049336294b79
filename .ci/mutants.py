"""How many small faults the tests find: ``make mutants N=50 PATHS="xling/models eval/kinds/nearest_neighbours.py"``.

A mutant is one random change of one expression (`.ci/mutant_changes.py`). All mutants of a run stand in the modules of
a copy of the checkout at once, each behind a switch, and the tests are read once. First every file of tests runs in a
fork without any mutant, which says which test reaches which mutant and how long it takes. Then each mutant is tried in
a fork, on the tests that reach it, the fastest case of every test first, until one fails or ``--budget`` seconds of
tests are used.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import mutant_changes
from mutant_changes import Mutant, chosen, with_switches

ROOT = Path(__file__).resolve().parents[1]
Row = tuple[str, float, bool]  # of a test: name, processor seconds, success
FAST = "not slow and not slurm and not data and not browser"


def copied(mutants: Sequence[Mutant], copy: Path) -> None:
    """Copy the checkout, with the mutants in its modules."""
    left_out = shutil.ignore_patterns(".*_cache", ".git", ".venv", "build", "runs", "__pycache__")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=left_out)
    shutil.copy(mutant_changes.__file__, copy)
    for path in dict.fromkeys(one.path for one in mutants):
        own = [(number, one) for number, one in enumerate(mutants) if one.path == path]
        (copy / path.relative_to(ROOT)).write_bytes(with_switches(path.read_bytes(), own))


class Tester:
    """A plugin of pytest: instead of running the tests it has read, it tries mutants on them, each in a fork."""

    def __init__(self, mutants: Sequence[Mutant], given: argparse.Namespace, folder: Path) -> None:
        self.mutants, self.given, self.folder = mutants, given, folder
        self.seconds, self.is_sound = dict[str, float](), dict[str, bool]()
        # Number of a mutant, and a test, or a file of tests for what a shared fixture reaches.
        self.reached: set[tuple[str, ...]] = set()

    def pytest_runtestloop(self, session: Any) -> bool:
        """Called when the tests are read: print what no test finds."""
        self.session, self.items = session, {item.nodeid: item for item in session.items}
        self.measure()
        num_found = 0
        for number, one in enumerate(self.mutants):
            if outcome := self.outcome(number):
                said = f"{one.line}: {outcome}: {one.before} -> {one.after}"
                self.given.say(f"{one.path.relative_to(ROOT)}:{said}")
            num_found += not outcome
        share = 100 * num_found / max(1, len(self.mutants))
        self.given.say(f"{num_found} of {len(self.mutants)} found ({share:.1f} %); seed {self.given.seed}")
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Note what a shared fixture reaches for its file."""
        test = os.environ["XLING_MUTANT_TEST"]
        if fixturedef.scope != "function":
            os.environ["XLING_MUTANT_TEST"] = test.partition("::")[0]
        result = yield
        os.environ["XLING_MUTANT_TEST"] = test
        return result

    def tried(self, tests: Sequence[str], mutant: int | None = None) -> tuple[list[Row], bool]:
        """Run tests in a fork, with a mutant until one fails; return their rows and whether it ended by itself."""
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as scratch:
            out = Path(scratch, "out")
            out.touch()
            if not (child := os.fork()):
                try:
                    os.setsid()
                    os.environ["PYTEST_DEBUG_TEMPROOT"] = scratch
                    if mutant is not None:
                        os.environ["XLING_MUTANT"] = str(mutant)
                    self.run(tests, out)
                except BaseException:
                    os._exit(3)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            with contextlib.suppress(ProcessLookupError):  # what the tests have left running
                os.killpg(child, signal.SIGKILL)
            return [json.loads(line) for line in out.read_text().splitlines()], not status

    def run(self, tests: Sequence[str], out: Path) -> None:
        """Run tests in this process and write what became of each to a file."""
        for name, next_name in zip(tests, [*tests[1:], None], strict=True):
            failed, began = self.session.testsfailed, sum(os.times()[:4])
            os.environ["XLING_MUTANT_TEST"] = name
            item = self.items[name]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=self.items.get(next_name))
            is_passed = self.session.testsfailed == failed
            with out.open("a") as file:
                print(json.dumps([name, sum(os.times()[:4]) - began, is_passed]), file=file)
            if "XLING_MUTANT" in os.environ and not is_passed:
                return

    def measure(self) -> None:
        """Run every file of tests in a fork without any mutant."""
        for _, tests in itertools.groupby(self.items, lambda name: name.partition("::")[0]):
            for name, seconds, is_passed in self.tried([*tests])[0]:
                self.seconds[name] = seconds
                if not is_passed:
                    self.is_sound[name] = False
                    self.given.say(f"# fails alone: {name}")
        self.reached = {tuple(line.split("\t")) for line in (self.folder / "hits").read_text().splitlines()}

    def order(self, number: int) -> list[str]:
        """Return the tests for one mutant: the fastest case of every test first, then the second, within the budget."""
        cases: dict[str, list[tuple[float, str]]] = {}
        for test, seconds in self.seconds.items():
            by = (test, test.partition("::")[0])
            if self.is_sound.get(test, True) and any((str(number), each) in self.reached for each in by):
                cases.setdefault(test.partition("[")[0], []).append((seconds, test))
        ranked = sorted((n, *case) for some in cases.values() for n, case in enumerate(sorted(some)))
        used = itertools.accumulate(seconds for _, seconds, _ in ranked)
        num_tests = sum(total <= self.given.budget for total in used)
        return [test for *_, test in ranked[: max(1, num_tests)]]

    def outcome(self, number: int) -> str:
        """Try a mutant on the tests that reach it; return why it is not found, or nothing.

        A test that also fails without any mutant finds nothing, and a crash is a find.
        """
        while tests := self.order(number):
            rows, is_ended = self.tried(tests, number)
            by = next((name for name, _, is_passed in rows if not is_passed), "")
            if not by:
                return "survived" if is_ended else ""
            if by not in self.is_sound:
                alone, is_ended = self.tried([by], len(self.mutants))
                self.is_sound[by] = is_ended and alone[0][2]
            if self.is_sound[by]:
                return ""
        return "not reached"


def serve(mutants: Sequence[Mutant], given: argparse.Namespace, folder: Path) -> int:
    """Read the tests in this process and try the mutants on them; return 1 where the tests cannot be read."""
    copy = str(folder / "checkout")
    os.chdir(copy)
    sys.path.insert(0, copy)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [copy, os.environ.get("PYTHONPATH")]))
    os.environ["XLING_MUTANT_HITS"] = str(folder / "hits")
    terminal = os.fdopen(os.dup(1), "w")
    given.say = lambda text: print(text, file=terminal, flush=True)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    mild = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider", "--timeout=60"]
    words = ["-q", "-m", given.marks, "--hypothesis-seed=0", *mild, *given.tests]
    if status := pytest.main(words, plugins=[Tester(mutants, given, folder)]):
        given.say(f"mutants: pytest ended with {status!r}:\n{(folder / 'log').read_text()}")
    return int(bool(status))


def main() -> None:
    """Draw the mutants, try them, and print what no test finds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="+", help="files or folders to change")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="*", default=["tests"], help="tests to choose from")
    parser.add_argument("--marks", default=FAST, help="which of them, as for pytest -m (%(default)s)")
    parser.add_argument("--budget", type=float, default=40, help="processor seconds of tests for one mutant")
    given = parser.parse_args()
    os.chdir(ROOT)
    files = [p.resolve() for name in given.paths for p in (sorted(Path(name).rglob("*.py")) or [Path(name)])]
    if missing := [path for path in files if not path.is_file()]:
        sys.exit(f"mutants: no file at {missing[0]}")
    mutants = chosen(files, given.count, given.seed)
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        copied(mutants, Path(folder, "checkout"))
        Path(folder, "hits").touch()
        sys.exit(serve(mutants, given, Path(folder)))


if __name__ == "__main__":
    main()
