"""ModernBERT in and out: the logits and gradients of transformers, from either spelling of its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from xling.core.errors import UserError
from xling.data.packing import runs_of
from xling.hub import modernbert
from xling.models.encoder import EncoderModel

SMALL = {
    "vocab_size": 90, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 5, "num_attention_heads": 2,
    "max_position_embeddings": 512, "local_attention": 12, "pad_token_id": 1, "bos_token_id": 0, "cls_token_id": 0,
    "eos_token_id": 2, "sep_token_id": 2,
}  # fmt: skip


def theirs(kind: str = "ModernBertForMaskedLM", **more: Any) -> Any:
    import transformers

    torch.manual_seed(5)
    config = transformers.ModernBertConfig(**SMALL | more)
    config._attn_implementation = "eager"
    made = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return made


def ours_of(model: Any) -> EncoderModel:
    shape = modernbert.shape_of(model.config.to_dict(), Path("here"))
    shape.dropout = 0.0
    made = EncoderModel(shape, SMALL["vocab_size"])
    missing, odd = made.load_state_dict(modernbert.inwards(model.state_dict(), shape, "here"), strict=False)
    assert missing == ["lm_head.weight"] and not odd
    return made


def batch(lengths: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(6)
    padded = torch.ones(len(lengths), max(lengths), dtype=torch.int64)
    for row, length in zip(padded, lengths, strict=True):
        row[:length] = torch.randint(4, 90, (length,))
    real = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    places = torch.arange(max(lengths)).expand_as(padded)
    return padded, real, padded[real], places[real]


@pytest.mark.parametrize(
    "more",
    [{}, {"hidden_activation": "silu"}, {"layer_types": ["full_attention"] * 5},
     {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500.0},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 90.0}}}],
)  # fmt: skip
def test_a_packed_batch_scores_and_learns_as_the_padded_one_of_transformers(more: dict[str, Any]) -> None:
    model, lengths = theirs(**more), (70, 41, 12, 12, 3)
    mine = ours_of(model)
    padded, real, tokens, places = batch(lengths)
    wanted = model(input_ids=padded, attention_mask=real.long()).logits[real]
    found = mine.lm_head.logits(mine(tokens, places, runs_of(lengths)))
    assert (found - wanted).abs().max() <= 1e-5 * wanted.abs().max()
    torch.manual_seed(7)
    weights = torch.randn_like(wanted) / wanted.numel()
    (wanted * weights).sum().backward()
    (found * weights).sum().backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    named = dict(mine.named_parameters())
    for ours, name in modernbert.names(5).items():
        torch.testing.assert_close(named[ours].grad, gradients[name], atol=1e-5, rtol=1e-4)


def test_both_spellings_of_the_settings_are_one_shape() -> None:
    sizes = {name: SMALL.get(name) for name in modernbert.SIZES}
    old = sizes | {"global_rope_theta": 70.0, "local_rope_theta": 30.0, "global_attn_every_n_layers": 2}
    kinds = ["full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    new = sizes | {
        "layer_types": kinds,
        "rope_parameters": {
            "full_attention": {"rope_theta": 70.0},
            "sliding_attention": {"rope_theta": 30.0},
        },
    }
    first, second = (modernbert.shape_of(told, Path("x")) for told in (old, new))
    assert first == second and (first.global_theta, first.local_theta) == (70.0, 30.0)
    assert first.attention == "local:128/global:2"
    usual = modernbert.shape_of(sizes, Path("x"))
    assert (usual.global_theta, usual.local_theta, usual.attention) == (
        160_000.0,
        10_000.0,
        "local:128/global:3",
    )
    written = modernbert.hf_config(first, 90, 1, 0, 2)
    for dropped in ({"rope_parameters", "layer_types"}, {"global_rope_theta", "local_rope_theta"}):
        told = {name: value for name, value in written.items() if name not in dropped}
        assert modernbert.shape_of(told, Path("x")) == first


@pytest.mark.parametrize(
    ("told", "said"),
    [({"norm_bias": True}, "norm_bias"), ({"hidden_activation": "relu"}, "hidden_activation"),
     ({"layer_types": ["sliding_attention"] * 5}, "layer_types"),
     ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "yarn")],
)  # fmt: skip
def test_settings_that_have_no_equal_are_refused(told: dict[str, Any], said: str) -> None:
    sizes = {name: SMALL.get(name) for name in modernbert.SIZES}
    with pytest.raises(UserError, match=said):
        modernbert.shape_of(sizes | told, Path("here"))
