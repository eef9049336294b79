"""A frozen encoder as a source of features, and heads on other states than the last layer's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.transfer.test_tune import FAST, KINDS, labels, rows
from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.data.packing import pack
from xling.hub.unsupported_parts import check_hf
from xling.models.files import model_weights
from xling.transfer import tune
from xling.transfer.heads import ScalarMix

CFG = replace(FAST, epochs=2, freeze="encoder", layers="mix")


def test_a_mix_worked_by_hand() -> None:
    mix = ScalarMix(3)
    states = [torch.full((2, 4), value) for value in (1.0, 2.0, 6.0)]
    torch.testing.assert_close(mix(states), torch.full((2, 4), 3.0))
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([0.0, 3.0, 1.0]).log())
        mix.gamma.fill_(2.0)
    torch.testing.assert_close(mix(states), torch.full((2, 4), 2 * (0.75 * 2.0 + 0.25 * 6.0)))


@pytest.mark.parametrize("layers", ["mix", "1"])
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_mix_and_the_head_learn(model: Path, kind: str, layers: str) -> None:
    cfg = replace(CFG, layers=layers, dropout=0.5)
    first, last = (made.model for made in fine_tune(model, kind, labels(kind), rows(kind), cfg))
    published = model_weights.load_model(model)[0].encoder.state_dict()
    assert all(torch.equal(weight, published[name]) for name, weight in last.encoder.state_dict().items())
    learned = {name for name, p in last.named_parameters() if not torch.equal(p, first.get_parameter(name))}
    head = {name for name, _ in last.named_parameters() if not name.startswith(("encoder.", "mix."))}
    assert learned - {"mix.weights", "mix.gamma"} == head
    assert ("mix.weights" in learned, "mix.gamma" in learned) == ((layers == "mix"),) * 2


def test_gradients_reach_the_mix_and_the_head_only(model: Path) -> None:
    tuned = fine_tune(model, "tag", labels("tag"), rows("tag"), replace(CFG, epochs=1))[-1]
    network = tuned.model.requires_grad_(True)
    network.fix_encoder()
    network.train()
    sample = pack([example for _, example in tuned.encode(rows("tag"))])
    network.loss(network.log_probabilities(sample), sample["target"]).backward()
    reached = {
        name for name, p in network.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0
    }
    assert reached == {"mix.weights", "mix.gamma", "classifier.weight", "classifier.bias"}


def test_features_have_no_dropout_and_heads_have(model: Path) -> None:
    cfg = replace(CFG, epochs=1, freeze="none")
    tuned = fine_tune(model, "tag", labels("tag"), rows("tag"), cfg)[-1]
    network = tuned.model.train()
    network.drop = 0.0
    for layer in network.encoder.layers:
        layer.dropout = 0.5
    sample = pack([example for _, example in tuned.encode(rows("tag"))])
    assert not torch.equal(network(sample), network(sample))
    network.fix_encoder()
    assert torch.equal(network(sample), network(sample))
    network.drop = 0.5
    assert not torch.equal(network(sample), network(sample))


def test_states_are_those_after_so_many_layers(model: Path) -> None:
    made = {
        layers: fine_tune(model, "tag", labels("tag"), rows("tag"), replace(CFG, layers=layers))[-1]
        for layers in ("0", "1", "2", "last")
    }
    sample = pack([example for _, example in made["last"].encode(rows("tag"), labelled=False)])
    inputs = sample["net_input"]
    encoder = made["last"].model.encoder
    words = encoder.tokens(inputs["src_tokens"])
    for layers, tuned in made.items():
        wanted = encoder(**inputs, layer=None if layers == "last" else int(layers))
        torch.testing.assert_close(tuned.model.states(words, inputs), wanted)
    assert made["2"].predict(rows("tag")) == made["last"].predict(rows("tag"))


def test_a_saved_model_answers_as_before(model: Path, tmp_path: Path) -> None:
    kind = "classify"
    tuned = fine_tune(model, kind, labels(kind), rows(kind), replace(CFG, epochs=4))[-1]
    tune.save_tuned(tuned, tmp_path, model, ["en"])
    again = tune.load_tuned(tmp_path)
    assert again.model.layers == "mix"
    assert torch.equal(again.model.mix.weights, tuned.model.mix.weights)
    assert again.predict(rows(kind, 40)) == tuned.predict(rows(kind, 40))
    again.model.mix.weights.data = torch.tensor([9.0, 0.0, 0.0])
    assert not np.array_equal(again.scores(rows(kind))[0][0][1], tuned.scores(rows(kind))[0][0][1])
    with pytest.raises(UserError, match=r"fit\.layers=mix"):
        check_hf(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layers": "top"}, "last, mix, or a number"),
        ({"layers": "-1"}, "last, mix, or a number"),
        ({"layers": "3"}, "at most 2"),
        ({"layer_decay": 0.5}, "fit.layer_decay=0.5 with fit.freeze=encoder"),
        ({"freeze_embeddings": True}, "fit.freeze_embeddings=true with fit.freeze=encoder"),
        ({"freeze_layers": 1}, "fit.freeze_layers=1 with fit.freeze=encoder"),
        ({"unfreeze_epochs": 1.0}, "fit.unfreeze_epochs=1.0 with fit.freeze=encoder"),
        ({"task_adapter": 4}, "fit.task_adapter=4 with fit.freeze=encoder"),
        ({"pair_features": "align"}, "which reads no layer"),
    ],
)
def test_what_would_change_nothing_is_refused(model: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        fine_tune(model, "pair", labels("pair"), rows("pair"), replace(CFG, **change))
