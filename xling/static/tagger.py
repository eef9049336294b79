"""Tagger on top of a frozen static encoder: it reads word vectors and word shapes and predicts a tag per word.

Two more inputs are how often other texts tag each word as what (`xling.static.tag_lexicon`) and how common it is
among the texts that are tagged together (`xling.static.word_frequency`). A convolution over three words and a
bidirectional LSTM read the sentence. For names the most likely sequence that IOB2 allows is chosen.

Source: bidirectional LSTM for names: Lample et al. 2016, Neural architectures for named entity recognition.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Bool, Float, Float32, Int64
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.static.heads import NeighbourClassifier, WarmupAdamW
from xling.static.tag_lexicon import TagLexicon
from xling.static.tag_projection import OUTSIDE_TAG
from xling.static.vectors import StaticEncoder
from xling.static.word_frequency import NUM_FREQUENCY_FEATURES as NUM_COMMON
from xling.static.word_frequency import clear_opening_feature, draw_marks, frequency_features
from xling.text.words.features import is_unspaced

BATCH_WORDS = 2500
NUM_SHAPE_FEATURES = 30
ALIGNED_PER_TEXT, ALIGNED_PER_NAME_TEXT = 3, 0.25
"""Number of aligned texts that an epoch reads per labelled text."""
WORD_DROP, SPAN_DROP = 0.15, 0.25
"""Share of the words whose vectors are hidden in training; a higher share reduces reliance on spelling."""
LEXICON_DROP, LEXICON_WORD_DROP = 0.5, 0.3
"""Share of the sentences, and of the words of the others, whose tags in the lexicon are hidden in training.

Most names of other languages are not in the lexicon."""
FREQUENCY_DROP = 0.3
"""Share of the sentences for which it is hidden in training how common their words are.

A tagger has to do without when it is given few sentences."""
HIDDEN_DROPOUT = 0.2
UNCASED_SHARE = 0.3
"""Share of the sentences with names that are read without case in training, like scripts without case."""
_QUOTE_MARKS, _SENTENCE_ENDS, _COMMAS = "\"«»“”'‘’", ".!?。।؟", ",،、;:"
_CASE_COLUMNS = [0, 1, 2, 24, 25]
_ALPHABETIC_COLUMN, _NO_CAPITALS_COLUMN = 3, 26
"""Columns of `word_shapes`: those only for cased scripts, letter without case, sentence without capitals."""


def word_shapes(words: Sequence[str]) -> Float32[Tensor, "words shapes"]:
    """Return language-independent shape features of each word: case, digits, marks, length, place.

    (num_words, 30).
    """
    capital_share = sum(word[:1].isupper() for word in words) / max(1, len(words))
    rows = [_shape_features(word, place, len(words), capital_share) for place, word in enumerate(words)]
    return torch.tensor(rows, dtype=torch.float32).reshape(len(words), NUM_SHAPE_FEATURES)


def _shape_features(word: str, position: int, num_words: int, capital_share: float) -> list[bool]:
    initial = word[:1] or " "
    category = unicodedata.category(initial)
    is_cased = initial.lower() != initial.upper()
    return [
        initial.isupper(), word.isupper() and len(word) > 1, initial.islower(), initial.isalpha() and not is_cased,
        any(map(str.isdigit, word)), word.isdigit(), category[0] == "P", category[0] == "S",
        position == 0, position == 1, position == num_words - 1, num_words < 6,
        len(word) == 1, len(word) == 2, len(word) == 3, len(word) > 7,
        "-" in word[1:], "." in word, word == ".", initial in _SENTENCE_ENDS,
        initial in _COMMAS, initial in _QUOTE_MARKS,
        initial in "([{", initial in "-–—*", any(map(str.isupper, word[1:])), capital_share > 0.6, capital_share < 0.02,
        "'" in word[1:] or "’" in word[1:], is_unspaced(word) if word else False, "@" in word or "/" in word,
    ]  # fmt: skip


def remove_case(
    word_features: Float32[Tensor, "words shapes"], words: Sequence[str]
) -> Float32[Tensor, "words shapes"]:
    """Return `word_shapes` of the same words as if their script had no case; (num_words, 30)."""
    uncased = word_features.clone()
    uncased[:, _CASE_COLUMNS] = 0
    uncased[:, _NO_CAPITALS_COLUMN] = 1
    uncased[:, _ALPHABETIC_COLUMN] = torch.tensor([float(word[:1].isalpha()) for word in words])
    return uncased


class Tagger(nn.Module):
    """Tagging network: word vectors, shapes and known tags, a convolution, a bidirectional LSTM, and tags.

    Args:
        num_known: size of a word's features from the lexicon.
        word_dropout: share of the words whose vectors are hidden in training, and of their single dimensions.
    """

    def __init__(
        self,
        dim: int,
        num_known: int,
        labels: Sequence[str],
        width: int = 256,
        word_dropout: float = WORD_DROP,
    ) -> None:
        super().__init__()
        self.labels, self.word_dropout = tuple(labels), word_dropout
        self.input_layer = nn.Linear(dim + NUM_SHAPE_FEATURES + NUM_COMMON + num_known, width)
        self.convolution_norm, self.convolution = nn.LayerNorm(width), nn.Linear(3 * width, width)
        self.lstm = nn.LSTM(width, width // 2, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.output_layer = nn.Linear(width, len(labels))

    def forward(
        self,
        vectors: Float32[Tensor, "batch words dim"],
        word_features: Float32[Tensor, "batch words shapes"],
        lexicon_features: Float32[Tensor, "batch words known"],
        lengths: Int64[Tensor, " batch"],
    ) -> Float32[Tensor, "batch words labels"]:
        """Compute logits, (B, T, labels).

        Args:
            word_features: (B, T, 33), their shapes and how common they are.
        """
        if self.training:
            is_kept = torch.rand(len(lexicon_features), 1) >= LEXICON_DROP
            is_kept = is_kept & (torch.rand(lexicon_features.shape[:2]) >= LEXICON_WORD_DROP)
            lexicon_features = lexicon_features * is_kept[..., None]
            is_seen = torch.rand(vectors.shape[:2]) >= self.word_dropout
            vectors = F.dropout(vectors * is_seen[..., None], self.word_dropout)
        is_word = (torch.arange(vectors.shape[1]) < lengths[:, None])[..., None]
        hidden = F.gelu(self.input_layer(torch.cat([vectors, word_features, lexicon_features], -1)))
        padded = F.pad(self.convolution_norm(hidden) * is_word, (0, 0, 1, 1))
        neighbourhoods = torch.cat([padded[:, i : i + vectors.shape[1]] for i in range(3)], -1)
        hidden = hidden + self._dropout(F.gelu(self.convolution(neighbourhoods)))
        packed = nn.utils.rnn.pack_padded_sequence(
            self._dropout(hidden), lengths, batch_first=True, enforce_sorted=False
        )
        lstm_states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        logits: Tensor = self.output_layer(self.norm(hidden + self._dropout(lstm_states)))
        return logits

    def _dropout(self, hidden: Tensor) -> Tensor:
        return F.dropout(hidden, HIDDEN_DROPOUT, self.training)


@dataclass(frozen=True)
class TrainedTagger:
    """A trained tagger with its encoder and lexicon, and whether its tags are IOB2."""

    encoder: StaticEncoder
    lexicon: TagLexicon
    net: Tagger
    is_iob2: bool

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return tags per sentence: the most likely tag of each word, or the most likely IOB2 sequence.

        The sentences should be all that are to be tagged, of one language: how common their words are is an input.
        """
        return [
            most_likely_tags(scores, self.net.labels, self.is_iob2)
            for scores in self.log_probabilities(sentences)
        ]

    def log_probabilities(self, sentences: Sequence[Sequence[str]]) -> list[Float32[np.ndarray, "_ _"]]:
        """Return log-probabilities of the tags of each word, float32 (num_words, labels) per sentence."""
        scores_by_sentence: list[np.ndarray] = [np.zeros((0, len(self.net.labels)), np.float32)] * len(
            sentences
        )
        self.net.eval()
        lexicon_features = [self.lexicon.features(words) for words in sentences]
        prepared = _PreparedSentences(
            self.encoder, sentences, lexicon_features, frequency_features(sentences)
        )
        with torch.inference_mode():
            for batch in _make_batches([len(s) for s in sentences]):
                scores = self.net(*prepared.pad_batch(batch)).log_softmax(-1).numpy()
                for row, index in enumerate(batch):
                    scores_by_sentence[index] = scores[row, : len(sentences[index])]
        return scores_by_sentence


@dataclass(frozen=True)
class IntentAndSlotHeads:
    """The two heads for intents and slots."""

    intent: NeighbourClassifier
    slots: TrainedTagger


def train_tagger(
    encoder: StaticEncoder,
    lexicon: TagLexicon,
    sentences: Sequence[Sequence[str]],
    tags: Sequence[Sequence[str]],
    labels: Sequence[str],
    epochs: int,
    seed: int,
    is_iob2: bool,
    aligned_texts: Sequence[tuple[Sequence[str], Sequence[str]]] = (),
) -> TrainedTagger:
    """Train a tagger; tags that are not among ``labels`` are ignored.

    Args:
        lexicon: tags by spelling; each sentence with its tags, also of ``aligned_texts``, has been counted once.
        aligned_texts: sentences with tags, of which every epoch draws `ALIGNED_PER_TEXT`
            (`ALIGNED_PER_NAME_TEXT`) for each of ``sentences``.
    """
    torch.manual_seed(seed)
    word_dropout = SPAN_DROP if is_iob2 else WORD_DROP
    net = Tagger(encoder.dim + encoder.cfg.sketch, lexicon.dim, labels, word_dropout=word_dropout)
    index_of_label = {label: i for i, label in enumerate(labels)}
    rows = [*zip(sentences, tags, strict=True), *aligned_texts]
    lexicon_features = [lexicon.features(words, lexicon.shares(word_tags)) for words, word_tags in rows]
    # Linked texts are of many languages: how common their words are is not known.
    word_frequencies = [
        *frequency_features(sentences),
        *(torch.zeros(len(words), NUM_COMMON) for words, _ in aligned_texts),
    ]
    for index in np.flatnonzero(rng("static common", seed).random(len(sentences)) < FREQUENCY_DROP).tolist():
        word_frequencies[index] = torch.zeros_like(word_frequencies[index])
    for index, (mark_word, features) in draw_marks(sentences, seed).items() if is_iob2 else ():
        words, word_tags = rows[index]
        rows[index] = (mark_word, *words), (OUTSIDE_TAG, *word_tags)
        lexicon_features[index] = torch.cat([lexicon.features([mark_word]), lexicon_features[index]])
        word_frequencies[index] = torch.cat([features, clear_opening_feature(word_frequencies[index])])
    prepared = _PreparedSentences(encoder, [words for words, _ in rows], lexicon_features, word_frequencies)
    shares = (UNCASED_SHARE, ALIGNED_PER_NAME_TEXT) if is_iob2 else (0.0, ALIGNED_PER_TEXT)
    optimizer = None
    num_drawn = min(len(aligned_texts), int(shares[1] * len(sentences)))
    with Progress("fit a tagger", epochs * (len(sentences) + num_drawn), "sentences") as progress:
        for epoch in range(epochs):
            prepared.hide_case(rng("static case", seed, epoch).random(len(rows)) < shares[0])
            order = rng("static more", seed, epoch).permutation(len(aligned_texts))
            drawn_texts = len(sentences) + order[:num_drawn]
            sentence_indices = [*range(len(sentences)), *drawn_texts.tolist()]
            batches = [
                [sentence_indices[i] for i in batch]
                for batch in _make_batches([len(rows[i][0]) for i in sentence_indices])
            ]
            optimizer = optimizer or WarmupAdamW(net, 2e-3, 0.01, epochs * (len(batches) + 1))
            for batch_index in rng("static tags", seed, epoch).permutation(len(batches)):
                _update(net, optimizer, prepared, batches[batch_index], rows, index_of_label)
                progress.update(len(batches[batch_index]))
    return TrainedTagger(encoder, lexicon, net.requires_grad_(False), is_iob2)


def _update(
    net: Tagger,
    optimizer: WarmupAdamW,
    prepared: _PreparedSentences,
    batch: Sequence[int],
    rows: Sequence[tuple[Sequence[str], Sequence[str]]],
    index_of_label: Mapping[str, int],
) -> None:
    """Make one update on the sentences of a batch, unless none of their tags is a label."""
    tag_indices = [torch.tensor([index_of_label.get(tag, -100) for tag in rows[i][1]]) for i in batch]
    target = nn.utils.rnn.pad_sequence(tag_indices, batch_first=True, padding_value=-100)
    if (target >= 0).any():
        scores = net.train()(*prepared.pad_batch(batch)).flatten(0, 1)
        optimizer.step(F.cross_entropy(scores, target.flatten(), ignore_index=-100))


def _make_batches(lengths: Sequence[int]) -> list[list[int]]:
    """Group sentences of similar length into batches of at most `BATCH_WORDS` words and 64.

    Empty ones are skipped.
    """
    batches: list[list[int]] = []
    longest = 0
    for index in sorted((i for i in range(len(lengths)) if lengths[i]), key=lambda i: lengths[i]):
        longest = lengths[index]
        if not batches or len(batches[-1]) >= 64 or (len(batches[-1]) + 1) * longest > BATCH_WORDS:
            batches.append([])
        batches[-1].append(index)
    return batches


class _PreparedSentences:
    """Sentences as indices of their words and shapes, so that each word is looked up once."""

    def __init__(
        self,
        encoder: StaticEncoder,
        sentences: Sequence[Sequence[str]],
        lexicon_features: Sequence[Float[Tensor, "_ features"]],
        frequency_features: Sequence[Float[Tensor, "_ marks"]],
    ) -> None:
        index_of_word: dict[str, int] = {}
        self._word_indices = [
            torch.tensor(
                [index_of_word.setdefault(word, len(index_of_word)) for word in words], dtype=torch.int64
            )
            for words in sentences
        ]
        self._sentences, self._without_case = sentences, frozenset[int]()
        self._vectors = encoder.words_with_sketches(list(index_of_word))
        self._shapes = [word_shapes(words) for words in sentences]
        self._lexicon_features, self._frequency_features = lexicon_features, frequency_features

    def hide_case(self, is_hidden: Bool[np.ndarray, " sentences"]) -> None:
        """Make the chosen sentences read as if their script had no case, and the others normally."""
        self._without_case = frozenset(np.flatnonzero(is_hidden).tolist())

    def pad_batch(
        self, batch: Sequence[int]
    ) -> tuple[
        Float[Tensor, "batch longest dim"],
        Float[Tensor, "batch longest written"],
        Float[Tensor, "batch longest tags"],
        Int64[Tensor, " batch"],
    ]:
        """Return vectors (B, T, dim + sketch), written (B, T, 33), known tags and lengths (B,), zero-padded."""
        pad_sequence = nn.utils.rnn.pad_sequence
        vectors = pad_sequence([self._vectors[self._word_indices[i]] for i in batch], batch_first=True)
        word_features = pad_sequence([self._word_features(i) for i in batch], batch_first=True)
        lexicon_features = pad_sequence([self._lexicon_features[i] for i in batch], batch_first=True)
        return (
            vectors,
            word_features,
            lexicon_features,
            torch.tensor([len(self._word_indices[i]) for i in batch]),
        )

    def _word_features(self, index: int) -> Tensor:
        word_features = self._shapes[index]
        if index in self._without_case:
            word_features = remove_case(word_features, self._sentences[index])
        return torch.cat([word_features, self._frequency_features[index]], 1)


@functools.cache
def _transition_scores(labels: tuple[str, ...]) -> np.ndarray:
    """Return 0 if tag j may follow tag i in IOB2, else -inf, (labels + 1, labels); the last row is the start."""
    allowed = np.zeros((len(labels) + 1, len(labels)), np.float32)
    for j, label in enumerate(labels):
        if label.startswith("I-"):
            for i, previous_label in enumerate([*labels, "O"]):
                if previous_label[1:] != label[1:]:
                    allowed[i, j] = -np.inf
    return allowed


def most_likely_tags(
    scores: Float[np.ndarray, "words labels"], labels: Sequence[str], is_iob2: bool
) -> list[str]:
    """Return the tags of the words of a sentence: the most likely ones, or the most likely IOB2 sequence."""
    if not len(scores):
        return []
    path = best_path(scores, _transition_scores(tuple(labels))) if is_iob2 else scores.argmax(1).tolist()
    return [labels[i] for i in path]


def best_path(
    scores: Float[np.ndarray, "words labels"], transitions: Float[np.ndarray, "_ labels"]
) -> list[int]:
    """Return the sequence of tags with the highest sum of ``scores`` and ``transitions`` (Viterbi)."""
    best_scores, back_pointers = scores[0] + transitions[-1], []
    for row in scores[1:]:
        extended = best_scores[:, None] + transitions[:-1]
        best = extended.argmax(0)
        back_pointers.append(best)
        best_scores = extended[best, np.arange(len(best))] + row
    path = [int(best_scores.argmax())]
    for best in reversed(back_pointers):
        path.append(int(best[path[-1]]))
    return path[::-1]
