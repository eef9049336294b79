"""Cross-lingual contrastive learning (InfoXLM): a sentence must find its translation among a queue of others.

Loss of a pair (x, y) with query q of x and key k of y: ``-log(e^(q.k/T) / (e^(q.k/T) + sum over the queue))``. The
key comes from a momentum encoder, the queue holds keys of earlier batches and is filled by them (it starts empty:
random vectors would be negatives that nobody has to learn). q and k are the state of ``<s>`` after ``layer``
layers, through one linear projection that both sides share, of length 1. With ``pooling`` ``mean`` or ``max`` they are
made of the states of the words instead, as retrieval makes them; masked LM alone has put nothing into ``<s>``.

Mixed positives: two pairs (c1, c2), (d1, d2) become one, (c1 d1, c2 d2) or (c1 d1, d2 c2), with probability ``mix``.

Source: Chi et al. 2021, sections 3.3 and 4.1; He et al. 2020 for queue and momentum. Decided here: vectors are
normalised as in MoCo, and two neighbours of a batch are mixed, so that a batch keeps its number of tokens.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from xling.core.errors import UserError, unknown
from xling.core.sampling import rng
from xling.data.packing import Example, pack
from xling.models.encoder import Encoder
from xling.models.seq2seq import POOLINGS, pool
from xling.objectives.base import BOS, Loss, Objective, ObjectiveDataset, objective
from xling.objectives.pairs import Pair, PairConfig, PairDataset
from xling.objectives.trial import Trial

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int

OVERHEAD = 2
CONTRAST_POOLINGS = ("cls", *filter(None, POOLINGS))


@dataclass
class XlcoConfig(PairConfig):
    """Settings of the contrast; the defaults are InfoXLM's for a base model.

    Attributes:
        layer: that is contrasted; 0 for two thirds up.
        pooling: of a sentence: ``cls``, ``mean`` or ``max``.
        temperature: by which similarities are divided.
        queue_size: negatives kept from earlier batches.
        momentum: of the slow copy of the encoder that makes them.
        mix: probability that two neighbouring pairs are joined.
    """

    layer: int = 0
    pooling: str = "cls"
    temperature: float = 0.25
    queue_size: int = 131_072
    momentum: float = 0.9999
    mix: float = 0.5


def example(pair: Pair, generator: np.random.Generator) -> Example:
    """The two sentences, without specials in front, and their languages."""
    return {"src": pair.src, "tgt": pair.tgt, "pair_langs": np.array([pair.src_lang, pair.tgt_lang])}


class ContrastDataset(PairDataset):
    """Pairs as two packed batches, ``query`` and ``key``, row by row translations of each other."""

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Mix neighbours, put ``<s>`` in front of each side and pack both sides."""
        generator = rng(self.seed, self.epoch, "mix", int(samples[0]["id"][0]))
        mixed = mix_pairs(samples, self._cfg.mix if self._split == "train" else 0.0, generator)
        query = pack([sequence(e["src"], e["src_langs"], i) for i, e in enumerate(mixed)])
        key = pack([sequence(e["tgt"], e["tgt_langs"], i) for i, e in enumerate(mixed)])
        return {
            "query": query,
            "key": key,
            "id": torch.tensor([int(e["id"][0]) for e in samples]),
            "target_langs": torch.tensor([int(e["src_langs"][0]) for e in mixed]),
            "ntokens": query["ntokens"] + key["ntokens"],
            "nsentences": len(mixed),
        }


def mix_pairs(samples: Sequence[Example], prob: float, generator: np.random.Generator) -> list[Example]:
    """Join each two neighbours with probability ``prob``; the second side's order is thrown.

    Returns:
        Examples with ``src``, ``tgt`` and the language of every token, ``src_langs``, ``tgt_langs``. Pairs of
        different languages are mixed as well: each side then holds both.
    """
    spread = []
    for example_ in samples:
        src_lang, tgt_lang = (int(lang) for lang in example_["pair_langs"])
        src, tgt = example_["src"], example_["tgt"]
        spread.append((src, np.full(len(src), src_lang), tgt, np.full(len(tgt), tgt_lang)))
    mixed, position = [], 0
    while position < len(spread):
        parts = [spread[position]]
        if position + 1 < len(spread) and generator.random() < prob:
            parts.append(spread[position + 1])
        second = parts[::-1] if generator.random() < 0.5 else parts
        position += len(parts)
        mixed.append(
            {
                "src": np.concatenate([p[0] for p in parts]),
                "src_langs": np.concatenate([p[1] for p in parts]),
                "tgt": np.concatenate([p[2] for p in second]),
                "tgt_langs": np.concatenate([p[3] for p in second]),
            }
        )
    return mixed


def sequence(tokens: Int[np.ndarray, " length"], langs: Int[np.ndarray, " length"], number: int) -> Example:
    """``<s>`` and a sentence, predicted at ``<s>``; ``number`` names it."""
    whole = np.concatenate([[BOS], tokens])
    return {
        "id": np.array([number]),
        "tokens": whole,
        "positions": np.arange(len(whole)),
        "langs": np.concatenate([langs[:1], langs]),
        "chosen": np.zeros(1, dtype=np.int64),
        "target": np.zeros(1, dtype=np.int64),
    }


def sentence_vectors(
    encoder: nn.Module, packed: dict[str, Any], layer: int, pooling: str = "cls"
) -> Float[Tensor, "batch dim"]:
    """States after ``layer`` layers, of ``<s>`` or pooled over the words, in the order of ``id``, (B, D)."""
    states = encoder(**packed["net_input"], layer=layer)
    rows = (
        states[packed["chosen"]] if pooling == "cls" else pool(states, packed["net_input"]["runs"], pooling)
    )
    return torch.empty_like(rows).index_copy(0, packed["id"], rows)


def check_contrast(cfg: Any, name: str) -> None:
    """Refuse a pooling, temperature or mix that is none (UserError)."""
    if cfg.pooling not in CONTRAST_POOLINGS:
        raise unknown("pooling", cfg.pooling, CONTRAST_POOLINGS)
    if not 0 < cfg.temperature < math.inf:
        raise UserError(f"objectives.{name}.temperature={cfg.temperature}", "a number above 0")
    if not 0 <= cfg.mix <= 1:
        raise UserError(f"objectives.{name}.mix={cfg.mix}", "a share from 0 to 1")


class ContrastState(nn.Module):
    """Projection, momentum encoder and queue.

    The momentum encoder is kept in float32 (``slow``): in bfloat16 a step of 1e-4 of a weight would round to none.
    """

    def __init__(self, encoder: Encoder, layer: int, queue_size: int, pooling: str = "cls") -> None:
        super().__init__()
        dim, dtype = encoder.cfg.dim, next(encoder.parameters()).dtype
        self.layer, self.pooling = layer, pooling
        self.projection = nn.Linear(dim, dim, bias=False)
        nn.init.normal_(self.projection.weight, std=dim**-0.5)
        self.projection.to(dtype)
        self.slow = (
            copy.deepcopy(nn.ModuleList([encoder, self.projection])).float().requires_grad_(False).eval()
        )
        self.queue: Tensor
        self.position: Tensor
        self.register_buffer("queue", torch.zeros(queue_size, dim))
        self.register_buffer("position", torch.zeros(2, dtype=torch.int64))
        self.pending: list[Tensor] = []

    def train(self, mode: bool = True) -> ContrastState:
        """As usual, but the momentum encoder never drops anything."""
        super().train(mode)
        self.slow.eval()
        return self

    def query(self, encoder: Encoder, packed: dict[str, Any]) -> Float32[Tensor, "batch dim"]:
        """Queries of a packed batch, float32 (B, D) of length 1."""
        vectors = sentence_vectors(encoder, packed, self.layer, self.pooling)
        return F.normalize(self.projection(vectors).float(), dim=-1)

    @torch.no_grad()
    def key(self, packed: dict[str, Any]) -> Float32[Tensor, "batch dim"]:
        """Keys of a packed batch from the momentum encoder, float32 (B, D) of length 1."""
        encoder, projection = self.slow
        return F.normalize(projection(sentence_vectors(encoder, packed, self.layer, self.pooling)), dim=-1)

    def negatives(self) -> Float32[Tensor, "negatives dim"]:
        """The filled part of the queue, (num, D)."""
        return self.queue[: int(self.position[1])]

    @torch.no_grad()
    def push(self, keys: Float[Tensor, "batch dim"]) -> None:
        """Put keys (B, D) over the oldest; of more keys than the queue holds, the last ones stay."""
        size = len(self.queue)
        keys = keys[-size:]
        start, filled = (int(x) for x in self.position)
        where = (torch.arange(len(keys)) + start) % size
        self.queue[where] = keys
        self.position[0], self.position[1] = (start + len(keys)) % size, min(size, filled + len(keys))

    @torch.no_grad()
    def follow(self, encoder: Encoder, momentum: float) -> None:
        """Move the momentum encoder towards the encoder."""
        live = [p.float() for p in (*encoder.parameters(), *self.projection.parameters())]
        torch._foreach_lerp_(list(self.slow.parameters()), live, 1 - momentum)


@objective("xlco")
class Xlco(Objective):
    """Contrast of translations against a queue."""

    trial = Trial(
        {"queue_size": "64", "momentum": "0.9"},
        {"momentum": "0", "mix": "0", "queue_size": "1"},
        spare=1,
        mixed_with=("mmlm", "tlm"),
    )
    config = XlcoConfig
    shardable = False

    def __init__(self, cfg: Any, dictionary: Any, langs: list[str]) -> None:
        """Raises UserError where a setting is unknown or out of range."""
        super().__init__(cfg, dictionary, langs)
        check_contrast(cfg, self.name)
        if cfg.queue_size < 1:
            raise UserError(f"objectives.xlco.queue_size={cfg.queue_size}", "a whole number from 1")
        if not 0 <= cfg.momentum <= 1:
            raise UserError(f"objectives.xlco.momentum={cfg.momentum}", "a share from 0 to 1")

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Pairs of the split."""
        return ContrastDataset(self.cfg, data, split, self.langs, "xlco", example, OVERHEAD)

    def modules(self, model: Any) -> nn.Module:
        """Projection, momentum encoder and queue (UserError: a layer that the model does not have)."""
        depth = len(model.encoder.layers)
        if not 0 <= self.cfg.layer <= depth:
            raise UserError(
                f"objectives.xlco.layer={self.cfg.layer}", f"1 to {depth}, or 0 for two thirds up"
            )
        layer = self.cfg.layer or max(1, round(depth * 2 / 3))
        return ContrastState(model.encoder, layer, self.cfg.queue_size, self.cfg.pooling)

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """InfoNCE of each pair, nats; in validation the queue is read and left alone."""
        state: ContrastState = model.extras["xlco"]
        query, key = state.query(model.encoder, sample["query"]), state.key(sample["key"])
        rows = info_nce(query, key, state.negatives(), self.cfg.temperature)
        if model.training:
            state.pending.append(key)
        return Loss(rows.sum(), len(rows), rows.detach(), sample["target_langs"])

    def after_update(self, model: Any) -> None:
        """Queue the keys of the update's batches and move the momentum encoder."""
        state: ContrastState = model.extras["xlco"]
        # Asked in every update: another process may have had keys where this one had none.
        if len(keys := of_all_processes(torch.cat([state.queue[:0], *state.pending]))):
            state.push(keys)
        state.pending.clear()
        state.follow(model.encoder, self.cfg.momentum)

    def forget_update(self, model: Any) -> None:
        """Drop the keys: those of a skipped batch may not be finite, those of a halved one come again."""
        model.extras["xlco"].pending.clear()


def of_all_processes(rows: Float[Tensor, "rows dim"]) -> Float[Tensor, "_ dim"]:
    """The rows (B, D) of every process in order of their ranks, so that all queues stay the same."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return rows
    world = dist.get_world_size()
    counts = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(world)]
    dist.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
    sizes = [int(count) for count in counts]
    padded = F.pad(rows, (0, 0, 0, max(sizes) - len(rows)))
    parts = [torch.empty_like(padded) for _ in range(world)]
    dist.all_gather(parts, padded.contiguous())
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


def info_nce(
    query: Float[Tensor, "batch dim"],
    key: Float[Tensor, "batch dim"],
    negatives: Float[Tensor, "negatives dim"],
    temperature: float,
) -> Float[Tensor, " batch"]:
    """Loss of each query against its key and the negatives.

    While the queue is empty the other keys of the batch serve, so that the first batch teaches something.

    Args:
        query: (B, D).
        key: (B, D), row i the positive of query i.
        negatives: (num, D), may be empty.
        temperature: T.

    Returns:
        (B,) nats.
    """
    positive = (query * key).sum(-1, keepdim=True)
    if len(negatives):
        others = query @ negatives.t()
    else:
        others = (query @ key.t()).masked_fill(
            torch.eye(len(query), dtype=torch.bool, device=query.device), -torch.inf
        )
    logits = torch.cat([positive, others], 1) / temperature
    return torch.logsumexp(logits, 1) - logits[:, 0]
