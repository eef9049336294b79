"""Spanish: gender and number agreement, adjectives after the noun, weather without a subject."""

from __future__ import annotations

from functools import lru_cache

from xling.corpora.toyworld.lexicon import WORLD, load
from xling.corpora.toyworld.meaning import Entity, Meaning, Org, Person, Place, Role, Things
from xling.corpora.toyworld.tokens import Phrase, Token, name, sentence, seq, shown_name, time_phrase, words

LEX = load("es")


def render(meaning: Meaning) -> list[Token]:
    """Express ``meaning`` as a Spanish sentence."""
    return sentence(_clause(meaning))


@lru_cache(maxsize=1 << 14)
def _who(entity: Entity | None) -> Phrase:
    match entity:
        case Person():
            return name(shown_name(entity), "PER")
        case Place():
            return name(LEX["place"][entity.name]["form"], "LOC")
        case Role():
            return words("el " + LEX["role"][entity.name]["form"])
        case Org("university"):
            return seq("la", name("Universidad de " + LEX["place"][entity.name]["form"], "ORG"))
        case Org("team"):
            return name(LEX["place"][entity.name]["form"], "ORG")
        case Org("bank"):
            return seq("el", name("Banco " + entity.name, "ORG"))
        case Org():
            return seq("la empresa" if entity.generic else "", name(entity.name, "ORG"))
    return ()


@lru_cache(maxsize=1 << 14)
def _things(things: Things | None, negated: bool) -> Phrase:
    if things is None:
        return ()
    noun = LEX["noun"][things.noun]
    gender, single = noun["gender"], things.count == 1
    adjective = LEX["adjective"][things.adjective][gender] if things.adjective else ""
    if single:
        article = {"m": "ningún", "f": "ninguna"} if negated else {"m": "un", "f": "una"}
        return words(f"{article[gender]} {noun['sg']} {adjective}")
    number = LEX["number"].get(str(things.count), {"form": str(things.count)})["form"]
    at_least = "al menos" if things.at_least else ""
    return words(f"{at_least} {number} {noun['pl']} {adjective + 's' if adjective else ''}")


def _verb(m: Meaning) -> str:
    no = "no " if m.negated else ""
    if m.verb not in LEX["comparative"]:
        return no + LEX["verb"][m.verb]["form"] + (" que" if m.said else "")
    feminine = isinstance(m.agent, Person) and WORLD["first"][m.agent.first]["gender"] == "f"
    return f"{no}es {LEX['comparative'][m.verb]['f' if feminine else 'm']} que"


def _clause(m: Meaning) -> Phrase:
    time = time_phrase(LEX["time"], m.time)
    return seq(
        f"{time} ," if m.front else "",
        _who(m.agent),
        _verb(m),
        _clause(m.said) if m.said else "",
        "para" if m.verb == "work" else "",
        _things(m.things, m.negated),
        _who(m.other) if m.other else "",
        m.score,
        seq("de", name(LEX["place"][m.source]["form"], "LOC"), "a") if m.source else "en" if m.place else "",
        _who(Place(m.place)) if m.place else "",
        "" if m.front else time,
    )
