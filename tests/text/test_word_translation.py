"""Word-by-word translation: what stays in its place, and what the words around decide."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.text import word_translation
from xling.text.lm.model import load_arpa
from xling.text.lm.train import train_ngrams
from xling.text.word_translation import SWAP_LOG10, TOKEN, WORD, WordByWord, split_tokens, split_words

TEXTS = st.text(alphabet="ab C,.'1 é\n", max_size=20)
FRENCH = [
    "une femme noire porte une robe .",
    "un homme noir porte un manteau .",
    "une robe rouge .",
    "un manteau rouge .",
    "la femme dort , un homme dort .",
]
ENTRIES = {
    "a": [("un", -0.2), ("une", -0.4)],
    "red": [("rouge", 0.0)],
    "black": [("noir", -0.2), ("noire", -0.4)],
    "woman": [("femme", 0.0)],
    "paris": [("Paris", 0.0)],
    "dress": [("robe", -0.1), ("manteau", -0.9)],
    "sleeps": [("dort", 0.0)],
}


@pytest.fixture(scope="module")
def french(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "fr.arpa"
    train_ngrams(FRENCH, path, 3)
    return path


def test_words_keep_their_marks_and_joiners() -> None:
    assert split_words("हिन्दी में, می‌خواهم שָׁלוֹם Café") == ["हिन्दी", "में", "می‌خواهم", "שָׁלוֹם", "café"]
    assert split_tokens("घरों!") == ["घरों", "!"]


@given(TEXTS)
def test_without_a_model_all_but_words_stays(text: str) -> None:
    assert WordByWord({})(text) == text
    made = WordByWord({word: [("x", 0.0)] for word in split_words(text)})(text)
    assert len(split_words(made)) == len(split_words(text)) and WORD.sub("", made) == WORD.sub("", text)


@given(TEXTS)
def test_with_a_model_all_but_words_stays_too(french: Path, text: str) -> None:
    entries = {word: [("robe", -0.1), ("femme", -0.7)] for word in split_words(text)}
    made = WordByWord(entries, load_arpa(french))(text)
    assert len(split_words(made)) == len(split_words(text)) and WORD.sub("", made) == WORD.sub("", text)
    capitals = [word[0].isupper() for word in WORD.findall(made)]
    assert capitals == [i == 0 and word[0].isupper() for i, word in enumerate(WORD.findall(text))]


def test_words_around_decide_form_and_place(french: Path) -> None:
    translator = WordByWord(ENTRIES, load_arpa(french))
    assert translator("A red dress.") == "Une robe rouge."
    assert translator("A black woman sleeps.") == "Une femme noire dort."
    assert translator("a black, woman") == "un noir, femme"  # no neighbours: a mark stands between
    assert WordByWord(ENTRIES)("A Red dress, ZDF PARIS") == "Un rouge robe, ZDF Paris"
    assert translator("ZDF") == "ZDF" and translator("") == ""


@pytest.mark.parametrize("source", list(itertools.permutations(["a", "red", "dress", "black", "woman"], 3)))
def test_the_search_finds_the_best_of_all_hypotheses(french: Path, source: tuple[str, ...]) -> None:
    model = load_arpa(french)

    def score(order: tuple[int, ...], chosen: tuple[tuple[str, float], ...]) -> float:
        text = " ".join(chosen[i][0] for i in order)
        swaps = sum(a > b for a, b in itertools.pairwise(order))
        return float(model.score(text) + sum(p for _, p in chosen) + SWAP_LOG10 * swaps)

    orders = [(0, 1, 2), (1, 0, 2), (0, 2, 1)]
    every = itertools.product(orders, itertools.product(*(ENTRIES[word] for word in source)))
    order, chosen = max(every, key=lambda two: score(*two))
    assert WordByWord(ENTRIES, model)(" ".join(source)) == " ".join(chosen[i][0] for i in order)


def test_a_dictionary_serves_both_directions(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("Boat\tbateau\nship\tbateau\nboat\tbarque\n", encoding="utf-8")
    found = word_translation.read_translators(f"en-fr={tmp_path}/d")
    assert found["en", "fr"]("Boat, ship; dog") == "Bateau, bateau; dog"
    assert found["fr", "en"]("bateau") == "boat"
    assert word_translation.input_paths(f"en-fr={tmp_path}/d,fr-en=e") == [tmp_path / "d", Path("e")]


def test_a_directory_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"dictionaries=.*a directory of `xling bli`, or SRC-TGT=PATH"):
        word_translation.read_translators(str(tmp_path))
    (tmp_path / "en-fr.tsv").write_text("a\tun\t0.0\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"KenLM cannot read .*fr\.arpa"):
        word_translation.read_translators(str(tmp_path))


@pytest.mark.parametrize("line", ["a\tb", "a\tb\tlikely", "a b -1.5", "a\tb\t-1\t-1"])
def test_a_line_that_is_no_entry_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "en-fr.tsv").write_text(f"cat\tchat\t-0.1\n{line}\n", encoding="utf-8")
    with pytest.raises(
        UserError, match=r"en-fr.tsv, line 2: .*; valid: word<TAB>.*; fix: run `xling bli` again"
    ):
        word_translation.read_translators(str(tmp_path))


def test_the_model_reads_words_and_marks() -> None:
    assert split_tokens("L'homme, 2 fois!") == ["l", "'", "homme", ",", "2", "fois", "!"]
    assert TOKEN.findall(" \n") == []
