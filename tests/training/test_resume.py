"""A run that was stopped, or whose files were damaged, goes on to the same weights."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.conftest import Killed, Pretrain, events, identical, killed_near, stop_after, weights
from tests.training.conftest import settings as training_settings
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.models.files import checksummed_file, model_weights
from xling.training import train
from xling.training import update as updates
from xling.training.update import Updates


@pytest.fixture(scope="module")
def straight(
    shards: Path, tiny: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, torch.Tensor]:
    """The weights of a run without a stop, which every resumed one has to end in."""
    out = tmp_path_factory.mktemp("straight") / "out"
    train.run(training_settings(shards, tiny, out))
    return weights(out)


@pytest.mark.parametrize(
    "words", [("train.accumulate=2", "model.precision=bf16"), ("langs=th", "train.accumulate=3")]
)
def test_a_run_goes_on_from_every_checkpoint_to_the_same_weights(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    straight = pretrain("out", *words)
    wanted = weights(straight)
    shutil.rmtree(straight)
    # Killed after each checkpoint in turn; the tiny corpus has epochs of a few updates, so their ends are met.
    for update in (3, 5, 14, 23):
        with monkeypatch.context() as patch:
            stop_after(update, patch)
            with pytest.raises(Killed):
                pretrain("out", *words)
        assert not straight.exists(), "a run that was killed counts as complete"
    resumed = pretrain("out", *words)
    assert identical(wanted, weights(resumed))
    updates = [(event["update"], event["split"]) for event in events(resumed)]
    assert updates == sorted(set(updates)), "an event stands twice, or is missing its place"
    assert [update for update, split in updates if split == "valid"] == [12, 24]


@pytest.mark.parametrize("folder", ["a", "z"])
def test_a_run_from_weights_goes_on_whether_their_path_sorts_before_the_data_or_behind(
    folder: str, pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp(folder) / "base"
    pretrain("base", "train.updates=2").rename(base)
    words = f"init={base}", "train.updates=8", "train.valid_every=8"
    wanted = weights(pretrain("straight", *words))
    with monkeypatch.context() as patch:
        stop_after(5, patch)
        with pytest.raises(Killed):
            pretrain("out", *words)
    assert identical(wanted, weights(pretrain("out", *words)))


def test_killed_after_training_it_publishes_without_training_again(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(model_weights, "save_model", killed)
        with pytest.raises(Killed):
            pretrain("out")
    monkeypatch.setattr(Updates, "make", killed)
    assert manifest.verify(pretrain("out")).counts["updates"] == 24


def test_as_many_checkpoints_are_kept_as_asked_for(interrupted: Path) -> None:
    names = sorted(path.name for path in interrupted.iterdir())
    pairs = [f"update-0000000{n}.{ending}" for n in (4, 8) for ending in ("pt", "sha256")]
    assert names == ["log.jsonl", *pairs]


@pytest.mark.parametrize("damage", ["cut", "flip", "missing", "no mark", "empty mark"])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(
    interrupted: Path,
    pretrain: Pretrain,
    straight: dict[str, torch.Tensor],
    caplog: pytest.LogCaptureFixture,
    damage: str,
) -> None:
    newest, mark = interrupted / "update-00000008.pt", interrupted / "update-00000008.sha256"
    content = bytearray(newest.read_bytes())
    if damage == "cut":
        newest.write_bytes(content[:-100])
    elif damage == "flip":
        content[len(content) // 2] ^= 1
        newest.write_bytes(content)
    elif damage == "missing":
        newest.unlink()
    elif damage == "no mark":
        mark.unlink()
    else:
        mark.write_text("")
    starts: list[int] = []
    original = updates.Log

    class Noting(original):  # type: ignore[misc, valid-type]
        def __init__(self, path: Path, num_updates: int) -> None:
            starts.append(num_updates)
            super().__init__(path, num_updates)

    train.Log = Noting  # type: ignore[misc]
    try:
        resumed = weights(pretrain("out"))
    finally:
        train.Log = original  # type: ignore[misc]
    assert starts == [4]
    assert identical(resumed, straight)
    warned = [r.getMessage() for r in caplog.records if r.name == "xling.models.files.checksummed_file"]
    assert len(warned) == 1
    problem = "missing" if damage == "missing" else "damaged"
    assert all(f"update-00000008.pt is {problem}; taking the checkpoint before it" in text for text in warned)


def test_checkpoints_without_their_checksums_stop_the_run(interrupted: Path, pretrain: Pretrain) -> None:
    """As a copy of ``*.pt`` leaves them: the training would begin again at update 0."""
    for mark in interrupted.glob("*.sha256"):
        mark.unlink()
    with pytest.raises(UserError, match=r"update-00000008\.pt has no update-00000008\.sha256 beside it"):
        pretrain("out")
    assert {path.suffix for path in interrupted.glob("update-*")} == {".pt"}


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_no_whole_checkpoint_stops_the_run(interrupted: Path, pretrain: Pretrain, damage: str) -> None:
    for checkpoint in interrupted.glob("*.pt"):
        checkpoint.unlink() if damage == "missing" else checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(UserError, match=r"no checkpoint in .* is whole"):
        pretrain("out")
    assert len(list(interrupted.glob("*.sha256"))) == 2


def test_a_torn_line_of_the_log_is_dropped(interrupted: Path, pretrain: Pretrain) -> None:
    with (interrupted / "log.jsonl").open("a") as log:
        log.write('{"update": 9, "spl')
    assert [event["update"] for event in events(pretrain("out"))] == [5, 10, 12, 15, 20, 24, 24]


@pytest.mark.parametrize(
    "word", ["train.lr=1e-3", "seed=2", "model.dim=16", "model.layers=1", "langs=en", "mix=sum"]
)
def test_other_settings_do_not_take_the_checkpoint(interrupted: Path, pretrain: Pretrain, word: str) -> None:
    key = word.partition("=")[0]
    told = rf"was made with other settings or data: {key}.*, now .*; fix: give the old settings again"
    with pytest.raises(UserError, match=told):
        pretrain("out", word)
    assert interrupted.exists()


def test_overwrite_replaces_an_unfinished_training_of_other_settings(
    interrupted: Path, pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    out = pretrain("out", "seed=2")
    assert events(out)[0]["update"] == 5 and not interrupted.exists()
    assert f"overwrite=true was given: {interrupted} is deleted" in capsys.readouterr().err
    monkeypatch.delenv(manifest.OVERWRITE_VARIABLE)
    assert identical(weights(out), weights(pretrain("fresh", "seed=2")))


def test_overwrite_goes_on_with_the_same_settings(
    interrupted: Path,
    pretrain: Pretrain,
    straight: dict[str, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    assert identical(weights(pretrain("out")), straight)
    assert "is deleted" not in capsys.readouterr().err


def test_sigkill_at_random_updates_ends_in_the_same_weights(
    shards: Path, tiny: tuple[str, ...], tmp_path: Path, pretrain: Pretrain
) -> None:
    words = ["model.precision=bf16", "train.updates=40", "train.save_every=5", "train.log_every=1"]
    wanted = weights(pretrain("out", *words))
    shutil.rmtree(tmp_path / "out")
    cfg = training_settings(shards, tiny, tmp_path / "out", *words)
    partial = tmp_path / "out.partial"
    near = 0
    for _ in range(2):
        near += random.randint(6, 14)
        killed_near(near, cfg)
        assert not (tmp_path / "out").exists() and list(partial.glob("update-*.sha256"))
    assert identical(wanted, weights(pretrain("out", *words))), f"killed near update {near}"
    assert not partial.exists()


def test_training_does_not_wait_for_a_checkpoint(
    pretrain: Pretrain, straight: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first write ends only when more updates were made after it had begun."""
    write, make, going_on, made = checksummed_file.write_hashed, Updates.make, threading.Event(), []

    def slow(*arguments: Any) -> str:
        assert going_on.wait(60), "training waited for the checkpoint"
        return write(*arguments)

    def counting(self: Updates, samples: Any) -> bool:
        made.append(self._trainer.get_num_updates())
        if made[-1] == 6:
            going_on.set()
        return make(self, samples)

    monkeypatch.setattr(checksummed_file, "write_hashed", slow)
    monkeypatch.setattr(Updates, "make", counting)
    assert identical(straight, weights(pretrain("out")))


def test_a_checkpoint_holds_the_state_when_it_was_asked_for(
    interrupted: Path, pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masters are changed in place while the thread writes; the file must not see it."""
    names = ("update-00000004.pt", "update-00000008.pt")
    states = [torch.load(interrupted / name, weights_only=True) for name in names]
    masters = [state["last_optimizer_state"]["masters"] for state in states]
    assert not any(torch.equal(a, b) for a, b in zip(*masters, strict=True))
    shared = {tensor.untyped_storage().data_ptr() for tensor in states[1]["model"].values()}
    assert {tensor.untyped_storage().data_ptr() for tensor in masters[1]} <= shared, (
        "float32 is written twice"
    )
    write, make, going_on = checksummed_file.write_hashed, Updates.make, threading.Event()

    def slow(*arguments: Any) -> str:
        assert going_on.wait(60)
        return write(*arguments)

    def waking(self: Updates, samples: Any) -> bool:
        if self._trainer.get_num_updates() == 7:
            going_on.set()
        return make(self, samples)

    shutil.rmtree(interrupted)
    monkeypatch.setattr(checksummed_file, "write_hashed", slow)
    monkeypatch.setattr(Updates, "make", waking)
    with monkeypatch.context() as patch:
        stop_after(10, patch)
        with pytest.raises(Killed):
            pretrain("out")
    late = torch.load(interrupted / names[0], weights_only=True)["last_optimizer_state"]["masters"]
    assert all(torch.equal(a, b) for a, b in zip(masters[0], late, strict=True))


@pytest.mark.parametrize("where", ["in the file", "before the checksum"])
def test_a_write_that_breaks_off_leaves_the_checkpoint_before(
    interrupted: Path,
    pretrain: Pretrain,
    straight: dict[str, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    shutil.rmtree(interrupted)
    write, mark = checksummed_file.write_hashed, manifest.write_atomic

    def torn(state: Any, handle: Any) -> str:
        if state["optimizer_history"][-1]["num_updates"] == 8 and where == "in the file":
            handle.write(b"PK half of it")
            raise OSError("no space left")
        return write(state, handle)

    def no_mark(path: Path, text: str) -> None:
        if path.name == "update-00000008.sha256" and where != "in the file":
            raise OSError("no space left")
        mark(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(checksummed_file, "write_hashed", torn)
        patch.setattr(manifest, "write_atomic", no_mark)
        with pytest.raises(OSError, match="no space left"):
            pretrain("out")
    assert [path.name for path in interrupted.glob("*.sha256")] == ["update-00000004.sha256"]
    assert identical(weights(pretrain("out")), straight)
    assert not list(interrupted.parent.rglob("*.tmp"))
