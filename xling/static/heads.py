"""Classifiers of texts and of pairs on top of a frozen static encoder.

A classifier reads fixed features of a text or of a pair. Taggers are in `xling.static.tagger`.

Sources: unmatched content of the texts of a pair: Parikh et al. 2016, A decomposable attention model.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Bool, Float32
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.static.matching import match_all
from xling.static.vectors import StaticEncoder, unit_length
from xling.text.words.features import split_tokens

MATCH_SHARPNESS = 20.0
MAX_PAIR_WORDS = 60
MIN_ROWS_TO_RESCALE = 20
"""Minimum number of rows for rescaling: fewer say too little about their language."""
MAX_VOTERS, VOTE_SHARPNESS = 2000, 40.0
"""Labelled texts that vote on the class of another, and how fast a vote falls with the distance."""
LOG_NO_VOTES = -1e4
"""Logarithm of the votes for a class that no text has."""
WARMUP_STEPS, HIDDEN_WIDTH = 50, 384
_SPACED_MARK = re.compile(r"\s+([.,!?;:)\]])")


def text_features(encoder: StaticEncoder, texts: Sequence[str]) -> Float32[Tensor, "texts features"]:
    """Return sentence vectors of length 1 after subtracting the mean of the given texts, (num_texts, dim).

    The mean mostly reflects the language and the kind of text; the rows of one call are of one language.
    """
    vectors = unit_length(encoder.sentence_vectors(texts))
    return vectors - vectors.mean(0) if len(texts) >= MIN_ROWS_TO_RESCALE else vectors


def pair_features(
    encoder: StaticEncoder, pairs: Sequence[tuple[str, str]]
) -> Float32[Tensor, "pairs features"]:
    """Return the input features of a classifier of pairs, float32 (num_pairs, 6 dim + 26)."""
    sides = [[_pair_words(text) for text in pair] for pair in pairs]
    unique = list(dict.fromkeys(word for pair in sides for words in pair for word in words))
    vectors = unit_length(encoder.word_vectors(unique))
    index_of_word = {word: i for i, word in enumerate(unique)}
    weights = torch.tensor([encoder.weight(word) for word in unique])
    rows = []
    for pair in sides:
        word_indices = [torch.tensor([index_of_word[word] for word in words]) for words in pair]
        (a, b), (weight_a, weight_b) = ([each[i] for i in word_indices] for each in (vectors, weights))
        rows.append(_features_of_pair(a, weight_a, pair[0], b, weight_b, pair[1]))
    return torch.stack(rows)


def rescale(features: Float32[Tensor, "rows features"]) -> Float32[Tensor, "rows features"]:
    """Scale features to mean 0 and deviation 1 over the given rows, which are of one language.

    How well words are matched differs by language, and does not distinguish the classes.
    """
    if len(features) < MIN_ROWS_TO_RESCALE:
        return features
    return (features - features.mean(0)) / features.std(0).clamp_min(1e-3)


def _features_of_pair(
    a: Tensor, weight_a: Tensor, words_a: list[str], b: Tensor, weight_b: Tensor, words_b: list[str]
) -> Tensor:
    """Compute the features of one pair from unit vectors (n, dim), weights (n,) and words of both sides."""
    scores = b @ a.T
    sentence_a, sentence_b = unit_length(weight_a @ a), unit_length(weight_b @ b)
    unmatched_b = b - (MATCH_SHARPNESS * scores).softmax(1) @ a
    unmatched_a = a - (MATCH_SHARPNESS * scores.T).softmax(1) @ b
    numbers = [{word for word in words if word.isdigit()} for words in (words_a, words_b)]
    scalar_features = [
        len(words_b) / len(words_a),
        len(words_a) / 20,
        len(words_b) / 20,
        float(bool(numbers[1] - numbers[0])),
        float(bool(numbers[1] & numbers[0])),
        float(sentence_a @ sentence_b),
        float("?" in words_a),
        float("?" in words_b),
    ]
    match_summaries = [
        _summarise_matches(scores.amax(1), weight_b),
        _summarise_matches(scores.amax(0), weight_a),
    ]
    sentence_features = [(sentence_a - sentence_b).abs(), sentence_a * sentence_b]
    unmatched_features = [unmatched_b.sum(0), unmatched_b.abs().sum(0), unmatched_a.sum(0), b.sum(0)]
    return torch.cat(
        [*sentence_features, *unmatched_features, *match_summaries, torch.tensor(scalar_features)]
    )


def _pair_words(text: str) -> list[str]:
    """Return the words of a text of a pair; blanks before punctuation, as in treebanks, are removed."""
    return [word.lower() for word in split_tokens(_SPACED_MARK.sub(r"\1", text))[:MAX_PAIR_WORDS]] or ["."]


def _summarise_matches(best_scores: Tensor, weights: Tensor) -> Tensor:
    """Summarise how well the words of one side are matched on the other, (9,)."""
    return torch.stack(
        [
            best_scores.mean(),
            best_scores.min(),
            (best_scores * weights).sum() / weights.sum(),
            ((1 - best_scores) * weights).sum(),
            (best_scores > 0.9).float().mean(),
            (best_scores > 0.6).float().mean(),
            (best_scores < 0.4).float().mean(),
            ((best_scores < 0.4) * weights).sum(),
            best_scores.sort().values[(len(best_scores) - 1) // 3],
        ]
    )


@dataclass(frozen=True)
class Classifier:
    """Logistic regression or a network with one hidden layer, on scaled features.

    Attributes:
        labels: class names, in the order of the outputs.
        mean: (num_features,) subtracted.
        scale: (num_features,) divisor.
        net: features to logits.
    """

    labels: tuple[str, ...]
    mean: Float32[Tensor, " features"]
    scale: Float32[Tensor, " features"]
    net: nn.Module

    def predict(self, features: Float32[Tensor, "rows features"]) -> list[str]:
        """Return the most likely class of each row."""
        return [self.labels[i] for i in self.probabilities(features).argmax(1).tolist()]

    def probabilities(self, features: Float32[Tensor, "rows features"]) -> Float32[Tensor, "rows labels"]:
        """Return the probability of each class for each row, (num_rows, num_labels)."""
        with torch.inference_mode():
            probabilities: Tensor = self.net.eval()((features - self.mean) / self.scale).softmax(1)
        return probabilities


@dataclass(frozen=True)
class NeighbourClassifier:
    """A classifier of texts, and labelled texts that vote for the class of a text by the words that they share.

    Attributes:
        encoder: provides the vectors.
        classifier: of `text_features`.
        texts: labelled texts, at most `MAX_VOTERS`.
        classes: the class of each.
        weight: of the logarithms of the votes.
        shares: how much of its vote each class gets, of a text of which a teacher gave probabilities; () of a text with
            a label. Texts of both kinds vote apart, and their votes are added. Empty: all have labels.
    """

    encoder: StaticEncoder
    classifier: Classifier
    texts: tuple[str, ...]
    classes: tuple[str, ...]
    weight: float
    shares: tuple[tuple[float, ...], ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The class names."""
        return self.classifier.labels

    def log_votes(self, texts: Sequence[str]) -> Float32[Tensor, "texts labels"]:
        """Return the logarithms of the votes for each class, (num_texts, num_labels); zeros for few or without texts.

        A vote grows exponentially with the similarity of the two texts. The mean over the given texts, of one
        language, is subtracted: some labelled texts are near to all others.
        """
        if len(texts) < MIN_ROWS_TO_RESCALE or not self.texts:
            return torch.zeros(len(texts), len(self.labels))
        similarities = match_all(self.encoder, texts, self.texts)
        scaled_similarities = VOTE_SHARPNESS * (similarities - similarities.mean(0))
        is_soft = torch.tensor([bool(row_shares) for row_shares in self.shares or [()] * len(self.texts)])
        votes = torch.zeros(len(texts), len(self.labels))
        if not is_soft.all():
            votes = votes + self._hard_votes(scaled_similarities[:, ~is_soft], is_soft)
        if is_soft.any():
            log_shares = (
                torch.tensor([row_shares for row_shares in self.shares if row_shares])
                .log()
                .clamp_min(LOG_NO_VOTES)
            )
            soft_votes = torch.stack(
                [(scaled_similarities[:, is_soft] + part).logsumexp(1) for part in log_shares.T], 1
            )
            votes = votes + soft_votes - soft_votes.mean(0)
        return votes

    def _hard_votes(
        self, similarities: Float32[Tensor, "texts voters"], is_soft: Bool[Tensor, " all_voters"]
    ) -> Float32[Tensor, "texts labels"]:
        class_indices = torch.tensor([self.labels.index(name) for name in self.classes])[~is_soft]
        votes = torch.full((len(similarities), len(self.labels)), LOG_NO_VOTES)
        for k in class_indices.unique().tolist():
            class_votes = similarities[:, class_indices == k].logsumexp(1)
            votes[:, k] = class_votes - class_votes.mean()
        return votes

    def probabilities(
        self, texts: Sequence[str], votes: Float32[Tensor, "texts labels"]
    ) -> Float32[Tensor, "texts labels"]:
        """Return the probability of each class for each text, (num_texts, num_labels)."""
        features = text_features(self.encoder, texts)
        return (self.classifier.probabilities(features).log() + self.weight * votes).softmax(1)


def fit_logistic(
    features: Float32[Tensor, "rows features"],
    classes: Sequence[str],
    labels: Sequence[str],
    inverse_regularisation: float,
    shares: Float32[Tensor, "rows labels"] | None = None,
) -> Classifier:
    """Fit a multinomial logistic regression by L-BFGS.

    Args:
        inverse_regularisation: weight of the rows relative to the squared weights, as C of scikit-learn.
        shares: the probability of each class of each row instead, (num_rows, num_labels).
    """
    targets = torch.tensor([labels.index(name) for name in classes]) if shares is None else shares
    net = nn.Linear(features.shape[1], len(labels))
    nn.init.zeros_(net.weight), nn.init.zeros_(net.bias)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Float32[Tensor, ""]:
        optimizer.zero_grad()
        loss = (
            inverse_regularisation * F.cross_entropy(net(features), targets, reduction="sum")
            + 0.5 * net.weight.pow(2).sum()
        )
        loss.backward()
        return loss

    optimizer.step(closure)
    zeros, ones = torch.zeros(features.shape[1]), torch.ones(features.shape[1])
    return Classifier(tuple(labels), zeros, ones, net.requires_grad_(False))


def hidden_network(num_features: int, num_labels: int) -> nn.Sequential:
    """Return a network with one hidden layer and dropout, of fresh weights."""
    first, last = nn.Linear(num_features, HIDDEN_WIDTH), nn.Linear(HIDDEN_WIDTH, num_labels)
    return nn.Sequential(nn.Dropout(0.2), first, nn.GELU(), nn.Dropout(0.4), last)


def fit_network(
    features: Float32[Tensor, "rows features"],
    classes: Sequence[str],
    labels: Sequence[str],
    epochs: int,
    seed: int,
) -> Classifier:
    """Fit a network with one hidden layer and dropout, by AdamW with a rate that falls to zero."""
    torch.manual_seed(seed)
    mean, scale = features.mean(0), features.std(0).clamp_min(1e-3)
    scaled_features = (features - mean) / scale
    targets = torch.tensor([labels.index(name) for name in classes])
    net = hidden_network(features.shape[1], len(labels))
    schedule = WarmupAdamW(net, 1e-3, 0.05, epochs * -(-len(targets) // 64))
    with Progress("fit a classifier of pairs", epochs * len(targets), "pairs") as progress:
        for epoch in range(epochs):
            order = torch.from_numpy(rng("static pairs", seed, epoch).permutation(len(targets)))
            for batch in order.split(64):
                loss = F.cross_entropy(net(scaled_features[batch]), targets[batch], label_smoothing=0.1)
                schedule.step(loss)
                progress.update(len(batch))
    return Classifier(tuple(labels), mean, scale, net.requires_grad_(False))


class WarmupAdamW:
    """AdamW whose rate rises over a tenth of the steps, at most `WARMUP_STEPS`, then falls to zero at the last."""

    def __init__(self, net: nn.Module, rate: float, decay: float, num_steps: int) -> None:
        self._optimizer = torch.optim.AdamW(net.parameters(), rate, weight_decay=decay)
        self._rate, self._num_steps, self._step = rate, num_steps, 0

    def step(self, loss: Float32[Tensor, ""]) -> None:
        """Make one step along the gradient of ``loss``."""
        warmup = max(1, min(WARMUP_STEPS, self._num_steps // 10))
        rate = self._rate * max(0.0, 1 - self._step / self._num_steps) * min(1.0, (self._step + 1) / warmup)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._step += 1


def average_models(models: Sequence[Any]) -> Any:
    """Average the weights of classifiers or taggers of one shape."""
    if isinstance(models[0], NeighbourClassifier):
        return replace(models[0], classifier=average_models([model.classifier for model in models]))
    states = [model.net.state_dict() for model in models]
    net = copy.deepcopy(models[0].net)
    net.load_state_dict({name: torch.stack([s[name] for s in states]).mean(0) for name in states[0]})
    return replace(models[0], net=net)
