"""What parallel text alone gives on SIB-200: labels carried over by cross-lingual explicit semantic analysis.

Usage: ``XLING_DATA=FOLDER python -m benchmarks.sib200``. A text is described by its likeness to each of NTREX's 1,000
sentences in its own language (cosine of TF-IDF over character n-grams, the features of the control ``ngram``); the
description means the same in every language, so logistic regression on the English training rows answers in all of
them. Languages that NTREX does not have here get the answers of the control ``ngram``. No network is trained: it is a
floor for an encoder that has read the same pairs.

Source: Potthast et al. 2008, A Wikipedia-based multilingual retrieval model; a sentence stands for their article.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from xling.eval.backend import FitConfig
from xling.eval.controls import Ngram, _grams
from xling.eval.suite import languages_at, load, suites

KEPT = 0.9
"""Quantile of a text's cosines that counts as nothing: a text is like few sentences."""


class Concepts:
    """The sentences of one language as axes."""

    def __init__(self, sentences: list[str]) -> None:
        self._words = TfidfVectorizer(analyzer=_grams, sublinear_tf=True, dtype=np.float32)
        self._axes = self._words.fit_transform(sentences)

    def __call__(self, texts: list[str]) -> Any:
        """Return vectors of length 1, (num_texts, num_sentences)."""
        likeness = (self._words.transform(texts) @ self._axes.T).toarray()
        return normalize(np.maximum(likeness - np.quantile(likeness, KEPT, axis=1, keepdims=True), 0))


def main() -> int:
    """Score every language and print one JSON object."""
    start, data = time.process_time(), Path(os.environ["XLING_DATA"])
    suite, pairs = suites()["sib200"], suites()["ntrex"]
    rows = load(suite, "en", "train", data)
    english = [e.fields["text_b"] for e in load(pairs, "de", "test", data)]
    model = LogisticRegression(C=10.0, max_iter=500)
    model.fit(Concepts(english)([e.fields["text"] for e in rows]), [e.label for e in rows])
    control = Ngram()
    (ngram,) = control.fit(suite, rows, [], "en", FitConfig())
    there = {"en", *languages_at(pairs, "test", data)}
    scores = {}
    for lang in languages_at(suite, "test", data):
        gold = load(suite, lang, "test", data)
        if lang in there:
            sentences = (
                english if lang == "en" else [e.fields["text_a"] for e in load(pairs, lang, "test", data)]
            )
            predicted = model.predict(Concepts(sentences)([e.fields["text"] for e in gold])).tolist()
        else:
            predicted = control.predict(ngram, suite, gold, lang)
        scores[lang] = 100 * statistics.fmean(a == e.label for a, e in zip(predicted, gold, strict=True))
    carried = [value for lang, value in scores.items() if lang in there]
    summary = {
        "average": statistics.fmean(scores.values()),
        f"average of the {len(carried)} languages with pairs": statistics.fmean(carried),
        "scores": scores,
        "cpu_seconds": time.process_time() - start,
    }
    print(json.dumps(summary, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
