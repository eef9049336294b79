"""``int8=true``: the same evaluation in 8-bit integers, told apart by its signature."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from xling.eval.run import evaluation
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import predictions
from xling.eval.scores.score_file import read_scores
from xling.eval.systems import FitConfig
from xling.models.network.int8 import Int8Linear
from xling.transfer.backend import EncoderBackend

TEXTS = ["a red boat", "My neighbour likes fresh bread at home."]


def test_vectors_are_nearly_the_same(model: Path) -> None:
    plain, small = (EncoderBackend(model, "pretrained", int8=int8) for int8 in (False, True))
    before, after = (system.embed(TEXTS, "en", -1, "mean") for system in (plain, small))
    assert plain.digest != small.digest
    assert not (before == after).all()
    cosine = (before * after).sum(1) / (before**2).sum(1) ** 0.5 / (after**2).sum(1) ** 0.5
    assert (cosine > 0.99).all()


def test_an_evaluation_by_one_key(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tmp_path / "data" / "rows" / "sib200"
    rows.mkdir(parents=True)
    topics = ("travel", "sports")
    for split in ("train", "dev", "test"):
        text = "".join(
            f'{{"id": "{i}", "fields": {{"text": "{TEXTS[i % 2]}"}}, "label": "{topics[i % 2]}"}}\n'
            for i in range(8)
        )
        (rows / f"en.{split}.jsonl").write_text(text)
    used: list[int] = []
    forward = Int8Linear.forward

    def counted(self: Any, x: torch.Tensor) -> torch.Tensor:
        used.append(len(x))
        return forward(self, x)

    monkeypatch.setattr(Int8Linear, "forward", counted)
    cfg = EvalConfig(
        ("sib200",), tmp_path / "out", tmp_path / "data", checkpoint=model, seeds=(1,), systems=("pretrained",),
        langs=("en",), fit=FitConfig(epochs=25, lr=4e-3, batch_rows=4),
    )  # fmt: skip
    evaluation.run(cfg)
    assert not used
    (plain,) = read_scores(tmp_path / "out/tables/scores.json")
    evaluation.run(dataclasses.replace(cfg, int8=True, out=tmp_path / "small"))
    assert used
    (small,) = read_scores(tmp_path / "small/tables/scores.json")
    assert "int8" in small.signature and "int8" not in plain.signature
    assert small.value == plain.value == 100.0
    (path,) = predictions.files(tmp_path / "small/predictions")
    assert predictions.read_origin(path).checkpoint != ""
