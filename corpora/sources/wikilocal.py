"""Templates that one Wikipedia has, and what they show; those of all are in `wikitemplates`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from xling.corpora.common.raised import raised
from xling.corpora.sources.wikitemplates import Arguments

_LANG_OF_DE = re.compile(
    r"(?:en|fr|it|es|la|grc|el|ru|ar|ja|zh|ko|pl|cs|hu|tr|he|fa|nl|pt|sv|da|no|fi|ro|uk|sr|hr|bs|sl|sk|bg|mk|sq|ka|hy|"
    r"sa|hi|ur|bn|ta|th|vi|id|ms|bo|mn|kk|uz|az|eu|ca|gl|oc|ga|gd|cy|br|is|lt|lv|et|be|af|sw|eo|yi|ku|syr|akk|egy)s"
)
_SPANISH_MONTHS = ("enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre",
                   "noviembre", "diciembre")  # fmt: skip
_Shown = Callable[[Arguments], str]


def _first(arguments: Arguments) -> str:
    return arguments.at(1)


def _behind(word: str) -> _Shown:
    return lambda arguments: f"{word} {arguments.at(1)}".strip()


def _fecha(arguments: Arguments) -> str:
    parts = [part for part in arguments[:3] if part]
    if len(parts) > 1 and parts[1].isdecimal() and 1 <= int(parts[1][:3]) <= len(_SPANISH_MONTHS):
        parts[1] = _SPANISH_MONTHS[int(parts[1]) - 1]
    return " de ".join(parts)


def _siglo(arguments: Arguments) -> str:
    before = "siglo " if arguments.at(3).lower() == "s" else "Siglo " if arguments.at(3) == "S" else ""
    return f"{before}{arguments.at(1)}{' a. C.' if arguments.at(2).lower() == 'a' else ''}"


def _marked(arguments: Arguments) -> str:
    return arguments.first_of("範囲")


_OF_ALL: Mapping[str, _Shown] = {
    **dict.fromkeys(("sup", "exp", "superscript"), lambda arguments: raised(arguments.at(1)))
}
_OF_LANGS: Mapping[str, Mapping[str, _Shown]] = {
    "de": {
        **dict.fromkeys(("formatzahllokal", "formatnum", "nobr", "versal", "kapitälchen"), _first),
        "betrag": lambda arguments: " ".join(filter(None, arguments[:2])),
    },
    "fr": {
        **dict.fromkeys(("numéro", "n°", "numero", "no"), _behind("n°")), "p.": _behind("p."),
        "unité/2": lambda arguments: f"{' '.join(arguments[:2])}{raised(arguments.at(3))}",
        **dict.fromkeys(("abréviation", "abrév", "sc", "pc"), _first),
    },
    "es": {
        "fecha": _fecha, "siglo": _siglo, **dict.fromkeys(("versalitas", "versalita", "nowrap"), _first),
        "ac": lambda arguments: "a. C.", "dc": lambda arguments: "d. C.",
    },
    "ru": {
        **dict.fromkeys(("год", "сс3", "сс", "нп-", "s"), _first),
        "до н. э.": lambda arguments: "до н. э.", "н. э.": lambda arguments: "н. э.",
    },
    "ja": dict.fromkeys(("要出典", "要検証", "独自研究範囲", "いつ範囲"), _marked),
}  # fmt: skip


def local_text(name: str, arguments: Arguments, lang: str) -> str | None:
    """Return what a template of the Wikipedia in a language shows, None for one that is not of these.

    Args:
        name: in lower case with spaces.
        arguments: what it is given.
        lang: of the wiki.
    """
    if show := _OF_LANGS.get(lang, {}).get(name) or _OF_ALL.get(name):
        return show(arguments)
    return arguments.at(1) if lang == "de" and _LANG_OF_DE.fullmatch(name) else None
