"""Grammars, one per language, behind ``render(meaning) -> list[Token]``."""

from __future__ import annotations

from collections.abc import Callable

from xling.core.errors import unknown
from xling.corpora.toyworld.grammar import de, en, es, fr, ru, sw, tr
from xling.corpora.toyworld.meaning import Meaning
from xling.corpora.toyworld.tokens import Token

_RENDER: dict[str, Callable[[Meaning], list[Token]]] = {
    "en": en.render,
    "de": de.render,
    "fr": fr.render,
    "es": es.render,
    "sw": sw.render,
    "tr": tr.render,
    "ru": ru.render,
}
LANGS: tuple[str, ...] = tuple(_RENDER)


def render(lang: str, meaning: Meaning) -> list[Token]:
    """Express ``meaning`` as a sentence of ``lang``.

    Raises:
        UserError: ``lang`` is not one of `LANGS`.
    """
    if lang not in _RENDER:
        raise unknown("toyworld language", lang, LANGS)
    return _RENDER[lang](meaning)
