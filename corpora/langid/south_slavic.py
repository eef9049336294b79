"""A rule that distinguishes Bosnian, Croatian and Serbian in Latin letters, which character models confuse.

The vowel that was yat is the first sign: ``e`` in Serbian (``vreme``, ``mesto``), ``je`` or ``ije`` in Bosnian and
Croatian (``vrijeme``, ``mjesto``). Between these, and where no such word stands, words decide that one standard
has: ``tisuća``, ``tjedan``, ``kolovoz`` in Croatian, ``hiljada``, ``sedmica``, ``august`` in the others. Serbian that
is written with ``ije`` counts as Bosnian, Montenegrin too, which the table of languages does not have.

Sources: Alexander 2006 (Bosnian, Croatian, Serbian: a Grammar, chapters 20 to 24); Ljubešić, Mikelić and Boras 2007.
"""

from __future__ import annotations

import re

Ranking = list[tuple[str, float]]

GROUP = frozenset({"bs", "hr", "sr", "sh"})
SERBIAN, CROATIAN, BOSNIAN = "sr_Latn", "hr", "bs"
_EKAVIAN = re.compile(
    r"\b(?:vreme|mest[aou]\w*|reč(?:i|ju|ima)?|dec[aeiu]|dete(?:ta|tu)?|lep[aeiou]|posle|gde|ovde|uvek|čovek\w*|"
    r"sve?t(?:a|u|om)|svetsk\w+|svet|cen[aeiou]|devoj\w+|mlek\w+|reke|reku|sneg\w*|tel[ao]|ver[aeu]|zahtev\w*|"
    r"primer\w*|del[aou]|delov\w+|delov[ai]|dve|dvema|cel[aeiou]|celog|videl[aoi]|mesec\w*|sused\w*|nemačk\w+|nemac|"
    r"nemc\w+|nedelj\w+|uspeh\w*|uspeš\w+|razume\w*|sever\w*|pobed\w+|obavest\w+|lek\w*|promen\w+|podel\w+|pre|ceo|"
    r"deo|hte(?:l[aoi]|o)|voleo|želeo|video|bezbedn\w+|predsedn\w+|sedišt\w+|sednic\w+|vest(?:i|ima)?|istovremen\w*|"
    r"zamen\w+|izvešta\w+|savet\w*|nasleđ\w+|seća\w+|mer[aeuio]|merama|primen\w+|lev[aeiou]|levic\w+|svest\w*|"
    r"vek(?:a|u|ova|ovima)?|hleb\w*|smer\w*|oseća\w+|već[ae]|sled\w+|umesto|namer\w+|reš\w+|poset\w+|prover\w+|"
    r"ponedelj\w+|odeljenj\w+|bele[žš]\w+|vernik\w*|poverenj\w+|dole|gore|ocen\w+|vredn\w+|svedo\w+|meša\w+|"
    r"veruj\w+|posledic\w+|razmen\w+|usled|večn\w+|vide(?:ti|la?|li)|žive(?:ti|[ol]\w?)|hteti|trpe\w+|sprovođenj\w+|"
    r"odsto|evra|retk\w+|bele|belog|redosled\w*|isceli\w+|uvred\w+|opredel\w+|zvezd\w+|telesn\w+|"
    r"potreb\w+ je da|izneo|doneo|poneo|uneo|preneo|odneo|naneo|sedeo|leteo|goreo|uspeo|umeo|smeo|"
    r"razumeo|\w{4,}(?:aće|aćemo))\b"
)
_IJEKAVIAN = re.compile(
    r"\b(?:vrijeme|mjest\w+|rije[čc]\w*|rječ\w+|djec\w+|dijete|djetet\w*|lijep\w+|ljep\w+|poslije|gdje|ovdje|uvijek|"
    r"čovje\w+|svijet\w*|svjet\w+|cijen\w+|djevoj\w+|mlije\w+|rijek\w*|snije\w+|tijel\w+|vjer\w+|zahtje\w+|"
    r"primje\w+|dijel\w*|djel\w+|dio|dvije\w*|cije\w+|cio|vidje\w+|mjesec\w*|susjed\w+|njema[čc]\w+|nijem\w+|"
    r"nedjelj\w+|tjed\w+|uspje\w+|razumi?je\w*|sjever\w*|pobje\w+|obavije\w+|obavje\w+|lije\w+|ljek\w+|promje\w+|"
    r"promije\w+|podjel\w+|podijel\w+|prije|htje\w+|bezbjed\w+|predsjed\w+|sjedi\w+|sjedn\w+|vijest\w*|zamje\w+|"
    r"zamije\w+|izvje\w+|savjet\w*|vijeć\w+|vijeka?|naslije\w+|nasljed\w+|sjeć\w+|mjer\w+|smjer\w*|primjen\w+|"
    r"primije\w+|hljeb\w*|osjeć\w+|osje[tć]\w+|mješ\w+|slijed\w*|sljed\w+|umjest\w+|namjer\w+|rješ\w+|rije[šđ]\w+|"
    r"posjet\w+|posjeć\w+|provje\w+|donije\w+|ponedjelj\w+|odjel\w*|bilje[žš]\w+|povjer\w+|unaprije\w+|prijedlo\w+|"
    r"također)\b"
)
_CROATIAN = re.compile(
    r"\b(?:tko|netko|nitko|svatko|što|nešto|tjed[na]\w+|tisuć\w+|siječ\w+|veljač\w+|ožuj\w+|travnj\w+|"
    r"svibnj\w+|svibanj|lipnj\w+|srpnj\w+|kolovoz\w*|ruj[na]\w+|listopad\w*|studen\w+|prosin\w+|sveučiliš\w+|"
    r"tvrtk\w+|glazb\w+|uopće|vlak\w*|kruh\w*|točk\w+|točn\w+|povijes\w+|izvješć\w+|nogomet\w*|zrakoplov\w*|tijekom|"
    r"također|europ\w+|kazališ\w+|znanost\w*|znanstven\w+|sustav\w*|tajni[kc]\w*|obitelj\w*|opć[eiau]\w*|županij\w+|"
    r"glede|priopć\w+|sudac|suca|sudaca|izvanredn\w+|priopćenj\w+|uvjet\w+|ravnatelj\w*|gospodarst\w+|"
    r"proračun\w*|plaća\w*|stoljeć\w+)\b"
)
_NOT_CROATIAN = re.compile(
    r"\b(?:ko|neko|niko|svako|šta|sedmic\w+|hiljad\w+|januar\w*|februar\w*|mart\w*|april\w*|maj[au]?|jun[aiu]?|"
    r"jul[aiu]?|av?gust\w*|septemb\w+|oktob\w+|novemb\w+|decemb\w+|univerzite\w+|muzi[kč]\w+|voz\w?|histori\w+|"
    r"istorij\w+|lahk\w+|mehk\w+|polahko|tač[kn]\w+|tokom|takođe|saopć\w+|saopšt\w+|evrop\w+|fabri[kč]\w+|"
    r"pozoriš\w+|nau[kč]\w+|sistem\w*|sekretar\w*|porodic\w+|bezbjed\w+|kanton\w*|entitet\w*|bošnj\w+|opšt\w+|"
    r"uslov\w*|direktor\w*|privred\w+|budžet\w*|vijek\w*|vek\w*|sudij\w+|preduzeć\w+)\b"
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
