"""Generation of premise and hypothesis with a known relation.

The convention of the toy world: an agent does one kind of thing to one kind of object at most once. Hence
"Anna bought a car in Paris" contradicts "Anna bought a car in Rome", buying contradicts selling the same,
and two different agents or two unrelated objects have nothing to do with each other.

The hypothesis is drawn first, then a label, then a premise that stands in that relation to it. Every
hypothesis admits every label, so the hypothesis alone says nothing about the label.
"""

from collections.abc import Callable
from dataclasses import replace

from xling.corpora.toyworld.draw import Draw
from xling.corpora.toyworld.lexicon import WORLD
from xling.corpora.toyworld.meaning import Meaning, Things
from xling.corpora.toyworld.world import ADJECTIVES, NOUNS, VERBS, Names, Sampler

LABELS = ("entailment", "neutral", "contradiction")
_HYPONYMS = {
    hyper: tuple(n for n, row in WORLD["noun"].items() if row["hypernym"] == hyper)
    for hyper in ("animal", "fruit", "building", "device")
}


def _time_kind(time: str) -> str:
    return "year" if time.isdigit() else WORLD["time"][time]["kind"]


def _entails_things(special: Things, general: Things) -> bool:
    noun = special.noun == general.noun or WORLD["noun"][special.noun]["hypernym"] == general.noun
    adjective = general.adjective in ("", special.adjective)
    # "a car" is said of at least one car.
    if general.at_least or general.count == 1:
        count = special.count >= general.count
    else:
        count = special.count == general.count and not special.at_least
    return noun and adjective and count


def entails(special: Meaning, general: Meaning) -> bool:
    """Return whether an event ``special`` implies ``general``, ignoring polarity and verb."""
    if special.things and general.things and not _entails_things(special.things, general.things):
        return False
    places = general.place in ("", special.place)
    return places and general.time in ("", special.time)


def contradicts(premise: Meaning, hypothesis: Meaning) -> bool:
    """Return whether ``premise`` and ``hypothesis`` describe the same event with incompatible place, time or number."""
    if premise.things and hypothesis.things:
        a, b = premise.things, hypothesis.things
        if a.noun != b.noun or (a.adjective and b.adjective and a.adjective != b.adjective):
            return False
        if a.count != b.count and min(a.count, b.count) > 1 and not a.at_least and not b.at_least:
            return True
    if premise.place and hypothesis.place and premise.place != hypothesis.place:
        return True
    return bool(
        premise.time
        and hypothesis.time
        and premise.time != hypothesis.time
        and _time_kind(premise.time) == _time_kind(hypothesis.time)
    )


def nli_label(premise: Meaning, hypothesis: Meaning) -> str:
    """Return the label of premise ``premise`` and hypothesis ``hypothesis`` under the convention of the toy world."""
    if premise.agent != hypothesis.agent:
        return "neutral"
    if premise.verb != hypothesis.verb:
        opposite = WORLD["verb"].get(premise.verb, {"antonym": ""})["antonym"] == hypothesis.verb
        both = not premise.negated and not hypothesis.negated and entails(premise, hypothesis)
        return "contradiction" if opposite and both else "neutral"
    if premise.negated:
        if not entails(hypothesis, premise):
            return "neutral"
        return "entailment" if hypothesis.negated else "contradiction"
    if entails(premise, hypothesis):
        return "contradiction" if hypothesis.negated else "entailment"
    if contradicts(premise, hypothesis):
        return "entailment" if hypothesis.negated else "contradiction"
    return "neutral"


class _Premises:
    """Premises for one hypothesis; a method gives one, or None where its change does not apply."""

    def __init__(self, hypothesis: Meaning, sampler: Sampler) -> None:
        self.hypothesis, self.sampler, self.draw = hypothesis, sampler, sampler.draw

    def specialised_premise(self) -> Meaning:
        """Return an affirmed hypothesis with details added; at least one if there is room."""
        hypothesis, draw = self.hypothesis, self.draw
        m = replace(hypothesis, negated=False)
        additions: list[Callable[[Meaning], Meaning]] = []
        if not hypothesis.place:
            additions.append(lambda m: replace(m, place=self.sampler.place()))
        if not hypothesis.time:
            additions.append(lambda m: replace(m, time=self._new_time()))
        if hypothesis.things and hypothesis.things.noun in _HYPONYMS:
            noun = draw.choice([n for n in _HYPONYMS[hypothesis.things.noun] if n in NOUNS[hypothesis.verb]])
            m = replace(m, things=replace(hypothesis.things, noun=noun))
        if hypothesis.things and hypothesis.things.at_least:
            more = hypothesis.things.count + draw.below(3)
            m = replace(m, things=replace(hypothesis.things, count=more, at_least=False))
        if hypothesis.things and not hypothesis.things.adjective and ADJECTIVES[hypothesis.things.noun]:
            additions.append(self._add_description)
        if additions:
            first = draw.below(len(additions))
            for i, add in enumerate(additions):
                if i == first or draw.chance(30):
                    m = add(m)
        return m

    def _add_description(self, m: Meaning) -> Meaning:
        assert m.things is not None
        return replace(m, things=replace(m.things, adjective=self.draw.choice(ADJECTIVES[m.things.noun])))

    def _new_time(self) -> str:
        return self.sampler.year() if self.hypothesis.verb == "born" else self.sampler.time()

    def generalised_premise(self) -> Meaning:
        """Return a denied hypothesis with details removed."""
        hypothesis, draw = self.hypothesis, self.draw
        drop = draw.choice(self._droppable() or ["nothing"])
        place = "" if drop == "place" or (hypothesis.verb != "born" and draw.chance(30)) else hypothesis.place
        time = "" if drop == "time" or draw.chance(30) else hypothesis.time
        things = hypothesis.things
        if things:
            things = replace(things, count=1, at_least=False)
            if drop == "adjective" or draw.chance(30):
                things = replace(things, adjective="")
            if drop == "noun":
                things = Things(WORLD["noun"][things.noun]["hypernym"])
        return replace(hypothesis, negated=True, things=things, place=place, time=time)

    def _droppable(self) -> list[str]:
        hypothesis, parts = self.hypothesis, []
        if hypothesis.verb == "born":
            return ["time"] if hypothesis.place and hypothesis.time else []
        parts += ["place"] * bool(hypothesis.place) + ["time"] * bool(hypothesis.time)
        if hypothesis.things and hypothesis.things.adjective:
            parts.append("adjective")
        elif hypothesis.things and WORLD["noun"][hypothesis.things.noun]["hypernym"] in NOUNS.get(
            hypothesis.verb, ()
        ):
            parts.append("noun")
        return parts

    def opposite_premise(self) -> Meaning | None:
        """Replace the verb by its antonym."""
        antonym = WORLD["verb"].get(self.hypothesis.verb, {"antonym": ""})["antonym"]
        if not antonym or (self.hypothesis.things and self.hypothesis.things.noun not in NOUNS[antonym]):
            return None
        return replace(self.specialised_premise(), verb=antonym)

    def at_other_place(self) -> Meaning | None:
        """Return a contradiction: the same event in another place, at another time or with another number."""
        hypothesis, m, draw = self.hypothesis, self.specialised_premise(), self.draw
        slots = ["place"] * bool(hypothesis.place) + ["time"] * bool(hypothesis.time)
        if hypothesis.things and hypothesis.things.count > 1 and not hypothesis.things.at_least:
            slots.append("count")
        if not slots:
            return None
        match draw.choice(slots):
            case "place":
                return replace(m, place=self.sampler.place(other_than=hypothesis.place))
            case "time":
                return self._at_another_time(m)
        assert m.things is not None
        return replace(m, things=replace(m.things, count=self._other_count(m.things.count)))

    def _at_another_time(self, m: Meaning) -> Meaning | None:
        time = self._new_time()
        same_kind = _time_kind(time) == _time_kind(m.time)
        return replace(m, time=time) if same_kind and time != m.time else None

    def _other_count(self, count: int) -> int:
        other = 2 + self.draw.below(4)
        return other if other != count else 6 + self.draw.below(4)

    def vaguer_premise(self) -> Meaning | None:
        """Change the premise so that a detail of the hypothesis is missing (affirmed) or too narrow (denied)."""
        hypothesis, draw = self.hypothesis, self.draw
        if hypothesis.negated:
            return replace(self.specialised_premise(), negated=True)
        drop = draw.choice(self._droppable() or [""])
        match drop:
            case "place":
                time = hypothesis.time or (self._new_time() if draw.chance(50) else "")
                return replace(hypothesis, place="", time=time)
            case "time":
                place = hypothesis.place or (self.sampler.place() if draw.chance(50) else "")
                return replace(hypothesis, time="", place=place)
            case "adjective":
                assert hypothesis.things is not None
                return replace(self.specialised_premise(), things=replace(hypothesis.things, adjective=""))
            case "noun":
                assert hypothesis.things is not None
                hypernym = WORLD["noun"][hypothesis.things.noun]["hypernym"]
                return replace(self.specialised_premise(), things=replace(hypothesis.things, noun=hypernym))
        return None

    def other_agent(self) -> Meaning:
        """Replace the subject by another person."""
        m = self.specialised_premise() if self.draw.chance(60) else self.hypothesis
        return replace(
            m, agent=self.sampler.person(other_than=self.hypothesis.agent), negated=self._is_negated()
        )

    def other_things(self) -> Meaning | None:
        """Replace the object by an unrelated one."""
        hypothesis = self.hypothesis
        if hypothesis.things is None:
            return None
        noun = self.draw.choice(NOUNS[hypothesis.verb])
        adjective = hypothesis.things.adjective if hypothesis.things.adjective in ADJECTIVES[noun] else ""
        things = replace(hypothesis.things, noun=noun, adjective=adjective)
        m = replace(self.specialised_premise(), negated=self._is_negated())
        return replace(m, things=_single_if_negated(things, m.negated))

    def other_verb(self) -> Meaning | None:
        """Replace the verb by another action."""
        hypothesis, verb = self.hypothesis, self.draw.choice(VERBS)
        if hypothesis.things is None or hypothesis.things.noun not in NOUNS[verb] or verb == hypothesis.verb:
            return None
        return replace(self.specialised_premise(), verb=verb, negated=self._is_negated())

    def _is_negated(self) -> bool:
        """Either, so that one of two clauses being denied does not by itself mean contradiction."""
        return self.hypothesis.negated if self.draw.chance(60) else not self.hypothesis.negated


def _single_if_negated(things: Things, negated: bool) -> Things:
    return replace(things, count=1, at_least=False) if negated else things


def draw_hypothesis(sampler: Sampler) -> Meaning:
    """Draw a short clause that admits each of the three labels."""
    draw = sampler.draw
    if draw.chance(15):
        place, time = (sampler.place(), "") if draw.chance(60) else ("", sampler.year())
        return Meaning("born", sampler.person(), place=place, time=time)
    while True:
        negated = draw.chance(33)
        m = replace(sampler.event(negated), front=False)
        assert m.things is not None
        filled = (m.place != "") + (m.time != "") + (m.things.adjective != "")
        # Room to add a detail, and one to leave out.
        if 1 <= filled <= 2:
            return m


def _candidate(label: str, premises: _Premises) -> Meaning | None:
    draw, hypothesis = premises.draw, premises.hypothesis
    kind_draw = draw.below(100)
    if label == "entailment":
        return premises.generalised_premise() if hypothesis.negated else premises.specialised_premise()
    if label == "contradiction":
        if hypothesis.negated:
            return premises.specialised_premise()
        if kind_draw < 55 and not (hypothesis.verb == "born" and draw.chance(50)):
            return premises.generalised_premise()
        return premises.opposite_premise() if kind_draw < 75 else premises.at_other_place()
    if kind_draw < 45:
        return premises.vaguer_premise()
    if kind_draw < 65:
        return premises.other_agent()
    return premises.other_things() if kind_draw < 85 else premises.other_verb()


def pair(draw: Draw, names: Names) -> tuple[Meaning, Meaning, str]:
    """Draw premise, hypothesis and label; the three labels are equally likely."""
    sampler = Sampler(draw, names)
    hypothesis = draw_hypothesis(sampler)
    label = draw.choice(LABELS)
    premises = _Premises(hypothesis, sampler)
    for _ in range(1000):
        premise = _candidate(label, premises)
        if premise is None or replace(premise, front=False) == hypothesis:
            continue
        if premise.things:
            premise = replace(premise, things=_single_if_negated(premise.things, premise.negated))
        if nli_label(premise, hypothesis) == label:
            return premise, hypothesis, label
    raise AssertionError(f"no premise makes {hypothesis} a case of {label}")
