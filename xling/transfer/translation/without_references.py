"""Measurements of a translation model without parallel text: round trips, and signs of collapse.

The criterion is that of Lample et al. 2018 (section 3.3): the mean over both directions of the BLEU between
sentences and their round-trip translation. A model that copies has a perfect round trip. So the intermediate
text must be in the other language, judged by the pieces of both languages' training text (naive Bayes), and
must not be a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xling.array_types import Float, Int
from xling.core.errors import UserError
from xling.models.generate.settings import Search
from xling.objectives.base import FIRST_PIECE
from xling.objectives.umt import translate
from xling.text import word_translation
from xling.transfer.settings import CollapseConfig
from xling.transfer.translation.supervised import bleu_and_chrf


@dataclass(frozen=True)
class HeldOut:
    """Held-out sentences of one language: pieces without specials (length,) each, and as text."""

    pieces: list[Int[np.ndarray, " pieces"]]
    texts: list[str]


def share_in_language(
    counts: Float[Tensor, "langs vocab"],
    tokens: Sequence[Int[np.ndarray, " _"]],
    lang: int,
    candidates: Sequence[int],
) -> float:
    """Return the share of texts that naive Bayes over pieces assigns to a language.

    Args:
        tokens: pieces of each text; an empty one is in no language.
    """
    smoothed = counts.double()[list(candidates)] + 0.1
    log_shares = (smoothed / smoothed.sum(1, keepdim=True)).log()
    log_shares[:, :FIRST_PIECE] = 0
    num_in_lang = 0
    for text in tokens:
        if len(text):
            sums = log_shares[:, torch.from_numpy(np.minimum(text, log_shares.shape[1] - 1))].sum(1)
            num_in_lang += list(candidates)[int(sums.argmax())] == lang
    return num_in_lang / max(len(tokens), 1)


def copied_share(sources: Sequence[str], outputs: Sequence[str]) -> float:
    """Return the share of the outputs' words that occur in their source, counted at most as often as there."""
    shared = total = 0
    for source, output in zip(sources, outputs, strict=True):
        output_words = Counter(word_translation.split_words(output))
        shared += sum((output_words & Counter(word_translation.split_words(source))).values())
        total += sum(output_words.values())
    return shared / max(total, 1)


def distinct_pairs(texts: Sequence[str]) -> float:
    """Return the number of distinct pairs of neighbouring words per pair, 0 without pairs."""
    pairs = [pair for words in map(str.split, texts) for pair in pairwise(words)]
    return len(set(pairs)) / max(len(pairs), 1)


class Examiner:
    """Measurement of a model on held-out monolingual sentences.

    Args:
        pairs: pairs of language indices, each examined in both directions.
    """

    def __init__(
        self,
        held_out_by_lang: dict[int, HeldOut],
        pairs: Sequence[tuple[int, int]],
        symbols: Any,
        processor: Any,
        search: Search,
    ) -> None:
        self.held_out_by_lang, self.pairs = held_out_by_lang, pairs
        self.symbols, self.processor, self.search = symbols, processor, search

    def __call__(self, model: Any) -> dict[str, float]:
        """Compute the criterion ``two_way``, 0 if a direction fails to translate, and its components.

        These are by direction ``<src>-<tgt>/``: ``round_trip`` (BLEU), ``copied``, ``in_language``,
        ``length_ratio``, ``distinct``.
        """
        numbers: dict[str, float] = {}
        scores = []
        for pair in self.pairs:
            for src, tgt in (pair, pair[::-1]):
                measured = self.measure_direction(model, src, tgt)
                name = f"{self.symbols.langs[src]}-{self.symbols.langs[tgt]}"
                numbers |= {f"{name}/{key}": round(value, 4) for key, value in measured.items()}
                # Intermediate text counts only as far as it is in the requested language and not copied.
                is_translation = measured["in_language"] >= 0.5 and measured["copied"] <= 0.8
                scores.append(measured["round_trip"] if is_translation else 0.0)
        numbers["two_way"] = round(sum(scores) / len(scores), 4)
        return numbers

    def measure_direction(self, model: Any, src: int, tgt: int) -> dict[str, float]:
        """Measure one direction and the way back."""
        held_out, langs = self.held_out_by_lang[src], self.symbols.langs
        translations = self.translate_pieces(model, held_out.pieces, src, tgt)
        round_trips = self.translate_pieces(model, translations, tgt, src)
        translated_texts = self.decode_texts(translations)
        bleu: Any = bleu_and_chrf(self.decode_texts(round_trips), held_out.texts, langs[src])["bleu"]
        real_distinct = distinct_pairs(self.held_out_by_lang[tgt].texts)
        return {
            "round_trip": float(bleu),
            "copied": copied_share(held_out.texts, translated_texts),
            "in_language": share_in_language(model.extras["umt"].counts.cpu(), translations, tgt, (src, tgt)),
            "length_ratio": sum(map(len, translations)) / max(sum(map(len, held_out.pieces)), 1),
            "distinct": distinct_pairs(translated_texts) / max(real_distinct, 1e-9),
        }

    def translate_pieces(
        self, model: Any, texts: list[Int[np.ndarray, " _"]], src: int, tgt: int
    ) -> list[Int[np.ndarray, " _"]]:
        """Return the best translation of each text, as pieces."""
        max_pieces = model.cfg.max_positions - 2
        truncated = [text[:max_pieces] for text in texts]
        return translate(
            model, truncated, [src] * len(truncated), [tgt] * len(truncated), self.symbols, self.search
        )

    def decode_texts(self, tokens: Sequence[Int[np.ndarray, " _"]]) -> list[str]:
        """Decode rows of pieces to texts."""
        return [str(self.processor.decode([int(i) - 1 for i in text if i >= FIRST_PIECE])) for text in tokens]


def check_not_collapsed(
    events: Sequence[dict[str, Any]], directions: Sequence[str], limits: CollapseConfig
) -> None:
    """Stop a run that has collapsed.

    Args:
        events: the validations so far, in order, each with ``update`` and the numbers of `Examiner`.
        directions: ``src-tgt``.
        limits: conditions of a collapse.

    Raises:
        UserError: it has collapsed; the message says how.
    """
    last_validations = [event for event in events if event["update"] > limits.after][-limits.patience :]
    if not limits.patience or len(last_validations) < limits.patience:
        return
    for name in directions:
        reasons = [
            limits.describe_collapse(
                {k.partition("/")[2]: v for k, v in event.items() if k.startswith(f"{name}/")}
            )
            for event in last_validations
        ]
        if all(reasons):
            raise UserError(
                f"{name} has collapsed after {last_validations[-1]['update']} updates: it {reasons[-1]}, "
                f"at {len(last_validations)} successive validations",
                fix="start from a pre-trained model or a dictionary, set own_pieces, lower train.lr, or "
                "collapse.patience=0 to continue",
            )
