"""The changes that `.ci/mutants.py` plants, and where.

No mutant is planted where a change cannot be observed or its place is not known:
- annotations, assertions, and ``strict=`` of zip, which is one,
- messages: what `raise`, a logger, a warning or `print` is given, and f-strings,
- what changes time alone: waits, time limits, sizes of buffers, flushing, copies (`UNSEEN`), and what a clock says,
- comparisons with one draw of ``random()``, which is never equal to anything.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
MESSAGES = {"print", "warn", "warning", "debug", "info", "sleep", "wait"}
CLOCKS = {"perf_counter", "monotonic", "process_time", "time"}
UNSEEN = {
    "timeout", "stacklevel", "flush", "copy", "pin_memory", "non_blocking", "chunksize", "buffering", "daemon",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One changed expression: its bytes in a file, what stands there instead, a name that no other change alters."""

    path: Path
    line: int
    start: int
    end: int
    before: str
    after: str
    key: str


def changed(node: ast.AST) -> ast.expr | None:
    """Return what an expression becomes, or None where it stays."""
    new: Any = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in COMPARE:
        new.ops[0] = COMPARE[type(new.ops[0])]()
        draws = [new.left, *new.comparators]
        is_draw = any(
            isinstance(d, ast.Call) and getattr(d.func, "attr", "") == "random" and not d.args for d in draws
        )
        return None if is_draw else new
    if isinstance(new, ast.BinOp) and type(new.op) in BINARY:
        new.op = BINARY[type(new.op)]()
        return new
    if isinstance(new, ast.BoolOp):
        new.op = ast.And() if isinstance(new.op, ast.Or) else ast.Or()
        return new
    if isinstance(new, ast.UnaryOp) and isinstance(new.op, (ast.Not, ast.USub)):
        return new.operand
    if isinstance(new, ast.IfExp):
        new.body, new.orelse = new.orelse, new.body
        return new
    if isinstance(new, ast.Constant) and isinstance(new.value, (bool, int, float)):
        return ast.Constant(not new.value if isinstance(new.value, bool) else new.value + 1)
    return None


def untouched(node: ast.AST) -> Iterator[ast.AST | None]:
    """Yield the parts of a node in which nothing is planted; the docstring of this file says why."""
    if isinstance(node, (ast.Assert, ast.Raise, ast.JoinedStr, ast.match_case)):
        yield node.pattern if isinstance(node, ast.match_case) else node
    if isinstance(node, ast.BinOp):
        calls = [side for side in (node.left, node.right) if isinstance(side, ast.Call) and not side.args]
        if any(getattr(call.func, "attr", "") in CLOCKS for call in calls):
            yield node
    yield getattr(node, "annotation", None)
    yield getattr(node, "returns", None)
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in MESSAGES:
            yield node
        yield from (
            word.value
            for word in node.keywords
            if word.arg in UNSEEN or (word.arg, name) == ("strict", "zip")
        )


def sites(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of the functions of a file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    counts: dict[str, int] = {}
    file = path.relative_to(ROOT) if ROOT in path.parents else Path(path.name)

    def planted(node: ast.expr, after: str, where: str) -> Mutant:
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before = " ".join(source[start:end].decode().split())
        name = f"{file}:{where}: {before} -> {after}"
        counts[name] = counts.get(name, 0) + 1
        return Mutant(path, node.lineno, start, end, before, after, f"{name} ({counts[name]})")

    def visit(node: ast.AST, where: str, inside: bool, hidden: frozenset[int]) -> Iterator[Mutant]:
        hidden |= {id(part) for part in untouched(node) if part}
        if id(node) in hidden:
            return
        parts: Sequence[ast.AST] = list(ast.iter_child_nodes(node))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            where, parts = f"{where}.{node.name}".strip("."), node.body
            inside = inside or isinstance(node, ast.FunctionDef)
        elif isinstance(node, ast.Return) and node.value and not isinstance(node.value, ast.Constant):
            yield planted(node.value, "None", f"{where}: return")
        if inside and isinstance(node, ast.expr) and (new := changed(node)) is not None:
            yield planted(node, ast.unparse(new), where)
        for part in parts:
            yield from visit(part, where, inside, hidden)

    yield from visit(ast.parse(source), "", False, frozenset())


def chosen(paths: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """Draw mutants, each equally likely; a draw of more begins with the same, and a change elsewhere moves none."""
    every = [one for path in paths for one in sites(path)]
    return sorted(every, key=lambda one: hashlib.sha256(f"{seed} {one.key}".encode()).digest())[:count]


def with_switches(source: bytes, mutants: Sequence[tuple[int, Mutant]]) -> bytes:
    """Return a module in which every mutant stands behind its switch; all lines keep their numbers."""
    inserted = []
    for number, one in mutants:
        text = f"(({one.after}) if __mutant__({number}) else (".encode()
        inserted += [(one.start, 1, -one.end, number, text), (one.end, 0, -one.start, -number, b"))")]
    parts, last = [], 0
    for place, *_, text in sorted(inserted):
        parts += [source[last:place], text]
        last = place
    return b"".join([*parts, source[last:]])
