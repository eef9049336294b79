"""Every objective on the device and in the precisions that a training takes: as in float32 on a CPU.

XLING_DEVICE names the device, else the GPU is taken where there is one.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from xling.objectives import OBJECTIVES

DEVICE = os.environ.get("XLING_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
# What draws within a loss draws other numbers on another device.
SETTINGS = {"xlco": ("objectives.xlco.mix=0",), "umt": ("objectives.umt.sample=false",)}
LIMITS = {"fp32": (1e-5, 1e-3), "bf16": (2e-2, 0.15)}  # of losses, of gradients: relative
TINY_GRADIENTS = ("xlco",)  # its loss is all but 0 at the start, when both encoders are the same


def moved(sample: Any) -> Any:
    if isinstance(sample, torch.Tensor):
        return sample.to(DEVICE)
    if isinstance(sample, list):
        return [moved(each) for each in sample]
    return {key: moved(value) for key, value in sample.items()} if isinstance(sample, dict) else sample


def outcome(task: Any, model: Any, sample: Any) -> tuple[float, torch.Tensor]:
    """The mean loss, and all gradients in one vector."""
    (only,) = task.objectives.values()
    made = only.loss(model, sample)
    (made.total / max(made.num, 1)).backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters() if p.requires_grad]
    return float(made.total.detach()) / max(made.num, 1), torch.cat(
        [g.flatten().double().cpu() for g in grads]
    )


@pytest.mark.parametrize("precision", ["bf16"] if DEVICE == "cpu" else ["fp32", "bf16"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_losses_and_gradients_are_those_of_a_cpu(
    name: str, precision: str, build: Any, record_property: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("model.dropout=0", *SETTINGS.get(name, ()))
    (trainer, task), (second, other_task) = (
        build(name, f"model.precision={kind}", *settings) for kind in ("fp32", precision)
    )
    torch.set_float32_matmul_precision("highest")  # a training on a GPU takes TF32
    task.load_dataset("train")
    dataset = task.dataset("train")
    batch = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=256)[0]
    sample = dataset.collater([dataset[int(i)] for i in batch])
    ours, other = trainer.get_model().cpu().train(), second.get_model().to(DEVICE).train()
    other.load_state_dict(ours.state_dict())
    draw = torch.randint
    monkeypatch.setattr(
        torch, "randint", lambda *given, device=None, **more: draw(*given, **more).to(device or "cpu")
    )
    torch.manual_seed(1)
    wanted, wanted_grads = outcome(task, ours, sample)
    torch.manual_seed(1)
    found, grads = outcome(other_task, other, moved(sample))
    loss, gradient = (
        abs(found - wanted) / abs(wanted),
        float((grads - wanted_grads).norm() / wanted_grads.norm()),
    )
    record_property("loss", f"{loss:.1e}")
    record_property("gradients", f"{gradient:.1e}")
    largest, largest_gradient = LIMITS[precision]
    assert loss < largest
    assert gradient < largest_gradient or name in TINY_GRADIENTS
