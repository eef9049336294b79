"""Gradual unfreezing, layer-wise rates, L2-SP and task adapters: what each does to the weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.rows import Sentence
from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.models.files import model_weights
from xling.models.network import adapters
from xling.models.network.encoder import Encoder, EncoderConfig
from xling.transfer import tune
from xling.transfer.heads import TaskModel
from xling.transfer.regime import TuningOptimizer, lowest_trained_part, part_number
from xling.transfer.tune import TuneConfig

LABELS = ("boat", "bread")
CFG = TuneConfig(lr=1e-3, epochs=2, batch_rows=4, dropout=0.0, max_length=32, precision="fp32", clip=0.0)


ROWS = [
    Sentence("The teacher sees a red boat", "boat"),
    Sentence("My neighbour likes fresh bread", "bread"),
] * 8


def task_model() -> TaskModel:
    torch.manual_seed(1)
    shape = EncoderConfig(layers=2, dim=16, heads=2, ffn_dim=16, max_positions=32, dropout=0.0)
    return TaskModel(Encoder(shape, 40), "classify", LABELS, 0.0)


def start(ckpt: Path) -> dict[str, torch.Tensor]:
    return model_weights.load_model(ckpt)[0].encoder.state_dict()


def changed(tuned: tune.TunedModel, before: dict[str, torch.Tensor]) -> set[str]:
    after = tuned.model.encoder.state_dict()
    return {name for name, weight in before.items() if not torch.equal(weight, after[name])}


def distance(tuned: tune.TunedModel, before: dict[str, torch.Tensor]) -> float:
    after = tuned.model.encoder.state_dict()
    return float(sum((after[name] - weight).square().sum() for name, weight in before.items()))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("encoder.tokens.weight", 0),
        ("encoder.positions.weight", 0),
        ("encoder.norm.bias", 0),
        ("encoder.invertible.first.up.weight", 0),
        ("encoder.layers.0.qkv.weight", 1),
        ("encoder.layers.11.adapters.task.up.bias", 12),
        ("encoder.final_norm.weight", 12),
        ("dense.weight", 13),
        ("classifier.bias", 13),
        ("norm.weight", 13),
    ],
)
def test_parts_are_numbered_from_below(name: str, part: int) -> None:
    assert part_number(name, 12) == part


def test_layers_join_from_the_top_evenly() -> None:
    # Three layers: parts 0 to 4. After the first quarter of two epochs the third layer joins, and so on.
    times = [0.0, 0.4, 0.5, 0.9, 1.0, 1.5, 1.9, 2.0, 3.0]
    assert [lowest_trained_part(t, 2.0, 3) for t in times] == [4, 4, 3, 3, 2, 1, 1, 0, 0]
    assert lowest_trained_part(0.0, 0.0, 3) == 0


def test_gradual_unfreezing_leaves_the_encoder_at_first(model: Path) -> None:
    before = start(model)
    first, second = fine_tune(model, "classify", LABELS, ROWS, replace(CFG, unfreeze_epochs=1.5))
    # Four updates an epoch: the last of the first one, three quarters in, is half way to 1.5, where of three steps one
    # is made. The upper layer has joined the head; the lower one and the embeddings have not.
    assert changed(first, before) and all(name.startswith("layers.1.") for name in changed(first, before))
    assert "tokens.weight" in changed(second, before)
    plain = fine_tune(model, "classify", LABELS, ROWS, CFG)[0]
    assert "tokens.weight" in changed(plain, before)
    alone = fine_tune(model, "classify", LABELS, ROWS[:4], replace(CFG, unfreeze_epochs=2.0))[0]
    assert not changed(alone, before)


def test_frozen_embeddings_do_not_thaw(model: Path) -> None:
    cfg = replace(CFG, unfreeze_epochs=0.5, freeze_embeddings=True)
    assert "tokens.weight" not in changed(fine_tune(model, "classify", LABELS, ROWS, cfg)[-1], start(model))


def test_frozen_layers_stay_with_the_embeddings(model: Path) -> None:
    tuned = fine_tune(model, "classify", LABELS, ROWS, replace(CFG, freeze_layers=1))[-1]
    assert changed(tuned, start(model)) and all(
        name.startswith("layers.1.") for name in changed(tuned, start(model))
    )
    for num, said in ((3, "at most 2"), (-1, "from 0")):
        with pytest.raises(UserError, match=said):
            fine_tune(model, "classify", LABELS, ROWS, replace(CFG, freeze_layers=num))


def test_learning_rates_fall_from_layer_to_layer() -> None:
    model = task_model()
    made = TuningOptimizer(model, replace(CFG, layer_decay=0.5))
    made.optimizer.set_lr(8.0)
    rates = {id(p): group["lr"] for group in made.optimizer.param_groups for p in group["params"]}
    found = {name: rates[id(p)] for name, p in model.named_parameters()}
    for prefix, rate in (
        ("encoder.tokens", 1.0),
        ("encoder.layers.0", 2.0),
        ("encoder.layers.1", 4.0),
        ("classifier", 8.0),
    ):
        assert {lr for name, lr in found.items() if name.startswith(prefix)} == {rate}, prefix


def test_the_first_step_of_a_layer_is_as_long_as_its_rate() -> None:
    # Adam's first step is the learning rate in every coordinate with a gradient that is not tiny.
    model = task_model()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    made = TuningOptimizer(model, replace(CFG, layer_decay=0.5, weight_decay=0.0))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    made.optimizer.set_lr(0.08)
    made.optimizer.step()
    moved = {name: float((before[name] - p.detach()).mean()) for name, p in model.named_parameters()}
    assert moved["classifier.weight"] == pytest.approx(0.08, rel=1e-3)
    assert moved["encoder.layers.1.up.weight"] == pytest.approx(0.04, rel=1e-3)
    assert moved["encoder.positions.weight"] == pytest.approx(0.01, rel=1e-3)


def test_under_a_task_adapter_nothing_else_of_the_encoder_learns(model: Path, tmp_path: Path) -> None:
    before = start(model)
    made = fine_tune(model, "classify", LABELS, ROWS, replace(CFG, lr=1e-2, epochs=80, task_adapter=16))[-1]
    assert not changed(made, before)
    more = made.model.encoder.state_dict().keys() - before.keys()
    assert more and all(".adapters.task." in name for name in more)
    assert made.model.encoder.layers[0].adapters["task"].up.weight.abs().sum() > 0
    assert made.predict(ROWS) == [row.label for row in ROWS]
    tune.save_tuned(made, tmp_path, model, ["en"])
    again = tune.load_tuned(tmp_path)
    assert again.model.encoder.cfg.task_adapter == 16
    for name, weight in made.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name


def test_a_task_adapter_learns_at_the_rate_of_its_layer(model: Path) -> None:
    encoder = task_model().encoder
    encoder.requires_grad_(False)
    adapters.add_adapter(encoder, adapters.TASK_ADAPTER, 3)
    whole = TaskModel(encoder, "classify", LABELS, 0.0)
    made = TuningOptimizer(whole, replace(CFG, task_adapter=3, layer_decay=0.5))
    made.optimizer.set_lr(1.0)
    rates = {id(p): group["lr"] for group in made.optimizer.param_groups for p in group["params"]}
    assert [rates[id(layer.adapters["task"].up.weight)] for layer in encoder.layers] == [0.25, 0.5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer_decay": 0.0}, r"fit.layer_decay=0.0; valid: above 0, at most 1"),
        ({"layer_decay": 1.5}, r"fit.layer_decay=1.5; valid"),
        ({"layer_decay": float("nan")}, r"fit.layer_decay=nan; valid"),
        ({"unfreeze_epochs": 3.0}, r"fit.unfreeze_epochs=3.0; valid: 0 to fit.epochs=2"),
        ({"task_adapter": -3}, r"fit.task_adapter=-3; valid: a width from 1"),
        ({"task_adapter": 3, "unfreeze_epochs": 1.0}, r"fit.task_adapter with .*; valid: one of them"),
    ],
)
def test_mistakes_are_user_errors(model: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        fine_tune(model, "classify", LABELS, ROWS, replace(CFG, **change))


def test_the_settings_of_an_evaluation_reach_fine_tuning() -> None:
    from xling.eval.systems import FitConfig

    names = {"layer_decay", "unfreeze_epochs", "task_adapter"}
    assert names <= FitConfig.__dataclass_fields__.keys() & TuneConfig.__dataclass_fields__.keys()
    for name in names:
        assert getattr(FitConfig(), name) == getattr(TuneConfig(), name)
