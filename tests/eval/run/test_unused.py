"""Settings of evaluations that no suite, system or model reads are refused, each by its value."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from xling.core.errors import UserError
from xling.core.settings import config
from xling.eval.rows.suite import suites
from xling.eval.run import unused
from xling.eval.run.finetune import FinetuneConfig
from xling.eval.run.finetune import run as finetune
from xling.eval.run.plan import expand
from xling.eval.run.settings import EvalConfig
from xling.eval.systems import FitConfig

CLASSES, PAIRS, TAGS, SPANS = "sib200", "xnli", "panx", "xquad"
VECTORS, SIMILAR, LIKELIER, WRITTEN = "tatoeba", "sts17", "multiblimp", "xlsum"


def refused(*words: str, folder: str = "m") -> str:
    """What an evaluation says of its settings; empty if all of them have an effect."""
    return _said(config.load(EvalConfig, overrides=["out=o", f"checkpoint={folder}", *words]))


@pytest.mark.parametrize(
    ("suite", "word"),
    [
        (TAGS, "layer=1"), (TAGS, "pooling=max"), (TAGS, "distance=csls"), (TAGS, "centred=true"),
        (TAGS, "precision=bf16"), (TAGS, "search.beam=2"), (TAGS, "shots=3"), (TAGS, "translator=t"),
        (TAGS, "dictionary=d"), (TAGS, "fit.freeze=decoder"), (TAGS, "fit.pair_features=match"),
        (TAGS, "fit.text_features=concat"), (TAGS, "fit.switch_rate=0.1"), (TAGS, "fit.seed=2"),
        (CLASSES, "layer=1"), (CLASSES, "fit.freeze=decoder"), (CLASSES, "fit.pair_features=match"),
        (PAIRS, "fit.text_features=concat"), (SPANS, "fit.text_features=concat"), (PAIRS, "fit.freeze=decoder"),
        (VECTORS, "fit.lr=1e-3"), (VECTORS, "seeds=1"), (VECTORS, "select=last"), (VECTORS, "train_rows=5"),
        (VECTORS, "source=de"), (VECTORS, "protocol=few_shot"), (VECTORS, "fit.freeze=encoder"),
        (SIMILAR, "distance=csls"), (LIKELIER, "layer=1"), (LIKELIER, "fit.epochs=2"), (LIKELIER, "seeds=1"),
        (WRITTEN, "fit.layer_decay=0.5"), (WRITTEN, "fit.method=self_distillation"), (WRITTEN, "layer=1"),
        (WRITTEN, "fit.layers=mix"),
    ],
)  # fmt: skip
def test_what_changes_nothing_is_refused(suite: str, word: str) -> None:
    if suite not in suites():
        suite = next(name for name in suites() if suites()[name].task == "generation")
    name, _, value = word.partition("=")
    said = refused(f"suites={suite}", word)
    assert said.startswith(f"{name}="), said
    assert f"changes nothing for {suite}: it needs " in said, said
    assert value


@pytest.mark.parametrize(
    ("suite", "word"),
    [
        (TAGS, "fit.lr=1e-3"), (TAGS, "seeds=4"), (TAGS, "fit.layer_decay=0.5"), (TAGS, "int8=true"),
        (CLASSES, "fit.text_features=concat"), (PAIRS, "fit.pair_features=match"), (VECTORS, "layer=1"),
        (VECTORS, "distance=csls"), (VECTORS, "centred=true"), (SIMILAR, "layer=1"), (TAGS, "fit.project=p"),
        (TAGS, "fit.freeze=encoder"), (PAIRS, "fit.layers=mix"), (SPANS, "fit.layers=1"),
        (f"{TAGS},{VECTORS}", "layer=1"), (f"{TAGS},{CLASSES}", "fit.text_features=concat"),
    ],
)  # fmt: skip
def test_what_one_suite_reads_is_accepted(suite: str, word: str) -> None:
    assert not refused(f"suites={suite}", word)


@pytest.mark.parametrize(
    "word", ["lr=1e-3", "epochs=2", "freeze=encoder", "label_smoothing=0.1", "layer_decay=0.5"]
)
def test_a_head_on_fixed_vectors_reads_nothing_of_the_updates(word: str) -> None:
    words = ["fit.text_features=neighbours", f"fit.{word}"]
    assert "changes nothing for sib200: it needs other fit.text_features" in refused(
        f"suites={CLASSES}", *words
    )
    assert not refused(f"suites={CLASSES},{TAGS}", *words)


def test_controls_alone_read_no_model_and_no_fine_tuning() -> None:
    alone = [f"suites={TAGS}", "systems=majority"]
    assert refused(*alone).startswith("checkpoint=m changes nothing")
    for word in ("fit.lr=1e-3", "seeds=1", "int8=true"):
        cfg = config.load(EvalConfig, overrides=["out=o", *alone, word])
        with pytest.raises(UserError, match="changes nothing for panx"):
            unused.check(cfg, [suites()[TAGS]])


def test_a_static_encoder_reads_neither_layers_nor_a_learning_rate(tmp_path: Path) -> None:
    (tmp_path / "static.safetensors").touch()
    for word in (
        "fit.lr=1e-3",
        "fit.freeze_embeddings=true",
        "int8=true",
        "fit.pair_features=match",
        "fit.freeze=encoder",
        "fit.layers=mix",
    ):
        suite = PAIRS if "pair" in word else TAGS
        assert "changes nothing" in refused(f"suites={suite}", word, folder=str(tmp_path)), word
    assert not refused(f"suites={TAGS}", "fit.project=p", "fit.epochs=2", folder=str(tmp_path))
    said = refused(f"suites={CLASSES},{SPANS}", folder=str(tmp_path))
    assert said == f"{SPANS} has rows that a static encoder cannot answer"
    (tmp_path / "static.safetensors").rename(tmp_path / "model.pt")
    assert not refused(f"suites={CLASSES},{SPANS}", folder=str(tmp_path))
    assert not refused(f"suites={TAGS}", "fit.project=p", folder=str(tmp_path))
    assert "fit.project=p changes nothing" in refused("suites=xsid", "fit.project=p", folder=str(tmp_path))


def test_a_fine_tuned_model_is_not_trained_again(tmp_path: Path) -> None:
    (tmp_path / "task.pt").touch()
    for word in ("fit.lr=1e-3", "seeds=1,2", "select=last"):
        words = [f"suites={TAGS}", "systems=pretrained", word]
        assert "it needs a model that is fine-tuned here" in refused(*words, folder=str(tmp_path))


def _said(cfg: EvalConfig) -> str:
    try:
        unused.check(cfg, [suites()[name] for name in expand(cfg.suites)])
    except UserError as error:
        return error.given
    return ""


_EWC = {"method": "ewc", "old_text": "f"}
_TEACHER = {"method": "self_distillation"}
_NEEDS = {"strength": _TEACHER, "teacher_steps": _TEACHER, "old_text": _EWC, "old_rows": _EWC}  # fmt: skip
"""Settings beside which another one has an effect."""


def _other(name: str, default: Any) -> Any:
    others = {"switch": {"sw": "d"}, "method": "self_distillation", "freeze": "encoder", "pair_features": "match",
              "text_features": "concat", "project": "p", "precision": "bf16", "layer_decay": 0.5,
              "label_smoothing": 0.1, "layers": "mix", "old_text": "f", "adversary": "s",
              "adversary_form": "wgan"}  # fmt: skip
    if name in others:
        return others[name]
    return not default if isinstance(default, bool) else 2 * default + 1


@pytest.mark.parametrize("suite", [CLASSES, PAIRS, TAGS, SPANS])
def test_every_setting_of_fine_tuning_is_read_or_refused(suite: str) -> None:
    """Each setting is compared by its value with what the fine-tuning of an encoder is given."""
    from xling.transfer.settings import TuneConfig

    read = {item.name for item in dataclasses.fields(TuneConfig)}
    for item in dataclasses.fields(FitConfig):
        default = {} if item.name == "switch" else item.default
        words = {"suites": (suite,), "out": "o", "checkpoint": "m"}
        fit = {**_NEEDS.get(item.name, {}), item.name: _other(item.name, default)}
        cfg = config.from_dict(EvalConfig, {**words, "fit": fit})
        said = _said(cfg)
        assert said.startswith(f"fit.{item.name}=") or (
            not said and item.name in {*read, "project", "text_to_text"}
        ), item.name


def test_finetune_refuses_before_it_reads_a_model(tmp_path: Path) -> None:
    rows = tmp_path / "sib200"
    rows.mkdir()
    words = [f"suite={CLASSES}", f"checkpoint={tmp_path}", f"out={tmp_path}/out", f"data={tmp_path}"]
    with pytest.raises(UserError, match=r"fit\.freeze=decoder changes nothing for sib200"):
        finetune(config.load(FinetuneConfig, overrides=[*words, "fit.freeze=decoder"]))
    assert not (tmp_path / "out").exists()
