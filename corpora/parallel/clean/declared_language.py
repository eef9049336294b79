"""Whether the texts of a file are in the language that it declares, by a likelihood ratio that the file calibrates.

An identifier that does not know a language, or takes it for a close one, says the same of every text of a file. So the
question here is not which language a text is in, but whether it stands out in its file towards another language. Three
likelihood ratios of the declared language against every other are added up:

- character n-grams of the file, in folds so that no text vouches for itself, against those of the other language;
- the built-in n-grams of both languages (`xling.corpora.langid.ngrams`);
- fastText's lid.176.

The declared language is the prior: where the middle of the file is likelier in another language, that ratio is
moved up until it is not. lid.176 must prefer another language too, unless a text lies far off: so a short text stays
whose n-grams happen to be another language's. Texts in each script of a language are compared among themselves. Words
in Latin letters within another script are left out: they are names. In a file with diacritics, a text with few or none
is compared a second time, with all texts stripped of theirs.

Source: Neyman and Pearson 1933 (the likelihood ratio test); Jauhiainen et al. 2022 (HeLI-OTS, the n-gram scores).
"""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from xling.array_types import Bool, Float64, Int64
from xling.core import languages
from xling.core.languages import Language
from xling.corpora.langid import ngrams
from xling.corpora.langid.identify import body_of, built_in_ngrams, lid176
from xling.corpora.langid.ngrams import SortedHashes

SECOND_SCRIPTS = {
    "az": ("Cyrl", "Arab"), "ber": ("Tfng",), "bs": ("Cyrl",), "crh": ("Cyrl",), "ha": ("Arab",), "kab": ("Tfng",),
    "kk": ("Latn", "Arab"), "ku": ("Arab", "Cyrl"), "ky": ("Arab",), "lfn": ("Cyrl",), "ms": ("Arab",), "pa": ("Arab",),
    "ro": ("Cyrl",), "sh": ("Latn", "Cyrl"), "sr": ("Latn", "Cyrl"), "tg": ("Arab", "Latn"), "tk": ("Cyrl",),
    "tt": ("Latn",), "ug": ("Latn", "Cyrl"), "uz": ("Cyrl", "Latn"), "yue": ("Hans",), "zh": ("Hans", "Hant"),
}  # fmt: skip
"""Languages that are written in more than one script today -> scripts beside that of the table."""
_ONE_SCRIPT = {"Jpan": "Hani", "Hans": "Hani", "Hant": "Hani"}
_EAST_ASIAN_SCRIPTS, _LETTERS_PER_CHARACTER = ("Hani", "Jpan", "Kore"), 3
# Where so many texts have diacritics, those with so few of them, by the median of the file, are compared without.
_MARKED_SHARE, _FEW_MARKS = 2 / 3, 1 / 3
_MAX_CHARS, _FOLDS, _MIN_TEXTS = 200, 5, 20
_MIN_PROBABILITY = 1e-3  # probability of a language that lid.176 does not name
_LENGTH_POWER = 0.25  # how fast the spread of the mean ratio falls with the number of n-grams
_SURE_NGRAMS, _SURE_FASTTEXT, _WRONG_FILE = -3.0, -3.0, 0.5
# A text goes if lid.176, where it knows the language, prefers another by so much, or if it lies so many times the limit
# off, by whether lid.176 knows the language.
_FASTTEXT_AGREES, _FILE_ALONE = -1.0, {True: 1.6, False: 1.4}
# A short text that looks like a distant language has to lie farther off, by so many deviations over its number of
# n-grams ("Vesi on vedelik." has 59): such likeness is often chance.
_SHORT_TEXT_MARGIN = 40.0
_MIN_SPREAD = 0.05
_BLOCK_TEXTS = 1000
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]+")
_NO_GRAMS = np.zeros(0, np.uint32), np.zeros(0, np.int64)
Gains = npt.NDArray[np.float64]
Grams = dict[int, tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]]
"""Order -> hashes of the n-grams of some texts, and the number of the text of each, in the order of the texts."""


def script_group(text: str) -> str:
    """Return the script of a text; Chinese characters and kana are one.

    A Chinese character, kana or Hangul syllable counts as three Latin letters, as it says about as much: a sentence
    with a long foreign name stays Chinese.
    """
    script = languages.script_of(text)
    if script == "Latn" and not text.isascii() and (rest := _LATIN.sub("", text)) != text:
        scripts_within, characters = languages.script_of(rest), _num_letters(rest)
        if (
            scripts_within in _EAST_ASIAN_SCRIPTS
            and _LETTERS_PER_CHARACTER * characters >= _num_letters(text) - characters
        ):
            script = scripts_within
    return _ONE_SCRIPT.get(script, script)


def _num_letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def without_marks(text: str) -> str:
    """Return a text without its diacritics; letters such as đ and ø stay."""
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def marks_per_letter(text: str) -> float:
    """Return how many diacritics a text has for each letter."""
    spelt = unicodedata.normalize("NFD", text)
    return sum(unicodedata.combining(char) > 0 for char in spelt) / max(_num_letters(text), 1)


def own_scripts(lang: Language) -> frozenset[str]:
    """Return the scripts that a language is written in, as `script_group` names them."""
    return frozenset(_ONE_SCRIPT.get(s, s) for s in (lang.script, *SECOND_SCRIPTS.get(lang.base, ())))


def by_script(texts: Sequence[str]) -> dict[str, list[int]]:
    """Return script -> numbers of the texts in it."""
    rows: dict[str, list[int]] = {}
    for number, text in enumerate(texts):
        rows.setdefault(script_group(text), []).append(number)
    return rows


class FileNgrams:
    """How often each n-gram stands in the texts of a file, outside of each fold.

    Args:
        grams: of the texts.
        folds: fold of each text, int64 (num_texts,).
        is_counted: the texts that count, bool (num_texts,).
    """

    def __init__(
        self, grams: Grams, folds: Int64[np.ndarray, " texts"], is_counted: Bool[np.ndarray, " texts"]
    ) -> None:
        self.tables: dict[int, tuple[npt.NDArray[np.uint32], Gains]] = {}
        for order in range(1, ngrams.MAX_ORDER + 1):
            flat, owners = grams.get(order, _NO_GRAMS)
            inside = is_counted[owners]
            known_ngrams, numbers = np.unique(flat[inside], return_inverse=True)
            cells = np.bincount(
                numbers * _FOLDS + folds[owners[inside]], minlength=len(known_ngrams) * _FOLDS
            )
            counts = cells.reshape(-1, _FOLDS)
            other_folds = counts.sum(axis=1, keepdims=True) - counts
            frequency = other_folds / np.maximum(other_folds.sum(axis=0), 1)
            gains = np.log(np.maximum(frequency, ngrams.MIN_FREQUENCY) / ngrams.MIN_FREQUENCY)
            self.tables[order] = known_ngrams, np.minimum(gains, ngrams.MAX_GAIN)

    def gains(self, grams: Grams, folds: Int64[np.ndarray, " texts"]) -> Float64[np.ndarray, " texts"]:
        """Return the mean gain of each text by the other folds, as `NgramModel.scores` counts."""
        sums, sizes = np.zeros(len(folds)), np.zeros(len(folds))
        for order, (flat, owners) in grams.items():
            known_ngrams, gains = self.tables[order]
            sizes += np.bincount(owners, minlength=len(folds))
            if len(known_ngrams):
                places, is_known = self._finders[order].find(flat)
                values = np.where(is_known, gains[places, folds[owners]], 0.0)
                sums += np.bincount(owners, values, len(folds))
        return sums / np.maximum(sizes, 1)

    @cached_property
    def _finders(self) -> dict[int, SortedHashes]:
        return {order: SortedHashes(known) for order, (known, _) in self.tables.items() if len(known)}


@dataclass(frozen=True)
class Texts:
    """Answers of the models that are not of the file, for texts.

    Attributes:
        grams: of the texts.
        folds: int64 (num_texts,), by the text, so that copies are in one fold.
        scores: float64 (num_texts, num_langs), of the built-in n-grams.
        sizes: float64 (num_texts,), n-grams of each text, at least 1.
        ranked: languages of each text without their scripts, with their probabilities, of lid.176.
    """

    grams: Grams
    folds: Int64[np.ndarray, " texts"]
    scores: Float64[np.ndarray, "texts langs"]
    sizes: Float64[np.ndarray, " texts"]
    ranked: list[list[tuple[str, float]]]

    @staticmethod
    def read(texts: Sequence[str]) -> Texts:
        """Return the n-grams of each text, their scores by language and the languages that lid.176 names."""
        bodies = [body_of(text[:_MAX_CHARS]) for text in texts]
        grams = ngrams.grams_of_texts(bodies)
        ranked = [
            [(code.partition("_")[0], share) for code, share in ranking] for ranking in lid176().ranks(bodies)
        ]
        folds = [zlib.crc32(text.encode("utf-8", "replace")) % _FOLDS for text in texts]
        hashes = np.concatenate([_NO_GRAMS[0], *(each for each, _ in grams.values())])
        owners = np.concatenate([_NO_GRAMS[1], *(each for _, each in grams.values())])
        sizes = np.maximum(np.bincount(owners, minlength=len(texts)), 1).astype(np.float64)
        sums = built_in_ngrams().sums_in_order(hashes, owners, len(texts)).astype(np.float64)
        return Texts(grams, np.array(folds, np.int64), sums / sizes[:, None], sizes, ranked)


class ScriptTexts:
    """The texts of a file that are in one script.

    Args:
        texts: at least `_MIN_TEXTS`.
        script: of the texts, as `script_group` names it.
        deviations: how many standard deviations under the middle of the file a text is condemned.
        as_written: whether the models know the language as these texts spell it.
    """

    def __init__(
        self, texts: Sequence[str], lang: Language, script: str, deviations: float, as_written: bool = True
    ) -> None:
        self.deviations = deviations
        codes = built_in_ngrams().langs
        bases = np.array([code.partition("_")[0] for code in codes])
        scripts = np.array([_ONE_SCRIPT.get(s, s) for s in (languages.get(code).script for code in codes)])
        self.labels: list[str] = []
        """The other language of each text that it learned from, "" for none."""
        self.script = script
        texts_read = self._read_texts(texts)
        self.is_declared = (bases == lang.base) & (scripts == script) & as_written
        self.declared_names = {lang.base}
        self.is_other = bases != lang.base
        self.is_named = bool(lang.fasttext) and as_written
        self.is_known = bool(self.is_declared.any() and self.is_named)
        # What the models call most of a file in a language that they do not know stands for that language.
        if not self.is_declared.any():
            best = texts_read.scores[:, self.is_other].argmax(axis=1)
            self.is_declared = bases == bases[self.is_other][np.bincount(best).argmax()]
        if not self.is_named and (names := [ranked[0][0] for ranked in texts_read.ranked if ranked]):
            self.declared_names.add(max(sorted(set(names)), key=names.count))
        self.names = bases[self.is_other]
        self.is_shared = self.is_declared[self.is_other]
        self.is_distant = np.array([not _is_close(lang, name) for name in self.names])
        surely = self._surely_other(texts_read)
        self.is_other_file = bool(surely.mean() > _WRONG_FILE)
        is_counted = ~surely if (~surely).sum() >= _MIN_TEXTS else np.ones(len(texts), bool)
        condemned = np.zeros(len(texts), bool)
        for _ in range(2):  # what the first look condemns does not count in the second
            self._calibrate(texts_read, is_counted & ~condemned)
            self.labels = self._other_languages(texts_read)[0]
            condemned = np.array([bool(label) for label in self.labels])

    def _read_texts(self, texts: Sequence[str]) -> Texts:
        """Read texts; words in Latin letters are removed if the texts are in another script."""
        if self.script != "Latn":
            texts = [_LATIN.sub(" ", text) for text in texts]
        return Texts.read(texts)

    def _surely_other(self, texts_read: Texts) -> npt.NDArray[np.bool_]:
        """Texts that both models call a language that is not close to the declared one, if both know that."""
        if not self.is_known:
            return np.zeros(len(texts_read.sizes), bool)
        other_scores = texts_read.scores[:, self.is_other]
        gap = (
            texts_read.scores[:, self.is_declared].max(axis=1) - other_scores.max(axis=1)
        ) * texts_read.sizes**0.5
        is_distant = self.is_distant[other_scores.argmax(axis=1)]
        surely: npt.NDArray[np.bool_] = (
            is_distant & (gap < _SURE_NGRAMS) & (self._fasttext_odds(texts_read)[0] < _SURE_FASTTEXT)
        )
        return surely

    def _fasttext_odds(self, texts_read: Texts) -> tuple[Gains, list[str]]:
        """Log odds of lid.176 for the declared language, and the other one that it prefers, "" for none."""
        odds, labels = [], []
        for ranked in texts_read.ranked:
            declared_probability = max(
                (share for base, share in ranked if base in self.declared_names), default=0.0
            )
            label, other_probability = next(
                (pair for pair in ranked if pair[0] not in self.declared_names), ("", 0.0)
            )
            odds.append(
                math.log((declared_probability + _MIN_PROBABILITY) / (other_probability + _MIN_PROBABILITY))
            )
            labels.append(label if other_probability > declared_probability else "")
        return np.array(odds), labels

    def _calibrate(self, texts_read: Texts, is_counted: npt.NDArray[np.bool_]) -> None:
        self.file_ngrams = FileNgrams(texts_read.grams, texts_read.folds, is_counted)
        zero = np.zeros(self.is_other.sum())
        self.ratio_shifts, self.fasttext_shift, self.median, self.spread = [zero, zero], 0.0, 0.0, 1.0
        ratios = self._ratios(texts_read)
        self.ratio_shifts = [np.minimum(np.median(ratio[is_counted], axis=0), 0) for ratio in ratios]
        fasttext_odds = self._fasttext_odds(texts_read)[0]
        self.fasttext_shift = min(float(np.median(fasttext_odds[is_counted])), 0.0)
        mean = self._evidence(texts_read, fasttext_odds)[0] / texts_read.sizes**0.5
        self.median = float(np.median(mean[is_counted]))
        scaled = (mean - self.median) * texts_read.sizes**_LENGTH_POWER
        self.spread = max(1.4826 * float(np.median(np.abs(scaled[is_counted]))), _MIN_SPREAD)

    def _ratios(self, texts_read: Texts) -> tuple[Gains, Gains]:
        """Mean log ratio an n-gram against each rival, by the file and by the built-in n-grams."""
        other_scores = texts_read.scores[:, self.is_other]
        by_file = (
            self.file_ngrams.gains(texts_read.grams, texts_read.folds)[:, None]
            - other_scores
            - self.ratio_shifts[0]
        )
        by_models = (
            texts_read.scores[:, self.is_declared].max(axis=1)[:, None] - other_scores - self.ratio_shifts[1]
        )
        by_models[:, self.is_shared] = 0
        return by_file, by_models

    def _evidence(self, texts_read: Texts, fasttext_odds: Gains) -> tuple[Gains, npt.NDArray[np.int64]]:
        """Log odds for the declared language against the likeliest rival, and its number."""
        by_file, built_in = self._ratios(texts_read)
        total = by_file + built_in
        odds = fasttext_odds - self.fasttext_shift
        return total.min(axis=1) * texts_read.sizes**0.5 + odds, total.argmin(axis=1)

    def _other_languages(self, texts_read: Texts) -> tuple[list[str], Gains]:
        fasttext_odds, fasttext_labels = self._fasttext_odds(texts_read)
        odds, best_other = self._evidence(texts_read, fasttext_odds)
        deviations = (
            (odds / texts_read.sizes**0.5 - self.median) * texts_read.sizes**_LENGTH_POWER / self.spread
        )
        by_fasttext = fasttext_odds - self.fasttext_shift
        limit = self.deviations + self.is_distant[best_other] * _SHORT_TEXT_MARGIN / texts_read.sizes
        agreed = (by_fasttext < _FASTTEXT_AGREES) & self.is_named | (
            deviations < -_FILE_ALONE[self.is_named] * limit
        )
        is_other_language = (deviations < -limit) & (odds < 0) & (texts_read.sizes > 1) & agreed
        if self.is_other_file:
            is_other_language |= self._surely_other(texts_read)
        names = [
            fasttext_labels[i] or str(self.names[best_other[i]]) if is_other_language[i] else ""
            for i in range(len(is_other_language))
        ]
        return names, deviations

    def other_languages(self, texts: Sequence[str]) -> tuple[list[str], Float64[np.ndarray, " texts"]]:
        """Return the other language that each text is in, "" for none, and how many deviations it lies off."""
        blocks = [texts[i : i + _BLOCK_TEXTS] for i in range(0, len(texts), _BLOCK_TEXTS)]
        answers = [self._other_languages(self._read_texts(block)) for block in blocks]
        labels = [label for of_block, _ in answers for label in of_block]
        return labels, np.concatenate([np.zeros(0), *(deviations for _, deviations in answers)])

    def leans_to_other(self, texts: Sequence[str]) -> Bool[np.ndarray, " texts"]:
        """Return which texts are likelier in another language than in the declared one, or as likely."""
        texts_read = self._read_texts(texts)
        odds = self._evidence(texts_read, self._fasttext_odds(texts_read)[0])[0]
        leans: npt.NDArray[np.bool_] = odds <= 0
        return leans


def _is_close(lang: Language, other_lang: str) -> bool:
    """Return whether a language is of the branch and script of another, so that the two are taken for each other."""
    known_ngrams = languages.get(other_lang)
    return known_ngrams.family == lang.family and known_ngrams.script == lang.script


class DeclaredLanguage:
    """The declared language of a side, as the side itself is written.

    Args:
        sample: texts of the side.
        lang: the declared language.
        deviations: of `ScriptTexts`.
        identify_other: returns the other language that a text is in, "" for none; it judges what the file cannot.
    """

    def __init__(
        self, sample: Sequence[str], lang: Language, deviations: float, identify_other: Callable[[str], str]
    ) -> None:
        self.identify_other, self.own_scripts = identify_other, own_scripts(lang)
        self.main = _ONE_SCRIPT.get(lang.script, lang.script)
        self.is_known = bool(lang.fasttext)
        self.sample = sample
        self.scripts = {
            script: ScriptTexts([sample[i] for i in rows], lang, script, deviations)
            for script, rows in by_script(sample).items()
            if script in self.own_scripts and len(rows) >= _MIN_TEXTS
        }
        self.without_diacritics = self._without_diacritics(lang, deviations)

    def _without_diacritics(self, lang: Language, deviations: float) -> ScriptTexts | None:
        """The texts in Latin letters without their diacritics; None unless most have some, and others few or none."""
        texts = [self.sample[i] for i in by_script(self.sample).get("Latn", ())]
        marks = np.array([marks_per_letter(text) for text in texts])
        self.max_few_marks = _FEW_MARKS * float(np.median(marks)) if len(texts) else 0.0
        marked_share = (marks > 0).mean() if len(texts) else 0.0
        if "Latn" not in self.scripts or self.scripts["Latn"].is_other_file:
            return None
        if marked_share < _MARKED_SHARE or not (marks <= self.max_few_marks).any():
            return None
        unmarked_texts = [without_marks(text) for text in texts]
        return ScriptTexts(unmarked_texts, lang, "Latn", deviations, as_written=False)

    def is_declared_in_sample(self) -> Bool[np.ndarray, " texts"]:
        """Return which texts of the sample are in the declared language."""
        is_declared = np.zeros(len(self.sample), bool)
        for script, rows in by_script(self.sample).items():
            if script in self.scripts:
                is_declared[rows] = [not label for label in self.scripts[script].labels]
        return is_declared

    def leans_to_other(self, words: Sequence[str]) -> Bool[np.ndarray, " words"]:
        """Return which words are likelier in another language than in the declared one, or as likely."""
        answer = np.ones(len(words), bool)
        if self.main in self.scripts:
            answer = self.scripts[self.main].leans_to_other(words)
        return answer

    def other_languages(self, texts: Sequence[str]) -> tuple[list[str], Float64[np.ndarray, " texts"]]:
        """Return the other language of each text, "" for none, and its deviations; not a number where none are known.

        Where the file has too few texts in a script to compare, those in a second script of the language stay, and
        all in a language that lid.176 does not know.
        """
        names, deviations = [""] * len(texts), np.full(len(texts), np.nan)
        for script, rows in by_script(texts).items():
            if script in self.scripts:
                labels, deviations[rows] = self.scripts[script].other_languages([texts[i] for i in rows])
                if script == "Latn" and self.without_diacritics:
                    other_rows = [k for k in range(len(rows)) if labels[k]]
                    unmarked_rows = [
                        k for k in other_rows if marks_per_letter(texts[rows[k]]) <= self.max_few_marks
                    ]
                    new_labels, new_deviations = self.without_diacritics.other_languages(
                        [without_marks(texts[rows[k]]) for k in unmarked_rows]
                    )
                    for k, label, distance in zip(unmarked_rows, new_labels, new_deviations, strict=True):
                        labels[k], deviations[rows[k]] = label, max(deviations[rows[k]], distance)
            elif script in self.own_scripts and (script != self.main or not self.is_known):
                continue
            else:
                labels = [self.identify_other(texts[i]) for i in rows]
            for i, label in zip(rows, labels, strict=True):
                names[i] = label
        return names, deviations
