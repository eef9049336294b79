"""A rule that distinguishes Bosnian, Croatian and Serbian in Latin letters, which character models confuse.

The vowel that was yat is the first sign: ``e`` in Serbian (``vreme``, ``mesto``), ``je`` or ``ije`` in Bosnian and
Croatian (``vrijeme``, ``mjesto``). Between these, and where no such word stands, words decide that one standard
has: ``tisuća``, ``tjedan``, ``kolovoz`` in Croatian, ``hiljada``, ``sedmica``, ``august`` in the others. Serbian that
is written with ``ije`` counts as Bosnian, Montenegrin too, which the table of languages does not have.

Sources: Alexander 2006 (Bosnian, Croatian, Serbian: a Grammar, chapters 20 to 24); Ljubešić, Mikelić and Boras 2007.
"""

import re

from xling.core.package_tables import load_table

Ranking = list[tuple[str, float]]

GROUP = frozenset({"bs", "hr", "sr", "sh"})
SERBIAN, CROATIAN, BOSNIAN = "sr_Latn", "hr", "bs"
_EKAVIAN, _IJEKAVIAN, _CROATIAN, _NOT_CROATIAN = (
    re.compile(rf"\b(?:{'|'.join(words)})\b")
    for words in load_table(__package__, "south_slavic.yaml").values()
)
_MIN_LEAD = 1  # words of one kind more than of the other


def refine(ranking: Ranking, text: str) -> Ranking:
    """Return a ranking with the language that the rule finds first, if the best one is of the group.

    Args:
        ranking: languages with their probabilities, best first.
        text: in lower case and Latin letters; in another script the ranking stays.
    """
    if not ranking or ranking[0][0].partition("_")[0] not in GROUP:
        return ranking
    code = standard_of(text)
    if not code:
        return ranking
    share = sum(share for other, share in ranking if other.partition("_")[0] in GROUP)
    rest = [(other, score) for other, score in ranking if other.partition("_")[0] not in GROUP]
    return [(code, min(1.0, share)), *rest]


def standard_of(text: str) -> str:
    """Return `SERBIAN`, `CROATIAN` or `BOSNIAN` for a text in lower case, "" where no word tells."""
    ekavian, ijekavian = _count(_EKAVIAN, text), _count(_IJEKAVIAN, text)
    croatian, other = _count(_CROATIAN, text), _count(_NOT_CROATIAN, text)
    if ekavian >= ijekavian + _MIN_LEAD:
        return SERBIAN
    if ijekavian >= ekavian + _MIN_LEAD:
        return CROATIAN if croatian > other else BOSNIAN if other > croatian else ""
    if croatian > other:
        return CROATIAN
    return ""


def _count(pattern: re.Pattern[str], text: str) -> int:
    return sum(1 for _ in pattern.finditer(text))
