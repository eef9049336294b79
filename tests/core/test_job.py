"""The heartbeat of a stage and the request to stop it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from xling.core import job
from xling.core.progress import Progress


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the launcher wants the heartbeat."""
    monkeypatch.setenv(job.VARIABLE, str(tmp_path / "beat.json"))
    job.reset()
    yield tmp_path / "beat.json"
    job.reset()


def found(path: Path) -> job.Heartbeat:
    beat = job.read(path)
    assert beat is not None
    return beat


def test_without_a_launcher_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(job.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    job.beat(1, 2)
    assert not list(tmp_path.iterdir())
    assert job.read(tmp_path / "none") is None


def test_first_saved_and_last_are_written_at_once(path: Path) -> None:
    job.beat(1, 100, "updates")
    assert (found(path).done, found(path).total, found(path).unit) == (1, 100, "updates")
    job.beat(2, 100, "updates", tokens_per_s=900.0, note="loss 3")
    assert found(path).done == 1  # too soon to be worth a file
    job.beat(3, 100, "updates", saved=3)
    beat = found(path)
    # What was told in between is not lost.
    assert (beat.done, beat.saved, beat.tokens_per_s, beat.note) == (3, 3, 900.0, "loss 3")
    assert beat.rate > 0
    job.beat(100, 100, "updates")
    assert (found(path).done, found(path).saved) == (100, 3)


def test_every_few_seconds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(job.time, "monotonic", lambda: clock[0])
    for done in range(1, 12):
        job.beat(done, None, "docs")
        clock[0] += 1
    assert (found(path).done, found(path).rate) == (11, 1.0)


def test_what_was_saved_survives_a_restart(path: Path) -> None:
    job.beat(40, 100, "updates", saved=40)
    job.reset()
    job.beat(41, 100, "updates")
    assert (found(path).done, found(path).saved) == (41, 40)


def test_a_torn_file_is_none(path: Path) -> None:
    path.write_text('{"done": 1')
    assert job.read(path) is None
    path.write_text(json.dumps({"other": 1}))
    assert job.read(path) is None


def test_progress_beats(path: Path) -> None:
    with Progress("count", 10, "docs") as progress:
        progress.update(10, "fine")
    assert (found(path).done, found(path).total, found(path).unit, found(path).note) == (
        10,
        10,
        "docs",
        "fine",
    )


def test_request_to_stop(path: Path) -> None:
    assert not job.stop_requested()
    with job.resumable():
        assert job.is_polling()
        job.request_stop("time limit")
        assert job.stop_requested() == "time limit"
    assert not job.is_polling()
    job.reset()
    assert not job.stop_requested()
    assert not issubclass(job.Stopped, Exception)  # a stage that survives errors must not survive this
