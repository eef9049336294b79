"""Span corruption (T5, mT5): spans of a text become sentinels, and the decoder writes each sentinel with its span.

15 % of the tokens are corrupted in spans of 3 on average. The source is ``a <0> d <1> g </s>``, the target
``<0> b c <1> e f </s>``. If there would be more spans than sentinels, fewer and longer spans are used.

Two styles. ``xling``: a text has at most ``tokens_per_sample`` tokens before corruption. ``t5``, as T5's
code: a text has as many tokens as give a source of ``tokens_per_sample`` (1,137 for 1,024).

Source: Raffel et al. 2020, section 3.1.4, and its code; Xue et al. 2021. Our choice: source and decoder have
language tokens as in the other objectives, unlike mT5.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xling.array_types import Int
from xling.data import noise
from xling.data.packing import Example
from xling.data.symbols import NUM_SENTINELS, Symbols
from xling.objectives.base import EOS, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.seq2seq import Seq2SeqObjective, Text, TextDataset
from xling.objectives.seq2seq import example as sequences

LONGEST = 10  # maximum ratio of text to source length in style=t5, for any corrupted share


def least_mean(num_tokens: int, share: float, mean: float) -> float:
    """Return the mean span length at which ``num_tokens`` tokens need no more spans than there are sentinels."""
    return max(mean, num_tokens * share / NUM_SENTINELS)


def longest_text(room: int, share: float, mean: float) -> int:
    """Return the longest text, including ``</s>``, whose source has at most ``room`` tokens including ``</s>``."""

    def source(num_tokens: int) -> int:
        gone, spans = noise.span_counts(num_tokens, share, least_mean(num_tokens, share, mean))
        return num_tokens - gone + spans + 1

    num_tokens = room - 1
    while num_tokens < LONGEST * room and source(num_tokens + 1) <= room:
        num_tokens += 1
    return num_tokens + 1


def split_spans(
    tokens: Int[np.ndarray, " length"], share: float, mean: float, symbols: Symbols, rng: np.random.Generator
) -> tuple[Int[np.ndarray, " source"], Int[np.ndarray, " target"]]:
    """Split a text (length,), which ends in ``</s>``, into source and target; the ``</s>`` ends both."""
    body = tokens[:-1]
    mean = least_mean(len(body), share, mean)
    spans = noise.corrupted_spans(len(body), share, mean, rng)
    first = (spans >= 0) & (spans != np.concatenate([[-1], spans[:-1]]))
    sentinels = symbols.sentinel(0) + spans
    source = np.where(first, sentinels, body)[(spans < 0) | first]
    inside, begins = body[spans >= 0], np.flatnonzero(first[spans >= 0])
    target = np.insert(inside, begins, sentinels[first])
    return np.append(source, EOS), np.append(target, EOS)


@objective("span_corruption")
class SpanCorruption(Seq2SeqObjective):
    """The span corruption objective: write the spans of a text given the rest of it."""

    trial = Trial(shrinks=True, changes=("context",), ignores=("own token", "later tokens"))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of joined sentences of a split."""
        cfg, symbols = self.cfg, self.symbols

        def build(text: Text) -> Example:
            source, target = split_spans(text.tokens, cfg.corrupt, cfg.span_mean, symbols, text.generator)
            return sequences(source, target, text.lang, text.lang, symbols)

        def max_tokens_of(lengths: Int[np.ndarray, " texts"]) -> Int[np.ndarray, " texts"]:
            # Unchanged tokens, removed tokens, two sentinels per span, two </s> and the language token.
            spans = np.ceil(np.maximum(cfg.corrupt * lengths, 1) / cfg.span_mean).astype(np.int64) + 1
            return lengths + 2 * spans + 2

        source = cfg.tokens_per_sample - symbols.source_lang
        room = longest_text(source, cfg.corrupt, cfg.span_mean) if cfg.style == "t5" else 0
        return TextDataset(cfg, data, split, self.langs, "span_corruption", build, max_tokens_of, room)
