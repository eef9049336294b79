"""English: do-support, articles a/an."""

from functools import lru_cache, partial

from xling.corpora.toyworld.lexicon import load
from xling.corpora.toyworld.meaning import Meaning, Place, Things
from xling.corpora.toyworld.tokens import Phrase, entity_phrase, join_phrases, time_phrase, words

LEXICON = load("en")
_render_entity = lru_cache(maxsize=1 << 14)(partial(entity_phrase, LEXICON))
_PRESENT = ("live", "own", "work")


@lru_cache(maxsize=1 << 14)
def _render_things(things: Things | None) -> Phrase:
    if things is None:
        return ()
    noun = LEXICON["noun"][things.noun]["sg" if things.count == 1 else "pl"]
    adjective = LEXICON["adjective"][things.adjective]["form"] if things.adjective else ""
    if things.count == 1:
        number = "an" if (adjective or noun)[0] in "aeiou" else "a"
    else:
        number = LEXICON["number"].get(str(things.count), {"form": str(things.count)})["form"]
    return words(f"{'at least' if things.at_least else ''} {number} {adjective} {noun}")


def _render_verb(m: Meaning) -> str:
    if m.verb == "born":
        return "was not born" if m.negated else "was born"
    if m.verb in LEXICON["comparative"]:
        return f"is {'not' if m.negated else ''} {LEXICON['comparative'][m.verb]['form']} than"
    if m.verb == "say":
        return "said that"
    verb = LEXICON["verb"][m.verb]
    if m.negated:
        return f"{'does' if m.verb in _PRESENT else 'did'} not {verb['base']}"
    return verb["past"]


def clause(m: Meaning) -> Phrase:
    """Express a meaning as an English sentence, without its capital and full stop."""
    time = time_phrase(LEXICON["time"], m.time)
    return join_phrases(
        f"{time} ," if m.front else "",
        _render_entity(m.agent),
        _render_verb(m),
        clause(m.said) if m.said else "",
        "for" if m.verb == "work" else "",
        _render_things(m.things),
        _render_entity(m.other) if m.other else "",
        m.score,
        join_phrases("from", _render_entity(Place(m.source)), "to") if m.source else "in" if m.place else "",
        _render_entity(Place(m.place)) if m.place else "",
        "" if m.front else time,
    )
