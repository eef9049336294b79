"""Relative positions: the buckets of T5, biases that a packed batch, a mask, a cache and bfloat16 all agree on."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from xling.data.packing import pack, runs_of
from xling.models.network.attention import Attention, attend
from xling.models.network.encoder import Encoder, EncoderConfig
from xling.models.network.int8 import quantise
from xling.models.network.positions import RelativeBiases

SHAPE = {
    "norm": "rms", "embedding_norm": False, "biases": False, "positions": "relative", "ffn": "gated_gelu",
    "head_dim": 12, "pre_norm": True,
}  # fmt: skip


def build(**more: object) -> Encoder:
    torch.manual_seed(1)
    cfg = EncoderConfig(layers=2, dim=16, heads=2, ffn_dim=24, dropout=0.0, **SHAPE | more)  # type: ignore[arg-type]
    made = Encoder(cfg, 50).double()
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    return made


@pytest.mark.parametrize("causal", [False, True])
def test_buckets_are_those_of_t5(causal: bool) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    offsets = torch.arange(-3000, 3001)
    theirs = T5Attention._relative_position_bucket(offsets, bidirectional=not causal)
    found = RelativeBiases(2, causal).bucket_of(offsets)
    assert torch.equal(found, theirs) and len(found.unique()) == (32 if causal else 31)


def test_a_bias_stands_where_its_distance_is() -> None:
    relative = RelativeBiases(1)
    with torch.no_grad():
        relative.table.weight.copy_(torch.arange(32.0)[:, None])
    # Keys before the query are in buckets 0 to 15 by their distance, those behind it in 16 to 31.
    assert relative(3, torch.device("cpu"))[0].tolist() == [[0, 17, 18], [1, 0, 17], [2, 1, 0]]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_attention_adds_the_bias_to_the_scores(causal: bool, seen: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    query, key, value = (torch.randn(13, 2, 8, dtype=torch.float64) for _ in range(3))
    sees, shows = (torch.randint(2, (13,)) if seen else None for _ in range(2))
    bias = torch.randn(2, 5, 5, dtype=torch.float64)
    how = Attention([(2, 5), (1, 3)], causal, sees, shows, bias=bias.to(dtype))
    found = attend(*(x.to(dtype) for x in (query, key, value)), how)
    for begin, end in ((0, 5), (5, 10), (10, 13)):
        length = end - begin
        scores = torch.einsum("ihc,jhc->hij", query[begin:end], key[begin:end]) / math.sqrt(8)
        scores = scores + bias[:, :length, :length]
        mask = torch.ones(length, length, dtype=torch.bool)
        if sees is not None and shows is not None:
            mask = (sees[begin:end, None] == shows[None, begin:end]) | torch.eye(length, dtype=torch.bool)
        mask = mask.tril() if causal else mask
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        wanted = torch.einsum("hij,jhc->ihc", weights, value[begin:end]).flatten(1)
        near = 1e-9 if dtype == torch.float64 else 0.05
        torch.testing.assert_close(found[begin:end].double(), wanted, atol=near, rtol=near)


def test_a_packed_batch_learns_what_its_sequences_teach_alone() -> None:
    model, lengths = build(), (150, 9, 9, 2)
    draw = np.random.default_rng(3)
    examples = [
        {"id": np.array([i]), "tokens": draw.integers(4, 50, n), "positions": np.arange(n)}
        for i, n in enumerate(lengths)
    ]
    model(**pack(examples)["net_input"]).square().sum().backward()
    together = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    alone = build()
    for example in examples:
        alone(**pack([example])["net_input"]).square().sum().backward()
    assert together["relative.table.weight"].abs().sum(1).ne(0).sum() == 31  # one bucket is nobody's
    for name, parameter in alone.named_parameters():
        torch.testing.assert_close(together[name], parameter.grad)


def test_no_position_has_an_end() -> None:
    """Longer texts than ``max_positions`` are a matter of memory alone."""
    model = build(max_positions=4)
    tokens = torch.arange(4, 44)
    states = model(tokens, torch.arange(40), runs_of([40]))
    assert states.shape == (40, 16) and states.isfinite().all()


@pytest.mark.parametrize(("ffn", "acts"), [("relu", F.relu), ("gelu", F.gelu)])
def test_the_block_between_norms_worked_out(ffn: str, acts: object) -> None:
    model = build(ffn=ffn)
    layer, x = model.layers[0], torch.randn(5, 16, dtype=torch.float64)
    normed = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * layer.attn_norm.weight
    torch.testing.assert_close(layer.attn_norm(x), normed)
    assert layer.qkv.weight.shape == (3 * 24, 16) and layer.up.weight.shape == (24, 16)
    how = Attention(runs_of([5]))
    out = x + layer.out(attend(*layer.qkv(normed).view(5, 3, 2, 12).unbind(1), how))
    normed = out / (out.square().mean(-1, keepdim=True) + 1e-5).sqrt() * layer.ffn_norm.weight
    wanted = out + acts(normed @ layer.up.weight.T) @ layer.down.weight.T  # type: ignore[operator]
    torch.testing.assert_close(layer(x, how), wanted)
    assert not [name for name, _ in layer.named_parameters() if name.endswith("bias")]


def test_eight_bits_keep_the_biases_near() -> None:
    batch = torch.arange(4, 44), torch.arange(10).repeat(4), [(4, 10)]
    with torch.inference_mode():
        wanted = build().float().eval()(*batch)
        found = quantise(build())(*batch)
    assert (found - wanted).norm() / wanted.norm() < 0.05
