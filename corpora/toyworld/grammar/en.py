"""English: do-support, articles a/an."""

from __future__ import annotations

from functools import lru_cache

from xling.corpora.toyworld.lexicon import load
from xling.corpora.toyworld.meaning import Entity, Meaning, Org, Person, Place, Role, Things
from xling.corpora.toyworld.tokens import Phrase, Token, name, sentence, seq, shown_name, time_phrase, words

LEX = load("en")
_PRESENT = ("live", "own", "work")


def render(meaning: Meaning) -> list[Token]:
    """Express ``meaning`` as an English sentence."""
    return sentence(_clause(meaning))


@lru_cache(maxsize=1 << 14)
def _who(entity: Entity | None) -> Phrase:
    match entity:
        case Person():
            return name(shown_name(entity), "PER")
        case Place():
            return name(LEX["place"][entity.name]["form"], "LOC")
        case Role():
            return words("the " + LEX["role"][entity.name]["form"])
        case Org("university"):
            return seq("the", name("University of " + LEX["place"][entity.name]["form"], "ORG"))
        case Org("team"):
            return name(LEX["place"][entity.name]["form"], "ORG")
        case Org("bank"):
            return name(entity.name + " Bank", "ORG")
        case Org():
            return seq("the company" if entity.generic else "", name(entity.name, "ORG"))
    return words("it")


@lru_cache(maxsize=1 << 14)
def _things(things: Things | None) -> Phrase:
    if things is None:
        return ()
    noun = LEX["noun"][things.noun]["sg" if things.count == 1 else "pl"]
    adjective = LEX["adjective"][things.adjective]["form"] if things.adjective else ""
    if things.count == 1:
        number = "an" if (adjective or noun)[0] in "aeiou" else "a"
    else:
        number = LEX["number"].get(str(things.count), {"form": str(things.count)})["form"]
    return words(f"{'at least' if things.at_least else ''} {number} {adjective} {noun}")


def _verb(m: Meaning) -> str:
    if m.verb == "born":
        return "was not born" if m.negated else "was born"
    if m.verb in LEX["comparative"]:
        return f"is {'not' if m.negated else ''} {LEX['comparative'][m.verb]['form']} than"
    if m.verb == "say":
        return "said that"
    verb = LEX["verb"][m.verb]
    if m.negated:
        return f"{'does' if m.verb in _PRESENT else 'did'} not {verb['base']}"
    return verb["past"]


def _clause(m: Meaning) -> Phrase:
    time = time_phrase(LEX["time"], m.time)
    return seq(
        f"{time} ," if m.front else "",
        _who(m.agent),
        _verb(m),
        _clause(m.said) if m.said else "",
        "for" if m.verb == "work" else "",
        _things(m.things),
        _who(m.other) if m.other else "",
        m.score,
        seq("from", _who(Place(m.source)), "to") if m.source else "in" if m.place else "",
        _who(Place(m.place)) if m.place else "",
        "" if m.front else time,
    )
