"""What is learned on top of a static encoder from labelled rows: a classifier, a tagger; the encoder stays as it is.

A classifier reads fixed features of a text or of a pair. A tagger reads the vectors of the words, their shape and their
neighbours'; the sequence of tags is the best one of those that IOB2 allows.

Sources: what a text of a pair says that the other does not: Parikh et al. 2016, A decomposable attention model.
"""

from __future__ import annotations

import copy
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.core.sampling import rng
from xling.models.static import StaticEncoder, unit
from xling.text.features import is_unspaced, tokens

if TYPE_CHECKING:
    from jaxtyping import Float, Float32

SHARPNESS = 20.0
MAX_PAIR_WORDS = 60
BATCH_WORDS = 2500
NUM_SHAPES = 30
MIN_RESCALED = 20
"""Rows below which features are left as they are: they say too little about their language."""
WARMUP_STEPS = 50
MORE = 3
DROP, SPAN_DROP = 0.15, 0.3
"""Words hidden in training; the more, the less a name's own spelling decides."""
_SPACED_MARK = re.compile(r"\s+([.,!?;:)\]])")
_QUOTES, _ENDS, _COMMAS = "\"«»“”'‘’", ".!?。।؟", ",،、;:"


def text_features(encoder: StaticEncoder, texts: Sequence[str]) -> Float32[Tensor, "texts features"]:
    """Sentence vectors of length 1 with the mean of the given texts taken off, (num_texts, dim).

    The mean is mostly what the language and the kind of text add; the rows of one call are of one language.
    """
    vectors = unit(encoder.sentences(texts))
    return vectors - vectors.mean(0) if len(texts) >= MIN_RESCALED else vectors


def pair_features(
    encoder: StaticEncoder, pairs: Sequence[tuple[str, str]]
) -> Float32[Tensor, "pairs features"]:
    """What a classifier of pairs reads, float32 (num_pairs, 6 dim + 26)."""
    sides = [[_pair_words(text) for text in pair] for pair in pairs]
    unique = list(dict.fromkeys(word for pair in sides for words in pair for word in words))
    vectors, place = unit(encoder.words(unique)), {word: i for i, word in enumerate(unique)}
    weights = torch.tensor([encoder.weight(word) for word in unique])
    rows = []
    for pair in sides:
        here = [torch.tensor([place[word] for word in words]) for words in pair]
        (a, b), (weight_a, weight_b) = ([each[i] for i in here] for each in (vectors, weights))
        rows.append(_of_pair(a, weight_a, pair[0], b, weight_b, pair[1]))
    return torch.stack(rows)


def rescaled(features: Float32[Tensor, "rows features"]) -> Float32[Tensor, "rows features"]:
    """Features with mean 0 and deviation 1 over the given rows, which are of one language.

    How well words are found on the other side differs by language, and is not what tells the classes apart.
    """
    if len(features) < MIN_RESCALED:
        return features
    return (features - features.mean(0)) / features.std(0).clamp_min(1e-3)


def _of_pair(
    a: Tensor, weight_a: Tensor, words_a: list[str], b: Tensor, weight_b: Tensor, words_b: list[str]
) -> Tensor:
    """The features of one pair from unit vectors (n, dim), weights (n,) and words of both sides."""
    scores = b @ a.T
    one, other = unit(weight_a @ a), unit(weight_b @ b)
    left_b = b - (SHARPNESS * scores).softmax(1) @ a
    left_a = a - (SHARPNESS * scores.T).softmax(1) @ b
    numbers = [{word for word in words if word.isdigit()} for words in (words_a, words_b)]
    facts = [
        len(words_b) / len(words_a),
        len(words_a) / 20,
        len(words_b) / 20,
        float(bool(numbers[1] - numbers[0])),
        float(bool(numbers[1] & numbers[0])),
        float(one @ other),
        float("?" in words_a),
        float("?" in words_b),
    ]
    spread = [_spread(scores.amax(1), weight_b), _spread(scores.amax(0), weight_a)]
    alike = [(one - other).abs(), one * other]
    left = [left_b.sum(0), left_b.abs().sum(0), left_a.sum(0), b.sum(0)]
    return torch.cat([*alike, *left, *spread, torch.tensor(facts)])


def _pair_words(text: str) -> list[str]:
    """The words of a text of a pair; blanks before marks, as treebanks write them, are taken out."""
    return [word.lower() for word in tokens(_SPACED_MARK.sub(r"\1", text))[:MAX_PAIR_WORDS]] or ["."]


def _spread(best: Tensor, weights: Tensor) -> Tensor:
    """How well the words of one side are found on the other, (9,)."""
    return torch.stack(
        [
            best.mean(),
            best.min(),
            (best * weights).sum() / weights.sum(),
            ((1 - best) * weights).sum(),
            (best > 0.9).float().mean(),
            (best > 0.6).float().mean(),
            (best < 0.4).float().mean(),
            ((best < 0.4) * weights).sum(),
            best.sort().values[(len(best) - 1) // 3],
        ]
    )


@dataclass(frozen=True)
class Classifier:
    """Logistic regression (``layers`` of one matrix) or a network of one hidden layer on scaled features.

    Attributes:
        labels: class names, in the order of the outputs.
        mean: (num_features,) taken off.
        scale: (num_features,) divided by.
        net: features to logits.
    """

    labels: tuple[str, ...]
    mean: Tensor
    scale: Tensor
    net: nn.Module

    def predict(self, features: Float32[Tensor, "rows features"]) -> list[str]:
        """The likeliest class of each row."""
        with torch.inference_mode():
            best = self.net.eval()((features - self.mean) / self.scale).argmax(1)
        return [self.labels[i] for i in best.tolist()]


def logistic(
    features: Float32[Tensor, "rows features"],
    classes: Sequence[str],
    labels: Sequence[str],
    strength: float,
) -> Classifier:
    """Multinomial logistic regression by L-BFGS.

    Args:
        features: (num_rows, num_features).
        classes: the right one of each row.
        labels: all of them.
        strength: of the rows against the squared weights, as C of scikit-learn.
    """
    right = torch.tensor([labels.index(name) for name in classes])
    net = nn.Linear(features.shape[1], len(labels))
    nn.init.zeros_(net.weight), nn.init.zeros_(net.bias)
    search = torch.optim.LBFGS(net.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        search.zero_grad()
        loss = (
            strength * F.cross_entropy(net(features), right, reduction="sum") + 0.5 * net.weight.pow(2).sum()
        )
        loss.backward()
        return loss

    search.step(closure)
    zeros, ones = torch.zeros(features.shape[1]), torch.ones(features.shape[1])
    return Classifier(tuple(labels), zeros, ones, net.requires_grad_(False))


def network(
    features: Float32[Tensor, "rows features"],
    classes: Sequence[str],
    labels: Sequence[str],
    epochs: int,
    seed: int,
    width: int = 384,
) -> Classifier:
    """One hidden layer with dropout, by AdamW with a rate that falls to zero."""
    torch.manual_seed(seed)
    mean, scale = features.mean(0), features.std(0).clamp_min(1e-3)
    scaled, right = (features - mean) / scale, torch.tensor([labels.index(name) for name in classes])
    net = nn.Sequential(
        nn.Dropout(0.2),
        nn.Linear(features.shape[1], width),
        nn.GELU(),
        nn.Dropout(0.4),
        nn.Linear(width, len(labels)),
    )
    learning = _Learning(net, 1e-3, 0.05, epochs * -(-len(right) // 64))
    for epoch in range(epochs):
        order = torch.from_numpy(rng("static pairs", seed, epoch).permutation(len(right)))
        for chosen in order.split(64):
            learning.step(F.cross_entropy(net(scaled[chosen]), right[chosen], label_smoothing=0.1))
    return Classifier(tuple(labels), mean, scale, net.requires_grad_(False))


class _Learning:
    """AdamW whose rate rises over a tenth of the steps, at most `WARMUP_STEPS`, and falls to zero at the last."""

    def __init__(self, net: nn.Module, rate: float, decay: float, num_steps: int) -> None:
        self._optimizer = torch.optim.AdamW(net.parameters(), rate, weight_decay=decay)
        self._rate, self._num_steps, self._step = rate, num_steps, 0

    def step(self, loss: Tensor) -> None:
        warmup = max(1, min(WARMUP_STEPS, self._num_steps // 10))
        rate = self._rate * max(0.0, 1 - self._step / self._num_steps) * min(1.0, (self._step + 1) / warmup)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._step += 1


def shapes(words: Sequence[str]) -> Float32[Tensor, "words shapes"]:
    """What the writing of each word says in any language: case, digits, marks, length, place; (num_words, 30)."""
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


class Tagger(nn.Module):
    """Words and their shapes, one convolution over five words, and tags.

    Args:
        dim: of the word vectors.
        labels: tags.
        width: of the hidden layer.
        drop: share of the words whose vectors are hidden in training, and half that of single numbers.
    """

    def __init__(self, dim: int, labels: Sequence[str], width: int = 256, drop: float = DROP) -> None:
        super().__init__()
        self.labels, self.drop = tuple(labels), drop
        self.enter = nn.Linear(dim + NUM_SHAPES, width)
        self.around = nn.Conv1d(width, width, 5, padding=2)
        self.norm = nn.LayerNorm(width)
        self.leave = nn.Linear(width, len(labels))

    def forward(
        self, vectors: Float32[Tensor, "batch words dim"], written: Float32[Tensor, "batch words shapes"]
    ) -> Float32[Tensor, "batch words labels"]:
        """Logits, (B, T, labels), of vectors (B, T, dim) and shapes (B, T, 30)."""
        if self.training:
            seen = torch.rand(vectors.shape[:2]) >= self.drop
            vectors = F.dropout(vectors * seen[..., None], self.drop)
        hidden = F.gelu(self.enter(torch.cat([vectors, written], -1)))
        hidden = hidden + F.gelu(self.around(hidden.mT).mT)
        logits: Tensor = self.leave(self.norm(hidden))
        return logits


@dataclass(frozen=True)
class Tagged:
    """A tagger with the encoder whose vectors it reads, and what of a tag may follow what."""

    encoder: StaticEncoder
    net: Tagger
    spans: bool

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Tags per sentence: the likeliest of each word, or the likeliest IOB2 sequence."""
        found, labels = [], self.net.labels
        follow = _follow(labels) if self.spans else np.zeros((len(labels) + 1, len(labels)))
        for scores in self.log_probabilities(sentences):
            found.append([labels[i] for i in best_path(scores, follow)] if len(scores) else [])
        return found

    def log_probabilities(self, sentences: Sequence[Sequence[str]]) -> list[Float32[np.ndarray, "_ _"]]:
        """Of the tags of each word, float32 (num_words, labels) per sentence."""
        found: list[np.ndarray] = [np.zeros((0, len(self.net.labels)), np.float32)] * len(sentences)
        self.net.eval()
        prepared = _Prepared(self.encoder, sentences)
        with torch.inference_mode():
            for batch in _batches([len(s) for s in sentences]):
                scores = self.net(*prepared.padded(batch)).log_softmax(-1).numpy()
                for row, index in enumerate(batch):
                    found[index] = scores[row, : len(sentences[index])]
        return found


def tagger(
    encoder: StaticEncoder,
    sentences: Sequence[Sequence[str]],
    tags: Sequence[Sequence[str]],
    labels: Sequence[str],
    epochs: int,
    seed: int,
    spans: bool,
    more: Sequence[tuple[Sequence[str], Sequence[str]]] = (),
) -> Tagged:
    """Train a tagger; a tag that is not among ``labels`` teaches nothing.

    Args:
        encoder: gives the word vectors.
        sentences: words.
        tags: of the words.
        labels: all tags.
        epochs: passes over the sentences.
        seed: of weights, order and dropout.
        spans: whether the tags are IOB2.
        more: sentences with tags, of which every epoch draws `MORE` for each of ``sentences``.
    """
    torch.manual_seed(seed)
    net = Tagger(encoder.dim + encoder.cfg.sketch, labels, drop=SPAN_DROP if spans else DROP)
    number = {label: i for i, label in enumerate(labels)}
    rows = [*zip(sentences, tags, strict=True), *more]
    prepared = _Prepared(encoder, [words for words, _ in rows])
    learning = None
    for epoch in range(epochs):
        drawn = rng("static more", seed, epoch).permutation(len(more))[: MORE * len(sentences)] + len(
            sentences
        )
        chosen = [*range(len(sentences)), *drawn.tolist()]
        batches = [[chosen[i] for i in batch] for batch in _batches([len(rows[i][0]) for i in chosen])]
        learning = learning or _Learning(net, 2e-3, 0.01, epochs * (len(batches) + 1))
        for which in rng("static tags", seed, epoch).permutation(len(batches)):
            batch = batches[which]
            right = [torch.tensor([number.get(tag, -100) for tag in rows[i][1]]) for i in batch]
            target = nn.utils.rnn.pad_sequence(right, batch_first=True, padding_value=-100)
            if (target >= 0).any():
                scores = net.train()(*prepared.padded(batch)).flatten(0, 1)
                learning.step(F.cross_entropy(scores, target.flatten(), ignore_index=-100))
    return Tagged(encoder, net.requires_grad_(False), spans)


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Indices of sentences of like length, of at most `BATCH_WORDS` words and 64 sentences; empty ones are left out."""
    batches: list[list[int]] = []
    longest = 0
    for index in sorted((i for i in range(len(lengths)) if lengths[i]), key=lambda i: lengths[i]):
        longest = lengths[index]
        if not batches or len(batches[-1]) >= 64 or (len(batches[-1]) + 1) * longest > BATCH_WORDS:
            batches.append([])
        batches[-1].append(index)
    return batches


class _Prepared:
    """Sentences as numbers of their words and shapes, so that each word is looked up once.

    Args:
        encoder: gives the word vectors.
        sentences: words.
    """

    def __init__(self, encoder: StaticEncoder, sentences: Sequence[Sequence[str]]) -> None:
        number: dict[str, int] = {}
        self._places = [
            torch.tensor([number.setdefault(word, len(number)) for word in words], dtype=torch.int64)
            for words in sentences
        ]
        self._vectors = encoder.spelt_words(list(number))
        self._shapes = [shapes(words) for words in sentences]

    def padded(self, batch: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Vectors (B, T, dim + sketch) and shapes (B, T, 30) of a batch, zeros behind the shorter sentences."""
        pad = nn.utils.rnn.pad_sequence
        vectors = pad([self._vectors[self._places[i]] for i in batch], batch_first=True)
        return vectors, pad([self._shapes[i] for i in batch], batch_first=True)


def _follow(labels: Sequence[str]) -> np.ndarray:
    """0 where tag j may follow tag i in IOB2 and -inf where not, (labels + 1, labels); the last row is the start."""
    allowed = np.zeros((len(labels) + 1, len(labels)), np.float32)
    for j, label in enumerate(labels):
        if label.startswith("I-"):
            for i, before in enumerate([*labels, "O"]):
                if before[1:] != label[1:]:
                    allowed[i, j] = -np.inf
    return allowed


def best_path(scores: Float[np.ndarray, "words labels"], follow: Float[np.ndarray, "_ labels"]) -> list[int]:
    """The sequence of tags with the highest sum of ``scores`` and ``follow`` (Viterbi).

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


def averaged(models: Sequence[Any]) -> Any:
    """The model whose weights are the mean of those of classifiers or taggers of one shape."""
    states = [model.net.state_dict() for model in models]
    net = copy.deepcopy(models[0].net)
    net.load_state_dict({name: torch.stack([s[name] for s in states]).mean(0) for name in states[0]})
    return replace(models[0], net=net)
