"""int8 on a CPU: by hand, beside torch's own dynamic quantisation, and no row depends on another."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from xling.models.network.encoder import EncoderConfig, EncoderModel
from xling.models.network.int8 import Int8Embedding, Int8Linear, quantise, round_to_int8

SHAPE = EncoderConfig(layers=2, dim=64, heads=4, ffn_dim=128, dropout=0.0, max_positions=16)


def build() -> EncoderModel:
    torch.manual_seed(2)
    model = EncoderModel(SHAPE, 50).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


def test_rounding_worked_by_hand() -> None:
    values, scales = round_to_int8(torch.tensor([[1.27, -0.5, 0.004], [0.0, 0.0, 0.0]]))
    assert values.tolist() == [[127, -50, 0], [0, 0, 0]]
    assert scales[0].item() == pytest.approx(0.01) and torch.isfinite(scales).all()


@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(2, 40), st.integers(1, 40))
def test_a_layer_is_within_its_rounding(seed: int, rows: int, wide: int, out: int) -> None:
    torch.manual_seed(seed)
    linear, x = nn.Linear(wide, out), torch.randn(rows, wide) * 3
    found = Int8Linear(linear)(x)
    # |x w - x' w'| <= sum |x - x'| |w| + |x'| |w - w'|, each rounded to at most half a step of 1/127 of the largest.
    step_x, step_w = x.abs().amax(1) / 254, linear.weight.detach().abs().amax(1) / 254
    bound = (
        step_x[:, None] * linear.weight.detach().abs().sum(1)
        + (x.abs() + step_x[:, None]).sum(1)[:, None] * step_w
    )
    assert ((found - linear(x)).detach().abs() <= bound + 1e-4).all()


def test_rows_do_not_depend_on_their_batch() -> None:
    model = quantise(build().encoder)
    tokens, positions = torch.randint(4, 50, (12,)), torch.arange(6).repeat(2)
    both = model(tokens, positions, [(2, 6)])
    alone = torch.cat([model(tokens[i : i + 6], positions[:6], [(1, 6)]) for i in (0, 6)])
    torch.testing.assert_close(both, alone)


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor, torch.quantize_per_channel:UserWarning")
def test_no_further_from_float32_than_torchs_own_dynamic_quantisation() -> None:
    wanted, ours = build().encoder, quantise(build().encoder)
    theirs = torch.ao.quantization.quantize_dynamic(build().encoder, {nn.Linear}, dtype=torch.qint8)
    batch = torch.randint(4, 50, (40,)), torch.arange(10).repeat(4), [(4, 10)]
    with torch.inference_mode():
        states = [m(*batch) for m in (wanted, ours, theirs)]
    assert error(states[1], states[0]) < 0.03
    assert error(states[1], states[0]) < 1.2 * error(states[2], states[0])


def _num_bytes(model):
    return sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers()))


def test_every_matrix_is_in_eight_bits_and_the_rest_as_it_was() -> None:
    before, made = build().encoder, quantise(build().encoder)
    parts = {name: type(part) for name, part in made.named_modules()}
    assert parts["tokens"] is parts["positions"] is Int8Embedding
    assert parts["layers.1.qkv"] is parts["layers.0.down"] is Int8Linear
    assert not any(t in (nn.Linear, nn.Embedding) for t in parts.values())
    assert torch.equal(made.layers[0].attn_norm.weight, before.layers[0].attn_norm.weight)
    assert 0.24 < _num_bytes(made) / _num_bytes(before) < 0.32


def test_bfloat16_weights_are_taken_as_they_are() -> None:
    linear = nn.Linear(8, 4).to(torch.bfloat16)
    found = Int8Linear(linear)(torch.randn(3, 8))
    assert found.dtype == torch.float32
    assert torch.equal(Int8Linear(linear).values, round_to_int8(linear.weight.detach().float())[0])


def test_a_layer_that_reads_one_number_stays_in_float() -> None:
    made = quantise(nn.Sequential(nn.Linear(4, 1), nn.Linear(1, 4)))
    assert isinstance(made[0], Int8Linear) and isinstance(made[1], nn.Linear)  # type: ignore[index]
