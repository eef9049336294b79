"""Retrieval over thirty languages a second time asks the encoder nothing."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xling.eval.rows.suite import Suite, suites
from xling.eval.run import evaluation
from xling.eval.run.settings import EvalConfig
from xling.models.network.encoder import Encoder

NUM_LANGS, NUM_ROWS = 30, 4


@pytest.fixture
def forwards(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tokens of every forward pass of any encoder."""
    seen: list[int] = []
    whole = Encoder.forward

    def counted(self: Encoder, src_tokens: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(len(src_tokens))
        return whole(self, src_tokens, *args, **kwargs)

    monkeypatch.setattr(Encoder, "forward", counted)
    return seen


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of NTREX in thirty languages, under a suite without recorded digests."""
    suite: Suite = dataclasses.replace(suites()["ntrex"], files=())
    monkeypatch.setitem(suites()._entries, "ntrex", suite)
    draw = np.random.default_rng(1)
    langs = [suite.pivot, *[lang for lang in suite.languages if lang != suite.pivot]][: NUM_LANGS + 1]
    for lang in langs:
        path = tmp_path / f"data/ntrex/ntrex.{suite.codes[lang]}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        words = draw.permutation(["the", "boat", "bread", "books", "river", "home", "village"])
        path.write_text("".join(f"{words[i]} {words[i + 1]}\n" for i in range(NUM_ROWS)), encoding="utf-8")
    return tmp_path / "data"


def test_a_rerun_costs_no_forward_pass(data: Path, model: Path, forwards: list[int], tmp_path: Path) -> None:
    cfg = EvalConfig(("ntrex",), tmp_path / "out", data, checkpoint=model, systems=("pretrained",))
    text = evaluation.run(cfg)
    assert text.count("\n| ") > NUM_LANGS
    sides = NUM_LANGS + 1
    assert len(forwards) == sides, "one batch a language, and English once for all of them"
    before = (tmp_path / "out/tables/scores.json").read_bytes()
    shutil.rmtree(tmp_path / "out/tables")
    shutil.rmtree(tmp_path / "out/predictions")
    forwards.clear()
    assert evaluation.run(cfg) == text
    assert (tmp_path / "out/tables/scores.json").read_bytes() == before
    evaluation.run(dataclasses.replace(cfg, distance="csls"))
    evaluation.run(dataclasses.replace(cfg, distance="margin"))
    assert forwards == []
    evaluation.run(dataclasses.replace(cfg, layer=0))
    assert len(forwards) == sides, "another layer is other vectors"
