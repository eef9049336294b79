"""LASER: a translation through the largest states of LSTMs, learned, stopped and continued."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from xling.models.files import model_weights
from xling.training import train


@pytest.mark.parametrize(
    "words", [("model.arch=bilstm",), ("model.share_layers=true", "train.optimizer=muon")]
)
def test_a_translation_through_one_vector_is_learned(
    words: tuple[str, ...], recipe: Any, bitext: Path, tmp_path: Path
) -> None:
    cfg = recipe(bitext, "translation", tmp_path / "model", "objectives.translation.pooling=max", *words)
    train.run(cfg)
    model, _ = model_weights.load_model(tmp_path / "model")
    start = dataclasses.replace(cfg, out=str(tmp_path / "more"), init=str(tmp_path / "model"))
    train.run(start)
    learned, _ = model_weights.load_model(tmp_path / "more")
    both = zip(model.encoder.layers.named_parameters(), learned.encoder.layers.parameters(), strict=True)
    assert not [name for (name, old), new in both if torch.equal(old, new)], (
        "every weight of the layers learns"
    )
