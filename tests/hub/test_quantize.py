"""A quantised file is a quarter of the size and is read like any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from xling import cli
from xling.core.errors import UserError
from xling.hub.quantize import run
from xling.hub.settings import QuantizeConfig
from xling.models.files import model_weights
from xling.models.network.int8 import Int8Linear, round_to_int8
from xling.transfer import tune


def test_weights_come_back_rounded_to_eight_bits(model: Path, tmp_path: Path) -> None:
    made = run(QuantizeConfig(model, tmp_path / "out"))
    before, after = (model_weights.load_model(path)[0].state_dict() for path in (model, tmp_path / "out"))
    assert before.keys() == after.keys()
    for name, weight in before.items():
        if weight.dim() == 2:
            values, scales = round_to_int8(weight)
            assert torch.equal(after[name], values * scales) and not torch.equal(after[name], weight), name
        else:
            assert torch.equal(after[name], weight), name
    assert made.counts["bytes"] < 0.5 * made.counts["bytes_before"]
    assert made.counts["langs"] == ["ar", "en", "th"]


def test_the_same_integers_are_computed_with(model: Path, tmp_path: Path) -> None:
    run(QuantizeConfig(model, tmp_path / "out"))
    first, second = (
        Int8Linear(model_weights.load_model(path)[0].encoder.layers[0].up)
        for path in (model, tmp_path / "out")
    )
    assert torch.equal(first.values, second.values)
    torch.testing.assert_close(first.scales, second.scales)


def test_task_models_too(
    tmp_path: Path, task: Callable[..., tuple[tune.TunedModel, Path, list[Any]]]
) -> None:
    tuned, folder, rows = task("classify")
    run(QuantizeConfig(folder, tmp_path / "out"))
    again = tune.load_tuned(tmp_path / "out")
    assert again.model.labels == tuned.model.labels
    assert len(again.predict(rows)) == len(rows)
    for name, weight in tuned.model.state_dict().items():
        near = again.model.state_dict()[name]
        assert float((near - weight).abs().max()) <= float(weight.abs().max()) / 254 * 1.001, name


def test_mistakes_are_one_line(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(QuantizeConfig(model, tmp_path / "out"))
    with pytest.raises(UserError, match="is in 8 bits already; valid: a checkpoint in float32"):
        run(QuantizeConfig(tmp_path / "out", tmp_path / "again"))
    assert cli.main(["quantize", str(tmp_path / "nothing"), str(tmp_path / "again")]) == 2
    assert capsys.readouterr().err.startswith("xling: ")
    assert not (tmp_path / "again").exists()
