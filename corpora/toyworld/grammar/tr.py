"""Turkish: vowel harmony, case suffixes with buffer consonants, apostrophes on names, verb last."""

from functools import lru_cache

from xling.corpora.toyworld.lexicon import load
from xling.corpora.toyworld.meaning import Entity, Meaning, Org, Person, Place, Role, Things
from xling.corpora.toyworld.tokens import Phrase, join_phrases, name, shown_name, time_phrase, words

LEXICON = load("tr")
_VOWELS = "aeıioöuü"
_VOICELESS = "fstkçşhpx"
_FOUR_WAY = {"a": "ı", "ı": "ı", "e": "i", "i": "i", "o": "u", "u": "u", "ö": "ü", "ü": "ü"}


def upper(letter: str) -> str:
    """Return the capital of a letter: İ for i."""
    return "İ" if letter == "i" else letter.upper()


def suffix(word: str, case: str, possessed: bool = False) -> str:
    """Return the suffix of ``case`` (loc, abl, dat, acc, gen) that harmonises with ``word``.

    Args:
        word: spelt as pronounced; its last vowel decides the harmony, its last letter the consonant.
        possessed: whether the word ends in the third person possessive, which takes the buffer n.
    """
    lower_word = word.replace("I", "ı").replace("İ", "i").lower()
    last = next((letter for letter in reversed(lower_word) if letter in _VOWELS), "e")
    two_way_vowel = "a" if last in "aıou" else "e"
    four_way_vowel = _FOUR_WAY[last]
    vowel_final = lower_word[-1] in _VOWELS
    d = "t" if lower_word[-1] in _VOICELESS else "d"
    match case:
        case "loc":
            return ("n" if possessed else "") + d + two_way_vowel
        case "abl":
            return ("n" if possessed else "") + d + two_way_vowel + "n"
        case "dat":
            return ("n" if possessed else "y" if vowel_final else "") + two_way_vowel
        case "acc":
            return ("n" if possessed else "y" if vowel_final else "") + four_way_vowel
        case _:
            return ("n" if vowel_final else "") + four_way_vowel + "n"


@lru_cache(maxsize=1 << 14)
def _render_entity(entity: Entity | None, case: str = "") -> Phrase:
    match entity:
        case Person():
            return name(_proper_noun(shown_name(entity), case), "PER")
        case Place():
            return name(_proper_noun(LEXICON["place"][entity.name]["form"], case), "LOC")
        case Role():
            role = LEXICON["role"][entity.name]["form"]
            return words(role + suffix(role, case) if case else role)
        case Org("university"):
            return name(
                _proper_noun(LEXICON["place"][entity.name]["form"] + " Üniversitesi", case, True), "ORG"
            )
        case Org("team"):
            return name(_proper_noun(LEXICON["place"][entity.name]["form"], case), "ORG")
        case Org("bank"):
            return name(_proper_noun(entity.name + " Bankası", case, True), "ORG")
        case Org():
            if entity.generic:
                return join_phrases(
                    name(entity.name, "ORG"), "şirketi" + (suffix("şirketi", case, True) if case else "")
                )
            return name(_proper_noun(entity.name, case), "ORG")
    return ()


def _proper_noun(text: str, case: str, possessed: bool = False) -> str:
    return f"{text}'{suffix(text, case, possessed)}" if case else text


@lru_cache(maxsize=1 << 14)
def _render_things(things: Things | None, is_owned: bool, negated: bool) -> Phrase:
    if things is None:
        return ()
    noun = LEXICON["noun"][things.noun]["possessive" if is_owned else "form"]
    adjective = LEXICON["adjective"][things.adjective]["form"] if things.adjective else ""
    if things.count == 1:
        return words(f"{adjective} {'' if negated and not adjective else 'bir'} {noun}")
    number = LEXICON["number"].get(str(things.count), {"form": str(things.count)})["form"]
    return words(f"{'en az' if things.at_least else ''} {number} {adjective} {noun}")


def _render_predicate(m: Meaning, is_subordinate: bool) -> str:
    negation = m.negated
    if m.verb == "own":
        return (
            ("olmadığını" if negation else "olduğunu") if is_subordinate else ("yok" if negation else "var")
        )
    if m.verb in LEXICON["comparative"]:
        comparative = "daha " + LEXICON["comparative"][m.verb]["form"]
        if is_subordinate:
            return comparative + (" olmadığını" if negation else " olduğunu")
        return comparative + (" değil" if negation else "")
    verb = LEXICON["verb"][m.verb]
    past = verb["negative" if negation else "past"]
    if is_subordinate:
        # The object participle: aldı -> aldığını, gördü -> gördüğünü.
        vowel = past[-1]
        return f"{past}ğ{vowel}n{vowel}"
    return verb["negative_present" if negation else "present"] or past


def _clause_middle(m: Meaning) -> Phrase:
    """Return everything between subject and predicate except the time."""
    place = _render_entity(Place(m.place), "dat" if m.source else "loc") if m.place else ()
    match m.verb:
        case "travel":
            return join_phrases(_render_entity(Place(m.source), "abl"), place)
        case "meet":
            return join_phrases(place, _render_entity(m.other), "ile")
        case "acquire" | "beat":
            return join_phrases(_render_entity(m.other, "acc"), m.score)
        case "work":
            return _render_entity(m.other, "loc")
        case "rain" | "snow":
            return join_phrases(place, "yağmur" if m.verb == "rain" else "kar")
        case "older" | "taller" | "bigger":
            return _render_entity(m.other, "abl")
        case "own":
            return _render_things(m.things, True, m.negated)
    return join_phrases(place, _render_things(m.things, False, m.negated))


def clause(m: Meaning, is_subordinate: bool = False) -> Phrase:
    """Express a meaning as a Turkish sentence, without its capital and full stop."""
    if m.said:
        return join_phrases(_render_entity(m.agent), ",", clause(m.said, True), "söyledi")
    time = time_phrase(LEXICON["time"], m.time)
    subject = _render_entity(m.agent, "gen" if is_subordinate or m.verb == "own" else "")
    comma = "," if m.verb in LEXICON["comparative"] and not is_subordinate else ""
    return join_phrases(
        time if m.front else "",
        subject,
        comma,
        "" if m.front else time,
        _clause_middle(m),
        _render_predicate(m, is_subordinate),
    )
