"""What a resumed training takes and refuses: contents, settings, more updates, numbers of processes, full disks."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.training.conftest import Killed, Pretrain, events, identical, stop_after, weights
from xling.core import signals
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.models.files import checksummed_file, training_checkpoint
from xling.training import train


def rewrite(path: Path, change: Callable[[Any], Any]) -> None:
    """Change what a checkpoint holds, and give it the right checksum again."""
    state = torch.load(path, weights_only=True)
    checksummed_file.write_checksummed(path, change(state))


def without(*keys: str) -> Callable[[Any], Any]:
    def change(state: Any) -> Any:
        place = state
        for key in keys[:-1]:
            place = place[key]
        del place[keys[-1]]
        return state

    return change


def instead(value: Any, *keys: str) -> Callable[[Any], Any]:
    def change(state: Any) -> Any:
        place = state
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        return state

    return change


WRONG = {
    "a list": lambda state: [1, 2],
    "no model": without("model"),
    "no position": without("extra_state", "train_iterator"),
    "position as text": instead("three", "extra_state", "train_iterator", "epoch"),
    "position out of range": instead(-5, "extra_state", "train_iterator", "iterations_in_epoch"),
    "no history": instead([], "optimizer_history"),
    "no moments": instead(None, "last_optimizer_state"),
    "a weight of another shape": instead(torch.zeros(3), "model", "encoder.tokens.weight"),
    "a weight too few": without("model", "encoder.tokens.weight"),
    "a key that is no JSON": instead("{", "extra_state", "run_key"),
    "no format": without("extra_state", "format"),
}


def test_a_checkpoint_of_wrong_content_and_right_checksum_is_passed_over(
    interrupted: Path, pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = interrupted.with_name("kept")
    shutil.copytree(interrupted, kept)
    stop_after(4, monkeypatch)  # the update that the checkpoint before holds
    for wrong, change in WRONG.items():
        shutil.rmtree(interrupted)
        shutil.copytree(kept, interrupted)
        caplog.clear()
        rewrite(interrupted / "update-00000008.pt", change)
        with pytest.raises(Killed):
            pretrain("out")
        assert "is not a checkpoint; taking the one before it" in caplog.text, wrong
    monkeypatch.undo()
    assert identical(weights(pretrain("out")), weights(pretrain("straight")))


def test_where_no_checkpoint_can_be_read_nothing_begins_anew_in_silence(
    interrupted: Path, pretrain: Pretrain
) -> None:
    for path in interrupted.glob("update-*.pt"):
        rewrite(path, without("model"))
    with pytest.raises(UserError, match=r"no checkpoint in .* can be read: update-00000008.pt: KeyError"):
        pretrain("out")


def test_a_later_format_is_named(interrupted: Path, pretrain: Pretrain) -> None:
    rewrite(
        interrupted / "update-00000008.pt", instead(training_checkpoint.FORMAT + 1, "extra_state", "format")
    )
    with pytest.raises(
        UserError,
        match=f"checkpoint format {training_checkpoint.FORMAT + 1}; valid: {training_checkpoint.FORMAT}; "
        "fix: continue with the version",
    ):
        pretrain("out")


def test_garbage_in_the_log_is_skipped_and_named(
    interrupted: Path, pretrain: Pretrain, capsys: pytest.CaptureFixture[str]
) -> None:
    log = interrupted / "log.jsonl"
    log.write_bytes(
        b'\xff\xfe\n[1]\n{"update": "x"}\n{}\nnonsense\n' + log.read_bytes() + b'{"update": 9, "sp'
    )
    assert [event["update"] for event in events(pretrain("out"))] == [5, 10, 12, 15, 20, 24, 24]
    assert "line 1 is damaged and was skipped" in capsys.readouterr().err


def test_what_does_not_change_the_result_may_change(
    interrupted: Path, pretrain: Pretrain, shards: Path
) -> None:
    words = ["train.threads=1", "train.log_every=3", "train.save_every=7", "train.keep=1"]
    words.append(f"data={os.path.relpath(shards)}/")  # the same data under another name
    assert identical(weights(pretrain("out", *words)), weights(pretrain("straight")))


def test_a_difference_is_named(interrupted: Path, pretrain: Pretrain) -> None:
    with pytest.raises(UserError, match=r"with other settings or data: train.lr=0.003, now 0.001; fix"):
        pretrain("out", "train.lr=1e-3")
    with pytest.raises(UserError, match=r"train.updates=24, now 20"):
        pretrain("out", "train.updates=20")


def test_a_training_is_extended(
    interrupted: Path, pretrain: Pretrain, capsys: pytest.CaptureFixture[str]
) -> None:
    out = pretrain("out", "train.updates=30")
    assert manifest.read(out).counts["updates"] == 30
    assert "was to end after 24 updates, now after 30: the learning rate follows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("made", "settings", "processes", "wanted"),
    [
        (4, (2, 2), 1, 4),  # the same settings, one process in place of two
        (4, (2, 2), 4, 1),
        (4, (2, 4), 1, 4),  # the user says so himself
        (4, (2, 2), 3, "an update has 4 batches, 3 process"),
        (4, (2, 1), 2, "train.accumulate=1 would make 2"),
        (2, (1, 1), 1, 2),
    ],
)
def test_the_batches_of_an_update_stay_the_same(
    monkeypatch: pytest.MonkeyPatch, made: int, settings: tuple[int, int], processes: int, wanted: int | str
) -> None:
    """``settings``: train.accumulate of the run that wrote the checkpoint, and of the one that goes on."""
    monkeypatch.setattr(training_checkpoint.processes, "size", lambda: processes)
    before, now = ({"train": {"accumulate": a, "updates": 9}} for a in settings)
    extra = {
        "processes": 2,
        "batches_per_update": made,
        "code": "",
        "run_key": json.dumps({"config": before, "data": {}}),
    }
    cfg = train.PretrainConfig("d", "o", train=train.PretrainConfig("d", "o").train)
    plan = SimpleNamespace(cfg=cfg, train=cfg.train, run_key={"config": now, "data": {}}, branch=None)
    if isinstance(wanted, str):
        with pytest.raises(UserError, match=wanted):
            training_checkpoint._compare(extra, plan, Path("update-1.pt"))
        return
    assert training_checkpoint._compare(extra, plan, Path("update-1.pt")) == wanted


def test_other_code_is_told(
    interrupted: Path, pretrain: Pretrain, capsys: pytest.CaptureFixture[str]
) -> None:
    rewrite(interrupted / "update-00000008.pt", instead("0.1.0+0123", "extra_state", "code"))
    pretrain("out")
    assert "was made by xling 0.1.0+0123, this is" in capsys.readouterr().err


def full(*_: Any) -> str:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("stops", [False, True])
def test_a_checkpoint_without_room(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stops: bool
) -> None:
    """The training goes on and tries again; it ends where the site says so."""
    write = checksummed_file.write_hashed

    def sometimes(state: Any, handle: Any) -> str:
        if state["optimizer_history"][-1]["num_updates"] in (8, 24):
            full()
        return write(state, handle)

    monkeypatch.setattr(checksummed_file, "write_hashed", sometimes)
    if stops:
        monkeypatch.setenv(training_checkpoint.FULL_DISK_VARIABLE, "stop")
        with pytest.raises(
            UserError, match=r"no room in .*out.partial .* after 8 updates: [\d,]+ bytes needed"
        ):
            pretrain("out")
        return
    out = pretrain("out")
    told = capsys.readouterr().err
    assert told.count("the training continues and tries again at the next one") == 2
    monkeypatch.undo()
    assert identical(weights(out), weights(pretrain("straight")))


def test_a_full_disk_is_named_and_no_position_in_a_file() -> None:
    with Path("/dev/full").open("wb", buffering=0) as handle, pytest.raises(OSError, match="No space left"):
        checksummed_file.write_hashed({"a": torch.zeros(4096)}, handle)


def test_a_heartbeat_never_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    signals.reset_process_state()
    monkeypatch.setenv(signals.HEARTBEAT_VARIABLE, str(tmp_path / "beat.json"))
    with monkeypatch.context() as patch:
        patch.setattr(signals, "write_private", full)
        signals.beat(1, 10, "updates", saved=1)
    assert "the progress is not shown: No space left" in capsys.readouterr().err
    signals.beat(2, 10, "updates", saved=2)
    found = signals.read_heartbeat(tmp_path / "beat.json")
    assert found is not None and found.saved == 2
    signals.reset_process_state()
