"""The changes that `.ci/mutants.py` plants, where, and the switch of each.

No mutant is planted where a change cannot be observed or its place is not known:
- annotations, assertions, and ``strict=``, which is one,
- messages: what `raise`, a logger, a warning or `print` is given, and f-strings,
- what changes time alone: waits, time limits, sizes of buffers, flushing, copies (`UNSEEN`).
"""

from __future__ import annotations

import ast
import copy
import functools
import itertools
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
MESSAGES = {"print", "warn", "warning", "debug", "info", "sleep", "wait"}
UNSEEN = {
    "timeout", "stacklevel", "flush", "copy", "pin_memory", "non_blocking", "chunksize", "buffering", "strict",
}  # fmt: skip


class Mutant(NamedTuple):
    """One changed expression: its bytes in a file, and what stands there instead."""

    path: Path
    line: int
    start: int
    end: int
    before: str
    after: str


def changed(node: ast.AST) -> ast.expr | None:
    """Return what an expression becomes, or None where it stays."""
    new: Any = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in COMPARE:
        new.ops[0] = COMPARE[type(new.ops[0])]()
    elif isinstance(new, ast.BinOp) and type(new.op) in BINARY:
        new.op = BINARY[type(new.op)]()
    elif isinstance(new, ast.BoolOp):
        new.op = ast.And() if isinstance(new.op, ast.Or) else ast.Or()
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, (ast.Not, ast.USub)):
        new = new.operand
    elif isinstance(new, ast.IfExp):
        new.body, new.orelse = new.orelse, new.body
    elif isinstance(new, ast.Constant) and isinstance(new.value, (bool, int, float)):
        new = ast.Constant(not new.value if isinstance(new.value, bool) else new.value + 1)
    else:
        return None
    return new


def untouched(node: ast.AST) -> Iterator[ast.AST | None]:
    """Yield the parts of a node in which nothing is planted; the docstring of this file says why."""
    name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
    if isinstance(node, (ast.Assert, ast.Raise, ast.JoinedStr)) or name in MESSAGES:
        yield node
    yield from (getattr(node, part, None) for part in ("annotation", "returns", "pattern"))
    for word in node.keywords if isinstance(node, ast.Call) else ():
        yield word.value if word.arg in UNSEEN else None


def sites(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of the functions of a file."""
    source = path.read_bytes()
    starts = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]

    def planted(node: ast.expr, after: str) -> Mutant:
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        return Mutant(path, node.lineno, start, end, " ".join(source[start:end].decode().split()), after)

    def visit(node: ast.AST, inside: bool, hidden: frozenset[int]) -> Iterator[Mutant]:
        hidden |= {id(part) for part in untouched(node) if part}
        if id(node) in hidden:
            return
        parts: Sequence[ast.AST] = list(ast.iter_child_nodes(node))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            parts, inside = node.body, inside or isinstance(node, ast.FunctionDef)
        elif isinstance(node, ast.Return) and node.value and not isinstance(node.value, ast.Constant):
            yield planted(node.value, "None")
        if inside and isinstance(node, ast.expr) and (new := changed(node)) is not None:
            yield planted(node, ast.unparse(new))
        for part in parts:
            yield from visit(part, inside, hidden)

    yield from visit(ast.parse(source), False, frozenset())


def chosen(paths: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """Draw mutants, each equally likely."""
    every = [one for path in paths for one in sites(path)]
    random.Random(seed).shuffle(every)
    return every[:count]


def with_switches(source: bytes, mutants: Sequence[tuple[int, Mutant]]) -> bytes:
    """Return a module in which every mutant stands behind its switch; all lines keep their numbers."""
    inserted = []
    for number, one in mutants:
        text = f"(({one.after}) if __import__('mutant_changes').on({number}) else (".encode()
        inserted += [(one.start, 1, -one.end, number, text), (one.end, 0, -one.start, -number, b"))")]
    for place, *_, text in sorted(inserted, reverse=True):
        source = source[:place] + text + source[place:]
    return source


def on(number: int) -> bool:
    """Whether a mutant takes effect here: ``XLING_MUTANT`` has its number. Without any it is noted as reached."""
    if active := os.environ.get("XLING_MUTANT"):
        return active == str(number)
    _note(number, os.environ.get("XLING_MUTANT_TEST", ""))
    return False


@functools.cache
def _note(number: int, test: str) -> None:
    with Path(os.environ["XLING_MUTANT_HITS"]).open("a") as file:
        file.write(f"{number}\t{test}\n")
