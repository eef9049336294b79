"""Masked sequence to sequence (MASS): the encoder reads a sentence with a masked span, the decoder writes the span.

The decoder sees nothing else of the sentence, and its positions are those of the span. Of the span's tokens
in the source 80 % are ``<mask>``, 10 % random, 10 % unchanged.

Two styles:

- ``xling``: the span begins anywhere with equal probability, is a share of the pieces rounded up or down at
  random and never holds ``</s>``. The first token that the decoder reads is the language token, and it sees
  the whole source.
- ``mass``, as in the paper's code: in 20 % of the sentences the span begins with the first token, in 20 % it
  ends with ``</s>``, else it lies anywhere. The decoder first reads the token before the span (the language
  token if there is none). The encoder states of ``<mask>`` positions are hidden from it.

Source: Song et al. 2019, section 3, and its code (microsoft/MASS, MASS-unsupNMT).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xling.array_types import Int
from xling.data.masking import MaskRule, corrupt
from xling.data.packing import Example
from xling.data.symbols import Symbols
from xling.objectives.base import FIRST_PIECE, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.seq2seq import Seq2SeqObjective, Text, TextDataset
from xling.objectives.seq2seq import example as sequences

AT_START, AT_END = 0.2, 0.2  # shares of the spans in style=mass


def span_of(tokens: Int[np.ndarray, " length"], share: float, rng: np.random.Generator) -> tuple[int, int]:
    """Return begin and end of a span with ``share`` of the pieces in a run without specials; at least one piece.

    Joined sentences have several runs: the span lies in one of them, drawn by its length.
    """
    ends = np.flatnonzero(tokens < FIRST_PIECE)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else np.zeros(1, dtype=np.int64)
    stops = ends if len(ends) else np.array([len(tokens)])
    sizes = stops - starts
    if not sizes.any():  # all pieces are <unk>
        return 0, 1
    run = int(np.searchsorted(np.cumsum(sizes), rng.integers(sizes.sum()), side="right"))
    wanted = int(share * (tokens >= FIRST_PIECE).sum() + rng.random())
    length = min(max(wanted, 1), int(sizes[run]))
    begin = int(starts[run] + rng.integers(sizes[run] - length + 1))
    return begin, begin + length


def paper_span(num_tokens: int, share: float, rng: np.random.Generator) -> tuple[int, int]:
    """Return begin and end of a span in ``num_tokens`` tokens with ``</s>``, as the paper's code draws it.

    The code counts the ``</s>`` that it has in front of the sentence as well, and rounds half to even.
    """
    length = min(max(round(share * (num_tokens + 1)), 1), num_tokens)
    where = rng.random()
    if where < AT_START:
        begin = 0
    elif where < AT_START + AT_END:
        begin = num_tokens - length
    else:
        begin = int(rng.integers(num_tokens - length + 1))
    return begin, begin + length


def example(
    tokens: Int[np.ndarray, " length"],
    lang: int,
    share: float,
    rule: MaskRule,
    symbols: Symbols,
    rng: np.random.Generator,
    style: str = "xling",
) -> Example:
    """Build an example from a sentence (length,) with its ``</s>``: a masked source, and the span as target.

    With ``style="mass"`` also ``hidden`` (S,), which marks hidden source positions.
    """
    begin, end = span_of(tokens, share, rng) if style == "xling" else paper_span(len(tokens), share, rng)
    source = corrupt(tokens, np.arange(begin, end), rule, rng)
    sample = sequences(source, tokens[begin:end], lang, lang, symbols, start=begin)
    if style == "xling":
        return sample
    if begin:
        sample["prev_tokens"][0] = tokens[begin - 1]
    return sample | {"hidden": sample["tokens"] == symbols.mask}


@objective("mass")
class Mass(Seq2SeqObjective):
    """The MASS objective: write a span of a sentence given the rest of it."""

    trial = Trial(shrinks=True, changes=("context",), ignores=("own token", "later tokens"))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of sentences of a split."""
        cfg, symbols = self.cfg, self.symbols
        rule = MaskRule(
            prob=cfg.span,
            leave=cfg.leave_unmasked_prob,
            random=cfg.random_token_prob,
            mask_id=symbols.mask,
            first_piece=FIRST_PIECE,
            end_piece=symbols.mask,
        )

        def build(text: Text) -> Example:
            return example(text.tokens, text.lang, cfg.span, rule, symbols, text.generator, cfg.style)

        def max_tokens_of(lengths: Int[np.ndarray, " texts"]) -> Int[np.ndarray, " texts"]:
            return lengths + 1 + np.ceil(cfg.span * (lengths + (cfg.style == "mass"))).astype(np.int64)

        return TextDataset(cfg, data, split, self.langs, "mass", build, max_tokens_of)
