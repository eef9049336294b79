"""Every ``xling`` command that the documents show names a command, a recipe and settings that exist."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from xling import cli
from xling.core.commands import pipeline
from xling.core.commands.runner import STAGES
from xling.core.commands.table import NAMED_PIPELINES, PLANNED_PIPELINES
from xling.core.errors import UserError
from xling.slurm.sweep import expand

ROOT = Path(__file__).resolve().parents[2]
GLOBS = ("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/guides/*.md", "docs/results.d/*.md")
PAGES = [path for pattern in GLOBS for path in sorted(ROOT.glob(pattern))]
OTHERS = {
    "slurm",
    "help",
    "schema",
    "recipes",
    "new",
    "why-rerun",
    "config",
    "--version",
    "STAGE",
}
PLACEHOLDER = re.compile(r"(sweep\.)?scale=[A-Z]+$")
FENCE = re.compile(r"^```(?:sh|text)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command in the code blocks of a document, without what a shell does with it."""
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            match = re.match(r"\s*(?:\w+=\S+ )*(?:\.venv/bin/)?xling (.*)", line)
            if not match:
                continue
            words = [word for word in shlex.split(match[1], comments=True) if word not in ("...", "[...]")]
            ends = [words.index(mark) for mark in ("|", ">", "<", "&&") if mark in words]
            yield words[: min(ends, default=len(words))]


def check(words: list[str]) -> None:
    """Resolve a command as ``xling`` does, and stop before it runs."""
    if not words or words[0] in OTHERS or {"--help", "--list"} & set(words):
        return
    if len(words) == 1 and any(stage.startswith(f"{words[0]} ") for stage in STAGES):
        return  # a group lists its commands
    if words[0] in NAMED_PIPELINES:
        words = ["run", *words]
    if words[0] in PLANNED_PIPELINES and " ".join(words[:2]) not in STAGES:
        words = [*PLANNED_PIPELINES[words[0]].split(), *words[1:]]
    words = [word for word in words if word not in ("--dry-run", "--json") and not PLACEHOLDER.match(word)]
    if words[0] != "run":
        for each in expand(words):
            assert cli.main(["config", *each]) == 0
        return
    if len(words) > 1 and not re.search("[A-Z]{3}", words[1]):
        path = pipeline.recipes().get(Path(words[1]).stem)
        assert path, f"no recipe {words[1]}"
        settings = [word for word in words[2:] if not word.startswith(("cluster=", "slurm.", "--"))]
        for each in expand(settings, pipeline.read_sweep(path)):
            pipeline.read(path, each)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_the_commands_of_a_page_exist(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for words in commands(page.read_text(encoding="utf-8")):
        try:
            check(words)
        except (AssertionError, UserError) as error:
            pytest.fail(f"{page.name}: xling {shlex.join(words)}: {capsys.readouterr().err.strip() or error}")


@pytest.mark.parametrize(
    "line", ["pretrain train.updats=3 data=d out=o", "pretend", "run no_such_recipe", "run hour minuts=3"]
)
def test_a_command_that_does_not_exist_is_an_error(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (words,) = commands(f"```sh\nxling {line}\n```\n")
    with pytest.raises((AssertionError, UserError)):
        check(words)


def imports(text: str) -> Iterator[tuple[str, str]]:
    """Module and name of each import in the Python blocks of a document; no name for ``import module``."""
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                yield from ((node.module or "", name.name) for name in node.names)
            elif isinstance(node, ast.Import):
                yield from ((name.name, "") for name in node.names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_the_imports_of_a_page_are_those_of_the_wheel(page: Path) -> None:
    """The folders ``corpora`` and so on lie at the top of a checkout, which is on the path of these tests."""
    for module, name in imports(page.read_text(encoding="utf-8")):
        top = module.partition(".")[0]
        assert top not in ("corpora", "eval", "slurm"), (
            f"{page.name}: {module} is installed as xling.{module}"
        )
        if top == "xling" and name and not hasattr(importlib.import_module(module), name):
            assert importlib.util.find_spec(f"{module}.{name}"), f"{page.name}: no {name} in {module}"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_outside_of_the_site_lead_to_files(name: str) -> None:
    """`make docs` checks those of the site."""
    links = re.findall(r"\]\((?![a-z]+:)([^)\s#]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def names_in(schema: dict[str, Any]) -> Iterator[str]:
    """Every setting that a schema describes, at any depth."""
    for name, described in schema.get("properties", {}).items():
        yield name
        yield from names_in(described)
    for alternative in schema.get("anyOf", []):
        yield from names_in(alternative)


def test_every_command_and_setting_stands_on_a_page_or_in_a_recipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["schema"]) == 0
    stages = json.loads(capsys.readouterr().out)["$defs"]
    files = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / "recipes").rglob("*.yaml")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    words = {*re.findall(r"\w+", text)}
    assert [stage for stage in stages if stage not in text] == []
    settings = {name: stage for stage, schema in stages.items() for name in names_in(schema)}
    assert {name: stage for name, stage in settings.items() if name not in words} == {}
    assert len(settings) > 400
