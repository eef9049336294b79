"""Controls without a neural network: the most frequent label, and character n-grams with logistic regression.

They show which part of a multilingual result label frequencies and shared spelling alone can explain.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import xxhash

from xling.array_types import Float32
from xling.core.errors import UserError
from xling.eval.kinds.base import Kind
from xling.eval.kinds.character_ngrams import character_grams
from xling.eval.rows.suite import Example, Suite
from xling.eval.systems import FitConfig
from xling.transfer.encode import PROBABILITIES_FIELD, has_probabilities, target_shares

NUM_BUCKETS = 1 << 18
EMBED_DIM = 1024


class MajorityControl:
    """Control that always predicts the most frequent label (or tag, or intent with the most frequent slot).

    The answer to a question is the text at the most frequent position of the training answers, given as first
    word and number of words. Its generated texts are copies of the source. Its vectors are all equal, so
    retrieval finds the first row.
    """

    name = "majority"
    seeded = False
    digest = hashlib.sha256(b"majority 1").hexdigest()

    def fit(
        self, suite: Suite, train: Sequence[Example], dev: Sequence[Example], lang: str, cfg: FitConfig
    ) -> Sequence[Any]:
        """Count the labels; ties go to the first in the alphabet."""
        if type(suite.shape).majority_label is Kind.majority_label:
            raise _no_answer(self.name, suite)
        return [suite.shape.majority_label(train, _most_frequent)]

    def average(self, checkpoints: Sequence[Any]) -> Any:
        """Return the only checkpoint, since a control has one."""
        return checkpoints[-1]

    def predict(self, checkpoint: Any, suite: Suite, rows: Sequence[Example], lang: str) -> list[Any]:
        """Return the most frequent label for every row."""
        return [suite.shape.majority_answer(checkpoint, row) for row in rows]

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float32[np.ndarray, "texts dim"]:
        """Return ones, so that all texts are equally near."""
        return np.ones((len(texts), 1), dtype=np.float32)


class NgramControl:
    """Control with logistic regression on hashed character n-grams, and vectors of n-gram counts for retrieval.

    The features of a text are character 1- to 5-grams of its words. Those of a pair are the n-grams of its
    second side, each marked as shared with the first side or new. Those of a word to tag are its own n-grams
    and its neighbours' words.
    """

    name = "ngram"
    seeded = False
    digest = hashlib.sha256(f"ngram 1 scikit-learn {version('scikit-learn')}".encode()).hexdigest()

    def fit(
        self, suite: Suite, train: Sequence[Example], dev: Sequence[Example], lang: str, cfg: FitConfig
    ) -> Sequence[Any]:
        """Fit a classifier, a tagger, or both for intents with slots."""
        read = self._training_data(suite, train)
        features, names, tags = ([part for part in column if part is not None] for column in read)
        if any(map(has_probabilities, train)):
            return [(_classifier_of_shares(features, train), None)]
        return [(_classifier(features, names) if names else None, _tagger(train, tags) if tags else None)]

    def _training_data(self, suite: Suite, rows: Sequence[Example]) -> tuple[Sequence[Any], ...]:
        if type(suite.shape).class_and_tags is Kind.class_and_tags:
            raise _no_answer(self.name, suite)
        return tuple(zip(*map(suite.shape.class_and_tags, rows), strict=True)) or ((), (), ())

    def average(self, checkpoints: Sequence[Any]) -> Any:
        """Return the only checkpoint, since a control has one."""
        return checkpoints[-1]

    def predict(self, checkpoint: Any, suite: Suite, rows: Sequence[Example], lang: str) -> list[Any]:
        """Return the most probable label of each row or word."""
        features, _, _ = self._training_data(suite, rows)
        classifier, tagger = checkpoint or (None, None)
        names = classifier.predict(list(features)).tolist() if classifier and rows else [None] * len(rows)
        tags = _tags(tagger, rows) if tagger else [None] * len(rows)
        return [suite.shape.answer_from_tags(*pair) for pair in zip(names, tags, strict=True)]

    def probabilities(
        self, checkpoint: Any, labels: Sequence[str], rows: Sequence[Example]
    ) -> Float32[np.ndarray, "rows labels"]:
        """Return the probability of each of ``labels`` for texts with one class; 0 for one that it has not seen."""
        features = [character_grams(row.fields["text"]) for row in rows]
        known = {name: place for place, name in enumerate(checkpoint[0].classes_)}
        probabilities = np.zeros((len(rows), len(labels)), dtype=np.float32)
        here = [place for place, name in enumerate(labels) if name in known]
        probabilities[:, here] = checkpoint[0].predict_proba(features)[
            :, [known[labels[place]] for place in here]
        ]
        return probabilities

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float32[np.ndarray, "texts dim"]:
        """Return counts of hashed character n-grams, damped by the square root; layer and pooling are ignored."""
        vectors = np.zeros((len(texts), EMBED_DIM), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for gram, count in Counter(character_grams(text) or ["<empty>"]).items():
                row[xxhash.xxh3_64_intdigest(gram.encode()) % EMBED_DIM] += count**0.5
        return vectors


def _most_frequent(labels: Any) -> Any:
    return min(Counter(labels).items(), key=lambda item: (-item[1], str(item[0])))[0]


def _no_answer(name: str, suite: Suite) -> UserError:
    return UserError(
        f"the control {name} has no answer to the {suite.kind} rows of {suite.name}",
        f"systems= without {name}",
    )


def _classifier(features: Sequence[list[str]], labels: Sequence[str]) -> Any:
    """Fit TF-IDF over n-grams that occur at least twice, and a multinomial logistic regression."""
    from sklearn.pipeline import make_pipeline

    if _has_nothing_to_learn(features, labels):
        return _constant(features, labels)
    return make_pipeline(*_sklearn_parts(features)).fit(features, labels)


def _sklearn_parts(features: Sequence[list[str]]) -> tuple[Any, Any]:
    """Return TF-IDF over n-grams that occur at least twice, and a multinomial logistic regression, not fitted yet.

    In a few rows where none does, those that occur once count.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    num_rows_of = Counter(gram for row in features for gram in {*row})
    least = min(2, max(num_rows_of.values()))
    seen_twice = TfidfVectorizer(analyzer=_identity, min_df=least, sublinear_tf=True, dtype=np.float32)
    return seen_twice, LogisticRegression(C=10.0, max_iter=200, tol=1e-3)


def _has_nothing_to_learn(features: Sequence[list[str]], labels: Sequence[str]) -> bool:
    """Return whether all rows have one label, or none has a feature."""
    return len({*labels}) < 2 or not any(features)


def _constant(features: Sequence[list[str]], labels: Sequence[str]) -> Any:
    """Return what answers with the most frequent label, with the interface of a classifier of sklearn."""
    from sklearn.dummy import DummyClassifier

    return DummyClassifier(strategy="prior").fit(np.zeros((len(features), 1)), labels)


def _classifier_of_shares(features: Sequence[list[str]], rows: Sequence[Example]) -> Any:
    """Fit the same to rows of which a teacher gave the probability of each class: a row counts once, in parts."""
    from sklearn.pipeline import make_pipeline

    labels = sorted({name for row in rows for name in row.fields.get(PROBABILITIES_FIELD, {row.label: 1.0})})
    if _has_nothing_to_learn(features, labels):
        return _constant(features, [row.label for row in rows])
    shares = np.stack([target_shares(row, labels) for row in rows])
    place, of_class = np.nonzero(shares)
    seen_twice, regression = _sklearn_parts(features)
    counts = seen_twice.fit_transform(features)
    names = np.array(labels)[of_class]
    return make_pipeline(seen_twice, regression.fit(counts[place], names, shares[place, of_class]))


def _identity(features: list[str]) -> list[str]:
    return features


def _word_features(tokens: Sequence[str]) -> list[list[str]]:
    """Return features per word: its n-grams, its shape, and its neighbours."""
    padded = ["<s>", *tokens, "</s>"]
    return [
        [
            *character_grams(padded[i]),
            f"w:{padded[i]}",
            f"-:{padded[i - 1]}",
            f"+:{padded[i + 1]}",
            f"c:{padded[i][:1].isupper()}{padded[i].isupper()}{padded[i].isdigit()}{i == 1}",
        ]
        for i in range(1, len(padded) - 1)
    ]


def _tagger(train: Sequence[Example], labels: Sequence[Sequence[str]]) -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline

    words = [features for e in train for features in _word_features(e.fields["tokens"])]
    tags = [tag for sequence in labels for tag in sequence]
    if _has_nothing_to_learn(words, tags):
        return _constant(words, tags)
    hashing = HashingVectorizer(analyzer=_identity, n_features=NUM_BUCKETS, alternate_sign=False)
    model = SGDClassifier(loss="log_loss", alpha=1e-6, max_iter=8, tol=None, random_state=0)
    return make_pipeline(hashing, model).fit(words, tags)


def _tags(tagger: Any, rows: Sequence[Example]) -> list[list[str]]:
    """Return tags per row, predicted for all words at once."""
    predicted = tagger.predict([f for row in rows for f in _word_features(row.fields["tokens"])]).tolist()
    tags, start = [], 0
    for row in rows:
        end = start + len(row.fields["tokens"])
        tags.append(predicted[start:end])
        start = end
    return tags


def majority(cfg: Any) -> MajorityControl:
    """Create the control that predicts the most frequent label."""
    return MajorityControl()


def ngram(cfg: Any) -> NgramControl:
    """Create the control that uses character n-grams."""
    return NgramControl()
