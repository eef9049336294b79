"""The folders of xling and the imports between its rooms, as docs/architecture.md shows them.

A room is a folder or a file directly in the package. Every import counts, and so does a module that is named as text in
``load("...")``. What a registry refers to (`xling.core.registry`) does not: it is looked up by name.

Run ``python .ci/rooms.py`` to write that part of the document again; ``--check`` fails where it is not as shown.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- made by .ci/rooms.py: begin -->\n", "<!-- made by .ci/rooms.py: end -->\n"


def arrows() -> dict[str, set[str]]:
    """Room -> the rooms that it imports."""
    graph = grimp.build_graph("xling", cache_dir=None)
    imports: dict[str, set[str]] = {module.split(".")[1]: set() for module in graph.modules if "." in module}
    for module in graph.modules - {"xling"}:
        room = module.split(".")[1]
        for imported in (*graph.find_modules_directly_imported_by(module), *_named(module)):
            imports[room] |= {*imported.split(".")[1:2]} - {room}
    return imports


def _named(module: str) -> Iterator[str]:
    """Modules of ours that a module loads by a name as text."""
    path = ROOT.joinpath(*module.split("."))
    path = file if (file := path.with_suffix(".py")).is_file() else path / "__init__.py"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            target = str(node.args[0].value).partition(":")[0]
            if name in ("load", "import_module") and target.startswith("xling."):
                yield target


def described() -> list[str]:
    """Rows of a table: the folders of two levels, the files of the package, and the first lines of their docstrings."""
    tops = [ROOT / top for top in ("corpora", "eval", "slurm", "xling")]
    inits = (path for top in tops for path in (top / "__init__.py", *top.glob("*/__init__.py")))
    files = [*(ROOT / "xling").glob("*.py"), *(path for path in inits if not path.parent.is_symlink())]
    rows = []
    for path in files:
        opening = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        name = path.relative_to(ROOT).as_posix().removesuffix("__init__.py")
        rows.append(f"| `{name}` | {opening.replace('``', '`').replace('|', chr(92) + '|')} |")
    return ["| folder or file | what it holds |", "|---|---|", *sorted({*rows})]


def shown() -> str:
    """The part of the document that is made from the code: the folders, and each room below those that import it."""
    imports = {room: sorted(others) for room, others in sorted(arrows().items())}
    rooms = reversed([*TopologicalSorter(imports).static_order()])  # raises an error that names a circle
    rows = [f"| {room} | {', '.join(imports[room]) or 'nothing'} |" for room in rooms]
    return "\n".join([*described(), "", "| room | imports |", "|---|---|", *rows]) + "\n"


def main(words: list[str]) -> int:
    """Write the document again; with ``--check`` print the lines that it lacks, and return 1 then."""
    sys.path.insert(0, str(ROOT))
    before = DOCUMENT.read_text(encoding="utf-8")
    now = re.sub(f"(?s)(?<={BEGIN}).*(?={END})", lambda _: shown(), before)
    if words != ["--check"]:
        DOCUMENT.write_text(now, encoding="utf-8")
    elif before != now:
        print("docs/architecture.md shows other imports; fix: run python .ci/rooms.py")
        print(*sorted({*now.splitlines()} - {*before.splitlines()}), sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
