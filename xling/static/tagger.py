"""Tagger on top of a frozen static encoder: it reads word vectors and word shapes and predicts a tag per word.

Two more inputs are how often other texts tag each word as what (`xling.static.tag_lexicon`) and how common it is
among the texts that are tagged together (`xling.static.word_frequency`). A convolution over three words and a
bidirectional LSTM read the sentence. For names the most likely sequence that IOB2 allows is chosen.

Source: bidirectional LSTM for names: Lample et al. 2016, Neural architectures for named entity recognition.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.core.sampling import rng
from xling.static.heads import Learning
from xling.static.tag_lexicon import TagLexicon
from xling.static.tag_projection import OUTSIDE
from xling.static.vectors import StaticEncoder
from xling.static.word_frequency import NUM_FEATURES as NUM_COMMON
from xling.static.word_frequency import common_words, drawn_marks, not_opening
from xling.text.words.features import is_unspaced

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float32, Int64

BATCH_WORDS = 2500
NUM_SHAPES = 30
MORE, MORE_NAMES = 3, 0.25
"""Number of aligned texts that an epoch reads per labelled text."""
DROP, SPAN_DROP = 0.15, 0.25
"""Share of the words whose vectors are hidden in training; a higher share reduces reliance on spelling."""
LEXICON_DROP, LEXICON_WORD_DROP = 0.5, 0.3
"""Share of the sentences, and of the words of the others, whose tags in the lexicon are hidden in training.

Most names of other languages are not in the lexicon."""
COMMON_DROP = 0.3
"""Share of the sentences for which it is hidden in training how common their words are.

A tagger has to do without when it is given few sentences."""
HIDDEN_DROP = 0.2
UNCASED = 0.3
"""Share of the sentences with names that are read without case in training, like scripts without case."""
_QUOTES, _ENDS, _COMMAS = "\"«»“”'‘’", ".!?。।؟", ",،、;:"
_CASED = [0, 1, 2, 24, 25]
_ALPHABETIC, _NO_CAPITALS = 3, 26
"""Columns of `shapes`: those only for cased scripts, letter without case, sentence without capitals."""


def shapes(words: Sequence[str]) -> Float32[Tensor, "words shapes"]:
    """Return language-independent shape features of each word: case, digits, marks, length, place.

    (num_words, 30).
    """
    upper = sum(word[:1].isupper() for word in words) / max(1, len(words))
    rows = [_shape(word, place, len(words), upper) for place, word in enumerate(words)]
    return torch.tensor(rows, dtype=torch.float32).reshape(len(words), NUM_SHAPES)


def _shape(word: str, place: int, num_words: int, upper: float) -> list[bool]:
    first = word[:1] or " "
    kind = unicodedata.category(first)
    is_cased = first.lower() != first.upper()
    return [
        first.isupper(), word.isupper() and len(word) > 1, first.islower(), first.isalpha() and not is_cased,
        any(map(str.isdigit, word)), word.isdigit(), kind[0] == "P", kind[0] == "S",
        place == 0, place == 1, place == num_words - 1, num_words < 6,
        len(word) == 1, len(word) == 2, len(word) == 3, len(word) > 7,
        "-" in word[1:], "." in word, word == ".", first in _ENDS, first in _COMMAS, first in _QUOTES,
        first in "([{", first in "-–—*", any(map(str.isupper, word[1:])), upper > 0.6, upper < 0.02,
        "'" in word[1:] or "’" in word[1:], is_unspaced(word) if word else False, "@" in word or "/" in word,
    ]  # fmt: skip


def without_case(
    written: Float32[Tensor, "words shapes"], words: Sequence[str]
) -> Float32[Tensor, "words shapes"]:
    """Return `shapes` of the same words as if their script had no case; (num_words, 30)."""
    changed = written.clone()
    changed[:, _CASED] = 0
    changed[:, _NO_CAPITALS] = 1
    changed[:, _ALPHABETIC] = torch.tensor([float(word[:1].isalpha()) for word in words])
    return changed


class Tagger(nn.Module):
    """Tagging network: word vectors, shapes and known tags, a convolution, a bidirectional LSTM, and tags.

    Args:
        dim: size of the word vectors.
        num_known: size of a word's features from the lexicon.
        labels: tags.
        width: width of the hidden layers.
        drop: share of the words whose vectors are hidden in training, and of their single dimensions.
    """

    def __init__(
        self, dim: int, num_known: int, labels: Sequence[str], width: int = 256, drop: float = DROP
    ) -> None:
        super().__init__()
        self.labels, self.drop = tuple(labels), drop
        self.enter = nn.Linear(dim + NUM_SHAPES + NUM_COMMON + num_known, width)
        self.before_around, self.around = nn.LayerNorm(width), nn.Linear(3 * width, width)
        self.read = nn.LSTM(width, width // 2, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.leave = nn.Linear(width, len(labels))

    def forward(
        self,
        vectors: Float32[Tensor, "batch words dim"],
        written: Float32[Tensor, "batch words shapes"],
        known: Float32[Tensor, "batch words known"],
        lengths: Int64[Tensor, " batch"],
    ) -> Float32[Tensor, "batch words labels"]:
        """Compute logits, (B, T, labels).

        Args:
            vectors: (B, T, dim), of the words.
            written: (B, T, 33), their shapes and how common they are.
            known: (B, T, num_known), their tags in the lexicon.
            lengths: (B,), number of words.
        """
        if self.training:
            is_kept = torch.rand(len(known), 1) >= LEXICON_DROP
            is_kept = is_kept & (torch.rand(known.shape[:2]) >= LEXICON_WORD_DROP)
            known = known * is_kept[..., None]
            seen = torch.rand(vectors.shape[:2]) >= self.drop
            vectors = F.dropout(vectors * seen[..., None], self.drop)
        is_word = (torch.arange(vectors.shape[1]) < lengths[:, None])[..., None]
        hidden = F.gelu(self.enter(torch.cat([vectors, written, known], -1)))
        padded = F.pad(self.before_around(hidden) * is_word, (0, 0, 1, 1))
        three = torch.cat([padded[:, i : i + vectors.shape[1]] for i in range(3)], -1)
        hidden = hidden + self._some(F.gelu(self.around(three)))
        packed = nn.utils.rnn.pack_padded_sequence(
            self._some(hidden), lengths, batch_first=True, enforce_sorted=False
        )
        read, _ = nn.utils.rnn.pad_packed_sequence(self.read(packed)[0], batch_first=True)
        logits: Tensor = self.leave(self.norm(hidden + self._some(read)))
        return logits

    def _some(self, hidden: Tensor) -> Tensor:
        return F.dropout(hidden, HIDDEN_DROP, self.training)


@dataclass(frozen=True)
class Tagged:
    """A trained tagger with its encoder and lexicon, and whether its tags are IOB2."""

    encoder: StaticEncoder
    lexicon: TagLexicon
    net: Tagger
    spans: bool

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return tags per sentence: the most likely tag of each word, or the most likely IOB2 sequence.

        The sentences should be all that are to be tagged, of one language: how common their words are is an input.
        """
        predicted, labels = [], self.net.labels
        follow = _follow(labels) if self.spans else np.zeros((len(labels) + 1, len(labels)))
        for scores in self.log_probabilities(sentences):
            predicted.append([labels[i] for i in best_path(scores, follow)] if len(scores) else [])
        return predicted

    def log_probabilities(self, sentences: Sequence[Sequence[str]]) -> list[Float32[np.ndarray, "_ _"]]:
        """Return log-probabilities of the tags of each word, float32 (num_words, labels) per sentence."""
        by_sentence: list[np.ndarray] = [np.zeros((0, len(self.net.labels)), np.float32)] * len(sentences)
        self.net.eval()
        known = [self.lexicon.features(words) for words in sentences]
        prepared = _Prepared(self.encoder, sentences, known, common_words(sentences))
        with torch.inference_mode():
            for batch in _batches([len(s) for s in sentences]):
                scores = self.net(*prepared.padded(batch)).log_softmax(-1).numpy()
                for row, index in enumerate(batch):
                    by_sentence[index] = scores[row, : len(sentences[index])]
        return by_sentence


def tagger(
    encoder: StaticEncoder,
    lexicon: TagLexicon,
    sentences: Sequence[Sequence[str]],
    tags: Sequence[Sequence[str]],
    labels: Sequence[str],
    epochs: int,
    seed: int,
    spans: bool,
    more: Sequence[tuple[Sequence[str], Sequence[str]]] = (),
) -> Tagged:
    """Train a tagger; tags that are not among ``labels`` are ignored.

    Args:
        encoder: provides the word vectors.
        lexicon: tags by spelling; each sentence with its tags, also of ``more``, has been counted once.
        sentences: words.
        tags: tags of the words.
        labels: all tags.
        epochs: passes over the sentences.
        seed: seed of weights, order and dropout.
        spans: whether the tags are IOB2.
        more: sentences with tags, of which every epoch draws `MORE` (`MORE_NAMES`) for each of ``sentences``.
    """
    torch.manual_seed(seed)
    net = Tagger(encoder.dim + encoder.cfg.sketch, lexicon.dim, labels, drop=SPAN_DROP if spans else DROP)
    number = {label: i for i, label in enumerate(labels)}
    rows = [*zip(sentences, tags, strict=True), *more]
    known = [lexicon.features(words, lexicon.shares(of_words)) for words, of_words in rows]
    # Linked texts are of many languages: how common their words are is not known.
    common = [*common_words(sentences), *(torch.zeros(len(words), NUM_COMMON) for words, _ in more)]
    for index in np.flatnonzero(rng("static common", seed).random(len(sentences)) < COMMON_DROP).tolist():
        common[index] = torch.zeros_like(common[index])
    for index, (mark, features) in drawn_marks(sentences, seed).items() if spans else ():
        words, of_words = rows[index]
        rows[index] = (mark, *words), (OUTSIDE, *of_words)
        known[index] = torch.cat([lexicon.features([mark]), known[index]])
        common[index] = torch.cat([features, not_opening(common[index])])
    prepared = _Prepared(encoder, [words for words, _ in rows], known, common)
    learning = None
    for epoch in range(epochs):
        prepared.hide_case(rng("static case", seed, epoch).random(len(rows)) < (UNCASED if spans else 0.0))
        num_more = int((MORE_NAMES if spans else MORE) * len(sentences))
        drawn = rng("static more", seed, epoch).permutation(len(more))[:num_more] + len(sentences)
        chosen = [*range(len(sentences)), *drawn.tolist()]
        batches = [[chosen[i] for i in batch] for batch in _batches([len(rows[i][0]) for i in chosen])]
        learning = learning or Learning(net, 2e-3, 0.01, epochs * (len(batches) + 1))
        for which in rng("static tags", seed, epoch).permutation(len(batches)):
            batch = batches[which]
            right = [torch.tensor([number.get(tag, -100) for tag in rows[i][1]]) for i in batch]
            target = nn.utils.rnn.pad_sequence(right, batch_first=True, padding_value=-100)
            if (target >= 0).any():
                scores = net.train()(*prepared.padded(batch)).flatten(0, 1)
                learning.step(F.cross_entropy(scores, target.flatten(), ignore_index=-100))
    return Tagged(encoder, lexicon, net.requires_grad_(False), spans)


def _batches(lengths: Sequence[int]) -> list[list[int]]:
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


class _Prepared:
    """Sentences as indices of their words and shapes, so that each word is looked up once.

    Args:
        encoder: provides the word vectors.
        sentences: words.
        known: (num_words, features) of the words of each sentence, from the lexicon.
        common: (num_words, 3) of each sentence, see `common_words`.
    """

    def __init__(
        self,
        encoder: StaticEncoder,
        sentences: Sequence[Sequence[str]],
        known: Sequence[Float[Tensor, "_ features"]],
        common: Sequence[Float[Tensor, "_ marks"]],
    ) -> None:
        number: dict[str, int] = {}
        self._places = [
            torch.tensor([number.setdefault(word, len(number)) for word in words], dtype=torch.int64)
            for words in sentences
        ]
        self._sentences, self._without_case = sentences, frozenset[int]()
        self._vectors = encoder.spelt_words(list(number))
        self._shapes, self._known, self._common = [shapes(words) for words in sentences], known, common

    def hide_case(self, chosen: Bool[np.ndarray, " sentences"]) -> None:
        """Make the chosen sentences read as if their script had no case, and the others normally."""
        self._without_case = frozenset(np.flatnonzero(chosen).tolist())

    def padded(
        self, batch: Sequence[int]
    ) -> tuple[
        Float[Tensor, "batch longest dim"],
        Float[Tensor, "batch longest written"],
        Float[Tensor, "batch longest tags"],
        Int64[Tensor, " batch"],
    ]:
        """Return vectors (B, T, dim + sketch), written (B, T, 33), known tags and lengths (B,), zero-padded."""
        pad = nn.utils.rnn.pad_sequence
        vectors = pad([self._vectors[self._places[i]] for i in batch], batch_first=True)
        written = pad([self._written(i) for i in batch], batch_first=True)
        known = pad([self._known[i] for i in batch], batch_first=True)
        return vectors, written, known, torch.tensor([len(self._places[i]) for i in batch])

    def _written(self, index: int) -> Tensor:
        written = self._shapes[index]
        if index in self._without_case:
            written = without_case(written, self._sentences[index])
        return torch.cat([written, self._common[index]], 1)


def _follow(labels: Sequence[str]) -> np.ndarray:
    """Return 0 if tag j may follow tag i in IOB2, else -inf, (labels + 1, labels); the last row is the start."""
    allowed = np.zeros((len(labels) + 1, len(labels)), np.float32)
    for j, label in enumerate(labels):
        if label.startswith("I-"):
            for i, before in enumerate([*labels, "O"]):
                if before[1:] != label[1:]:
                    allowed[i, j] = -np.inf
    return allowed


def best_path(scores: Float[np.ndarray, "words labels"], follow: Float[np.ndarray, "_ labels"]) -> list[int]:
    """Return the sequence of tags with the highest sum of ``scores`` and ``follow`` (Viterbi).

    Args:
        scores: float32 (num_words, labels), at least one word.
        follow: float32 (labels + 1, labels), see `_follow`.
    """
    total, back = scores[0] + follow[-1], []
    for row in scores[1:]:
        through = total[:, None] + follow[:-1]
        best = through.argmax(0)
        back.append(best)
        total = through[best, np.arange(len(best))] + row
    path = [int(total.argmax())]
    for best in reversed(back):
        path.append(int(best[path[-1]]))
    return path[::-1]
