"""How far an identified language can be trusted: rates of confusion on held-out text, and the precision they promise.

The precision of a language in a crawl is ``pi R / (pi R + sum of pi' F')``: its share and recall against the shares of
the other languages and their rates of false positives (Caswell et al. 2020). The rates are counted on held-out text
by score, so that a threshold follows from the shares (``xling corpus langid-eval``).

A language of whose n texts none was taken for another has a rate of 0 there, but not in a crawl. Its expected rate is
that of Good and Turing: the share of languages with one such text among those with one or none, over n, or over the
mean of all languages where its own n is less. Languages of other scripts are counted apart: they are confused less.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Float64, Int64
from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import digests

FILE_NAME = "rates.json"
BUILT_IN = "built-in"
"""Name of the ensemble in a file of rates."""
EDGES = (
    0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995,
    0.998, 0.999,
)  # fmt: skip
"""Thresholds that are counted; a text of a score counts for all up to it."""
NOT_IDENTIFIABLE, NOT_MEASURED = "not identifiable here", "not measured"
_UNSEEN = 0.5
"""Least count of the languages with exactly one false positive, from which the rate of unseen ones is estimated."""
_ROUNDS = 500


@dataclass(frozen=True)
class Trust:
    """Expectation of a language at a threshold in a crawl.

    Attributes:
        lang: the language, without its script.
        prior: its share of the crawl's texts.
        threshold: lowest score that is kept.
        precision: expected share of right texts among those kept; None if no held-out text of it was read.
        recall: share of its texts that are kept.
        target: precision that was asked for.
        texts: held-out texts of it.
        taken_from: other language -> its share of the wrong texts, the largest first.
    """

    lang: str
    prior: float
    threshold: float
    precision: float | None
    recall: float
    target: float
    texts: int
    taken_from: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        """Return the precision in per cent, or what is wrong with it."""
        if self.precision is None:
            return NOT_MEASURED
        share = f"{100 * self.precision:.1f} %"
        return share if self.precision >= self.target else f"{share}: {NOT_IDENTIFIABLE}"

    def to_json(self) -> dict[str, Any]:
        """Return the values for statistics, with what they mean as text."""
        return {**vars(self), "taken_from": [list(pair) for pair in self.taken_from], "says": str(self)}


class Rates:
    """Counts of held-out texts by their language, the language found and the score.

    Args:
        model: `BUILT_IN`, or the SHA-256 of the model's file.
        chars: length from which texts were taken, in characters.
        texts: language -> texts read.
        rows: language -> language found -> texts from each threshold on, ``(len(EDGES),)``.
        missed: language without held-out texts -> texts, those found, the commonest other answer, and its texts.
    """

    def __init__(
        self,
        model: str,
        chars: int,
        texts: Mapping[str, int],
        rows: Mapping[str, Mapping[str, Sequence[int]]],
        missed: Mapping[str, tuple[int, int, str, int]] | None = None,
    ) -> None:
        self.model, self.chars, self.missed = model, chars, dict(missed or {})
        self.texts = dict(sorted(texts.items()))
        self.rows = {lang: dict(sorted(rows.get(lang, {}).items())) for lang in self.texts}

    @classmethod
    def count(cls, model: str, chars: int, answers: Iterable[tuple[str, str, float]]) -> Rates:
        """Count texts: their language, the language found ("" for none) and its score."""
        texts: dict[str, int] = {}
        rows: dict[str, dict[str, Int64[np.ndarray, " edges"]]] = {}
        for lang, answer, score in answers:
            texts[lang] = texts.get(lang, 0) + 1
            row = rows.setdefault(lang, {}).setdefault(answer, np.zeros(len(EDGES), np.int64))
            row += np.asarray(EDGES) <= score
        return cls(
            model, chars, texts, {a: {b: c.tolist() for b, c in row.items()} for a, row in rows.items()}
        )

    def save(self, path: Path) -> None:
        """Write the counts; of each row only the numbers up to the last that is not 0."""
        rows = {lang: {b: _trimmed(counts) for b, counts in row.items()} for lang, row in self.rows.items()}
        head = {"model": self.model, "chars": self.chars, "edges": EDGES, "missed": self.missed}
        lines = ",\n".join(f"{json.dumps(lang)}: {json.dumps(row)}" for lang, row in rows.items())
        path.write_text(
            f'{json.dumps(head | {"texts": self.texts})[:-1]}, "found": {{\n{lines}\n}}}}\n', encoding="utf-8"
        )

    @cached_property
    def _scripts(self) -> dict[str, str]:
        return {lang: _script_of(lang) for lang in self.texts}

    def false_rates(self, lang: str) -> dict[str, Float64[np.ndarray, " edges"]]:
        """Return for each other language the expected share of its texts taken for ``lang``, ``(len(EDGES),)``."""
        others = [other for other in self.texts if other != lang]
        counts = {other: np.zeros(len(EDGES)) + self.counts_of(other, lang) for other in others}
        rates = {other: counts[other] / self.texts[other] for other in others}
        own = _script_of(lang)
        for same in (True, False):
            group = [other for other in others if (self._scripts[other] == own) is same]
            if group:
                once = sum(counts[other] == 1 for other in group)
                none = sum(counts[other] == 0 for other in group)
                mean = sum(self.texts[other] for other in group) / len(group)
                unseen = np.maximum(once, _UNSEEN) / np.maximum(1, once + none)
                for other in group:
                    texts = max(self.texts[other], mean)
                    rates[other] = np.where(counts[other] == 0, unseen / texts, rates[other])
        return rates

    def counts_of(self, lang: str, answer: str) -> Float64[np.ndarray, " edges"]:
        """Return how many texts of a language were taken for ``answer`` from each threshold on, ``(len(EDGES),)``."""
        row = self.rows[lang].get(answer, ())
        return np.pad(np.asarray(row, np.float64), (0, len(EDGES) - len(row)))

    def recalls(self, lang: str) -> Float64[np.ndarray, " edges"]:
        """Return the expected share of a language's texts found from each threshold on, ``(len(EDGES),)``."""
        return (self.counts_of(lang, lang) + 0.5) / (self.texts[lang] + 1)

    def share_found(self, lang: str, answer: str, threshold: float) -> float:
        """Return the share of a language's texts that are found as ``answer`` with at least ``threshold``."""
        place = max(0, int(np.searchsorted(EDGES, threshold, side="right")) - 1)
        return float(self.counts_of(lang, answer)[place]) / self.texts[lang]

    def trust(
        self, lang: str, prior: Mapping[str, float], threshold: float, target: float, raise_it: bool = True
    ) -> Trust:
        """Return the lowest threshold of the wanted precision, or that of the best one, and what it gives.

        Args:
            prior: language -> share of the crawl. What they leave is divided among the other languages measured.
            threshold: the lowest that is asked for.
            target: wanted precision.
            raise_it: whether the threshold may be raised; else it is only judged.
        """
        shares = self.shares(prior)
        own = shares.get(lang, 0.0)
        if lang not in self.texts:
            return Trust(lang, own, threshold, None, 0.0, target, 0)
        rates = self.false_rates(lang)
        mean = np.mean(list(rates.values()), axis=0) if rates else np.zeros(len(EDGES))
        wrong = {other: share * rates.get(other, mean) for other, share in shares.items() if other != lang}
        recalls = self.recalls(lang)
        right, false = own * recalls, sum(wrong.values(), np.zeros(len(EDGES)))
        precision = right / np.maximum(right + false, 1e-300)
        first = max(0, int(np.searchsorted(EDGES, threshold, side="right")) - 1)
        place = first
        if raise_it:
            enough = np.flatnonzero(precision[first:] >= target)
            place = first + int(enough[0] if len(enough) else np.argmax(precision[first:]))
        order = sorted(wrong, key=lambda other: (-wrong[other][place], other))
        total = max(float(false[place]), 1e-300)
        taken_from = tuple((other, round(float(wrong[other][place]) / total, 4)) for other in order[:5])
        numbers = max(threshold, float(EDGES[place])), float(precision[place]), float(recalls[place])
        return Trust(lang, own, *numbers, target, self.texts[lang], taken_from)

    def shares(self, prior: Mapping[str, float]) -> dict[str, float]:
        """Return the share of every language in a crawl; what ``prior`` leaves is divided among the others measured."""
        shares: dict[str, float] = {}
        for code, share in prior.items():
            base = code.partition("_")[0]
            shares[base] = shares.get(base, 0.0) + share
        others = [lang for lang in self.texts if lang not in shares]
        left = max(0.0, 1 - sum(shares.values()))
        return shares | {lang: left / len(others) for lang in others}

    def shares_of_found(self, numbers_of: Mapping[str, float]) -> dict[str, float]:
        """Return the likeliest shares of the languages in a crawl, from how many texts were identified as each.

        Saerens, Latinne and Decaestecker 2002: expectation and maximisation over the rates. A language without
        rates counts as it was found. One that was not found has no share: of ten held-out texts of Gagauz all are
        taken for Turkish, so it would explain all Turkish text as well as Turkish does.
        """
        names = sorted(name for name, number in numbers_of.items() if name and number > 0)
        numbers = np.array([numbers_of[name] for name in names], np.float64)
        rates = np.full((len(names), len(names)), 1e-12)
        for column, name in enumerate(names):
            false = self.false_rates(name)
            for row, lang in enumerate(names):
                if lang == name:
                    rates[row, column] = self.recalls(lang)[0] if lang in self.texts else 1.0
                elif lang in self.texts:
                    rates[row, column] = max(1e-12, false[lang][0])
        shares = np.full(len(names), 1 / max(1, len(names)))
        for _ in range(_ROUNDS):
            each = rates * shares[:, None]
            shares = (each / each.sum(axis=0) * numbers).sum(axis=1) / max(1.0, numbers.sum())
        return dict(zip(names, shares.tolist(), strict=True))

    def table(self) -> Iterator[tuple[str, int, float, float, float]]:
        """Yield language, texts, recall, precision and F1 on the held-out texts as they are, without a threshold."""
        totals: dict[str, int] = {}
        for row in self.rows.values():
            for name, counts in row.items():
                totals[name] = totals.get(name, 0) + (counts[0] if counts else 0)
        for lang, number in self.texts.items():
            right = int(self.counts_of(lang, lang)[0])
            total = totals.get(lang, 0)
            yield (
                lang,
                number,
                right / number,
                right / total if total else 0.0,
                2 * right / max(1, number + total),
            )


def _trimmed(counts: Sequence[int]) -> list[int]:
    return [int(number) for number in counts if number]


def _script_of(lang: str) -> str:
    try:
        return languages.get(lang).script
    except UserError:
        return ""


def model_name(model: Path | None) -> str:
    """Return what a file of rates calls a model: `BUILT_IN`, or the SHA-256 of its file."""
    return BUILT_IN if model is None else digests.of_file(model)


def built_in() -> Rates:
    """Return the rates of the built-in ensemble (``benchmarks/langid.py``)."""
    return load(Path(str(files(__package__) / FILE_NAME)))


@cache
def load(path: Path) -> Rates:
    """Return the rates in a file.

    Raises:
        UserError: there is none, or it is another kind of file.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if tuple(data["edges"]) != EDGES:
            raise ValueError("other thresholds")
        return Rates(data["model"], int(data["chars"]), data["texts"], data["found"], data.get("missed"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} holds no rates of language identification: {error}",
            f"{FILE_NAME} of xling corpus langid-eval",
        ) from None
