"""Whether the sides of a pair say the same: a lexicon and classifiers that a corpus gives itself.

The lexicon is trained on the pairs themselves, in folds, so that no pair is judged by what it taught. Damage of eight
kinds is added to a sample, and classifiers learn to tell it from the corpus.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.array_types import Float64, Int64
from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.corpora.parallel.clean import features, lexical, pair_classifier, written_form
from xling.corpora.parallel.clean.features import Embed, PairTexts, Tables
from xling.corpora.parallel.clean.pair_classifier import Classifier
from xling.corpora.parallel.clean.synthetic_noise import KINDS, CleanPairs, Pair

GROUPS = {
    "foreign_words": (("half untranslated", "gibberish"),),
    "unrelated": (("misaligned", "random"),),
    "partial": (("extra sentence",), ("missing sentence",), ("half target",)),
    "disordered": (("shuffled",),),
}
"""What is wrong with a pair -> for each of its classifiers the kinds of synthetic noise that it learns from.

A target that says more and one that says less are opposites, which one linear classifier cannot join.
"""
_CLASSES = tuple(kinds for classes in GROUPS.values() for kinds in classes)
MIN_PAIRS = 200
_MAX_SAMPLE, _SMALL_SAMPLE, _NUM_CLEAN, _NUM_DAMAGED = 20_000, 4_000, 4_000, 600
_ARRAYS = (*lexical.ARRAYS, *written_form.ARRAYS)
_PARTIAL_CLASSES = (2, 3, 4)  # of `_CLASSES`
_FORM_ODDS = 4.0
"""What marks and capitals add to the log odds of a partial pair, at most.

A translator who joins two sentences changes them all at once, so that they do not add up as far as they seem to.
"""
_FOLDS = {True: 5, False: 2}  # few pairs are cut into more folds, so that each lexicon sees most of them


@dataclass(frozen=True)
class Judge:
    """Tables and classifiers of one pair of languages.

    Attributes:
        tables: one a fold; a pair is judged by those of its own fold, which have not seen it.
        classifiers: those of `GROUPS`, in order.
        by_words: those of partial pairs, by all features but those of the form.
        embed: vectors of the encoder that the tables were made with; None without one.
    """

    tables: tuple[Tables, ...]
    classifiers: tuple[Classifier, ...]
    by_words: tuple[Classifier, ...]
    embed: Embed | None = None

    def odds(self, pairs: pl.DataFrame) -> Float64[np.ndarray, "pairs groups"]:
        """Log odds that each pair is damaged in each way of `GROUPS`, float64 (num_pairs, num_groups)."""
        sides, fold = PairTexts.read(pairs, self.embed), fold_of(pairs, len(self.tables))
        values = _features_by_fold(self.tables, sides, fold)
        odds = np.stack([each.odds(values) for each in self.classifiers], axis=1)
        for group, by_words in zip(_PARTIAL_CLASSES, self.by_words, strict=True):
            max_odds = by_words.odds(values[:, len(written_form.NAMES) :]) + _FORM_ODDS
            odds[:, group] = np.minimum(odds[:, group], max_odds)
        first_classes = np.cumsum([0, *(len(classes) for classes in GROUPS.values())])[:-1]
        group_odds: npt.NDArray[np.float64] = np.maximum.reduceat(odds, first_classes, axis=1)
        return group_odds

    def save(self, path: Path) -> None:
        """Write the judge as one file of numpy arrays; it appears whole or not at all."""
        arrays = {
            f"{number}.{name}": array
            for number, tables in enumerate(self.tables)
            for name, array in tables.arrays().items()
        }
        description = {
            "folds": len(self.tables),
            "classifiers": [each.to_json() for each in self.classifiers],
            "by_words": [each.to_json() for each in self.by_words],
        }
        temporary = path.with_name(f".{path.name}.tmp.npz")
        np.savez_compressed(temporary, allow_pickle=False, facts=np.array(json.dumps(description)), **arrays)
        temporary.rename(path)

    @staticmethod
    def load(path: Path) -> Judge:
        """Read a judge from the file that `save` wrote.

        Raises:
            UserError: no such file, or another kind of file.
        """
        try:
            with path.open("rb") as handle, np.load(handle, allow_pickle=False) as arrays:
                description = json.loads(str(arrays["facts"]))
                tables = [
                    Tables.from_arrays({name: arrays[f"{number}.{name}"] for name in _ARRAYS})
                    for number in range(description["folds"])
                ]
            classifiers, by_words = (
                tuple(Classifier.from_json(each) for each in description[name])
                for name in ("classifiers", "by_words")
            )
            return Judge(tuple(tables), classifiers, by_words)
        except (OSError, ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
            raise UserError(
                f"{path} holds no tables of word pairs: {error}",
                "judge.npz of `xling align`",
                "check tables=",
            ) from None


def train(pairs: pl.DataFrame, embed: Embed | None = None, seed: int = 1) -> Judge | None:
    """Learn from sentence pairs; None where there are fewer than `MIN_PAIRS`.

    Args:
        pairs: with the columns ``src`` and ``tgt``; of many 20,000 are read.
        embed: vectors of an encoder, which say how close both sides are.
    """
    if pairs.height < MIN_PAIRS:
        return None
    rows = np.linspace(0, pairs.height - 1, min(_MAX_SAMPLE, pairs.height)).astype(np.int64)
    sample = pairs[rows]
    count = _FOLDS[sample.height < _SMALL_SAMPLE]
    fold = fold_of(sample, count)
    sides = PairTexts.read(sample, embed)
    # Vectors are compared with those of all folds: a misaligned target often has its true source in another one.
    tables = [
        Tables.train(sides.take(np.flatnonzero(fold != number)), sides.vectors) for number in range(count)
    ]
    chosen_rows = np.linspace(0, sample.height - 1, min(_NUM_CLEAN, sample.height)).astype(np.int64)
    corpus = _features_by_fold(tables, sides.take(chosen_rows), fold[chosen_rows])
    damaged = _noisy_features(sample, fold, tables, embed, seed)
    noisy_features = [np.concatenate([damaged[kind] for kind in kinds]) for kinds in _CLASSES]
    num_form_features = len(written_form.NAMES)
    return Judge(
        tuple(tables),
        tuple(pair_classifier.train(corpus, each) for each in noisy_features),
        tuple(
            pair_classifier.train(corpus[:, num_form_features:], noisy_features[group][:, num_form_features:])
            for group in _PARTIAL_CLASSES
        ),
        embed,
    )


def clean_probability(odds: Float64[np.ndarray, "pairs groups"]) -> Float64[np.ndarray, " pairs"]:
    """The belief that each pair is whole, in [0, 1], by the worst of its log odds."""
    belief: npt.NDArray[np.float64] = 1 / (1 + np.exp(np.clip(odds.max(axis=1), -50, 50)))
    return belief


def fold_of(pairs: pl.DataFrame, count: int) -> Int64[np.ndarray, " pairs"]:
    """The fold of each pair, by its source text, so that copies are in one fold; int64 (num_pairs,)."""
    return (pairs["src"].hash(6).to_numpy() % np.uint64(count)).astype(np.int64)


def _features_by_fold(
    tables: Sequence[Tables], sides: PairTexts, fold: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    values = np.zeros((len(fold), len(features.names_of(tables[0]))))
    for number, fold_tables in enumerate(tables):
        rows = np.flatnonzero(fold == number)
        values[rows] = features.measure(fold_tables, sides.take(rows))
    return values


def _noisy_features(
    sample: pl.DataFrame,
    fold: npt.NDArray[np.int64],
    tables: Sequence[Tables],
    embed: Embed | None,
    seed: int,
) -> dict[str, npt.NDArray[np.float64]]:
    """Kind of damage -> features of pairs of a fold damaged so, by the tables that have seen none of the fold."""
    random = rng(seed, "judge")
    by_kind: dict[str, list[npt.NDArray[np.float64]]] = {kind: [] for kinds in _CLASSES for kind in kinds}
    for fold_number, fold_tables in enumerate(tables):
        fold_pairs = sample.filter(pl.Series(fold == fold_number))
        clean = CleanPairs(list(fold_pairs.select("src", "tgt").iter_rows()))
        for kind, parts in by_kind.items():
            chosen = random.permutation(fold_pairs.height)[: -(-_NUM_DAMAGED // len(tables))]
            pairs: list[Pair] = [pair for i in chosen.tolist() if (pair := KINDS[kind](i, clean, random))]
            table = pl.DataFrame(pairs, {"src": pl.String, "tgt": pl.String}, orient="row")
            parts.append(features.measure(fold_tables, PairTexts.read(table, embed)))
    return {kind: np.concatenate(parts) for kind, parts in by_kind.items()}
