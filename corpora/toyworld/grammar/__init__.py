"""Grammars, one per language, behind ``clause(meaning) -> Phrase``."""

from collections.abc import Callable

from xling.core.errors import unknown
from xling.corpora.toyworld.grammar import de, en, es, fr, ru, sw, tr
from xling.corpora.toyworld.meaning import Meaning
from xling.corpora.toyworld.tokens import Phrase, Token, sentence

_CLAUSES: dict[str, Callable[[Meaning], Phrase]] = {
    "en": en.clause,
    "de": de.clause,
    "fr": fr.clause,
    "es": es.clause,
    "sw": sw.clause,
    "tr": tr.clause,
    "ru": ru.clause,
}
LANGS: tuple[str, ...] = tuple(_CLAUSES)


def render(lang: str, meaning: Meaning) -> list[Token]:
    """Express ``meaning`` as a sentence of ``lang``.

    Raises:
        UserError: ``lang`` is not one of `LANGS`.
    """
    if lang not in _CLAUSES:
        raise unknown("toyworld language", lang, LANGS)
    return sentence(_CLAUSES[lang](meaning), tr.upper if lang == "tr" else str.upper)
