"""Imports go where docs/architecture.md says: what holds here fails where a violation is planted."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PARTS = ("xling", "corpora", "eval", "slurm", "recipes", "docs/architecture.md", ".ci", "pyproject.toml")
GROUND_FLOOR = {"numpy", "tqdm", "yaml"}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout to plant violations in."""
    copy = tmp_path_factory.mktemp("house")
    for part in PARTS:
        (copy / part).parent.mkdir(exist_ok=True)
        if (ROOT / part).is_dir():
            unwanted = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, copy / part, symlinks=True, ignore=unwanted)
        else:
            shutil.copy(ROOT / part, copy / part)
    return copy


def checked(house: Path, *words: str) -> tuple[int, str]:
    """Exit code and output of a check in a copy of the checkout."""
    env = {"PATH": f"{BIN}:/usr/bin:/bin", "PYTHONPATH": str(house), "COLUMNS": "200", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(words, cwd=house, env=env, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_the_contracts_and_the_document_hold(house: Path) -> None:
    code, said = checked(house, "lint-imports", "--no-cache")
    assert code == 0 and re.search(r"Contracts: 6 kept, 0 broken", said), said
    code, said = checked(house, sys.executable, ".ci/rooms.py", "--check")
    assert (code, said) == (0, "")


ORDER = "Imports point one way, and every room has its place"
CIRCLE = "No folder and no file imports its sibling in a circle"
CORPORA = "Nothing below eval imports corpora"
LIGHT = "What runs without a model imports neither torch nor fairseq, at any distance"
FAIRSEQ = "Only what trains and loads models imports fairseq"
GROUND = "The ground floor stands on the standard library, numpy, tqdm and yaml"
PLANTED = [
    ("xling/core/errors.py", "import torch", {LIGHT, GROUND}),
    ("xling/core/errors.py", "import polars", {GROUND}),
    ("corpora/common/shards.py", "def late() -> None:\n    import fairseq", {LIGHT}),
    ("xling/text/words/units.py", "from torch import nn", {LIGHT}),
    ("slurm/resources.py", "import torch", {LIGHT}),
    ("xling/text/words/units.py", "from xling.models.network import loss", {ORDER, LIGHT}),
    ("xling/core/errors.py", "from xling import cli", {ORDER, CIRCLE}),
    ("xling/compat.py", "from xling import corpora", {ORDER, CORPORA}),
    ("xling/transfer/words.py", "from xling.corpora.common import shards", {CORPORA}),
    ("xling/transfer/tune.py", "from fairseq import utils", {FAIRSEQ}),
    ("xling/attic/__init__.py", "", {ORDER}),
    ("eval/run/evaluation.py", "def late() -> None:\n    from xling.papers import pair", {ORDER, CIRCLE}),
    ("corpora/card/data_card.py", "from xling.corpora import mono", {CIRCLE}),
    ("eval/rows/suite.py", "def late() -> None:\n    from xling.eval.run.evaluation import run", {CIRCLE}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "planted", "broken"), PLANTED, ids=[f"{p}: {t}" for p, t, _ in PLANTED])
def test_a_planted_import_breaks_its_contract(house: Path, path: str, planted: str, broken: set[str]) -> None:
    file = house / path
    was = file.read_text() if file.exists() else None
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{was or ''}\n{planted}\n")
    try:
        code, said = checked(house, "lint-imports", "--no-cache")
    finally:
        if was is None:
            shutil.rmtree(file.parent)
        else:
            file.write_text(was)
    assert code == 1
    found = set(re.findall(r"^(.+) BROKEN$", said, re.MULTILINE))
    assert broken <= found, said


@pytest.mark.parametrize(
    ("path", "planted", "shown"),
    [
        (
            "slurm/resources.py",
            "def late() -> None:\n    from xling.text.words import units",
            "| slurm | core, text |",
        ),
        (
            "corpora/common/shards.py",
            'from xling.core.commands.runner import load\nload("xling.transfer.backend:EncoderBackend")',
            "| corpora | array_types, core, pages, text, transfer |",
        ),
    ],
)
def test_an_arrow_that_the_document_lacks_is_shown(house: Path, path: str, planted: str, shown: str) -> None:
    was = (house / path).read_text()
    (house / path).write_text(f"{was}\n{planted}\n")
    try:
        code, said = checked(house, sys.executable, ".ci/rooms.py", "--check")
    finally:
        (house / path).write_text(was)
    assert code == 1 and shown in said.splitlines(), said


def plugin_words() -> set[str]:
    """The words that the registries know entry points by."""
    found = set()
    for path in (p for room in ("xling", "corpora", "eval", "slurm") for p in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Registry"):
                words = [*node.args[2:], *(word.value for word in node.keywords if word.arg == "plugin")]
                found |= {ast.literal_eval(word) for word in words}
    return found


def test_every_word_of_an_entry_point_is_described() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*\| `(\w+)` \|$", text.partition("## What is looked up")[2], re.MULTILINE)
    assert sorted(rows) == sorted(plugin_words()) and len(rows) > 10


def graph() -> grimp.ImportGraph:
    return grimp.build_graph("xling", include_external_packages=True, cache_dir=None)


def test_the_ground_floor_imports_what_is_listed_and_the_contract_names_all_others() -> None:
    foreign: dict[str, set[str]] = defaultdict(set)
    found = graph()
    for module in found.modules:
        for imported in found.find_modules_directly_imported_by(module):
            package = imported.partition(".")[0]
            if package != "xling" and package not in sys.stdlib_module_names:
                foreign[module.split(".")[1]].add(package)
    assert foreign["core"] == GROUND_FLOOR
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (forbidden,) = (set(c["forbidden_modules"]) for c in contracts if c["name"] == GROUND)
    assert forbidden == set().union(*foreign.values()) - GROUND_FLOOR


@pytest.mark.parametrize("planted", ["import corpora", "from eval import suites", "import slurm.jobs"])
def test_a_folder_is_not_imported_at_top_level(planted: str) -> None:
    command = [str(BIN / "ruff"), "check", "--no-cache", "--stdin-filename", "tests/test_planted.py", "-"]
    done = subprocess.run(command, cwd=ROOT, input=f"{planted}\n", capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "TID251" in done.stdout


def test_installed_code_finds_its_own_files_as_package_data() -> None:
    files = [p for room in ("xling", "corpora", "eval", "slurm") for p in (ROOT / room).rglob("*.py")]
    assert len(files) > 300
    # What of another package __file__ tells is another matter.
    own = re.compile(r"(?<![.\w])__file__")
    found = [p for p in files if own.search(p.read_text(encoding="utf-8"))]
    assert found == []


def private_attributes(path: Path) -> list[str]:
    """Where a file reaches into what another package keeps to itself, torch's kernels apart."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr) and node.attr != "_replace":
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "kernels") and not owner.startswith("torch"):
                found.append(f"{path}:{node.lineno}: {owner}.{node.attr}")
    return found


def test_only_compat_touches_what_fairseq_keeps_to_itself(tmp_path: Path) -> None:
    rooms = ("data", "hub", "models", "objectives", "papers", "tasks", "training", "transfer")
    files = [path for room in rooms for path in (ROOT / "xling" / room).rglob("*.py")]
    assert [place for path in files for place in private_attributes(path)] == []
    (tmp_path / "planted.py").write_text("trainer.task._state = 1\nself._own = torch._foreach_add_\n")
    assert private_attributes(tmp_path / "planted.py") == [f"{tmp_path}/planted.py:1: trainer.task._state"]


def statements_after_the_call(text: str) -> list[int]:
    """Lines of top-level statements below ``if __name__ == "__main__"``, which runs before they are defined."""
    body = ast.parse(text).body
    calls = [
        n for n, node in enumerate(body) if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
    ]
    return [node.lineno for node in body[calls[0] + 1 :]] if calls else []


def test_a_module_that_is_run_calls_its_main_at_its_end() -> None:
    files = [p for room in PARTS if (ROOT / room).is_dir() for p in (ROOT / room).rglob("*.py")]
    assert [p for p in files if statements_after_the_call(p.read_text(encoding="utf-8"))] == []
    assert statements_after_the_call('if __name__ == "__main__":\n    main()\n\nLATE = 1\n') == [4]
