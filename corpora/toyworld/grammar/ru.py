"""Russian: case, gender of the past tense, numerals 2-4 and 5+, animate accusatives, names that decline."""

from functools import lru_cache

from xling.corpora.toyworld.lexicon import WORLD, load
from xling.corpora.toyworld.meaning import Entity, Meaning, Org, Person, Place, Role, Things
from xling.corpora.toyworld.tokens import Phrase, join_phrases, name, time_phrase, words

LEXICON = load("ru")
_VOWELS = "аеёиоуыэюя"
_HUSHERS = "гкхжшчщ"


def decline(form: str, case: str, stem: str = "", animate: bool = False) -> str:
    """Return a name in ``case`` (nom, gen, acc, prep, ins), by its ending.

    Args:
        form: the nominative.
        stem: "-" for an indeclinable name; the stem where it is not the form without its ending.
        animate: whether the accusative of a masculine is its genitive.
    """
    if case == "nom" or stem == "-":
        return form
    if form.endswith("ия"):
        return form[:-1] + {"gen": "и", "acc": "ю", "prep": "и", "ins": "ей"}[case]
    if form.endswith("а"):
        base = form[:-1]
        i = "и" if base[-1] in _HUSHERS else "ы"
        instrumental = "ей" if base[-1] in "жшчщц" else "ой"
        return base + {"gen": i, "acc": "у", "prep": "е", "ins": instrumental}[case]
    if case == "acc" and not animate:
        return form
    case = "gen" if case == "acc" else case
    if form[-1] in "йь":
        return (stem or form[:-1]) + {"gen": "я", "prep": "е", "ins": "ем"}[case]
    assert form[-1] not in _VOWELS, f"{form!r} has no declension: mark it indeclinable in the lexicon"
    instrumental = "ем" if form[-1] in "жшчщц" else "ом"
    return (stem or form) + {"gen": "а", "prep": "е", "ins": instrumental}[case]


def _preposition(short: str, phrase: Phrase) -> Phrase:
    """Return ``в`` or ``с`` before ``phrase``, with о before a group of consonants that is hard to say."""
    word = phrase[0][0].lower()
    first = "вф" if short == "в" else "сзшжщ"
    hard = word[0] in first and len(word) > 1 and word[1] not in _VOWELS + "йьъ"
    return join_phrases(short + "о" if hard else short, phrase)


@lru_cache(maxsize=1 << 14)
def _render_entity(entity: Entity | None, case: str = "nom") -> Phrase:
    match entity:
        case Person():
            return name(_decline_person(entity, case), "PER")
        case Place():
            return name(_decline_place(entity.name, case), "LOC")
        case Role():
            assert case == "nom"
            return words(LEXICON["role"][entity.name]["form"])
        case Org("university"):
            return name(f"{decline('Университет', case)} {_decline_place(entity.name, 'gen')}", "ORG")
        case Org("team"):
            return name(_decline_place(entity.name, case), "ORG")
        case Org("bank"):
            return name(f"{LEXICON['bank'][entity.name]['form']} {decline('Банк', case)}", "ORG")
        case Org():
            company = {"nom": "компания", "acc": "компанию", "prep": "компании", "gen": "компании"}[case]
            return join_phrases(company, name(entity.name, "ORG"))
    return ()


def _decline_place(place: str, case: str) -> str:
    entry = LEXICON["place"][place]
    return decline(entry["form"], case, entry["stem"])


def _decline_person(person: Person, case: str) -> str:
    """Return first and last name; a woman's last name declines only if it ends in -a."""
    parts = []
    if person.show != "last":
        first = LEXICON["first"][person.first]
        parts.append(decline(first["form"], case, first["stem"], animate=True))
    if person.show != "first":
        last = LEXICON["last"][person.last]
        fixed = _is_feminine(person) and not last["form"].endswith("а")
        parts.append(decline(last["form"], case, "-" if fixed else last["stem"], animate=True))
    return " ".join(parts)


def _is_feminine(entity: Entity | None) -> bool:
    match entity:
        case Person():
            return WORLD["first"][entity.first]["gender"] == "f"
        case Org("brand"):
            return True
        case Org("team"):
            return LEXICON["place"][entity.name]["form"].endswith("а")
    return False


def _decline_adjective(entry: dict[str, str], gender: str, form: str) -> str:
    """Return ``form``: nom, acc or gen singular (acc of inanimates), nom_pl or gen_pl."""
    stem = entry["stem"]
    i = "и" if stem[-1] in _HUSHERS else "ы"
    if form in ("nom_pl", "gen_pl"):
        return stem + i + ("е" if form == "nom_pl" else "х")
    if gender == "f":
        return stem + {"nom": "ая", "acc": "ую", "gen": "ой"}[form]
    if form == "gen":
        return stem + "ого"
    return stem + "ое" if gender == "n" else entry["m"]


@lru_cache(maxsize=1 << 14)
def _render_things(things: Things | None, case: str) -> Phrase:
    """Return a counted thing in ``case``: nom, acc, or gen (only for one)."""
    if things is None:
        return ()
    noun = LEXICON["noun"][things.noun]
    entry = LEXICON["adjective"][things.adjective] if things.adjective else None
    gender, animate, count = noun["gender"], bool(noun["animate"]), things.count
    if count == 1:
        form = "gen" if case == "acc" and animate and gender == "m" else case
        adjective = _decline_adjective(entry, gender, form) if entry else ""
        return words(f"{adjective} {noun[form]}")
    at_least = "по крайней мере" if things.at_least else ""
    number = LEXICON["number"].get(str(count), {"nom": str(count), "gen": str(count)})
    is_few = 2 <= count <= 4
    if is_few and case == "acc" and animate:
        adjective = _decline_adjective(entry, gender, "gen_pl") if entry else ""
        return words(f"{at_least} {number['gen']} {adjective} {noun['gen_pl']}")
    numeral = "две" if count == 2 and gender == "f" else number["nom"]
    adjective = (
        _decline_adjective(entry, gender, "nom_pl" if is_few and gender == "f" else "gen_pl") if entry else ""
    )
    counted = (noun["paucal"] or noun["gen"]) if is_few else noun["gen_pl"]
    return words(f"{at_least} {numeral} {adjective} {counted}")


def _render_verb(m: Meaning) -> str:
    verb = LEXICON["verb"][m.verb]
    form = verb["m"]
    if _is_feminine(m.agent):
        form = verb["f"] or form + "а"
    return "не " + form if m.negated else form


def _clause_core(m: Meaning) -> Phrase:
    """Return subject, verb and object."""
    agent, negation = m.agent, "не" if m.negated else ""
    if m.verb in LEXICON["comparative"]:
        return join_phrases(
            _render_entity(agent),
            negation,
            LEXICON["comparative"][m.verb]["form"],
            _render_entity(m.other, "gen"),
        )
    match m.verb:
        case "own":
            owner = join_phrases("у", _render_entity(agent, "gen"))
            return join_phrases(
                owner, "нет" if m.negated else "есть", _render_things(m.things, "gen" if negation else "nom")
            )
        case "rain" | "snow":
            noun = "дожд" if m.verb == "rain" else "снег"
            nominative, genitive = (noun + "ь", noun + "я") if m.verb == "rain" else (noun, noun + "а")
            return words(f"не было {genitive}" if m.negated else f"шёл {nominative}")
        case "work":
            return join_phrases(
                _render_entity(agent), _render_verb(m), _preposition("в", _render_entity(m.other, "prep"))
            )
        case "meet":
            return join_phrases(
                _render_entity(agent), _render_verb(m), _preposition("с", _render_entity(m.other, "ins"))
            )
        case "say":
            assert m.said is not None
            return join_phrases(_render_entity(agent), _render_verb(m), ", что", clause(m.said))
        case "acquire" | "beat":
            return join_phrases(
                _render_entity(agent), _render_verb(m), _render_entity(m.other, "acc"), m.score
            )
    return join_phrases(_render_entity(agent), _render_verb(m), _render_things(m.things, "acc"))


def clause(m: Meaning) -> Phrase:
    """Express a meaning as a Russian sentence, without its capital and full stop."""
    time = time_phrase(LEXICON["time"], m.time)
    place: Phrase = ()
    if m.source:
        place = join_phrases(
            "из",
            _render_entity(Place(m.source), "gen"),
            _preposition("в", _render_entity(Place(m.place), "acc")),
        )
    elif m.place:
        place = _preposition("в", _render_entity(Place(m.place), "prep"))
    if m.agent is None:
        # Weather: new information stands last, so time and place come first.
        return join_phrases(time, place, _clause_core(m))
    return join_phrases(time if m.front else "", _clause_core(m), place, "" if m.front else time)
