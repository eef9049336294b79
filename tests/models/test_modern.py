"""Rotary positions, shape, gated blocks and first weights, against their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from xling.core.errors import UserError
from xling.data.packing import pack
from xling.models.network import attention
from xling.models.network.attention import Attention, attend
from xling.models.network.encoder import Encoder, EncoderConfig, EncoderModel
from xling.models.network.rope import rotate, rotation_angles
from xling.models.network.seq2seq import Seq2SeqConfig, Seq2SeqModel
from xling.models.shape import windows_of

MODERN: dict[str, Any] = {
    "norm": "unshifted", "biases": False, "pre_norm": True, "first_norm": False, "positions": "rope",
    "attention": "local:4/global:2", "ffn": "geglu", "head_biases": False,
}  # fmt: skip


def build(dtype: torch.dtype = torch.float64, **more: Any) -> Encoder:
    torch.manual_seed(1)
    cfg = EncoderConfig(layers=3, dim=16, heads=2, ffn_dim=24, dropout=0.0, **MODERN | more)
    made = Encoder(cfg, 50).to(dtype)
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    return made


def texts(*lengths: int) -> list[dict[str, Any]]:
    draw = np.random.default_rng(3)
    return [
        {"id": np.array([i]), "tokens": draw.integers(4, 50, n), "positions": np.arange(n)}
        for i, n in enumerate(lengths)
    ]


def by_hand(q: Tensor, k: Tensor, v: Tensor, how: Attention) -> Tensor:
    """Attention of each sequence with the whole square of scores and a mask."""
    made, begin = [], 0
    for count, length in how.runs:
        for _ in range(count):
            rows = slice(begin, begin + length)
            begin += length
            offset = torch.arange(length)[None] - torch.arange(length)[:, None]
            seen = offset.abs() <= how.window
            if how.sees is not None and how.shows is not None:
                seen &= (how.sees[rows, None] == how.shows[None, rows]) | (offset == 0)
            if how.causal:
                seen &= offset <= 0
            scores = torch.einsum("ihc,jhc->hij", q[rows], k[rows]) / math.sqrt(q.shape[-1])
            weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
            made.append(torch.einsum("hij,jhc->ihc", weights, v[rows]).flatten(1))
    return torch.cat(made)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 60)), min_size=1, max_size=4),
    st.integers(1, 9), st.booleans(), st.booleans(), st.integers(0, 1 << 20),
)  # fmt: skip
def test_a_window_shows_what_its_definition_says(
    runs: list[tuple[int, int]], window: int, causal: bool, marked: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    total = sum(count * length for count, length in runs)
    q, k, v = (torch.randn(total, 2, 4, dtype=torch.float64) for _ in range(3))
    marks = (torch.randint(2, (total,)) if marked else None for _ in range(2))
    how = Attention(runs, causal, *marks, window=window)
    torch.testing.assert_close(attend(q, k, v, how), by_hand(q, k, v, how))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_window_costs_its_width_and_not_the_length(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    dense = attention.attend_dense

    def counted(q: Tensor, k: Tensor, *rest: Any, **more: Any) -> Tensor:
        seen.append(q.shape[0] * q.shape[2] * k.shape[2])
        return dense(q, k, *rest, **more)

    monkeypatch.setattr(attention, "attend_dense", counted)
    x = torch.randn(4096, 1, 8).to(dtype)
    attend(x, x, x, Attention([(1, 4096)], window=64))
    assert sum(seen) == 4096 * 3 * 64
    seen.clear()
    attend(x[:150], x[:150], x[:150], Attention([(1, 150)], window=64))
    assert sum(seen) == 150 * 150


def test_gradients_are_those_of_the_function() -> None:
    torch.manual_seed(2)
    q, k, v = (torch.randn(13, 1, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    how = Attention([(1, 9), (1, 4)], window=2)
    assert torch.autograd.gradcheck(lambda *x: attend(*x, how), (q, k, v))
    turn = rotation_angles(torch.arange(13), 4, 100.0, torch.float64)
    assert torch.autograd.gradcheck(lambda x: rotate(x[:, None], turn), (q,))
    layer = build(qk_norm=True).layers[1]
    x = torch.randn(13, 16, dtype=torch.float64, requires_grad=True)
    turn = rotation_angles(torch.arange(13), 8, 100.0, torch.float64)
    assert torch.autograd.gradcheck(lambda x: layer(x, Attention([(1, 13)], window=2, turn=turn)), (x,))


def test_a_rotated_score_depends_on_the_distance_alone() -> None:
    torch.manual_seed(4)
    q, k = (torch.randn(8, dtype=torch.float64).expand(30, 1, 1, 8) for _ in range(2))
    turn = rotation_angles(torch.arange(30), 8, 50.0, torch.float64)
    scores = rotate(q, turn).flatten(1) @ rotate(k, turn).flatten(1).T
    for distance in (-7, 0, 5):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert (scores[0, 1:] - scores[0, 0]).abs().min() > 1e-6


@pytest.mark.parametrize("more", [{}, {"qk_norm": True, "ffn": "swiglu"}, {"attention": "global"}])
def test_a_packed_batch_gives_and_learns_what_its_sequences_do_alone(more: dict[str, Any]) -> None:
    model, alone, examples = build(**more), build(**more), texts(60, 9, 9, 2)
    packed = pack(examples)
    states = model(**packed["net_input"])
    states.square().sum().backward()
    single = [alone(**pack([examples[i]])["net_input"]) for i in packed["id"].tolist()]
    torch.testing.assert_close(states, torch.cat(single))
    torch.cat(single).square().sum().backward()
    for (name, one), other in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert one.grad is not None and one.grad.abs().max() > 0, name
        torch.testing.assert_close(one.grad, other.grad)


def test_a_token_is_seen_within_the_windows_and_behind_a_global_layer() -> None:
    tokens, places = torch.full((1, 40), 7).flatten(), torch.arange(40)
    changed = tokens.clone()
    changed[20] = 8
    near = build(attention="local:4/global:9")
    moved = (near(tokens, places, [(1, 40)]) - near(changed, places, [(1, 40)])).abs().amax(1) > 1e-9
    assert moved.all()  # the first layer is global
    first, second = (
        list(near.states(near.tokens(t), places, Attention([(1, 40)]))) for t in (tokens, changed)
    )
    how = near.by_layer(Attention([(1, 40)]), places, first[0])[1]
    moved = (near.layers[1](first[0], how) - near.layers[1](second[0], how)).abs().amax(1) > 1e-9
    assert moved.nonzero().flatten().tolist() == [18, 19, 20, 21, 22]


@pytest.mark.parametrize(
    "text", ["local", "local:128", "local:7/global:3", "local:0/global:3", "local:8/global:0", ""]
)
def test_an_attention_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(UserError, match=r"model\.attention="):
        windows_of(text, 4)


def test_bases_differ_by_the_kind_of_layer() -> None:
    model, text = build(), texts(30)
    batch = pack(text)["net_input"]
    kinds = model.by_layer(Attention([(1, 30)]), batch["positions"], torch.zeros(30, 16, dtype=torch.float64))
    assert [kind.window for kind in kinds] == [0, 2, 0]
    for window, theta in ((0, 160_000.0), (1, 10_000.0)):
        assert kinds[window].turn is not None
        torch.testing.assert_close(
            kinds[window].turn[0], rotation_angles(torch.arange(30), 8, theta, torch.float64)[0]
        )
    assert not torch.allclose(model(**batch), build(global_theta=10_000.0)(**batch))
    assert not torch.allclose(model(**batch), build(local_theta=160_000.0)(**batch))


def test_first_weights_are_smaller_where_they_are_added_to_the_states() -> None:
    cfg = EncoderConfig(layers=8, dim=64, heads=2, ffn_dim=256, init="megatron", **MODERN)
    model = EncoderModel(cfg, 500)
    for layer in model.encoder.layers:
        for name, wanted in (("qkv", 0.02), ("up", 0.02), ("out", 0.005), ("down", 0.005)):
            assert getattr(layer, name).weight.std().item() == pytest.approx(wanted, rel=0.1), name
    names = [name for name, _ in model.named_parameters() if name.endswith("bias")]
    assert names == ["lm_head.bias"]
    assert isinstance(model.encoder.layers[0].attn_norm, torch.nn.Identity)


def test_attention_out_dropout_is_its_own() -> None:
    layer = build(attention_out_dropout=0.5).layers[0]
    assert (layer.out_dropout, layer.dropout) == (0.5, 0.0) and build().layers[0].out_dropout == 0.0


def test_an_encoder_decoder_takes_the_encoder_and_learns() -> None:
    from xling.data.packing import pack_seq2seq

    torch.manual_seed(1)
    cfg = Seq2SeqConfig(
        layers=2, dim=16, heads=2, ffn_dim=24, dropout=0.0, plain_head=True, qk_norm=True, **MODERN
    )
    model = Seq2SeqModel(cfg, 50)
    assert model.encoder.positions is None and model.decoder.positions is not None
    rows = [
        text | {"langs": 0 * text["tokens"], "prev_tokens": text["tokens"], "prev_positions": text["positions"],
                "prev_langs": 0 * text["tokens"], "target": text["tokens"]}
        for text in texts(30, 7)
    ]  # fmt: skip
    sample = pack_seq2seq(rows)
    loss, _ = model.loss(model(**sample["net_input"]), sample["target"])
    loss.backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None or name.startswith("lm_head."), name
