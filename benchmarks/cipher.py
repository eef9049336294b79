"""Unsupervised translation of a language that is another one re-lettered, from text to BLEU (K et al. 2020).

``python -m benchmarks.cipher FOLDER`` trains 850 updates (about five minutes on one core) and fails where the model
has a BLEU of 90 or less, or a copy of the source 10 or more. A test trains a sample of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Any

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
    """Return the lines of so many documents of the toy world."""
    return [line for doc in mono("en", num_docs, seed) for line in doc.split("\n") if line]


def scores(folder: Path, docs: int, tests: int, *words: str) -> dict[str, Any]:
    """Train on so many documents a language; the scores of each direction, of the model and of a copy."""
    text = {"en": english(1, docs), "el": [line.translate(CIPHER) for line in english(2, docs)]}
    test = english(3, tests)
    for lang, side in text.items():
        (folder / lang).write_text("".join(f"{line}\n\n" for line in side), encoding="utf-8")
    for lang, side in (("en", test), ("el", [line.translate(CIPHER) for line in test])):
        (folder / f"test.{lang}").write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    files = {lang: (f"{folder}/{lang}",) for lang in text}
    vocab.run(vocab.VocabConfig(corpora=files, out=f"{folder}/vocab", size=700, alpha=1.0))
    binarize.run(
        binarize.BinarizeConfig(f"{folder}/vocab", f"{folder}/shards", corpora=files, valid_docs=100)
    )
    cues = Cues(spelling=1.0, frequency=0.1, place=1.0)
    lexicon.run(
        lexicon.BliConfig("en-el", files, f"{folder}/words", dim=50, min_count=2, rounds=20, cues=cues)
    )
    given = [
        f"data={folder}/shards",
        f"out={folder}/umt",
        f"back.dictionaries=en-el={folder}/words/en-el.txt,el-en={folder}/words/el-en.txt",
        f"test.en-el={folder}/test.en,{folder}/test.el",
        f"test.el-en={folder}/test.el,{folder}/test.en",
        *{word.partition("=")[0]: word for word in (*SETTINGS, *words)}.values(),
    ]
    unsupervised.run(config.load(unsupervised.UmtConfig, overrides=given))
    made: dict[str, Any] = json.loads((folder / "umt/scores.json").read_text())["test"]
    return made


def main(words: list[str]) -> None:
    """Run all of it in a new folder."""
    if len(words) != 1:
        sys.exit("usage: python -m benchmarks.cipher FOLDER")
    folder = Path(words[0])
    folder.mkdir(parents=True)
    found = scores(folder, 1500, 50)
    print(json.dumps(found))
    if any(each["copy"]["bleu"] >= 10 or each["model"]["bleu"] <= 90 for each in found.values()):
        sys.exit("cipher: not learnt")


if __name__ == "__main__":
    main(sys.argv[1:])
