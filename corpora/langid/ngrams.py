"""Language identification by character n-grams: trained in minutes from any text, a few megabytes, no dependencies.

For each language the model holds its most frequent n-grams of 1 to 5 characters, inside of words and across
their ends, as 32-bit hashes with the logarithm of their frequency relative to a floor. The score of a text in
a language is the mean of these over the n-grams of the text; n-grams that the language lacks count as zero.
This is the naive Bayes model of HeLI (Jauhiainen et al. 2022) with one mixture of orders instead of back-off.
`benchmarks/langid.py` then tunes the logarithms so that lines of the training text get their own language: logistic
regression initialised with naive Bayes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from xling.array_types import Bool, Float, Float32, Float64, Int32, Int64, UInt16, UInt32
from xling.core.errors import UserError

MIN_FREQUENCY = 1e-7  # minimum frequency of an n-gram among those of its order
_NUM_GRAMS_OF_ORDERS = {1: 120, 2: 500, 3: 1200, 4: 1300, 5: 800}  # n-grams kept of each order
MAX_ORDER = max(_NUM_GRAMS_OF_ORDERS)
MAX_GAIN = 21.0
"""Largest gain of an n-gram."""
_SHARPNESS = 2.2  # exponent of the probabilities, times sqrt(number of n-grams); fitted to held-out lines
# Letters with their marks and joiners; the marks of India, South East Asia, Hebrew and Arabic are no \w.
_NOT_LETTERS = re.compile(
    r"[^\w\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0711-\u074a\u07a6-\u07b0"
    r"\u0900-\u0dff\u0e31-\u0e4e\u0eb1-\u0ecd\u0f18-\u0fbc\u102b-\u109d\u135d-\u135f\u1712-\u17d3\u180b-\u180f"
    r"\u1a17-\u1a7f\u1b00-\u1bff\u1c24-\u1c37\ua802-\ua8c5\u200c\u200d'’ʼ-]|[\d_]"
)
_SPACE = 32
_MANY_LANGS = 32
_TEXTS_AT_ONCE = 64  # texts whose scores are computed together
_MULTIPLIER, _MIXER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)

Hashes = NDArray[np.uint32]
_GramsByLang = dict[str, tuple[Hashes, NDArray[np.float32], int]]  # n-grams, gains, characters read


class SortedHashes:
    """Sorted different hashes that are found by their first bits: some times as fast as by halving.

    Args:
        hashes: uint32 (num_hashes,), at least one.
    """

    def __init__(self, hashes: UInt32[np.ndarray, " hashes"]) -> None:
        bits = max(8, len(hashes).bit_length())
        self._hashes, self._shift = hashes, np.uint32(32 - bits)
        counts = np.bincount(hashes >> self._shift, minlength=1 << bits)
        self._starts, self._most = np.cumsum(counts) - counts, int(counts.max())
        self._bounded = np.append(hashes, np.uint32(0xFFFFFFFF))

    def find(
        self, asked: UInt32[np.ndarray, " asked"]
    ) -> tuple[Int64[np.ndarray, " asked"], Bool[np.ndarray, " asked"]]:
        """Return the place of each hash, that of another one where it is not there, and whether it is."""
        places = self._starts[asked >> self._shift]
        for _ in range(self._most):
            places += self._bounded[places] < asked
        np.minimum(places, len(self._hashes) - 1, out=places)
        return places, self._hashes[places] == asked


def largest(values: Float[np.ndarray, "rows columns"], num: int) -> Int64[np.ndarray, "rows num"]:
    """Return the columns of the largest values of each row, largest first; of equal ones the first comes first."""
    lowest = np.partition(values, -num, axis=1)[:, -num]
    rows, columns = np.nonzero(values >= lowest[:, None])
    order = np.lexsort((-values[rows, columns], rows))
    starts = np.searchsorted(rows, np.arange(len(values)))
    best: NDArray[np.int64] = columns[order][starts[:, None] + np.arange(num)]
    return best


def grams(text: str) -> dict[int, UInt32[np.ndarray, " num_grams"]]:
    """Return hashes of the n-grams of each order, ``(num_grams,)`` uint32, of lower-cased NFC words."""
    return {order: hashes for order, (hashes, _) in grams_of_texts([text]).items()}


def grams_of_texts(
    texts: Sequence[str],
) -> dict[int, tuple[UInt32[np.ndarray, " num_grams"], Int64[np.ndarray, " num_grams"]]]:
    """Return hashes of the n-grams of each order, and the number of the text of each, in the order of the texts."""
    padded = [
        f" {' '.join(_NOT_LETTERS.sub(' ', unicodedata.normalize('NFC', text.lower())).split())} "
        for text in texts
    ]
    stored = "".join(padded).encode("utf-32-le", "replace")
    points = np.frombuffer(stored, dtype=np.uint32).astype(np.uint64)
    lengths = np.fromiter(map(len, padded), dtype=np.int64, count=len(padded))
    owners, ends = np.repeat(np.arange(len(texts)), lengths), np.cumsum(lengths)
    is_space = points == _SPACE
    by_order = dict[int, tuple[Hashes, NDArray[np.int64]]]()
    rolling_hash = np.zeros(len(points), dtype=np.uint64)
    has_inner_space = np.zeros(len(points), dtype=bool)  # a space between the first and the last character
    for order in _NUM_GRAMS_OF_ORDERS:
        num = len(points) - order + 1
        if num < 1:
            break
        rolling_hash = (rolling_hash[:num] * _MULTIPLIER) + points[order - 1 :]
        if order > 2:  # texts begin and end with a space, so longer n-grams of two texts have one inside
            has_inner_space = has_inner_space[:num] | is_space[order - 2 : order - 2 + num]
        keep = ~has_inner_space[:num] if order > 1 else ~is_space
        if order == 2:
            keep[ends[:-1] - 1] = False
        hashes = (rolling_hash[keep] + np.uint64(order)) * _MIXER
        hashes = ((hashes ^ (hashes >> np.uint64(29))) >> np.uint64(32)).astype(np.uint32)
        by_order[order] = hashes, owners[:num][keep]
    return by_order


@dataclass(frozen=True)
class NgramModel:
    """N-grams of several languages.

    Attributes:
        langs: codes of the languages.
        hashes: sorted different n-grams, ``(num_grams,)`` uint32.
        ends: where the languages of each n-gram end in the next two, ``(num_grams,)`` int64.
        lang_of: number of a language, ``(num_entries,)`` uint16.
        gain: logarithm of the frequency over `MIN_FREQUENCY` in the language, ``(num_entries,)`` float32.
        num_chars: characters that the model has read of each language, ``(num_langs,)`` int64.
    """

    langs: tuple[str, ...]
    hashes: UInt32[np.ndarray, " num_grams"]
    ends: Int64[np.ndarray, " num_grams"]
    lang_of: UInt16[np.ndarray, " num_entries"]
    gain: Float32[np.ndarray, " num_entries"]
    num_chars: Int64[np.ndarray, " num_langs"]

    def scores(
        self, texts: Sequence[str]
    ) -> tuple[Float64[np.ndarray, "num_texts num_langs"], Int64[np.ndarray, " num_texts"]]:
        """Return the mean gain of each text per language, ``(num_texts, num_langs)``, and its number of n-grams.

        Both are 0 without letters.
        """
        sums = np.zeros((len(texts), len(self.langs)))
        num_grams = np.zeros(len(texts), dtype=np.int64)
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            block = slice(first, min(first + _TEXTS_AT_ONCE, len(texts)))
            sums[block], num_grams[block] = self._gain_sums(texts[block])
        return sums / np.maximum(1, num_grams)[:, None], num_grams

    def _gain_sums(
        self, texts: Sequence[str]
    ) -> tuple[Float64[np.ndarray, "num_texts num_langs"], Int64[np.ndarray, " num_texts"]]:
        """Return the sum of the gains of each text per language, ``(num_texts, num_langs)``, and its n-grams."""
        by_order = grams_of_texts(texts).values()
        hashes = np.concatenate([np.zeros(0, dtype=np.uint32), *(each for each, _ in by_order)])
        owners = np.concatenate([np.zeros(0, dtype=np.int64), *(each for _, each in by_order)])
        num_grams = np.bincount(owners, minlength=len(texts))
        positions, is_known = self._finder.find(hashes)
        positions, owners = positions[is_known], owners[is_known]
        order = np.argsort(owners.astype(np.uint16), kind="stable")  # of 16 bits no comparisons are needed
        positions, text_of = positions[order], owners[order]
        sums = np.zeros((len(texts), len(self.langs)))
        for table, rows in self._gain_tables:
            row = rows[positions]
            is_here = row >= 0
            starts = np.searchsorted(text_of[is_here], np.arange(len(texts) + 1)).astype(np.int32)
            chosen = row[is_here]
            # Gains of files are multiples of 1/12 in 24 bits, so that these sums are exact in any order.
            counted = scipy.sparse.csr_array(
                (np.ones(len(chosen)), chosen, starts), shape=(len(texts), table.shape[0])
            )
            sums += counted @ table
        return sums, num_grams

    @cached_property
    def _gain_tables(self) -> tuple[tuple[Any, Int32[np.ndarray, " num_grams"]], ...]:
        """The gains of n-grams of many languages and of few, and the row of each n-gram there, -1 without one.

        The first is an array with a column a language, which is faster, the second a sparse one.
        """
        lengths = self.ends - self._entry_starts
        tables = []
        for is_chosen in (lengths >= _MANY_LANGS, lengths < _MANY_LANGS):
            entries = np.repeat(is_chosen, lengths)
            ends = np.append(0, np.cumsum(lengths[is_chosen])).astype(np.int32)
            gain, langs = self.gain[entries].astype(np.float64), self.lang_of[entries].astype(np.int32)
            table = scipy.sparse.csr_array((gain, langs, ends), shape=(len(ends) - 1, len(self.langs)))
            tables.append((table, np.where(is_chosen, np.cumsum(is_chosen) - 1, -1).astype(np.int32)))
        return (tables[0][0].toarray(), tables[0][1]), tables[1]

    def sums_in_order(
        self,
        hashes: UInt32[np.ndarray, " num_grams"],
        owners: Int64[np.ndarray, " num_grams"],
        num_texts: int,
    ) -> Float32[np.ndarray, "num_texts num_langs"]:
        """Return the sums of the gains of texts, added up in float32 in the order of the n-grams of each text."""
        order = np.argsort(owners.astype(np.uint16), kind="stable")
        hashes, owners = hashes[order], owners[order]
        places, is_known = self._finder.find(hashes)
        places, owners = places[is_known], owners[is_known]
        is_used = np.zeros(len(self.hashes), dtype=bool)
        is_used[places] = True
        table = self.gains(self.hashes[is_used])
        counted = scipy.sparse.csr_array(
            (
                np.ones(len(places), dtype=np.float32),
                (np.cumsum(is_used) - 1)[places],
                np.searchsorted(owners, np.arange(num_texts + 1)),
            ),
            shape=(num_texts, len(table)),
        )
        sums: NDArray[np.float32] = counted @ table
        return sums

    def gains(self, hashes: UInt32[np.ndarray, " num_hashes"]) -> Float32[np.ndarray, "num_hashes num_langs"]:
        """Return the gain of each n-gram in every language, ``(num_hashes, num_langs)``; 0 where it has none."""
        entries, repeats = self._entries_of(hashes)
        table = np.zeros((len(hashes), len(self.langs)), np.float32)
        table[np.repeat(np.arange(len(hashes)), repeats), self.lang_of[entries]] = self.gain[entries]
        return table

    def _entries_of(
        self, hashes: UInt32[np.ndarray, " num_hashes"]
    ) -> tuple[Int64[np.ndarray, " num_entries"], Int64[np.ndarray, " num_hashes"]]:
        """Return the table entries of some n-grams, one after the other, and how many each has."""
        places, is_known = self._finder.find(hashes)
        ends = self.ends[places]
        lengths = np.where(is_known, ends - self._entry_starts[places], 0)
        shifts = ends - np.cumsum(lengths)
        return np.arange(lengths.sum()) + np.repeat(shifts, lengths), lengths

    @cached_property
    def _finder(self) -> SortedHashes:
        return SortedHashes(self.hashes)

    @cached_property
    def _entry_starts(self) -> Int64[np.ndarray, " num_grams"]:
        return np.concatenate([np.zeros(1, dtype=np.int64), self.ends[:-1]])

    def probabilities(self, texts: Sequence[str], max_langs: int = 5) -> list[list[tuple[str, float]]]:
        """Return the most likely languages of each text with their probabilities, best first; none without letters."""
        scores, num_grams = self.scores(texts)
        exponents = _SHARPNESS * np.sqrt(num_grams)[:, None] * (scores - scores.max(axis=1, keepdims=True))
        shares = np.exp(exponents)
        shares /= shares.sum(axis=1, keepdims=True)
        best = largest(shares, min(max_langs, len(self.langs)))
        values = np.take_along_axis(shares, best, axis=1).tolist()
        return [
            [(self.langs[i], share) for i, share in zip(chosen, row, strict=True)]
            if num and some.any()
            else []
            for chosen, row, num, some in zip(best.tolist(), values, num_grams.tolist(), scores, strict=True)
        ]

    def save(self, path: Path) -> None:
        """Write the model; equal models give equal bytes."""
        order = np.concatenate([np.diff(self.hashes.astype(np.int64), prepend=0)]).astype(np.uint32)
        lengths = np.diff(self.ends, prepend=0).astype(np.uint16)
        with path.open("wb") as handle:
            np.savez_compressed(
                handle,
                langs=np.array(self.langs),
                steps=order,
                lengths=lengths,
                lang_of=self.lang_of,
                gain=np.round(np.clip(self.gain, 0, MAX_GAIN) * 12).astype(np.uint8),
                num_chars=self.num_chars,
            )


def load(path: Path) -> NgramModel:
    """Return the model in a file.

    Raises:
        UserError: there is none, or it is another kind of file.
    """
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            return NgramModel(
                tuple(file["langs"].tolist()),
                np.cumsum(file["steps"].astype(np.int64)).astype(np.uint32),
                np.cumsum(file["lengths"].astype(np.int64)),
                file["lang_of"],
                file["gain"].astype(np.float32) / 12,
                # Older files do not record how much text was read; it was enough then.
                file["num_chars"] if "num_chars" in file else np.full(len(file["langs"]), 1 << 62),
            )
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise UserError(
            f"{path} is not an n-gram model: {error}", "a file that xling corpus langid-train made"
        ) from None


def train(texts: Mapping[str, Iterable[str]], max_chars: int, size: float = 1.0) -> NgramModel:
    """Train the model from texts in each language.

    Args:
        texts: language -> texts, of which the first ``max_chars`` characters are read.
        max_chars: of each language, so that counts are of a size.
        size: times the n-grams that are kept by default.
    """
    grams_of_langs: _GramsByLang = {}
    for lang in sorted(texts):
        hashes, gains = [np.zeros(0, dtype=np.uint32)], [np.zeros(0)]
        counted, num_chars = _count_grams(texts[lang], max_chars)
        for order, (values, counts) in counted.items():
            best = np.argsort(-counts, kind="stable")[: int(size * _NUM_GRAMS_OF_ORDERS[order])]
            hashes.append(values[best])
            gains.append(np.log(counts[best] / counts.sum() / MIN_FREQUENCY))
        if len(hashes) == 1:
            raise UserError(f"no word in the text of {lang}", fix="give other files")
        # Hashes of two orders may be equal.
        values, places = np.unique(np.concatenate(hashes), return_index=True)
        grams_of_langs[lang] = (
            values,
            np.clip(np.concatenate(gains)[places], 0, MAX_GAIN).astype(np.float32),
            num_chars,
        )
    return _assemble(grams_of_langs)


def merged(model: NgramModel, base: NgramModel) -> NgramModel:
    """Return ``model`` with the languages of ``base`` that it lacks added."""
    return _assemble(_grams_by_lang(base) | _grams_by_lang(model))


def _grams_by_lang(model: NgramModel) -> _GramsByLang:
    hashes = np.repeat(model.hashes, np.diff(model.ends, prepend=0))
    chosen = {lang: model.lang_of == number for number, lang in enumerate(model.langs)}
    return {
        lang: (hashes[mine], model.gain[mine], int(num_chars))
        for (lang, mine), num_chars in zip(chosen.items(), model.num_chars, strict=True)
    }


def _assemble(grams_of_langs: _GramsByLang) -> NgramModel:
    langs = sorted(grams_of_langs)
    all_hashes = np.concatenate([grams_of_langs[lang][0] for lang in langs])
    gain = np.concatenate([grams_of_langs[lang][1] for lang in langs])
    lang_of = np.repeat(
        np.arange(len(langs), dtype=np.uint16), [len(grams_of_langs[lang][0]) for lang in langs]
    )
    by_hash = np.lexsort((lang_of, all_hashes))
    unique, lengths = np.unique(all_hashes[by_hash], return_counts=True)
    num_chars = np.array([grams_of_langs[lang][2] for lang in langs], dtype=np.int64)
    return NgramModel(tuple(langs), unique, np.cumsum(lengths), lang_of[by_hash], gain[by_hash], num_chars)


def _count_grams(
    texts: Iterable[str], max_chars: int
) -> tuple[dict[int, tuple[Hashes, NDArray[np.int64]]], int]:
    """Return the distinct n-grams of each order with their counts, and the number of characters read."""
    parts: dict[int, list[Hashes]] = {}
    num_chars = 0
    for text in texts:
        for order, hashes in grams(text).items():
            parts.setdefault(order, []).append(hashes)
        num_chars += len(text)
        if num_chars >= max_chars:
            break
    counted = {
        order: np.unique(np.concatenate(hashes), return_counts=True)
        for order, hashes in sorted(parts.items())
    }
    return counted, num_chars
