"""Predictions without fine-tuning, from sentence or word vectors: retrieval, mining and dictionaries."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from xling.core import silence
from xling.eval.kinds import nearest_neighbours
from xling.eval.kinds.base import VectorQuestion
from xling.eval.kinds.nearest_neighbours import Vectors
from xling.eval.rows.suite import load
from xling.eval.run.jobs import Job
from xling.eval.run.plan import EvalPlan
from xling.eval.run.plan import sides as sides
from xling.eval.scores import predictions
from xling.eval.scores.score_file import CONTROLS
from xling.eval.systems import Backend

if TYPE_CHECKING:
    from jaxtyping import Float32


def predict(plan: EvalPlan, job: Job) -> None:
    """Write the missing predictions of a system on a suite that is answered from vectors."""
    for origin in job.missing:
        silence.doing(f"{job.suite.name}, {job.system.name}: vectors of {origin.lang}")
        rows = load(job.suite, origin.lang, origin.split, plan.data)
        question = VectorQuestion(
            rows=rows,
            langs=sides(job.suite, origin.lang),
            embed=partial(_embed, plan, job.system),
            distance=plan.settings.distance,
            training=partial(load, job.suite, origin.lang, "train", plan.data),
            is_control=job.system.name in CONTROLS,
            match=job.match,
        )
        predictions.write(plan.predictions, origin, rows, job.suite.shape.answers_by_vectors(question))


def _embed(plan: EvalPlan, system: Backend, texts: Sequence[str], lang: str) -> Vectors:
    """Return the vectors of one side, preprocessed for comparison."""
    computed = vectors(plan, system, texts, lang)
    return nearest_neighbours.centre(computed) if plan.settings.centred else computed


def vectors(
    plan: EvalPlan, system: Backend, texts: Sequence[str], lang: str
) -> Float32[np.ndarray, "texts dim"]:
    """Return vectors of texts, float32 (num_texts, dim), computed once per model, layer, pooling and texts."""
    layer, pooling = plan.settings.layer, plan.settings.pooling
    made_of = [system.name, system.digest, f"{layer}{plan.precision}", pooling, lang, *map(repr, texts)]
    key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()
    path = plan.settings.out / "vectors" / f"{key}.npy"

    def compute() -> Float32[np.ndarray, "texts dim"]:
        computed = system.embed(texts, lang, layer, pooling)
        assert len(computed) == len(texts), (len(computed), len(texts))
        return np.asarray(computed, dtype=np.float32)

    return predictions.cached_array(path, compute)
