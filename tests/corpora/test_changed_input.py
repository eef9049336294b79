"""A build that was killed does not go on with text that was changed since, whatever its size and time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.corpora import mono
from xling.corpora.mono.settings import MonoConfig
from xling.text.files.corpus_reader import read_documents

LINE = (
    "The old woman of the village sells fresh bread and {} near the river every morning, and she likes it.\n"
)


def write(path: Path, what: str) -> None:
    """Write a document; the time of the file stays what it was."""
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns) if path.exists() else None
    path.write_text("".join(LINE.format(f"{what} {number}") for number in range(10, 40)), encoding="utf-8")
    if times:
        os.utime(path, ns=times)


@pytest.fixture
def cfg(tmp_path: Path) -> MonoConfig:
    write(tmp_path / "a.txt", "wine")
    source = (f"text:{tmp_path}/a.txt",)
    return MonoConfig(lang="en", source=source, out=str(tmp_path / "out"), after_dedup=())


@pytest.mark.parametrize("num_done", [1, 2, 3])
def test_a_resumed_build_takes_the_new_text(cfg: MonoConfig, tmp_path: Path, num_done: int) -> None:
    mono.run_part(cfg, "plan", 0)
    for phase in mono.phases(cfg)[1:num_done]:
        mono.run_part(cfg, phase.name, 0)
    size = (tmp_path / "a.txt").stat().st_size
    write(tmp_path / "a.txt", "milk")
    assert (tmp_path / "a.txt").stat().st_size == size
    run_local("corpus mono", cfg)
    text = "\n".join(line for doc in read_documents([cfg.out]) for line in doc)
    assert "milk 10" in text and "wine" not in text


def test_text_that_changes_while_it_is_read_is_refused(cfg: MonoConfig, tmp_path: Path) -> None:
    mono.run_part(cfg, "plan", 0)
    write(tmp_path / "a.txt", "milk")
    with pytest.raises(UserError, match=r"a\.txt was changed while the corpus was made from it"):
        mono.run_part(cfg, mono.phases(cfg)[1].name, 0)
    run_local("corpus mono", cfg)
    assert "milk 10" in "\n".join(line for doc in read_documents([cfg.out]) for line in doc)
