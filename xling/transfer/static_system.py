"""Adapter of static encoders as systems under test: heads on fixed vectors.

See `xling.static.heads` and `xling.static.tagger`.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from xling.array_types import Float32, Int64
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import tell
from xling.core.sampling import rng
from xling.models.files.model_folder import has_head
from xling.static import encoder_files
from xling.static.head_files import read_task, save_task
from xling.static.heads import (
    MAX_VOTERS,
    MIN_ROWS_TO_RESCALE,
    NeighbourClassifier,
    average_models,
    fit_logistic,
    fit_network,
    pair_features,
    rescale,
    text_features,
)
from xling.static.linked_words import AlignedTranslations
from xling.static.matching import match_candidates
from xling.static.tag_lexicon import TagLexicon
from xling.static.tag_projection import project_tags
from xling.static.tagger import IntentAndSlotHeads, train_tagger
from xling.static.vectors import StaticEncoder, unit_length
from xling.text.files.word_alignments import AlignedPair, read_word_alignments
from xling.transfer.checks import check_random_control
from xling.transfer.encode import LabelledRow, has_probabilities, target_shares
from xling.transfer.task import TASKS, TaskShape, check_tuned_for
from xling.transfer.tasks.classify import Classify
from xling.transfer.tasks.intent_slots import INTENT_PREFIX, IntentSlots
from xling.transfer.tasks.pair import Pair
from xling.transfer.tasks.tag import Tag

INVERSE_REGULARISATIONS = (0.5, 1.0, 2.0)
"""Strengths of logistic regression: each gives a checkpoint, and the source language's dev rows choose one. None is
strong, since the vectors of other languages are noisier than those that it is fitted on."""
VOTE_WEIGHTS = (0.0, 1.0)
"""Weights of the votes of labelled texts, of which the dev rows choose one too."""
SOFT_VOTE_WEIGHTS = (0.5,)
"""The same for texts of which a teacher gave probabilities: dev rows with a teacher's labels cannot choose it. It was
chosen on training rows of SIB-200 in Bulgarian, Hindi and Arabic (`docs/results.d/papers.md`)."""
INTENT_INVERSE_REGULARISATION, INTENT_VOTE_WEIGHT = 2.0, 0.3
"""Strength and weight with many classes of few rows."""
NUM_SWITCHED_COPIES = 9
"""Copies of the rows of a slot tagger with words in other languages, if ``project`` names linked texts."""


class StaticBackend:
    """A static encoder, or a control with the same shape and a fresh table.

    Args:
        ckpt: directory of `xling pretrain static`.
        name: name in tables.
        random_init: use a fresh table, as a control.
        trains_on: whether new heads are fitted on the encoder of a fine-tuned one, in place of answering with its own.

    Raises:
        UserError: ``ckpt`` does not exist, or it is fine-tuned and the control is requested.
    """

    def __init__(self, ckpt: Path, name: str, random_init: bool = False, trains_on: bool = False) -> None:
        self.name, self.seeded = name, trains_on or not has_head(ckpt)
        self.digest = manifest.digest(ckpt)
        if random_init:
            check_random_control(ckpt)
        self.ckpt, self._random_init = ckpt, random_init
        self._encoder: StaticEncoder | None = None
        self._pair_features: dict[int, Tensor] = {}
        self._log_votes: dict[int, Tensor] = {}
        self._aligned_pairs: dict[Path, list[AlignedPair]] = {}
        self._fitted_heads: dict[int, tuple[Any, list[Any]]] = {}

    @property
    def encoder(self) -> StaticEncoder:
        """The encoder, loaded on first use."""
        if self._encoder is None:
            self._encoder = encoder_files.load_encoder(self.ckpt, self._random_init)
        return self._encoder

    def fit(
        self, suite: TaskShape, train: Sequence[LabelledRow], dev: Sequence[LabelledRow], lang: str, cfg: Any
    ) -> list[Any]:
        """Fit candidate heads: for classes one per strength and weight of the votes, else one.

        A fine-tuned encoder has its head already.

        Raises:
            UserError: there are no rows, or it is fine-tuned for other ones.
        """
        head = _head_for(self, suite)
        if not self.seeded:
            tuned = self.tuned()
            check_tuned_for(self.ckpt, tuned.task, tuned.labels, suite)
            return [tuned.head]
        if not train:
            raise UserError(f"{suite.name}: no training rows", fix="check the training split")
        labels = TASKS[suite.task].closed_labels(suite, train)
        rows_digest = hashlib.sha256(
            "\n".join(repr((row.fields, row.label)) for row in train).encode()
        ).digest()
        request = (type(head), tuple(labels), suite.scheme, rows_digest, cfg)
        # Suites that train on the same rows (PAN-X, UNER, MasakhaNER) share their heads.
        if cfg.seed not in self._fitted_heads or self._fitted_heads[cfg.seed][0] != request:
            self._fitted_heads[cfg.seed] = request, head.fit(train, labels, cfg)
        return self._fitted_heads[cfg.seed][1]

    def save(
        self, heads: Mapping[str, Any], suite: TaskShape, train: Sequence[LabelledRow], out: Path
    ) -> None:
        """Write the only head, fitted on the rows of a suite, and a copy of the encoder, for `tuned`."""
        labels = TASKS[suite.task].closed_labels(suite, train)
        save_task(out, self.ckpt, suite.task, labels, heads[suite.name])

    def tuned(self) -> TunedStatic:
        """Return the head that `save` has written; errors are those of `read_task`."""
        return TunedStatic(self, *read_task(self.ckpt, self.encoder))

    def cached_pair_features(self, rows: Sequence[LabelledRow]) -> Float32[Tensor, "pairs features"]:
        """Return the features of pairs of one language, computed once for all seeds."""
        key = hash(tuple(pairs := [(row.fields["text_a"], row.fields["text_b"]) for row in rows]))
        if key not in self._pair_features:
            self._pair_features[key] = rescale(pair_features(self.encoder, pairs))
        return self._pair_features[key]

    def read_aligned(self, folder: Path) -> list[AlignedPair]:
        """Return the aligned texts, read once."""
        if folder not in self._aligned_pairs:
            self._aligned_pairs[folder] = read_word_alignments(folder)
        return self._aligned_pairs[folder]

    def average(self, checkpoints: Sequence[Any]) -> Any:
        """Average the weights of the heads."""
        if isinstance(checkpoints[0], IntentAndSlotHeads):
            return IntentAndSlotHeads(
                average_models([c.intent for c in checkpoints]),
                average_models([c.slots for c in checkpoints]),
            )
        return average_models(checkpoints)

    def predict(self, checkpoint: Any, suite: TaskShape, rows: Sequence[LabelledRow], lang: str) -> list[Any]:
        """Return one answer per row, in the form of the suite's labels; the rows are of one language."""
        return _head_for(self, suite).predict(checkpoint, rows)

    def probabilities(
        self, checkpoint: Any, suite: TaskShape, rows: Sequence[LabelledRow], lang: str
    ) -> Float32[np.ndarray, "rows labels"]:
        """Return the probability of each label for single texts of one language, (rows, labels)."""
        return np.asarray(self.class_probabilities(checkpoint, [row.fields["text"] for row in rows]).numpy())

    def class_probabilities(
        self, checkpoint: NeighbourClassifier, texts: Sequence[str]
    ) -> Float32[Tensor, "texts labels"]:
        """Return the probability of each class; votes are computed once for all strengths, weights and seeds."""
        key = hash((checkpoint.texts, checkpoint.classes, checkpoint.shares, tuple(texts)))
        if key not in self._log_votes:
            with torch.inference_mode():
                self._log_votes[key] = checkpoint.log_votes(texts)
        return checkpoint.probabilities(texts, self._log_votes[key])

    def classes(self, checkpoint: NeighbourClassifier, texts: Sequence[str]) -> list[str]:
        """Return the most likely class of each text; the texts are of one language."""
        return [checkpoint.labels[i] for i in self.class_probabilities(checkpoint, texts).argmax(1).tolist()]

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float32[np.ndarray, "texts dim"]:
        """Compute sentence vectors of length 1, float32 (num_texts, dim).

        Raises:
            UserError: another layer than the only one, or another pooling than the mean.
        """
        if layer not in (-1, 0) or pooling != "mean":
            raise UserError(
                f"layer={layer} pooling={pooling}", "layer=-1 pooling=mean: a static encoder has no layers"
            )
        with torch.inference_mode():
            return np.asarray(unit_length(self.encoder.sentence_vectors(texts)).numpy())

    def matched(
        self, src: Sequence[str], tgt: Sequence[str], candidates: Int64[np.ndarray, "src depth"]
    ) -> Float32[np.ndarray, "src depth"]:
        """Return how well the words of each text match those of its candidates (`xling.static.matching`)."""
        with torch.inference_mode():
            return match_candidates(self.encoder, src, tgt, candidates)


class Head(ABC):
    """Fitting and prediction for the rows of one task.

    Args:
        backend: the encoder.
        is_iob2: whether tags are spans.
    """

    def __init__(self, backend: StaticBackend, is_iob2: bool = False) -> None:
        self.backend, self.is_iob2 = backend, is_iob2

    @abstractmethod
    def fit(self, train: Sequence[LabelledRow], labels: Sequence[str], cfg: Any) -> list[Any]:
        """Fit the heads of a task, from which the dev rows choose."""

    @abstractmethod
    def predict(self, checkpoint: Any, rows: Sequence[LabelledRow]) -> list[Any]:
        """Return one answer per row; the rows are of one language."""


class ClassHead(Head):
    """Logistic regression on the vector of a text, and votes of the labelled texts."""

    def fit(self, train: Sequence[LabelledRow], labels: Sequence[str], cfg: Any) -> list[Any]:
        """Fit a classifier for each of `INVERSE_REGULARISATIONS`, and combine it with each of `VOTE_WEIGHTS`."""
        texts, classes = [row.fields["text"] for row in train], [row.label for row in train]
        # Rows with a teacher's labels are of another language than rows that are learned beside them.
        is_from_teacher = np.array([has_probabilities(row) for row in train])
        row_groups = [np.flatnonzero(side) for side in (~is_from_teacher, is_from_teacher) if side.any()]
        group_features = [
            text_features(self.backend.encoder, [texts[i] for i in place.tolist()]) for place in row_groups
        ]
        features = torch.cat(group_features)[torch.from_numpy(np.argsort(np.concatenate(row_groups)))]
        voter_rows = sorted(rng("static votes", cfg.seed).permutation(len(train))[:MAX_VOTERS].tolist())
        voter_texts_and_classes = tuple(texts[i] for i in voter_rows), tuple(classes[i] for i in voter_rows)
        soft_targets = (
            np.stack([target_shares(row, labels) for row in train]) if is_from_teacher.any() else None
        )
        shares = None if soft_targets is None else torch.from_numpy(soft_targets)
        voter_shares = (
            ()
            if soft_targets is None
            else tuple(tuple(soft_targets[i].tolist()) if is_from_teacher[i] else () for i in voter_rows)
        )
        classifiers = [
            fit_logistic(features, classes, labels, strength, shares) for strength in INVERSE_REGULARISATIONS
        ]
        weights = VOTE_WEIGHTS if soft_targets is None else SOFT_VOTE_WEIGHTS
        return [
            NeighbourClassifier(
                self.backend.encoder,
                each,
                *(voter_texts_and_classes if weight else ((), ())),
                weight,
                voter_shares,
            )
            for weight in weights
            for each in classifiers
        ]

    def predict(self, checkpoint: Any, rows: Sequence[LabelledRow]) -> list[Any]:
        """Return the most likely class of each row."""
        return list(self.backend.classes(checkpoint, [row.fields["text"] for row in rows]))


class PairHead(Head):
    """A small network on the unmatched words of two texts."""

    def fit(self, train: Sequence[LabelledRow], labels: Sequence[str], cfg: Any) -> list[Any]:
        """Fit a network on the features of text pairs."""
        features = self.backend.cached_pair_features(train)
        return [fit_network(features, [row.label for row in train], labels, cfg.epochs, cfg.seed)]

    def predict(self, checkpoint: Any, rows: Sequence[LabelledRow]) -> list[Any]:
        """Return the most likely class of each row."""
        return list(checkpoint.predict(self.backend.cached_pair_features(rows)))


class TagHead(Head):
    """A tagger, also trained on projected tags if ``project`` names aligned texts."""

    def fit(self, train: Sequence[LabelledRow], labels: Sequence[str], cfg: Any) -> list[Any]:
        """Fit a tagger of words; projected tags may add to the rows."""
        sentences, tags = [row.fields["tokens"] for row in train], [row.label for row in train]
        is_iob2, encoder = self.is_iob2, self.backend.encoder
        lexicon = TagLexicon(labels, _distinct_texts(sentences, tags))
        first_tagger = train_tagger(encoder, lexicon, sentences, tags, labels, cfg.epochs, cfg.seed, is_iob2)
        if not cfg.project:
            return [first_tagger]
        pairs = self.backend.read_aligned(cfg.project)
        sources = list(dict.fromkeys(pair.src for pair in pairs))
        scores = dict(zip(sources, first_tagger.log_probabilities(sources), strict=True))
        projected_texts = project_tags(pairs, scores, labels)
        lexicon = TagLexicon(labels, [*_distinct_texts(sentences, tags), *projected_texts])
        lexicon.add_texts(sources, [lexicon.type_probabilities(np.exp(scores[words])) for words in sources])
        return [
            train_tagger(
                encoder, lexicon, sentences, tags, labels, cfg.epochs, cfg.seed, is_iob2, projected_texts
            )
        ]

    def predict(self, checkpoint: Any, rows: Sequence[LabelledRow]) -> list[Any]:
        """Return the tags of the words of each row."""
        return list(checkpoint.predict([row.fields["tokens"] for row in rows]))


class IntentSlotHead(Head):
    """A classifier of the text and a tagger of its words.

    If ``project`` names linked texts, the tagger also learns from rows with words in other languages.
    """

    def fit(self, train: Sequence[LabelledRow], labels: Sequence[str], cfg: Any) -> list[Any]:
        """Fit a classifier of intents and a tagger of slots."""
        sentences = [row.fields["tokens"] for row in train]
        intents = [label.removeprefix(INTENT_PREFIX) for label in labels if label.startswith(INTENT_PREFIX)]
        slots = [label for label in labels if not label.startswith(INTENT_PREFIX)]
        texts, classes = tuple(map(" ".join, sentences)), tuple(row.label[0] for row in train)
        features = text_features(self.backend.encoder, texts)
        intent_classifier = fit_logistic(features, classes, intents, INTENT_INVERSE_REGULARISATION)
        intent_head = NeighbourClassifier(
            self.backend.encoder, intent_classifier, texts, classes, INTENT_VOTE_WEIGHT
        )
        tags, epochs = [row.label[1] for row in train], cfg.epochs
        if cfg.project:
            translations = AlignedTranslations(
                [word for translations in sentences for word in translations],
                self.backend.read_aligned(cfg.project),
            )
            generator = rng("static switched", cfg.seed)
            switched = [
                translations.replace_words(text, generator)
                for _ in range(NUM_SWITCHED_COPIES)
                for text in sentences
            ]
            sentences, tags = [*sentences, *switched], tags * (1 + NUM_SWITCHED_COPIES)
            epochs = math.ceil(4 * epochs / (1 + NUM_SWITCHED_COPIES))
        lexicon = TagLexicon(slots, _distinct_texts(sentences, tags))
        # A few hundred rows teach the spelling of their words; the sketch of an unknown word would be noise.
        encoder = self.backend.encoder.without_sketch()
        slot_tagger = train_tagger(encoder, lexicon, sentences, tags, slots, epochs, cfg.seed, True)
        return [IntentAndSlotHeads(intent_head, slot_tagger)]

    def predict(self, checkpoint: Any, rows: Sequence[LabelledRow]) -> list[Any]:
        """Return intent and tags of each row."""
        sentences = [row.fields["tokens"] for row in rows]
        intents = self.backend.classes(checkpoint.intent, list(map(" ".join, sentences)))
        slots = checkpoint.slots.predict(sentences)
        return [[intent, tags] for intent, tags in zip(intents, slots, strict=True)]


HEADS: dict[str, type[Head]] = {
    Classify.name: ClassHead,
    Pair.name: PairHead,
    Tag.name: TagHead,
    IntentSlots.name: IntentSlotHead,
}
"""Head of each supported task."""


@dataclass(frozen=True)
class TunedStatic:
    """A head that `xling finetune` has fitted on a static encoder, with the interface of `tune.TunedModel`."""

    ROWS_AT_ONCE: ClassVar[int] = 20_000
    """Rows of one language are read together: their mean is subtracted, and how common their words are counts."""

    backend: StaticBackend
    task: str
    labels: tuple[str, ...]
    head: Any

    def predict(self, rows: Sequence[LabelledRow], lang: str = "") -> list[Any]:
        """Return an answer per row, in the form of its label; the rows are of one language, best all of them."""
        if len({repr(row.fields) for row in rows}) < MIN_ROWS_TO_RESCALE:
            tell(
                f"xling: note: {len(rows)} rows are few, or equal: a static encoder answers better with "
                f"{MIN_ROWS_TO_RESCALE} or more of one language at once, since it compares them"
            )
        return HEADS[self.task](self.backend).predict(self.head, rows)

    def log_probabilities(self, rows: Sequence[LabelledRow]) -> list[Float32[np.ndarray, "outputs labels"]]:
        """Return the log-probabilities of the labels of each text or pair, (1, labels), or of each word."""
        if self.task == Tag.name:
            return list(self.head.log_probabilities([row.fields["tokens"] for row in rows]))
        if self.task == Pair.name:
            shares = self.head.probabilities(self.backend.cached_pair_features(rows))
        else:
            shares = self.backend.class_probabilities(self.head, [row.fields["text"] for row in rows])
        return [row[None] for row in shares.log().numpy()]


def _distinct_texts(
    sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return each tagged sentence once: a lexicon leaves one copy of it out while the tagger learns from it."""
    return list(dict.fromkeys((tuple(w), tuple(t)) for w, t in zip(sentences, tags, strict=True)))


def _head_for(backend: StaticBackend, suite: TaskShape) -> Head:
    return HEADS[suite.task](backend, bool(suite.scheme))
