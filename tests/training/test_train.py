"""Pre-training: it learns, it repeats itself, and it says how it goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.training.conftest import Pretrain, events, identical, settings, weights
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.progress import Progress
from xling.core.sampling import alpha_shares
from xling.core.settings import config
from xling.data.packing import pack
from xling.models.files import model_weights
from xling.models.files.model_folder import ENCODER
from xling.objectives import OBJECTIVES
from xling.objectives.base import load_dictionary
from xling.text.files.shards import open_shard
from xling.training import assemble, train, update


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
    net, langs = model_weights.load_model(model)
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


def test_loader_workers_make_the_same_batches(pretrain: Pretrain) -> None:
    wanted = weights(pretrain("none", "train.updates=6"))
    assert identical(weights(pretrain("with", "train.updates=6", "train.workers=2")), wanted)


def test_saving_and_validating_do_not_change_the_weights(pretrain: Pretrain) -> None:
    often = pretrain("a", "train.save_every=1", "train.valid_every=1", "train.log_every=1")
    never = pretrain("b", "train.save_every=1000", "train.valid_every=1000", "train.log_every=1000")
    assert identical(weights(often), weights(never))


def test_a_published_model_holds_no_code_and_comes_back(model: Path) -> None:
    state = torch.load(model / "model.pt", weights_only=True)
    assert state["format"] == ENCODER
    assert all(tensor.dtype == torch.float32 for tensor in state["weights"].values())
    net, langs = model_weights.load_model(model, dropout=0.3)
    assert langs == ["ar", "en", "th"] and net.cfg.dropout == 0.3
    assert net.lm_head.weight is net.encoder.tokens.weight
    for name, tensor in state["weights"].items():
        assert torch.equal(net.state_dict()[name], tensor)


def test_random_init_has_the_shape_but_not_the_weights(model: Path) -> None:
    trained, _ = model_weights.load_model(model)
    torch.manual_seed(1)
    fresh, langs = model_weights.load_model(model, random_init=True)
    assert langs == ["ar", "en", "th"]
    first, second = trained.state_dict(), fresh.state_dict()
    assert {k: v.shape for k, v in first.items()} == {k: v.shape for k, v in second.items()}
    assert not torch.equal(first["encoder.tokens.weight"], second["encoder.tokens.weight"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"no checkpoint at .*; fix: run `xling pretrain` first"),
        (
            b"no archive at all",
            r"model.pt is damaged, or holds code or objects besides tensors and plain values",
        ),
        ({"format": "another"}, r"model.pt was not written by xling"),
        ([1], r"model.pt was not written by xling"),
    ],
)
def test_what_is_no_checkpoint_is_a_user_error(tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / "model.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(UserError, match=message):
        model_weights.load_model(tmp_path)


def test_it_says_once_how_long_the_rest_will_take(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(update.Clock, "WARM", 2)
    monkeypatch.setattr(update.Clock, "TIMED", 3)
    out = pretrain("out", "train.updates=9")
    said = [line for line in capsys.readouterr().err.splitlines() if "updates left" in line]
    assert len(said) == 1 and said[0].startswith(f"pretrain {out}: 4 updates left, about 0.")
    assert said[0].endswith(" min without validation")


def test_progress_counts_every_update(pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []
    update = Progress.update

    def note(self: Progress, count: int = 1, note: str = "") -> None:
        update(self, count, note)
        shown.append(self.done)

    monkeypatch.setattr(Progress, "update", note)
    pretrain("out", "train.updates=5", "train.log_every=4")
    assert shown == [0, 1, 2, 3, 4, 5]


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

    monkeypatch.setattr(update, "memory_kept", kept)
    cfg = settings(shards, tiny, tmp_path / "out", "train.updates=1")
    train.run(cfg, lambda *_: events.append("validated") or {})  # type: ignore[func-returns-value]
    train.run(replace(cfg, dry_run=True))
    assert events == ["kept", "validated", "given back", "kept", "given back"]


def test_float32_products_of_a_gpu_are_tf32(
    shards: Path, tiny: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SetError(Exception):
        pass

    def setting(precision: str) -> None:
        raise SetError(precision)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", setting)
    with pytest.raises(SetError, match=r"^high$"):
        assemble.build_trainer(settings(shards, tiny, tmp_path / "out"), tmp_path)
