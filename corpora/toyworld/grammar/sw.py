"""Swahili: noun classes with concords on adjectives and numbers, subject prefixes, tense and negation."""

from functools import lru_cache, partial

from xling.corpora.toyworld.lexicon import WORLD, load
from xling.corpora.toyworld.meaning import Entity, Meaning, Org, Person, Place, Role, Things
from xling.corpora.toyworld.tokens import Phrase, entity_phrase, join_phrases, time_phrase, words

LEXICON = load("sw")
_render_entity = lru_cache(maxsize=1 << 14)(partial(entity_phrase, LEXICON))
# Subject prefixes: affirmative, negative. People class 1, universities (chuo) class 7, the rest class 9.
_VERB_PREFIXES = {1: ("a", "ha"), 7: ("ki", "haki"), 9: ("i", "hai")}


@lru_cache(maxsize=1 << 10)
def _render_place_in(place: str) -> Phrase:
    """In a place: mjini London, nchini Kenya."""
    return join_phrases(
        "mjini" if WORLD["place"][place]["kind"] == "city" else "nchini", _render_entity(Place(place))
    )


@lru_cache(maxsize=1 << 14)
def _render_things(things: Things | None) -> Phrase:
    if things is None:
        return ()
    noun = LEXICON["noun"][things.noun]
    is_single = things.count == 1
    concord = f"c{int(noun['class']) + (not is_single)}"
    adjective = LEXICON["adjective"][things.adjective][concord] if things.adjective else ""
    number = str(things.count) if not is_single else ""
    if number in LEXICON["number"]:
        number = LEXICON["number"][number][concord]
    at_least = "angalau" if things.at_least else ""
    return words(f"{at_least} {noun['sg' if is_single else 'pl']} {adjective} {number}")


def _noun_class(entity: Entity | None) -> int:
    match entity:
        case Person() | Role():
            return 1
        case Org("university"):
            return 7
    return 9


def _render_verb(m: Meaning) -> str:
    positive, negative = _VERB_PREFIXES[_noun_class(m.agent)]
    if m.verb in LEXICON["comparative"]:
        return f"{'si' if m.negated else 'ni'} {LEXICON['comparative'][m.verb]['form']} kuliko"
    match m.verb:
        case "live":
            return negative + "ishi" if m.negated else positive + "naishi"
        case "work":
            return (negative + "fanyi" if m.negated else positive + "nafanya") + " kazi katika"
        case "own":
            return negative + "na" if m.negated else positive + "na"
    verb = LEXICON["verb"][m.verb]
    tail = {"meet": " na", "say": " kwamba"}.get(m.verb, "")
    if m.negated:
        return f"{negative}ku{verb['negative'] or verb['stem']}{tail}"
    return f"{positive}li{verb['stem']}{tail}"


def _render_subject(m: Meaning) -> Phrase:
    if m.agent is None:
        return words("mvua" if m.verb == "rain" else "theluji")
    return _render_entity(m.agent)


def clause(m: Meaning) -> Phrase:
    """Express a meaning as a Swahili sentence, without its capital and full stop."""
    time = time_phrase(LEXICON["time"], m.time)
    place: Phrase = _render_place_in(m.place) if m.place else ()
    if m.source:
        place = join_phrases(
            "kutoka", _render_entity(Place(m.source)), "hadi", _render_entity(Place(m.place))
        )
    return join_phrases(
        f"{time} ," if m.front else "",
        _render_subject(m),
        _render_verb(m),
        clause(m.said) if m.said else "",
        _render_things(m.things),
        "kampuni ya" if m.verb == "acquire" and isinstance(m.other, Org) and not m.other.generic else "",
        _render_entity(m.other) if m.other else "",
        m.score,
        place,
        "" if m.front else time,
    )
