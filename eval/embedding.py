"""Predictions without fine-tuning, from sentence or word vectors: retrieval, mining and dictionaries."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xling.eval import predictions, retrieval
from xling.eval.backend import Backend
from xling.eval.predictions import Origin
from xling.eval.results import CONTROLS
from xling.eval.retrieval import Vectors
from xling.eval.settings import EvalConfig
from xling.eval.suite import Example, Suite, data_digest, load

KINDS = ("retrieval", "mining", "bli")


def predict(
    cfg: EvalConfig, system: Backend, suite: Suite, targets: Sequence[tuple[str, str]], data: Path
) -> Iterator[Path]:
    """The prediction files of one system on one suite, made where they are missing.

    Args:
        cfg: layer, pooling, distance and the folder of the run.
        system: gives the vectors.
        suite: of a kind in `KINDS`.
        targets: (language or pair, split).
        data: folder of the suites.
    """
    answers: dict[str, Callable[..., list[Any]]] = {
        "retrieval": _retrieve,
        "mining": _mine,
        "bli": _translate_words,
    }
    more = ("|centred" if cfg.centred else "") + _precision(cfg) + ("|int8" if cfg.int8 else "")
    how = f"layer:{cfg.layer}|pooling:{cfg.pooling}|distance:{cfg.distance}{more}"
    folder = cfg.out / "predictions"
    for lang, split in targets:
        origin = Origin(
            suite.name, lang, split, system.name, -1, "none", "none", "",
            checkpoint=system.digest, extra=how, rows=_rows_digest(suite, lang, split, data),
        )  # fmt: skip
        if not predictions.is_there(folder, origin):
            rows = load(suite, lang, split, data)
            predictions.write(folder, origin, rows, answers[suite.kind](cfg, system, suite, lang, rows, data))
        yield origin.path(folder)


def _rows_digest(suite: Suite, lang: str, split: str, data: Path) -> str:
    """Digest of what the answers are found by: the rows, and the training rows that a threshold or words come from."""
    read = [split, *(["train"] if suite.kind != "retrieval" and suite.has(lang, "train", data) else [])]
    return "+".join(data_digest(suite, lang, each, data) for each in read)


def vectors(cfg: EvalConfig, system: Backend, texts: Sequence[str], lang: str) -> Vectors:
    """Vectors of texts, float32 (num_texts, dim), computed once per model, layer, pooling and texts."""
    key = hashlib.sha256(
        "\n".join(
            [
                system.name,
                system.digest,
                f"{cfg.layer}{_precision(cfg)}",
                cfg.pooling,
                lang,
                *map(repr, texts),
            ]
        ).encode()
    ).hexdigest()
    path = cfg.out / "vectors" / f"{key}.npy"
    if path.is_file():
        found: Vectors = np.load(path)
        return found
    made = system.embed(texts, lang, cfg.layer, cfg.pooling)
    assert len(made) == len(texts), (len(made), len(texts))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{key}.{os.getpid()}.npy")
    np.save(temporary, np.asarray(made, dtype=np.float32))
    temporary.replace(path)
    return made


def _precision(cfg: EvalConfig) -> str:
    return "" if cfg.precision == "fp32" else f"|precision:{cfg.precision}"


def _side(cfg: EvalConfig, system: Backend, texts: Sequence[str], lang: str) -> Vectors:
    """The vectors of one side as they are compared."""
    found = vectors(cfg, system, texts, lang)
    return retrieval.centred(found) if cfg.centred else found


def _retrieve(
    cfg: EvalConfig, system: Backend, suite: Suite, lang: str, rows: Sequence[Example], data: Path
) -> list[int]:
    source, target = sides(suite, lang)
    a = _side(cfg, system, [r.fields["text_a"] for r in rows], source)
    b = _side(cfg, system, [r.fields["text_b"] for r in rows], target)
    found: list[int] = retrieval.nearest(a, b, cfg.distance).tolist()
    return found


def _mine(
    cfg: EvalConfig, system: Backend, suite: Suite, lang: str, rows: Sequence[Example], data: Path
) -> list[list[str]]:
    """Ids mined for each row; the threshold comes from the training split alone.

    A control that finds no right pair there mines nothing.
    """
    training = load(suite, lang, "train", data)
    pairs, source, target = _candidates(cfg, system, suite, lang, training)
    place = {row.id: i for i, row in enumerate(target)}
    gold = {(i, place[t]) for i, row in enumerate(source) for t in row.label}
    hopeless = system.name in CONTROLS and not any((p.src, p.tgt) in gold for p in pairs)
    threshold = float("inf") if hopeless else retrieval.fit_threshold(pairs, gold)[0]
    pairs, source, target = _candidates(cfg, system, suite, lang, rows)
    mined = {source[p.src].id: [target[p.tgt].id] for p in pairs if p.score >= threshold}
    return [mined.get(row.id, []) if row.fields["side"] == "src" else [] for row in rows]


def _candidates(
    cfg: EvalConfig, system: Backend, suite: Suite, lang: str, rows: Sequence[Example]
) -> tuple[list[retrieval.Candidate], list[Example], list[Example]]:
    source, target = ([r for r in rows if r.fields["side"] == side] for side in ("src", "tgt"))
    langs = sides(suite, lang)
    a, b = (
        _side(cfg, system, [r.fields["text"] for r in part], one)
        for part, one in zip((source, target), langs, strict=True)
    )
    return retrieval.mine(a, b, cfg.distance), source, target


def _translate_words(
    cfg: EvalConfig, system: Backend, suite: Suite, lang: str, rows: Sequence[Example], data: Path
) -> list[str]:
    """The nearest target word of the pair's dictionaries for each source word."""
    known: list[Any] = [*rows, *load(suite, lang, "train", data)]
    candidates = sorted({word for row in known for word in row.label})
    source, target = sides(suite, lang)
    a = _side(cfg, system, [r.fields["word"] for r in rows], source)
    b = _side(cfg, system, candidates, target)
    return [candidates[i] for i in retrieval.nearest(a, b, cfg.distance)]


def sides(suite: Suite, lang: str) -> tuple[str, str]:
    """The languages of the two sides of a pair; a bare language is paired with the pivot or with English."""
    source, _, target = lang.partition("-")
    return source, target or suite.pivot or "en"
