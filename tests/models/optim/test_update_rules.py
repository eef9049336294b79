"""StableAdamW and Muon, against their definitions; masters, groups and resuming are `test_optim`'s."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from xling.models.network.encoder import EncoderConfig, EncoderModel
from xling.models.optim.adamw import AdamWConfig, XlingAdamW
from xling.models.optim.update_rules import COEFFICIENTS, STEPS, Rules, mark, orthogonal


def test_adamw_is_that_of_torch_and_stability_only_slows() -> None:
    torch.manual_seed(1)
    first = torch.randn(6, 4, requires_grad=True)
    second, third = (first.detach().clone().requires_grad_() for _ in range(2))
    reference = torch.optim.AdamW([first], lr=1e-2, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.1)
    plain = Rules([{"params": [second], "rule": "adamw", "weight_decay": 0.1}], 1e-2)
    stable = Rules([{"params": [third], "rule": "stable_adamw", "weight_decay": 0.1}], 1e-2)
    for number in range(12):
        if number == 6:
            torch.testing.assert_close(first, second)
        grad = torch.randn(6, 4) * (30.0 if number == 9 else 1.0)
        before = third.detach().clone()
        for weight in (first, second, third):
            weight.grad = grad.clone()
        for optimizer in (reference, plain, stable):
            optimizer.step()
        # By hand, from the moments after the step.
        state = stable.state[third]
        square = state["exp_avg_sq"] / (1 - 0.98 ** (number + 1))
        rms = float((grad.square() / square.clamp(min=1e-12)).mean().sqrt())
        rate = 1e-2 / max(1.0, rms)
        wanted = before * (1 - rate * 0.1)
        wanted -= rate / (1 - 0.9 ** (number + 1)) * state["exp_avg"] / (square.sqrt() + 1e-6)
        torch.testing.assert_close(third.detach(), wanted)
        if number == 9:
            assert rms > 2, "a sudden gradient must slow the update"
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize("shape", [(8, 8), (7, 8), (5, 12), (12, 5)])
def test_newton_schulz_brings_singular_values_near_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(2)
    matrix = torch.randn(*shape, dtype=torch.float64)
    made = orthogonal(matrix)
    assert torch.linalg.svdvals(made).min() > 0.6 and torch.linalg.svdvals(made).max() < 1.3
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    # The singular vectors stay: what is made is diagonal in them.
    inside = left.T @ made @ right.T
    torch.testing.assert_close(inside, torch.diag(inside.diagonal()), atol=1e-9, rtol=0)


@pytest.mark.parametrize("shape", [(64, 64), (48, 64), (32, 96), (96, 32)])
def test_steps_in_other_precisions_agree_with_the_definition(shape: tuple[int, int]) -> None:
    """Singular values over three orders of magnitude: none is lost, and none grows over 1.25."""
    torch.manual_seed(5)
    matrix = torch.randn(*shape) @ torch.diag(torch.logspace(0, -3, shape[1]))
    a, b, c = COEFFICIENTS
    x = matrix.double() / matrix.double().norm()
    for _ in range(STEPS):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    for dtype, within in ((torch.float32, 1e-3), (torch.bfloat16, 0.05)):
        made = orthogonal(matrix.to(dtype)).double()
        assert (made - x).norm() < within * x.norm()
        assert torch.linalg.svdvals(made).max() < 1.25


def test_muon_multiplies_in_the_dtype_of_the_working_weights() -> None:
    steps = []
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(6)
        layer = nn.ModuleDict({"out": nn.Linear(64, 64, bias=False)})
        model = nn.ModuleDict({"layers": nn.ModuleList([layer])}).to(dtype)
        mark(model)
        optimizer = XlingAdamW(AdamWConfig(rule="muon", lr=[1.0], weight_decay=0.0), model.parameters())
        before = optimizer.masters[0].detach().clone()
        optimizer.masters[0].grad = torch.randn(64, 64)
        optimizer._optimizer.step()
        steps.append(optimizer.masters[0].detach() - before)
    exact, rounded = steps
    assert 1e-3 < (exact - rounded).norm() / exact.norm() < 0.05


def test_a_step_of_muon_worked_out() -> None:
    torch.manual_seed(3)
    weight = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    optimizer = Rules([{"params": [weight], "rule": "muon", "weight_decay": 0.1, "parts": 2}], 1e-2)
    buffer = torch.zeros(6, 4, dtype=torch.float64)
    for _ in range(3):
        before, weight.grad = weight.detach().clone(), torch.randn(6, 4, dtype=torch.float64)
        buffer = 0.95 * buffer + 0.05 * weight.grad
        wanted = 0.05 * weight.grad + 0.95 * buffer
        halves = [0.2 * 2.0 * orthogonal(half) for half in wanted.chunk(2)]
        optimizer.step()
        torch.testing.assert_close(weight.detach(), before * (1 - 1e-3) - 1e-2 * torch.cat(halves))


@pytest.mark.parametrize(("ffn", "up"), [("gelu", 1), ("geglu", 2)])
def test_muon_takes_the_matrices_of_layers_and_adamw_the_rest(ffn: str, up: int) -> None:
    model = EncoderModel(EncoderConfig(layers=2, dim=8, heads=2, ffn_dim=12, ffn=ffn), 30)
    mark(model)
    names = {id(p): name for name, p in model.named_parameters()}
    made = XlingAdamW(AdamWConfig(rule="muon", lr=[1e-3], weight_decay=0.1), model.parameters())
    by_rule: dict[str, dict[str, int]] = {"muon": {}, "adamw": {}}
    for group in made.param_groups:
        for parameter in group["params"]:
            by_rule[group["rule"]][names[id(parameter)]] = group["parts"]
            assert (group["weight_decay"] > 0) == (parameter.dim() > 1)
    wanted = {"qkv": 3, "out": 1, "up": up, "down": 1}
    assert by_rule["muon"] == {
        f"encoder.layers.{i}.{name}.weight": n for i in (0, 1) for name, n in wanted.items()
    }
    assert "encoder.tokens.weight" in by_rule["adamw"] and "lm_head.dense.weight" in by_rule["adamw"]


@pytest.mark.parametrize("rule", ["stable_adamw", "muon"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_restored_state_goes_on_exactly(rule: str, dtype: torch.dtype) -> None:
    def build() -> tuple[EncoderModel, XlingAdamW]:
        torch.manual_seed(4)
        model = EncoderModel(EncoderConfig(layers=1, dim=8, heads=2, ffn_dim=12, dropout=0.0), 30).to(dtype)
        mark(model)
        return model, XlingAdamW(AdamWConfig(rule=rule, lr=[1e-2]), model.parameters())

    def step(model: EncoderModel, optimizer: XlingAdamW, seed: int) -> None:
        optimizer.zero_grad()
        tokens = torch.randint(4, 30, (12,), generator=torch.Generator().manual_seed(seed))
        total, _ = model.lm_head.loss(model(tokens, torch.arange(12), [(1, 12)]), tokens)
        optimizer.backward(total)
        optimizer.multiply_grads(0.5)
        optimizer.step()

    model, optimizer = build()
    first = next(model.parameters()).detach().clone()
    for number in range(6):
        if number == 3:
            saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        step(model, optimizer, number)
    again, other = build()
    again.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    for number in range(3, 6):
        step(again, other, number)
    assert not torch.equal(first, next(model.parameters()))
    for one, two in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)
    for one, two in zip(optimizer.masters, other.masters, strict=True):
        assert one.dtype == torch.float32 and torch.equal(one, two)
