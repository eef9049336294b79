"""``xling new KIND NAME``: the file of an objective, filter, source, suite or metric, and its test.

Both are complete: the test passes as it is written. In a checkout they go where the registry finds them, and a suite
is an entry of ``eval/suites/table.yaml``. With ``out=FOLDER`` they go into a folder of another package, which names
them in its entry points.
"""

import keyword
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Literal

from xling.core.commands.runner import load
from xling.core.errors import UserError
from xling.core.output.command_result import Answer
from xling.core.output.manifest import write_atomic
from xling.core.registry import PLUGINS


@dataclass(frozen=True)
class Kind:
    """Paths of an extension and its test in a checkout, the registry that finds it, and its word in entry points."""

    folder: str
    tests: str
    registry: str
    plugin: str


KINDS = {
    "objective": Kind("xling/objectives", "tests/objectives", "xling.objectives:OBJECTIVES", "objective"),
    "doc-filter": Kind("corpora/stages", "tests/corpora/stages", "xling.corpora.stages:STREAMING", "stage"),
    "pair-filter": Kind(
        "corpora/parallel/filters",
        "tests/corpora/parallel",
        "xling.corpora.parallel.filters:PAIR_FILTERS",
        "filter",
    ),
    "source": Kind("corpora/sources", "tests/corpora", "xling.corpora.sources.source:SOURCES", "source"),
    "suite": Kind("eval/suites", "tests/eval", "xling.eval.rows.suite:SUITES", "suite"),
    "metric": Kind("eval/metrics", "tests/eval", "xling.eval.metrics:METRICS", "metric"),
}


@dataclass(frozen=True)
class NewConfig:
    """Settings of ``xling new``.

    Args:
        kind: what is added; ``doc-filter`` and ``pair-filter`` are stages of ``corpus mono`` and ``corpus parallel``.
        name: how it is called in settings, and its file.
        out: folder of another package; by default the folder of the kind in the checkout that this is run in.
    """

    kind: Literal["objective", "doc-filter", "pair-filter", "source", "suite", "metric"]
    name: str
    out: Path | None = None


def run(cfg: NewConfig) -> Answer:
    """Write the file, or the entry of a table, and its test.

    Raises:
        UserError: the name is invalid or taken, a file exists, or this is not a checkout and ``out`` is not given.
    """
    kind = KINDS[cfg.kind]
    if not re.fullmatch("[a-z][a-z0-9_]*", cfg.name) or keyword.iskeyword(cfg.name):
        raise UserError(f"name={cfg.name!r}", "lower-case letters, digits and _, a letter first")
    code_path, test_path = _file_paths(cfg, kind)
    is_entry = code_path.suffix == ".yaml"
    for path in (test_path,) if is_entry else (code_path, test_path):
        if path.exists():
            raise UserError(f"{path} is there already", fix="choose another name, or delete it")
    if cfg.name in load(kind.registry):
        raise UserError(f"the name of the {cfg.kind} {cfg.name!r} is taken", fix="choose another name")
    title = "".join(part.title() for part in cfg.name.split("_"))
    import_line = f"import {cfg.name}  # noqa: F401 - registers it\n" if cfg.out else ""
    substitutions = {"name": cfg.name, "Title": title, "registers": import_line}
    code_template = f"{cfg.kind}_entry" if is_entry else cfg.kind
    for path, template in ((code_path, code_template), (test_path, f"{cfg.kind}_test")):
        text = (files(__name__) / f"{template}.txt").read_text(encoding="utf-8")
        above = path.read_text(encoding="utf-8") if path.exists() else ""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, above + Template(text).substitute(substitutions))
    lines = [f"{code_path}", f"{test_path}", f"run its test: python -m pytest {test_path}"]
    if cfg.out:
        entry_point = f'"{kind.plugin}.{cfg.name}" = "YOUR_PACKAGE.{cfg.name}"'
        lines += ["name it in pyproject.toml:", f'[project.entry-points."{PLUGINS}"]', entry_point]
    return Answer("\n".join(lines), {"file": str(code_path), "test": str(test_path)})


def _file_paths(cfg: NewConfig, kind: Kind) -> tuple[Path, Path]:
    code, test = f"{cfg.name}.py", f"test_{cfg.name}.py"
    if cfg.out:
        return cfg.out / code, cfg.out / test
    if not all((Path(folder) / "__init__.py").is_file() for folder in ("xling", kind.folder)):
        raise UserError(
            f"{Path.cwd()} is not a checkout of xling",
            "the folder that holds xling/ and corpora/",
            "out=FOLDER",
        )
    return Path(kind.folder) / ("table.yaml" if cfg.kind == "suite" else code), Path(kind.tests) / test
