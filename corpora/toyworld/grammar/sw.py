"""Swahili: noun classes with concords on adjectives and numbers, subject prefixes, tense and negation."""

from __future__ import annotations

from functools import lru_cache

from xling.corpora.toyworld.lexicon import WORLD, load
from xling.corpora.toyworld.meaning import Entity, Meaning, Org, Person, Place, Role, Things
from xling.corpora.toyworld.tokens import Phrase, Token, name, sentence, seq, shown_name, time_phrase, words

LEX = load("sw")
# Subject prefixes: affirmative, negative. People class 1, universities (chuo) class 7, the rest class 9.
_PREFIX = {1: ("a", "ha"), 7: ("ki", "haki"), 9: ("i", "hai")}


def render(meaning: Meaning) -> list[Token]:
    """Express ``meaning`` as a Swahili sentence."""
    return sentence(_clause(meaning))


@lru_cache(maxsize=1 << 14)
def _who(entity: Entity | None) -> Phrase:
    match entity:
        case Person():
            return name(shown_name(entity), "PER")
        case Place():
            return name(LEX["place"][entity.name]["form"], "LOC")
        case Role():
            return words(LEX["role"][entity.name]["form"])
        case Org("university"):
            return name("Chuo Kikuu cha " + LEX["place"][entity.name]["form"], "ORG")
        case Org("team"):
            return name(LEX["place"][entity.name]["form"], "ORG")
        case Org("bank"):
            return name("Benki ya " + entity.name, "ORG")
        case Org():
            return seq("kampuni ya" if entity.generic else "", name(entity.name, "ORG"))
    return ()


@lru_cache(maxsize=1 << 10)
def _at(place: str) -> Phrase:
    """In a place: mjini London, nchini Kenya."""
    return seq("mjini" if WORLD["place"][place]["kind"] == "city" else "nchini", _who(Place(place)))


@lru_cache(maxsize=1 << 14)
def _things(things: Things | None) -> Phrase:
    if things is None:
        return ()
    noun = LEX["noun"][things.noun]
    single = things.count == 1
    concord = f"c{int(noun['class']) + (not single)}"
    adjective = LEX["adjective"][things.adjective][concord] if things.adjective else ""
    number = str(things.count) if not single else ""
    if number in LEX["number"]:
        number = LEX["number"][number][concord]
    at_least = "angalau" if things.at_least else ""
    return words(f"{at_least} {noun['sg' if single else 'pl']} {adjective} {number}")


def _class(entity: Entity | None) -> int:
    match entity:
        case Person() | Role():
            return 1
        case Org("university"):
            return 7
    return 9


def _verb(m: Meaning) -> str:
    positive, negative = _PREFIX[_class(m.agent)]
    if m.verb in LEX["comparative"]:
        return f"{'si' if m.negated else 'ni'} {LEX['comparative'][m.verb]['form']} kuliko"
    match m.verb:
        case "live":
            return negative + "ishi" if m.negated else positive + "naishi"
        case "work":
            return (negative + "fanyi" if m.negated else positive + "nafanya") + " kazi katika"
        case "own":
            return negative + "na" if m.negated else positive + "na"
    verb = LEX["verb"][m.verb]
    tail = {"meet": " na", "say": " kwamba"}.get(m.verb, "")
    if m.negated:
        return f"{negative}ku{verb['negative'] or verb['stem']}{tail}"
    return f"{positive}li{verb['stem']}{tail}"


def _subject(m: Meaning) -> Phrase:
    if m.agent is None:
        return words("mvua" if m.verb == "rain" else "theluji")
    return _who(m.agent)


def _clause(m: Meaning) -> Phrase:
    time = time_phrase(LEX["time"], m.time)
    place: Phrase = _at(m.place) if m.place else ()
    if m.source:
        place = seq("kutoka", _who(Place(m.source)), "hadi", _who(Place(m.place)))
    return seq(
        f"{time} ," if m.front else "",
        _subject(m),
        _verb(m),
        _clause(m.said) if m.said else "",
        _things(m.things),
        "kampuni ya" if m.verb == "acquire" and isinstance(m.other, Org) and not m.other.generic else "",
        _who(m.other) if m.other else "",
        m.score,
        place,
        "" if m.front else time,
    )
