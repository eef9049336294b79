"""Head of a text with one class on fixed sentence vectors: logistic regression, and votes of labelled texts nearby.

No weight of the encoder learns. With some hundreds of labelled rows it carries labels further into other languages than
fine-tuning, which bends the states to these rows; see `docs/results.d/evening.md`. The static encoder has the same head
over its own vectors, `xling.static.heads.NeighbourClassifier`.

A sentence vector is the mean of the states of a text, of length 1. From it the mean of the rows that are answered
together is subtracted, which mostly reflects their language; so these rows are of one language, best all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Float, Float32
from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.models.network.attention import SequenceRuns
from xling.static.heads import LOG_NO_VOTES, MAX_VOTERS, MIN_ROWS_TO_RESCALE, fit_logistic
from xling.transfer.encode import LabelledRow, has_probabilities, target_shares

NEIGHBOURS = "neighbours"
INVERSE_REGULARISATION, VOTE_WEIGHT, VOTE_SHARPNESS = 0.5, 0.3, 25.0
"""Chosen on the development rows of SIB-200 in 39 languages (`docs/results.d/evening.md`)."""


class NeighbourHead(nn.Linear):
    """Logistic regression on centred sentence vectors, and the labelled texts that vote.

    A vote grows exponentially with the cosine of the two texts. The mean over the texts that are answered together is
    subtracted from it: some labelled texts are near to all others. Fewer than `MIN_ROWS_TO_RESCALE` texts get no
    votes, and the mean of the labelled texts is subtracted from their vectors.
    """

    mean: Float32[Tensor, " dim"]
    voters: Float32[Tensor, "voters dim"]
    shares: Float32[Tensor, "voters labels"]

    def __init__(self, dim: int, num_labels: int) -> None:
        super().__init__(dim, num_labels)
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("voters", torch.zeros(0, dim))
        self.register_buffer("shares", torch.zeros(0, num_labels))
        self.register_load_state_dict_pre_hook(_make_room)

    def fit(
        self,
        vectors: Float32[np.ndarray, "rows dim"],
        shares: Float32[np.ndarray, "rows labels"],
        is_from_teacher: Sequence[bool],
        seed: int,
    ) -> None:
        """Fit the regression, and choose at most `MAX_VOTERS` voters.

        Args:
            vectors: of the labelled rows.
            shares: probability of each class; 1 for a label.
            is_from_teacher: rows with a teacher's probabilities, which are of another language than the others.
            seed: of the choice.
        """
        unit, targets = F.normalize(torch.from_numpy(vectors), dim=1), torch.from_numpy(shares)
        by_teacher = torch.tensor(is_from_teacher)
        centred = unit.clone()
        for group in (by_teacher, ~by_teacher):
            centred[group] -= unit[group].mean(0)
        names = [str(k) for k in range(targets.shape[1])]
        fitted = fit_logistic(centred, (), names, INVERSE_REGULARISATION, targets).net
        self.float().load_state_dict(fitted.state_dict(), strict=False)
        chosen = sorted(rng("neighbours", seed).permutation(len(centred))[:MAX_VOTERS].tolist())
        self.mean = unit[~by_teacher if not by_teacher.all() else by_teacher].mean(0)
        self.voters, self.shares = F.normalize(centred[chosen], dim=1), targets[chosen]

    def answer(self, vectors: Float32[np.ndarray, "rows dim"]) -> Float32[np.ndarray, "rows labels"]:
        """Return the score of each class for sentence vectors of one language."""
        unit = F.normalize(torch.from_numpy(vectors), dim=1)
        if len(unit) < MIN_ROWS_TO_RESCALE:
            return np.asarray(self(unit - self.mean).numpy())
        centred = unit - unit.mean(0)
        similarities = F.normalize(centred, dim=1) @ self.voters.T
        scaled = VOTE_SHARPNESS * (similarities - similarities.mean(0))
        log_shares = self.shares.log().clamp_min(LOG_NO_VOTES)
        votes = torch.stack([(scaled + part).logsumexp(1) for part in log_shares.T], 1)
        return np.asarray((self(centred) + VOTE_WEIGHT * (votes - votes.mean(0))).numpy())


def _make_room(head: NeighbourHead, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Make room for the voters of a file before it is read."""
    for name in ("voters", "shares"):
        if (saved := state.get(f"{prefix}{name}")) is not None:
            setattr(head, name, torch.zeros_like(saved))


def fit(models: Sequence[Any], rows: Sequence[Sequence[LabelledRow]], seed: int) -> bool:
    """Fit the head of the only model, a `xling.transfer.tune.TunedModel`, if it is such a head; return whether it is.

    Raises:
        UserError: there are several, over an encoder that cannot learn for the others.
    """
    if not any(tuned.model.features == NEIGHBOURS for tuned in models):
        return False
    if len(models) > 1:
        raise UserError(
            f"fit.text_features={NEIGHBOURS} with a head for each of {len(models)} suites",
            "one suite: the encoder stays as it is",
            "fine-tune on each alone, or give other text features",
        )
    ((tuned, labelled),) = zip(models, rows, strict=True)
    if not labelled:
        raise UserError("no training rows", fix="check the training split")
    vectors = np.concatenate(tuned.outputs([window for _, window in tuned.encode(labelled)]))
    shares = np.stack([target_shares(row, tuned.labels) for row in labelled])
    tuned.model.classifier.fit(vectors, shares, [has_probabilities(row) for row in labelled], seed)
    tuned.model.requires_grad_(False).eval()
    return True


def mean_states(hidden: Float[Tensor, "tokens dim"], runs: SequenceRuns) -> Float[Tensor, " batch dim"]:
    """Return the mean state of each sequence, without its specials unless there is nothing else, (B, D)."""
    features, start = [], 0
    for count, length in runs:
        block = hidden[start : start + count * length].view(count, length, -1)
        start += count * length
        features.append((block[:, 1:-1] if length > 2 else block).mean(1))
    return torch.cat(features)
