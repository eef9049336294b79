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
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from xling.core import languages
from xling.core.languages import Language
from xling.corpora.langid import ngrams
from xling.corpora.langid.identify import body_of, built_in_ngrams, lid176

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int64

SECOND_SCRIPTS = {
    "az": ("Cyrl", "Arab"), "ber": ("Tfng",), "bs": ("Cyrl",), "crh": ("Cyrl",), "ha": ("Arab",), "kab": ("Tfng",),
    "kk": ("Latn", "Arab"), "ku": ("Arab", "Cyrl"), "ky": ("Arab",), "lfn": ("Cyrl",), "ms": ("Arab",), "pa": ("Arab",),
    "ro": ("Cyrl",), "sh": ("Latn", "Cyrl"), "sr": ("Latn", "Cyrl"), "tg": ("Arab", "Latn"), "tk": ("Cyrl",),
    "tt": ("Latn",), "ug": ("Latn", "Cyrl"), "uz": ("Cyrl", "Latn"), "yue": ("Hans",), "zh": ("Hans", "Hant"),
}  # fmt: skip
"""Languages that are written in more than one script today -> scripts beside that of the table."""
_ONE_SCRIPT = {"Jpan": "Hani", "Hans": "Hani", "Hant": "Hani"}
_EAST_ASIAN, _LETTERS_PER_CHARACTER = ("Hani", "Jpan", "Kore"), 3
# Where so many texts have diacritics, those with so few of them, by the median of the file, are compared without.
_MARKED, _FEW_MARKS = 2 / 3, 1 / 3
_MAX_CHARS, _FOLDS, _MIN_TEXTS = 200, 5, 20
_LEAST = 1e-3  # probability of a language that lid.176 does not name
_LENGTH_POWER = 0.25  # how fast the spread of the mean ratio falls with the number of n-grams
_SURE_NGRAMS, _SURE_FASTTEXT, _WRONG_FILE = -3.0, -3.0, 0.5
# A text goes if lid.176, where it knows the language, prefers another by so much, or if it lies so many times the limit
# off, by whether lid.176 knows the language.
_AGREES, _ALONE = -1.0, {True: 1.6, False: 1.4}
# A short text that looks like a distant language has to lie farther off, by so many deviations over its number of
# n-grams ("Vesi on vedelik." has 59): such likeness is often chance.
_SHORT = 40.0
_MIN_SPREAD = 0.05
_BLOCK = 500
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]+")
Gains = npt.NDArray[np.float64]
Grams = list[dict[int, npt.NDArray[np.uint32]]]


def script_group(text: str) -> str:
    """Return the script of a text; Chinese characters and kana are one.

    A Chinese character, kana or Hangul syllable counts as three Latin letters, as it says about as much: a sentence
    with a long foreign name stays Chinese.
    """
    script = languages.script_of(text)
    if script == "Latn" and (rest := _LATIN.sub("", text)) != text:
        within, characters = languages.script_of(rest), _letters(rest)
        if within in _EAST_ASIAN and _LETTERS_PER_CHARACTER * characters >= _letters(text) - characters:
            script = within
    return _ONE_SCRIPT.get(script, script)


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def without_marks(text: str) -> str:
    """Return a text without its diacritics; letters such as đ and ø stay."""
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def marks_per_letter(text: str) -> float:
    """Return how many diacritics a text has for each letter."""
    spelt = unicodedata.normalize("NFD", text)
    return sum(unicodedata.combining(char) > 0 for char in spelt) / max(_letters(text), 1)


def own_scripts(lang: Language) -> frozenset[str]:
    """Return the scripts that a language is written in, as `script_group` names them."""
    return frozenset(_ONE_SCRIPT.get(s, s) for s in (lang.script, *SECOND_SCRIPTS.get(lang.base, ())))


def by_script(texts: Sequence[str]) -> dict[str, list[int]]:
    """Return script -> numbers of the texts in it."""
    rows: dict[str, list[int]] = {}
    for number, text in enumerate(texts):
        rows.setdefault(script_group(text), []).append(number)
    return rows


class FileGrams:
    """How often each n-gram stands in the texts of a file, outside of each fold.

    Args:
        grams: for each text its n-grams by order.
        folds: fold of each text, int64 (num_texts,).
        kept: the texts that count, bool (num_texts,).
    """

    def __init__(
        self, grams: Grams, folds: Int64[np.ndarray, " texts"], kept: Bool[np.ndarray, " texts"]
    ) -> None:
        self.tables: dict[int, tuple[npt.NDArray[np.uint32], Gains]] = {}
        for order in range(1, ngrams.MAX_ORDER + 1):
            flat, owners = _flat(grams, order)
            inside = kept[owners]
            known, numbers = np.unique(flat[inside], return_inverse=True)
            cells = np.bincount(numbers * _FOLDS + folds[owners[inside]], minlength=len(known) * _FOLDS)
            counts = cells.reshape(-1, _FOLDS)
            rest = counts.sum(axis=1, keepdims=True) - counts
            frequency = rest / np.maximum(rest.sum(axis=0), 1)
            gains = np.log(np.maximum(frequency, ngrams.FLOOR) / ngrams.FLOOR)
            self.tables[order] = known, np.minimum(gains, ngrams.MAX_GAIN)

    def gains(self, grams: Grams, folds: Int64[np.ndarray, " texts"]) -> Float64[np.ndarray, " texts"]:
        """Return the mean gain of each text by the other folds, as `NgramModel.scores` counts."""
        sums, sizes = np.zeros(len(grams)), np.zeros(len(grams))
        for order, (known, gains) in self.tables.items():
            flat, owners = _flat(grams, order)
            sizes += np.bincount(owners, minlength=len(grams))
            if len(known):
                places = np.minimum(np.searchsorted(known, flat), len(known) - 1)
                values = np.where(known[places] == flat, gains[places, folds[owners]], 0.0)
                sums += np.bincount(owners, values, len(grams))
        return sums / np.maximum(sizes, 1)


def _flat(grams: Grams, order: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    parts = [each.get(order, np.zeros(0, np.uint32)) for each in grams]
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return np.concatenate([np.zeros(0, np.uint32), *parts]), owners


@dataclass(frozen=True)
class Texts:
    """Answers of the models that are not of the file, for texts.

    Attributes:
        grams: n-grams of each text by order.
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
        grams, ranked, folds = [], [], []
        for text in texts:
            body = body_of(text[:_MAX_CHARS])
            grams.append(ngrams.grams(body))
            ranked.append([(code.partition("_")[0], share) for code, share in lid176().rank(body)])
            folds.append(zlib.crc32(text.encode("utf-8", "replace")) % _FOLDS)
        sizes = np.array([sum(map(len, each.values())) for each in grams], float)
        scores = np.concatenate(
            [_scores(grams[i : i + _BLOCK]) for i in range(0, max(len(grams), 1), _BLOCK)]
        )
        return Texts(grams, np.array(folds, np.int64), scores, np.maximum(sizes, 1), ranked)


def _scores(grams: Grams) -> Gains:
    """Mean gain of each text in each language of the built-in n-grams, float64 (num_texts, num_langs)."""
    from scipy.sparse import csr_array

    model = built_in_ngrams()
    lengths = [sum(map(len, each.values())) for each in grams]
    flat = np.concatenate([np.zeros(0, np.uint32), *(part for each in grams for part in each.values())])
    known, numbers = np.unique(flat, return_inverse=True)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    counts = csr_array((np.ones(len(flat), np.float32), numbers, starts), shape=(len(grams), len(known)))
    sums: Gains = (counts @ model.gains(known)).astype(np.float64)
    return sums / np.maximum(np.array(lengths, float), 1)[:, None]


class OneScript:
    """The texts of a file that are in one script.

    Args:
        texts: at least `_MIN_TEXTS`.
        lang: the declared language.
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
        read = self._read(texts)
        self.own = (bases == lang.base) & (scripts == script) & as_written
        self.called = {lang.base}
        self.rivals = bases != lang.base
        self.is_named = bool(lang.fasttext) and as_written
        self.is_known = bool(self.own.any() and self.is_named)
        # What the models call most of a file in a language that they do not know stands for that language.
        if not self.own.any():
            best = read.scores[:, self.rivals].argmax(axis=1)
            self.own = bases == bases[self.rivals][np.bincount(best).argmax()]
        if not self.is_named and (names := [ranked[0][0] for ranked in read.ranked if ranked]):
            self.called.add(max(sorted(set(names)), key=names.count))
        self.names = bases[self.rivals]
        self.stands_in = self.own[self.rivals]
        self.far = np.array([not _is_close(lang, name) for name in self.names])
        surely = self._surely_other(read)
        self.is_other_file = bool(surely.mean() > _WRONG_FILE)
        kept = ~surely if (~surely).sum() >= _MIN_TEXTS else np.ones(len(texts), bool)
        condemned = np.zeros(len(texts), bool)
        for _ in range(2):  # what the first look condemns does not count in the second
            self._calibrate(read, kept & ~condemned)
            self.labels = self._others(read)[0]
            condemned = np.array([bool(label) for label in self.labels])

    def _read(self, texts: Sequence[str]) -> Texts:
        """Read texts; words in Latin letters are removed if the texts are in another script."""
        if self.script != "Latn":
            texts = [_LATIN.sub(" ", text) for text in texts]
        return Texts.read(texts)

    def _surely_other(self, read: Texts) -> npt.NDArray[np.bool_]:
        """Texts that both models call a language that is not close to the declared one, if both know that."""
        if not self.is_known:
            return np.zeros(len(read.sizes), bool)
        rivals = read.scores[:, self.rivals]
        gap = (read.scores[:, self.own].max(axis=1) - rivals.max(axis=1)) * read.sizes**0.5
        far = self.far[rivals.argmax(axis=1)]
        surely: npt.NDArray[np.bool_] = far & (gap < _SURE_NGRAMS) & (self._odds(read)[0] < _SURE_FASTTEXT)
        return surely

    def _odds(self, read: Texts) -> tuple[Gains, list[str]]:
        """Log odds of lid.176 for the declared language, and the other one that it prefers, "" for none."""
        odds, labels = [], []
        for ranked in read.ranked:
            own = max((share for base, share in ranked if base in self.called), default=0.0)
            label, other = next((pair for pair in ranked if pair[0] not in self.called), ("", 0.0))
            odds.append(math.log((own + _LEAST) / (other + _LEAST)))
            labels.append(label if other > own else "")
        return np.array(odds), labels

    def _calibrate(self, read: Texts, kept: npt.NDArray[np.bool_]) -> None:
        self.file = FileGrams(read.grams, read.folds, kept)
        zero = np.zeros(self.rivals.sum())
        self.shifts, self.odds_shift, self.middle, self.spread = [zero, zero], 0.0, 0.0, 1.0
        ratios = self._ratios(read)
        self.shifts = [np.minimum(np.median(ratio[kept], axis=0), 0) for ratio in ratios]
        self.odds_shift = min(float(np.median(self._odds(read)[0][kept])), 0.0)
        mean = self._evidence(read)[0] / read.sizes**0.5
        self.middle = float(np.median(mean[kept]))
        off = (mean - self.middle) * read.sizes**_LENGTH_POWER
        self.spread = max(1.4826 * float(np.median(np.abs(off[kept]))), _MIN_SPREAD)

    def _ratios(self, read: Texts) -> tuple[Gains, Gains]:
        """Mean log ratio an n-gram against each rival, by the file and by the built-in n-grams."""
        rivals = read.scores[:, self.rivals]
        file = self.file.gains(read.grams, read.folds)[:, None] - rivals - self.shifts[0]
        own = read.scores[:, self.own].max(axis=1)[:, None] - rivals - self.shifts[1]
        own[:, self.stands_in] = 0
        return file, own

    def _evidence(self, read: Texts) -> tuple[Gains, npt.NDArray[np.int64]]:
        """Log odds for the declared language against the likeliest rival, and its number."""
        by_file, built_in = self._ratios(read)
        total = by_file + built_in
        odds = self._odds(read)[0] - self.odds_shift
        return total.min(axis=1) * read.sizes**0.5 + odds, total.argmin(axis=1)

    def _others(self, read: Texts) -> tuple[list[str], Gains]:
        odds, rival = self._evidence(read)
        off = (odds / read.sizes**0.5 - self.middle) * read.sizes**_LENGTH_POWER / self.spread
        by_fasttext = self._odds(read)[0] - self.odds_shift
        limit = self.deviations + self.far[rival] * _SHORT / read.sizes
        agreed = (by_fasttext < _AGREES) & self.is_named | (off < -_ALONE[self.is_named] * limit)
        gone = (off < -limit) & (odds < 0) & (read.sizes > 1) & agreed
        if self.is_other_file:
            gone |= self._surely_other(read)
        called = self._odds(read)[1]
        names = [called[i] or str(self.names[rival[i]]) if gone[i] else "" for i in range(len(gone))]
        return names, off

    def others(self, texts: Sequence[str]) -> tuple[list[str], Float64[np.ndarray, " texts"]]:
        """Return the other language that each text is in, "" for none, and how many deviations it lies off."""
        return self._others(self._read(texts))

    def leans(self, texts: Sequence[str]) -> Bool[np.ndarray, " texts"]:
        """Return which texts are likelier in another language than in the declared one, or as likely."""
        leans: npt.NDArray[np.bool_] = self._evidence(self._read(texts))[0] <= 0
        return leans


def _is_close(lang: Language, other: str) -> bool:
    """Return whether a language is of the branch and script of another, so that the two are taken for each other."""
    known = languages.get(other)
    return known.family == lang.family and known.script == lang.script


class Declared:
    """The declared language of a side, as the side itself is written.

    Args:
        sample: texts of the side.
        lang: the declared language.
        deviations: of `OneScript`.
        ask: returns the other language that a text is in, "" for none; it judges what the file cannot.
    """

    def __init__(
        self, sample: Sequence[str], lang: Language, deviations: float, ask: Callable[[str], str]
    ) -> None:
        self.ask, self.own = ask, own_scripts(lang)
        self.main = _ONE_SCRIPT.get(lang.script, lang.script)
        self.is_known = bool(lang.fasttext)
        self.sample = sample
        self.scripts = {
            script: OneScript([sample[i] for i in rows], lang, script, deviations)
            for script, rows in by_script(sample).items()
            if script in self.own and len(rows) >= _MIN_TEXTS
        }
        self.unmarked = self._unmarked(lang, deviations)

    def _unmarked(self, lang: Language, deviations: float) -> OneScript | None:
        """The texts in Latin letters without their diacritics; None unless most have some, and others few or none."""
        texts = [self.sample[i] for i in by_script(self.sample).get("Latn", ())]
        marks = np.array([marks_per_letter(text) for text in texts])
        self.few_marks = _FEW_MARKS * float(np.median(marks)) if len(texts) else 0.0
        marked = (marks > 0).mean() if len(texts) else 0.0
        if "Latn" not in self.scripts or self.scripts["Latn"].is_other_file:
            return None
        if marked < _MARKED or not (marks <= self.few_marks).any():
            return None
        bare = [without_marks(text) for text in texts]
        return OneScript(bare, lang, "Latn", deviations, as_written=False)

    def sample_is_right(self) -> Bool[np.ndarray, " texts"]:
        """Return which texts of the sample are in the declared language."""
        right = np.zeros(len(self.sample), bool)
        for script, rows in by_script(self.sample).items():
            if script in self.scripts:
                right[rows] = [not label for label in self.scripts[script].labels]
        return right

    def leans(self, words: Sequence[str]) -> Bool[np.ndarray, " words"]:
        """Return which words are likelier in another language than in the declared one, or as likely."""
        answer = np.ones(len(words), bool)
        if self.main in self.scripts:
            answer = self.scripts[self.main].leans(words)
        return answer

    def others(self, texts: Sequence[str]) -> tuple[list[str], Float64[np.ndarray, " texts"]]:
        """Return the other language of each text, "" for none, and its deviations; not a number where none are known.

        Where the file has too few texts in a script to compare, those in a second script of the language stay, and
        all in a language that lid.176 does not know.
        """
        names, off = [""] * len(texts), np.full(len(texts), np.nan)
        for script, rows in by_script(texts).items():
            if script in self.scripts:
                labels, off[rows] = self.scripts[script].others([texts[i] for i in rows])
                if script == "Latn" and self.unmarked:
                    gone = [k for k in range(len(rows)) if labels[k]]
                    bare = [k for k in gone if marks_per_letter(texts[rows[k]]) <= self.few_marks]
                    again, far = self.unmarked.others([without_marks(texts[rows[k]]) for k in bare])
                    for k, label, distance in zip(bare, again, far, strict=True):
                        labels[k], off[rows[k]] = label, max(off[rows[k]], distance)
            elif script in self.own and (script != self.main or not self.is_known):
                continue
            else:
                labels = [self.ask(texts[i]) for i in rows]
            for i, label in zip(rows, labels, strict=True):
                names[i] = label
        return names, off
