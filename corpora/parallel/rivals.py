"""Whether texts of other pairs fit a side better than its own partner does.

How well the words of a pair fit says little by itself where few words are known. So each side is compared with a sample
of the other language: a right partner fits better than all of these, also if it fits badly.

Source: Artetxe and Schwenk 2019 (margin), here with the lexicon in place of an encoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded when they are used

from xling.corpora.parallel import lexical
from xling.corpora.parallel.lexical import Counts, Lexicon, Tokens

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, UInt64

NAMES = ("src_lead", "tgt_lead", "worse_lead")
"""Of which `measure` gives the values."""
_MOST = 1000  # texts of a language that a side is compared with
_BITS = 18  # words are numbered by so many bits of their hashes
_ROWS = 500
_LEAST = 0.5  # a word is linked to another one if it is so much likelier beside it than anywhere
_NO_RIVAL = -20.0
_MIX = np.uint64(0x9E3779B97F4A7C15)
Sparse = Any  # scipy has no types


@dataclass(frozen=True)
class Words:
    """The words of one language and those of the other that stand for them.

    Words are numbered by `_BITS` bits of their hashes.

    Attributes:
        links: csr (num_words, num_words), how much likelier a word of the other language is beside a word of this one.
        plain: float32 (num_words,), the same for words that are not linked.
        same: float32 (num_words,), what is added if the word is the same.
    """

    links: Sparse
    plain: Float32[np.ndarray, " words"]
    same: Float32[np.ndarray, " words"]


@dataclass(frozen=True)
class Texts:
    """Texts of one language beside the words of the other.

    Attributes:
        keys: uint64 (num_texts,), hashes by which equal texts are found.
        shares: csr (num_texts, num_words), each word's share of the text.
        logs: csr (num_texts, num_words), log of how much likelier than ``bases`` a word of the other language is.
        bases: float64 (num_texts,), log of how much likelier a word without a link is beside the text than anywhere.
    """

    keys: UInt64[np.ndarray, " texts"]
    shares: Sparse
    logs: Sparse
    bases: Float64[np.ndarray, " texts"]

    @staticmethod
    def read(side: Tokens, words: Words) -> Texts:
        """Compare texts with the words of the other language."""
        shares = _shares(side)
        ratios = (shares @ words.links + shares.multiply(words.same[None, :])).tocsr()
        least = lexical.NULL + (1 - lexical.NULL) * (shares @ words.plain).astype(np.float64)
        owners = np.repeat(np.arange(len(least)), np.diff(ratios.indptr))
        ratios.data = np.log1p((1 - lexical.NULL) * ratios.data / least[owners]).astype(np.float32)
        return Texts(_keys(side), shares, ratios, np.log(least))

    def fit(self, others: Texts) -> Float64[np.ndarray, "texts others"]:
        """How well each text fits each of the other language: the mean over words of both log ratios, added up."""
        mine = (self.logs @ others.shares.T).toarray() + self.bases[:, None]
        fits: npt.NDArray[np.float64] = mine + (self.shares @ others.logs.T).toarray() + others.bases[None, :]
        return fits

    def fit_of_pairs(self, others: Texts) -> Float64[np.ndarray, " texts"]:
        """The same of each text and the one of ``others`` with its number alone."""
        mine = self.logs.multiply(others.shares).sum(axis=1) + self.bases
        fits: npt.NDArray[np.float64] = mine + self.shares.multiply(others.logs).sum(axis=1) + others.bases
        return fits


@dataclass(frozen=True)
class Rivals:
    """A sample of texts of both languages, and the words by which they are judged.

    Attributes:
        texts: of the source side and of the target side.
        words: likewise.
    """

    texts: tuple[Texts, Texts]
    words: tuple[Words, Words]


def sample(side: Tokens) -> Tokens:
    """Return at most 1,000 texts of one side, at equal distances."""
    return side.take(np.linspace(0, len(side.lengths) - 1, min(_MOST, len(side.lengths))).astype(np.int64))


def train(lexicon: Lexicon, src: Tokens, tgt: Tokens) -> Rivals:
    """Prepare a `sample` of both sides, each text of which may be a rival.

    Args:
        lexicon: of other pairs than those that are measured later.
        src: source sides of the sample.
        tgt: target sides.
    """
    words = _words(lexicon, 0), _words(lexicon, 1)
    return Rivals((Texts.read(src, words[0]), Texts.read(tgt, words[1])), words)


def measure(rivals: Rivals, src: Tokens, tgt: Tokens) -> Float64[np.ndarray, "pairs traits"]:
    """Return the values of `NAMES` for each pair, float64 (num_pairs, 3).

    They are how much better a pair fits than the source side and the best other target, than the target side and the
    best other source, and the lesser of both.
    """
    parts = []
    for first in range(0, len(src.lengths), _ROWS):
        rows = np.arange(first, min(first + _ROWS, len(src.lengths)))
        parts.append(_measured(rivals, src.take(rows), tgt.take(rows)))
    return np.concatenate(parts) if parts else np.zeros((0, len(NAMES)))


def _measured(rivals: Rivals, src: Tokens, tgt: Tokens) -> npt.NDArray[np.float64]:
    sides = Texts.read(src, rivals.words[0]), Texts.read(tgt, rivals.words[1])
    own = sides[0].fit_of_pairs(sides[1])
    leads = []
    for side in (0, 1):
        partner, others = sides[1 - side], rivals.texts[1 - side]
        fits = sides[side].fit(others)
        is_itself = partner.keys[:, None] == others.keys[None, :]
        fits[is_itself] = _NO_RIVAL
        leads.append(own - fits.max(axis=1))
    return np.stack([*leads, np.minimum(*leads)], axis=1)


def _words(lexicon: Lexicon, side: int) -> Words:
    mine, others = ((lexicon.src, lexicon.tgt)[number] for number in (side, 1 - side))
    often = (_by_bucket(others, 0) + 0.5) / (lexicon.sizes[1 - side] + 0.5)
    times = _by_bucket(mine, 1) + lexical.SMOOTHING
    start, end = (_bucket(lexicon.ends[:, number]) for number in (side, 1 - side))
    ratio = lexicon.links.values[:, side] / (times[start] * often[end])
    many = ratio >= _LEAST
    cells = ratio[many].astype(np.float32), (start[many], end[many])
    links = scipy.sparse.coo_array(cells, (1 << _BITS, 1 << _BITS)).tocsr()
    plain = lexical.SMOOTHING / times
    return Words(links, plain.astype(np.float32), (lexical.SAME * plain / often).astype(np.float32))


def _bucket(ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    return ((ids * _MIX) >> np.uint64(64 - _BITS)).astype(np.int64)


def _by_bucket(counts: Counts, column: int) -> npt.NDArray[np.float64]:
    return np.bincount(_bucket(counts.keys), counts.values[:, column], 1 << _BITS).astype(np.float64)


def _shares(side: Tokens) -> Sparse:
    values = (1 / np.maximum(side.lengths, 1))[side.owners].astype(np.float32)
    shape = (len(side.lengths), 1 << _BITS)
    # The sum of double cells is made in place.
    shares = scipy.sparse.csr_array((values, _bucket(side.ids), side.starts.copy()), shape)
    shares.sum_duplicates()
    return shares


def _keys(side: Tokens) -> npt.NDArray[np.uint64]:
    places = (np.arange(len(side.ids)) - side.starts[side.owners] + 1).astype(np.uint64)
    mixed = (side.ids ^ places * np.uint64(0xD6E8FEB86659FD93)) * _MIX
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    keys: npt.NDArray[np.uint64] = total[side.starts[1:]] - total[side.starts[:-1]]
    return keys
