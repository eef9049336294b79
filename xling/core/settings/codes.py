"""Settings that name languages: where a setting is read, every usual code of a language becomes the one of our table.

A setting declares it by its type: ``lang: Lang``, ``langs: tuple[Lang, ...]``, ``corpora: dict[Lang, str]``. Codes that
the table does not have stay as they are, and the command that uses them says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, TypeAlias

from xling.core import languages

Lang: TypeAlias = Annotated[str, languages.canonical]
"""A language: ``swh``, ``swh_Latn`` and ``sw_KE`` become ``sw``."""
Pair: TypeAlias = Annotated[str, languages.canonical_pair]
"""Two languages with a dash: ``eng_Latn-swh_Latn`` becomes ``en-sw``."""
LangOrPair: TypeAlias = Annotated[str, languages.canonical_side]
"""A column of a suite, which is a language or a pair of two."""


def _each(convert: Callable[[str], str], text: str) -> str:
    return ",".join(convert(item.strip()) for item in text.split(",") if item.strip())


def _dictionary(item: str) -> str:
    """Convert the pair of ``eng-swh=PATH``."""
    pair, sign, path = item.partition("=")
    return f"{languages.canonical_pair(pair)}{sign}{path}" if sign else item


_OF_OBJECTIVE: Mapping[str, Callable[[str], str]] = {
    "langs": languages.canonical,
    "pairs": languages.canonical_pair,
    "directions": languages.canonical_pair,
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
