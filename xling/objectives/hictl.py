"""Hierarchical contrastive learning (HICTL): contrast of sentences, and of a sentence with words.

Sentence level: the pooled vectors of x and of its translation y must identify each other among the other
sentences of the batch, in both directions. The unchanged negatives r are joined by harder ones, moved towards
the query q: ``q + lambda (r - q)`` with ``lambda = (d+ / d-) ^ zeta`` if a negative is farther than the
positive (d- > d+). Here d are distances, and ``zeta`` is .9 times the mean over the last 100 batches of e^-loss, the
probability of the right choice. As the model gets better, the negatives get harder. Batches before the first one
count as 0.

Word level: the vector of the pair, the mean of both, must prefer the words of the two sentences to words
drawn from the vocabulary by frequency in the batch's other sentences.

Source: Wei et al. 2021, sections 3.1 and 3.2. Our choices where the paper gives no detail: both losses have
weight 1; similarities are cosines at ``temperature``; word vectors are the input embeddings through their own
projection; the batches are those of all processes. No code is public, so nothing here has been compared with it,
including the factor .9.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Float, Int
from xling.objectives.base import FIRST_PIECE, STAND_IN, Loss, Objective, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.xlco import (
    OVERHEAD,
    ContrastDataset,
    example,
    no_negatives,
    of_all_processes,
    sentence_vectors,
)

SLACK, RECENT = 0.9, 100


class WordDataset(ContrastDataset):
    """Dataset of pairs with the pieces of both sides, ``words``, and the pair of each, ``owners``.

    They are found here, since a GPU would have to be waited for to know their number.
    """

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Pack both sides and find their pieces."""
        sample = super().collater(samples)
        sample["words"], sample["owners"] = words_of(sample)
        return sample


class Projections(nn.Module):
    """Linear projections of sentence and word vectors, and the probabilities of the last batches, oldest first."""

    recent: Float[Tensor, " batches"]

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.sentence = nn.Linear(dim, dim)
        self.word = nn.Linear(dim, dim)
        for layer in (self.sentence, self.word):
            nn.init.normal_(layer.weight, std=dim**-0.5)
            nn.init.zeros_(layer.bias)
        self.register_buffer("recent", torch.zeros(RECENT))
        self.pending: list[tuple[int, Tensor]] = []  # index of the batch in the update, and its probability


def harden(
    query: Float[Tensor, "batch dim"],
    positive: Float[Tensor, "batch dim"],
    negatives: Float[Tensor, "negatives dim"],
    zeta: float | Float[Tensor, ""],
) -> Float[Tensor, "batch negatives dim"]:
    """Move negatives towards each query.

    Args:
        zeta: 0 leaves them unchanged, 1 moves them as far away as the positive.

    Returns:
        (B, num, D); a negative that is nearer than the positive is unchanged.
    """
    near = (query - positive).norm(dim=-1).unsqueeze(1)
    far = torch.cdist(query, negatives)
    ratio = torch.where(far > near, (near / far.clamp_min(1e-6)).pow(zeta), torch.ones_like(far))
    return query[:, None] + ratio[..., None] * (negatives[None] - query[:, None])


def sentence_rows(
    query: Float[Tensor, "batch dim"],
    key: Float[Tensor, "batch dim"],
    temperature: float,
    zeta: float | Float[Tensor, ""],
    same: Int[Tensor, "rows 2"] | None = None,
) -> Float[Tensor, " batch"]:
    """Return the loss (B,) of identifying ``key`` (B, D) of each ``query`` (B, D) in the batch, with hard negatives.

    ``zeta`` as for `harden`, ``same`` as for `xling.objectives.xlco.margin_rows`.
    """
    itself = torch.eye(len(query), dtype=torch.bool, device=query.device)
    plain = (query @ key.t()) / temperature
    with torch.no_grad():
        hard = F.normalize(harden(query, key, key, zeta), dim=-1)
    hardened = torch.einsum("bd,bnd->bn", query, hard) / temperature
    diagonal = plain.diagonal()
    if same is not None:
        plain, hardened = no_negatives(plain, same), no_negatives(hardened, same)
    logits = torch.cat([plain, hardened.masked_fill(itself, -torch.inf)], 1)
    return torch.logsumexp(logits, 1) - diagonal


@objective("hictl")
class Hictl(Objective):
    """The HICTL objective: contrast of sentences and of words."""

    trial = Trial({"num_words": "16"}, spare=1, changes=("context", "both sides"))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of pairs of a split."""
        return WordDataset(self.cfg, data, split, self.langs, "hictl", example, OVERHEAD)

    def modules(self, model: Any) -> nn.Module:
        """Create the projections of sentences and words that the contrast compares."""
        return Projections(model.cfg.dim).to(model.lm_head.bias.dtype)

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the sentence loss in both directions, halved, plus the word loss, for each pair, nats."""
        heads: Projections = model.extras["hictl"]
        depth = len(model.encoder.layers)
        src, tgt = (
            sentence_vectors(model.encoder, sample[side], depth, self.cfg.pooling)
            for side in ("query", "key")
        )
        x, y = (F.normalize(heads.sentence(side).float(), dim=-1) for side in (src, tgt))
        heat = self.cfg.temperature
        zeta = SLACK * heads.recent.float().mean()
        same = sample["same_text"]
        sentences = (sentence_rows(x, y, heat, zeta, same) + sentence_rows(y, x, heat, zeta, same)) / 2
        if model.training and self.batch_index != STAND_IN:
            heads.pending.append((self.batch_index, torch.exp(-sentences.detach().mean())))
        rows = sentences + self._word_rows(model, heads, F.normalize(x + y, dim=-1), sample)
        return Loss(rows.sum(), len(rows), rows.detach(), sample["target_langs"])

    def after_update(self, model: Any) -> None:
        """Note the probabilities of the update's batches in all processes, in the order of the batches."""
        heads: Projections = model.extras["hictl"]
        placed = [
            torch.stack([probability.new_tensor(index), probability]) for index, probability in heads.pending
        ]
        rows = of_all_processes(torch.stack(placed) if placed else heads.recent.new_zeros(0, 2).float())
        ordered = rows[rows[:, 0].argsort(stable=True), 1]
        heads.recent.copy_(torch.cat([heads.recent, ordered])[-RECENT:])
        heads.pending.clear()

    def forget_update(self, model: Any) -> None:
        """Drop the probabilities of a batch that was skipped or is computed again in halves."""
        model.extras["hictl"].pending.clear()

    def _word_rows(self, model: Any, heads: Projections, pair: Tensor, sample: dict[str, Any]) -> Tensor:
        """Return the loss (B,) of each pair's own words against words of the other pairs."""
        words, owners = sample["words"], sample["owners"]
        drawn = torch.randint(len(words), (self.cfg.num_words,), device=words.device)
        own = F.normalize(heads.word(model.encoder.tokens(words)).float(), dim=-1)
        scores = (pair @ own.t()) / self.cfg.temperature
        present = torch.zeros(
            len(pair), model.encoder.tokens.num_embeddings, dtype=torch.bool, device=words.device
        )
        present[owners, words] = True
        negative = scores[:, drawn].masked_fill(present[:, words[drawn]], -torch.inf)
        base = torch.logsumexp(negative, 1)
        positive = scores[owners, torch.arange(len(words), device=words.device)]
        losses = torch.logaddexp(positive, base[owners]) - positive
        counts = torch.zeros(len(pair), device=words.device).index_add(0, owners, torch.ones_like(losses))
        return torch.zeros(len(pair), device=words.device).index_add(0, owners, losses) / counts.clamp_min(1)


def words_of(sample: dict[str, Any]) -> tuple[Int[Tensor, " words"], Int[Tensor, " words"]]:
    """Return the pieces of both sides of every pair, without specials, and the pair of each, (W,) and (W,)."""
    words, owners = [], []
    for side in ("query", "key"):
        inputs = sample[side]["net_input"]
        lengths = torch.tensor([length for count, length in inputs["runs"] for _ in range(count)])
        owner = torch.repeat_interleave(sample[side]["id"], lengths)
        real = inputs["src_tokens"] >= FIRST_PIECE
        words.append(inputs["src_tokens"][real])
        owners.append(owner[real])
    return torch.cat(words), torch.cat(owners)
