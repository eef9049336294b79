"""The figures of docs/results* were measured with the settings to which the command beside them resolves."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from xling.core.commands import pipeline
from xling.slurm.sweep import expand

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "results.d").glob("*.md"))
FENCE = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`]+)`")
UPDATES = re.compile(r"\b(\d{1,3}(?:,\d{3})+|\d+) updates\b")
PLACEHOLDER = re.compile(r"(?<==)[A-Z]\b")
"""A letter for a number, as in ``umt.seed=N``."""


def sections(page: Path) -> Iterator[tuple[str, str]]:
    """The heading and the text of each section of a page."""
    for part in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        yield heading, text


def commands_of(text: str) -> list[str]:
    """The ``xling run`` commands of a text, in code blocks and in lines."""
    blocks = [line for block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    lines = INLINE.findall(FENCE.sub("", text))
    return [command for command in (*blocks, *lines) if command.startswith("xling run ")]


@functools.cache
def resolve(command: str, more: str = "") -> list[dict[str, Any]]:
    """The settings of each step of a command, with more settings behind it, for each of its scales."""
    words = shlex.split(PLACEHOLDER.sub("1", f"{command} {more}"), comments=True)[2:]
    path = pipeline.recipes()[Path(words[0]).stem]
    axes = {name: values for name, values in pipeline.read_sweep(path).items() if name != "seed"}
    plans = [pipeline.read(path, each) for each in expand(words[1:], axes)]
    return [{name: plan.settings(name) for name in plan.steps} for plan in plans]


def updates_of(plans: list[dict[str, Any]]) -> set[int]:
    """The updates that some step trains."""
    trains = [getattr(settings, "train", None) for steps in plans for settings in steps.values()]
    return {int(train.updates) for train in trains if hasattr(train, "updates")}


def rows_of(text: str) -> Iterator[dict[str, str]]:
    """The rows of the tables of a text, by the names of their columns."""
    header: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
        if not line.startswith("|"):
            header = []
        elif not header:
            header = cells
        elif len(cells) == len(header) and not set(line) <= set("|-: "):
            yield dict(zip(header, cells, strict=True))


def command_of(row: dict[str, str], commands: list[str]) -> tuple[str, str]:
    """The command of a row among those of its section, and the settings that the row adds."""
    codes = [code for cell in row.values() for code in INLINE.findall(cell)]
    named = [command for command in commands if command.split()[2] in codes]
    more = " ".join(code for code in codes if re.match(r"[a-z_.]+=\S", code))
    return (named or commands)[0], more


WITH_UPDATES = [
    pytest.param(*command_of(row, commands), row, id=f"{page.stem}-{number}")
    for page in PAGES
    for _, text in sections(page)
    if (commands := commands_of(text))
    for number, row in enumerate(rows_of(text))
    if row.get("updates", "").replace(",", "").isdigit()
]


def test_there_are_rows_with_updates() -> None:
    assert len(WITH_UPDATES) >= 9


@pytest.mark.parametrize(("command", "more", "row"), WITH_UPDATES)
def test_a_row_names_the_updates_of_its_command(command: str, more: str, row: dict[str, str]) -> None:
    assert int(row["updates"].replace(",", "")) in updates_of(resolve(command, more)), f"{command} {more}"


SENTENCES = [
    pytest.param(commands, text, id=f"{page.stem}-{heading}")
    for page in PAGES
    for heading, text in sections(page)
    if (commands := commands_of(text)) and UPDATES.search(text)
]


@pytest.mark.parametrize(("commands", "text"), SENTENCES)
def test_a_section_names_updates_that_its_commands_train(commands: list[str], text: str) -> None:
    trained: set[int] = set()
    for command in commands:
        trained |= updates_of(resolve(command))
    for row in rows_of(text):
        trained |= updates_of(resolve(*command_of(row, commands)))
    assert {
        int(number.replace(",", "")) for number in UPDATES.findall(INLINE.sub("", FENCE.sub("", text)))
    } <= trained


TEN = [
    row
    for row in rows_of((ROOT / "docs/results.md").read_text(encoding="utf-8"))
    if commands_of(row.get("command", ""))
]


@pytest.mark.parametrize("row", TEN, ids=lambda row: row["what"][:40])
def test_a_figure_of_the_first_page_has_the_command_of_its_own_page(row: dict[str, str]) -> None:
    (command,) = commands_of(row["command"])
    first = resolve(command)
    link = re.search(r"\((results\.d/\w+\.md)\)", row["command"])
    if not link:
        return
    figure = re.findall(r"\d+\.\d+", row["figure"])[0]
    own = [text for _, text in sections(ROOT / "docs" / link[1]) if figure in text and commands_of(text)]
    assert own, f"{figure} is not on {link[1]}"
    assert first in [resolve(other) for text in own for other in commands_of(text)]
