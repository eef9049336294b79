"""The numbers of the filters: defaults, and what each language changes, from the table that ships with the package.

The defaults were determined on English. ``limits.tsv`` beside this module has a row for every language that has text in
the sample data; ``python -m benchmarks.limits`` writes it with `xling.corpora.fit.limits`. It holds numbers, and stop
words in the order of their frequency. A language without a row takes what is known of its family.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from xling.core.languages import Language
from xling.core.package_tables import load_table

TABLE_NAME = "limits.tsv"


@dataclass(frozen=True)
class Limits:
    """The numbers of the rules; ratios lie in [0, 1].

    Args:
        min_words: words a document must have (Gopher).
        max_words: words a document may have (Gopher).
        min_mean_word: mean characters a word at least (Gopher); spaced scripts only.
        max_mean_word: mean characters a word at most (Gopher: 10, for English).
        max_symbols: hash signs and ellipses a word (Gopher).
        max_bullets: share of lines that start with a bullet (Gopher).
        max_ellipses: share of lines that end with an ellipsis (Gopher).
        min_lettered: share of words with a letter in them (Gopher).
        max_repeated_lines: share of lines that repeat an earlier one (Gopher).
        max_repeated_line_chars: the same in characters (Gopher).
        max_top_bigram: share of characters in the most frequent run of 2 words (Gopher).
        max_top_trigram: the same for 3 words.
        max_top_fourgram: the same for 4 words.
        max_repeated_runs: share of characters in repeated runs of 5 words (Gopher); to 10 words the limit
            falls by .01 a word.
        min_stop_words: share of words that are ``stop_words`` (Gopher: 2 words of a document).
        min_ended: share of characters in lines that end a sentence. FineWeb counts lines (0.12), so that an article
            under a long menu is dropped and a menu under three slogans kept.
        max_short: share of characters in lines under ``short_line`` characters. FineWeb counts lines (0.67). Off, as in
            FineWeb-2: try 0.35.
        short_line: characters of a short line.
        short_unspaced_line: the same where most letters are of scripts without spaces.
        max_braces: curly brackets a character; C4 drops every page with one. Off, as in FineWeb-2: try 0.02.
        max_placeholders: placeholder texts (lorem ipsum) a word; C4 drops every page with one. Off, as in FineWeb-2:
            try 0.
        units_per_word: units of a word in scripts without spaces.
        stop_words: most frequent words of the language; without any the rule is off.
    """

    min_words: int = 50
    max_words: int = 100_000
    min_mean_word: float = 2.5
    max_mean_word: float = 12.0
    max_symbols: float = 0.1
    max_bullets: float = 0.9
    max_ellipses: float = 0.3
    min_lettered: float = 0.7
    max_repeated_lines: float = 0.3
    max_repeated_line_chars: float = 0.2
    max_top_bigram: float = 0.20
    max_top_trigram: float = 0.18
    max_top_fourgram: float = 0.16
    max_repeated_runs: float = 0.15
    min_stop_words: float = 0.05
    min_ended: float = 0.25
    max_short: float = 1.0
    short_line: int = 30
    short_unspaced_line: int = 12
    max_braces: float = 1.0
    max_placeholders: float = 1.0
    units_per_word: int = 2
    stop_words: tuple[str, ...] = ()

    def with_changes(self, changes: Mapping[str, float], stop_words: tuple[str, ...] | None = None) -> Limits:
        """Return the limits with other numbers, those of whole numbers rounded down, and other stop words."""
        exact: dict[str, Any] = {k: int(v) if k in _INTEGER_LIMITS else v for k, v in changes.items()}
        return replace(self, **exact, stop_words=self.stop_words if stop_words is None else stop_words)

    def numbers(self) -> dict[str, float]:
        """Return all but the stop words."""
        return {name: getattr(self, name) for name in NUMERIC_LIMITS}


NUMERIC_LIMITS = [f.name for f in fields(Limits) if f.name != "stop_words"]
_INTEGER_LIMITS = {f.name for f in fields(Limits) if isinstance(f.default, int)}

_TABLE = load_table(__package__, "limits.yaml")
LIMITS_OF_LINE: dict[str, float] = _TABLE["line"]
"""Of one line by itself that is no longer than a sentence."""
_MAX_MEAN_WORD_OF_FAMILIES: dict[str, float] = _TABLE["max_mean_word"]
_LIMITS_OF_LANGUAGES: dict[str, dict[str, float]] = _TABLE["of_language"]


class FittedLimits(NamedTuple):
    """Row of the table: one language.

    Attributes:
        documents: how many the numbers were fitted to.
        sources: what they are of.
        limits: name -> number, those alone that differ from the defaults.
        stop_words: most frequent first.
    """

    documents: int
    sources: tuple[str, ...]
    limits: Mapping[str, float]
    stop_words: tuple[str, ...]


def save(path: Path, rows: Mapping[str, FittedLimits]) -> None:
    """Write a table of rows by language code."""
    names = [name for name in NUMERIC_LIMITS if any(name in row.limits for row in rows.values())]
    with path.open("w", encoding="utf-8", newline="") as handle:
        table = csv.writer(handle, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE)
        table.writerow(["lang", "documents", "sources", *names, "stop_words"])
        for lang, row in sorted(rows.items()):
            numbers = [f"{row.limits[name]:g}" if name in row.limits else "" for name in names]
            table.writerow([lang, row.documents, " ".join(row.sources), *numbers, " ".join(row.stop_words)])


def read_table(lines: Iterable[str]) -> dict[str, FittedLimits]:
    """Read the lines of a table."""
    rows = {}
    for cells in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        numbers = {name: float(cells[name]) for name in NUMERIC_LIMITS if cells.get(name)}
        words = tuple(cells["stop_words"].split())
        rows[cells["lang"]] = FittedLimits(
            int(cells["documents"]), tuple(cells["sources"].split()), numbers, words
        )
    return rows


@cache
def built_in() -> dict[str, FittedLimits]:
    """Return the rows of the table that ships with the package, by language code."""
    text = resources.files("xling.corpora.builtin").joinpath(TABLE_NAME).read_text(encoding="utf-8")
    return read_table(io.StringIO(text))


def limits_of(
    language: Language, defaults: Limits, table: Mapping[str, FittedLimits] | None = None
) -> Limits:
    """Return the limits of a language.

    They are those of ``table`` (the built-in one if none is given), but ``defaults`` where it is not the default.
    """
    known: dict[str, float] = {}
    if language.family in _MAX_MEAN_WORD_OF_FAMILIES:
        known["max_mean_word"] = _MAX_MEAN_WORD_OF_FAMILIES[language.family]
    known |= _LIMITS_OF_LANGUAGES.get(language.base, {})
    row = (built_in() if table is None else table).get(language.code)
    if row is not None:
        known |= row.limits
    standard = Limits()
    changes = {
        name: number for name, number in known.items() if getattr(defaults, name) == getattr(standard, name)
    }
    return defaults.with_changes(changes, row.stop_words if row and not defaults.stop_words else None)
