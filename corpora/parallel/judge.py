"""Whether the sides of a pair say the same: a lexicon and classifiers that a corpus gives itself.

The lexicon is trained on the pairs themselves, in folds, so that no pair is judged by what it taught. Damage of eight
kinds is planted into a sample, and classifiers learn to tell it from the corpus.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.corpora.parallel import lexical, traits, verdicts
from xling.corpora.parallel.lexical import Lexicon, Tokens
from xling.corpora.parallel.planted import KINDS, Clean, Pair
from xling.corpora.parallel.verdicts import Classifier

if TYPE_CHECKING:
    from jaxtyping import Float64, Int64

GROUPS = {
    "foreign_words": ("half untranslated", "gibberish"),
    "unrelated": ("misaligned", "random"),
    "partial": ("extra sentence", "missing sentence", "half target"),
    "disordered": ("shuffled",),
}
"""What is wrong with a pair -> kinds of planted damage that a classifier learns it from."""
MIN_PAIRS = 200
_SAMPLE, _SMALL, _CLEAN, _DAMAGED = 20_000, 4_000, 4_000, 300
_FOLDS = {True: 5, False: 2}  # few pairs are cut into more folds, so that each lexicon sees most of them
_Sides = tuple[Tokens, Tokens, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Judge:
    """Lexicons and classifiers of one pair of languages.

    Attributes:
        lexicons: one a fold; a pair is judged by that of its own fold, which has not seen it.
        classifiers: one for each of `GROUPS`.
    """

    lexicons: tuple[Lexicon, ...]
    classifiers: tuple[Classifier, ...]

    def odds(self, pairs: pl.DataFrame) -> Float64[np.ndarray, "pairs groups"]:
        """Log odds that each pair is damaged in each way of `GROUPS`, float64 (num_pairs, num_groups)."""
        return _odds(self.classifiers, measured(self.lexicons, pairs))

    def save(self, path: Path) -> None:
        """Write the judge as one file of numpy arrays; it appears whole or not at all."""
        arrays = {
            f"{number}.{name}": array
            for number, lexicon in enumerate(self.lexicons)
            for name, array in lexicon.arrays().items()
        }
        facts = {
            "folds": len(self.lexicons),
            "classifiers": [each.to_json() for each in self.classifiers],
        }
        temporary = path.with_name(f".{path.name}.tmp.npz")
        np.savez_compressed(temporary, allow_pickle=False, facts=np.array(json.dumps(facts)), **arrays)
        temporary.rename(path)

    @staticmethod
    def load(path: Path) -> Judge:
        """Read a judge from the file that `save` wrote.

        Raises:
            UserError: no such file, or another kind of file.
        """
        try:
            with np.load(path, allow_pickle=False) as held:
                facts = json.loads(str(held["facts"]))
                lexicons = [
                    Lexicon.from_arrays({name: held[f"{number}.{name}"] for name in lexical.ARRAYS})
                    for number in range(facts["folds"])
                ]
            classifiers = tuple(Classifier.from_json(each) for each in facts["classifiers"])
            return Judge(tuple(lexicons), classifiers)
        except (OSError, ValueError, KeyError, EOFError, TypeError) as error:
            raise UserError(
                f"{path} holds no tables of word pairs: {error}",
                "judge.npz of `xling align`",
                "check tables=",
            ) from None


def train(pairs: pl.DataFrame, seed: int = 1) -> Judge | None:
    """Learn from sentence pairs; None where there are fewer than `MIN_PAIRS`.

    Args:
        pairs: with the columns ``src`` and ``tgt``; of many 20,000 are read.
        seed: of the planted damage.
    """
    if pairs.height < MIN_PAIRS:
        return None
    rows = np.linspace(0, pairs.height - 1, min(_SAMPLE, pairs.height)).astype(np.int64)
    sample = pairs[rows]
    count = _FOLDS[sample.height < _SMALL]
    fold = fold_of(sample, count)
    src, tgt, _ = _sides(sample)
    lexicons = []
    for number in range(count):
        others = np.flatnonzero(fold != number)
        lexicons.append(lexical.train(src.take(others), tgt.take(others)))
    spread = np.linspace(0, sample.height - 1, min(_CLEAN, sample.height)).astype(np.int64)
    corpus, damaged = measured(lexicons, sample[spread]), _damaged(sample, fold, lexicons, seed)
    classifiers = tuple(
        verdicts.train(corpus, np.concatenate([damaged[kind] for kind in kinds])) for kinds in GROUPS.values()
    )
    return Judge(tuple(lexicons), classifiers)


def beliefs(odds: Float64[np.ndarray, "pairs groups"]) -> Float64[np.ndarray, " pairs"]:
    """The belief that each pair is whole, in [0, 1], by the worst of its log odds."""
    belief: npt.NDArray[np.float64] = 1 / (1 + np.exp(np.clip(odds.max(axis=1), -50, 50)))
    return belief


def fold_of(pairs: pl.DataFrame, count: int) -> Int64[np.ndarray, " pairs"]:
    """The fold of each pair, by its source text, so that copies are in one fold; int64 (num_pairs,)."""
    return (pairs["src"].hash(6).to_numpy() % np.uint64(count)).astype(np.int64)


def measured(
    lexicons: tuple[Lexicon, ...] | list[Lexicon], pairs: pl.DataFrame
) -> Float64[np.ndarray, "pairs traits"]:
    """The traits of each pair by the lexicon of its fold, float64 (num_pairs, num_traits)."""
    values = np.zeros((pairs.height, len(traits.NAMES)))
    fold = fold_of(pairs, len(lexicons))
    src, tgt, chars = _sides(pairs)
    for number, lexicon in enumerate(lexicons):
        rows = np.flatnonzero(fold == number)
        values[rows] = traits.measure(lexicon, src.take(rows), tgt.take(rows), chars[rows])
    return values


def _sides(pairs: pl.DataFrame) -> _Sides:
    chars = pairs.select(pl.col("src", "tgt").str.len_chars().cast(pl.Float64)).to_numpy()
    return lexical.tokens(pairs["src"]), lexical.tokens(pairs["tgt"]), chars


def _damaged(
    sample: pl.DataFrame, fold: npt.NDArray[np.int64], lexicons: list[Lexicon], seed: int
) -> dict[str, npt.NDArray[np.float64]]:
    """Kind of damage -> traits of pairs of a fold damaged so, by the lexicon that has seen none of the fold."""
    random = rng(seed, "judge")
    by_kind: dict[str, list[npt.NDArray[np.float64]]] = {
        kind: [] for kinds in GROUPS.values() for kind in kinds
    }
    for number, lexicon in enumerate(lexicons):
        own = sample.filter(pl.Series(fold == number))
        clean = Clean(list(own.select("src", "tgt").iter_rows()))
        for kind, parts in by_kind.items():
            chosen = random.permutation(own.height)[: -(-_DAMAGED // len(lexicons))]
            pairs: list[Pair] = [pair for i in chosen.tolist() if (pair := KINDS[kind](i, clean, random))]
            table = pl.DataFrame(pairs, {"src": pl.String, "tgt": pl.String}, orient="row")
            parts.append(traits.measure(lexicon, *_sides(table)))
    return {kind: np.concatenate(parts) for kind, parts in by_kind.items()}


def _odds(classifiers: tuple[Classifier, ...], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.stack([each.odds(values) for each in classifiers], axis=1)
