"""How many small faults the tests find: ``make mutants N=50 PATHS="xling/models eval/retrieval.py"``.

A mutant is one random change of one expression: a comparison, an operator, a constant, a condition, a result. All
mutants of a run stand in the modules at once, each behind a switch, so that the tests are read once: every mutant is
tried in a fork of a process that has read them. First the tests run without any mutant, which says which test reaches
which mutant and how long it takes; that is kept until a file of tests changes. A mutant is tried on the tests that
reach it, the fastest case of every test first, until one fails or ``--budget`` seconds of tests are used. Programs
that a test starts have the mutant too. What a run has found is kept: the next run tries the other mutants alone.
`planted/changes.py` says what is changed and where nothing is planted.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import importlib
import importlib.util
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".mutants"
HOOK = Path(__file__).with_name("planted")
FAST = "not slow and not slurm and not data and not browser and not zsh and not fish"
# Plugins of pytest are not among them: it has to read those itself.
WARM = ("torch", "numpy", "polars", "fairseq", "scipy.stats", "sacrebleu", "beartype")
# Seconds until a test hangs.
HANGS = 120.0


def load(name: str) -> Any:
    """Return a module of `HOOK`, which lies on no path."""
    spec = importlib.util.spec_from_file_location(f"mutants_{Path(name).stem}", HOOK / name)
    assert spec and spec.loader
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


changes = load("changes.py")
Mutant, chosen, with_switches = changes.Mutant, changes.chosen, changes.with_switches


def plan(mutants: Sequence[Mutant], folder: Path) -> None:
    """Write the modules with their mutants, and which module each belongs to."""
    texts: dict[str, str] = {}
    for path in dict.fromkeys(one.path for one in mutants):
        text = with_switches(
            path.read_bytes(), [(n, one) for n, one in enumerate(mutants) if one.path == path]
        )
        compile(text, str(path), "exec")
        (folder / f"{len(texts)}.py").write_bytes(text)
        texts[str(path)] = str(folder / f"{len(texts)}.py")
    (folder / "plan.json").write_text(json.dumps(texts))
    (folder / "hits").touch()


class Kept:
    """Outcomes of mutants, and which test reaches which mutant, from this run and earlier ones."""

    def __init__(self, mutants: Sequence[Mutant], forget: bool) -> None:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / ".gitignore").write_text("*\n")
        self.plan = hashlib.sha256("\n".join(one.key for one in mutants).encode()).hexdigest()
        self.outcomes: dict[str, str] = {}
        self.earlier: int | None = None
        self.results, self.reached = FOLDER / "results.jsonl", FOLDER / f"reached-{self.plan[:12]}.json"
        if forget:
            self.results.unlink(missing_ok=True)
        self.read()
        # File of tests -> digest of the file, and test -> (seconds, whether it passed, mutants that it reaches).
        self.files: dict[str, Any] = json.loads(self.reached.read_text()) if self.reached.exists() else {}

    def read(self) -> None:
        """Read all outcomes; ``tried`` are the mutants that an earlier run has found and those of this run."""
        text = self.results.read_text() if self.results.exists() else ""
        lines = [json.loads(line) for line in text.splitlines()]
        self.outcomes = dict(lines)
        self.earlier = len(lines) if self.earlier is None else self.earlier
        self.tried = {
            key for n, (key, outcome) in enumerate(lines) if n >= self.earlier or "found" in outcome[:5]
        }

    def note(self, one: Mutant, outcome: str) -> None:
        """Keep one outcome."""
        self.outcomes[one.key] = outcome
        with self.results.open("a") as file:
            file.write(json.dumps([one.key, outcome]) + "\n")

    def tests(self) -> dict[str, tuple[float, bool, list[int]]]:
        """Return what is known of every test."""
        return {test: tuple(known) for _, tests in self.files.values() for test, known in tests.items()}


class Tester:
    """A plugin of pytest: in the place of running the tests it has read, it tries mutants on them, each in a fork."""

    def __init__(
        self, mutants: Sequence[Mutant], given: argparse.Namespace, kept: Kept, planted: Any
    ) -> None:
        self.mutants, self.given, self.kept, self.planted = mutants, given, kept, planted
        self.items: dict[str, Any] = {}
        self.is_sound: dict[str, bool] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        """Called when the tests are read.

        Most mutants are tried in forks of a process that has made the fixtures of the session; those that it
        reached on the way are tried in forks of one that has made none.
        """
        self.session, self.items = session, {item.nodeid: item for item in session.items}
        self.measure()
        child, scratch = self.fork(lambda scratch: self.serve(self.warm_up()))
        os.waitpid(child, 0)
        shutil.rmtree(scratch, ignore_errors=True)
        self.kept.read()
        self.serve(set())
        return True

    def serve(self, left_out: set[int]) -> None:
        """Try mutants and keep what becomes of them."""
        for number, outcome in self.outcomes(left_out):
            self.kept.note(self.mutants[number], outcome)

    def warm_up(self) -> set[int]:
        """Make every fixture of the session that tests of two files ask for; returns the mutants that it reaches."""
        os.environ[self.planted.TEST] = "fixtures"
        asking: dict[str, dict[str, Any]] = {}
        for item in self.items.values():
            for name, definitions in item._fixtureinfo.name2fixturedefs.items():
                if definitions[-1].scope == "session":
                    asking.setdefault(name, {})[item.nodeid.partition("::")[0]] = item
        firsts = [next(iter(items.values())) for items in asking.values() if len(items) > 1]
        for item in firsts:
            self.session._setupstate.teardown_exact(item)
            item.config.hook.pytest_runtest_setup(item=item)
        lines = (Path(os.environ[self.planted.PLAN]) / "hits").read_text().splitlines()
        return {int(line.partition("\t")[0]) for line in lines if line.endswith("\tfixtures")}

    def run(self, tests: Sequence[str], after: Any, is_limited: bool = False) -> None:
        """Run tests in this process; ``after`` is given the name, the seconds and the success of every one.

        With a limit the kernel ends a test that needs ten times the seconds that are known of it and its fixtures.
        """
        self.session._setupstate.teardown_exact(self.items[tests[0]])
        for name, next_name in zip(tests, [*tests[1:], None], strict=True):
            failed, began = self.session.testsfailed, sum(os.times()[:4])
            os.environ[self.planted.TEST] = name
            if is_limited:
                signal.setitimer(signal.ITIMER_PROF, 5 + 10 * self.cost(name))
            item = self.items[name]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=self.items.get(next_name))
            after(name, sum(os.times()[:4]) - began, self.session.testsfailed == failed)

    def fork(self, work: Any) -> tuple[int, Path]:
        """Start ``work(scratch)`` in a fork that leads a group of its own; returns it and its folder."""
        scratch = Path(tempfile.mkdtemp(prefix="mutant-", dir=os.environ[self.planted.PLAN]))
        if child := os.fork():
            return child, scratch
        try:
            os.setsid()
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(scratch)
            work(scratch)
        except BaseException:
            os._exit(3)
        os._exit(0)

    def measure(self) -> None:
        """Run every file of tests that is new or changed, in a fork, without any mutant."""
        by_file: dict[str, list[str]] = {}
        for name in self.items:
            by_file.setdefault(name.partition("::")[0], []).append(name)
        hits, known = Path(os.environ[self.planted.PLAN]) / "hits", {}
        for file, tests in by_file.items():
            digest = hashlib.sha256((ROOT / file).read_bytes()).hexdigest()
            if file in self.kept.files and self.kept.files[file][0] == digest:
                continue

            def work(scratch: Path, tests: Sequence[str] = tests) -> None:
                with (scratch / "tests").open("w") as out:
                    self.run(tests, lambda *each: print(json.dumps(each), file=out, flush=True))

            child, scratch = self.fork(work)
            os.waitpid(child, 0)
            known = {
                name: (seconds, ok, [])
                for name, seconds, ok in map(json.loads, (scratch / "tests").read_text().splitlines())
            }
            for line in hits.read_text().splitlines():
                number, _, test = line.partition("\t")
                if test in known:
                    known[test][2].append(int(number))
            self.kept.files[file] = (digest, known)
            self.kept.reached.write_text(json.dumps(self.kept.files))
            shutil.rmtree(scratch, ignore_errors=True)
            failed = [name for name, (_, ok, _) in known.items() if not ok]
            self.given.say(
                f"# {file}: {sum(k[0] for k in known.values()):.1f} s"
                + "".join(f"\n# fails alone: {f}" for f in failed)
            )

    @functools.cached_property
    def costs(self) -> dict[str, tuple[float, dict[Any, float]]]:
        """Seconds of every test alone, and of the fixtures that it shares with other tests of its file.

        The first test that asks for a fixture has paid for it; what it needed more than the middle one of the others
        is the fixture's.
        """
        known, users = self.kept.tests(), dict[Any, list[str]]()
        for test, item in self.items.items():
            for name, definitions in item._fixtureinfo.name2fixturedefs.items():
                if test in known and definitions[-1].scope in ("module", "session"):
                    users.setdefault((test.partition("::")[0], name), []).append(test)
        own, shared = {test: known[test][0] for test in known}, {test: dict[Any, float]() for test in known}
        for fixture, tests in users.items():
            more = max(0.0, own[tests[0]] - statistics.median_low([own[t] for t in tests[1:]] or [1e9]))
            own[tests[0]] -= more
            for test in tests:
                shared[test][fixture, tests[0]] = more
        return {test: (own[test], shared[test]) for test in known}

    def cost(self, test: str) -> float:
        """Seconds of a test that runs as the only one of its file."""
        own, shared = self.costs[test]
        return own + sum(shared.values())

    def order(self, number: int) -> list[str]:
        """Return the tests for one mutant: the fastest case of every test first, then the second, within the budget."""
        cases: dict[str, list[tuple[float, str]]] = {}
        known = self.kept.tests()
        for test, (_, ok, _) in known.items():
            # What a fixture reaches is noted for the test that made it.
            by = (test, *(maker for _, maker in self.costs[test][1]))
            is_reached = any(number in known[each][2] for each in by)
            if ok and is_reached and test in self.items and self.is_sound.get(test, True):
                cases.setdefault(test.partition("[")[0], []).append((self.cost(test), test))
        ranked = sorted((n, *case) for some in cases.values() for n, case in enumerate(sorted(some)))
        tests, used, paid = [], 0.0, set[Any]()
        for _, _, test in ranked:
            own, shared = self.costs[test]
            used += own + sum(seconds for fixture, seconds in shared.items() if fixture not in paid)
            paid |= {*shared}
            if tests and used > self.given.budget:
                break
            tests.append(test)
        return tests

    def attempt(self, number: int, tests: Sequence[str], scratch: Path) -> None:
        """Run tests with one mutant until one fails."""
        self.planted.activate(number)

        def after(name: str, _: float, is_passed: bool) -> None:
            if not is_passed:
                (scratch / "found").write_text(name)
                os._exit(1)

        self.run(tests, after, is_limited=True)

    def outcomes(self, left_out: set[int]) -> Iterator[tuple[int, str]]:
        """Each mutant that no earlier run has found and that this one has not tried, with what becomes of it."""
        left_out = left_out | {n for n, one in enumerate(self.mutants) if one.key in self.kept.tried}
        waiting = [number for number in range(len(self.mutants)) if number not in left_out]
        running: dict[int, tuple[int, Path, float]] = {}
        while waiting or running:
            while waiting and len(running) < self.given.processes:
                number = waiting.pop(0)
                tests = self.order(number)
                if not tests:
                    yield number, "not reached"
                    continue
                child, scratch = self.fork(lambda where, n=number, t=tests: self.attempt(n, t, where))
                limit = HANGS + 10 * sum(self.cost(test) for test in tests)
                running[child] = (number, scratch, time.monotonic() + limit)
            for child, (number, scratch, limit) in list(running.items()):
                ended, status = os.waitpid(child, os.WNOHANG)
                late = time.monotonic() > limit
                if ended or late:
                    self.end(child, not ended)
                    del running[child]
                    by = (scratch / "found").read_text() if (scratch / "found").exists() else ""
                    shutil.rmtree(scratch, ignore_errors=True)
                    if by and not self.passes_alone(by):
                        waiting.append(number)
                    else:
                        yield number, f"found by {by or 'its time'}" if status or late else "survived"
            time.sleep(0.01)

    def end(self, child: int, is_running: bool) -> None:
        """End what a fork has left running."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if is_running:
            os.waitpid(child, 0)

    def passes_alone(self, test: str) -> bool:
        """Whether a test passes in a fork without any mutant; else it finds nothing."""
        if test not in self.is_sound:
            child, scratch = self.fork(lambda where: self.attempt(len(self.mutants), [test], where))
            _, status = os.waitpid(child, 0)
            self.end(child, False)
            shutil.rmtree(scratch, ignore_errors=True)
            self.is_sound[test] = not status
            if status:
                self.given.say(f"# fails without a mutant: {test}")
        return self.is_sound[test]


def serve(mutants: Sequence[Mutant], given: argparse.Namespace, kept: Kept, folder: Path) -> None:
    """Read the tests in this process and try the mutants on them."""
    os.environ["XLING_PLANTED"] = str(folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HOOK), os.environ.get("PYTHONPATH")]))
    planted = load("sitecustomize.py")
    planted.plant(str(folder))
    sys.path.insert(0, str(ROOT))
    for name in WARM:
        importlib.import_module(name)
    import pytest
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants", deadline=None, database=None, phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck), derandomize=True,
    )  # fmt: skip
    terminal = os.fdopen(os.dup(1), "w")
    given.say = lambda text: print(text, file=terminal, flush=True)
    log = os.open(FOLDER / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    mild = ("-W", "ignore::pytest.PytestAssertRewriteWarning", "--hypothesis-profile=mutants")
    status = pytest.main(
        ["-q", "-m", given.marks, *mild, "-p", "no:cacheprovider", *given.tests],
        plugins=[Tester(mutants, given, kept, planted)],
    )
    if status:
        given.say(f"mutants: pytest ended with {status!r}; {FOLDER / 'log'} says why")
        sys.exit(1)


def report(mutants: Sequence[Mutant], given: argparse.Namespace, kept: Kept) -> None:
    """Print every mutant that no test found, and the share of those that one did."""
    totals: dict[str, int] = {}
    for one in mutants:
        outcome = kept.outcomes.get(one.key, "not tried").split(" by ")[0]
        totals[outcome] = totals.get(outcome, 0) + 1
        if outcome != "found":
            given.say(f"{one.path.relative_to(ROOT)}:{one.line}: {outcome}: {one.before} -> {one.after}")
    shown = ", ".join(f"{outcome} {number}" for outcome, number in sorted(totals.items()))
    share = 100 * totals.get("found", 0) / max(1, len(mutants))
    given.say(f"{totals.get('found', 0)} of {len(mutants)} found ({share:.1f} %): {shown}; seed {given.seed}")


def main() -> None:
    """Draw the mutants, try those that no earlier run has found, and print what no test finds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", help="files or folders to change")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="*", default=["tests"], help="tests to choose from")
    parser.add_argument("--marks", default=FAST, help="which of them, as for pytest -m (%(default)s)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--budget", type=float, default=40, help="processor seconds of tests for one mutant")
    parser.add_argument("--forget", action="store_true", help="forget what earlier runs found")
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    given = parser.parse_args()
    given.say = print
    os.chdir(ROOT)
    files = [p.resolve() for name in given.paths for p in (sorted(Path(name).rglob("*.py")) or [Path(name)])]
    if missing := [path for path in files if not path.is_file()]:
        sys.exit(f"mutants: no file at {missing[0]}")
    mutants = chosen(files, given.count, given.seed)
    if given.list:
        for number, one in enumerate(mutants):
            print(f"{number} {one.path.relative_to(ROOT)}:{one.line}: {one.before} -> {one.after}")
        return
    kept = Kept(mutants, given.forget)
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        plan(mutants, Path(folder))
        serve(mutants, given, kept, Path(folder))
    report(mutants, given, kept)


if __name__ == "__main__":
    main()
