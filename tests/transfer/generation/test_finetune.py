"""Fine-tuning for generation: it learns, it publishes what `xling translate` reads, and frozen parts stay."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from xling.core.errors import UserError
from xling.core.settings import config
from xling.models.files import model_weights
from xling.models.generate.settings import Search
from xling.training import train
from xling.training.settings import PretrainConfig
from xling.transfer.generation import finetune
from xling.transfer.plans import read_rows
from xling.transfer.translation.translate import Translator

FAST = (
    "fit.lr=8e-3", "fit.epochs=150", "fit.batch_rows=12",
    "fit.dropout=0", "fit.precision=fp32", "fit.label_smoothing=0",
)  # fmt: skip


@pytest.fixture(scope="module")
def pretrained(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published encoder-decoder after two updates."""
    out = tmp_path_factory.mktemp("pretrained") / "model"
    given: dict[str, Any] = {
        "data": str(shards),
        "out": str(out),
        "objectives": {"dae": {"tokens_per_sample": "48"}},
        "model": {
            "layers": 1,
            "dim": 48,
            "heads": 2,
            "ffn_dim": 96,
            "max_positions": 48,
            "precision": "fp32",
        },
        "train": {"updates": 2, "warmup": 1, "batch_tokens": 512},
    }
    train.run(config.from_dict(PretrainConfig, given, "test"))
    return out


@pytest.fixture(scope="module")
def rows(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence and the one before it, in English, and five rows of Thai."""
    folder = tmp_path_factory.mktemp("rows")
    for lang, count in (("en", 12), ("th", 5)):
        text = [line for line in (corpus / f"{lang}.txt").read_text("utf-8").splitlines() if line][
            : count + 1
        ]
        (folder / lang).write_text("".join(f"{b}\t{a}\n" for a, b in itertools.pairwise(text)), "utf-8")
    return folder


def settings(pretrained: Path, rows: Path, out: Path, *words: str) -> finetune.GenerateConfig:
    base = (f"checkpoint={pretrained}", f"out={out}", f"train={rows}/en", *FAST)
    return config.load(finetune.GenerateConfig, overrides=[*base, *words])


def test_it_learns_rows_by_heart_and_writes_in_other_languages(
    pretrained: Path, rows: Path, tmp_path: Path
) -> None:
    tests = (f"test.en={rows}/en", f"test.th={rows}/th")
    made = finetune.run(settings(pretrained, rows, tmp_path / "out", *tests))
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert scores["en"]["bleu"] > 75 and scores["en"]["rouge_l"] > 85, scores
    assert "tok:13a" in scores["en"]["signature"] and "tok:char" in scores["th"]["signature"]
    assert (made.counts["rows"], scores["th"]["lines"]) == (12, 5)
    sources = [line.split("\t")[0] for line in (rows / "en").read_text("utf-8").splitlines()]
    again = Translator(tmp_path / "out", Search())(sources, "en", "en")
    assert again == (tmp_path / "out" / "test.en.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize("part", ["decoder", "encoder"])
def test_a_frozen_part_stays(pretrained: Path, rows: Path, tmp_path: Path, part: str) -> None:
    finetune.run(settings(pretrained, rows, tmp_path / "out", "fit.epochs=1", f"freeze={part}"))
    before, after = (
        model_weights.load_seq2seq(path)[0].state_dict() for path in (pretrained, tmp_path / "out")
    )
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    other = {"decoder": "encoder.", "encoder": "decoder."}[part]
    assert all(name.startswith((other, "lm_head.")) for name in changed)
    assert "encoder.tokens.weight" not in changed


def test_long_sources_are_cut_not_split(pretrained: Path) -> None:
    translator = Translator(pretrained, Search(), truncates=True)
    assert [len(part) for part in translator.split_text("The teacher sees a red boat " * 30)] == [46]
    assert len(Translator(pretrained, Search()).split_text("The teacher sees a red boat " * 30)) > 1


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        (["train=nowhere"], "no file at nowhere"),
        (["lang=sw"], "was not trained on 'sw'; valid: ar, en, th"),
        (["fit.epochs=0"], "fit.epochs=0; valid: a whole number from 1"),
        (["max_length=2"], "max_length=2; valid: a whole number from 8, or 0"),
        (["fit.lr=1e30"], "the gradients became infinite; fix: lower fit.lr"),
    ],
)
def test_mistakes_are_user_errors(
    pretrained: Path, rows: Path, tmp_path: Path, words: list[str], pattern: str
) -> None:
    with pytest.raises(UserError, match=pattern):
        finetune.run(settings(pretrained, rows, tmp_path / "out", *words))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("line", ["no tab", "a\tb\tc", "\tb", "a\t"])
def test_a_row_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "rows").write_text(f"a\tb\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"rows line 2: .*fix: correct the line"):
        read_rows(tmp_path / "rows")
