"""The system that multiplies what a model and character n-grams say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xling.core.errors import UserError
from xling.eval.controls.majority_ngrams import NgramControl
from xling.eval.rows.suite import Example, suites
from xling.eval.run.settings import EvalConfig
from xling.eval.systems import FitConfig, build
from xling.papers.with_ngrams import NgramEnsemble

FIT = FitConfig()


def test_a_model_and_ngrams_multiply_what_they_say() -> None:
    suite = suites()["sib200"]
    texts = ["football match goal", "team wins match", "virus and health", "doctor treats virus"] * 3
    names = ["sports", "sports", "health", "health"] * 3
    rows = [Example(str(i), {"text": t}, y) for i, (t, y) in enumerate(zip(texts, names, strict=True))]

    class Model:
        """It holds health for nine times as likely as sports for texts with a doctor, else half as likely."""

        digest, seeded = "m", True

        def fit(self, *given: object) -> list[str]:
            return ["first", "last"]

        def average(self, checkpoints: object) -> str:
            return "mean"

        def probabilities(self, checkpoint: str, suite: object, rows: list[Example], lang: str) -> np.ndarray:
            found = np.zeros((len(rows), 7), dtype=np.float32)
            sure = np.array(["doctor" in row.fields["text"] for row in rows])
            found[:, suites()["sib200"].labels.index("health")] = np.where(sure, 0.9, 1 / 3)
            found[:, suites()["sib200"].labels.index("sports")] = np.where(sure, 0.1, 2 / 3)
            return found

        def embed(self, texts: list[str], lang: str, layer: int, pooling: str) -> np.ndarray:
            return np.ones((len(texts), 2), dtype=np.float32)

    both = NgramEnsemble(Model())
    checkpoints = both.fit(suite, rows, [], "en", FIT)
    assert [model for model, _ in checkpoints] == ["first", "last"]
    assert both.average(checkpoints)[0] == "mean" and both.seeded and both.digest != Model.digest
    new = [
        Example("a", {"text": "a doctor"}, ""),
        Example("b", {"text": "zzz"}, ""),
        Example("c", {"text": "virus"}, ""),
    ]
    assert both.predict(checkpoints[-1], suite, new, "en") == ["health", "sports", "health"]
    assert both.predict(checkpoints[-1], suite, [], "en") == []
    found = both.probabilities(checkpoints[-1], suite, new, "en")
    alone = NgramControl().probabilities(checkpoints[-1][1], suite.labels, new)
    right = Model().probabilities("", suite, new, "en") * alone
    np.testing.assert_allclose(found, right / right.sum(1, keepdims=True), atol=1e-6)
    assert both.embed(["x"], "en", -1, "mean").shape == (1, 2)
    with pytest.raises(UserError, match="the system with_ngrams has no answer to the tag rows of udpos"):
        both.fit(suites()["udpos"], [], [], "en", FIT)


def test_the_system_needs_a_checkpoint() -> None:
    with pytest.raises(UserError, match="no checkpoint is given"):
        build("with_ngrams", EvalConfig(("sib200",), Path("runs/x"), systems=("with_ngrams",)))
