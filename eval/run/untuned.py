"""Predictions without fine-tuning, from sentence or word vectors: retrieval, mining and dictionaries."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xling.core.errors import UserError
from xling.eval.kinds import nearest_neighbours
from xling.eval.kinds.base import Match, VectorQuestion
from xling.eval.kinds.nearest_neighbours import Vectors
from xling.eval.rows.suite import Suite, data_digest, load
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import predictions
from xling.eval.scores.predictions import Origin
from xling.eval.scores.score_file import CONTROLS
from xling.eval.systems import Backend

if TYPE_CHECKING:
    from jaxtyping import Float32


def predict(
    cfg: EvalConfig, system: Backend, suite: Suite, targets: Sequence[tuple[str, str]], data: Path
) -> Iterator[Path]:
    """Yield the prediction files of one system on one suite, computing missing ones.

    Args:
        cfg: layer, pooling, distance and the folder of the run.
        system: gives the vectors.
        suite: of a kind that is answered from vectors.
        targets: (language or pair, split).
        data: folder of the suites.

    Raises:
        UserError: ``match`` is set for a suite or a system whose words cannot be compared.
    """
    match = _matching(cfg, system, suite)
    more = (
        ("|centred" if cfg.centred else "")
        + (f"|match:{cfg.match}" if match else "")
        + _precision(cfg)
        + ("|int8" if cfg.int8 else "")
    )
    how = f"layer:{cfg.layer}|pooling:{cfg.pooling}|distance:{cfg.distance}{more}"
    folder = cfg.out / "predictions"
    for lang, split in targets:
        origin = Origin(
            suite.name, lang, split, system.name, -1, "none", "none", "",
            checkpoint=system.digest, extra=how, rows=_rows_digest(suite, lang, split, data),
        )  # fmt: skip
        if not predictions.exists(folder, origin):
            rows = load(suite, lang, split, data)
            question = VectorQuestion(
                rows=rows,
                langs=sides(suite, lang),
                embed=partial(_side, cfg, system),
                distance=cfg.distance,
                training=partial(load, suite, lang, "train", data),
                is_control=system.name in CONTROLS,
                match=match,
            )
            predictions.write(folder, origin, rows, suite.shape.answers_by_vectors(question))
        yield origin.path(folder)


def _rows_digest(suite: Suite, lang: str, split: str, data: Path) -> str:
    """Return a digest of the rows, and of the training rows that a threshold or words come from."""
    read = [split, *(["train"] if suite.shape.reads_training and suite.has(lang, "train", data) else [])]
    return "+".join(data_digest(suite, lang, each, data) for each in read)


def vectors(
    cfg: EvalConfig, system: Backend, texts: Sequence[str], lang: str
) -> Float32[np.ndarray, "texts dim"]:
    """Return vectors of texts, float32 (num_texts, dim), computed once per model, layer, pooling and texts."""
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
        stored: Vectors = np.load(path)
        return stored
    computed = system.embed(texts, lang, cfg.layer, cfg.pooling)
    assert len(computed) == len(texts), (len(computed), len(texts))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{key}.{os.getpid()}.npy")
    np.save(temporary, np.asarray(computed, dtype=np.float32))
    temporary.replace(path)
    return computed


def _matching(cfg: EvalConfig, system: Backend, suite: Suite) -> Match | None:
    """Return the function that scores candidates by their matched words; None for a control without words."""
    if not cfg.match:
        return None
    if not suite.shape.compares_words:
        raise UserError(f"match={cfg.match} for {suite.name}", "suites of retrieval", "leave out match=")
    matched: Match | None = getattr(system, "matched", None)
    if matched is None and system.name not in CONTROLS:
        raise UserError(f"match={cfg.match} for {system.name}", "a static encoder", "leave out match=")
    return matched and (lambda *texts: np.float32(cfg.match) * matched(*texts))


def _precision(cfg: EvalConfig) -> str:
    return "" if cfg.precision == "fp32" else f"|precision:{cfg.precision}"


def _side(cfg: EvalConfig, system: Backend, texts: Sequence[str], lang: str) -> Vectors:
    """Return the vectors of one side, preprocessed for comparison."""
    computed = vectors(cfg, system, texts, lang)
    return nearest_neighbours.centre(computed) if cfg.centred else computed


def sides(suite: Suite, lang: str) -> tuple[str, str]:
    """Return the languages of the two sides of a pair; a bare language is paired with the pivot or with English."""
    source, _, target = lang.partition("-")
    return source, target or suite.pivot or "en"
