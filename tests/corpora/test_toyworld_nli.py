"""Inference pairs: the label is true, and the hypothesis alone does not give it away."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.corpora.toyworld import nli, stream
from xling.corpora.toyworld.meaning import Meaning, Person, Things
from xling.corpora.toyworld.relations import LABELS, nli_label

ANNA, OMAR = Person("Anna", "Smith"), Person("Omar", "Demir")


def _bought(agent: Person = ANNA, noun: str = "car", count: int = 1, **more: object) -> Meaning:
    adjective, at_least = str(more.pop("adjective", "")), bool(more.pop("at_least", False))
    verb = str(more.pop("verb", "buy"))
    return Meaning(verb, agent, Things(noun, count, adjective, at_least), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("premise", "hypothesis", "label"),
    [
        (_bought(place="paris", time="may"), _bought(time="may"), "entailment"),
        (_bought(adjective="red"), _bought(), "entailment"),
        (_bought(noun="dog"), _bought(noun="animal"), "entailment"),
        (_bought(count=4), _bought(count=3, at_least=True), "entailment"),
        (_bought(count=4), _bought(), "entailment"),
        (_bought(negated=True), _bought(place="rome", negated=True), "entailment"),
        (_bought(noun="animal", negated=True), _bought(noun="dog", negated=True), "entailment"),
        (_bought(place="paris", negated=True), _bought(negated=True), "neutral"),
        (_bought(), _bought(place="paris"), "neutral"),
        (_bought(noun="animal"), _bought(noun="dog"), "neutral"),
        (_bought(agent=OMAR), _bought(), "neutral"),
        (_bought(noun="book", negated=True), _bought(), "neutral"),
        (_bought(verb="see"), _bought(), "neutral"),
        (_bought(time="may"), _bought(time="monday"), "neutral"),
        (_bought(negated=True), _bought(place="paris"), "contradiction"),
        (_bought(place="paris"), _bought(negated=True), "contradiction"),
        (_bought(verb="sell", time="may"), _bought(), "contradiction"),
        (_bought(place="paris"), _bought(place="rome"), "contradiction"),
        (_bought(time="may"), _bought(time="june"), "contradiction"),
        (_bought(count=2), _bought(count=5), "contradiction"),
    ],
)
def test_relation(premise: Meaning, hypothesis: Meaning, label: str) -> None:
    assert nli_label(premise, hypothesis) == label


@given(seed=st.integers(0, 2**40), split=st.sampled_from(stream.SPLITS), index=st.integers(0, 10**9))
def test_labels_follow_from_the_meanings(seed: int, split: str, index: int) -> None:
    premise, hypothesis, label = stream.nli_pair(seed, split, index)
    assert nli_label(premise, hypothesis) == label


def test_labels_are_balanced() -> None:
    counts = Counter(label for _, _, label in nli("en", "train", 3000, seed=1))
    assert set(counts) == set(LABELS)
    assert max(counts.values()) - min(counts.values()) < 200


def _naive_bayes(train: list[tuple[list[str], str]], test: list[tuple[list[str], str]]) -> float:
    """Accuracy in percent of multinomial naive Bayes with add-one smoothing."""
    vocabulary = {f: i for i, f in enumerate(sorted({f for features, _ in train for f in features}))}
    weights = np.ones((len(LABELS), len(vocabulary)))
    for features, label in train:
        for feature in features:
            weights[LABELS.index(label), vocabulary[feature]] += 1
    logs = np.log(weights / weights.sum(axis=1, keepdims=True))
    right = 0
    for features, label in test:
        known = [vocabulary[f] for f in features if f in vocabulary]
        right += LABELS[int(logs[:, known].sum(axis=1).argmax())] == label
    return 100 * right / len(test)


def _grams(sentence: str) -> list[str]:
    words = sentence.split()
    return words + [" ".join(pair) for pair in pairwise(words)]


def _overlap(premise: str, hypothesis: str) -> list[str]:
    p, h = set(premise.split()), set(hypothesis.split())
    return [f"shared {len(p & h)}", f"only p {len(p - h)}", f"only h {len(h - p)}"]


def test_hypothesis_alone_stays_near_chance_and_overlap_alone_is_weak() -> None:
    train, test = list(nli("en", "train", 3000, seed=1)), list(nli("en", "test", 1500, seed=1))
    alone = [[(_grams(h), label) for _, h, label in rows] for rows in (train, test)]
    assert _naive_bayes(alone[0], alone[1]) < 38
    overlap = [[(_overlap(p, h), label) for p, h, label in rows] for rows in (train, test)]
    assert _naive_bayes(overlap[0], overlap[1]) < 65
    # The test can fail: the same classifier on features that tell the label.
    told = [[([label], label) for _, _, label in rows] for rows in (train, test)]
    assert _naive_bayes(told[0], told[1]) == 100
