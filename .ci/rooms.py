"""The rooms of xling and the imports between them, as docs/architecture.md shows them.

A room is a folder or a file directly in the package. Every import counts, those inside functions and of types
too, and so does a module that is named as text in ``load("...")`` or ``import_module("...")``. What a registry
refers to (`xling.core.registry`, the table of commands in `xling.core.stage`) does not: it is looked up by name.

Run ``python .ci/rooms.py`` to write the diagram and the table again, with ``--check`` to see what has changed.
"""

from __future__ import annotations

import ast
import difflib
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- made by .ci/rooms.py: begin -->\n", "<!-- made by .ci/rooms.py: end -->\n"
LOADERS = ("load", "import_module")

Arrows = Mapping[str, frozenset[str]]


def arrows(root: Path = ROOT) -> Arrows:
    """Room -> the rooms that it imports, of the package ``xling`` in ``root``."""
    graph = grimp.build_graph("xling", cache_dir=None)
    imports: dict[str, set[str]] = {room_of(module): set() for module in graph.modules if module != "xling"}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            _add(imports, module, imported)
        for imported in _named(_path(root, module)):
            _add(imports, module, imported)
    return {room: frozenset(imports[room]) for room in sorted(imports)}


def room_of(module: str) -> str:
    """``xling.eval.suites.xnli`` -> ``eval``; "" for the package itself."""
    return module.partition(".")[2].partition(".")[0]


def _add(imports: dict[str, set[str]], module: str, imported: str) -> None:
    room, other = room_of(module), room_of(imported)
    if room != other and room and other:
        imports[room].add(other)


def _path(root: Path, module: str) -> Path:
    path = root.joinpath(*module.split("."))
    package = path / "__init__.py"
    return package if package.is_file() else path.with_suffix(".py")


def _named(path: Path) -> Iterator[str]:
    """Modules of ours that a file loads by a name as text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0]
        if name in LOADERS and isinstance(first, ast.Constant) and isinstance(first.value, str):
            module = first.value.partition(":")[0]
            if module.startswith("xling."):
                yield module


def levels(imports: Arrows) -> list[list[str]]:
    """Rooms by height, highest first: each imports only from lower levels.

    Raises:
        ValueError: some rooms import each other in a circle.
    """
    height: dict[str, int] = {}
    while len(height) < len(imports):
        ready = [room for room, others in imports.items() if room not in height and others <= height.keys()]
        if not ready:
            raise ValueError(f"a circle of imports among {', '.join(sorted(imports.keys() - height.keys()))}")
        height |= {room: 1 + max((height[o] for o in imports[room]), default=-1) for room in ready}
    rows: dict[int, list[str]] = defaultdict(list)
    for room, at in height.items():
        rows[at].append(room)
    return [sorted(rows[at]) for at in sorted(rows, reverse=True)]


def reduced(imports: Arrows) -> Arrows:
    """The arrows that do not follow from others, for a diagram that can be read."""
    below: dict[str, frozenset[str]] = {}
    for row in reversed(levels(imports)):
        for room in row:
            below[room] = imports[room].union(*(below[other] for other in imports[room]))
    return {
        room: frozenset(o for o in others if not any(o in below[between] for between in others - {o}))
        for room, others in imports.items()
    }


def drawn(imports: Arrows) -> str:
    """The part of the document that is made from the imports: a Mermaid diagram and a table."""
    lines = ["```mermaid", "flowchart TD"]
    lines += [f"    {room}[{room}]" for row in levels(imports) for room in row]
    lines += [
        f"    {room} --> {other}" for room, others in reduced(imports).items() for other in sorted(others)
    ]
    lines += ["```", "", "| room | imports |", "|---|---|"]
    rows = [room for row in levels(imports) for room in row]
    lines += [f"| {room} | {', '.join(sorted(imports[room])) or 'nothing'} |" for room in rows]
    return "\n".join(lines) + "\n"


def split(text: str) -> tuple[str, str, str]:
    """The document as what is before its marks, between them and behind them."""
    before, _, rest = text.partition(BEGIN)
    between, _, behind = rest.partition(END)
    return before, between, behind


def main(words: list[str]) -> int:
    """Write the document again; with ``--check`` say what is not as it shows, and return 1 then."""
    sys.path.insert(0, str(ROOT))
    before, shown, behind = split(DOCUMENT.read_text(encoding="utf-8"))
    now = drawn(arrows())
    if words == ["--check"]:
        changes = [line for line in difflib.ndiff(shown.splitlines(), now.splitlines()) if line[0] in "+-"]
        for line in (
            ["docs/architecture.md shows other imports: run python .ci/rooms.py", *changes] if changes else []
        ):
            print(line)
        return int(bool(changes))
    DOCUMENT.write_text(f"{before}{BEGIN}{now}{END}{behind}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
