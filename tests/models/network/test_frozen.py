"""Models with a decoder that read their sources with a frozen encoder: ``model.fused`` and ``model.features``."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from xling.core.errors import UserError
from xling.data.packing import pack_seq2seq
from xling.data.symbols import Symbols
from xling.models.files import model_weights
from xling.models.generate.decode import generate_all
from xling.models.generate.settings import Search
from xling.models.network.seq2seq import Seq2SeqConfig, Seq2SeqModel
from xling.objectives.seq2seq import example

SHAPE = {
    "layers": 2,
    "dim": 32,
    "heads": 2,
    "ffn_dim": 48,
    "max_positions": 32,
    "dropout": 0.0,
    "precision": "fp32",
}
BOTH = ("fused", "features")


def made(model: Path, how: str, **more: Any) -> tuple[Seq2SeqModel, Symbols]:
    symbols = Symbols(model_weights.mask_of(model), ("en", "ar"))
    torch.manual_seed(2)
    found = Seq2SeqModel(
        Seq2SeqConfig(**{**SHAPE, **more, **({how: str(model)} if how else {})}), symbols.size
    )
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return found, symbols


def batch(symbols: Symbols, *pairs: tuple[list[int], list[int]]) -> dict[str, Any]:
    examples = [
        example(np.array([*src, 2]), np.array([*tgt, 2]), 0, 1, symbols) | {"id": np.array([number])}
        for number, (src, tgt) in enumerate(pairs)
    ]
    return pack_seq2seq(examples)


PAIRS = (([5, 6, 7, 8], [9, 10]), ([11, 12], [13, 14, 15]), ([16, 17, 18], [19]))


@pytest.mark.parametrize("how", BOTH)
def test_the_frozen_encoder_neither_learns_nor_is_saved(model: Path, how: str) -> None:
    net, symbols = made(model, how)
    before = copy.deepcopy(model_weights.load_model(model)[0].encoder.state_dict())
    frozen = net.fused if how == "fused" else net.encoder.inputs[0].frozen
    sample = batch(symbols, *PAIRS)
    net.train()
    net.loss(net(**sample["net_input"]), sample["target"])[0].backward()
    new = {
        name: p
        for name, p in net.named_parameters()
        if (how == "fused" and ".fused." in name) or ".inputs." in name
    }
    assert len(new) == (4 * 6 if how == "fused" else 2)
    for name, parameter in new.items():
        assert parameter.grad is not None, name
    for name, weight in frozen.encoder.state_dict().items():
        assert torch.equal(weight, before[name])
    assert not any(p.requires_grad for p in frozen.encoder.parameters())
    plain, _ = made(model, "")
    assert net.state_dict().keys() - new.keys() == plain.state_dict().keys()


@pytest.mark.parametrize("how", BOTH)
def test_sentences_of_a_batch_do_not_see_each_other(model: Path, how: str) -> None:
    net, symbols = made(model, how)
    net.eval()
    together = batch(symbols, *PAIRS)
    states = net(**together["net_input"])
    begin = 0
    for number in together["id"].tolist():
        alone = batch(symbols, PAIRS[number])
        found = net(**alone["net_input"])
        torch.testing.assert_close(states[begin : begin + len(found)], found, atol=1e-5, rtol=1e-4)
        begin += len(found)


@pytest.mark.parametrize("how", BOTH)
def test_a_prediction_knows_no_later_token_and_needs_the_frozen_states(model: Path, how: str) -> None:
    net, symbols = made(model, how)
    net.eval()
    plain = net(**batch(symbols, ([5, 6, 7], [9, 10, 11]))["net_input"])
    later = net(**batch(symbols, ([5, 6, 7], [9, 10, 12]))["net_input"])
    torch.testing.assert_close(later[:3], plain[:3], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(later[3:], plain[3:], atol=1e-4)
    frozen = net.fused if how == "fused" else net.encoder.inputs[0].frozen
    with torch.no_grad():
        for weight in frozen.encoder.layers[-1].parameters():
            weight.add_(torch.randn_like(weight))
    other = net(**batch(symbols, ([5, 6, 7], [9, 10, 11]))["net_input"])
    assert not torch.allclose(other, plain, atol=1e-3)


def test_fused_attention_worked_by_hand(model: Path) -> None:
    """The mean of two attentions outside training; in training one of them, each about half of the time."""
    net, symbols = made(model, "fused")
    layer = net.encoder.layers[0]
    sample = batch(symbols, ([5, 6], [7]))["net_input"]
    seen: dict[str, Any] = {}
    layer.qkv.register_forward_hook(lambda _m, args, out: seen.update(h=args[0], qkv=out))
    layer.out.register_forward_hook(lambda _m, args, out: seen.update(own=args[0], mixed=out))
    net.eval()
    net(**sample)
    fusion, states = layer.fused, net.fused.states
    assert states.shape[0] == len(sample["src_tokens"])
    query = fusion.query(seen["h"]).view(-1, 2, 16).transpose(0, 1)
    key, value = (x.transpose(0, 1) for x in fusion.kv(states).view(-1, 2, 2, 16).unbind(1))
    weights = torch.softmax(query @ key.mT / 4, -1)
    other = fusion.out((weights @ value).transpose(0, 1).flatten(1))
    own = torch.nn.functional.linear(seen["own"], layer.out.weight, layer.out.bias)
    torch.testing.assert_close(seen["mixed"], (own + other) / 2, atol=1e-5, rtol=1e-4)
    net.train()
    torch.manual_seed(0)
    chosen = 0
    for _ in range(40):
        net(**sample)
        own = torch.nn.functional.linear(seen["own"], layer.out.weight, layer.out.bias)
        chosen += torch.allclose(seen["mixed"], own, atol=1e-5)
    assert 8 < chosen < 32


def test_features_replace_the_word_vectors_of_the_source_alone(model: Path) -> None:
    net, symbols = made(model, "features")
    net.eval()
    sample = batch(symbols, ([5, 6], [7, 8]))["net_input"]
    before = net(**sample)
    with torch.no_grad():
        net.encoder.tokens.weight[[5, 6]] += 1.0
    torch.testing.assert_close(net(**sample), before, atol=1e-5, rtol=1e-4)
    with torch.no_grad():
        net.encoder.tokens.weight[symbols.lang(0)] += torch.randn(32)
    assert not torch.allclose(net(**sample), before, atol=1e-3), "the token of the language keeps its vector"


@pytest.mark.parametrize("how", BOTH)
@pytest.mark.parametrize("beam", [1, 3])
def test_a_search_scores_as_the_whole_model_does(model: Path, how: str, beam: int) -> None:
    net, symbols = made(model, how)
    net.eval()
    sources = [np.array(src) for src, _ in PAIRS]
    search = Search(beam=beam, max_len_a=0, max_len_b=6, min_len=2)
    found = generate_all(net, sources, [0] * 3, [1] * 3, symbols, search)
    for source, hypotheses in zip(sources, found, strict=True):
        alone = generate_all(net, [source], [0], [1], symbols, search)[0]
        assert hypotheses[0].tokens.tolist() == alone[0].tokens.tolist()
        tokens = hypotheses[0].tokens.tolist()
        sample = batch(symbols, (source.tolist(), tokens))
        with torch.no_grad():
            states = net(**sample["net_input"])
            total = -float(net.loss(states, sample["target"])[0]) / (len(tokens) + 1)
        assert hypotheses[0].score == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize("how", BOTH)
def test_it_is_saved_and_loaded_with_the_folder_of_the_encoder(model: Path, tmp_path: Path, how: str) -> None:
    net, symbols = made(model, how)
    for name in ("dict.txt", "spm.model"):
        shutil.copy(model / name, tmp_path / name)
    model_weights.save_model(tmp_path / "model.pt", net, ["en", "ar"], tmp_path)
    again, _ = model_weights.load_seq2seq(tmp_path)
    sample = batch(symbols, *PAIRS)["net_input"]
    torch.testing.assert_close(again.eval()(**sample), net.eval()(**sample))
    with pytest.raises(UserError, match=rf"reads a frozen encoder \(model.{how}="):
        model_weights.load_model(tmp_path)


def test_mistakes_are_named(model: Path) -> None:
    with pytest.raises(UserError, match=r"model.max_positions=128 with the frozen encoder .* has 64"):
        made(model, "fused", max_positions=128)
    with pytest.raises(
        UserError, match=r"model.fused=.* with model.arch=bilstm; valid: model.arch=transformer"
    ):
        made(model, "fused", arch="bilstm")


def test_layers_that_are_one_share_their_fused_attention(model: Path) -> None:
    shared, symbols = made(model, "fused", share_layers=True)
    assert len({name for name, _ in shared.named_parameters() if ".fused." in name}) == 2 * 6
    apart, _ = made(model, "fused")
    apart.load_state_dict(shared.state_dict())
    inputs = batch(symbols, *PAIRS)["net_input"]
    torch.testing.assert_close(shared.eval()(**inputs), apart.eval()(**inputs))
