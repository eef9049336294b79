"""Valid values of settings: ranges, languages, schedules, amounts of bytes and of time.

A range is declared beside the default of its setting and checked in one place. A setting that names languages declares
it by its type, ``lang: Lang``, ``langs: tuple[Lang, ...]``, ``corpora: dict[Lang, str]``: every usual code or name
becomes the code of our table. Words that the table does not have stay as they are, and the command that uses them says
so. A schedule is ``UPDATE:VALUE,...``, linear between its points and constant outside of them.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from xling.core import language_names, languages
from xling.core.errors import UserError, unknown

RANGE = "range"


@dataclass(frozen=True)
class Range:
    """The interval of valid numbers for a setting; infinite numbers are never valid.

    Attributes:
        least, most: inclusive bounds.
        above, below: exclusive bounds.
        words: description of the valid values for messages; if empty, it is made from the bounds.
    """

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    words: str = ""

    def holds(self, value: float) -> bool:
        """Return whether ``value`` is in the range."""
        return self.least <= value <= self.most and self.above < value < self.below

    def __str__(self) -> str:
        if self.words:
            return self.words
        bounds = (("from", self.least), ("above", self.above), ("to", self.most), ("below", self.below))
        return " ".join(
            ["a number", *(f"{word} {bound:g}" for word, bound in bounds if math.isfinite(bound))]
        )


class OneOf(tuple[str, ...]):
    """The closed list of valid texts for a setting whose type is plain text."""

    def holds(self, value: str) -> bool:
        """Return whether ``value`` is in the list."""
        return value in self

    def __str__(self) -> str:
        return "one of " + ", ".join(filter(None, self))


COUNT = Range(least=1, words="a whole number from 1")
COUNT_OR_NONE = Range(least=0, words="a whole number from 0")
POSITIVE = Range(above=0)
NOT_NEGATIVE = Range(least=0)
SHARE = Range(least=0, below=1, words="a share from 0, below 1")
SEQUENCE = Range(least=8, words="a whole number from 8")
"""Tokens of a sequence, with room for specials and a piece on either side."""
PART = Range(least=0, most=1, words="a share from 0 to 1")
COVERAGE = Range(least=0.98, most=1)
"""Share of the characters that SentencePiece gives pieces of their own."""


def ranged(default: Any, valid: Range | OneOf, metadata: Mapping[str, Any] | None = None) -> Any:
    """Declare a dataclass field with a default and a range."""
    return field(default=default, metadata={**(metadata or {}), RANGE: valid})


def check(cfg: Any, prefix: str = "", declared: Any = None) -> None:
    """Reject settings of a dataclass that are outside of the range that their field declares.

    Args:
        cfg: a dataclass with fields of `ranged`; None is always valid.
        prefix: prefix of the setting's name in messages, for example ``model.``.
        declared: the dataclass, if ``cfg`` holds its values and is none.

    Raises:
        UserError: a setting is out of its range; the first one is named.
    """
    for item in fields(declared or cfg):
        valid, value = item.metadata.get(RANGE), getattr(cfg, item.name)
        if valid is not None and value is not None and not valid.holds(value):
            if isinstance(valid, OneOf):
                raise unknown(f"value for {prefix}{item.name}", value, valid)
            raise UserError(f"{prefix}{item.name}={value}", str(valid))


@dataclass(frozen=True)
class Schedule:
    """A value by the number of updates.

    Attributes:
        updates: ascending.
        values: from 0, one for each.
    """

    updates: tuple[int, ...]
    values: tuple[float, ...]

    def at(self, update: int) -> float:
        """Return the value after ``update`` updates."""
        import numpy as np  # help and mistakes are told without it

        return float(np.interp(update, self.updates, self.values))


def parse_schedule(name: str, text: str) -> Schedule:
    """Read the setting ``name``, for example ``0:1,1000:0``.

    Raises:
        UserError: it has another form, its updates do not ascend, or a value is below 0 or not finite.
    """
    try:
        points = [point.split(":") for point in str(text).split(",")]
        updates, values = [int(update) for update, _ in points], [float(value) for _, value in points]
    except ValueError:
        updates, values = [], []
    ascends = bool(updates) and updates[0] >= 0 and all(one < next_one for one, next_one in pairwise(updates))
    if not ascends or not all(0 <= value < math.inf for value in values):
        raise UserError(
            f"{name}={text}", "UPDATE:VALUE,..., updates ascending and values from 0, for example 0:1,1000:0"
        )
    return Schedule(tuple(updates), tuple(values))


_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]+)")
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def num_bytes(text: str) -> int | None:
    """Return the bytes of ``20GB`` or ``500 MiB``; None for what has no unit of bytes."""
    match = _AMOUNT.fullmatch(text.strip())
    unit = _BYTES.get(match[2].lower()) if match else None
    return int(float(match[1]) * unit) if match and unit else None


def num_seconds(name: str, text: str) -> float:
    """Return the seconds of ``90m``, ``2h`` or ``45s``; 0 for "".

    Raises:
        UserError: not a time above 0.
    """
    if not text:
        return 0.0
    match = _AMOUNT.fullmatch(text.strip())
    unit = _SECONDS.get(match[2].lower()) if match else None
    if not match or not unit or not float(match[1]):
        raise UserError(f"{name}={text}", "a time above 0 with its unit: 45s, 90m, 2h or 1d")
    return float(match[1]) * unit


def code_of(text: str) -> str:
    """Convert a code of any scheme, or a language's name: ``swh``, ``Swahili`` and ``Kiswahili`` become ``sw``.

    Raises:
        UserError: it is not a text.
    """
    if not isinstance(text, str):  # from Python
        raise UserError(f"the language {text!r}", "a code or a name, such as sw or Swahili")
    code = languages.canonical(text)
    if code != text or code in languages.LANGUAGES or not any(map(str.isalpha, text)):
        return code
    language = language_names.named(text) if not {".", "/"} & {*text} else None
    return language.code if language else text


def code_of_pair(text: str) -> str:
    """Convert two codes or names with a dash: ``eng_Latn-swh_Latn`` and ``English-Swahili`` become ``en-sw``."""
    pair = languages.canonical_pair(text)
    sides = text.split("-")
    if pair != text or len(sides) != 2:
        return pair
    return "-".join(map(code_of, sides))


def code_of_side(text: str) -> str:
    """Convert a language or a pair of two."""
    ours = languages.canonical_side(text)
    return ours if ours != text else code_of_pair(text) if "-" in text else code_of(text)


def codes_of(text: str) -> str:
    """Convert every language of ``Swahili,en``."""
    return _each(code_of, text)


Lang: TypeAlias = Annotated[str, code_of]
"""A language: ``swh``, ``swh_Latn``, ``sw_KE`` and ``Swahili`` become ``sw``."""
LangList: TypeAlias = Annotated[str, codes_of]
"""One language or several with commas between them."""
Pair: TypeAlias = Annotated[str, code_of_pair]
"""Two languages with a dash: ``eng_Latn-swh_Latn`` becomes ``en-sw``."""
LangOrPair: TypeAlias = Annotated[str, code_of_side]
"""A column of a suite, which is a language or a pair of two."""


def named_path(item: str) -> tuple[str, str]:
    """Return name and path of ``NAME=PATH``, the name "" of a path alone; what is there may hold ``=`` itself."""
    for start in [0, *(match.end() for match in re.finditer("=", item))]:
        if item[start:] and Path(item[start:]).exists():
            return item[: max(0, start - 1)], item[start:]
    name, _, path = item.rpartition("=")
    return name, path


def _each(convert: Callable[[str], str], text: str) -> str:
    return ",".join(convert(item.strip()) for item in text.split(",") if item.strip())


def _dictionary(item: str) -> str:
    """Convert the pair of ``eng-swh=PATH``."""
    pair, sign, path = item.partition("=")
    return f"{code_of_pair(pair)}{sign}{path}" if sign else item


_OF_OBJECTIVE: Mapping[str, Callable[[str], str]] = {
    "langs": code_of,
    "pairs": code_of_pair,
    "directions": code_of_pair,
    "dictionaries": _dictionary,
}


def _one_objective(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        name: _each(_OF_OBJECTIVE[name], text) if name in _OF_OBJECTIVE else text
        for name, text in settings.items()
    }


def _objectives(settings: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {name: _one_objective(own) for name, own in settings.items()}


ObjectiveSettings: TypeAlias = Annotated[dict[str, str], _one_objective]
"""Settings of one objective, in which ``langs``, ``pairs``, ``directions`` and ``dictionaries`` name languages."""
Objectives: TypeAlias = Annotated[dict[str, dict[str, str]], _objectives]
"""Objective -> its settings."""
