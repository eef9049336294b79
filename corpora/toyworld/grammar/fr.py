"""French: elision, gender, ne ... pas, adjectives before or after the noun, prepositions of countries."""

from functools import lru_cache

from xling.corpora.toyworld.lexicon import WORLD, load
from xling.corpora.toyworld.meaning import Entity, Meaning, Org, Person, Place, Role, Things
from xling.corpora.toyworld.tokens import Phrase, entity_phrase, join_phrases, name, time_phrase, words

LEXICON = load("fr")
_VOWELS = frozenset("aeiouâàéèêëîïôöûùüAEIOUÂÀÉÈÊËÎÏÔÖÛÙÜ")


def _elide(word: str, phrase: Phrase) -> Phrase:
    """Return ``word`` before ``phrase``, its final vowel elided before another vowel: que/qu', le/l', de/d'."""
    if phrase[0][0][0] in _VOWELS:
        word = word[:-1] + "'"
    return join_phrases(word, phrase)


@lru_cache(maxsize=1 << 14)
def _render_entity(entity: Entity | None) -> Phrase:
    match entity:
        case Place():
            place = LEXICON["place"][entity.name]
            return _elide("la" if place["gender"] == "f" else "le", name(place["form"], "LOC"))
        case Role():
            return _elide("le", words(LEXICON["role"][entity.name]["form"]))
        case Org("university"):
            city = LEXICON["place"][entity.name]["form"]
            of = "d' " if city[0] in _VOWELS else "de "
            return join_phrases("l'", name("Université " + of + city, "ORG"))
    return entity_phrase(LEXICON, entity)


@lru_cache(maxsize=1 << 10)
def _render_place_in(place: str) -> Phrase:
    """In or to a place: à Paris, en France, en Ouganda, au Kenya."""
    form, gender = LEXICON["place"][place]["form"], LEXICON["place"][place]["gender"]
    if not gender:
        return join_phrases("à", name(form, "LOC"))
    return join_phrases("en" if gender == "f" or form[0] in _VOWELS else "au", name(form, "LOC"))


@lru_cache(maxsize=1 << 10)
def _render_place_from(place: str) -> Phrase:
    """From a place: de Paris, d'Oslo, de France, d'Ouganda, du Kenya."""
    form, gender = LEXICON["place"][place]["form"], LEXICON["place"][place]["gender"]
    if gender == "m" and form[0] not in _VOWELS:
        return join_phrases("du", name(form, "LOC"))
    return _elide("de", name(form, "LOC"))


@lru_cache(maxsize=1 << 14)
def _render_things(things: Things | None, negated: bool) -> Phrase:
    if things is None:
        return ()
    noun = LEXICON["noun"][things.noun]
    is_single, is_feminine = things.count == 1, noun["gender"] == "f"
    before = after = ""
    if things.adjective:
        adjective = LEXICON["adjective"][things.adjective]
        mute = noun["sg"][0] in _VOWELS or noun["sg"][0] == "h"
        if is_single:
            form = adjective["f" if is_feminine else "m_vowel" if mute else "m"]
        else:
            form = adjective["fp" if is_feminine else "mp"]
        before, after = (form, "") if adjective["position"] == "before" else ("", form)
    core = words(f"{before} {noun['sg' if is_single else 'pl']} {after}")
    if not is_single:
        number = LEXICON["number"].get(str(things.count), {"form": str(things.count)})["form"]
        return join_phrases("au moins" if things.at_least else "", number, core)
    if negated:
        # An initial h of the nouns in the lexicon is mute.
        return (
            join_phrases("d'", core)
            if core[0][0][0] in _VOWELS or core[0][0][0] == "h"
            else join_phrases("de", core)
        )
    return join_phrases("une" if is_feminine else "un", core)


def _is_feminine(entity: Entity | None) -> bool:
    match entity:
        case Person():
            return WORLD["first"][entity.first]["gender"] == "f"
        case Place():
            return LEXICON["place"][entity.name]["gender"] == "f"
    return False


def _render_verb(m: Meaning, is_reported: bool) -> Phrase:
    """Return the verb with negation around the finite part; in said speech one tense further back."""
    lexicon, end = LEXICON["verb"], ""
    if m.verb in LEXICON["comparative"]:
        end = "plus " + LEXICON["comparative"][m.verb]["f" if _is_feminine(m.agent) else "m"]
        finite = "est"
    elif m.verb == "born":
        finite, end = "est", "née" if _is_feminine(m.agent) else "né"
    elif m.verb in ("live", "work", "own"):
        finite = lexicon[m.verb]["form"]
    else:
        finite, end = "a", lexicon[m.verb]["form"]
    if is_reported:
        finite = {"a": "avait", "est": "était"}.get(finite) or finite[:-1] + "ait"
    if m.negated:
        return join_phrases("n'" if finite[0] in "aeéh" else "ne", finite, "pas", end)
    return join_phrases(finite, end)


def clause(m: Meaning, is_reported: bool = False) -> Phrase:
    """Express a meaning as a French sentence, without its capital and full stop."""
    time = time_phrase(LEXICON["time"], m.time)
    other = _render_entity(m.other) if m.other else ()
    return join_phrases(
        f"{time} ," if m.front else "",
        _render_entity(m.agent),
        _render_verb(m, is_reported),
        _elide("que", clause(m.said, is_reported=True)) if m.said else "",
        "pour" if m.verb == "work" else "",
        _render_things(m.things, m.negated),
        _elide("que", other) if m.verb in LEXICON["comparative"] else other,
        m.score,
        _render_place_from(m.source) if m.source else "",
        _render_place_in(m.place) if m.place else "",
        "" if m.front else time,
    )
