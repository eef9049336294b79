"""Word pairs of a bitext as numbered parameters, and EM for IBM model 1, in numpy and batched over sentences.

Sentences are grouped by length into batches whose cells (target word, source word) hold parameter numbers, so that an
iteration is a gather, a normalisation and a histogram. Translation probabilities carry a sparse Dirichlet prior whose
posterior is found by variational Bayes; it keeps rare words from collecting everything. Lexicons that need no links
are learned by `xling.corpora.common.model1`.

Source: Brown et al. 1993, model 1; Riley and Gildea 2012 (variational Bayes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded when they are used

from xling.array_types import Bool, Float, Float32, Int32, Int64

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

# The first two parameters stand for padding: a padded target word comes from NULL with certainty.
PAD_WORD, PAD_NULL, NUM_PADS = 0, 1, 2
_MAX_CELLS = 1 << 20


@dataclass(frozen=True)
class EncodedSentences:
    """Sentences as one array of word ids with their borders.

    Attributes:
        ids: int32 (num_words,), from 1; 0 is NULL.
        starts: int64 (num_sentences + 1,); sentence ``s`` is ``ids[starts[s]:starts[s + 1]]``.
        num_types: largest id + 1.
    """

    ids: Int32[np.ndarray, " words"]
    starts: Int64[np.ndarray, " borders"]
    num_types: int

    @property
    def lengths(self) -> Int64[np.ndarray, " sentences"]:
        """Words per sentence, int64 (num_sentences,)."""
        return np.diff(self.starts)


def encode(sentences: Sequence[Sequence[str]]) -> EncodedSentences:
    """Number the words of ``sentences`` in order of appearance, lower-cased, from 1."""
    index: dict[str, int] = {}
    ids = [index.setdefault(word.lower(), len(index) + 1) for words in sentences for word in words]
    starts = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
    return EncodedSentences(np.array(ids, dtype=np.int32), starts, len(index) + 1)


@dataclass(frozen=True)
class Batch:
    """B sentences of one source length I, padded to J words on the target side.

    Attributes:
        rows: int64 (B,), sentence numbers.
        src: int32 (B, I), source word ids.
        cells: int32 (J, B, I), parameter number of each (target word, source word).
        null_cells: int32 (J, B), parameter number of each (target word, NULL).
    """

    rows: Int64[np.ndarray, " batch"]
    src: Int32[np.ndarray, "batch src"]
    cells: Int32[np.ndarray, "tgt batch src"]
    null_cells: Int32[np.ndarray, "tgt batch"]

    @property
    def is_word(self) -> Bool[np.ndarray, "tgt batch"]:
        """Mask of target words without padding, bool (J, B)."""
        return self.null_cells != PAD_NULL


class Lexicon:
    """The translation table t(f | e) over the word pairs that occur together.

    Args:
        src: source sentences.
        tgt: target sentences.
        rows: int64 (n,), the sentences to collect word pairs from; none may be empty on a side.

    Attributes:
        batches: the sentences with their parameter numbers.
        probabilities: float32 (num_parameters,).
        src_of: int32 (num_parameters,), source word id of each parameter.
        num_src: number of source word types, NULL included.
        num_tgt: number of target word types + 1.
    """

    def __init__(
        self, src: EncodedSentences, tgt: EncodedSentences, rows: Int64[np.ndarray, " sentences"]
    ) -> None:
        self.num_src, self.num_tgt = src.num_types, tgt.num_types
        groups = list(group_by_length(src, tgt, rows))
        padded_groups = [pad_sentences(src, tgt, group) for group in groups]
        keys = [self._pair_keys(e, f) for e, f in padded_groups]
        unique_keys, numbers = np.unique(np.concatenate([k.ravel() for k in keys]), return_inverse=True)
        num_below = int(np.searchsorted(unique_keys, 0))
        self.src_of = np.concatenate([[0, 0], unique_keys[num_below:] // self.num_tgt]).astype(np.int32)
        self.probabilities = np.full(len(self.src_of), 1.0 / self.num_tgt, dtype=np.float32)
        self.probabilities[PAD_WORD], self.probabilities[PAD_NULL] = 0.0, 1.0
        numbers = (numbers - num_below + NUM_PADS).astype(np.int32)
        parts = np.split(numbers, np.cumsum([k.size for k in keys])[:-1])
        self.batches = []
        for group, (e, f), part in zip(groups, padded_groups, parts, strict=True):
            table = part.reshape(len(f), len(group), e.shape[1] + 1)
            table[f == 0] = PAD_WORD
            nulls = np.where(f == 0, PAD_NULL, table[:, :, 0]).astype(np.int32)
            self.batches.append(Batch(group, e, np.ascontiguousarray(table[:, :, 1:]), nulls))

    def _pair_keys(self, e: Ints, f: Ints) -> Longs:
        """Return pair keys (J, B, 1 + I): NULL first, then the source words; -1 on padding."""
        with_null = np.concatenate([np.zeros((len(e), 1), np.int64), e.astype(np.int64)], axis=1)
        return np.where(f[:, :, None] > 0, with_null[None] * self.num_tgt + f[:, :, None], -1)

    def update_probabilities(self, counts: Float[np.ndarray, " parameters"], prior: float) -> None:
        """Set t(f | e) to the mean-field posterior under a symmetric Dirichlet (Riley and Gildea, eq. 6)."""
        totals = np.bincount(self.src_of[NUM_PADS:], weights=counts[NUM_PADS:], minlength=self.num_src)
        log_total = scipy.special.digamma(totals + prior * self.num_tgt)
        probabilities = np.exp(scipy.special.digamma(counts + prior) - log_total[self.src_of])
        self.probabilities = np.maximum(probabilities, 1e-12).astype(np.float32)
        self.probabilities[PAD_WORD], self.probabilities[PAD_NULL] = 0.0, 1.0


def pad_sentences(
    src: EncodedSentences, tgt: EncodedSentences, rows: Int64[np.ndarray, " batch"]
) -> tuple[Int32[np.ndarray, "batch src"], Int32[np.ndarray, "tgt batch"]]:
    """Return source ids (B, I) of sentences of one source length, target ids (J, B) padded with 0."""
    e = src.ids[src.starts[rows][:, None] + np.arange(int(src.lengths[rows[0]]))]
    widths = tgt.lengths[rows]
    places = np.arange(int(widths.max()))[:, None]
    inside = places < widths[None]
    f = np.where(inside, tgt.ids[np.where(inside, tgt.starts[rows][None] + places, 0)], 0)
    return e, f.astype(np.int32)


def group_by_length(
    src: EncodedSentences, tgt: EncodedSentences, rows: Int64[np.ndarray, " sentences"]
) -> Iterator[Int64[np.ndarray, " _"]]:
    """Group ``rows`` by source length and similar target length, a bounded number of cells a group."""
    src_lengths, tgt_lengths = src.lengths[rows], tgt.lengths[rows]
    order = np.lexsort((rows, tgt_lengths, src_lengths))
    rows, src_lengths, tgt_lengths = rows[order], src_lengths[order], tgt_lengths[order]
    start = 0
    for end in range(1, len(rows) + 1):
        if end < len(rows):
            similar = (
                src_lengths[end] == src_lengths[start] and tgt_lengths[end] <= 1.3 * tgt_lengths[start] + 2
            )
            if similar and (end - start + 1) * src_lengths[end] * tgt_lengths[end] <= _MAX_CELLS:
                continue
        yield rows[start:end]
        start = end


def posterior(
    batch: Batch, probabilities: Float32[np.ndarray, " parameters"], null_prior: float
) -> tuple[Float32[np.ndarray, "tgt batch src"], Float32[np.ndarray, "tgt batch"]]:
    """Return posterior (J, B, I) of the source words and (J, B) of NULL under model 1."""
    word_probabilities = probabilities[batch.cells] * np.float32((1 - null_prior) / batch.cells.shape[2])
    null_probabilities = probabilities[batch.null_cells] * np.float32(null_prior)
    total = word_probabilities.sum(axis=2) + null_probabilities
    word_probabilities /= total[:, :, None]
    return word_probabilities, null_probabilities / total


def train(
    lexicon: Lexicon, iterations: int, prior: float, null_prior: float
) -> list[Int32[np.ndarray, "_ _"]]:
    """Run EM on ``lexicon`` and return the best links of the last iteration.

    Returns:
        For each batch int32 (J, B): the source position of every target word, -1 for NULL or padding.
    """
    links: list[Ints] = []
    for iteration in range(iterations):
        counts = np.zeros(len(lexicon.probabilities))
        numbers: list[Ints] = []
        weights: list[Floats] = []
        for position, batch in enumerate(lexicon.batches):
            word_probabilities, null_probabilities = posterior(batch, lexicon.probabilities, null_prior)
            numbers += [batch.cells.ravel(), batch.null_cells.ravel()]
            weights += [word_probabilities.ravel(), null_probabilities.ravel()]
            # A histogram touches every parameter, so it is taken over many batches at a time.
            if position % 256 == 255 or position == len(lexicon.batches) - 1:
                counts += np.bincount(np.concatenate(numbers), np.concatenate(weights), len(counts))
                numbers, weights = [], []
            if iteration == iterations - 1:
                best = word_probabilities.argmax(axis=2).astype(np.int32)
                best[null_probabilities > word_probabilities.max(axis=2)] = -1
                links.append(best)
        lexicon.update_probabilities(counts, prior)
    return links
