"""Pre-training: it learns, it repeats itself, and it goes on where it was killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from xling import assemble, log, train
from xling.core import config, manifest
from xling.core.errors import UserError
from xling.core.sampling import alpha_shares
from xling.data.packing import pack
from xling.data.shards import open_shard
from xling.models import checkpoint
from xling.objectives import OBJECTIVES
from xling.objectives.base import load_dictionary
from xling.settings import PretrainConfig
from xling.update import Updates

Pretrain = Callable[..., Path]
SCHEDULE = ("train.updates=24", "train.save_every=4", "train.valid_every=12", "train.lr=3e-3")


@pytest.fixture
def pretrain(shards: Path, tiny: tuple[str, ...], tmp_path: Path) -> Pretrain:
    """Pre-train in this process; returns the published directory."""

    def run(name: str, *words: str) -> Path:
        train.run(settings(shards, tiny, tmp_path / name, *words))
        return tmp_path / name

    return run


def settings(shards: Path, tiny: tuple[str, ...], out: Path, *words: str) -> PretrainConfig:
    # The same name in both runs: the run key of a checkpoint holds all settings.
    given = [*tiny, *SCHEDULE, f"data={shards}", f"out={out}", *words]
    return config.load(PretrainConfig, overrides=given)


def weights(directory: Path) -> dict[str, torch.Tensor]:
    made: dict[str, torch.Tensor] = torch.load(directory / "model.pt", weights_only=True)["weights"]
    return made


def identical(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


def events(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]


def test_it_overfits_one_batch(shards: Path, tiny: tuple[str, ...], tmp_path: Path) -> None:
    words = (
        "train.updates=150",
        "train.lr=1e-2",
        "train.warmup=10",
        "model.dropout=0",
        "train.batch_tokens=128",
    )
    trainer, task = assemble.build_trainer(settings(shards, tiny, tmp_path / "out", *words), tmp_path)
    task.load_dataset("train")
    data = task.dataset("train")
    sample = data.collater([data[index] for index in range(4)])
    trainer.get_train_iterator(1, load_dataset=False)
    losses = [float(trainer.train_step([sample])["loss"]) for _ in range(100)]
    assert losses[0] > 4 and losses[-1] < 0.1, (losses[0], losses[-1])


class Scripted:
    """Stands for a generator whose numbers are written down."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def answer(self, *arguments: Any) -> Any:
        return self.answers.pop(0)

    random = permutation = integers = answer


def test_a_masked_batch_worked_by_hand() -> None:
    import numpy as np

    from xling.data.masking import MaskRule
    from xling.objectives.mmlm import example

    rule = MaskRule(prob=0.5, leave=0.1, random=0.1, mask_id=9, first_piece=4, end_piece=9)
    # <s> p p p </s> <unk> p p: six pieces may be chosen? No: <s>, </s> and <unk> never are, so five, half is 2.5.
    tokens = np.array([0, 4, 5, 6, 2, 3, 7, 8])
    script = Scripted(
        0.6,  # 2.5 + 0.6 = 3.1: three are chosen
        np.array([7, 2, 6, 1, 3]),  # an order of the candidates 1, 2, 3, 6, 7
        np.array([0.05, 0.95, 0.15]),  # position 2 is left, 6 masked, 7 replaced
        np.array([4, 4, 5]),  # pieces drawn for each
    )
    made = example(tokens, rule, script)  # type: ignore[arg-type]
    assert made["chosen"].tolist() == [2, 6, 7]
    assert made["tokens"].tolist() == [0, 4, 5, 6, 2, 3, 9, 5]
    assert made["target"].tolist() == [5, 7, 8]
    assert made["positions"].tolist() == list(range(8))
    assert script.answers == []


def test_the_loss_is_the_mean_cross_entropy_at_the_chosen_positions(model: Path, shards: Path) -> None:
    """The validation losses in the log, computed again from the published weights with torch alone."""
    net, langs = checkpoint.load_model(model)
    net.eval()
    recipe = manifest.read(model).config
    settings_ = {"data": str(shards), "seed": "1"} | recipe["objectives"]["mmlm"]
    mmlm = OBJECTIVES["mmlm"]
    made = mmlm(config.from_dict(mmlm.config, settings_), load_dictionary(shards), langs)
    data = made.dataset(shards, "valid")
    sums: dict[str, list[float]] = {lang: [] for lang in langs}
    for index in range(len(data)):
        sample = pack([data[index]])
        with torch.no_grad():
            hidden = net(**sample["net_input"])
            logits = net.lm_head.logits(hidden)[sample["chosen"]]
            rows = F.cross_entropy(logits, sample["target"], reduction="none")
        for row, lang in zip(rows.tolist(), sample["target_langs"].tolist(), strict=True):
            sums[langs[lang]].append(row)
    last = [event for event in events(model) if event["split"] == "valid"][-1]
    assert last["update"] == 30
    for lang, rows in sums.items():
        assert last[f"loss/mmlm/{lang}"] == pytest.approx(sum(rows) / len(rows), abs=2e-4)
    everything = [row for rows in sums.values() for row in rows]
    assert last["loss"] == pytest.approx(sum(everything) / len(everything), abs=2e-4)


def test_it_learns_and_logs(model: Path) -> None:
    log = events(model)
    trained = [event for event in log if event["split"] == "train"]
    assert [event["update"] for event in trained] == [5, 10, 15, 20, 25, 30]
    assert trained[-1]["loss"] < trained[0]["loss"] - 0.1
    assert all(event["tokens_per_s"] > 0 for event in trained)
    made = manifest.verify(model)
    assert made.counts["updates"] == 30 and made.counts["langs"] == ["ar", "en", "th"]
    assert sorted(made.files) == ["dict.txt", "log.jsonl", "model.pt", "spm.model"]
    assert not model.with_name("model.partial").exists()


def test_the_log_says_once_an_epoch_what_was_drawn(model: Path, shards: Path) -> None:
    log = [event for event in events(model) if event["split"] == "train"]
    epochs = [event["epoch"] for event in log if "epoch" in event]
    assert epochs == sorted(set(epochs)) and epochs[0] == 1
    there = {lang: len(open_shard(shards / lang / "train").tokens) for lang in ("ar", "en", "th")}
    drawn = {lang: log[0][f"drawn/{lang}"] for lang in there}
    assert sum(drawn.values()) == pytest.approx(sum(there.values()), rel=0.05)
    for lang, share in alpha_shares(there, 0.3).items():
        assert drawn[lang] / sum(drawn.values()) == pytest.approx(share, rel=0.05)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_same_seed_gives_the_same_weights(pretrain: Pretrain, precision: str) -> None:
    words = (f"model.precision={precision}", "train.updates=6")
    first, again, other = (
        weights(pretrain(name, *words, f"seed={seed}")) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert identical(first, again) and not identical(first, other)


def test_saving_and_validating_do_not_change_the_weights(pretrain: Pretrain) -> None:
    often = pretrain("a", "train.save_every=1", "train.valid_every=1", "train.log_every=1")
    never = pretrain("b", "train.save_every=1000", "train.valid_every=1000", "train.log_every=1000")
    assert identical(weights(often), weights(never))


class Killed(BaseException):
    """Stands for a kill inside this process."""


def stop_after(update: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Updates.make

    def stopping(self: Updates, samples: Any) -> bool:
        if self._trainer.get_num_updates() == update:
            raise Killed
        return make(self, samples)

    monkeypatch.setattr(Updates, "make", stopping)


@pytest.mark.parametrize(
    "words", [(), ("train.accumulate=2", "model.precision=bf16"), ("langs=th", "train.accumulate=3")]
)
def test_a_run_goes_on_from_every_checkpoint_to_the_same_weights(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    straight = pretrain("out", *words)
    wanted = weights(straight)
    shutil.rmtree(straight)
    # Killed after each checkpoint in turn; the tiny corpus has epochs of a few updates, so their ends are met.
    for update in (3, 5, 9, 14, 18, 23):
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


def test_killed_after_training_it_publishes_without_training_again(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_model", killed)
        with pytest.raises(Killed):
            pretrain("out")
    monkeypatch.setattr(Updates, "make", killed)
    assert manifest.verify(pretrain("out")).counts["updates"] == 24


@pytest.fixture
def interrupted(pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The partial directory of a run that was killed after update 10; checkpoints at 4 and 8."""
    with monkeypatch.context() as patch:
        stop_after(10, patch)
        with pytest.raises(Killed):
            pretrain("out")
    return tmp_path / "out.partial"


def test_as_many_checkpoints_are_kept_as_asked_for(interrupted: Path) -> None:
    names = sorted(path.name for path in interrupted.iterdir())
    pairs = [f"update-0000000{n}.{ending}" for n in (4, 8) for ending in ("pt", "sha256")]
    assert names == ["log.jsonl", *pairs]


@pytest.mark.parametrize("damage", ["cut", "flip", "missing", "no mark", "empty mark"])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(
    interrupted: Path, pretrain: Pretrain, caplog: pytest.LogCaptureFixture, damage: str
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
    elif damage == "no mark":  # killed between the two files
        mark.unlink()
    else:
        mark.write_text("")
    starts: list[int] = []
    original = log.Log

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
    assert identical(resumed, weights(pretrain("straight")))
    warned = [r.getMessage() for r in caplog.records if r.name == "xling.models.checkpoint"]
    assert len(warned) == (damage != "no mark")
    assert all("update-00000008.pt is damaged; taking the checkpoint before it" in text for text in warned)


def test_a_torn_line_of_the_log_is_dropped(interrupted: Path, pretrain: Pretrain) -> None:
    with (interrupted / "log.jsonl").open("a") as log:
        log.write('{"update": 9, "spl')
    assert [event["update"] for event in events(pretrain("out"))] == [5, 10, 12, 15, 20, 24, 24]


@pytest.mark.parametrize(
    "word", ["train.lr=1e-3", "seed=2", "model.dim=16", "model.layers=1", "langs=en", "mix=sum"]
)
def test_other_settings_do_not_take_the_checkpoint(interrupted: Path, pretrain: Pretrain, word: str) -> None:
    with pytest.raises(
        UserError, match="was made with other settings or data; fix: give the old settings again"
    ):
        pretrain("out", word)
    assert interrupted.exists()


def test_a_published_model_holds_no_code_and_comes_back(model: Path) -> None:
    state = torch.load(model / "model.pt", weights_only=True)
    assert state["format"] == checkpoint.ENCODER
    assert all(tensor.dtype == torch.float32 for tensor in state["weights"].values())
    net, langs = checkpoint.load_model(model, dropout=0.3)
    assert langs == ["ar", "en", "th"] and net.cfg.dropout == 0.3
    assert net.lm_head.weight is net.encoder.tokens.weight
    for name, tensor in state["weights"].items():
        assert torch.equal(net.state_dict()[name], tensor)


def test_random_init_has_the_shape_but_not_the_weights(model: Path) -> None:
    trained, _ = checkpoint.load_model(model)
    torch.manual_seed(1)
    fresh, langs = checkpoint.load_model(model, random_init=True)
    assert langs == ["ar", "en", "th"]
    first, second = trained.state_dict(), fresh.state_dict()
    assert {k: v.shape for k, v in first.items()} == {k: v.shape for k, v in second.items()}
    assert not torch.equal(first["encoder.tokens.weight"], second["encoder.tokens.weight"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"no checkpoint at .*; fix: run `xling pretrain` first"),
        (b"no archive at all", r"model.pt is no checkpoint of ours"),
        ({"format": "another"}, r"model.pt is no checkpoint of ours"),
        ([1], r"model.pt is no checkpoint of ours"),
    ],
)
def test_what_is_no_checkpoint_is_a_user_error(tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / "model.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(UserError, match=message):
        checkpoint.load_model(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_sigkill_at_random_updates_ends_in_the_same_weights(
    shards: Path, tiny: tuple[str, ...], tmp_path: Path, pretrain: Pretrain, precision: str
) -> None:
    words = [
        *tiny, *SCHEDULE, f"model.precision={precision}", "train.updates=150", "train.save_every=15",
        "train.log_every=1", "train.valid_every=50",
    ]  # fmt: skip
    wanted = weights(pretrain("out", *words))
    shutil.rmtree(tmp_path / "out")
    command = [
        sys.executable,
        "-m",
        "xling.cli",
        "pretrain",
        f"data={shards}",
        f"out={tmp_path / 'out'}",
        *words,
    ]
    log = tmp_path / "out.partial" / "log.jsonl"
    seen = 0
    for _ in range(2):
        target = seen + random.randint(16, 50)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
            while seen < target and child.poll() is None:
                time.sleep(0.005)
                lines = log.read_text().splitlines() if log.is_file() else []
                seen = max([seen, *(json.loads(line)["update"] for line in lines[:-1])])
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert child.returncode == -signal.SIGKILL, f"it ended by itself at update {seen}"
        assert not (tmp_path / "out").exists() and list(log.parent.glob("update-*.sha256"))
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert identical(wanted, weights(tmp_path / "out")), f"killed near update {seen}"
    assert not log.parent.exists()


def test_training_does_not_wait_for_a_checkpoint(pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write ends only when more updates were made after it had begun."""
    write, make, going_on, made = checkpoint.write_hashed, Updates.make, threading.Event(), []

    def slow(*arguments: Any) -> str:
        assert going_on.wait(60), "training waited for the checkpoint"
        return write(*arguments)

    def counting(self: Updates, samples: Any) -> bool:
        made.append(self._trainer.get_num_updates())
        if made[-1] == 6:
            going_on.set()
        return make(self, samples)

    straight = weights(pretrain("straight"))
    monkeypatch.setattr(checkpoint, "write_hashed", slow)
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
    write, make, going_on = checkpoint.write_hashed, Updates.make, threading.Event()

    def slow(*arguments: Any) -> str:
        assert going_on.wait(60)
        return write(*arguments)

    def waking(self: Updates, samples: Any) -> bool:
        if self._trainer.get_num_updates() == 7:
            going_on.set()
        return make(self, samples)

    shutil.rmtree(interrupted)
    monkeypatch.setattr(checkpoint, "write_hashed", slow)
    monkeypatch.setattr(Updates, "make", waking)
    with monkeypatch.context() as patch:
        stop_after(10, patch)
        with pytest.raises(Killed):
            pretrain("out")
    late = torch.load(interrupted / names[0], weights_only=True)["last_optimizer_state"]["masters"]
    assert all(torch.equal(a, b) for a, b in zip(masters[0], late, strict=True))


@pytest.mark.parametrize("where", ["in the file", "before the checksum"])
def test_a_write_that_breaks_off_leaves_the_checkpoint_before(
    interrupted: Path, pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    shutil.rmtree(interrupted)
    write, mark = checkpoint.write_hashed, manifest.write_atomic

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
        patch.setattr(checkpoint, "write_hashed", torn)
        patch.setattr(manifest, "write_atomic", no_mark)
        with pytest.raises(OSError, match="no space left"):
            pretrain("out")
    assert [path.name for path in interrupted.glob("*.sha256")] == ["update-00000004.sha256"]
    assert identical(weights(pretrain("out")), weights(pretrain("straight")))
    assert not list(interrupted.parent.rglob("*.tmp"))


def test_it_says_once_how_long_the_rest_will_take(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log.Clock, "WARM", 2)
    monkeypatch.setattr(log.Clock, "TIMED", 3)
    out = pretrain("out", "train.updates=9")
    said = [line for line in capsys.readouterr().err.splitlines() if "updates left" in line]
    assert len(said) == 1 and said[0].startswith(f"pretrain {out}: 4 updates left, about 0.")
    assert said[0].endswith(" min without validation")


@pytest.mark.parametrize("beta2", ["0", "1", "1.5"])
def test_beta2_is_a_setting_with_bounds(pretrain: Pretrain, beta2: str) -> None:
    with pytest.raises(UserError, match=r"train.beta2=.*; valid: a number between 0 and 1"):
        pretrain("out", f"train.beta2={beta2}")


def test_beta2_reaches_the_optimizer(shards: Path, tiny: tuple[str, ...], tmp_path: Path) -> None:
    cfg = settings(shards, tiny, tmp_path / "out", "train.beta2=0.999")
    trainer, _ = assemble.build_trainer(cfg, tmp_path)
    assert trainer.optimizer._optimizer.param_groups[0]["betas"] == (0.9, 0.999)


def test_memory_is_kept_while_it_trains(
    shards: Path, tiny: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = []

    @contextmanager
    def kept() -> Iterator[None]:
        events.append("kept")
        yield
        events.append("given back")

    monkeypatch.setattr(train.memory, "kept", kept)
    cfg = settings(shards, tiny, tmp_path / "out", "train.updates=1")
    train.run(cfg, lambda *_: events.append("validated") or {})  # type: ignore[func-returns-value]
    train.run(replace(cfg, dry_run=True))
    assert events == ["kept", "validated", "given back", "kept", "given back"]
