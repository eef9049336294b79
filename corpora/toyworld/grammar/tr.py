"""Turkish: vowel harmony, case suffixes with buffer consonants, apostrophes on names, verb last."""

from __future__ import annotations

from functools import lru_cache

from xling.corpora.toyworld.lexicon import load
from xling.corpora.toyworld.meaning import Entity, Meaning, Org, Person, Place, Role, Things
from xling.corpora.toyworld.tokens import Phrase, Token, name, sentence, seq, shown_name, time_phrase, words

LEX = load("tr")
_VOWELS = "aeıioöuü"
_VOICELESS = "fstkçşhpx"
_FOUR_WAY = {"a": "ı", "ı": "ı", "e": "i", "i": "i", "o": "u", "u": "u", "ö": "ü", "ü": "ü"}


def render(meaning: Meaning) -> list[Token]:
    """Express ``meaning`` as a Turkish sentence."""
    return sentence(_clause(meaning), _upper)


def _upper(letter: str) -> str:
    return "İ" if letter == "i" else letter.upper()


def _lower(text: str) -> str:
    return text.replace("I", "ı").replace("İ", "i").lower()


def suffix(word: str, case: str, possessed: bool = False) -> str:
    """Return the suffix of ``case`` (loc, abl, dat, acc, gen) that harmonises with ``word``.

    Args:
        word: spelt as pronounced; its last vowel decides the harmony, its last letter the consonant.
        case: the case.
        possessed: whether the word ends in the third person possessive, which takes the buffer n.
    """
    spelt = _lower(word)
    last = next((letter for letter in reversed(spelt) if letter in _VOWELS), "e")
    two = "a" if last in "aıou" else "e"
    four = _FOUR_WAY[last]
    vowel_final = spelt[-1] in _VOWELS
    d = "t" if spelt[-1] in _VOICELESS else "d"
    match case:
        case "loc":
            return ("n" if possessed else "") + d + two
        case "abl":
            return ("n" if possessed else "") + d + two + "n"
        case "dat":
            return ("n" if possessed else "y" if vowel_final else "") + two
        case "acc":
            return ("n" if possessed else "y" if vowel_final else "") + four
        case _:
            return ("n" if vowel_final else "") + four + "n"


@lru_cache(maxsize=1 << 14)
def _who(entity: Entity | None, case: str = "") -> Phrase:
    match entity:
        case Person():
            return name(_proper(shown_name(entity), case), "PER")
        case Place():
            return name(_proper(LEX["place"][entity.name]["form"], case), "LOC")
        case Role():
            role = LEX["role"][entity.name]["form"]
            return words(role + suffix(role, case) if case else role)
        case Org("university"):
            return name(_proper(LEX["place"][entity.name]["form"] + " Üniversitesi", case, True), "ORG")
        case Org("team"):
            return name(_proper(LEX["place"][entity.name]["form"], case), "ORG")
        case Org("bank"):
            return name(_proper(entity.name + " Bankası", case, True), "ORG")
        case Org():
            if entity.generic:
                return seq(
                    name(entity.name, "ORG"), "şirketi" + (suffix("şirketi", case, True) if case else "")
                )
            return name(_proper(entity.name, case), "ORG")
    return ()


def _proper(text: str, case: str, possessed: bool = False) -> str:
    return f"{text}'{suffix(text, case, possessed)}" if case else text


@lru_cache(maxsize=1 << 14)
def _things(things: Things | None, owned: bool, negated: bool) -> Phrase:
    if things is None:
        return ()
    noun = LEX["noun"][things.noun]["possessive" if owned else "form"]
    adjective = LEX["adjective"][things.adjective]["form"] if things.adjective else ""
    if things.count == 1:
        return words(f"{adjective} {'' if negated and not adjective else 'bir'} {noun}")
    number = LEX["number"].get(str(things.count), {"form": str(things.count)})["form"]
    return words(f"{'en az' if things.at_least else ''} {number} {adjective} {noun}")


def _nominal(past: str) -> str:
    """Return the object participle of a past form: aldı -> aldığını, gördü -> gördüğünü."""
    vowel = past[-1]
    return f"{past}ğ{vowel}n{vowel}"


def _predicate(m: Meaning, sub: bool) -> str:
    no = m.negated
    if m.verb == "own":
        return ("olmadığını" if no else "olduğunu") if sub else ("yok" if no else "var")
    if m.verb in LEX["comparative"]:
        comparative = "daha " + LEX["comparative"][m.verb]["form"]
        if sub:
            return comparative + (" olmadığını" if no else " olduğunu")
        return comparative + (" değil" if no else "")
    verb = LEX["verb"][m.verb]
    past = verb["negative" if no else "past"]
    if sub:
        return _nominal(past)
    return verb["negative_present" if no else "present"] or past


def _middle(m: Meaning) -> Phrase:
    """Return everything between subject and predicate except the time."""
    place = _who(Place(m.place), "dat" if m.source else "loc") if m.place else ()
    match m.verb:
        case "travel":
            return seq(_who(Place(m.source), "abl"), place)
        case "meet":
            return seq(place, _who(m.other), "ile")
        case "acquire" | "beat":
            return seq(_who(m.other, "acc"), m.score)
        case "work":
            return _who(m.other, "loc")
        case "rain" | "snow":
            return seq(place, "yağmur" if m.verb == "rain" else "kar")
        case "older" | "taller" | "bigger":
            return _who(m.other, "abl")
        case "own":
            return _things(m.things, True, m.negated)
    return seq(place, _things(m.things, False, m.negated))


def _clause(m: Meaning, sub: bool = False) -> Phrase:
    if m.said:
        return seq(_who(m.agent), ",", _clause(m.said, True), "söyledi")
    time = time_phrase(LEX["time"], m.time)
    subject = _who(m.agent, "gen" if sub or m.verb == "own" else "")
    comma = "," if m.verb in LEX["comparative"] and not sub else ""
    return seq(
        time if m.front else "",
        subject,
        comma,
        "" if m.front else time,
        _middle(m),
        _predicate(m, sub),
    )
