"""AdamW on float32 masters."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from xling.models.optim.adamw import AdamWConfig, Share, XlingAdamW

BETAS, EPS, DECAY, LR = (0.9, 0.98), 1e-6, 0.1, 3e-3


def model(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 3)).to(dtype)


def ours(net: nn.Module) -> XlingAdamW:
    cfg = AdamWConfig(beta1=BETAS[0], beta2=BETAS[1], eps=EPS, weight_decay=DECAY, lr=[LR])
    return XlingAdamW(cfg, net.parameters())


def theirs(net: nn.Module) -> torch.optim.AdamW:
    params = list(net.parameters())
    groups = [
        {"params": [p for p in params if p.dim() > 1], "weight_decay": DECAY},
        {"params": [p for p in params if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)


def batches(count: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(5, 8, generator=generator) for _ in range(count)]


def loss_of(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    dtype = next(net.parameters()).dtype
    return net(x.to(dtype)).float().square().mean()


def step(
    net: nn.Module, optimizer: XlingAdamW, x: torch.Tensor, factor: float = 1.0, clip: float = 0.0
) -> float:
    optimizer.zero_grad()
    optimizer.backward(loss_of(net, x))
    optimizer.multiply_grads(factor)
    norm = optimizer.clip_grad_norm(clip)
    optimizer.step()
    return float(norm)


@pytest.mark.parametrize("clip", [0.0, 0.05, 1e3])
def test_float32_equals_torch(clip: float) -> None:
    mine, other = model(torch.float32), model(torch.float32)
    optimizer, reference = ours(mine), theirs(other)
    for number, x in enumerate(batches(20)):
        for each in (optimizer, reference):
            for group in getattr(each, "_optimizer", each).param_groups:
                group["lr"] = LR / (number + 1)
        norm = step(mine, optimizer, x, 0.5, clip)
        reference.zero_grad()
        (loss_of(other, x) * 0.5).backward()
        wanted = nn.utils.clip_grad_norm_(other.parameters(), clip or float("inf"))
        assert norm == pytest.approx(float(wanted), rel=1e-5)
        reference.step()
    for a, b in zip(mine.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


def test_a_later_optimiser_of_the_same_weights_takes_their_gradients_alone() -> None:
    # A resumed run builds a second one while the collector has not freed the first.
    once, twice = model(torch.bfloat16), model(torch.bfloat16)
    optimizer, earlier, later = ours(once), ours(twice), ours(twice)
    for x in batches(3):
        assert step(twice, later, x) == step(once, optimizer, x) > 0
    assert all(torch.equal(a, b) for a, b in zip(once.parameters(), twice.parameters(), strict=True))
    assert all(master.grad is None for master in earlier.masters)


def test_a_share_learns_at_its_rate_from_the_first_step() -> None:
    net = model(torch.float32)
    before = [p.detach().clone() for p in net.parameters()]
    shares = [Share(scale=0.5 if n < 2 else 1.0) for n in range(len(before))]
    optimizer = XlingAdamW(AdamWConfig(eps=1e-12, weight_decay=0.0, lr=[LR]), net.parameters(), shares)
    step(net, optimizer, batches(1)[0])
    for old, new, share in zip(before, net.parameters(), shares, strict=True):
        # Adam's first step is the rate itself, whatever the gradient.
        moved = float((new.detach() - old).abs().max())
        assert moved == pytest.approx(LR * share.scale, rel=1e-3)


def test_biases_and_norms_do_not_decay() -> None:
    net = model(torch.float32)
    optimizer = ours(net)
    decays = {id(p): g["weight_decay"] for g in optimizer._optimizer.param_groups for p in g["params"]}
    assert {name: decays[id(p)] for name, p in net.named_parameters()} == {
        "0.weight": DECAY, "0.bias": 0.0, "1.weight": 0.0, "1.bias": 0.0, "2.weight": DECAY, "2.bias": 0.0,
    }  # fmt: skip


def test_bfloat16_weights_are_rounded_masters_that_keep_small_updates() -> None:
    net = model(torch.bfloat16)
    optimizer = ours(net)
    before = [m.clone() for m in optimizer.masters]
    optimizer.set_lr(1e-6)  # far below the resolution of bfloat16
    for x in batches(3):
        step(net, optimizer, x)
    for weight, master in zip(optimizer.working, optimizer.masters, strict=True):
        assert weight.dtype == torch.bfloat16 and master.dtype == torch.float32
        assert torch.equal(weight, master.bfloat16())
        assert weight.grad is None
    moved = [not torch.equal(m, old) for m, old in zip(optimizer.masters, before, strict=True)]
    assert all(moved)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_restored_optimizer_goes_on_exactly(dtype: torch.dtype) -> None:
    straight = model(dtype)
    optimizer = ours(straight)
    data = batches(8)
    saved: dict[str, Any] = {}
    for number, x in enumerate(data):
        if number == 4:
            saved = copy.deepcopy({"model": straight.state_dict(), "optimizer": optimizer.state_dict()})
        step(straight, optimizer, x)
    resumed = model(dtype)
    again = ours(resumed)
    resumed.load_state_dict(saved["model"])
    again.load_state_dict(saved["optimizer"])
    for x in data[4:]:
        step(resumed, again, x)
    for a, b in zip(straight.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(optimizer.masters, again.masters, strict=True):
        assert torch.equal(a, b)


def test_masters_are_not_rebuilt_from_rounded_weights() -> None:
    net = model(torch.bfloat16)
    optimizer = ours(net)
    optimizer.set_lr(1e-6)
    for x in batches(3):
        step(net, optimizer, x)
    again = ours(model(torch.bfloat16))
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert all(torch.equal(a, b) for a, b in zip(optimizer.masters, again.masters, strict=True))
    assert any(not torch.equal(m, w.float()) for m, w in zip(again.masters, again.working, strict=True))
    for master, weight in zip(again.masters, again.working, strict=True):
        assert torch.equal(master.to(torch.bfloat16), weight)  # the weights are those of the state at once


def test_no_gradients_have_norm_zero() -> None:
    assert float(ours(model(torch.float32)).clip_grad_norm(1.0)) == 0.0


@pytest.mark.parametrize("accumulate", [16, 256])
def test_gradients_of_many_batches_are_summed_in_float32(accumulate: int) -> None:
    once, often = model(torch.bfloat16), model(torch.bfloat16)
    optimizers = ours(once), ours(often)
    (x,) = batches(1)
    for net, optimizer, num in zip((once, often), optimizers, (1, accumulate), strict=True):
        for _ in range(num):
            optimizer.backward(loss_of(net, x))
        optimizer.multiply_grads(1 / num)
        assert all(parameter.grad is None for parameter in net.parameters())
    for one, many in zip(*(optimizer.masters for optimizer in optimizers), strict=True):
        assert one.grad is not None and many.grad is not None and many.grad.dtype == torch.float32
        assert float((many.grad - one.grad).norm() / one.grad.norm()) < 1e-6


def test_different_batches_are_summed_as_exactly_as_they_are_made() -> None:
    net, single = model(torch.bfloat16), model(torch.bfloat16)
    optimizer = ours(net)
    wanted = [torch.zeros(p.shape, dtype=torch.float64) for p in net.parameters()]
    for x in batches(256):
        optimizer.backward(loss_of(net, x))
        single.zero_grad()
        loss_of(single, x).backward()
        for total, parameter in zip(wanted, single.parameters(), strict=True):
            assert parameter.grad is not None
            total += parameter.grad
    optimizer.multiply_grads(1.0)
    for master, total in zip(optimizer.masters, wanted, strict=True):
        assert master.grad is not None
        assert float((master.grad - total).norm() / total.norm()) < 1e-3


def test_gradients_go_to_the_optimizer_that_is_there() -> None:
    net = model(torch.bfloat16)
    for _ in range(2):  # a Trainer may build its optimiser again
        optimizer = ours(net)
    (x,) = batches(1)
    assert step(net, optimizer, x) > 0
    optimizer.zero_grad()
    assert all(master.grad is None for master in optimizer.masters)
