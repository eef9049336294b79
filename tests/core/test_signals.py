"""The heartbeat of a stage and the request to stop it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from xling.core import signals
from xling.core.progress import Progress


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the launcher wants the heartbeat."""
    monkeypatch.setenv(signals.HEARTBEAT_VARIABLE, str(tmp_path / "beat.json"))
    signals.reset_process_state()
    yield tmp_path / "beat.json"
    signals.reset_process_state()


def found(path: Path) -> signals.Heartbeat:
    beat = signals.read_heartbeat(path)
    assert beat is not None
    return beat


def test_without_a_launcher_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(signals.HEARTBEAT_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    signals.beat(1, 2)
    assert not list(tmp_path.iterdir())
    assert signals.read_heartbeat(tmp_path / "none") is None


def test_first_saved_and_last_are_written_at_once(path: Path) -> None:
    signals.beat(1, 100, "updates")
    assert (found(path).done, found(path).total, found(path).unit) == (1, 100, "updates")
    signals.beat(2, 100, "updates", tokens_per_s=900.0, note="loss 3")
    assert found(path).done == 1  # too soon to be worth a file
    signals.beat(3, 100, "updates", saved=3)
    beat = found(path)
    # What was told in between is not lost.
    assert (beat.done, beat.saved, beat.tokens_per_s, beat.note) == (3, 3, 900.0, "loss 3")
    assert beat.rate > 0
    signals.beat(100, 100, "updates")
    assert (found(path).done, found(path).saved) == (100, 3)


def test_every_few_seconds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(signals.time, "monotonic", lambda: clock[0])
    for done in range(1, 12):
        signals.beat(done, None, "docs")
        clock[0] += 1
    assert (found(path).done, found(path).rate) == (11, 1.0)


def test_what_was_saved_survives_a_restart(path: Path) -> None:
    signals.beat(40, 100, "updates", saved=40)
    signals.reset_process_state()
    signals.beat(41, 100, "updates")
    assert (found(path).done, found(path).saved) == (41, 40)


def test_a_torn_file_is_none(path: Path) -> None:
    path.write_text('{"done": 1')
    assert signals.read_heartbeat(path) is None
    path.write_text(json.dumps({"other": 1}))
    assert signals.read_heartbeat(path) is None


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
    assert not signals.stop_requested()
    with signals.resumable():
        assert signals.is_polling()
        signals.request_stop("time limit")
        assert signals.stop_requested() == "time limit"
    assert not signals.is_polling()
    signals.reset_process_state()
    assert not signals.stop_requested()
    assert not issubclass(signals.Stopped, Exception)  # a stage that survives errors must not survive this
