"""The encoder-decoder: packed as alone, causal, sharing the encoder's code and weights, published and read back."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.data.packing import pack_seq2seq
from xling.data.symbols import Symbols
from xling.models.files import model_weights
from xling.models.files.model_folder import SEQ2SEQ
from xling.models.network.encoder import EncoderConfig, EncoderModel
from xling.models.network.loss import linear_cross_entropy
from xling.models.network.seq2seq import Seq2SeqConfig, Seq2SeqModel, initialise_decoder, pool
from xling.objectives.pairs import Pair
from xling.objectives.seq2seq import both_sides
from xling.text import vocab as vocabulary

SYMBOLS = Symbols(50, ("de", "en"))
SHAPES = {
    "post": {},
    "pre": {"pre_norm": True, "decoder_layers": 1, "plain_head": True},
    "langs": {"lang_embeddings": True, "decoder_layers": 3},
    "t5": {
        "norm": "rms", "embedding_norm": False, "biases": False, "positions": "relative", "ffn": "gated_gelu",
        "head_dim": 6, "pre_norm": True, "plain_head": True, "unbiased_head": True, "untied_head": True,
    },
}  # fmt: skip


def made(name: str = "post", **more: Any) -> Seq2SeqModel:
    torch.manual_seed(1)
    cfg = Seq2SeqConfig(layers=2, dim=16, heads=2, ffn_dim=32, max_positions=32, **(SHAPES[name] | more))
    return Seq2SeqModel(cfg, SYMBOLS.size, 2 if cfg.lang_embeddings else 0).double().eval()


MODELS = {name: made(name) for name in SHAPES}


def pairs(*lengths: tuple[int, int], seed: int = 0) -> list[dict[str, np.ndarray]]:
    draw = np.random.default_rng(seed)
    found = []
    for number, (src, tgt) in enumerate(lengths):
        sides = [np.append(draw.integers(4, 50, n), 2) for n in (src, tgt)]
        found.append(
            both_sides(Pair(*sides, number % 2, 1 - number % 2), SYMBOLS) | {"id": np.array([number])}
        )
    return found


def states(model: Seq2SeqModel, examples: list[dict[str, np.ndarray]], **how: Any) -> dict[int, torch.Tensor]:
    """States of each example's target by its number."""
    sample = pack_seq2seq(examples)
    with torch.no_grad():
        hidden = model(**sample["net_input"], **how)
    lengths = [tgt for count, tgt, _ in sample["net_input"]["decoder"]["cross"] for _ in range(count)]
    return dict(zip(sample["id"].tolist(), hidden.split(lengths), strict=True))


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=25)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=6),
    pooling=st.sampled_from(["", "max", "mean"]),
)
def test_a_packed_batch_is_what_each_pair_is_alone(
    name: str, lengths: list[tuple[int, int]], pooling: str
) -> None:
    examples = pairs(*lengths)
    together = states(MODELS[name], examples, pooling=pooling)
    for number, example in enumerate(examples):
        (alone,) = states(MODELS[name], [example], pooling=pooling).values()
        torch.testing.assert_close(together[number], alone)


@pytest.mark.parametrize(
    "name", sorted(SHAPES.keys() - {"t5"})
)  # which is transformers', see tests/hub/test_t5.py
def test_the_decoder_is_torchs_own(name: str) -> None:
    """Against torch.nn.MultiheadAttention with the same weights, padded and masked by torch."""
    model = MODELS[name]
    (example,) = pairs((5, 7))
    sample = pack_seq2seq([example])
    inputs, side = sample["net_input"], sample["net_input"]["decoder"]
    x = model.encoder.tokens(side["tokens"]) + model.decoder.positions(side["positions"])
    if model.decoder.langs is not None:
        x = x + model.decoder.langs(side["langs"])
    x = model.decoder.norm(x)
    memory = model.encoder(inputs["src_tokens"], inputs["positions"], inputs["runs"], inputs["langs"])
    past = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    for layer in model.decoder.layers:
        own, cross = (torch.nn.MultiheadAttention(16, 2).double() for _ in range(2))
        own.load_state_dict(
            {
                "in_proj_weight": layer.qkv.weight,
                "in_proj_bias": layer.qkv.bias,
                "out_proj.weight": layer.out.weight,
                "out_proj.bias": layer.out.bias,
            }
        )
        cross.load_state_dict(
            {
                "in_proj_weight": torch.cat([layer.cross_query.weight, layer.cross_kv.weight]),
                "in_proj_bias": torch.cat([layer.cross_query.bias, layer.cross_kv.bias]),
                "out_proj.weight": layer.cross_out.weight,
                "out_proj.bias": layer.cross_out.bias,
            }
        )
        parts = (
            (layer.attn_norm, lambda h, own=own: own(h, h, h, attn_mask=past)[0]),
            (layer.cross_norm, lambda h, cross=cross: cross(h, memory, memory)[0]),
            (layer.ffn_norm, lambda h, layer=layer: layer.down(F.gelu(layer.up(h)))),
        )
        for norm, part in parts:
            x = x + part(norm(x)) if layer.pre_norm else norm(x + part(x))
    torch.testing.assert_close(model.decoder.final_norm(x), model(**inputs))


def test_no_target_sees_its_future_or_another_pair() -> None:
    examples = pairs((4, 6), (4, 6))
    before = states(MODELS["post"], examples)
    examples[0]["prev_tokens"][4] = 9
    after = states(MODELS["post"], examples)
    assert torch.equal(before[1], after[1])
    torch.testing.assert_close(before[0][:4], after[0][:4])
    assert not torch.allclose(before[0][4], after[0][4])
    examples[0]["tokens"][1] = 9
    assert not torch.allclose(after[0][0], states(MODELS["post"], examples)[0][0])


def test_embeddings_and_output_are_one_matrix() -> None:
    model = made()
    assert model.decoder.head.weight is model.encoder.tokens.weight
    names = [name for name, _ in model.named_parameters()]
    assert not {"decoder.head.weight", "lm_head.weight"} & set(names)


def test_an_untied_output_is_a_matrix_of_its_own() -> None:
    model = made("t5")
    assert model.decoder.head.weight is not model.encoder.tokens.weight
    assert "decoder.head.weight" in dict(model.named_parameters())


def test_pooling_leaves_out_both_ends() -> None:
    hidden = torch.tensor([[9.0, 9], [1, 4], [3, 2], [9, 9], [5, 5], [7, 1]])
    assert pool(hidden, [(1, 4), (1, 2)], "max").tolist() == [[3, 4], [7, 5]]
    assert pool(hidden, [(1, 4), (1, 2)], "mean").tolist() == [[2, 3], [6, 3]]


def test_a_decoder_starts_from_the_encoder_layer_by_layer() -> None:
    model = made("langs")
    initialise_decoder(model)
    ours, theirs = model.decoder.state_dict(), model.encoder.state_dict()
    for name in ("positions.weight", "langs.weight", "norm.bias", "layers.1.qkv.weight", "layers.0.up.bias"):
        assert torch.equal(ours[name], theirs[name])
    assert torch.equal(model.decoder.head.dense.weight, model.lm_head.dense.weight)  # type: ignore[union-attr]
    fresh = made("langs").decoder.state_dict()
    for name in ("layers.0.cross_query.weight", "layers.2.up.weight"):
        assert torch.equal(ours[name], fresh[name])


def test_label_smoothing_is_fairseqs(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

    monkeypatch.setattr("xling.models.network.loss.CHUNK_BYTES", {"cpu": 4 * 9 * 2})  # two rows a chunk
    torch.manual_seed(1)
    hidden, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in ((5, 3), (9, 3), (9,)))
    target = torch.tensor([0, 8, 3, 3, 1])
    total, rows = linear_cross_entropy(hidden, weight, bias, target, 0.1)
    log_probs = torch.log_softmax(F.linear(hidden, weight, bias), -1)
    wanted, nll = label_smoothed_nll_loss(log_probs, target, 0.1)
    torch.testing.assert_close(total, wanted)
    torch.testing.assert_close(rows.sum(), nll.detach())
    for ours, theirs in zip(
        torch.autograd.grad(total, (hidden, weight, bias)),
        torch.autograd.grad(wanted, (hidden, weight, bias)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.fixture
def published(vocab: Path, tmp_path: Path) -> Path:
    """A model over the tiny vocabulary, published."""
    size = vocabulary.load_processor(vocab).get_piece_size() + 1
    symbols = Symbols(size, ("en", "th"))
    cfg = Seq2SeqConfig(
        layers=1, decoder_layers=2, dim=16, heads=2, ffn_dim=32, max_positions=32, pre_norm=True
    )
    torch.manual_seed(3)
    model = Seq2SeqModel(cfg, symbols.size)
    folder = tmp_path / "published"
    folder.mkdir()
    for name in ("dict.txt", "spm.model"):
        (folder / name).write_bytes((vocab / name).read_bytes())
    model_weights.save_model(folder / "model.pt", model, ["en", "th"], folder)
    return folder


def test_a_published_model_comes_back_whole_and_as_an_encoder(published: Path) -> None:
    state = torch.load(published / "model.pt", weights_only=True)
    assert state["format"] == SEQ2SEQ and not set(model_weights.TIED) & state["weights"].keys()
    model, symbols = model_weights.load_seq2seq(published, dropout=0.3)
    assert symbols.langs == ("en", "th") and model.cfg.dropout == 0.3 and len(model.decoder.layers) == 2
    for name, tensor in state["weights"].items():
        assert torch.equal(model.state_dict()[name], tensor)
    encoder, langs = model_weights.load_model(published)
    assert langs == ["en", "th"] and not hasattr(encoder, "decoder")
    assert torch.equal(encoder.encoder.layers[0].up.weight, model.encoder.layers[0].up.weight)


def test_an_encoder_is_no_model_to_generate_with(model: Path) -> None:
    assert not model_weights.has_decoder(model)
    with pytest.raises(UserError, match=r"model.pt holds an encoder; valid: a model with a decoder"):
        model_weights.load_seq2seq(model)


def test_symbols_keep_their_meaning_between_models_of_other_languages(published: Path) -> None:
    old, theirs = model_weights.load_seq2seq(published)
    ours = Symbols(theirs.mask, ("de", "th", "en"))
    torch.manual_seed(4)
    new = Seq2SeqModel(old.cfg, ours.size)
    fresh = new.encoder.tokens.weight[ours.lang(0)].clone()
    model_weights.start_from(new, published, list(ours.langs), published, False)
    before, after = old.encoder.tokens.weight, new.encoder.tokens.weight
    assert torch.equal(after[: ours.mask + 1], before[: ours.mask + 1])
    assert torch.equal(after[ours.lang(1)], before[theirs.lang(1)])
    assert torch.equal(after[ours.lang(2)], before[theirs.lang(0)])
    assert torch.equal(after[ours.sentinel(7)], before[theirs.sentinel(7)])
    assert torch.equal(after[ours.lang(0)], fresh)
    assert torch.equal(new.decoder.layers[1].cross_kv.weight, old.decoder.layers[1].cross_kv.weight)


def test_both_sides_start_from_an_encoder(published: Path) -> None:
    whole, _ = model_weights.load_model(published)
    shape = {
        k: getattr(whole.cfg, k) for k in ("layers", "dim", "heads", "ffn_dim", "max_positions", "pre_norm")
    }
    torch.manual_seed(5)
    pieces = len((published / "dict.txt").read_text("utf-8").splitlines()) + 5
    encoder = EncoderModel(EncoderConfig(**shape), pieces)
    model_weights.save_model(published / "model.pt", encoder, ["en", "th"], published)
    symbols = Symbols(pieces - 1, ("en", "th"))
    new = Seq2SeqModel(Seq2SeqConfig(**shape), symbols.size)
    model_weights.start_from(new, published, ["en", "th"], published, False)
    assert torch.equal(new.encoder.tokens.weight[:pieces], encoder.encoder.tokens.weight)
    assert torch.equal(new.decoder.layers[0].down.weight, encoder.encoder.layers[0].down.weight)
    assert torch.equal(new.decoder.head.dense.weight, encoder.lm_head.dense.weight)  # type: ignore[union-attr]
    assert torch.equal(new.decoder.head.bias[:pieces], encoder.lm_head.bias)
    wrong = Seq2SeqModel(Seq2SeqConfig(**shape | {"dim": 8}), symbols.size)
    with pytest.raises(UserError, match="give the model"):
        model_weights.start_from(wrong, published, ["en", "th"], published, False)


def gradients(model: Seq2SeqModel, examples: list[dict[str, np.ndarray]]) -> tuple[list[torch.Tensor], int]:
    """Gradients of all parameters with dropout from one seed, and the bytes kept for the backward pass."""
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.nbytes
        return tensor

    model.train().zero_grad()
    torch.manual_seed(5)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        total = model(**pack_seq2seq(examples)["net_input"]).pow(3).sum()
        size = sum(kept.values())
        total.backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None], size


@pytest.mark.parametrize("name", ["post", "t5"])
def test_a_decoder_keeps_the_input_of_its_layers_only(name: str) -> None:
    model, examples = (
        made(name, decoder_layers=6, dropout=0.2, attention_dropout=0.1),
        pairs((5, 20), (5, 20), (3, 9)),
    )
    plain, much = gradients(model, examples)
    model.decoder.cfg = dataclasses.replace(model.cfg, checkpoint_activations=True)
    again, little = gradients(model, examples)
    assert len(plain) == len(again) > 50
    assert all(torch.equal(a, b) for a, b in zip(plain, again, strict=True))
    assert little < much / 2, "the encoder's layers keep theirs here"
