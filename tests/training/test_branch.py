"""A decay, or another schedule, from a state of another run."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from tests.training.conftest import Killed, Pretrain, events, identical, settings, stop_after, weights
from xling.core.errors import UserError
from xling.training import train

STABLE = ("train.schedule=wsd", "train.warmup=2", "train.lr=3e-3", "train.log_every=1", "train.valid_every=4")
BASE = (*STABLE, "train.updates=12", "train.decay=1e-9")


def test_a_decay_from_a_snapshot_is_the_end_of_one_run(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = pretrain("one", *STABLE, "train.updates=14", f"train.decay={6 / 14}")
    base = pretrain("base", *BASE, "train.snapshots=4,8", "train.snapshot_state=true")
    words = (*STABLE, "train.updates=14", f"branch={base}/snapshots/8")
    branch = pretrain("branch", *words)
    rates = {e["update"]: e["lr"] for e in events(branch) if e["split"] == "train"}
    assert min(rates) == 9 and max(rates) == 14
    # The rate of update n is that after n - 1 others: 1 - sqrt of the share of the decay that has passed.
    assert rates[10] == pytest.approx(3e-3 * (1 - math.sqrt(2 / 7)), rel=1e-6)
    assert identical(weights(one), weights(branch))
    # Killed within the decay, it goes on from its own checkpoint.
    shutil.rmtree(branch)
    with monkeypatch.context() as patch:
        stop_after(11, patch)
        with pytest.raises(Killed):
            pretrain("branch", *words)
    assert identical(weights(one), weights(pretrain("branch", *words)))


def test_a_decay_from_a_checkpoint_of_a_run_that_has_not_ended(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        stop_after(8, patch)
        with pytest.raises(Killed):
            pretrain("base", *BASE, "train.save_every=4")
    state = tmp_path / "base.partial/update-00000008.pt"
    ended = pretrain("branch", *STABLE, "train.updates=10", f"branch={state}", "train.decay_shape=linear")
    rates = [e["lr"] for e in events(ended) if e["split"] == "train"]
    assert rates == pytest.approx([3e-3 * (1 - 1 / 3), 3e-3 * (1 - 2 / 3)])


def test_mistakes_are_named(shards: Path, tiny: tuple[str, ...], tmp_path: Path, pretrain: Pretrain) -> None:
    base = pretrain("base", *BASE, "train.snapshots=8", "train.snapshot_state=true")
    there = f"branch={base}/snapshots/8"
    for words, said in (
        (("train.updates=8", there), "train.updates above 8"),
        (("train.updates=20", there, "train.lr=1e-3"), "train.lr=0.003, now 0.001"),
        (("train.updates=20", there, "langs=en"), "langs"),
        (("train.updates=20", f"branch={base}"), "there is no state.pt"),
        (("train.updates=20", f"branch={base}/model.pt"), "does not match its checksum"),
        (("train.updates=20", there, "phases.a.updates=3"), "phases"),
    ):
        with pytest.raises(UserError, match=said):
            train.run(settings(shards, tiny, tmp_path / "out", *STABLE, *words))
    state = base / "snapshots/8/state.pt"
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(UserError, match="checksum"):
        train.run(settings(shards, tiny, tmp_path / "out", *STABLE, "train.updates=20", there))
