"""Mistakes in data and settings that training names in one line."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xling.core.errors import UserError
from xling.text.files.shards import EOS, ShardWriter
from xling.training import train
from xling.training.assemble import build_trainer


@pytest.mark.parametrize(
    ("names", "words", "pattern"),
    [
        ("mmlm", ["langs=en,sw"], "unknown language in .*'sw'; valid: ar, en, th"),
        (
            "tlm",
            ["objectives.tlm.pairs=ar-en"],
            "unknown pair in .*'ar-en'; valid: en-ar, en-th; fix: use en-ar",
        ),
        ("tlm", ["objectives.tlm.pairs=en-sw"], "unknown pair in .*'en-sw'; fix: .*valid: en-ar, en-th"),
        (
            "tlm",
            ["langs=ar,th"],
            "no pair in .* of the languages ar, th; valid: pairs that it has: en-ar, en-th",
        ),
        (
            "alm",
            ["objectives.alm.pairs=en-th"],
            "no code-switched text for en-th in .*; valid: en-ar; fix: give switched",
        ),
        ("alm", ["objectives.alm.switched=1.5"], "switched=1.5; valid: a share"),
        ("btmlm", ["langs=en"], "objectives.btmlm with langs=en; valid: two languages or more"),
        ("mmlm", ["objectives.mmlm.mask_unit=wrod"], "mask_unit 'wrod'; fix: .*valid: span, token, word"),
        (
            "xlco",
            ["objectives.xlco.pooling=bos"],
            "value for objectives.xlco.pooling 'bos'; valid: cls, max, mean",
        ),
        ("hictl", ["objectives.hictl.pooling=bos"], "hictl.pooling 'bos'"),
        ("xlco", ["objectives.xlco.queue_size=0"], "queue_size=0; valid: a whole number from 1"),
        ("xlco", ["objectives.xlco.temperature=-1"], "temperature=-1.0; valid: a number above 0, or 0 for"),
        (
            "mbart",
            ["objectives.mbart.style=bart"],
            "unknown value for objectives.mbart.style 'bart'; valid: fairseq, xling",
        ),
        (
            "mbart",
            ["objectives.mbart.style=fairseq", "objectives.mbart.mask=.1"],
            "mask=0.1 changes nothing with objectives.mbart: it needs style=xling",
        ),
        (
            "tlm",
            ["objectives.tlm.style=none"],
            "unknown value for objectives.tlm.style 'none'; valid: infoxlm, xlm",
        ),
        ("hictl", ["objectives.hictl.temperature=0"], "temperature=0.0; valid: a number above 0"),
        (
            "xlco",
            ["objectives.xlco.negatives=all"],
            "unknown value for objectives.xlco.negatives 'all'; valid: batch, queue",
        ),
        ("xlco", ["objectives.xlco.margin=3"], "margin=3.0; valid: a difference of cosines from 0 to 2"),
        ("xlco", ["objectives.xlco.momentum=2"], "momentum=2.0; valid: a share"),
        ("xlco", ["objectives.xlco.layer=99"], "layer=99; valid: 1 to 2, or 0"),
        ("hictl", ["objectives.hictl.mix=7"], "hictl.mix=7.0; valid: a share"),
        ("hictl", ["objectives.hictl.num_words=-1"], "num_words=-1; valid: a whole number from 1"),
        ("umt", ["objectives.umt.own_share=5"], "own_share=5.0; valid: a share"),
        (
            "distill",
            ["objectives.distill.tokens_per_sample=128", "model.max_positions=128"],
            "tokens_per_sample=128; valid: at most 64, the positions of the teacher",
        ),
        (
            "btmlm",
            ["objectives.btmlm.tokens_per_sample=5"],
            "btmlm.tokens_per_sample=5; valid: a whole number from 8",
        ),
        ("mmlm", ["objectives.mmlm.mask_prob=-0.1"], "mask_prob=-0.1; valid: a share"),
        ("mmlm", ["objectives.mmlm.random_token_prob=nan"], "random_token_prob=nan; valid: a number"),
        ("mmlm", ["objectives.mmlm.alpha=nan"], "alpha=nan; valid: a number"),
        ("mmlm", ["objectives.mmlm.alpha=1.5"], "alpha=1.5; valid: a number from 0 to 1"),
        ("mmlm", ["langs=en,en,ar"], "langs=en,en,ar: en is given twice; valid: each language once"),
        ("mmlm", ["objectives.mmlm.schedule=0:1"], "objectives.mmlm.schedule with one objective"),
        ("mmlm", ["train.lr=-1"], r"train\.lr=-1\.0; valid: a number above 0"),
        ("mmlm", ["train.threads=-1"], r"train\.threads=-1; valid: a number from 0"),
        ("mmlm", ["model.heads=0"], r"model\.heads=0; valid: a whole number from 1"),
        ("dae", ["model.decoder_layers=-1"], r"model\.decoder_layers=-1"),
        ("mmlm+tlm", ["objectives.tlm.weight=abc"], r"objectives\.tlm\.weight=abc; valid: a number above 0"),
        (
            "mmlm+tlm",
            ["objectives.tlm.langs=en,ar"],
            r"objectives\.tlm\.langs is given, and a mix has one list of languages; valid: langs=",
        ),
        (
            "translation",
            ["langs=en,ar", "objectives.translation.pairs=en-th,en-ar"],
            "pairs=en-th with langs=en,ar",
        ),
        (
            "translation",
            ["objectives.translation.pairs=en-th", "objectives.translation.directions=ar-en"],
            "pairs=en-th with directions=ar-en; valid: pairs=en-ar",
        ),
        ("mmlm+tlm", ["objectives.tlm.weight=0"], "objectives.tlm.weight=0; valid: a number above 0"),
        (
            "mmlm+tlm",
            ["objectives.tlm.schedule=5:1,2:0"],
            "objectives.tlm.schedule=5:1,2:0; valid: UPDATE:VALUE",
        ),
        ("mmlm", ["freeze=body", "init=/nowhere"], "nowhere"),
        ("mass", ["model.lang_first=true"], "objectives.mass with model.lang_first=true"),
        (
            "mbart",
            ["model.lang_first=true", "objectives.mbart.style=fairseq"],
            "style=fairseq with model.lang_first=true",
        ),
        (
            "mmlm",
            ["objectives.mmlm.leave_unmasked_prob=0.6", "objectives.mmlm.random_token_prob=0.6"],
            "leave_unmasked_prob=0.6 and random_token_prob=0.6; valid: at most 1 in all",
        ),
        ("umt", ["objectives.umt.reuse=0"], "reuse=0; valid: a whole number from 1"),
        ("umt", ["objectives.umt.pairs=en-sw"], "pair en-sw: no text in sw"),
        ("umt", ["objectives.umt.join=true"], "back-translation reads single sentences"),
        ("umt", ["objectives.umt.word_by_word=1"], "without a dictionary"),
        ("umt", ["objectives.umt.dictionaries=en-ar=nowhere"], "nowhere"),
        ("umt", ["objectives.umt.temperature=0"], "umt.temperature=0.0; valid: a number above 0"),
        (
            "translation",
            ["objectives.translation.back_translated=nowhere"],
            "nowhere",
        ),
        ("mmlm+tlm", ["train.sharding=full"], "train.sharding=full with mix=alternate"),
    ],
)
def test_a_mistake_is_one_line(
    refused: Any, bitext: Path, tmp_path: Path, names: str, words: list[str], pattern: str
) -> None:
    refused(pattern, bitext, names, tmp_path / "out", *words)


def test_a_language_may_lack_text_in_validation_and_not_in_training(
    recipe: Any, bitext: Path, tmp_path: Path
) -> None:
    shutil.copytree(bitext, tmp_path / "other")
    for split in ("valid", "train"):
        with ShardWriter(tmp_path / "other" / "th" / split, 1000) as writer:
            writer.add(np.array([EOS]))
            writer.close()
        _, task = build_trainer(recipe(tmp_path / "other", "mbart", tmp_path / "out"), tmp_path / "out")
        task.load_dataset("valid")
        assert {int(task.dataset("valid")[i]["langs"][0]) for i in range(len(task.dataset("valid")))} == {
            0,
            1,
        }
    with pytest.raises(UserError, match=r"no training text in .* for th; fix: leave them out of langs="):
        task.load_dataset("train")


def test_a_shard_of_another_vocabulary_is_refused(
    recipe: Any, bitext: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    shutil.copytree(bitext, other)
    lines = (other / "dict.txt").read_text("utf-8").splitlines()
    lines[0], lines[1] = lines[1], lines[0]
    (other / "dict.txt").write_text("\n".join(lines) + "\n", "utf-8")
    with pytest.raises(UserError, match=r"dict\.txt was changed or damaged after 'binarize' wrote it"):
        train.run(recipe(other, "mmlm", tmp_path / "out"))
    monkeypatch.setenv("XLING_VERIFY", "never")
    with pytest.raises(UserError, match=r"made with another vocabulary than its dict\.txt"):
        train.run(recipe(other, "mmlm", tmp_path / "out"))
    with pytest.raises(UserError, match=r"was trained with vocabulary"):
        train.run(recipe(bitext, "mmlm+tlm", tmp_path / "out", f"objectives.tlm.data={other}"))
