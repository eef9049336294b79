"""The settings of a model are written once: what is made from them agrees with them."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import pytest

from xling.core.errors import UserError
from xling.models import shape
from xling.models.files import model_folder
from xling.models.model_setting import DECODER, ENCODER
from xling.models.network.encoder import ACTIVATIONS, NORM_LAYERS, POSITION_KINDS, EncoderConfig
from xling.models.network.seq2seq import Seq2SeqConfig
from xling.models.parts import PARTS
from xling.models.shape import ModelConfig, Shape
from xling.transfer.plans import read_start

CHOICES = {"norm": NORM_LAYERS, "positions": POSITION_KINDS, "ffn": ACTIVATIONS}


def test_the_classes_of_fairseq_have_every_setting_with_its_default() -> None:
    both = {item.name: item.default for item in fields(Seq2SeqConfig) if item.name != "_name"}
    assert both == asdict(Shape())
    encoder = {item.name for item in fields(EncoderConfig)} - {"_name"}
    assert both.keys() - encoder == set(shape.names(only=[DECODER]))


@pytest.mark.parametrize("name", CHOICES)
def test_what_may_be_chosen_is_what_there_is(name: str) -> None:
    assert set(get_args(get_type_hints(ModelConfig)[name])) == set(CHOICES[name])


def test_every_setting_has_its_sentence() -> None:
    said = " ".join(str(cls.__doc__).partition("Attributes:")[2] for cls in (ModelConfig, Shape))
    told = said.replace(", ", ": ").split()
    assert [item.name for item in fields(Shape) if f"{item.name}:" not in told] == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"layers": 0}, "model.layers=0; valid: a whole number from 1"),
        (
            {"decoder_layers": -1},
            "model.decoder_layers=-1; valid: a number from 1, or 0 for as many as layers",
        ),
        ({"norm_eps": 0.0}, "model.norm_eps=0.0; valid: a number above 0"),
        ({"attention_dropout": 1.0}, "model.attention_dropout=1.0; valid: a share from 0, below 1"),
        ({"dropout": float("inf")}, "model.dropout=inf; valid: a share"),
        (
            {"untied_head": True},
            "model.untied_head=true with model.plain_head=false; valid: both, or neither",
        ),
    ],
)
def test_what_has_no_model_is_refused_where_it_is_written(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ModelConfig(**wrong)


def test_sides_and_facts() -> None:
    assert set(shape.names(only=[ENCODER])) == {
        "segment_embeddings",
        "lang_adapter",
        "invertible",
        "task_adapter",
        *(set(PARTS) - {"arch", "decoder_embeddings", "features", "fused", "share_layers"}),
    }
    assert set(shape.names(own=True)) == {
        "dropout",
        "attention_dropout",
        "precision",
        "checkpoint_activations",
        "attention_out_dropout",
        "init",
        "fused",
        "features",
    }
    given = asdict(ModelConfig(plain_head=True, lang_adapter=2))
    assert (shape.wrong_side(given, DECODER), shape.wrong_side(given, ENCODER)) == (
        "plain_head",
        "lang_adapter",
    )


@pytest.mark.parametrize("name", shape.names(same=True))
def test_a_model_starts_from_one_of_the_same_meaning(name: str, tmp_path: Path) -> None:
    """Each setting that must be equal is compared; one of the decoder only where both have one."""
    ours = Shape()
    value = getattr(ours, name)
    other = not value if isinstance(value, bool) else f"{value}?" if isinstance(value, str) else value * 2
    theirs = SimpleNamespace(**{**asdict(ours), name: other})
    with pytest.raises(UserError, match=f"has model.{name}="):
        model_folder.check_settings(ours, theirs, True, tmp_path)
    if name in shape.names(only=[DECODER]):
        model_folder.check_settings(ours, theirs, False, tmp_path)


def test_a_run_keeps_how_it_computes_and_takes_what_the_model_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "shape": asdict(Shape(dim=64, dropout=0.5, checkpoint_activations=False, task_adapter=3)),
        "langs": ["en"],
    }
    monkeypatch.setattr(model_folder, "check_model", lambda *_: found)
    wanted = ModelConfig(dropout=0.2, checkpoint_activations=True, precision="fp32")
    assert read_start(Path("there"), wanted)[0] == replace(wanted, dim=64)
