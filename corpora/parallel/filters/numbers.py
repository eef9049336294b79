"""Pairs whose numbers or web addresses differ."""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairFilter, first_reason

_URL = r"(?:https?://|www\.)[^\s/)\]>\"']+|[\w.+-]+@[\w-]+\.[\w.]+"

_NATIVE_DIGITS = [chr(p) for p in range(0x80, 0x20000) if unicodedata.category(chr(p)) == "Nd"]
_ASCII_DIGITS = [str(unicodedata.decimal(digit)) for digit in _NATIVE_DIGITS]
_GROUPED_DIGITS = re.compile(r"(?<!\d)\d{1,3}(?=([.,'’\u00a0\u202f\u066c ])\d)(?:\1\d{2,3})*\1\d{3}(?!\d)")
_NUMBER = re.compile(r"\d+")
_IS_CODE = re.compile(r"0\d\d\d$")  # such as 0021: a code, not a year
_LINE_NUMBER = re.compile(r"^\s*\(?\d+ ?[-)]\s+")  # not "3. August", nor "15-year-old"
_SCALES = {"千": 3, "천": 3, "万": 4, "萬": 4, "만": 4, "億": 8, "亿": 8, "억": 8, "兆": 12, "조": 12}
_SCALED_NUMBER = re.compile(
    rf"(?<!\d)(\d{{1,15}})(?:[.,](\d+))? ?([{''.join(_SCALES)}])(?:(\d{{1,15}})(?! ?[\d{''.join(_SCALES)}]))?"
)
# What English spells out and other languages write in digits.
_NUMBER_WORD_LISTS = (
    ("zero one two three four five six seven eight nine ten eleven twelve", 0),
    ("first second third fourth fifth sixth seventh eighth ninth tenth", 1),
)
_MONTHS = "January February March April May June July August September October November December"
_NUMBER_WORDS = {
    word: str(value) for words, start in _NUMBER_WORD_LISTS for value, word in enumerate(words.split(), start)
}
_MONTH_NUMBERS = {word: str(value) for value, word in enumerate(_MONTHS.split(), 1)}
# Months begin with a capital: "may" and "march" are other words.
_WORD = re.compile(rf"\b(?:(?i:({'|'.join(_NUMBER_WORDS)}))|({'|'.join(_MONTH_NUMBERS)}))\b")
# Units that translators convert, and how much one of them is in metric units.
_FACTORS = {
    "square mile": (2.59,), "mile": (1.609, 1609.0), "mph": (1.609, 0.447), "yard": (0.9144,), "feet": (0.3048, 30.48),
    "foot": (0.3048, 30.48), "ft": (0.3048, 30.48), "inch": (2.54, 25.4), "pound": (0.4536,), "lb": (0.4536,),
    "acre": (0.4047, 4047.0), "gallon": (3.785,),
}  # fmt: skip
_AMOUNT = r"\d[\d.,]*"
# A range has its unit at the end: "2 to 4 inches".
_UNIT = re.compile(
    rf"({_AMOUNT}(?:(?: ?[-–—x] ?| (?:to|and|or|by) |, ){_AMOUNT})*)[ -]?"
    rf"(?:({'|'.join(_FACTORS)})(?:e?s)?\b|(?:(?:degrees? |° ?)?(?:fahrenheit|f\b)))",
    re.IGNORECASE,
)
# By how many years the calendar of a country differs from the common one.
_CALENDARS = {
    "am": (7, 8), "ti": (7, 8), "th": (543,), "lo": (543,), "km": (543,), "fa": (621, 622), "ps": (621, 622),
    "ne": (56, 57),
}  # fmt: skip
_PLAUSIBLE_YEARS = range(1000, 3000)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_ROUNDING_TOLERANCE = 0.12  # "30 yards" become "27 metres", "25" or "30"
_HALF_DAY = 12
_MAX_DIGITS = 15  # longer numbers are identifiers, not amounts, hours or years


@PAIR_FILTERS.register("numbers")
@dataclass(frozen=True)
class Numbers(PairFilter):
    """Drop pairs whose numbers contradict each other, or whose addresses differ.

    Numbers are compared as multisets of values, in the digits of any script, with groups of thousands joined and
    万 and its likes counted. A number missing on the other side may have been spelt out; one that stands against a
    different number was not. No contradiction are 1980s and 80er, 1.5 million and 1,500,000, 3 p.m. and 15 Uhr, and
    years in the calendar of a language's country.

    Args:
        max_missing: numbers that may lack a partner on one side alone, if they are more than half of its numbers.
        urls: whether the hosts of web addresses must be the same on both sides.
    """

    max_missing: int = 2
    urls: bool = True

    name: ClassVar[str] = "numbers"
    reasons: ClassVar[dict[str, str]] = {
        "number_mismatch": "the numbers of the sides differ",
        "url_mismatch": "a web or mail address stands on one side only, or differs",
    }
    values: ClassVar[dict[str, str]] = {"numbers_alone": "numbers that one side has and the other lacks"}

    def measured(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Return the pairs with the columns that this filter measures."""
        unlike = pairs.select((_digit_runs("src") != _digit_runs("tgt")).alias("unlike"))["unlike"].arg_true()
        alone = [missing(src, tgt) for src, tgt in pairs.select("src", "tgt")[unlike].iter_rows()]
        counts = np.zeros(pairs.height, np.int32)
        counts[unlike.to_numpy()] = alone
        return pairs.with_columns(pl.Series("numbers_alone", counts))

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        # Most pairs hold neither digits nor addresses, and most numbers are the same at first sight.
        to_check = pairs.select(
            _digit_runs("src").alias("a"), _digit_runs("tgt").alias("b"), "src", "tgt"
        ).with_row_index()
        address = pl.col("src").str.contains(r"://|www\.|@") | pl.col("tgt").str.contains(r"://|www\.|@")
        unlike = to_check.filter(pl.col("a") != pl.col("b"))
        years = (*_CALENDARS.get(context.src.base, ()), *_CALENDARS.get(context.tgt.base, ()))
        rows = [
            number
            for number, src, tgt in unlike.select("index", "src", "tgt").iter_rows()
            if numbers_contradict(src, tgt, self.max_missing, years)
        ]
        tests = {"number_mismatch": pl.col("index").is_in(rows)}
        if self.urls:
            tests["url_mismatch"] = address & (_host_names("src") != _host_names("tgt"))
        return first_reason(to_check, tests)


def missing(src: str, tgt: str) -> int:
    """Return how many numbers of two sentences have no equal on the other side, those in words on neither."""
    sides = [numbers(side) for side in _without_line_number(src, tgt)]
    if _same_digits(*sides):
        return 0
    a, b = map(Counter, sides)
    return (a - b).total() + (b - a).total()


def numbers_contradict(src: str, tgt: str, max_missing: int = 2, years: Sequence[int] = ()) -> bool:
    """Return whether the numbers of two sentences cannot be translations of each other.

    Args:
        max_missing: see `Numbers`.
        years: differences of two years that stand for one, in the calendars of both languages.
    """
    src, tgt = _without_line_number(src, tgt)
    sides = [numbers(side) for side in (src, tgt)]
    if _same_digits(*sides):
        return False
    unmatched = [list((Counter(a) - Counter(b)).elements()) for a, b in (sides, reversed(sides))]
    if not all(unmatched):
        missing = [number for number in max(unmatched, key=len) if len(number) > 1]
        return len(missing) > max_missing and 2 * len(missing) > max(map(len, sides))
    # A number that one side spells out contradicts none of the other.
    for position, side in enumerate((src, tgt)):
        for value in spelt_out_numbers(side):
            if value in unmatched[1 - position]:
                unmatched[1 - position].remove(value)
    if not all(unmatched):
        return any(unmatched)  # what is left contradicts: the other side does not spell it out
    side_with_fewer = int(len(unmatched[1]) < len(unmatched[0]))
    side_with_more = 1 - side_with_fewer
    equivalents = _metric_equivalents((src, tgt), sides)
    # A decimal number gives two: 1 and 5 of 1.5 million are 15 of 1500000.
    decimals = {a + b for a, b in itertools.pairwise(sides[side_with_more])}
    joined_digits = "".join(unmatched[side_with_fewer])
    if len(unmatched[side_with_fewer]) > 1 and any(
        _differ_by_scale(joined_digits, b) for b in decimals.union(unmatched[side_with_more])
    ):
        return False
    return not all(
        any(_may_be_equal(a, b, years) for b in unmatched[side_with_more])
        or any(_differ_by_scale(a, b) for b in decimals)
        or any(_is_conversion_of(b, equivalents[side_with_fewer].get(a, ())) for b in sides[side_with_more])
        or any(_is_conversion_of(a, values) for values in equivalents[side_with_more].values())
        for a in unmatched[side_with_fewer]
    )


def _without_line_number(src: str, tgt: str) -> tuple[str, str]:
    """Return two sentences without the number of a line (``3395- ``) that only one of them starts with."""
    without_number = [_LINE_NUMBER.sub("", side) for side in (src, tgt)]
    only_one = (without_number[0] == src) != (without_number[1] == tgt)
    return (without_number[0], without_number[1]) if only_one else (src, tgt)


def numbers(text: str) -> list[str]:
    """Return the numbers of ``text`` as digits without leading zeros, four digits as they are; a decimal gives two."""
    plain = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)
    plain = _GROUPED_DIGITS.sub(lambda m: re.sub(r"\D", "", m[0]), plain)
    runs = _NUMBER.findall(_SCALED_NUMBER.sub(_expand_scale, plain))
    return [run if _IS_CODE.match(run) else run.lstrip("0") or "0" for run in runs]


def _expand_scale(match: re.Match[str]) -> str:
    """Return ``7万7000`` as 77000."""
    whole, part, scale, ones = match.groups()
    size = _SCALES[scale]
    return str(int(whole + (part or "").ljust(size, "0")[:size]) + int(ones or 0))


def spelt_out_numbers(text: str) -> Iterator[str]:
    """Yield the values of small English number words and of months; of other languages it knows none."""
    for match in _WORD.finditer(text):
        yield _NUMBER_WORDS[match[1].lower()] if match[1] else _MONTH_NUMBERS[match[2]]


def _same_digits(a: list[str], b: list[str]) -> bool:
    """Whether two sides have the same digits in the same order: some writers put spaces between them."""
    return "".join(a) == "".join(b)


def _may_be_equal(a: str, b: str, years: Sequence[int]) -> bool:
    """Whether two numbers may say the same: a year, a century, a scale word, an afternoon hour."""
    if max(len(a), len(b)) > _MAX_DIGITS:
        return a == b
    short, long = sorted((a, b), key=len)
    smaller, larger = sorted((int(a), int(b)))
    if larger - smaller in years and smaller in _PLAUSIBLE_YEARS and larger in _PLAUSIBLE_YEARS:
        return True
    if len(long) == 4 and len(short) == 2 and long.endswith(short):
        return True
    if larger == 100 * (smaller - 1) or (larger - smaller == _HALF_DAY and larger <= 2 * _HALF_DAY):
        return True
    return _differ_by_scale(a, b)


def _differ_by_scale(a: str, b: str) -> bool:
    """Whether two numbers are equal but for a scale word: 15 (of 1.5 million) and 1500000."""
    return a == b or (max(len(a), len(b)) > 4 and a.rstrip("0") == b.rstrip("0"))


def _metric_equivalents(texts: tuple[str, str], sides: Sequence[list[str]]) -> list[dict[str, list[float]]]:
    """Return for the numbers of both sides with an English unit what they are in metric units, by their whole part.

    A unit that both sides have was not converted, nor was a range of which one number has no equal on the other side.
    """
    ranges = [
        [(list(_read_amounts(m[1])), (m[2] or "f").lower()) for m in _UNIT.finditer(text)] for text in texts
    ]
    shared_units = {unit for _, unit in ranges[0]} & {unit for _, unit in ranges[1]}
    equivalents: list[dict[str, list[float]]] = [{}, {}]
    for position, other_numbers in enumerate(reversed(sides)):
        for values, unit in ranges[position]:
            factors = _FACTORS.get(unit, ())
            conversions = [[v * factor for factor in factors] or [(v - 32) / 1.8] for v in values]
            if unit not in shared_units and all(
                any(_is_conversion_of(number, m) for number in other_numbers) for m in conversions
            ):
                for value, converted in zip(values, conversions, strict=True):
                    equivalents[position].setdefault(str(int(value)), []).extend(converted)
    return equivalents


def _read_amounts(amounts: str) -> Iterator[float]:
    """Yield the values of numbers in English, such as ``1,500 to 2,000.5``."""
    for written in re.findall(_AMOUNT, amounts):
        plain = written.rstrip(".,")
        plain = plain.replace(",", "") if _THOUSANDS.fullmatch(plain) else plain.replace(",", ".")
        if plain.count(".") < 2 and len(plain) <= _MAX_DIGITS:  # others are lists, dates or identifiers
            yield float(plain)


def _is_conversion_of(number: str, values: Sequence[float]) -> bool:
    """Whether a number is one of the values, rounded or cut to its whole part."""
    if len(number) > _MAX_DIGITS:
        return False
    value_given = int(number)
    return any(
        abs(value_given - value) < _ROUNDING_TOLERANCE * abs(value)
        or value_given in (int(value), round(value))
        for value in values
    )


def _digit_runs(side: str) -> pl.Expr:
    """Return the runs of digits of a side, sorted and joined."""
    plain = pl.col(side).str.replace_many(_NATIVE_DIGITS, _ASCII_DIGITS)
    return plain.str.extract_all(r"\d+").list.sort().list.join(" ")


def _host_names(side: str) -> pl.Expr:
    urls = pl.col(side).str.to_lowercase().str.extract_all(_URL)
    bare = urls.list.eval(pl.element().str.replace(r"^https?://", "").str.replace(r"^www\.", ""))
    return bare.list.unique().list.sort().list.join(" ")
