"""German: verb second in main clauses, verb last in subordinate ones, gender and accusative in the object."""

from functools import lru_cache, partial

from xling.corpora.toyworld.lexicon import load
from xling.corpora.toyworld.meaning import Meaning, Place, Things
from xling.corpora.toyworld.tokens import Phrase, entity_phrase, join_phrases, time_phrase, words

LEXICON = load("de")
_render_entity = lru_cache(maxsize=1 << 14)(partial(entity_phrase, LEXICON))
# Accusative singular: article after "ein"/"kein", ending of the adjective after it.
_ACCUSATIVE = {"m": ("en", "en"), "f": ("e", "e"), "n": ("", "es")}


@lru_cache(maxsize=1 << 14)
def _render_things(things: Things | None, negated: bool) -> Phrase:
    if things is None:
        return ()
    noun = LEXICON["noun"][things.noun]
    stem = LEXICON["adjective"][things.adjective]["stem"] if things.adjective else ""
    if things.count == 1:
        article, ending = _ACCUSATIVE[noun["gender"]]
        return words(f"{'kein' if negated else 'ein'}{article} {stem + ending if stem else ''} {noun['sg']}")
    number = LEXICON["number"].get(str(things.count), {"form": str(things.count)})["form"]
    return words(
        f"{'mindestens' if things.at_least else ''} {number} {stem + 'e' if stem else ''} {noun['pl']}"
    )


def _clause_parts(m: Meaning) -> tuple[str, Phrase, str]:
    """Return finite verb, middle field without subject and time, and what closes the clause."""
    place = join_phrases("in", _render_entity(Place(m.place))) if m.place else ()
    negation = "nicht" if m.negated else ""
    if m.verb in LEXICON["comparative"]:
        return (
            "ist",
            join_phrases(negation, LEXICON["comparative"][m.verb]["form"], "als", _render_entity(m.other)),
            "",
        )
    verb = LEXICON["verb"][m.verb]
    match m.verb:
        case "live":
            return verb["form"], join_phrases(negation, place), ""
        case "work":
            return verb["form"], join_phrases(negation, "für", _render_entity(m.other)), ""
        case "own":
            return verb["form"], _render_things(m.things, m.negated), ""
        case "born":
            return verb["auxiliary"], join_phrases(negation, place), verb["form"]
        case "travel":
            return (
                verb["auxiliary"],
                join_phrases(negation, "von", _render_entity(Place(m.source)), "nach", place[1:]),
                verb["form"],
            )
        case "rain" | "snow":
            return verb["auxiliary"], join_phrases(place, negation), verb["form"]
        case "meet" | "acquire" | "beat":
            return verb["auxiliary"], join_phrases(place, negation, m.score), verb["form"]
    return verb["auxiliary"], join_phrases(place, _render_things(m.things, m.negated)), verb["form"]


def _render_object(m: Meaning) -> Phrase:
    """Return a definite object, which comes before time and place."""
    return _render_entity(m.other) if m.verb in ("meet", "acquire", "beat") else ()


def clause(m: Meaning) -> Phrase:
    """Express a meaning as a German sentence, without its capital and full stop."""
    if m.said:
        return join_phrases(_render_entity(m.agent), "hat gesagt , dass", _subordinate_clause(m.said))
    time = time_phrase(LEXICON["time"], m.time)
    finite, middle, close = _clause_parts(m)
    if m.front:
        return join_phrases(time, finite, _render_entity(m.agent), _render_object(m), middle, close)
    return join_phrases(_render_entity(m.agent), finite, _render_object(m), time, middle, close)


def _subordinate_clause(m: Meaning) -> Phrase:
    finite, middle, close = _clause_parts(m)
    if m.verb in LEXICON["comparative"]:
        # The phrase with "als" may follow the verb, and does so in all but short sentences.
        split = next(i for i, (form, _) in enumerate(middle) if form == "als")
        return join_phrases(_render_entity(m.agent), middle[:split], finite, middle[split:])
    return join_phrases(
        _render_entity(m.agent),
        _render_object(m),
        time_phrase(LEXICON["time"], m.time),
        middle,
        close,
        finite,
    )
