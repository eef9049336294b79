"""The plan of a build is kept while the input is as it was planned, and made anew with its parts when it is not."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from xling.core import config
from xling.corpora import mono
from xling.corpora.mono import MonoConfig
from xling.corpora.mono.plan import FILE_NAME, make_plan, still_true


@pytest.fixture
def cfg(tmp_path: Path) -> MonoConfig:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"Habari ya {name}.\n" * 20, encoding="utf-8")
    words = {"lang": "sw", "source": f"text:{tmp_path}/*.txt", "out": str(tmp_path / "out")}
    more = {"before_dedup": ["repair"], "after_dedup": [], "dedup": "false", "near_dedup": "false"}
    return config.from_dict(MonoConfig, words | more)


def touch(folder: Path) -> None:
    stat = (folder / "a.txt").stat()
    os.utime(folder / "a.txt", ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))


CHANGES: dict[str, Callable[[Path], object]] = {
    "written again": touch,
    "deleted": lambda folder: (folder / "a.txt").unlink(),
    "one more": lambda folder: (folder / "c.txt").write_text("Mpya.\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_holds_until_a_file_changes(cfg: MonoConfig, tmp_path: Path, change: str) -> None:
    plan = make_plan(cfg)
    assert still_true(plan, cfg)
    CHANGES[change](tmp_path)
    assert not still_true(plan, cfg)


def test_parts_are_kept_while_the_input_is_the_same_and_made_anew_after(
    cfg: MonoConfig, tmp_path: Path
) -> None:
    for phase in ("plan", "read"):
        mono.run_part(cfg, phase, 0)
    part = cfg.workspace().part("read", 0)
    assert part.is_dir()
    mono.run_part(cfg, "plan", 0)
    assert part.is_dir(), "an unchanged input keeps what is made"
    touch(tmp_path)
    mono.run_part(cfg, "plan", 0)
    assert not part.is_dir(), "parts of other input are thrown away"


@pytest.mark.parametrize("lang", ["sw", "sw,en"])
def test_one_language_and_many_plan_anew_only_after_a_change(
    cfg: MonoConfig, tmp_path: Path, lang: str
) -> None:
    cfg = dataclasses.replace(cfg, lang=lang)
    mono.run_part(cfg, "plan", 0)
    (plan,) = tmp_path.rglob(FILE_NAME)
    made = plan.with_name("made")
    made.mkdir()
    mono.run_part(cfg, "plan", 0)
    assert made.is_dir(), "an unchanged input keeps what is made"
    touch(tmp_path)
    mono.run_part(cfg, "plan", 0)
    assert plan.is_file() and not made.exists(), "parts of other input are thrown away"
