"""How many small faults the tests find: ``make mutants N=50 PATHS="xling/models eval/retrieval.py"``.

A mutant is one random change of one expression: a comparison, an operator, a constant, a condition, a result. It is
tried on the tests that run its line and on no others. A first run of the tests under coverage says which those are; it
is kept in `MAP` until a file of the project changes. Every mutant runs in a fork of a process that has read torch
already; first the file as it is runs in one, whose tests must pass. Tests that start another process see the code as
it is: what only they run counts as not covered.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import importlib
import importlib.machinery
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MAP = ROOT / ".mutants" / "coverage"
FAST = "not slow and not slurm and not data and not browser and not zsh and not fish"
# Plugins of pytest are not among them: it has to read those itself.
WARM = ("torch", "numpy", "polars", "fairseq", "scipy.stats", "sacrebleu", "beartype")
MOST_TESTS, MOST_SECONDS = 40, 240
COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One changed expression: where, before, after, and the module's whole text with it."""

    path: Path
    line: int
    before: str
    after: str
    text: str


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the replacements of an expression or of a returned value."""
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.Compare) and type(changed.ops[0]) in COMPARE:
        changed.ops[0] = COMPARE[type(changed.ops[0])]()
        yield changed
    elif isinstance(changed, ast.BinOp) and type(changed.op) in BINARY:
        changed.op = BINARY[type(changed.op)]()
        yield changed
    elif isinstance(changed, ast.BoolOp):
        changed.op = ast.And() if isinstance(changed.op, ast.Or) else ast.Or()
        yield changed
    elif isinstance(changed, ast.UnaryOp) and isinstance(changed.op, (ast.Not, ast.USub)):
        yield changed.operand
    elif isinstance(changed, ast.IfExp):
        changed.body, changed.orelse = changed.orelse, changed.body
        yield changed
    elif isinstance(changed, ast.Constant) and isinstance(changed.value, (bool, int, float)):
        changed.value = not changed.value if isinstance(changed.value, bool) else changed.value + 1
        yield changed
    elif (
        isinstance(changed, ast.Return)
        and changed.value is not None
        and not isinstance(changed.value, ast.Constant)
    ):
        changed.value = ast.Constant(None)
        yield changed


def sites(path: Path) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Every expression within the functions of a file, and what it may become; types and assertions are left out."""
    hidden: set[int] = set()
    for node in ast.walk(tree := ast.parse(path.read_text(encoding="utf-8"))):
        inside = [node] if isinstance(node, ast.Assert) else []
        inside += [getattr(node, "annotation", None), getattr(node, "returns", None)]
        for part in filter(None, inside):
            hidden |= {id(each) for each in ast.walk(part)}
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    seen: set[int] = set()
    for node in (each for function in functions for part in function.body for each in ast.walk(part)):
        if id(node) not in hidden | seen:
            seen.add(id(node))
            yield from ((node, changed) for changed in changes(node))


def mutant(path: Path, node: ast.AST, changed: ast.AST) -> Mutant:
    """The file with one expression replaced; every other line keeps its number."""
    source = path.read_text(encoding="utf-8")
    before = ast.get_source_segment(source, node) or ""
    after = ast.unparse(changed)
    if not isinstance(node, ast.Return):
        after = f"({after})"
    after += "\n" * before.count("\n") if after.startswith("(") else ""
    if after.endswith("\n"):
        after = after.rstrip("\n")[:-1] + "\n" * before.count("\n") + ")"
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset  # type: ignore[attr-defined]
    text = source.encode()[:start] + after.encode() + source.encode()[start + len(before.encode()) :]
    return Mutant(path, node.lineno, " ".join(before.split()), " ".join(after.split()), text.decode())  # type: ignore[attr-defined]


def chosen(paths: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """Draw random mutants; every expression is equally likely, and a mutant that does not parse is drawn again."""
    every = [(path, *site) for path in paths for site in sites(path)]
    mutants: list[Mutant] = []
    for path, node, changed in random.Random(seed).sample(every, len(every)):
        one = mutant(path, node, changed)
        try:
            compile(one.text, str(path), "exec")
        except SyntaxError:
            continue
        mutants.append(one)
        if len(mutants) == count:
            break
    return mutants


class Contexts:
    """A plugin of pytest: coverage counts the lines of each test, its fixtures included, under its own name."""

    def __init__(self, counter: Any) -> None:
        self.counter = counter

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Called before the fixtures of a test."""
        self.counter.switch_context(nodeid)

    def pytest_runtest_logfinish(self) -> None:
        """Called after the fixtures of a test; lines run between tests belong to none."""
        self.counter.switch_context("")


def digest() -> str:
    """Return a digest of every Python file that git tracks."""
    hasher = hashlib.sha256()
    for folder in ("xling", "corpora", "eval", "slurm", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            hasher.update(str(path).encode() + path.read_bytes())
    return hasher.hexdigest()


def measure(tests: Sequence[str]) -> None:
    """Run the tests once under coverage, in a process of its own, unless that is done and nothing has changed."""
    key = json.dumps([digest(), *tests])
    stamp = MAP.with_suffix(".key")
    if stamp.is_file() and stamp.read_text() == key:
        return
    MAP.parent.mkdir(exist_ok=True)
    (MAP.parent / ".gitignore").write_text("*\n")
    if (child := os.fork()) == 0:
        import coverage
        import pytest

        counter = coverage.Coverage(data_file=str(MAP), include=[f"{ROOT}/*"], omit=["*/tests/*"])
        counter.start()
        status = pytest.main(
            ["-q", "-m", FAST, "-p", "no:cacheprovider", *tests], plugins=[Contexts(counter)]
        )
        counter.stop()
        counter.save()
        os._exit(int(status))
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit("mutants: the tests fail without any mutant; fix them first")
    stamp.write_text(key)


def tests_by_line() -> dict[Path, dict[int, list[str]]]:
    """File -> line -> the tests that run it."""
    import coverage

    data = coverage.CoverageData(str(MAP))
    data.read()
    return {
        Path(name).resolve(): {
            line: [c for c in names if c] for line, names in data.contexts_by_lineno(name).items()
        }
        for name in data.measured_files()
    }


def try_out(one: Mutant, tests: Sequence[str]) -> int:
    """A process that runs the tests with the mutant in the place of its file; 0 at its end means that none failed."""
    if child := os.fork():
        return child
    os.setsid()
    quiet = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(quiet, number)
    loader = importlib.machinery.SourceFileLoader
    get_data, path_stats = loader.get_data, loader.path_stats

    def data_of(self: Any, path: str) -> bytes:
        is_it = path.endswith(".py") and Path(path).resolve() == one.path
        return one.text.encode() if is_it else get_data(self, path)

    def stats_of(self: Any, path: str) -> Any:
        if Path(path).resolve() == one.path:
            raise OSError("a mutant has no cached code")
        return path_stats(self, path)

    loader.get_data, loader.path_stats = data_of, stats_of  # type: ignore[method-assign]
    import pytest

    # What is read already is not read again by the plugins of pytest, which it warns of.
    mild = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    os._exit(int(pytest.main(["-q", "-x", *mild, "-p", "no:cacheprovider", *tests])))


def outcomes(mutants: Sequence[tuple[Mutant, list[str]]], processes: int) -> Iterator[tuple[Mutant, str]]:
    """Each mutant with ``killed``, ``survived``, ``too slow`` (which counts as killed) or ``not covered``."""
    waiting, running = list(mutants), dict[int, tuple[Mutant, float]]()
    while waiting or running:
        while waiting and len(running) < processes:
            one, tests = waiting.pop(0)
            if tests:
                running[try_out(one, tests)] = (one, time.monotonic())
            else:
                yield one, "not covered"
        for child, (one, started) in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                del running[child]
                yield one, "killed" if status else "survived"
            elif time.monotonic() - started > MOST_SECONDS:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                del running[child]
                yield one, "too slow"
        time.sleep(0.02)


def control(tried: Sequence[tuple[Mutant, list[str]]]) -> None:
    """Run the tests of all mutants in a fork, on a file as it is: a failure there would count as a mutant found."""
    tests = list(dict.fromkeys(test for _, some in tried for test in some))
    if tests:
        path = tried[0][0].path
        same = Mutant(path, 0, "", "", path.read_text(encoding="utf-8"))
        _, status = os.waitpid(try_out(same, tests), 0)
        if status:
            sys.exit("mutants: the tests fail in a fork without any mutant; their figures would mean nothing")


def main() -> None:
    """Print every mutant that no test found, and the share of those that one did."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", help="files or folders to change")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="*", default=["tests"], help="tests to choose from")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    files = [p.resolve() for name in given.paths for p in (sorted(Path(name).rglob("*.py")) or [Path(name)])]
    if missing := [path for path in files if not path.is_file()]:
        sys.exit(f"mutants: no file at {missing[0]}")
    measure(given.tests)
    for name in WARM:
        importlib.import_module(name)
    lines = tests_by_line()
    tried = [
        (one, list(dict.fromkeys(lines.get(one.path, {}).get(one.line, [])))[:MOST_TESTS])
        for one in chosen(files, given.count, given.seed)
    ]
    control(tried)
    totals: dict[str, int] = {}
    for one, outcome in outcomes(tried, given.processes):
        totals[outcome] = totals.get(outcome, 0) + 1
        if outcome in ("survived", "not covered"):
            print(
                f"{one.path.relative_to(ROOT)}:{one.line}: {outcome}: {one.before} -> {one.after}", flush=True
            )
    killed = totals.get("killed", 0) + totals.get("too slow", 0)
    shown = ", ".join(f"{outcome} {number}" for outcome, number in sorted(totals.items()))
    print(
        f"{killed} of {len(tried)} found ({100 * killed / max(1, len(tried)):.0f} %): {shown}; seed {given.seed}"
    )


if __name__ == "__main__":
    main()
