"""Unsupervised translation of a language that is another one re-lettered, from text to BLEU (K et al. 2020)."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase

import pytest

from xling.core.settings import config
from xling.corpora import binarize
from xling.corpora.lexicon import stage as lexicon
from xling.corpora.lexicon.induce import Cues
from xling.corpora.toyworld import mono
from xling.text import vocab
from xling.transfer.translation import unsupervised

GREEK = "αβγδεζηθικλμνξοπρστυφχψωϊϋ"
CIPHER = str.maketrans(ascii_lowercase + ascii_uppercase, GREEK + GREEK.upper())
SETTINGS = (
    "pairs=en-el", "tokens_per_sample=48", "valid_lines=60", "model.layers=2", "model.decoder_layers=2", "model.dim=96",
    "model.heads=4", "model.ffn_dim=384", "model.max_positions=64", "model.dropout=0", "train.updates=850",
    "train.batch_tokens=1500", "train.lr=5e-3", "train.warmup=50", "train.log_every=50", "train.valid_every=425",
    "train.save_every=850", "back.word_by_word=450", "denoise_settings.schedule=0:1,700:0.1",
)  # fmt: skip


def english(seed: int, num_docs: int) -> list[str]:
    return [line for doc in mono("en", num_docs, seed) for line in doc.split("\n") if line]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_relettered_language_is_translated_without_a_single_pair(tmp_path: Path) -> None:
    text = {"en": english(1, 1500), "el": [line.translate(CIPHER) for line in english(2, 1500)]}
    test = english(3, 50)
    for lang, side in text.items():
        (tmp_path / lang).write_text("".join(f"{line}\n\n" for line in side), encoding="utf-8")
    (tmp_path / "test.en").write_text("".join(f"{line}\n" for line in test), encoding="utf-8")
    (tmp_path / "test.el").write_text(
        "".join(f"{line.translate(CIPHER)}\n" for line in test), encoding="utf-8"
    )
    files = {lang: (f"{tmp_path}/{lang}",) for lang in text}
    vocab.run(vocab.VocabConfig(corpora=files, out=f"{tmp_path}/vocab", size=700, alpha=1.0))
    binarize.run(
        binarize.BinarizeConfig(f"{tmp_path}/vocab", f"{tmp_path}/shards", corpora=files, valid_docs=100)
    )
    cues = Cues(spelling=1.0, frequency=0.1, place=1.0)
    lexicon.run(
        lexicon.BliConfig("en-el", files, f"{tmp_path}/words", dim=50, min_count=2, rounds=20, cues=cues)
    )
    words = [
        f"data={tmp_path}/shards",
        f"out={tmp_path}/umt",
        f"back.dictionaries=en-el={tmp_path}/words/en-el.txt,el-en={tmp_path}/words/el-en.txt",
        f"test.en-el={tmp_path}/test.en,{tmp_path}/test.el",
        f"test.el-en={tmp_path}/test.el,{tmp_path}/test.en",
    ]
    unsupervised.run(config.load(unsupervised.UmtConfig, overrides=[*words, *SETTINGS]))
    scores = json.loads((tmp_path / "umt/scores.json").read_text())["test"]
    for direction in ("en-el", "el-en"):
        assert scores[direction]["copy"]["bleu"] < 10
        assert scores[direction]["model"]["bleu"] > 90, scores
