"""Induction of a dictionary of two languages from their word vectors: seeds, then self-learning.

Seeds are words with equal spelling, including numerals, but not words of two or three letters. Those coincide
by chance (English ``a``, French ``a``) and are frequent. If there are few seeds, words of similar frequency,
position in the sentence and distances to all other words are added. Then two steps alternate: the best
rotation for the current dictionary (Procrustes), and a new dictionary of mutual best translations by CSLS
with cues of spelling, frequency and position. The spelling of one script in the other is learned from the
dictionary too. Finally the context words are compared directly: those of one language are mapped to the other
by the dictionary's likely translations, which gives a new dictionary. A rotation of few dimensions separates
kinds of words (a colour from an animal); context words separate words of one kind.

Source: Artetxe et al. 2017 (self-learning from numerals), 2018 (sorted similarities as a start); Conneau et
al. 2018 (CSLS); Smith et al. 2017 (words with equal spelling); Rapp 1999 (translated context words).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are used

from xling.array_types import Bool, Float, Float32, Int
from xling.corpora.lexicon.vectors import WordVectors, unit, unit_rows

NEIGHBOURS = 10
QUANTILES = 64
INFORMATIVE_LETTERS = 4
NUM_TRANSLATIONS = 10  # number of translations of a word that count
SOFTMAX_SHARPNESS = 10.0  # sharpness of their probabilities: a tenth of a cosine is a factor of e
CONTEXT_CUE_WEIGHT = 0.2  # factor on the cues' weights when context words are compared
EQUAL_SPELLING_WEIGHT = 0.5  # factor on the weight of spelling there, for words with equal spelling
FIRST_IDEOGRAPH = "\u2e80"  # from here on a character carries more information than a letter of an alphabet


@dataclass(frozen=True)
class Cues:
    """Weights of the cues besides the vectors, in units of cosine.

    Attributes:
        spelling: weight of similar spelling.
        frequency: weight of similar frequency.
        place: weight of similar positions in sentences.
        encoder: weight of similar vectors of a multilingual encoder, if there is one.
    """

    spelling: float = 0.5
    frequency: float = 0.05
    place: float = 0.3
    encoder: float = 2.0


def induce(
    src: WordVectors,
    tgt: WordVectors,
    cues: Cues,
    rounds: int,
    min_seeds: int,
    shared: tuple[Float[np.ndarray, "src shared"], Float[np.ndarray, "tgt shared"]] | None = None,
) -> Float[np.ndarray, "src tgt"]:
    """Return a score of each pair of words, float64 (num_src, num_tgt): the best of a row is its translation.

    ``shared`` holds vectors of both languages' words in one space. Their similarity is a cue in every round, and
    mutual best matches by it replace the seeds.
    """
    encoder_scores = 0.0 if shared is None else cues.encoder * csls(unit(shared[0]) @ unit(shared[1]).T)
    informative = np.outer(is_informative(src.words), is_informative(tgt.words))
    best = similar_spelling = spelling(src.words, tgt.words) * informative
    cue_sum = cue_scores(src, tgt, cues, similar_spelling)
    pairs = seeds(src, tgt, min_seeds) if shared is None else mutual_best(encoder_scores + cue_sum)
    scores = cue_sum
    for _ in range(rounds):
        turn = best_rotation(src.vectors[pairs[0]], tgt.vectors[pairs[1]])
        scores = csls(src.vectors @ turn @ tgt.vectors.T) + cue_sum + encoder_scores
        pairs = mutual_best(scores)
        if not len(pairs[0]):
            break
        spelt = respell(src.words, letter_mapping(src.words, tgt.words, pairs))
        if cues.spelling and spelt != src.words:
            # A short word that was respelt does not coincide with another by chance.
            changed = np.array([a != b for a, b in zip(src.words, spelt, strict=True)])
            read = spelling(spelt, tgt.words) * (informative | changed[:, None])
            best = np.maximum(similar_spelling, read)
            cue_sum = cue_scores(src, tgt, cues, best)
    cue_sum = CONTEXT_CUE_WEIGHT * cue_sum + EQUAL_SPELLING_WEIGHT * cues.spelling * (best > 0.999)
    for _ in range(rounds):
        scores = context_scores(src, tgt, scores) + cue_sum + encoder_scores
    return scores


def context_scores(
    src: WordVectors, tgt: WordVectors, scores: Float[np.ndarray, "src tgt"]
) -> Float[np.ndarray, "src tgt"]:
    """Return the similarity (CSLS) of neighbouring words, translated by ``scores``; all (num_src, num_tgt)."""
    rows, columns = src.contexts.shape[1], tgt.contexts.shape[1]
    there, backward = (
        translation_probabilities(scores[:rows, :columns]),
        translation_probabilities(scores[:rows, :columns].T),
    )
    close = unit_rows(src.contexts @ there) @ tgt.contexts.T
    close += src.contexts @ unit_rows(tgt.contexts @ backward).T
    return csls(close.astype(np.float64) / 2)


def translation_probabilities(scores: Float[np.ndarray, "src tgt"]) -> Float32[np.ndarray, "src tgt"]:
    """Return the probabilities of the best `NUM_TRANSLATIONS` of each row, 0 elsewhere, float32 (n, m)."""
    k = min(NUM_TRANSLATIONS, scores.shape[1])
    least = np.partition(scores, -k, axis=1)[:, -k][:, None]
    odds = np.where(scores >= least, np.exp(SOFTMAX_SHARPNESS * (scores - scores.max(1, keepdims=True))), 0)
    out: np.ndarray = (odds / odds.sum(1, keepdims=True)).astype(np.float32)
    return out


def letter_mapping(
    src_words: Sequence[str],
    tgt_words: Sequence[str],
    pairs: tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]],
) -> dict[str, str]:
    """Return the most frequent replacement of each letter, by position, in translations of equal length.

    So one script is read in another from the dictionary found so far; of two languages in one script a letter mostly
    stays what it is.
    """
    letter_counts: dict[str, Counter[str]] = {}
    for row, column in zip(*(side.tolist() for side in pairs), strict=True):
        if len(src_words[row]) == len(tgt_words[column]):
            for one, other in zip(src_words[row], tgt_words[column], strict=True):
                letter_counts.setdefault(one, Counter())[other] += 1
    return {one: counted.most_common(1)[0][0] for one, counted in letter_counts.items()}


def respell(words: Sequence[str], mapping: Mapping[str, str]) -> list[str]:
    """Return words with their letters replaced; letters without a mapping are kept."""
    return ["".join(mapping.get(letter, letter) for letter in word) for word in words]


def seeds(
    src: WordVectors, tgt: WordVectors, at_least: int
) -> tuple[Int[np.ndarray, " seeds"], Int[np.ndarray, " seeds"]]:
    """Return index pairs of words that serve as initial translations, int64 (n,) twice."""
    there = {word: i for i, word in enumerate(tgt.words)}
    similar_spelling = [
        (i, there[word]) for i, word in enumerate(src.words) if word in there and is_informative([word])[0]
    ]
    if len(similar_spelling) < at_least:
        src_words, tgt_words = mutual_best(-profile_distances(position_profiles(src), position_profiles(tgt)))
        similar_spelling += [
            p for p in zip(src_words.tolist(), tgt_words.tolist(), strict=True) if p not in similar_spelling
        ]
    rows = np.array(similar_spelling, dtype=np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def is_informative(words: Sequence[str]) -> Bool[np.ndarray, " words"]:
    """Return whether equal spelling in another language is informative, bool (num_words,)."""

    def is_informative(word: str) -> bool:
        is_long = len(word) >= INFORMATIVE_LETTERS or any(char >= FIRST_IDEOGRAPH for char in word)
        return is_long or not word.isalpha()

    return np.array([is_informative(word) for word in words], dtype=bool)


def position_profiles(words: WordVectors) -> Float[np.ndarray, "words features"]:
    """Return language-independent features of each word, float64 (num_words, features)."""
    near = np.sort(words.vectors @ words.vectors.T, axis=1)
    cuts = np.linspace(0, near.shape[1] - 1, QUANTILES).astype(int)
    frequency = np.log(words.counts / words.counts.sum())[:, None]
    return np.hstack([unit(near[:, cuts]), frequency, 3 * np.sqrt(words.places)])


def profile_distances(
    src_words: Float[np.ndarray, "src features"], tgt_words: Float[np.ndarray, "tgt features"]
) -> Float[np.ndarray, "src tgt"]:
    """Return squared distances between all rows, (n, m)."""
    squares = (src_words**2).sum(1)[:, None] + (tgt_words**2).sum(1)
    out: np.ndarray = squares - 2 * src_words @ tgt_words.T
    return out


def best_rotation(
    src: Float[np.ndarray, "pairs src_dim"], tgt: Float[np.ndarray, "pairs tgt_dim"]
) -> Float[np.ndarray, "src_dim tgt_dim"]:
    """Return the orthogonal map that best maps rows of ``src`` to those of ``tgt``, both (n, dim).

    Vectors of two widths are met by the map of the singular vectors that both have.
    """
    left, _, right = np.linalg.svd(src.T @ tgt, full_matrices=False)
    out: np.ndarray = left @ right
    return out


def csls(cosines: Float[np.ndarray, "src tgt"]) -> Float[np.ndarray, "src tgt"]:
    """Return twice the cosine minus the mean of each side's nearest, (n, m); Conneau et al. 2018, equation 7."""
    k = min(NEIGHBOURS, *cosines.shape)
    rows = np.partition(cosines, -k, axis=1)[:, -k:].mean(1)
    columns = np.partition(cosines, -k, axis=0)[-k:].mean(0)
    out: np.ndarray = 2 * cosines - rows[:, None] - columns
    return out


def mutual_best(
    scores: Float[np.ndarray, "src tgt"],
) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Return rows and columns that are each other's best."""
    best, back = scores.argmax(1), scores.argmax(0)
    rows = np.flatnonzero(back[best] == np.arange(len(best)))
    return rows, best[rows]


def cue_scores(
    src: WordVectors, tgt: WordVectors, cues: Cues, similar_spelling: Float[np.ndarray, "src tgt"]
) -> Float[np.ndarray, "src tgt"]:
    """Return similarities of spelling (given), frequency and position of all pairs, float (num_src, num_tgt)."""
    total = cues.spelling * similar_spelling
    rates = [np.log(words.counts / words.counts.sum()) for words in (src, tgt)]
    total -= cues.frequency * np.abs(rates[0][:, None] - rates[1])
    total -= cues.place * np.sqrt(np.maximum(profile_distances(np.sqrt(src.places), np.sqrt(tgt.places)), 0))
    return total


def spelling(src_words: Sequence[str], tgt_words: Sequence[str]) -> Float[np.ndarray, "src tgt"]:
    """Return the cosine of the counts of character 2- and 3-grams, (n, m), 0 if none is shared."""
    index: dict[str, int] = {}
    matrices = []
    for words in (src_words, tgt_words):
        rows, columns = [], []
        for row, word in enumerate(words):
            marked = f"<{word}>"
            for n in (2, 3):
                for i in range(len(marked) - n + 1):
                    rows.append(row)
                    columns.append(index.setdefault(marked[i : i + n], len(index)))
        matrices.append((rows, columns, len(words)))
    ngram_vectors = []
    for rows, columns, count in matrices:
        counts = scipy.sparse.coo_matrix((np.ones(len(rows)), (rows, columns)), (count, len(index))).tocsr()
        length = np.sqrt(counts.multiply(counts).sum(1))
        ngram_vectors.append(scipy.sparse.csr_matrix(counts.multiply(1 / length)))
    return np.asarray((ngram_vectors[0] @ ngram_vectors[1].T).todense())
