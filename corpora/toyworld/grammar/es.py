"""Spanish: gender and number agreement, adjectives after the noun, weather without a subject."""

from functools import lru_cache, partial

from xling.corpora.toyworld.lexicon import WORLD, load
from xling.corpora.toyworld.meaning import Meaning, Person, Place, Things
from xling.corpora.toyworld.tokens import Phrase, entity_phrase, join_phrases, name, time_phrase, words

LEXICON = load("es")
_render_entity = lru_cache(maxsize=1 << 14)(partial(entity_phrase, LEXICON))


@lru_cache(maxsize=1 << 14)
def _render_things(things: Things | None, negated: bool) -> Phrase:
    if things is None:
        return ()
    noun = LEXICON["noun"][things.noun]
    gender, is_single = noun["gender"], things.count == 1
    adjective = LEXICON["adjective"][things.adjective][gender] if things.adjective else ""
    if is_single:
        article = {"m": "ningún", "f": "ninguna"} if negated else {"m": "un", "f": "una"}
        return words(f"{article[gender]} {noun['sg']} {adjective}")
    number = LEXICON["number"].get(str(things.count), {"form": str(things.count)})["form"]
    at_least = "al menos" if things.at_least else ""
    return words(f"{at_least} {number} {noun['pl']} {adjective + 's' if adjective else ''}")


def _render_verb(m: Meaning) -> str:
    negation = "no " if m.negated else ""
    if m.verb not in LEXICON["comparative"]:
        return negation + LEXICON["verb"][m.verb]["form"] + (" que" if m.said else "")
    is_feminine = isinstance(m.agent, Person) and WORLD["first"][m.agent.first]["gender"] == "f"
    return f"{negation}es {LEXICON['comparative'][m.verb]['f' if is_feminine else 'm']} que"


def clause(m: Meaning) -> Phrase:
    """Express a meaning as a Spanish sentence, without its capital and full stop."""
    time = time_phrase(LEXICON["time"], m.time)
    return join_phrases(
        f"{time} ," if m.front else "",
        _render_entity(m.agent),
        _render_verb(m),
        clause(m.said) if m.said else "",
        "para" if m.verb == "work" else "",
        _render_things(m.things, m.negated),
        _render_entity(m.other) if m.other else "",
        m.score,
        join_phrases("de", name(LEXICON["place"][m.source]["form"], "LOC"), "a")
        if m.source
        else "en"
        if m.place
        else "",
        _render_entity(Place(m.place)) if m.place else "",
        "" if m.front else time,
    )
