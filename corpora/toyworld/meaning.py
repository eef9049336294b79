"""Meanings of sentences, independent of any language.

The names of these classes and of their fields are part of what assigns a meaning to a split (`stream.is_in_split`):
with others the data are different ones.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Person:
    """A person; ``show`` says which of the names the sentence uses: full, first or last."""

    first: str
    last: str
    show: str = "full"


@dataclass(frozen=True, slots=True)
class Org:
    """An organisation.

    ``kind`` is brand, bank, university or team; ``name`` is the identifier of a brand or bank, or, for a
    university or team, of the city it is named after. A ``generic`` brand is introduced as "the company X".
    """

    kind: str
    name: str
    generic: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A city or country."""

    name: str


@dataclass(frozen=True, slots=True)
class Role:
    """An unnamed person known by occupation: "the teacher"."""

    name: str


@dataclass(frozen=True, slots=True)
class Things:
    """``count`` things of one kind; one of them is indefinite ("a car")."""

    noun: str
    count: int = 1
    adjective: str = ""
    at_least: bool = False


Entity = Person | Org | Place | Role


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of one clause.

    Attributes:
        verb: an identifier of the world's verbs, or one of `SPECIAL`.
        agent: who does it; None for weather.
        things: the object, where it is a thing.
        other: the object, where it is a person, organisation or country.
        place: identifier of the place ("" for none); for ``travel`` the destination.
        source: identifier of the place a journey starts from.
        time: identifier of a weekday, month or day, a year as digits, or "".
        negated: whether the clause is denied.
        front: whether the time stands at the beginning of the sentence.
        score: the result of a match, for ``beat``.
        said: what was said, for ``say``.
    """

    verb: str
    agent: Entity | None = None
    things: Things | None = None
    other: Entity | None = None
    place: str = ""
    source: str = ""
    time: str = ""
    negated: bool = False
    front: bool = False
    score: str = ""
    said: Meaning | None = None


SPECIAL = (
    "acquire", "beat", "bigger", "born", "live", "meet", "older", "own", "rain", "say", "snow", "taller",
    "travel", "work",
)  # fmt: skip


def entities(meaning: Meaning) -> list[str]:
    """Return the sorted entity types (PER, ORG, LOC) that every rendering of ``meaning`` must contain."""
    types = [kind for kind in (entity_type(meaning.agent), entity_type(meaning.other)) if kind]
    types += ["LOC"] * (bool(meaning.place) + bool(meaning.source))
    if meaning.said:
        types += entities(meaning.said)
    return sorted(types)


def entity_type(entity: Entity | None) -> str:
    """Return PER, ORG or LOC, or "" if it is not a named entity."""
    match entity:
        case Person():
            return "PER"
        case Org():
            return "ORG"
        case Place():
            return "LOC"
        case _:
            return ""
