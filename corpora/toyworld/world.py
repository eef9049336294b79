"""Sampling of meanings: who does what, and documents in which the same people and places recur."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xling.corpora.toyworld.draw import Draw, digest
from xling.corpora.toyworld.lexicon import WORLD
from xling.corpora.toyworld.meaning import Entity, Meaning, Org, Person, Place, Role, Things

HELD_OUT_PERCENT = 30
"""Share of the names kept out of the labelled training sentences."""
HELD_OUT_DRAW_PERCENT = 50
"""How often a name in a dev or test sentence comes from the held-out ones."""

_NAME_GROUPS = ("first", "last", "brand", "bank", "place")
_KINDS = (
    ("event", 42), ("meet", 8), ("born", 7), ("travel", 7), ("acquire", 6), ("beat", 6), ("rain", 3),
    ("snow", 2), ("live", 5), ("work", 6), ("own", 4), ("older", 2), ("taller", 1), ("bigger", 1),
)  # fmt: skip
_KIND_TABLE = tuple(kind for kind, weight in _KINDS for _ in range(weight))
ORG_VERBS = ("buy", "sell", "build", "destroy", "open", "close", "order", "receive", "repair", "show")
VERBS = tuple(WORLD["verb"])
ROLES = tuple(WORLD["role"])
_LARGE_COUNTS = (6, 7, 8, 9, 10, 12, 15, 20, 30, 40)
_WEEKDAYS = tuple(t for t, row in WORLD["time"].items() if row["kind"] == "weekday")
_MONTHS = tuple(t for t, row in WORLD["time"].items() if row["kind"] == "month")
_BUILDINGS = tuple(n for n, row in WORLD["noun"].items() if row["group"] == "building")


def _entries_of_group(section: str, group: str) -> tuple[str, ...]:
    return tuple(i for i, row in WORLD[section].items() if group in row["groups"].split())


NOUNS = {
    verb: tuple(n for n, noun in WORLD["noun"].items() if noun["group"] in row["groups"].split())
    for verb, row in WORLD["verb"].items()
}
"""Verb to the things it may be done to."""
ADJECTIVES = {n: _entries_of_group("adjective", row["group"]) for n, row in WORLD["noun"].items()}
"""Thing to the adjectives it may have."""


def held_out_names() -> frozenset[str]:
    """Return lower-cased names of people, organisations and places that no labelled training sentence contains.

    A name is held out in all its uses, so Jordan the country does not betray Jordan the person. Which names
    are held out does not depend on the seed.
    """
    names = sorted(
        {n.lower() for section in _NAME_GROUPS for n in WORLD[section]}, key=lambda n: digest("held", n)
    )
    return frozenset(names[: len(names) * HELD_OUT_PERCENT // 100])


def _split_names() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Map each category of names to (names free to use anywhere, held-out names)."""
    held_out = held_out_names()
    groups: dict[str, list[str]] = {section: list(WORLD[section]) for section in _NAME_GROUPS}
    for role in ("team", "university"):
        groups[role] = [p for p, row in WORLD["place"].items() if role in row["roles"].split()]
    groups["country"] = [p for p, row in WORLD["place"].items() if row["kind"] == "country"]
    return {
        group: (
            tuple(n for n in ns if n.lower() not in held_out),
            tuple(n for n in ns if n.lower() in held_out),
        )
        for group, ns in groups.items()
    }


_NAMES = _split_names()
_ALL_NAMES = {group: free + held for group, (free, held) in _NAMES.items()}


class Names:
    """Pools that names are drawn from.

    Args:
        pool: ``all`` draws from every name, ``train`` from those that are not held out, ``test`` from the
            held-out ones in `HELD_OUT_DRAW_PERCENT` of the draws and else from the others.
    """

    def __init__(self, pool: str) -> None:
        assert pool in ("all", "train", "test"), pool
        self.pool = pool

    def draw(self, draw: Draw, group: str) -> str:
        """Return a name of ``group``: first, last, brand, bank, place, country, team or university."""
        if self.pool == "all":
            return draw.choice(_ALL_NAMES[group])
        held = self.pool == "test" and draw.chance(HELD_OUT_DRAW_PERCENT)
        return draw.choice(_NAMES[group][held])


@dataclass(frozen=True)
class DocumentEntities:
    """The people, organisations and places that recur in a document."""

    people: Sequence[Person] = ()
    orgs: Sequence[Org] = ()
    places: Sequence[str] = ()


class Sampler:
    """Draws meanings from one stream, preferring the names of a cast."""

    def __init__(self, draw: Draw, names: Names, entities: DocumentEntities | None = None) -> None:
        self.draw, self.names, self.entities = draw, names, entities or DocumentEntities()

    def person(self, other_than: Entity | None = None) -> Person:
        """Return a person whose shown name shares no part with ``other_than``."""
        draw = self.draw
        while True:
            if self.entities.people and draw.chance(70):
                person = draw.choice(self.entities.people)
            else:
                person = Person(self.names.draw(draw, "first"), self.names.draw(draw, "last"))
            taken = {other_than.first, other_than.last} if isinstance(other_than, Person) else set()
            if not taken & {person.first, person.last} and person.first != person.last:
                show = draw.below(10)
                return replace(person, show="full" if show < 5 else "last" if show < 8 else "first")

    def place(self, other_than: str = "", group: str = "place") -> str:
        """Draw the identifier of a place."""
        while True:
            use_cast = group == "place" and self.entities.places and self.draw.chance(60)
            place = self.draw.choice(self.entities.places) if use_cast else self.names.draw(self.draw, group)
            if place != other_than:
                return place

    def org(self, kinds: Sequence[str] = ("brand", "brand", "brand", "bank", "university")) -> Org:
        """Return an organisation of one of ``kinds``."""
        draw = self.draw
        fitting = [org for org in self.entities.orgs if org.kind in kinds]
        if fitting and draw.chance(60):
            return draw.choice(fitting)
        kind = draw.choice(kinds)
        return Org(kind, self.names.draw(draw, kind), kind == "brand" and draw.chance(40))

    def time(self) -> str:
        """Return a weekday, a month, a year or yesterday."""
        kind = self.draw.below(10)
        if kind < 4:
            return self.draw.choice(_WEEKDAYS)
        if kind < 6:
            return self.draw.choice(_MONTHS)
        return self.year() if kind < 9 else "yesterday"

    def year(self) -> str:
        """Return a year from 1950 to 2023."""
        return str(1950 + self.draw.below(74))

    def count(self) -> int:
        """Draw a number: one in 60 of 100 cases, else two to five, else larger."""
        share = self.draw.below(100)
        if share < 60:
            return 1
        return 2 + self.draw.below(4) if share < 88 else self.draw.choice(_LARGE_COUNTS)

    def things(self, noun: str, count: int) -> Things:
        """Return ``count`` things with or without an adjective."""
        # Hypernyms stay bare: "a big device" is said of nothing in particular.
        bare = not ADJECTIVES[noun] or noun == WORLD["noun"][noun]["group"]
        adjective = "" if bare or self.draw.chance(60) else self.draw.choice(ADJECTIVES[noun])
        return Things(noun, count, adjective, 1 < count <= 5 and self.draw.chance(25))

    def meaning(self, allow_said: bool = True) -> Meaning:
        """Draw any clause; one in ten is said speech."""
        draw = self.draw
        if allow_said and draw.chance(10):
            said = replace(self.meaning(allow_said=False), front=False)
            return Meaning("say", self.person(other_than=said.agent), said=said)
        kind = draw.choice(_KIND_TABLE)
        negated = draw.chance(15)
        if kind == "event":
            return self.event(negated)
        meaning = self._special_event(kind, negated)
        return replace(meaning, front=True) if meaning.time and draw.chance(25) else meaning

    def event(self, negated: bool) -> Meaning:
        """Draw a clause in which somebody does something to some things."""
        draw = self.draw
        agent_draw = draw.below(20)
        verb = draw.choice(ORG_VERBS if agent_draw >= 16 else VERBS)
        agent: Entity = self.org() if agent_draw >= 16 else self.person()
        if 13 <= agent_draw < 16:
            agent = Role(draw.choice(ROLES))
        noun = draw.choice(_BUILDINGS if agent_draw >= 18 and "building" in NOUNS[verb] else NOUNS[verb])
        things = self.things(noun, 1 if negated else self.count())
        place = self.place() if draw.chance(55) else ""
        time = self.time() if draw.chance(45) else ""
        front = bool(time) and draw.chance(30)
        return Meaning(verb, agent, things, place=place, time=time, negated=negated, front=front)

    def _special_event(self, kind: str, negated: bool) -> Meaning:
        draw = self.draw
        person = self.person()
        time = self.time() if draw.chance(50) else ""
        match kind:
            case "meet":
                other = self.person(other_than=person)
                place = self.place() if draw.chance(60) else ""
                return Meaning(kind, person, other=other, place=place, time=time, negated=negated)
            case "born":
                year = self.year() if draw.chance(60) else ""
                return Meaning(kind, person, place=self.place(), time=year, negated=negated)
            case "travel":
                source = self.place()
                place = self.place(other_than=source)
                return Meaning(kind, person, source=source, place=place, time=time, negated=negated)
            case "acquire":
                org = self.org(("brand", "brand", "bank"))
                other_org = self._other_org(org, "brand")
                return Meaning(kind, org, other=other_org, time=time, negated=negated)
            case "beat":
                team = self.org(("team",))
                score = "" if negated else f"{2 + draw.below(4)}-{draw.below(2)}"
                day = draw.choice(_WEEKDAYS) if time else ""
                other_org = self._other_org(team, "team")
                return Meaning(kind, team, other=other_org, time=day, negated=negated, score=score)
            case "rain" | "snow":
                return Meaning(kind, place=self.place(), time=time, negated=negated)
            case "live":
                return Meaning(kind, person, place=self.place(), negated=negated)
            case "work":
                return Meaning(kind, person, other=self.org(), negated=negated)
            case "own":
                things = self.things(draw.choice(NOUNS["buy"]), 1 if negated else self.count())
                return Meaning(kind, person, things, negated=negated)
            case "bigger":
                place = self.place(group="country")
                other_place = Place(self.place(other_than=place, group="country"))
                return Meaning(kind, Place(place), other=other_place, negated=negated)
        return Meaning(kind, person, other=self.person(other_than=person), negated=negated)

    def _other_org(self, org: Org, kind: str) -> Org:
        while (other := self.org((kind,))).name == org.name:
            pass
        return other


def draw_document(draw: Draw) -> list[Meaning]:
    """Draw four to eight clauses about the same few people, organisations and places.

    A quarter of the clauses after the first say again, in fewer words, what was said before: the text then
    rewards a model for looking back, as coherent text does.
    """
    names = Names("all")
    plain = Sampler(draw, names)
    people = [plain.person()]
    people.append(plain.person(other_than=people[0]))
    entities = DocumentEntities(people, [plain.org(), plain.org(("team",))], [plain.place(), plain.place()])
    sampler = Sampler(draw, names, entities)
    clauses: list[Meaning] = []
    for _ in range(4 + draw.below(5)):
        earlier = draw.choice(clauses) if clauses and draw.chance(25) else None
        shorter = _shortened(earlier, draw) if earlier else None
        clauses.append(shorter or sampler.meaning())
    return clauses


def _shortened(m: Meaning, draw: Draw) -> Meaning | None:
    """Return ``m`` with less detail, or None if there is nothing to leave out."""
    if m.said:
        return m.said
    if m.negated or not (m.time or m.things):
        return None
    things = m.things
    if things and things.adjective and draw.chance(50):
        things = replace(things, adjective="")
    if things and things.count == 1 and draw.chance(30):
        hypernym = WORLD["noun"][things.noun]["hypernym"]
        things = Things(hypernym) if hypernym else things
    keep_place = m.source or m.verb in ("born", "rain", "snow") or draw.chance(50)
    return replace(m, things=things, time="", front=False, place=m.place if keep_place else "")
