"""Encoders of LSTMs, and of one layer that is used again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from xling.core.errors import UserError
from xling.models.files import model_weights
from xling.models.network.encoder import EncoderConfig, EncoderModel, num_parameters
from xling.models.network.seq2seq import Seq2SeqConfig, Seq2SeqModel

SHAPE = {"layers": 3, "dim": 16, "heads": 2, "ffn_dim": 32, "dropout": 0.0, "max_positions": 16}
IDS, PLACES = torch.tensor([0, 4, 5, 6, 2, 9, 10]), torch.tensor([0, 1, 2, 3, 4, 0, 1])
RUNS = [(1, 5), (1, 2)]


def model(**more: Any) -> EncoderModel:
    torch.manual_seed(1)
    return EncoderModel(EncoderConfig(**SHAPE | more), 12).eval()


def test_each_half_of_an_lstm_has_read_one_way_and_no_other_sequence() -> None:
    encoder = model(arch="bilstm", layers=1)
    clean = encoder(IDS, PLACES, RUNS)
    for changed in range(5):
        other = IDS.clone()
        other[changed] = 8
        moved = (encoder(other, PLACES, RUNS) != clean).view(7, 2, 8).any(2)
        assert moved[:5, 0].tolist() == [place >= changed for place in range(5)]
        assert moved[:5, 1].tolist() == [place <= changed for place in range(5)]
        assert not moved[5:].any()
    alone = encoder(IDS[5:], PLACES[5:], RUNS[1:])
    torch.testing.assert_close(alone, clean[5:], atol=1e-6, rtol=0)
    assert encoder.encoder.positions is None, "the order is read, not added"


def test_states_are_those_of_torchs_lstm_on_each_sequence() -> None:
    encoder = model(arch="bilstm")
    states = encoder.encoder.layer_states(encoder.encoder.tokens(IDS), PLACES, attention := model_attention())
    assert len(states) == 4 and not attention.causal
    for layer, x, y in zip(encoder.encoder.layers, states, states[1:], strict=False):
        wanted = torch.cat([layer.lstm(part[:, None])[0][:, 0] for part in x.split([5, 2])])
        torch.testing.assert_close(y, wanted, atol=1e-6, rtol=0)


def model_attention() -> Any:
    from xling.models.network.attention import Attention

    return Attention(RUNS)


@pytest.mark.parametrize("decoder", [False, True])
def test_a_shared_layer_is_a_model_whose_layers_are_equal(decoder: bool) -> None:
    torch.manual_seed(1)
    kinds = (Seq2SeqConfig, Seq2SeqModel) if decoder else (EncoderConfig, EncoderModel)
    shared = kinds[1](kinds[0](**SHAPE, share_layers=True), 12)
    plain = kinds[1](kinds[0](**SHAPE), 12)
    plain.load_state_dict(shared.state_dict())
    inputs: dict[str, Any] = {"src_tokens": IDS, "positions": PLACES, "runs": RUNS}
    if decoder:
        cross = [(1, 5, 5), (1, 2, 2)]
        inputs["decoder"] = {"tokens": IDS, "positions": PLACES, "langs": None, "runs": RUNS, "cross": cross}
    for each in (shared, plain):
        each(**inputs).square().sum().backward()
    assert torch.equal(shared(**inputs), plain(**inputs))
    sides = [(shared.encoder, plain.encoder), *([(shared.decoder, plain.decoder)] if decoder else [])]
    for one, three in sides:
        single = dict(one.layers[0].named_parameters())
        saved = sum(p.numel() for p in one.layers[0].parameters())
        assert num_parameters(three) - num_parameters(one) == 2 * saved
        for name, weight in single.items():
            apart = [dict(layer.named_parameters())[name].grad for layer in three.layers]
            torch.testing.assert_close(weight.grad, sum(apart), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "more", [{"arch": "bilstm"}, {"share_layers": True}, {"arch": "bilstm", "share_layers": True}]
)
def test_a_checkpoint_keeps_them(more: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text("".join(f"p{i} 1\n" for i in range(7)), encoding="utf-8")
    first = model(**more)
    model_weights.save_model(tmp_path / "model.pt", first, ["en"], tmp_path)
    again, _ = model_weights.load_model(tmp_path)
    assert torch.equal(again.eval()(IDS, PLACES, RUNS), first(IDS, PLACES, RUNS))
    if more.get("share_layers"):
        assert len({id(layer) for layer in again.encoder.layers}) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"arch": "gru"}, {"arch": "bilstm", "positions": "rope"}, {"arch": "bilstm", "lang_adapter": 4},
        {"arch": "bilstm", "dim": 15, "heads": 1}, {"share_layers": True, "first_norm": False},
    ],
)  # fmt: skip
def test_what_they_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"model\.(arch|share_layers)="):
        model(**wrong)


def test_an_lstm_hides_nothing() -> None:
    with pytest.raises(UserError, match="hides tokens"):
        model(arch="bilstm")(IDS, PLACES, RUNS, causal=True)
