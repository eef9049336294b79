"""Ways of fine-tuning: what each adds to the loss and to the gradients, and what it keeps."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.transfer.test_tune import FAST, KINDS, labels, rows
from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.data.packing import pack
from xling.eval.systems import FitConfig
from xling.transfer import tune
from xling.transfer.regime import TuningOptimizer
from xling.transfer.settings import TuneConfig
from xling.transfer.strategies import ewc
from xling.transfer.strategies.self_distillation import SelfDistillation
from xling.transfer.strategy import STRATEGIES, Start

CFG = replace(FAST, epochs=2, lr=1e-3)
TEXT = "The teacher sees a red boat\nMy neighbour likes fresh bread\n\nThe doctor sells books\n"


@pytest.fixture
def old_text(tmp_path: Path) -> str:
    path = tmp_path / "old.txt"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def start_of(model: Path, cfg: TuneConfig, kind: str = "tag") -> tuple[Start, tune.TunedModel]:
    tuned = fine_tune(model, kind, labels(kind), rows(kind), replace(CFG, epochs=1))[-1]
    tuned.model.requires_grad_(True)
    masters = TuningOptimizer(tuned.model, cfg).encoder_masters
    return Start(model, "en", cfg, [tuned.model], masters), tuned


def test_the_settings_name_every_strategy() -> None:
    for config in (TuneConfig, FitConfig):
        assert sorted(get_args(get_type_hints(config)["method"])) == sorted(STRATEGIES)


@pytest.mark.parametrize("method", ["self_distillation", "ewc"])
def test_every_head_learns_with_every_strategy(model: Path, old_text: str, method: str) -> None:
    given = {"old_text": old_text} if method == "ewc" else {}
    for kind in KINDS:
        plain, changed = (
            fine_tune(model, kind, labels(kind), rows(kind), each)[-1].model
            for each in (CFG, replace(CFG, method=method, strength=50.0, **given))
        )
        assert not torch.equal(plain.encoder.tokens.weight, changed.encoder.tokens.weight), kind


def test_the_teacher_is_the_mean_of_the_last_models_worked_by_hand(model: Path) -> None:
    start, tuned = start_of(model, replace(CFG, method="self_distillation", teacher_steps=2, strength=0.5))
    made, network = SelfDistillation(start), tuned.model.eval()
    sample = pack([example for _, example in tuned.encode(rows("tag"))])
    given = sample, network(sample), network.log_probabilities(sample)
    assert made.added_loss(network, *given) is None, "the first update has no teacher"
    past = []
    for step in (1.0, 2.0, 4.0):  # the first of three is forgotten
        made.before_step()
        past.append(copy.deepcopy(network))
        with torch.no_grad():
            for weight in network.parameters():
                weight.add_(0.01 * step)
    teacher = copy.deepcopy(network)
    with torch.no_grad():
        for weight, *both in zip(
            teacher.parameters(), past[1].parameters(), past[2].parameters(), strict=True
        ):
            weight.copy_((both[0] + both[1]) / 2)
    logits = network(sample)
    found = made.added_loss(network, sample, logits, logits)
    assert found is not None
    torch.testing.assert_close(found, 0.5 * F.mse_loss(logits, teacher(sample)))
    found.backward()
    assert network.classifier.weight.grad is not None
    assert all(weight.grad is None for weight in teacher.parameters())
    again = SelfDistillation(start)
    again.restore(made.state())
    torch.testing.assert_close(again.added_loss(network, sample, logits, logits), found)


def test_the_pull_of_ewc_worked_by_hand(model: Path, old_text: str) -> None:
    cfg = replace(CFG, method="ewc", old_text=old_text, strength=3.0)
    start, tuned = start_of(model, cfg)
    importance = ewc.fisher_information(start)
    made = ewc.ElasticWeights(start)
    name = "encoder.layers.0.up.weight"
    weight, head = start.masters[name], tuned.model.classifier.weight
    with torch.no_grad():
        weight.add_(2.0)
    weight.grad, head.grad = torch.full_like(weight, 0.25), torch.full_like(head, 0.25)
    made.add_gradients()
    torch.testing.assert_close(weight.grad, 0.25 + 3.0 * importance[name] * 2.0)
    assert torch.equal(head.grad, torch.full_like(head, 0.25))


def test_fisher_information_of_a_model_worked_by_hand() -> None:
    """Of a Bernoulli variable with the logit w it is p (1 - p), whatever is drawn on average."""
    logit = torch.nn.Parameter(torch.tensor([0.7]))
    network = torch.nn.Module()
    network.encoder = torch.nn.ParameterList([logit])
    draws = np.random.default_rng(1)

    def losses(num: int) -> Any:
        for _ in range(num):
            both = torch.log_softmax(torch.stack([torch.zeros(1), network.encoder[0]], 1), -1)
            yield -both.gather(1, ewc.drawn(both, draws)[:, None]).sum()

    p = float(torch.sigmoid(logit.detach()))
    found = float(ewc.mean_squares(network, losses(4000), 4000)["encoder.0"])
    assert found == pytest.approx(p * (1 - p), rel=0.1)


def test_drawn_labels_are_those_of_the_model() -> None:
    shares = torch.tensor([[0.7, 0.2, 0.1]]).expand(5000, 3)
    drawn = ewc.drawn(shares.log(), np.random.default_rng(3))
    assert (drawn.bincount() / 5000).tolist() == pytest.approx([0.7, 0.2, 0.1], abs=0.03)


def test_rare_weights_of_the_old_task_matter_least(model: Path, old_text: str) -> None:
    """Pieces that no old text has are not held, and no weight is held by what is not there."""
    start, tuned = start_of(model, replace(CFG, method="ewc", old_text=old_text))
    of_pieces = ewc.fisher_information(start)["encoder.positions.weight"].sum(1)
    longest = max(len(tuned.processor.encode(line)) for line in TEXT.splitlines()) + 2
    assert of_pieces[:longest].min() > 0
    assert of_pieces[longest:].max() == 0


def test_what_an_old_task_needs_moves_less(model: Path, tmp_path: Path, old_text: str) -> None:
    """From a model of one task to another: under ewc the weights that the old one needs move less."""
    old = tmp_path / "task"
    old.mkdir()
    tuned = fine_tune(model, "classify", labels("classify"), rows("classify"), replace(FAST, epochs=20))[-1]
    tune.save_tuned(tuned, old, model, ["en"])
    cfg = replace(CFG, lr=4e-3, epochs=10)
    moved = {}
    for method, given in (("plain", {}), ("ewc", {"old_text": old_text, "strength": 1e4})):
        made = fine_tune(old, "tag", labels("tag"), rows("tag"), replace(cfg, method=method, **given))[-1]
        moved[method] = distance_by(importance_of(old, old_text), tuned.model, made.model)
    assert moved["ewc"] < 0.5 * moved["plain"]


def test_the_draws_of_ewc_leave_those_of_the_training_alone(model: Path, old_text: str) -> None:
    cfg = replace(CFG, dropout=0.3)
    plain = fine_tune(model, "tag", labels("tag"), rows("tag"), cfg)[-1].model
    weak = fine_tune(
        model,
        "tag",
        labels("tag"),
        rows("tag"),
        replace(cfg, method="ewc", old_text=old_text, strength=1e-12),
    )[-1].model
    torch.testing.assert_close(weak.classifier.weight, plain.classifier.weight)


def test_the_old_task_is_read_from_lines_of_its_kind(model: Path, tmp_path: Path, old_text: str) -> None:
    for kind, said in (("pair", "2 cells, between tabs"), ("span", "classify, pair, tag")):
        folder = tmp_path / kind
        folder.mkdir()
        tune.save_tuned(
            fine_tune(model, kind, labels(kind), rows(kind), replace(CFG, epochs=1))[-1],
            folder,
            model,
            ["en"],
        )
        with pytest.raises(UserError, match=said):
            importance_of(folder, old_text)
    (tmp_path / "pairs.tsv").write_text("a boat\tthe bread\n", encoding="utf-8")
    assert importance_of(tmp_path / "pair", str(tmp_path / "pairs.tsv"))
    (tmp_path / "none.txt").write_text("\n\n", encoding="utf-8")
    with pytest.raises(UserError, match="has no text"):
        importance_of(model, str(tmp_path / "none.txt"))


def importance_of(folder: Path, text: str) -> dict[str, torch.Tensor]:
    return ewc.fisher_information(Start(folder, "en", replace(CFG, method="ewc", old_text=text), [], {}))


def distance_by(importance: dict[str, torch.Tensor], old: torch.nn.Module, new: torch.nn.Module) -> float:
    before, after = old.state_dict(), new.state_dict()
    return sum(
        float((value * (after[name] - before[name]).square()).sum()) for name, value in importance.items()
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"strength": 2.0}, "fit.strength=2.0 changes nothing with fit.method=plain"),
        (
            {"method": "ewc", "old_text": "f", "teacher_steps": 2},
            "fit.teacher_steps=2 changes nothing with fit.method=ewc",
        ),
        ({"method": "self_distillation", "old_text": "f"}, "fit.old_text=f changes nothing"),
        ({"method": "self_distillation", "old_rows": 3}, "fit.old_rows=3 changes nothing"),
        (
            {"method": "self_distillation", "teacher_steps": 0},
            "fit.teacher_steps=0; valid: a whole number from 1",
        ),
        ({"method": "self_distillation", "strength": 0.0}, "fit.strength=0.0; valid: a number above 0"),
        (
            {"method": "self_distillation", "strength": float("nan")},
            "fit.strength=nan; valid: a number above 0",
        ),
        ({"method": "ewc"}, "fit.method=ewc without fit.old_text="),
        ({"method": "ewc", "old_text": "f", "freeze": "encoder"}, "weights of the encoder that learn"),
        ({"method": "ewc", "old_text": "f", "task_adapter": 3}, "weights of the encoder that learn"),
    ],
)
def test_mistakes_are_user_errors(model: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        fine_tune(model, "tag", labels("tag"), rows("tag"), replace(CFG, **change))
