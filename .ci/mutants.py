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
import functools
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import mutant_changes
from mutant_changes import Mutant, chosen, with_switches

ROOT = Path(__file__).resolve().parents[1]
FAST = "not slow and not slurm and not data and not browser and not zsh and not fish"


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

    def __init__(self, num_mutants: int, given: argparse.Namespace, folder: Path) -> None:
        self.num_mutants, self.given, self.folder = num_mutants, given, folder
        self.outcomes: list[str] = []
        self.seconds: dict[str, float] = {}
        self.is_sound: dict[str, bool] = {}
        # Test, or file of tests for what a shared fixture reaches -> mutants.
        self.reached: dict[str, set[int]] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        """Called when the tests are read."""
        self.session, self.items = session, {item.nodeid: item for item in session.items}
        self.measure()
        self.outcomes += [self.outcome(number) for number in range(self.num_mutants)]
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

    def run(self, tests: Sequence[str], after: Callable[[str, float, bool], None]) -> None:
        """Run tests in this process; ``after`` is given the name, the seconds and the success of every one."""
        for name, next_name in zip(tests, [*tests[1:], None], strict=True):
            failed, began = self.session.testsfailed, sum(os.times()[:4])
            os.environ["XLING_MUTANT_TEST"] = name
            item = self.items[name]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=self.items.get(next_name))
            after(name, sum(os.times()[:4]) - began, self.session.testsfailed == failed)

    def forked(self, work: Callable[[Any], None]) -> tuple[bool, str]:
        """Do ``work(file)`` in a fork; return whether it ended well, and what it wrote."""
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as scratch:
            out = Path(scratch, "out")
            out.touch()
            if not (child := os.fork()):
                try:
                    os.setsid()
                    os.environ["PYTEST_DEBUG_TEMPROOT"] = scratch
                    with out.open("w") as file:
                        work(file)
                except BaseException:
                    os._exit(3)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            with contextlib.suppress(ProcessLookupError):  # what the tests have left running
                os.killpg(child, signal.SIGKILL)
            return not status, out.read_text()

    def measure(self) -> None:
        """Run every file of tests in a fork without any mutant."""
        by_file: dict[str, list[str]] = {}
        for name in self.items:
            by_file.setdefault(name.partition("::")[0], []).append(name)
        for tests in by_file.values():

            def work(file: Any, tests: Sequence[str] = tests) -> None:
                self.run(tests, lambda *each: print(json.dumps(each), file=file, flush=True))

            for name, seconds, ok in map(json.loads, self.forked(work)[1].splitlines()):
                self.seconds[name] = seconds
                if not ok:
                    self.is_sound[name] = False
                    self.given.say(f"# fails alone: {name}")
        for line in (self.folder / "hits").read_text().splitlines():
            number, _, test = line.partition("\t")
            self.reached.setdefault(test, set()).add(int(number))

    def order(self, number: int) -> list[str]:
        """Return the tests for one mutant: the fastest case of every test first, then the second, within the budget."""
        cases: dict[str, list[tuple[float, str]]] = {}
        for test, seconds in self.seconds.items():
            by = (test, test.partition("::")[0])
            if self.is_sound.get(test, True) and any(number in self.reached.get(each, ()) for each in by):
                cases.setdefault(test.partition("[")[0], []).append((seconds, test))
        ranked = sorted((n, *case) for some in cases.values() for n, case in enumerate(sorted(some)))
        tests, used = [], 0.0
        for _, seconds, test in ranked:
            used += seconds
            if tests and used > self.given.budget:
                break
            tests.append(test)
        return tests

    def attempt(self, number: int, tests: Sequence[str], file: Any) -> None:
        """Run tests with one mutant until one fails, whose name is written."""
        os.environ["XLING_MUTANT"] = str(number)

        def after(name: str, _: float, is_passed: bool) -> None:
            if not is_passed:
                print(name, end="", file=file, flush=True)
                os._exit(1)

        self.run(tests, after)

    def outcome(self, number: int) -> str:
        """Try a mutant on the tests that reach it; a test that also fails without any mutant finds nothing."""
        while tests := self.order(number):
            is_passed, by = self.forked(functools.partial(self.attempt, number, tests))
            if is_passed:
                return "survived"
            if by and by not in self.is_sound:
                work = functools.partial(self.attempt, self.num_mutants, [by])
                self.is_sound[by], _ = self.forked(work)
            if not by or self.is_sound[by]:
                return f"found by {by or 'a crash'}"
        return "not reached"


def serve(num_mutants: int, given: argparse.Namespace, folder: Path) -> list[str]:
    """Read the tests in this process, try the mutants on them, and return what became of each."""
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
    tester = Tester(num_mutants, given, folder)
    if status := pytest.main(words, plugins=[tester]):
        given.say(f"mutants: pytest ended with {status!r}:\n{(folder / 'log').read_text()}")
        sys.exit(1)
    return tester.outcomes


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
        outcomes = serve(len(mutants), given, Path(folder))
    for one, outcome in zip(mutants, outcomes, strict=True):
        if not outcome.startswith("found"):
            given.say(f"{one.path.relative_to(ROOT)}:{one.line}: {outcome}: {one.before} -> {one.after}")
    num_found = sum(outcome.startswith("found") for outcome in outcomes)
    share = 100 * num_found / max(1, len(mutants))
    given.say(f"{num_found} of {len(mutants)} found ({share:.1f} %); seed {given.seed}")


if __name__ == "__main__":
    main()
