"""The language adversary: what its discriminator learns, and what of it reaches the encoder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from xling.models.network.adversary import Discriminator, losses, reverse_gradient


def test_the_gradient_is_reversed_and_the_value_is_not() -> None:
    x = torch.tensor([[1.0, -2.0]], requires_grad=True)
    y = reverse_gradient(x, 0.25)
    (y * torch.tensor([[4.0, 8.0]])).sum().backward()
    assert torch.equal(y, x) and x.grad is not None
    torch.testing.assert_close(x.grad, torch.tensor([[-1.0, -2.0]]))


def test_the_critic_compares_the_means_of_a_language_and_of_the_others() -> None:
    numbers = torch.tensor([[1.0, 0.0, 5.0], [3.0, 0.0, 5.0], [8.0, 6.0, 5.0]])
    rows = losses(numbers, torch.tensor([0, 0, 1]), "wgan")
    # Language 0: others 8, own 2; language 1: others 0, own 6; language 2 has no sentence.
    assert float(rows.mean()) == pytest.approx(((8 - 2) + (0 - 6)) / 2)
    assert not losses(numbers, torch.tensor([1, 1, 1]), "wgan").any(), "one language alone"
    classes = losses(numbers, torch.tensor([2, 2, 0]), "classes")
    assert classes[0] == pytest.approx(-float(torch.log_softmax(numbers[0], 0)[2]))


def test_a_critic_uses_clipped_weights_and_all_of_them_learn() -> None:
    torch.manual_seed(1)
    free, bound = Discriminator(6, 3), Discriminator(6, 3, clip=0.1)
    bound.load_state_dict(free.state_dict())
    x = torch.randn(4, 6)
    outputs = bound(x)
    outputs.square().sum().backward()
    assert bound.dense.weight.grad is not None and (bound.dense.weight.grad != 0).all()
    with torch.no_grad():
        for weight in free.parameters():
            weight.clamp_(-0.1, 0.1)
    torch.testing.assert_close(outputs, free(x))
    assert bound.dense.weight.abs().max() > 0.1


def gradients(build: Any, *words: str) -> dict[str, torch.Tensor]:
    trainer, task = build("lang_adversary", "model.dropout=0", *words)
    task.load_dataset("train")
    dataset, model = task.dataset("train"), trainer.get_model()
    sample = dataset.collater([dataset[i] for i in range(0, len(dataset), len(dataset) // 8)])
    model.set_num_updates(2)
    task.objectives["lang_adversary"].loss(model, sample).total.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_reversal_scales_what_reaches_the_encoder_and_nothing_else(build: Any, pooling: str) -> None:
    how = f"objectives.lang_adversary.pooling={pooling}"
    found = {r: gradients(build, f"objectives.lang_adversary.reversal={r}", how) for r in (0, 1, 2)}
    own = [name for name in found[1] if name.startswith("extras.")]
    assert len(own) == 4
    for name, gradient in found[1].items():
        if name in own:
            torch.testing.assert_close(found[2][name], gradient)
            torch.testing.assert_close(found[0][name], gradient)
        else:
            torch.testing.assert_close(found[2][name], 2 * gradient, atol=1e-6, rtol=1e-4)
            assert not found[0][name].any(), f"a probe changes {name}"
    slow = gradients(build, "objectives.lang_adversary.reversal=1", "objectives.lang_adversary.warmup=8", how)
    name = "encoder.layers.1.up.weight"
    torch.testing.assert_close(slow[name], found[1][name] / 4, atol=1e-6, rtol=1e-4)


def test_a_discriminator_sees_no_language_but_through_the_text(build: Any) -> None:
    """The same sentence under another label has the same numbers: the label enters the loss alone."""
    trainer, task = build("lang_adversary", "model.dropout=0")
    task.load_dataset("train")
    dataset, model = task.dataset("train"), trainer.get_model().eval()
    sample = dataset.collater([dataset[0], dataset[len(dataset) - 1]])
    seen: list[torch.Tensor] = []
    model.extras["lang_adversary"].register_forward_hook(lambda _m, _i, out: seen.append(out.detach()))
    for target in (sample["target"], (sample["target"] + 1) % 3):
        task.objectives["lang_adversary"].loss(model, sample | {"target": target})
    assert torch.equal(seen[0], seen[1])


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        (["objectives.lang_adversary.clip=0.1"], "clip=0.1 changes nothing .* needs form=wgan"),
        (
            ["objectives.lang_adversary.reversal=0", "objectives.lang_adversary.warmup=5"],
            "warmup=5 changes nothing .* needs reversal above 0",
        ),
        (["langs=en"], "monolingual text in en; valid: text in two languages or more"),
        (["objectives.lang_adversary.form=gan"], "unknown value for objectives.lang_adversary.form"),
    ],
)
def test_mistakes_are_named(
    bitext: Path, refused: Callable[..., None], tmp_path: Path, words: list[str], pattern: str
) -> None:
    refused(pattern, bitext, "lang_adversary", tmp_path / "out", *words)
