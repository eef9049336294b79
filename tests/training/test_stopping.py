"""SIGTERM outside of Slurm: a training saves, ends with 143, and goes on to the weights of an undisturbed one."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests import forked
from xling.core.output import manifest
from xling.core.settings import config
from xling.training.settings import PretrainConfig
from xling.training.train import run


@pytest.mark.slow
def test_sigterm_saves_and_the_same_command_goes_on(
    shards: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    words = [*tiny, "train.updates=60", "train.save_every=1000", f"data={shards}"]
    words = [word for word in words if not word.startswith("train.log_every")] + ["train.log_every=1"]
    command = ["-m", "xling", "pretrain", *words, f"out={tmp_path}/m"]
    log = tmp_path / "m.partial" / "log.jsonl"
    saved: list[int] = []
    for _ in range(2):
        process = forked.start(*command)
        deadline = time.monotonic() + 120
        while not log.exists() or len(log.read_text().splitlines()) < (saved or [0])[-1] + 5:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=60)[1]
        assert process.returncode == 143, told
        assert (
            told.splitlines()[-1]
            == "xling: stopped, what was saved counts; run the same command again to go on"
        )
        marks = sorted((tmp_path / "m.partial").glob("update-*.sha256"))
        saved.append(int(marks[-1].stem.removeprefix("update-")))
        assert not list(tmp_path.glob(".*.lease"))
    assert 5 <= saved[0] < saved[1] < 60
    assert forked.run(*command).returncode == 0
    run(config.load(PretrainConfig, overrides=[*words, f"out={tmp_path}/plain"]))
    assert (
        manifest.read(tmp_path / "m").files["model.pt"] == manifest.read(tmp_path / "plain").files["model.pt"]
    )
