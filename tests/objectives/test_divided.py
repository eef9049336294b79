"""Checkpoints of sharded models: every process writes and reads its part, and a half-written one is never taken."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.objectives.processes import losses, published, trained
from xling.models.files import checksummed_file, sharded_state, training_checkpoint
from xling.models.files.sharded_state import ShardedState

RUN = (
    "model.dropout=0",
    "train.updates=6",
    "train.valid_every=6",
    "train.lr=1e-3",
    "train.save_every=2",
    "train.keep=9",
)
pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture
def sharded(recipe: Any, bitext: Path, tmp_path: Path) -> Callable[..., Any]:
    """The settings of a tiny sharded run."""
    return lambda name, *words: recipe(
        bitext, "mmlm", tmp_path / name, *RUN, "train.keep=9", "train.sharding=full", *words
    )


@pytest.fixture(scope="module")
def straight(recipe: Any, bitext: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That run, published, without a stop: what every other has to end in."""
    out = tmp_path_factory.mktemp("sharded") / "straight"
    trained(recipe(bitext, "mmlm", out, *RUN, "train.sharding=full"), 2)
    return out


@pytest.fixture(scope="module")
def stopped_at_three(recipe: Any, bitext: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The partial directory that `stopped` gives a copy of."""
    out = tmp_path_factory.mktemp("stopped") / "out"
    trained(recipe(bitext, "mmlm", out, *RUN, "train.sharding=full"), 2, stop=3)
    return out.with_name("out.partial")


@pytest.fixture
def stopped(stopped_at_three: Path, tmp_path: Path) -> Path:
    """The partial directory of that run, stopped with 3 updates made; checkpoints at 2 and 4."""
    return Path(shutil.copytree(stopped_at_three, tmp_path / "out.partial"))


def at_update(number: int, act: Callable[[], None]) -> None:
    """Make this process act when it is to write its part of the checkpoint after so many updates."""
    from torch.distributed.checkpoint import FileSystemWriter

    write = FileSystemWriter.write_data

    def acting(self: Any, *given: Any) -> Any:
        if self.path.name == f"update-{number:08d}.tmp":
            act()
        return write(self, *given)

    pytest.MonkeyPatch().setattr(FileSystemWriter, "write_data", acting)


def no_gathering(rank: int) -> None:
    """Let nothing be gathered, and no process copy more than its share."""
    from torch.distributed.tensor import DTensor

    def refused(*given: Any, **named: Any) -> Any:
        raise AssertionError("gathered")

    divide = ShardedState.of

    def divided_(cls: Any, state: Any, stage: Any = None) -> ShardedState:
        made = divide(state, stage)
        held = sum(getattr(t, "_local_tensor", t).nbytes for t in made.tensors.values())
        assert held < 0.6 * made.num_bytes()
        return made

    patch = pytest.MonkeyPatch()
    patch.setattr(ShardedState, "of", classmethod(divided_))
    patch.setattr(DTensor, "full_tensor", refused)


def test_other_numbers_of_processes_go_on_and_none_holds_the_whole(sharded: Any, tmp_path: Path) -> None:
    straight, changed = (sharded(name, "train.accumulate=2") for name in ("straight", "changed"))
    trained(straight, 2, before=no_gathering)
    for world, stop in ((2, 2), (4, 4), (1, 0)):
        trained(changed, world, stop, before=no_gathering)
    assert losses(tmp_path / "changed") == pytest.approx(losses(tmp_path / "straight"), abs=1e-4)
    wanted = published(tmp_path / "straight")
    for name, tensor in published(tmp_path / "changed").items():
        torch.testing.assert_close(
            tensor, wanted[name], rtol=1e-4, atol=5e-6, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("harm", ["killed", "flipped", "missing", "unmarked"])
def test_what_is_not_whole_is_passed_over(
    sharded: Any, straight: Path, tmp_path: Path, request: pytest.FixtureRequest, harm: str
) -> None:
    cfg, partial = sharded("out"), tmp_path / "out.partial"

    def kill(rank: int) -> None:
        if rank == 1:
            at_update(4, lambda: os.kill(os.getpid(), signal.SIGKILL))

    if harm == "killed":
        trained(cfg, 2, before=kill, fail=True)
        assert (partial / "update-00000004.tmp").is_dir()
    else:
        request.getfixturevalue("stopped")
        part = partial / "update-00000004.parts" / "__1_0.distcp"
        if harm == "flipped":
            part.write_bytes(part.read_bytes()[:-1] + b"?")
        elif harm == "missing":
            part.unlink()
        else:
            (partial / "update-00000004.sha256").unlink()
    begun = tmp_path / "begun"

    def note(rank: int) -> None:
        read = sharded_state.read

        def noting(path: Path, like: Any) -> Any:
            if path.name.startswith("update"):
                begun.write_text(path.name)
            return read(path, like)

        pytest.MonkeyPatch().setattr(sharded_state, "read", noting)

    trained(cfg, 2, before=note)
    assert begun.read_text() == "update-00000002.parts"
    found, wanted = published(tmp_path / "out"), published(straight)
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())
    assert not partial.exists()


def test_a_full_disk_of_one_process_is_one_checkpoint_less(sharded: Any, tmp_path: Path, capfd: Any) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    cfg = sharded("out", "train.snapshots=4")
    trained(cfg, 2, stop=4, before=lambda rank: at_update(4, full) if rank == 1 else None)
    assert sorted(path.name for path in (tmp_path / "out.partial").glob("update*")) == [
        f"update-0000000{n}.{kind}" for n in (2, 5) for kind in ("parts", "sha256")
    ]
    assert capfd.readouterr().err.count("no room in") == 1


def test_training_goes_on_while_the_parts_are_written(sharded: Any, straight: Path, tmp_path: Path) -> None:
    """The first write ends only when the training asks for the second."""

    def before(rank: int) -> None:
        asked, save = threading.Event(), training_checkpoint.Writer.save

        def saving(self: Any, trainer: Any, *given: Any) -> None:
            if trainer.get_num_updates() == 4:
                asked.set()
            save(self, trainer, *given)

        def hold() -> None:
            assert asked.wait(60)

        pytest.MonkeyPatch().setattr(training_checkpoint.Writer, "save", saving)
        at_update(2, hold)

    cfg = sharded("out")
    trained(cfg, 2, stop=3, before=before)
    for kept in (tmp_path / "out.partial").glob("update-00000004*"):  # that of update 2 was held up
        shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
    trained(cfg, 2)
    found, wanted = published(tmp_path / "out"), published(straight)
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())


def test_a_snapshot_waits_for_the_parts_before_it(sharded: Any, tmp_path: Path) -> None:
    """Both sum over the processes: one that began with the other would wait for ever."""

    def before(rank: int) -> None:
        asked, patch = threading.Event(), pytest.MonkeyPatch()
        write, whole, wait = (
            training_checkpoint.Writer._run,
            sharded_state.whole,
            training_checkpoint.Writer.wait,
        )
        writing: list[int] = []

        def held(self: Any, state: Any, num_updates: int) -> None:
            writing.append(num_updates)
            assert asked.wait(60)
            write(self, state, num_updates)
            writing.remove(num_updates)

        def waited(self: Any) -> None:
            asked.set()
            wait(self)

        def gathered(*given: Any) -> Any:
            (tmp_path / f"writing-{rank}").write_text(str(writing))
            asked.set()
            return whole(*given)

        patch.setattr(training_checkpoint.Writer, "_run", held)
        patch.setattr(training_checkpoint.Writer, "wait", waited)
        patch.setattr(sharded_state, "whole", gathered)

    trained(sharded("out", "train.snapshots=3"), 2, stop=3, before=before)
    assert [(tmp_path / f"writing-{rank}").read_text() for rank in range(2)] == ["[]", "[]"]


def test_a_sharded_run_branches_off_a_snapshot(sharded: Any, tmp_path: Path) -> None:
    wsd = ("train.schedule=wsd", "train.warmup=2")
    trained(sharded("one", *wsd, "train.decay=0.5"), 2)
    trained(sharded("base", *wsd, "train.decay=1e-9", "train.snapshots=3", "train.snapshot_state=true"), 2)
    there = tmp_path / "base" / "snapshots" / "3"
    assert {"model.pt", "state.parts", "state.sha256"} <= {path.name for path in there.iterdir()}
    trained(sharded("branch", *wsd, f"branch={there}"), 2)
    found, wanted = published(tmp_path / "branch"), published(tmp_path / "one")
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())


def test_a_checkpoint_in_one_file_as_older_versions_wrote_it_goes_on(
    sharded: Any, straight: Path, stopped: Path, tmp_path: Path
) -> None:
    cfg, partial = sharded("out"), stopped
    newest = partial / "update-00000004.parts"
    state = sharded_state.read(newest, lambda place, tensor: torch.empty(tensor.shape, dtype=tensor.dtype))
    for kept in partial.glob("update*"):
        shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
    checksummed_file.write_checksummed(newest.with_suffix(".pt"), state)
    trained(cfg, 2)
    found, wanted = published(tmp_path / "out"), published(straight)
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())


def test_an_index_makes_nothing_but_what_belongs_into_one(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "made"),)

    (tmp_path / "index").write_bytes(pickle.dumps(Evil()))
    with (tmp_path / "index").open("rb") as handle, pytest.raises(pickle.UnpicklingError, match="mkdir"):
        sharded_state._Index(handle).load()
    assert not (tmp_path / "made").exists()
