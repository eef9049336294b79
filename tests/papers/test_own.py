"""Positions and special tokens of each language's own: what they change, and that a copy of a model is its own."""

from __future__ import annotations

import copy

import pytest
import torch

from xling.core.errors import UserError
from xling.models.network.encoder import EncoderConfig, EncoderModel

MASK = 29
SHAPE = {"layers": 1, "dim": 16, "heads": 2, "ffn_dim": 32, "dropout": 0.0, "max_positions": 8}


def model(**more: int) -> EncoderModel:
    torch.manual_seed(1)
    return EncoderModel(EncoderConfig(**SHAPE, **more), MASK + 1).eval()


def states(encoder: EncoderModel, tokens: list[int], lang: int, layer: int = 0) -> torch.Tensor:
    ids = torch.tensor(tokens)
    places = torch.arange(len(tokens))
    return encoder(ids, places, [(1, len(tokens))], langs=torch.full_like(ids, lang), layer=layer)


def test_only_the_setting_makes_languages_differ() -> None:
    line = [0, 9, MASK, 2]
    shared = model()
    assert torch.equal(states(shared, line, 0), states(shared, line, 1))
    own = model(own_positions=2)
    assert not torch.isclose(states(own, line, 0), states(own, line, 1)).all(1).any()
    specials = model(own_specials=2)
    same = torch.isclose(states(specials, line, 0), states(specials, line, 1)).all(1)
    assert same.tolist() == [False, True, False, False]
    assert torch.equal(
        states(specials, line, 1), states(specials, line, 5)
    )  # all behind the last share its own


def test_the_vector_of_a_shared_special_token_is_gone() -> None:
    own = model(own_specials=2)
    before = states(own, [0, 9, MASK, 2], 1)
    with torch.no_grad():
        own.encoder.tokens.weight[[0, 2, MASK]] += 1
    assert torch.allclose(before, states(own, [0, 9, MASK, 2], 1), atol=1e-5)
    assert not torch.allclose(before[0], states(own, [0], 0)[0])


@pytest.mark.parametrize("name", ["own_positions", "own_specials"])
def test_a_copy_reads_its_own_weights(name: str) -> None:
    first = model(**{name: 2})
    second = copy.deepcopy(first)
    with torch.no_grad():
        for weight in first.encoder.inputs.parameters():
            weight.zero_()
    assert not torch.allclose(states(first, [0, 9, 2], 1), states(second, [0, 9, 2], 1))
    states(first, [0, 9, 9, 9, 2], 1)  # another length in between
    assert states(second, [0, 9, 2], 1).shape == (3, 16)


def test_there_are_no_tables_of_angles() -> None:
    with pytest.raises(
        UserError, match=r"model\.own_positions=2 with model\.positions=rope; valid: model.positions=learnt"
    ):
        EncoderModel(EncoderConfig(**SHAPE, own_positions=2, positions="rope"), 30)
