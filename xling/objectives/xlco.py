"""Cross-lingual contrastive learning (InfoXLM): a sentence must identify its translation among others.

Loss of a pair (x, y) with query q of x and key k of y: ``-log(e^(q.k/T) / (e^(q.k/T) + sum over the
queue))``. The key comes from a momentum encoder; the queue holds keys of earlier batches. q and k are the
state of ``<s>`` after ``layer`` layers through one linear projection that both sides share. With ``pooling``
``mean`` or ``max`` they are computed from the states of the words instead, as in retrieval: masked LM alone
does not train the state of ``<s>``.

Three variants, by ``negatives`` and ``normalise``:

- ``negatives=queue``, the default, equals InfoXLM's code: raw dot products at T = .25. Unit vectors at that
  temperature cannot work: with 131,072 orthogonal negatives a perfect model has a loss of 7.8 nats.
- ``negatives=queue normalise=true``: unit vectors, as in MoCo, at T = .05.
- ``negatives=batch``: as LaBSE. Both sides come from the encoder itself without a projection, have length 1,
  and must identify each other among the sentences of the batch in both directions. The similarity of the
  correct pair is reduced by ``margin``. Pairs that share a sentence are not each other's negatives.

Mixed positives: two pairs (c1, c2), (d1, d2) become one with probability ``mix``; the sentences of each side
are joined in random order. The tokens that the encoders read are masked as in masked LM, with ``mask_prob``:
InfoXLM's code does this, but its paper does not mention it.

Source: Chi et al. 2021, sections 3.3 and 4.1, and its code (microsoft/unilm); He et al. 2020 for queue and
momentum; Yang et al. 2019 and Feng et al. 2022 for the margin. `docs/fidelity.md` lists the differences from
the code.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from fairseq import utils
from torch import Tensor, nn

from xling.array_types import Float, Float32, Int
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.data.masking import MaskRule, choose, corrupt
from xling.data.packing import Example, pack
from xling.models.distributed import processes
from xling.models.network.encoder import Encoder
from xling.models.network.seq2seq import pool
from xling.objectives.base import BOS, STAND_IN, Loss, Objective, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.mmlm import rule_of
from xling.objectives.pairs import Pair, PairDataset
from xling.objectives.settings import XlcoConfig

OVERHEAD = 2
RAW, UNIT = 0.25, 0.05  # default temperatures of raw dot products and of cosines
PROJECTION_STD = 0.02
DEEP = 24  # number of layers from which InfoXLM contrasts the middle layer


def example(pair: Pair, generator: np.random.Generator) -> Example:
    """Return the two sentences, without initial specials, and their languages."""
    return {
        "src": pair.src,
        "tgt": pair.tgt,
        "pair_langs": np.array([pair.src_lang, pair.tgt_lang]),
        "texts": text_hashes(pair),
    }


def text_hashes(pair: Pair) -> Int[np.ndarray, "2"]:
    """Return a number for each of the two sentences, equal for equal ones."""
    return np.array([zlib.crc32(side.tobytes()) for side in (pair.src, pair.tgt)])


def masked(pair: Pair, rule: MaskRule, generator: np.random.Generator) -> Pair:
    """Mask both sides of a pair by ``rule``; return the pair unchanged if that masks nothing."""
    if not rule.prob:
        return pair
    src, tgt = (
        corrupt(side, choose(side, rule, generator), rule, generator) for side in (pair.src, pair.tgt)
    )
    return Pair(src, tgt, pair.src_lang, pair.tgt_lang)


class ContrastDataset(PairDataset):
    """Dataset of pairs as two packed batches, ``query`` and ``key``, whose rows are translations of each other."""

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Mix neighbouring pairs, put ``<s>`` in front of each side and pack both sides."""
        generator = rng(self.seed, self.epoch, "mix", int(samples[0]["id"][0]))
        mixed = mix_pairs(samples, self._cfg.mix if self._split == "train" else 0.0, generator)
        query = pack([sequence(e["src"], e["src_langs"], i) for i, e in enumerate(mixed)])
        key = pack([sequence(e["tgt"], e["tgt_langs"], i) for i, e in enumerate(mixed)])
        return {
            "query": query,
            "key": key,
            "id": torch.tensor([int(e["id"][0]) for e in samples]),
            "target_langs": torch.tensor([int(e["src_langs"][0]) for e in mixed]),
            "same_text": same_text([e["texts"] for e in mixed]),
            "ntokens": query["ntokens"] + key["ntokens"],
            "nsentences": len(mixed),
        }


def mix_pairs(samples: Sequence[Example], prob: float, generator: np.random.Generator) -> list[Example]:
    """Join neighbouring pairs with probability ``prob``, the sentences of each side in random order.

    Returns:
        Examples with ``src``, ``tgt`` and the language of every token, ``src_langs``, ``tgt_langs``. If two
        pairs have the same languages, the second is swapped so that a side has one language. Pairs of
        different languages are mixed too: each side then holds both.
    """
    mixed, position = [], 0
    while position < len(samples):
        parts = [samples[position]]
        if position + 1 < len(samples) and generator.random() < prob:
            other = samples[position + 1]
            turned = other["pair_langs"][::-1]
            if np.array_equal(parts[0]["pair_langs"], turned):
                other = other | {"src": other["tgt"], "tgt": other["src"], "pair_langs": turned}
            parts.append(other)
        position += len(parts)
        built = {}
        for number, side in enumerate(("src", "tgt")):
            order = parts[::-1] if generator.random() < 0.5 else parts
            built[side] = np.concatenate([part[side] for part in order])
            langs = [part["pair_langs"][number] for part in order]
            built[f"{side}_langs"] = np.repeat(langs, [len(part[side]) for part in order])
        built["texts"] = np.concatenate([part["texts"] for part in parts])
        mixed.append(built)
    return mixed


def same_text(texts: Sequence[Int[np.ndarray, " _"]]) -> Int[Tensor, "rows 2"]:
    """Return the other rows that share a sentence with a row, as pairs of rows: their sentences are no negatives.

    In text of several languages, an English sentence stands beside each of its translations.
    """
    rows_of: dict[int, list[int]] = {}
    for row, hashes in enumerate(texts):
        for text in dict.fromkeys(hashes.tolist()):
            rows_of.setdefault(text, []).append(row)
    pairs = {pair for rows in rows_of.values() for pair in permutations(rows, 2)}
    return torch.tensor(sorted(pairs), dtype=torch.int64).reshape(-1, 2)


def sequence(tokens: Int[np.ndarray, " length"], langs: Int[np.ndarray, " length"], number: int) -> Example:
    """Build a sequence of ``<s>`` and a sentence, predicted at ``<s>``; ``number`` identifies it."""
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
    """Return the states after ``layer`` layers, of ``<s>`` or pooled over the words, in the order of ``id``, (B, D)."""
    return pooled(encoder(**packed["net_input"], layer=layer), packed, pooling)


def pooled(
    states: Float[Tensor, "tokens dim"], packed: dict[str, Any], pooling: str
) -> Float[Tensor, "batch dim"]:
    """Return states of ``<s>``, or pooled over the words, in the order of ``id``, (B, D)."""
    cls = pooling == "cls"
    rows = states[packed["chosen"]] if cls else pool(states, packed["net_input"]["runs"], pooling)
    return torch.empty_like(rows).index_copy(0, packed["id"], rows)


def _follow_loaded(state: nn.Module, _: Any) -> None:
    """Take the place in the queue and the working copy of the momentum encoder from a state that was loaded."""
    assert isinstance(state, ContrastState)
    state.place = state.position.tolist()
    state.forget_copy()


class ContrastState(nn.Module):
    """Projection, momentum encoder and queue.

    The momentum encoder is kept in float32 (``slow``): in bfloat16 a step of 1e-4 of a weight would be
    rounded to zero. Keys are computed in the precision of the model: by a rounded copy, which is not saved, or, if the
    model is sharded, by weights that are rounded when they are gathered.

    Args:
        encoder: the model's encoder, which is copied.
        layer: number of layers that a vector passes through.
        cfg: an `XlcoConfig`: ``queue_size``, ``pooling``, ``normalise``.
    """

    def __init__(self, encoder: Encoder, layer: int, cfg: XlcoConfig) -> None:
        super().__init__()
        dim, dtype = encoder.cfg.dim, next(encoder.parameters()).dtype
        self.layer, self.pooling, self.normalise = layer, cfg.pooling, cfg.normalise
        self.projection = nn.Linear(dim, dim, bias=False)
        nn.init.normal_(self.projection.weight, std=PROJECTION_STD)
        self.projection.to(dtype)
        self.slow = (
            copy.deepcopy(nn.ModuleList([encoder, self.projection])).float().requires_grad_(False).eval()
        )
        self.dtype = dtype
        self.__dict__["_copy"] = None  # not a module of this one: it is not saved
        self.queue: Tensor
        self.position: Tensor
        self.register_buffer("queue", torch.zeros(cfg.queue_size, dim))
        self.register_buffer("position", torch.zeros(2, dtype=torch.int64))
        self.place = [0, 0]  # `position`, which would have to be waited for on a GPU
        self.register_load_state_dict_post_hook(_follow_loaded)
        self.pending: list[tuple[int, Tensor]] = []  # index of the batch in the update, and its keys

    def train(self, mode: bool = True) -> ContrastState:
        """Set the training mode, but keep dropout off in the momentum encoder."""
        super().train(mode)
        self.slow.eval()
        return self

    def query(self, encoder: Encoder, packed: dict[str, Any]) -> Float32[Tensor, "batch dim"]:
        """Compute the queries of a packed batch, float32 (B, D), of length 1 with ``normalise``."""
        return self._projected(encoder, self.projection, packed)

    @torch.no_grad()
    def key(self, packed: dict[str, Any]) -> Float32[Tensor, "batch dim"]:
        """Compute a packed batch's keys (momentum encoder), float32 (B, D), of length 1 with ``normalise``."""
        encoder, projection = self.working()
        return self._projected(encoder, projection, packed)

    def working(self) -> nn.ModuleList:
        """Return the momentum encoder and its projection in the precision of the model."""
        kept = next(self.slow.parameters())
        if self.dtype == kept.dtype or processes.is_part(kept):
            return self.slow
        copied = self.__dict__["_copy"]
        if copied is None or next(copied.parameters()).device != kept.device:
            copied = self.__dict__["_copy"] = copy.deepcopy(self.slow).to(self.dtype)
        assert isinstance(copied, nn.ModuleList)
        return copied

    def forget_copy(self) -> None:
        """Discard the copy of the momentum encoder, after its float32 weights were replaced."""
        self.__dict__["_copy"] = None

    def _projected(self, encoder: nn.Module, projection: nn.Module, packed: dict[str, Any]) -> Tensor:
        vectors = projection(sentence_vectors(encoder, packed, self.layer, self.pooling)).float()
        return F.normalize(vectors, dim=-1) if self.normalise else vectors

    def negatives(self) -> Float32[Tensor, "negatives dim"]:
        """Return the filled part of the queue, (num, D)."""
        return self.queue[: self.place[1]]

    @torch.no_grad()
    def push(self, keys: Float[Tensor, "batch dim"]) -> None:
        """Replace the oldest keys by ``keys`` (B, D).

        If there are more keys than the queue holds, the last ones are kept.
        """
        size = len(self.queue)
        keys = keys[-size:]
        start, filled = self.place
        where = (torch.arange(len(keys), device=keys.device) + start) % size
        self.queue[where] = keys
        self.place = [(start + len(keys)) % size, min(size, filled + len(keys))]
        self.position.copy_(torch.tensor(self.place), non_blocking=True)

    def fill(self, batches: Iterable[dict[str, Any]]) -> None:
        """Fill the queue with the keys of batches of all processes in turn, until it is full or the batches end."""
        size, device = len(self.queue), self.queue.device
        with Progress("filling the queue of xlco", size, "keys") as progress:
            for sample in batches:
                if (before := self.place[1]) == size:
                    return
                packed = utils.move_to_cuda(sample, device) if device.type == "cuda" else sample
                self.push(of_all_processes(self.key(packed["key"])))
                progress.update(self.place[1] - before)

    @torch.no_grad()
    def follow(self, encoder: Encoder, momentum: float) -> None:
        """Move the momentum encoder towards the encoder."""
        live = [processes.local(p).float() for p in (*encoder.parameters(), *self.projection.parameters())]
        masters = [processes.local(p) for p in self.slow.parameters()]
        torch._foreach_lerp_(masters, live, 1 - momentum)
        if (working := self.working()) is not self.slow:
            torch._foreach_copy_(list(working.parameters()), masters)


@objective("xlco")
class Xlco(Objective):
    """The XLCO objective: contrast translations with a queue of negatives."""

    trial = Trial(
        {"queue_size": "64", "momentum": "0.9"},
        {"momentum": "0", "mix": "0", "queue_size": "1"},
        spare=1,
        changes=("context", "both sides", "queue"),
        ignores=(),
        mixed_with=("mmlm", "tlm"),
    )

    def __init__(self, cfg: Any, dictionary: Any, langs: list[str]) -> None:
        """Initialise; raises UserError if a setting is unknown or out of range."""
        super().__init__(cfg, dictionary, langs)
        self.in_batch = cfg.negatives == "batch"
        self.heat = cfg.temperature or (UNIT if cfg.normalise or self.in_batch else RAW)

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of pairs of a split."""
        rule = rule_of(self.cfg, self.dictionary)

        def build(pair: Pair, generator: np.random.Generator) -> Example:
            return example(masked(pair, rule, generator), generator) | {"texts": text_hashes(pair)}

        return ContrastDataset(self.cfg, data, split, self.langs, "xlco", build, OVERHEAD)

    def layer(self, depth: int) -> int:
        """Return the layer to contrast in an encoder of ``depth``."""
        usual = depth if self.in_batch else depth // 2 if depth >= DEEP else round(depth * 2 / 3)
        return self.cfg.layer or max(1, usual)

    def modules(self, model: Any) -> nn.Module | None:
        """Create projection, momentum encoder and queue; None with ``negatives=batch``."""
        layer = self.layer(len(model.encoder.layers))
        return None if self.in_batch else ContrastState(model.encoder, layer, self.cfg)

    def units(self, model: Any) -> list[nn.Module]:
        """Return the layers of the momentum encoder, itself and its projection."""
        if self.in_batch:
            return []
        encoder, projection = model.extras["xlco"].slow
        return [*encoder.layers, encoder, projection]

    def before_first_update(self, model: Any, batch_tokens: int) -> None:
        """Fill the queue with keys of at most one window of an epoch of pairs.

        Each process computes those of its share of batches.
        """
        if self.in_batch or not self.cfg.fill:
            return
        dataset = self.dataset(Path(self.cfg.data), "train")
        dataset.set_epoch(0)
        _, batches = next(iter(dataset.windows(batch_tokens)))
        rounds = range(0, len(batches) - len(batches) % processes.size() or len(batches), processes.size())
        mine = (batches[(start + processes.rank()) % len(batches)] for start in rounds)
        state: ContrastState = model.extras["xlco"]
        state.fill(dataset.collater([dataset[int(i)] for i in batch]) for batch in mine)

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the contrastive loss of each pair, nats; validation reads the queue without changing it."""
        if self.in_batch:
            layer = self.layer(len(model.encoder.layers))
            sides = (
                sentence_vectors(model.encoder, sample[s], layer, self.cfg.pooling) for s in ("query", "key")
            )
            x, y = (F.normalize(side.float(), dim=-1) for side in sides)
            rows = margin_rows(x, y, self.cfg.margin, self.heat, sample["same_text"])
        else:
            state: ContrastState = model.extras["xlco"]
            query, key = state.query(model.encoder, sample["query"]), state.key(sample["key"])
            rows = info_nce(query, key, state.negatives(), self.heat)
            if model.training and self.batch_index != STAND_IN:
                state.pending.append((self.batch_index, key))
        return Loss(rows.sum(), len(rows), rows.detach(), sample["target_langs"])

    def after_update(self, model: Any) -> None:
        """Queue the keys of the update's batches and move the momentum encoder."""
        if self.in_batch:
            return
        state: ContrastState = model.extras["xlco"]
        # All processes gather in every update: another process may have keys even if this one has none. They are
        # queued in the order of the batches, whichever process had them.
        placed = [F.pad(keys, (1, 0), value=index) for index, keys in state.pending]
        rows = of_all_processes(torch.cat([F.pad(state.queue[:0], (1, 0)), *placed]))
        if len(rows):
            state.push(rows[rows[:, 0].argsort(stable=True), 1:])
        state.pending.clear()
        state.follow(model.encoder, self.cfg.momentum)

    def forget_update(self, model: Any) -> None:
        """Drop the keys: those of a skipped batch may be infinite, those of a split one are computed again."""
        if not self.in_batch:
            model.extras["xlco"].pending.clear()


def of_all_processes(rows: Float[Tensor, "rows dim"]) -> Float[Tensor, "_ dim"]:
    """Gather the rows (B, D) of every process in order of rank, so that all queues stay identical."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return rows
    world = dist.get_world_size()
    counts = [
        torch.zeros(1, dtype=torch.int64) for _ in range(world)
    ]  # on the CPU: a GPU would be waited for
    dist.all_gather(counts, torch.tensor([len(rows)]), processes.cpu_group("counts"))
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
    """Return the loss of each query against its key and the negatives.

    While the queue is empty, the other keys of the batch are used, so that the first batch has a training
    signal.

    Args:
        negatives: (num, D), may be empty.

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


def margin_rows(
    x: Float[Tensor, "batch dim"],
    y: Float[Tensor, "batch dim"],
    margin: float,
    temperature: float,
    same: Int[Tensor, "rows 2"] | None = None,
) -> Float[Tensor, " batch"]:
    """Return the loss of each pair: x must identify its y among all y of the batch, and y its x among all x.

    Args:
        margin: subtracted from the similarity of the correct pairs.
        same: rows of ``x`` and of ``y`` that are not compared, since they share a sentence.

    Returns:
        (B,) nats, the sum of both directions.
    """
    scores = (x @ y.t() - margin * torch.eye(len(x), dtype=x.dtype, device=x.device)) / temperature
    if same is not None:
        scores = no_negatives(scores, same)
    return torch.logsumexp(scores, 1) + torch.logsumexp(scores, 0) - 2 * scores.diagonal()


def no_negatives(
    scores: Float[Tensor, "batch others"], same: Int[Tensor, "rows 2"]
) -> Float[Tensor, "batch others"]:
    """Return the logits with -inf for the pairs of rows in ``same``, which share a sentence."""
    return scores.index_put((same[:, 0], same[:, 1]), scores.new_tensor(-torch.inf))
