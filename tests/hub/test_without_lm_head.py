"""Imported models without an LM head, and with weights that are not finite."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.hub.test_sentence_modules import bert, modernbert, xlmr
from xling import cli
from xling.core.errors import UserError
from xling.hub.settings import ImportConfig, QuantizeConfig
from xling.hub.source import run_hf
from xling.objectives.distill import Distill
from xling.transfer.likelihood import MaskedLM

HEADS = ("lm_head.", "cls.", "head.", "decoder.")
WRITERS = {"bert": bert, "modernbert": modernbert, "xlm-roberta": xlmr}


@pytest.fixture(params=WRITERS)
def foreign(request: pytest.FixtureRequest, vocab: Path, tmp_path: Path) -> Path:
    WRITERS[request.param](tmp_path / "model", vocab)
    return tmp_path / "model"


def rewrite(folder: Path, change: Any) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(change(tensors), folder / "model.safetensors", metadata={"format": "pt"})


def test_a_model_without_an_lm_head_fills_no_masks(foreign: Path, tmp_path: Path) -> None:
    run_hf(ImportConfig(foreign, tmp_path / "whole"))
    assert MaskedLM(tmp_path / "whole").scores(["two books"], "en")[0] < 0
    rewrite(foreign, lambda tensors: {n: t for n, t in tensors.items() if not n.startswith(HEADS)})
    run_hf(ImportConfig(foreign, tmp_path / "headless"))
    with pytest.raises(
        UserError, match="fill no masks: the model that it was imported from had no LM head; valid: a pre"
    ):
        MaskedLM(tmp_path / "headless")
    assert MaskedLM(tmp_path / "headless", random_init=True).scores(["two books"], "en")[0] < 0
    objective: Any = Distill.__new__(Distill)
    objective.cfg = SimpleNamespace(teacher=str(tmp_path / "headless"), soft=1.0)
    with pytest.raises(UserError, match=r"headless has no trained LM head, and soft=1\.0 learns from it"):
        Distill.modules(objective, None)


def test_the_identity_is_known_in_8_bits_too(vocab: Path, tmp_path: Path) -> None:
    from xling.hub import quantize

    bert(tmp_path / "model", vocab)
    rewrite(tmp_path / "model", lambda tensors: {n: t for n, t in tensors.items() if not n.startswith(HEADS)})
    run_hf(ImportConfig(tmp_path / "model", tmp_path / "in"))
    quantize.run(QuantizeConfig(tmp_path / "in", tmp_path / "small"))
    with pytest.raises(UserError, match="had no LM head"):
        MaskedLM(tmp_path / "small")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_that_are_not_finite_are_refused_by_name(
    foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: float, dtype: torch.dtype
) -> None:
    name = next(
        n for n, t in load_file(foreign / "model.safetensors").items() if t.dim() == 2 and "layer" in n
    )

    def harmed(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        tensors[name] = tensors[name].to(dtype)
        tensors[name][1, 2] = bad
        return tensors

    rewrite(foreign, harmed)
    with pytest.raises(UserError, match=f"1 of .* weights in '{name}' are not finite"):
        run_hf(ImportConfig(foreign, tmp_path / "out"))
    assert cli.main(["import", "hf", str(foreign), str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert name in told and "Traceback" not in told and not (tmp_path / "out").exists()
