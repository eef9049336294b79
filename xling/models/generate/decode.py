"""Generation: beam search, greedy search and sampling with a cache of keys and values, batched by length.

Scores and stopping are those of fairseq's SequenceGenerator. The score of a hypothesis is the sum of its
log-probabilities divided by length^penalty, counting ``</s>``, and the language where it follows ``</s>`` as a forced
token; transformers counts it too. A sentence is done when ``beam`` hypotheses
have ended among the best ``beam`` candidates.

The implementation differs. The source's keys and values are stored once per sentence, and all hypotheses of a
sentence attend to them together. The cache is never reordered: every hypothesis has a mask of its ancestors,
and entries without descendants are dropped from time to time. The best of many pieces are searched only in
the few blocks with the largest maxima.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from xling.array_types import Bool, Float, Int
from xling.data.packing import Example, pack, sequence
from xling.data.symbols import Symbols
from xling.models.generate.settings import Search
from xling.models.network.attention import SequenceRuns
from xling.models.network.blocks import sequence_lengths
from xling.models.network.packed_products import packed_linear, packed_linear_layers
from xling.models.network.seq2seq import DecoderLayer, Seq2SeqModel

BOS, PAD, EOS, UNK = 0, 1, 2, 3
CACHE_CHUNK_STEPS = 16  # number of steps by which a cache grows
MIN_DONE_SHARE = 0.1  # share of finished sentences at which they are removed from the batch
PIECES_PER_BLOCK = 64  # number of pieces whose maximum is taken together
MAX_FILLED_RUNS = 8  # number of runs of barred ids up to which they are filled one by one


class Hypothesis(NamedTuple):
    """One output: its tokens without language token and ``</s>``, int64 (length,), and its score in nats."""

    tokens: Int[np.ndarray, " length"]
    score: float


def allowed_tokens(symbols: Symbols, pieces: Bool[Tensor, " vocab"] | None = None) -> Bool[Tensor, " vocab"]:
    """Return the ids allowed in an output, bool (V,): the pieces (or those of a mask (V,)) and ``</s>``.

    Never ``<s>``, ``<pad>``, ``<unk>``, ``<mask>``, a language token or a sentinel.
    """
    allowed = torch.zeros(symbols.size, dtype=torch.bool)
    allowed[UNK + 1 : symbols.mask] = True
    if pieces is not None:
        allowed &= pieces.cpu()
        assert allowed.any(), "no piece is allowed"
    allowed[EOS] = True
    return allowed


@contextmanager
def evaluation_mode(model: Seq2SeqModel) -> Iterator[None]:
    """Disable dropout and gradients and pack weights inside the block; restore the model's mode afterwards."""
    was_training = model.training
    model.eval()
    try:
        with packed_linear_layers(model):
            yield
    finally:
        model.train(was_training)


def generate(
    model: Seq2SeqModel,
    net_input: dict[str, Any],
    tgt_langs: Int[Tensor, " batch"],
    symbols: Symbols,
    search: Search,
    pieces: Bool[Tensor, " vocab"] | None = None,
) -> list[list[Hypothesis]]:
    """Generate outputs for a packed batch of sources, best first, in the order of the batch.

    Args:
        model: the model; its state, including training mode, is restored.
        pieces: bool (V,), to allow only these pieces, for example those of one language.

    Returns:
        For each source ``search.beam`` hypotheses or fewer, at least one.
    """
    with evaluation_mode(model):
        inputs = {key: value for key, value in net_input.items() if key != "decoder"}
        states = model.encoder(**inputs)
        return _BeamSearch(model, states, inputs["runs"], tgt_langs, symbols, search, pieces).run()


def generate_all(
    model: Seq2SeqModel,
    sources: Sequence[Int[np.ndarray, " _"]],
    src_langs: Sequence[int],
    tgt_langs: Sequence[int],
    symbols: Symbols,
    search: Search,
    batch_tokens: int = 2048,
    pieces: Bool[Tensor, " vocab"] | None = None,
    on_batch: Callable[[int, int], None] | None = None,
) -> list[list[Hypothesis]]:
    """Generate outputs for any number of sources in their order, batched by length.

    Args:
        sources: pieces of each source without specials, (length,); empty ones give one empty hypothesis.
        on_batch: callback after every batch with its number of sources and of generated tokens.
    """
    device = model.encoder.tokens.weight.device
    results: list[list[Hypothesis]] = [[Hypothesis(np.zeros(0, dtype=np.int64), 0.0)] for _ in sources]
    order = sorted((i for i in range(len(sources)) if len(sources[i])), key=lambda i: -len(sources[i]))
    start = 0
    while start < len(order):
        count = max(1, batch_tokens // (len(sources[order[start]]) + 2))
        batch = order[start : start + count]
        sample = pack([source_example(sources[i], src_langs[i], i, symbols) for i in batch])
        inputs = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in sample["net_input"].items()}
        numbers = sample["id"].tolist()
        langs = torch.tensor([tgt_langs[i] for i in numbers], device=device)
        # Use another seed for every batch; otherwise all would draw the same noise.
        outputs = generate(model, inputs, langs, symbols, replace(search, seed=search.seed + start), pieces)
        for number, hypotheses in zip(numbers, outputs, strict=True):
            results[number] = hypotheses
        if on_batch:
            on_batch(len(batch), sum(len(hypotheses[0].tokens) + 1 for hypotheses in outputs))
        start += count
    return results


def source_example(pieces: Int[np.ndarray, " length"], lang: int, number: int, symbols: Symbols) -> Example:
    """Build a source as the encoder reads it: ``x </s> [lang]``, ``[lang] x </s>`` or ``x </s>``."""
    tokens = symbols.with_lang(np.append(pieces, EOS).astype(np.int64), lang)
    return sequence(tokens, lang, id=np.array([number]))


class _LayerCache:
    """Keys and values of one decoder layer, for the sources and for the generated tokens.

    Attributes:
        source: (L, 2, S, H, C), L the longest source.
        past: (capacity, 2, S, H, C); step 0 fills one slot per sentence, every later one ``beam``.
    """

    def __init__(self, layer: DecoderLayer, states: Float[Tensor, "tokens dim"], lengths: list[int]) -> None:
        keys_values = torch.stack(layer.memory(states), 1).to(_attention_dtype(states))
        padded = torch.nn.utils.rnn.pad_sequence(keys_values.split(lengths))
        self.source = padded.transpose(1, 2).contiguous()
        self.past = self.source[:0]

    def append(
        self, num_filled: int, new_entries: Float[Tensor, "width 2 sources heads size"]
    ) -> Float[Tensor, "filled 2 sources heads size"]:
        """Append (width, 2, S, H, C) after the ``num_filled`` filled ones; return all filled slots."""
        end = num_filled + len(new_entries)
        if end > len(self.past):
            new_space = self.past.new_empty(CACHE_CHUNK_STEPS * len(new_entries), *self.past.shape[1:])
            self.past = torch.cat([self.past[:num_filled], new_space])
        self.past[num_filled:end] = new_entries
        return self.past[:end]

    def compact(self, kept_slots: Int[Tensor, "sources count"]) -> None:
        """Keep only these slots of each sentence, int64 (S, count)."""
        index = kept_slots.t()[:, None, :, None, None]
        self.past = self.past.gather(0, index.expand(-1, *self.past.shape[1:]))

    def keep(self, sentences: Int[Tensor, " kept"], num_filled: int) -> None:
        """Keep only these sentences and the first ``num_filled`` filled slots."""
        self.source = self.source.index_select(2, sentences)
        self.past = self.past[:num_filled].index_select(2, sentences)


def _attention_dtype(states: Tensor) -> torch.dtype:
    """Return the dtype of keys and values: on a CPU, products with a few queries are slower in bfloat16."""
    is_slow = states.dtype == torch.bfloat16 and states.device.type == "cpu"
    return torch.float32 if is_slow else states.dtype


def _attend(query: Tensor, cached: Tensor, bias: Tensor | None) -> Tensor:
    """Compute attention of a few queries per sentence with plain products, which are faster here than fused kernels.

    Args:
        query: (S, W, H, C).
        cached: keys and values (T, 2, S, H, C).
        bias: 0 or -inf, added to the scores, (S, 1, 1 or W, T), or None.

    Returns:
        (S * W, H * C).
    """
    num, width, heads, size = query.shape
    key, value = cached.flatten(2, 3).unbind(1)  # (T, S * H, C)
    query = (query.to(cached.dtype) * size**-0.5).transpose(1, 2).reshape(-1, width, size)
    scores = torch.bmm(query, key.permute(1, 2, 0))
    if bias is not None:
        scores.view(num, heads, width, -1).add_(bias)
    attended = torch.bmm(torch.softmax(scores, -1), value.transpose(0, 1))
    return attended.view(num, heads, width, size).transpose(1, 2).reshape(num * width, -1)


def _head_projection(weight: Tensor, bias: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the product with the head (V, D).

    On a GPU padded to a multiple of 64 rows, which is many times as fast.
    """
    if (num_padding := -len(weight) % 64) == 0 or not weight.is_cuda:
        return packed_linear(weight, bias)
    padded = F.pad(weight, (0, 0, 0, num_padding)), F.pad(bias, (0, num_padding))
    return lambda x: F.linear(x, *padded)[..., : len(weight)]


def _mask_to_bias(is_visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where True, else -inf."""
    return torch.zeros(is_visible.shape, dtype=dtype, device=is_visible.device).masked_fill_(
        ~is_visible, -torch.inf
    )


class _BeamSearch:
    """The state of a search over a batch; S sentences remain, with W hypotheses each (1 at first, then beam)."""

    def __init__(
        self,
        model: Seq2SeqModel,
        states: Float[Tensor, "tokens dim"],
        runs: SequenceRuns,
        tgt_langs: Int[Tensor, " sources"],
        symbols: Symbols,
        search: Search,
        pieces: Bool[Tensor, " vocab"] | None,
    ) -> None:
        self.model, self.search, device = model, search, states.device
        lengths = torch.tensor(sequence_lengths(runs), device=device)
        self.attention_dtype = _attention_dtype(states)
        self.num_start_tokens = int(symbols.lang_first)  # tokens that the decoder reads before the language
        longest = model.cfg.max_positions - 1 - self.num_start_tokens
        max_lengths = (search.max_len_a * lengths + search.max_len_b).long().clamp(max=longest)
        self.limits, self.langs = max_lengths.clamp(min=1), tgt_langs
        self.project = _head_projection(model.decoder.head.weight, model.decoder.head.bias)
        langs = {*tgt_langs.tolist()} if symbols.documents else {0}
        assert len(langs) == 1, "documents of several target languages in a batch"
        self.end = symbols.end(langs.pop())  # of every output
        self.barred_tokens = ~allowed_tokens(symbols, pieces).to(device)
        self.barred_tokens[self.end] = False
        self.barred_runs = find_true_runs(self.barred_tokens)
        self.sources = torch.arange(len(lengths), device=device)  # their indices in the batch
        is_real = torch.arange(int(lengths.max()), device=device) < lengths[:, None]
        self.source_bias = (
            None if is_real.all() else _mask_to_bias(is_real[:, None, None], self.attention_dtype)
        )
        self.caches = [
            _LayerCache(_as_decoder(layer), states, lengths.tolist()) for layer in model.decoder.layers
        ]
        self.tokens = (symbols.lang(0) + tgt_langs)[:, None, None]  # (S, W, steps + 1)
        self.scores = torch.zeros(len(lengths), 1, device=device)
        self.ancestors = torch.ones(len(lengths), 1, 0, dtype=torch.bool, device=device)  # (S, W, slots)
        self.steps = torch.zeros(
            len(lengths), 0, dtype=torch.long, device=device
        )  # step of each slot, (S, slots)
        self.finished: list[list[Hypothesis]] = [[] for _ in lengths]
        self.done = torch.zeros(len(lengths), dtype=torch.bool, device=device)
        self.generator = torch.Generator(device).manual_seed(search.seed)

    def run(self) -> list[list[Hypothesis]]:
        """Run steps until every sentence is done."""
        step = 0
        if self.num_start_tokens:
            langs, self.tokens = self.tokens, torch.full_like(self.tokens, EOS)
            self._logits(0)
            self.tokens = torch.cat([self.tokens, langs], 2)
        while len(self.sources):
            scores, parents, tokens = self._candidates(self._logits(step + self.num_start_tokens), step)
            self._store_finished(scores, parents, tokens, step)
            self._advance(scores, parents, tokens)
            self._remove_finished()
            self._compact()
            step += 1
        # With weights that are not finite no hypothesis ends: return an output anyway, so that no line is
        # lost.
        empty_output = [Hypothesis(np.zeros(0, dtype=np.int64), -float("inf"))]
        return [sorted(hypotheses, key=lambda h: -h.score) or empty_output for hypotheses in self.finished]

    def _logits(self, step: int) -> Tensor:
        """Return the predictions after the token at position ``step`` of each hypothesis, float32 (S, W, V)."""
        decoder = self.model.decoder
        num, width = self.tokens.shape[:2]
        if (fused := getattr(self.model, "fused", None)) is not None:
            fused.select(self.sources.tolist(), width)
        langs = self.langs[:, None].expand(num, width).flatten()
        words = self.model.read(self.tokens[:, :, -1].flatten())
        x = decoder.embed(words, torch.full_like(langs, step), langs)
        num_slots = self.ancestors.shape[2]
        is_self = torch.eye(width, dtype=torch.bool, device=x.device).expand(num, width, width)
        self.ancestors = torch.cat([self.ancestors, is_self], 2)
        bias = _mask_to_bias(self.ancestors[:, None], self.attention_dtype) if width > 1 else None
        biases = [bias] * len(self.caches)
        if decoder.relative is not None:
            self.steps = torch.cat([self.steps, self.steps.new_full((num, width), step)], 1)
            position_biases = (
                decoder.relative.biases_at(self.steps - step)
                .transpose(1, 2)[:, :, None]
                .to(self.attention_dtype)
            )
            biases = [
                n if bias is None else n + bias for n in position_biases.chunk(decoder.relative.layers, 1)
            ]
            biases = biases if decoder.relative.layers > 1 else biases * len(self.caches)
        for layer, cache, layer_bias in zip(decoder.layers, self.caches, biases, strict=True):
            x = self._run_layer(_as_decoder(layer), cache, x, num_slots, layer_bias)
        logits = self.project(decoder.head.transform(decoder.final_norm(x)))
        return logits.float().view(num, width, -1)

    def _run_layer(
        self, layer: DecoderLayer, cache: _LayerCache, x: Tensor, slots: int, bias: Tensor | None
    ) -> Tensor:
        num = len(self.sources)

        def attend_self(qkv: Float[Tensor, "rows 3 heads size"]) -> Float[Tensor, "rows dim"]:
            rows = qkv.unflatten(0, (num, -1))  # (S, W, 3, H, C)
            keys_values = cache.append(slots, rows[:, :, 1:].permute(1, 2, 0, 3, 4))
            return _attend(rows[:, :, 0], keys_values, bias).to(x.dtype)

        def attend_source(query: Float[Tensor, "rows heads size"]) -> Float[Tensor, "rows dim"]:
            return _attend(query.unflatten(0, (num, -1)), cache.source, self.source_bias).to(x.dtype)

        out: Tensor = layer(x, attend_self, attend_source)
        return out

    def _candidates(self, logits: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, continued hypotheses and tokens of the best K continuations of each sentence, (S, K) each.

        K is 2 * beam, so that ``beam`` remain when as many end; with one beam, none need to remain.
        """
        search = self.search
        logits = torch.log_softmax(
            logits, -1
        )  # barred tokens keep their share of the probability, as in fairseq
        if len(self.barred_runs) <= MAX_FILLED_RUNS:
            for begin, stop in self.barred_runs:
                logits[..., begin:stop] = -torch.inf
        else:
            logits.masked_fill_(self.barred_tokens, -torch.inf)
        end_logits = logits[..., self.end].clone()
        if step < search.min_len:
            logits[..., self.end] = -torch.inf
        if bool((is_too_long := self.limits <= step).any()):  # regardless of the minimum length
            logits[is_too_long] = -torch.inf
            logits[is_too_long, :, self.end] = end_logits[is_too_long]
        num, width, size = logits.shape
        count = min(2 * search.beam, size) if search.beam > 1 else 1
        if search.sample:
            best = self._sample_tokens(logits, count)
            scores = logits.gather(-1, best)
        else:
            scores, best = largest_scores(logits, count)
        scores = (scores + self.scores[..., None]).view(num, -1)
        if width == 1:
            return scores, torch.zeros_like(best[:, 0]), best[:, 0]
        scores, flat_indices = scores.topk(count, -1)
        return scores, flat_indices // count, best.view(num, -1).gather(1, flat_indices)

    def _sample_tokens(self, logits: Tensor, count: int) -> Tensor:
        """Sample tokens without replacement from the softmax, in order, by adding Gumbel noise."""
        search = self.search
        if search.top_k:
            lowest_kept = logits.topk(min(search.top_k, logits.shape[-1]), -1).values[..., -1:]
            logits = logits.masked_fill(logits < lowest_kept, -torch.inf)
        noise = torch.empty_like(logits).exponential_(generator=self.generator).log_().neg_()
        return (logits / search.temperature + noise).topk(count, -1).indices

    def _store_finished(self, scores: Tensor, parents: Tensor, tokens: Tensor, step: int) -> None:
        """Store the hypotheses that end among the best ``beam`` candidates, and mark sentences that are done."""
        beam = self.search.beam
        is_end = (tokens[:, :beam] == self.end) & scores[:, :beam].isfinite() & ~self.done[:, None]
        if bool(is_end.any()):
            rows, columns = is_end.nonzero().unbind(1)
            outputs = self.tokens[rows, parents[rows, columns], 1 + self.num_start_tokens :].cpu().numpy()
            length = step + 1 + self.num_start_tokens
            normalised_scores = (scores[rows, columns] / length**self.search.length_penalty).tolist()
            for number, words, score in zip(
                self.sources[rows].tolist(), outputs, normalised_scores, strict=True
            ):
                if len(self.finished[number]) < beam:
                    self.finished[number].append(Hypothesis(words, score))
            is_full = torch.tensor([len(self.finished[n]) >= beam for n in self.sources.tolist()])
            self.done |= is_full.to(self.done.device)
        self.done |= self.limits <= step

    def _advance(self, scores: Tensor, parents: Tensor, tokens: Tensor) -> None:
        """Continue with the best ``beam`` candidates that do not end."""
        count = scores.shape[1]
        priority = torch.arange(count, device=scores.device) + count * (tokens == self.end)
        best = priority.topk(min(self.search.beam, count), largest=False).indices
        self.scores, parents, tokens = (x.gather(1, best) for x in (scores, parents, tokens))
        rows = torch.arange(len(scores), device=scores.device)[:, None]
        self.tokens = torch.cat([self.tokens[rows, parents], tokens[..., None]], 2)
        self.ancestors = self.ancestors[rows, parents]

    def _compact(self) -> None:
        """Drop cache entries that are no hypothesis's ancestor, once they are half of the cache."""
        is_used, slots = self.ancestors.any(1), self.ancestors.shape[2]
        if (
            not len(is_used)
            or slots < 2 * CACHE_CHUNK_STEPS
            or (count := int(is_used.sum(1).max())) > slots // 2
        ):
            return
        kept_slots = is_used.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :count]
        self.ancestors = self.ancestors.gather(2, kept_slots[:, None].expand(-1, self.ancestors.shape[1], -1))
        if self.steps.shape[1]:
            self.steps = self.steps.gather(1, kept_slots)
        for cache in self.caches:
            cache.compact(kept_slots)

    def _remove_finished(self) -> None:
        num_done = int(self.done.sum())
        if num_done < max(1, MIN_DONE_SHARE * len(self.done)) and num_done < len(self.done):
            return
        remaining = (~self.done).nonzero().flatten()
        for name in ("limits", "langs", "sources", "tokens", "scores", "ancestors", "steps", "done"):
            setattr(self, name, getattr(self, name)[remaining])
        if self.source_bias is not None:
            self.source_bias = self.source_bias[remaining]
        for cache in self.caches:
            cache.keep(remaining, self.ancestors.shape[2])


def largest_scores(
    scores: Float[Tensor, " *rows vocab"], count: int
) -> tuple[Float[Tensor, " *rows {count}"], Int[Tensor, " *rows {count}"]]:
    """Return the ``count`` largest of the last dimension and their indices, like `torch.topk`, in descending order.

    They lie in the ``count`` blocks with the largest maxima, and one pass for maxima is many times as fast.
    """
    blocks = scores.shape[-1] // PIECES_PER_BLOCK
    if blocks < 4 * count:
        best = scores.topk(count, -1)
        return best.values, best.indices
    inner = scores[..., : blocks * PIECES_PER_BLOCK].unflatten(-1, (blocks, PIECES_PER_BLOCK))
    block_indices = (
        inner.amax(-1).topk(count, -1).indices[..., None].expand(*scores.shape[:-1], count, PIECES_PER_BLOCK)
    )
    offsets = torch.arange(PIECES_PER_BLOCK, device=scores.device)
    places = (block_indices * PIECES_PER_BLOCK + offsets).flatten(-2)
    remaining = torch.arange(blocks * PIECES_PER_BLOCK, scores.shape[-1], device=scores.device)
    places = torch.cat([places, remaining.expand(*scores.shape[:-1], -1)], -1)
    values, order = scores.gather(-1, places).topk(count, -1)
    return values, places.gather(-1, order)


def find_true_runs(flags: Bool[Tensor, " length"]) -> list[tuple[int, int]]:
    """Return begin and end of each run of True in bool (n,)."""
    zero = torch.zeros(1, dtype=torch.int8, device=flags.device)
    borders = torch.diff(flags.to(torch.int8), prepend=zero, append=zero).nonzero()
    return [(int(begin), int(stop)) for begin, stop in borders.view(-1, 2)]


def _as_decoder(layer: torch.nn.Module) -> DecoderLayer:
    assert isinstance(layer, DecoderLayer)
    return layer
