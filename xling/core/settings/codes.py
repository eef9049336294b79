"""Settings that name languages: where a setting is read, every usual code or name becomes the code of our table.

A setting declares it by its type: ``lang: Lang``, ``langs: tuple[Lang, ...]``, ``corpora: dict[Lang, str]``. Words that
the table does not have stay as they are, and the command that uses them says so.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, TypeAlias

from xling.core import language_names, languages
from xling.core.errors import UserError


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
