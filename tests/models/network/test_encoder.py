"""The encoder on packed batches: parity with single sequences and with fairseq's RoBERTa."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from torch import Tensor

from xling.data.packing import pack, runs_of
from xling.models.network import attention
from xling.models.network.attention import Attention, attend, is_unpadded
from xling.models.network.encoder import EncoderConfig, EncoderModel, num_parameters, working_dtype

VOCAB = 60


def build(dtype: torch.dtype = torch.float32, num_langs: int = 0, **settings: Any) -> EncoderModel:
    torch.manual_seed(3)
    shape = {"layers": 2, "dim": 32, "heads": 4, "ffn_dim": 48, "dropout": 0.0, "max_positions": 40}
    cfg = EncoderConfig(**(shape | settings), lang_embeddings=bool(num_langs))
    model = EncoderModel(cfg, VOCAB, num_langs)
    # Weights of BERT's small scale would hide what attention does.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.to(dtype).eval()


def sequences(lengths: tuple[int, ...]) -> list[dict[str, Any]]:
    generator = np.random.default_rng(4)
    return [
        {
            "id": np.array([number]),
            "tokens": generator.integers(4, VOCAB, length),
            "positions": np.arange(length),
            "langs": np.full(length, number % 2),
        }
        for number, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("num_langs", [0, 2])
def test_a_packed_sequence_equals_the_sequence_alone(
    dtype: torch.dtype, pre_norm: bool, num_langs: int
) -> None:
    model = build(dtype, num_langs, pre_norm=pre_norm)
    rows = sequences((7, 3, 3, 12, 1, 7))
    packed = pack(rows)
    with torch.inference_mode():
        together = model(**packed["net_input"])
        start = 0
        for number in packed["id"].tolist():
            alone = model(**pack([rows[number]])["net_input"])
            # The sums of a matrix product may be taken in another order for another number of rows.
            tolerance = 1e-5 if dtype == torch.float32 else 0.1
            torch.testing.assert_close(
                together[start : start + len(alone)], alone, atol=tolerance, rtol=tolerance
            )
            start += len(alone)
    assert start == len(together)


def test_language_embeddings_matter_and_must_be_named() -> None:
    model = build(num_langs=2)
    inputs = pack(sequences((5,)))["net_input"]
    other = model(**inputs | {"langs": 1 - inputs["langs"]})
    assert not torch.allclose(model(**inputs), other)
    inputs.pop("langs")
    with pytest.raises(AssertionError, match="the batch names no languages"):
        model(**inputs)


def test_segment_embeddings_matter_and_one_text_is_of_the_first() -> None:
    model = build(segment_embeddings=True)
    inputs = pack(sequences((5, 3)))["net_input"]
    first, second = torch.zeros(8, dtype=torch.int64), torch.tensor([0, 0, 0, 1, 1, 0, 0, 0])
    alone, both = model(**inputs), model(**inputs, segments=second)
    assert torch.equal(alone, model(**inputs, segments=first))
    assert not torch.allclose(alone[:5], both[:5]) and torch.allclose(alone[5:], both[5:], atol=1e-6)
    # What is added is the difference of two rows, and to the tokens of the second text alone.
    rows = model.encoder.segments.weight
    moved = model.encoder.tokens(inputs["src_tokens"]) + second[:, None] * (rows[1] - rows[0])
    how = Attention(inputs["runs"])
    torch.testing.assert_close(model.encoder.contextualise(moved, inputs["positions"], how), both)
    plain = build()
    assert torch.equal(plain(**inputs), plain(**inputs, segments=second))


def test_runs_must_cover_the_tokens() -> None:
    x = torch.zeros(5, 2, 4)
    with pytest.raises(AssertionError, match="runs cover 4 of 5 tokens"):
        attend(x, x, x, Attention([(2, 2)]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_causal_token_does_not_see_the_future(dtype: torch.dtype) -> None:
    model = build(dtype)
    inputs = pack(sequences((6,)))["net_input"]
    changed = inputs | {"src_tokens": inputs["src_tokens"].clone()}
    changed["src_tokens"][4:] = 5
    with torch.inference_mode():
        first, second = model(**inputs, causal=True), model(**changed, causal=True)
        both = model(**inputs), model(**changed)
    assert torch.equal(first[:4], second[:4]) and not torch.equal(first[4:], second[4:])
    assert not torch.equal(both[0][:4], both[1][:4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tokens_see_what_is_shown_to_them(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    query, key, value = (torch.randn(6, 1, 4, generator=generator).to(dtype) for _ in range(3))
    sees, shows = torch.tensor([0, 0, 1, 0, 0, 1]), torch.tensor([0, 0, 1, 1, 1, 0])
    made = attend(query, key, value, Attention([(2, 3)], sees=sees, shows=shows)).float()
    for row in range(6):
        first = 3 * (row // 3)
        allowed = [j for j in range(first, first + 3) if j == row or sees[row] == shows[j]]
        scores = (key[allowed, 0].float() @ query[row, 0].float()) / 2
        wanted = torch.softmax(scores, 0) @ value[allowed, 0].float()
        torch.testing.assert_close(made[row], wanted, atol=1e-5 if dtype == torch.float32 else 0.03, rtol=0)


def test_layers_can_be_asked_for_one_by_one() -> None:
    model = build()
    inputs = pack(sequences((5, 4)))["net_input"]
    assert torch.equal(model(**inputs, layer=2), model(**inputs))
    assert not torch.allclose(model(**inputs, layer=1), model(**inputs))


def roberta(model: EncoderModel) -> Any:
    """fairseq's RoBERTa encoder with the weights of ``model``."""
    from fairseq.models.roberta.model import RobertaEncoder, base_architecture

    cfg = model.cfg
    dictionary = Dictionary()
    for number in range(VOCAB - len(dictionary)):
        dictionary.add_symbol(f"p{number}")
    args = Namespace(
        encoder_layers=cfg.layers, encoder_embed_dim=cfg.dim, encoder_ffn_embed_dim=cfg.ffn_dim,
        encoder_attention_heads=cfg.heads, encoder_normalize_before=cfg.pre_norm, dropout=0.0, attention_dropout=0.0,
        activation_dropout=0.0, max_positions=cfg.max_positions, tokens_per_sample=cfg.max_positions,
    )  # fmt: skip
    base_architecture(args)
    made = RobertaEncoder(args, dictionary)
    theirs = {}
    ours = model.state_dict()
    stack = "sentence_encoder."
    theirs[stack + "embed_tokens.weight"] = ours["encoder.tokens.weight"]
    # RoBERTa counts positions from padding_idx + 1 = 2.
    theirs[stack + "embed_positions.weight"] = torch.cat(
        [torch.zeros(2, cfg.dim), ours["encoder.positions.weight"]]
    )
    names = {"layernorm_embedding": "norm"} | ({"layer_norm": "final_norm"} if cfg.pre_norm else {})
    for number in range(cfg.layers):
        layer, other = f"encoder.layers.{number}.", f"layers.{number}."
        for kind in ("weight", "bias"):
            for part, rows in zip("qkv", ours[f"{layer}qkv.{kind}"].chunk(3), strict=True):
                theirs[f"{stack}{other}self_attn.{part}_proj.{kind}"] = rows
        pairs = {
            "self_attn.out_proj": "out", "self_attn_layer_norm": "attn_norm", "fc1": "up", "fc2": "down",
            "final_layer_norm": "ffn_norm",
        }  # fmt: skip
        names |= {other + a: f"layers.{number}.{b}" for a, b in pairs.items()}
    for a, b in names.items():
        for kind in ("weight", "bias"):
            theirs[f"{stack}{a}.{kind}"] = ours[f"encoder.{b}.{kind}"]
    for a, b in {"dense": "dense", "layer_norm": "norm"}.items():
        for kind in ("weight", "bias"):
            theirs[f"lm_head.{a}.{kind}"] = ours[f"lm_head.{b}.{kind}"]
    theirs["lm_head.bias"], theirs["lm_head.weight"] = ours["lm_head.bias"], ours["encoder.tokens.weight"]
    missing, unexpected = made.load_state_dict(theirs, strict=False)
    assert unexpected == [] and [name for name in missing if not name.endswith("version")] == []
    return made.eval()


@pytest.mark.parametrize("pre_norm", [False, True])
def test_states_and_logits_equal_fairseqs_roberta(pre_norm: bool) -> None:
    model = build(pre_norm=pre_norm)
    other = roberta(model)
    rows = sequences((12, 9, 9, 4))  # pack keeps this order
    padded = torch.full((4, 12), 1)
    for row, example in zip(padded, rows, strict=True):
        row[: len(example["tokens"])] = torch.from_numpy(example["tokens"])
    with torch.inference_mode():
        mine = model(**{k: v for k, v in pack(rows)["net_input"].items() if k != "langs"})
        states = other(padded, features_only=True)[0]
        scores, logits = model.lm_head.logits(mine), other(padded)[0]
    real = padded != 1
    torch.testing.assert_close(mine, states[real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(scores, logits[real], atol=1e-4, rtol=1e-5)


def test_head_loss_is_the_cross_entropy_of_its_logits() -> None:
    model = build()
    hidden, target = torch.randn(9, 32), torch.arange(9) + 4
    total, rows = model.lm_head.loss(hidden, target)
    wanted = torch.nn.functional.cross_entropy(model.lm_head.logits(hidden), target, reduction="none")
    torch.testing.assert_close(rows, wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(total, wanted.sum(), atol=0, rtol=1e-5)


def test_weights_start_as_berts_do() -> None:
    torch.manual_seed(1)
    model = EncoderModel(EncoderConfig(layers=1, dim=64, heads=4, ffn_dim=256), 500)
    encoder = model.encoder
    assert not encoder.tokens.weight[1].any()
    for weight in (encoder.tokens.weight[4:], encoder.layers[0].up.weight, encoder.layers[0].qkv.weight):
        spread, mean = float(weight.detach().std()), float(weight.detach().mean())
        assert spread == pytest.approx(0.02, rel=0.05) and abs(mean) < 0.001
    assert not encoder.layers[0].up.bias.any()
    assert model.lm_head.weight is encoder.tokens.weight
    by_hand = 500 * 64 + 512 * 64 + 2 * 64 + (4 * 64 * 64 + 4 * 64) + (2 * 64 * 256 + 256 + 64) + 4 * 64
    head = 64 * 64 + 64 + 2 * 64 + 500
    assert num_parameters(model) == by_hand + head


def test_dropout_acts_in_training_only() -> None:
    model = build(dropout=0.5)
    inputs = pack(sequences((5,)))["net_input"]
    assert torch.equal(model(**inputs), model(**inputs))
    model.train()
    assert not torch.equal(model(**inputs), model(**inputs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_dropout_keeps_the_mean(dtype: torch.dtype) -> None:
    torch.manual_seed(6)
    x = torch.randn(8, 1, 4).to(dtype)
    still: Tensor = attend(x, x, x, Attention([(1, 8)])).float()
    many = torch.stack([attend(x, x, x, Attention([(1, 8)], drop=0.3)).float() for _ in range(2000)])
    assert not torch.equal(many[0], many[1])
    torch.testing.assert_close(many.mean(0), still, atol=0.06, rtol=0)


def test_precision_is_named() -> None:
    assert working_dtype("fp32") == torch.float32 and working_dtype("bf16") == torch.bfloat16
    assert working_dtype("auto") in (torch.float32, torch.bfloat16)
    with pytest.raises(AssertionError, match="precision 'half'"):
        working_dtype("half")


def batch_of(lengths: list[int], seed: int = 3) -> dict[str, Any]:
    torch.manual_seed(seed)
    positions = torch.cat([torch.arange(n) for n in lengths])
    return {
        "src_tokens": torch.randint(4, 50, (sum(lengths),)),
        "positions": positions,
        "runs": runs_of(lengths),
    }


def gradients(model: EncoderModel, batch: dict[str, Any]) -> tuple[list[Tensor], int]:
    """Gradients of a training pass, and the bytes that the backward pass found kept."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.nbytes
        return tensor

    model.train().zero_grad()
    torch.manual_seed(5)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        total = model(**batch).pow(3).sum()  # squares behind a norm would have no gradient
        size = sum(kept.values())
        total.backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None], size


def test_checkpointed_activations_give_the_same_gradients_from_less_memory() -> None:
    batch = batch_of([40, 40, 7, 3])
    cfg = EncoderConfig(layers=6, dim=32, heads=2, ffn_dim=128, dropout=0.2, attention_dropout=0.1)
    torch.manual_seed(1)
    model = EncoderModel(cfg, 50)
    plain, much = gradients(model, batch)
    model.encoder.cfg.checkpoint_activations = True
    again, little = gradients(model, batch)
    assert len(plain) == len(again) > 70
    assert all(torch.equal(a, b) for a, b in zip(plain, again, strict=True))
    assert little < much / 4


def reference_flash(
    query: Tensor, key: Tensor, value: Tensor, starts: Tensor, others: Tensor, longest: int, other: int,
    drop: float, causal: bool, window: int,
) -> Tensor:  # fmt: skip
    """What the operator does with packed sequences, one by one."""
    assert starts.dtype == others.dtype == torch.int32 and drop == 0.125
    assert longest == int(starts.diff().max()) and other == int(others.diff().max())
    made = []
    sides = zip(
        starts[:-1].tolist(), starts[1:].tolist(), others[:-1].tolist(), others[1:].tolist(), strict=True
    )
    for begin, end, first, last in sides:
        q, k, v = (x.transpose(0, 1) for x in (query[begin:end], key[first:last], value[first:last]))
        near = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
        near = near.triu(-window).tril(window) if window else near
        near = near.tril() if causal else near
        made.append(F.scaled_dot_product_attention(q, k, v, near).transpose(0, 1))
    return torch.cat(made)


@pytest.mark.parametrize("case", ["all", "causal", "cross", "near", "near, causal"])
def test_unpadded_attention_is_told_where_sequences_begin(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    torch.manual_seed(1)
    query, key, value = torch.randn(3, 23, 2, 8)
    keys = [(2, 4), (1, 9), (2, 2), (1, 1)] if case == "cross" else None
    key, value = (key[:22], value[:22]) if keys else (key, value)
    how = Attention(
        runs_of([7, 7, 4, 3, 1, 1]), causal="causal" in case, keys=keys, window=2 * ("near" in case)
    )
    by_runs = attend(query, key, value, how)
    monkeypatch.setattr(attention, "_flash_attention", reference_flash)
    monkeypatch.setattr(attention, "is_unpadded", lambda *_: True)
    how = dataclasses.replace(how, drop=0.125)
    torch.testing.assert_close(attend(query, key, value, how), by_runs)
    assert how.starts(query.device) is how.starts(query.device), "made anew for every layer"


def test_flash_attention_takes_what_it_can() -> None:
    def query(dtype: torch.dtype = torch.bfloat16, dim: int = 64, cuda: bool = True) -> Any:
        return SimpleNamespace(dtype=dtype, shape=(5, 2, dim), is_cuda=cuda)

    runs = [(1, 5)]
    seen = torch.zeros(5, dtype=torch.int64)
    assert is_unpadded(query(), Attention(runs)) and is_unpadded(query(), Attention(runs, causal=True))
    assert not is_unpadded(query(cuda=False), Attention(runs))
    assert not is_unpadded(query(torch.float32), Attention(runs))
    assert not is_unpadded(query(dim=20), Attention(runs)) and not is_unpadded(
        query(dim=512), Attention(runs)
    )
    assert not is_unpadded(query(), Attention(runs, sees=seen, shows=seen))
    assert is_unpadded(query(), Attention(runs, drop=0.1, keys=[(1, 3)]))
