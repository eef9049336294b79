"""Adapters: the identity at first, invertible where they say so, one on top of the other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from xling.models.network import adapters, encoder
from xling.models.network.adapters import Adapter, InvertibleAdapter
from xling.models.network.attention import Attention
from xling.models.network.encoder import EncoderConfig, EncoderModel, Layer

SHAPE: dict[str, Any] = {
    "layers": 2, "dim": 8, "heads": 2, "ffn_dim": 16, "dropout": 0.0, "max_positions": 12,
}  # fmt: skip
ALL: dict[str, Any] = {"lang_adapter": 3, "task_adapter": 2, "invertible": True}
BATCH = {"src_tokens": torch.tensor([0, 5, 7, 2, 0, 9, 2]), "positions": torch.tensor([0, 1, 2, 3, 0, 1, 2])}
RUNS = [(1, 4), (1, 3)]


def build(seed: int = 3, **settings: Any) -> EncoderModel:
    torch.manual_seed(seed)
    return EncoderModel(EncoderConfig(**(SHAPE | settings)), 11).eval()


def shaken(module: torch.nn.Module) -> Any:
    """The module with weights that are not small."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


@pytest.mark.parametrize("pre_norm", [False, True])
def test_new_adapters_change_nothing(pre_norm: bool) -> None:
    plain = shaken(build(pre_norm=pre_norm))
    more = build(pre_norm=pre_norm, **ALL)
    missing, unexpected = more.load_state_dict(plain.state_dict(), strict=False)
    assert missing and all(adapters.is_adapter(name) for name in missing) and not unexpected
    before, after = (m(**BATCH, runs=RUNS) for m in (plain, more))
    assert torch.equal(before, after)
    assert torch.equal(plain.lm_head.logits(before), more.lm_head.logits(after))


def test_without_adapters_the_weights_are_those_of_before() -> None:
    names = build().state_dict().keys()
    assert not any(adapters.is_adapter(name) for name in names)
    fresh, more = build(), build(**ALL)
    assert all(
        torch.equal(w, more.state_dict()[n]) for n, w in fresh.encoder.state_dict(prefix="encoder.").items()
    )


@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_layer_with_two_adapters_worked_by_hand(pre_norm: bool) -> None:
    layer: Layer = shaken(build(pre_norm=pre_norm, **ALL)).encoder.layers[0]
    x, attended = torch.randn(5, 8), torch.randn(5, 8)
    middle = x + layer.out(attended)
    middle = middle if pre_norm else layer.attn_norm(middle)
    r = layer.down(F.gelu(layer.up(layer.ffn_norm(middle) if pre_norm else middle)))

    def norm(h: Tensor) -> Tensor:
        return h if pre_norm else layer.ffn_norm(h)

    for name in ("lang", "task"):
        a: Any = layer.adapters[name]
        h = norm(middle + r)
        r = r + F.relu(h @ a.down.weight.T + a.down.bias) @ a.up.weight.T + a.up.bias
    torch.testing.assert_close(encoder.after_attention(layer, x, attended), norm(middle + r))


def test_the_bottleneck_has_its_width() -> None:
    made = build(**ALL)
    assert made.encoder.layers[1].adapters["lang"].down.weight.shape == (3, 8)
    assert made.encoder.layers[1].adapters["task"].up.weight.shape == (8, 2)
    assert made.encoder.invertible.first.down.weight.shape == (2, 4)


@given(st.integers(0, 2**31), st.sampled_from([2, 6, 8, 30]))
def test_the_inverse_undoes_it(seed: int, dim: int) -> None:
    torch.manual_seed(seed)
    made = shaken(InvertibleAdapter(dim)).double()
    x = torch.randn(7, dim, dtype=torch.float64)
    assert not torch.equal(made(x), x)
    torch.testing.assert_close(made.inverse(made(x)), x)
    torch.testing.assert_close(made(made.inverse(x)), x)


def test_the_invertible_adapter_is_undone_before_the_output_embeddings() -> None:
    model = shaken(build(**ALL))
    hidden = torch.randn(4, 8)
    head = model.lm_head
    wanted = model.encoder.invertible.inverse(head.norm(F.gelu(head.dense(hidden))))
    assert torch.equal(head.transform(hidden), wanted)
    torch.testing.assert_close(head.logits(hidden), wanted @ model.encoder.tokens.weight.T + head.bias)
    names = [name for name in model.state_dict() if "invertible" in name]
    assert len(names) == 8 and all(name.startswith("encoder.") for name in names)


def test_a_copy_of_a_model_has_its_own_invertible_adapter() -> None:
    model = shaken(build(**ALL))
    made = copy.deepcopy(model)
    hidden = torch.randn(4, 8)
    before = made.lm_head.logits(hidden)
    with torch.no_grad():
        model.encoder.invertible.first.up.bias.add_(1)
    assert torch.equal(made.lm_head.logits(hidden), before)
    with torch.no_grad():
        made.encoder.invertible.first.up.bias.add_(1)
    assert not torch.equal(made.lm_head.logits(hidden), before)


def test_the_invertible_adapter_reads_the_embeddings() -> None:
    model = shaken(build(**ALL))
    seen = []
    model.encoder.layers[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model(**BATCH, runs=RUNS)
    e = model.encoder
    words = e.norm(e.tokens(BATCH["src_tokens"]) + e.positions(BATCH["positions"]))
    torch.testing.assert_close(seen[0], e.invertible(words))


def test_moving_takes_language_adapters_and_leaves_those_of_the_task() -> None:
    source, target = shaken(build(4, **ALL)).encoder, shaken(build(5, **ALL)).encoder
    before = {k: v.clone() for k, v in target.state_dict().items()}
    adapters.move_language_adapters(source, target)
    for name, weight in target.state_dict().items():
        moved = "adapters.lang" in name or "invertible" in name
        assert torch.equal(weight, (source.state_dict() if moved else before)[name]), name


def test_adapters_learn_through_checkpointed_activations() -> None:
    grads = []
    for again in (False, True):
        model = shaken(build(checkpoint_activations=again, **(ALL | {"lang_adapter": 16}))).train()
        torch.manual_seed(1)
        (model(**BATCH, runs=RUNS) * torch.randn(7, 8)).sum().backward()
        grads.append(model.encoder.layers[0].adapters["lang"].down.weight.grad)
    assert torch.equal(*grads) and grads[0].abs().sum() > 0


def test_attention_is_as_it_was() -> None:
    layer = shaken(build(**ALL)).encoder.layers[0]
    x = torch.randn(7, 8)
    assert layer(x, Attention(RUNS)).shape == x.shape
    assert isinstance(layer.adapters["lang"], Adapter)
