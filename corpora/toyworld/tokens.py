"""Tokens of a rendered sentence, and how phrases are put together."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from xling.corpora.toyworld.lexicon import Section
from xling.corpora.toyworld.meaning import Entity, Org, Person, Place, Role


class Token(NamedTuple):
    """A word or punctuation mark: its form, its IOB2 tag, and whether a space follows."""

    form: str
    tag: str
    space_after: bool


Phrase = tuple[tuple[str, str], ...]
"""Pairs of form and tag."""

_NO_SPACE_BEFORE = frozenset(".,")
DIGITS = frozenset("0123456789")


@lru_cache(maxsize=1 << 16)
def words(text: str) -> Phrase:
    """Return the words outside of entities in a text with spaces between the tokens."""
    return tuple((form, "O") for form in text.split())


@lru_cache(maxsize=1 << 16)
def name(text: str, kind: str) -> Phrase:
    """Return one entity of type ``kind`` (PER, ORG, LOC) in a text with spaces between the tokens."""
    return tuple((form, f"{'I' if i else 'B'}-{kind}") for i, form in enumerate(text.split()))


def join_phrases(*parts: str | Phrase) -> Phrase:
    """Join phrases; a string stands for words outside any entity, "" for nothing."""
    tokens: list[tuple[str, str]] = []
    for part in parts:
        tokens += words(part) if isinstance(part, str) else part
    return tuple(tokens)


def shown_name(person: Person) -> str:
    """Return the person's name as spelt in languages with Latin script, as far as it is shown."""
    if person.show == "full":
        return f"{person.first} {person.last}"
    return person.first if person.show == "first" else person.last


def entity_phrase(lexicon: dict[str, Section], entity: Entity | None) -> Phrase:
    """Return a noun phrase that does not decline: the names of a lexicon, in the ways of its section ``entity``."""
    ways = lexicon["entity"]
    match entity:
        case Person():
            return name(shown_name(entity), "PER")
        case Place():
            return name(lexicon["place"][entity.name]["form"], "LOC")
        case Role():
            return words(f"{ways['role']['before']} {lexicon['role'][entity.name]['form']}")
        case Org():
            way, is_of_place = ways[entity.kind], entity.kind in ("university", "team")
            core = lexicon["place"][entity.name]["form"] if is_of_place else entity.name
            before = "" if entity.kind == "brand" and not entity.generic else way["before"]
            return join_phrases(before, name(way["name"].replace("%", core), "ORG"))
    return words(ways["nobody"]["before"])


def time_phrase(phrases: dict[str, dict[str, str]], time: str) -> str:
    """Return the adverbial for a time: a named one from the lexicon, or a year put into the phrase for years."""
    if not time:
        return ""
    if time[0] in DIGITS:
        return phrases["year"]["phrase"].replace("%", time)
    return phrases[time]["phrase"]


def sentence(phrase: Phrase, upper: Callable[[str], str] = str.upper) -> list[Token]:
    """Return tokens of a whole sentence: first letter capital, full stop, spaces as in running text."""
    last = len(phrase) - 1
    tokens = []
    for i, (form, tag) in enumerate(phrase):
        if i == 0:
            form = upper(form[0]) + form[1:]
        space = i < last and phrase[i + 1][0] not in _NO_SPACE_BEFORE
        space = space and form[-1] != "'"
        tokens.append(Token(form, tag, space))
    tokens.append(Token(".", "O", True))
    return tokens


def text_of(tokens: Iterable[Token]) -> str:
    """Return running text of one or more sentences, without a trailing space."""
    return "".join(t.form + " " if t.space_after else t.form for t in tokens).rstrip()
