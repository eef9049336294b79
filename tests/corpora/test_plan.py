"""The plan of a build is kept while the input is as it was planned, and made anew with its parts when it is not."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.corpora import mono
from xling.corpora.mono import MonoConfig
from xling.corpora.mono.build import PLAN, resolve
from xling.corpora.mono.plan import (
    _BYTES_PER_DOCUMENT,
    _EXPANSION,
    BYTES_PER_HASH,
    Shard,
    _num_near,
    is_current,
    make_plan,
    stored_bytes,
)


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


def write(folder: Path) -> None:
    (folder / "a.txt").write_text("Habari nyingine.\n" * 20, encoding="utf-8")


CHANGES: dict[str, Callable[[Path], object]] = {
    "other text": write,
    "deleted": lambda folder: (folder / "a.txt").unlink(),
    "one more": lambda folder: (folder / "c.txt").write_text("Mpya.\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_holds_until_a_file_changes(cfg: MonoConfig, tmp_path: Path, change: str) -> None:
    build = resolve(cfg)
    plan = make_plan(build)
    assert is_current(plan, build)
    touch(tmp_path)
    assert is_current(plan, build), "the same content at another time"
    CHANGES[change](tmp_path)
    assert not is_current(plan, build)


def test_parts_are_kept_while_the_input_is_the_same_and_made_anew_after(
    cfg: MonoConfig, tmp_path: Path
) -> None:
    for phase in ("plan", "read"):
        mono.run_part(cfg, phase, 0)
    part = resolve(cfg).workspace.part("read", 0)
    assert part.is_dir()
    mono.run_part(cfg, "plan", 0)
    assert part.is_dir(), "an unchanged input keeps what is made"
    write(tmp_path)
    mono.run_part(cfg, "plan", 0)
    assert not part.is_dir(), "parts of other input are thrown away"


@pytest.mark.parametrize("lang", ["sw", "sw,en"])
def test_one_language_and_many_plan_anew_only_after_a_change(
    cfg: MonoConfig, tmp_path: Path, lang: str
) -> None:
    cfg = dataclasses.replace(cfg, lang=lang)
    mono.run_part(cfg, "plan", 0)
    (plan,) = tmp_path.rglob(PLAN)
    made = plan.with_name("made")
    made.mkdir()
    mono.run_part(cfg, "plan", 0)
    assert made.is_dir(), "an unchanged input keeps what is made"
    write(tmp_path)
    mono.run_part(cfg, "plan", 0)
    assert plan.is_file() and not made.exists(), "parts of other input are thrown away"


def test_a_finished_corpus_is_kept_and_replaced_only_when_asked(
    cfg: MonoConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other spellings, places and times of the same files are the same corpus; other text is not."""
    run_local("corpus mono", cfg)
    (directory,) = (path.parent for path in tmp_path.rglob("manifest.json"))
    before = directory.stat().st_ino, (directory / "manifest.json").stat().st_mtime_ns
    touch(tmp_path)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("a.txt", "b.txt"):
        shutil.copy(tmp_path / name, moved)
    monkeypatch.chdir(tmp_path)
    for source in (*cfg.source, f"text:{moved}/*.txt", "text:moved/*.txt"):
        run_local("corpus mono", dataclasses.replace(cfg, source=(source,)))
    write(tmp_path)
    with pytest.raises(UserError, match=r"a\.txt has other content; .*overwrite=true"):
        run_local("corpus mono", cfg)
    assert before == (directory.stat().st_ino, (directory / "manifest.json").stat().st_mtime_ns)
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    run_local("corpus mono", cfg)
    assert before[0] != directory.stat().st_ino


def test_the_hashes_of_a_range_fit_into_half_of_the_memory(cfg: MonoConfig) -> None:
    shards = [Shard(f"{i}", "", "text:x", 3 << 30) for i in range(4)]
    hashes = sum(map(stored_bytes, shards)) * _EXPANSION / _BYTES_PER_DOCUMENT * BYTES_PER_HASH
    for memory_mb in (64, 512):
        half = memory_mb * 2**20 / 2
        num = _num_near(shards, resolve(dataclasses.replace(cfg, memory_mb=memory_mb)))
        assert hashes / num <= half and (num == 1 or hashes / (num - 1) > half)
    assert num > 1
