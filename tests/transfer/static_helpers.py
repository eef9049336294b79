"""A static encoder by hand, and rows of two made-up languages whose words have the same vectors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xling.core.output.manifest import publish
from xling.eval.rows.suite import Example
from xling.eval.run.evaluation import EvalConfig
from xling.eval.systems import build
from xling.static import encoder_files
from xling.static.shape import StaticConfig
from xling.static.vectors import StaticEncoder, word_hash
from xling.text.words.features import hash_features

NUM_WORDS = 40


def word(lang: str, number: int) -> str:
    return f"{lang}{chr(97 + number // 26)}{chr(97 + number % 26)}{lang}"


def by_hand(out: Path) -> Path:
    """A model by hand: word n of two languages has the same vector, through the feature that is the word alone."""
    torch.manual_seed(1)
    cfg = StaticConfig(dim=48, bits=18, sketch=0)
    table, meanings = torch.zeros(1 << cfg.bits, cfg.dim), torch.randn(NUM_WORDS, cfg.dim)
    for lang, number in product(("xz", "qw"), range(NUM_WORDS)):
        form = word(lang, number)
        table[word_hash(form) % len(table)] = meanings[number] * len(hash_features(form))
    with publish(out, "pretrain static", cfg) as made:
        encoder_files.save_encoder(StaticEncoder(cfg, table, {}), made.path)
    return out


@dataclass(frozen=True)
class Shape:
    name: str
    task: str
    labels: tuple[str, ...]
    scheme: str = ""


def system(ckpt: Path, name: str = "pretrained") -> Any:
    return build(name, EvalConfig(suites=("sib200",), out=Path("unused"), checkpoint=ckpt))


def texts(lang: str, num_rows: int, seed: int) -> tuple[list[str], list[list[int]]]:
    numbers = np.random.default_rng(seed).integers(0, NUM_WORDS, (num_rows, 6)).tolist()
    return [" ".join(word(lang, n) for n in row) for row in numbers], numbers


def classified(lang: str, num_rows: int, seed: int) -> list[Example]:
    """The class says which half of the meanings most words are of."""
    found, numbers = texts(lang, num_rows, seed)
    names = ["low" if sum(n < NUM_WORDS // 2 for n in row) > 3 else "high" for row in numbers]
    return [
        Example(str(i), {"text": text}, name) for i, (text, name) in enumerate(zip(found, names, strict=True))
    ]


def tagged(lang: str, num_rows: int, seed: int) -> list[Example]:
    _, numbers = texts(lang, num_rows, seed)
    rows = []
    for i, row in enumerate(numbers):
        tags, before = [], False
        for n in row:
            tags.append("O" if n >= 10 else "I-X" if before else "B-X")
            before = n < 10
        rows.append(Example(str(i), {"tokens": tuple(word(lang, n) for n in row)}, tuple(tags)))
    return rows


def share_right(found: list[Any], right: list[Any]) -> float:
    return float(np.mean([a == b for a, b in zip(found, right, strict=True)]))


def labels_of(rows: list[Example]) -> list[Any]:
    return [row.label for row in rows]
