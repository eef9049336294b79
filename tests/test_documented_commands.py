"""Every command of README and docs has settings that exist, with values of their types."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from xling import cli
from xling.core import pipeline
from xling.core.errors import UserError
from xling.slurm import sweep

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    path for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")) if "history" not in path.parts
)
_BLOCK = re.compile(r"^```(?:sh|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ENDS = re.compile(r"(?:\d?>>?|<|\||&&|;|&).*")
OTHER = {"config", "slurm", "completion", "recipes", "schema", "why-rerun", "doctor", "new"}


def commands_of(text: str) -> list[list[str]]:
    """The words of each `xling` command in the shell blocks of a page."""
    found = []
    for block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(
                re.sub(r"^\$ |^PYTHONPATH=\S+ |^\.venv/bin/", "", line.strip()), comments=True
            )
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                del words[0]
            if words[:1] == ["xling"]:
                end = next((i for i, word in enumerate(words) if _ENDS.fullmatch(word)), len(words))
                found.append(words[1:end])
    return found


def check(words: list[str]) -> None:
    """Resolve a command as `xling config` does."""
    name = words[0] if words else "--help"
    if name.startswith("-") or name in OTHER:
        return
    if name in ("run", "quickstart"):
        words = words if name == "run" else ["run", *words]
        path = cli.recipe_path("quickstart" if name == "quickstart" else words[1])
        _, rest = cli.split_launch(words[2 if name == "run" else 1 :])
        for each in sweep.expand(rest, pipeline.axes(path)):
            pipeline.read(path, each)
        return
    stage, rest = cli.find_stage(words)
    for each in sweep.expand([word for word in rest if word not in (cli.JSON, *cli.OVERWRITING)]):
        cli.resolve(stage, each)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_have_settings_that_exist(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    wrong = []
    for words in commands_of(page.read_text(encoding="utf-8")):
        if "--help" in words or "..." in words:
            continue
        try:
            check(words)
        except UserError as error:
            wrong.append(f"xling {' '.join(words)}: {error}")
    assert not wrong, "\n".join(wrong)


def test_there_are_commands() -> None:
    assert len(commands_of((ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8"))) >= 14


def test_a_setting_that_is_gone_is_found() -> None:
    (words,) = commands_of("```sh\nxling vocab corpora.en=a \\\n  no_such=1 out=b > log  # why\n```\n")
    assert words == ["vocab", "corpora.en=a", "no_such=1", "out=b"]
    with pytest.raises(UserError, match="no_such"):
        check(words)
