"""A command made from settings is read back to the same settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling import cli
from xling.core.commands import command_line
from xling.core.commands.runner import STAGES, Stage
from xling.core.settings import config


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    names: tuple[str, ...] = ("a", "b")


@dataclass(frozen=True)
class Demo:
    out: str
    size: int = 7
    flag: bool = False
    how: Literal["x", "y"] = "x"
    place: Path | None = None
    inner: Inner = Inner()
    parts: dict[str, dict[str, str]] = field(default_factory=lambda: {"mmlm": {}})
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)


@pytest.fixture(autouse=True)
def demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STAGES._entries, "demo", Stage("demo", config="unused:Demo", run="unused:run"))
    monkeypatch.setattr(command_line, "load", lambda target: Demo)
    monkeypatch.setattr(cli, "load", lambda target: Demo)


def settings(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = config.to_dict(Demo(**{"out": "o", **changes}))
    return found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"size": 9, "flag": True, "how": "y"}, ["size=9", "flag=true", "how=y"]),
        ({"place": Path("p")}, ["place=p"]),
        ({"inner": Inner(0.5)}, ["inner.rate=0.5"]),
        ({"inner": Inner(names=("a,b", ""))}, ['inner.names=["a,b", ""]']),
        ({"inner": Inner(names=())}, ["inner.names=[]"]),
        ({"parts": {"tlm": {"alpha": "1"}}}, ["parts.tlm.alpha=1"]),
        ({"parts": {"mmlm": {}, "tlm": {}}}, ["parts.mmlm={}", "parts.tlm={}"]),
        ({"files": {"en-sw": ("a", "b")}}, ["files.en-sw=a,b"]),
        ({"files": {"a.b": ("x",)}}, ['files={"a.b": ["x"]}']),
    ],
)
def test_words_by_hand(changes: dict[str, Any], words: list[str]) -> None:
    assert command_line.command_words("demo", settings(**changes), "o") == ["xling", "demo", "out=o", *words]


texts = st.text(st.sampled_from(" abc,.=[]{}'\"#:-é\\0n"), max_size=6)
# A text that begins like a list or a mapping is read as one on the command line.
scalars = texts.filter(lambda text: not text.startswith(("[", "{")))
names = st.text(st.sampled_from("abc-_"), min_size=1, max_size=4)
demos = st.builds(
    Demo,
    out=scalars.filter(lambda text: text not in ("", ".") and not text.startswith("-")),
    size=st.integers(-5, 5),
    flag=st.booleans(),
    how=st.sampled_from(["x", "y"]),
    inner=st.builds(Inner, st.floats(-1, 1), st.lists(texts, max_size=3).map(tuple)),
    parts=st.dictionaries(names, st.dictionaries(names, scalars, max_size=2), max_size=2),
    files=st.dictionaries(names, st.lists(texts, max_size=2).map(tuple), max_size=2),
)


@given(demos)
def test_any_settings_come_back(cfg: Demo) -> None:
    words = command_line.command_words("demo", config.to_dict(cfg), "o")
    made, _ = cli.resolve(STAGES["demo"], words[2:])
    assert made == cfg, words


def test_settings_that_are_no_longer_those_of_the_stage_are_written_out() -> None:
    words = command_line.command_words("demo", settings() | {"gone": 3}, "o")
    assert "gone=3" in words and "size=7" in words
    assert command_line.command_words("never was", {"a": 1}, "o") == ["xling", "never", "was", "a=1"]


def test_the_output_is_the_directory_where_the_manifest_does_not_name_it() -> None:
    without = {key: value for key, value in settings().items() if key != "out"}
    for old in (without, settings() | {"out": "."}):
        assert "out=runs/here" in command_line.command_words("demo", old, "runs/here")
