"""The grammars of the toy world against a golden file that was read line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from xling.corpora.toyworld import LANGS, render
from xling.corpora.toyworld.grammar.ru import _decline_adjective, decline
from xling.corpora.toyworld.grammar.tr import suffix
from xling.corpora.toyworld.meaning import Meaning, Org, Person, Place, Role, Things
from xling.corpora.toyworld.tokens import text_of

GOLDEN = Path(__file__).parent.parent / "golden" / "toyworld.txt"

ANNA = Person("Anna", "Smith")
HASSAN = Person("Hassan", "Tanaka")
FATIMA = Person("Fatima", "Silva", "last")
SIMON = Person("Simon", "Washington", "last")
IVAN = Person("Ivan", "Berg", "first")
NORDIA = Org("brand", "Nordia")
COMPANY = Org("brand", "Zentrix", generic=True)
BANK = Org("bank", "Delta")

# Together they meet each rule of the grammars at least once.
MEANINGS = (
    Meaning("buy", ANNA, Things("car", 3), place="paris", time="monday"),
    Meaning("buy", ANNA, Things("car", 3), place="paris", time="monday", front=True),
    Meaning("sell", HASSAN, Things("house", 1, "beautiful"), place="kenya", time="1998"),
    Meaning("sell", HASSAN, Things("house", 1, "beautiful"), place="kenya", negated=True),
    Meaning("see", FATIMA, Things("dog", 2, "big"), place="uganda", time="yesterday"),
    Meaning("see", SIMON, Things("dog", 1, "white")),
    Meaning("see", IVAN, Things("horse", 5, "black"), time="tuesday", front=True),
    Meaning("see", ANNA, Things("tree", 2, "beautiful"), place="florence"),
    Meaning("see", ANNA, Things("animal", 3), place="france"),
    Meaning("eat", Role("student"), Things("mango", 4, at_least=True), time="may"),
    Meaning("eat", Role("farmer"), Things("apple", 12, "red")),
    Meaning("eat", Role("engineer"), Things("apple", 1, "red"), negated=True),
    Meaning("build", NORDIA, Things("hospital", 1, "new"), place="egypt", time="august"),
    Meaning("close", BANK, Things("factory", 2, "big"), place="brazil"),
    Meaning("destroy", COMPANY, Things("church", 1), place="geneva", negated=True),
    Meaning("open", Org("university", "london"), Things("school", 1, "new"), place="warsaw"),
    Meaning("show", Org("university", "rome"), Things("picture", 20), negated=False, time="sunday"),
    Meaning("find", IVAN, Things("ring", 2, "expensive", at_least=True), place="oslo"),
    Meaning("lose", ANNA, Things("ticket", 1), place="tokyo", time="friday", negated=True),
    Meaning("order", Role("journalist"), Things("bed", 2, "cheap"), time="2001", front=True),
    Meaning("bring", FATIMA, Things("flower", 6, "white"), time="saturday"),
    Meaning("steal", SIMON, Things("ball", 1, "new"), place="mexico"),
    Meaning("repair", Role("driver"), Things("device", 5)),
    Meaning("damage", Role("baker"), Things("window", 3, "small"), place="istanbul"),
    Meaning("draw", ANNA, Things("cow", 2), place="poland"),
    Meaning("describe", HASSAN, Things("map", 1, "new"), negated=True),
    Meaning("meet", ANNA, other=HASSAN, place="munich", time="wednesday"),
    Meaning("meet", IVAN, other=FATIMA, negated=True, time="march"),
    Meaning("meet", HASSAN, other=SIMON, time="thursday", front=True),
    Meaning("born", ANNA, place="italy", time="1975"),
    Meaning("born", HASSAN, place="prague", negated=True),
    Meaning("travel", ANNA, source="kenya", place="france", time="june"),
    Meaning("travel", HASSAN, source="egypt", place="ankara", negated=True),
    Meaning("travel", Role("doctor"), source="uganda", place="vienna", time="saturday", front=True),
    Meaning("acquire", NORDIA, other=COMPANY, time="2010"),
    Meaning("acquire", BANK, other=Org("brand", "Atlas"), negated=True),
    Meaning("beat", Org("team", "warsaw"), other=Org("team", "moscow"), time="sunday", score="3-1"),
    Meaning("beat", Org("team", "madrid"), other=Org("team", "rome"), negated=True),
    Meaning("rain", place="sydney", time="october", front=True),
    Meaning("rain", place="vienna", time="monday", negated=True),
    Meaning("snow", place="norway", time="yesterday"),
    Meaning("snow", place="chicago", negated=True),
    Meaning("live", FATIMA, place="munich"),
    Meaning("live", HASSAN, place="japan", negated=True),
    Meaning("work", ANNA, other=Org("university", "istanbul")),
    Meaning("work", IVAN, other=COMPANY, negated=True),
    Meaning("work", SIMON, other=BANK),
    Meaning("own", ANNA, Things("bicycle", 3, "red")),
    Meaning("own", HASSAN, Things("horse", 1, "white")),
    Meaning("own", FATIMA, Things("car", 1, "expensive"), negated=True),
    Meaning("own", IVAN, Things("book", 2, at_least=True)),
    Meaning("older", ANNA, other=IVAN),
    Meaning("taller", HASSAN, other=ANNA, negated=True),
    Meaning("bigger", Place("egypt"), other=Place("poland")),
    Meaning("bigger", Place("france"), other=Place("japan"), negated=True),
    Meaning(
        "say", ANNA, said=Meaning("buy", HASSAN, Things("book", 1, "new"), place="berlin", time="monday")
    ),
    Meaning("say", IVAN, said=Meaning("born", ANNA, place="germany", time="1981")),
    Meaning("say", SIMON, said=Meaning("older", HASSAN, other=ANNA, negated=True)),
    Meaning("say", HASSAN, said=Meaning("own", ANNA, Things("camera", 2))),
    Meaning("say", FATIMA, said=Meaning("live", Role("teacher"), place="dakar", negated=True)),
    Meaning("say", ANNA, said=Meaning("rain", place="portugal", time="april")),
    Meaning("say", HASSAN, said=Meaning("work", IVAN, other=COMPANY)),
    Meaning("say", HASSAN, said=Meaning("acquire", COMPANY, other=NORDIA, time="december")),
)


def _golden_text() -> str:
    blocks = ("".join(f"{lang}\t{text_of(render(lang, m))}\n" for lang in LANGS) for m in MEANINGS)
    return "\n".join(blocks)


def test_renderings_equal_the_golden_file() -> None:
    assert _golden_text() == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("word", "case", "expected"),
    [
        ("Londra", "loc", "da"), ("Paris", "loc", "te"), ("İstanbul", "abl", "dan"), ("Münih", "loc", "te"),
        ("Ürdün", "dat", "e"), ("Floransa", "dat", "ya"), ("Zentrix", "loc", "te"), ("Tokyo", "acc", "yu"),
        ("Roma", "acc", "yı"), ("Kamau", "gen", "nun"), ("Demir", "gen", "in"), ("Aydin", "gen", "in"),
    ],
)  # fmt: skip
def test_turkish_suffixes_harmonise(word: str, case: str, expected: str) -> None:
    assert suffix(word, case) == expected


@pytest.mark.parametrize(
    ("case", "expected"), [("loc", "nde"), ("acc", "ni"), ("gen", "nin"), ("abl", "nden")]
)
def test_turkish_possessed_noun_takes_buffer_n(case: str, expected: str) -> None:
    assert suffix("Üniversitesi", case, possessed=True) == expected


@pytest.mark.parametrize(
    ("form", "forms"),
    [
        ("Мария", "Марии Марию Марии Марией"), ("Ольга", "Ольги Ольгу Ольге Ольгой"),
        ("Аиша", "Аиши Аишу Аише Аишей"), ("Петер", "Петера Петера Петере Петером"),
        ("Мейер", "Мейера Мейера Мейере Мейером"), ("Танака", "Танаки Танаку Танаке Танакой"),
    ],
)  # fmt: skip
def test_russian_names_decline(form: str, forms: str) -> None:
    assert [decline(form, case, animate=True) for case in ("gen", "acc", "prep", "ins")] == forms.split()


def test_russian_adjectives_agree_in_gender_and_case() -> None:
    new, big = {"stem": "нов", "m": "новый"}, {"stem": "больш", "m": "большой"}
    told = {
        ("m", "nom"): "новый", ("m", "gen"): "нового", ("n", "nom"): "новое", ("n", "gen"): "нового",
        ("f", "nom"): "новая", ("f", "acc"): "новую", ("f", "gen"): "новой",
        ("m", "nom_pl"): "новые", ("f", "gen_pl"): "новых",
    }  # fmt: skip
    assert {key: _decline_adjective(new, *key) for key in told} == told
    assert [_decline_adjective(big, "n", form) for form in ("nom_pl", "gen_pl")] == ["большие", "больших"]
