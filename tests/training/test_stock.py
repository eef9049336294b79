"""Stock fairseq on the same weights and batches: the same losses, before and after updates.

What is left of the settings in which the two differ is switched off here: dropout, weight decay (stock decays biases
and norms as well) and the epsilon of Adam (stock adds it before the second moment is corrected, torch behind).
"""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from xling.core.settings import config
from xling.hub.layouts import FAIRSEQ, to_layout
from xling.training import assemble
from xling.training.settings import PretrainConfig

# Stock calls things that hydra and torch have renamed.
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)
UPDATES = 10
SHAPE = SimpleNamespace(layers=2, dim=32, heads=2, length=32, batch_tokens=256, updates=40, lr=3e-3)


@pytest.fixture
def both(shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, Any]:
    """Our trainer, stock's with the same weights, and the function that turns our batches into stock's."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2])
    made = importlib.import_module("benchmarks.stock")
    words = [
        f"data={shards}", f"out={tmp_path}", "objectives.mmlm.tokens_per_sample=32", "model.layers=2", "model.dim=32",
        "model.heads=2", "model.ffn_dim=128", "model.max_positions=32", "model.precision=fp32", "model.dropout=0",
        "train.updates=40", "train.lr=3e-3", "train.warmup=4", "train.clip=1.0", "train.weight_decay=0",
        "train.batch_tokens=256",
    ]  # fmt: skip
    ours, _ = assemble.build_trainer(config.load(PretrainConfig, overrides=words), tmp_path)
    stock = made.stock(shards, SHAPE, 1, "mmlm")
    weights = to_layout(ours.model.state_dict(), FAIRSEQ)
    tied = {"encoder.lm_head.weight": weights["encoder.sentence_encoder.embed_tokens.weight"]}
    stock.model.load_state_dict(weights | tied)
    for module in stock.model.modules():
        if type(module).__name__ == "FairseqDropout":
            module.p = 0.0
    for group in (*ours.optimizer._optimizer.param_groups, *stock.optimizer.optimizer.param_groups):
        group["eps"], group["weight_decay"] = 1e-20, 0.0
    return ours, stock, made.as_roberta


def batches(trainer: Any) -> Any:
    itr = trainer.get_train_iterator(1, load_dataset=True)
    return itr.next_epoch_itr(fix_batches_to_gpus=False, shuffle=False)


def loss(trainer: Any, sample: dict[str, Any]) -> float:
    """Mean loss of a batch in nats, not rounded as what is logged."""
    with torch.no_grad():
        total, num, _ = trainer.criterion(trainer.model.eval(), sample)
    return float(total) / float(num)


def test_losses_are_those_of_stock_through_ten_updates(both: tuple[Any, Any, Any]) -> None:
    ours, stock, as_roberta = both
    ours.lr_step(1), stock.lr_step(1)
    seen = []
    for sample in itertools.islice(batches(ours), UPDATES):
        same = as_roberta(sample)
        seen.append(loss(ours, sample))
        assert seen[-1] == pytest.approx(loss(stock, same), abs=1e-5), f"after {len(seen) - 1} updates"
        ours.train_step([sample]), stock.train_step([same])
        assert ours.get_lr() == stock.get_lr()
    assert len(seen) == UPDATES and seen[-1] < seen[0]
    made = to_layout(ours.model.state_dict(), FAIRSEQ)
    there = stock.model.state_dict()
    for name, tensor in made.items():
        # Where a gradient is all but 0 (the keys' bias), Adam divides noise by noise.
        if not name.endswith("k_proj.bias"):
            torch.testing.assert_close(
                there[name], tensor, atol=1e-4, rtol=1e-3, msg=lambda m, n=name: f"{n}: {m}"
            )


def test_stock_masks_the_ends_of_sentences_and_ours_does_not(both: tuple[Any, Any, Any]) -> None:
    """Why training losses cannot be compared: what is easy is among stock's targets."""
    ours, stock, _ = both
    targets = [
        torch.cat([sample["target"].flatten() for sample in batches(trainer)]) for trainer in (ours, stock)
    ]
    mine, theirs = (target[target != 1] for target in targets)
    assert (mine >= 4).all()
    assert {0, 2} <= set(theirs.tolist())
