"""Made-up languages: what is changed and what is not, and text of two languages that differs in one thing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.papers.alteration import Alteration, relettered
from xling.papers.altered import AlteredConfig, run, simple

WORDS = st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1), max_size=9)


@given(WORDS, st.sampled_from(["kept", "reversed", "permuted"]), st.integers(0, 5))
def test_a_copy_has_the_same_words_at_the_places_that_are_told(
    words: list[str], order: Literal["kept", "reversed", "permuted"], seed: int
) -> None:
    words = [word for word in words if word.split() == [word]]
    change = Alteration("own", order, seed)
    places = change.places(len(words), "line")
    assert sorted(places) == list(range(len(words)))
    assert change.words(words, "line") == [relettered(words[place]) for place in places]
    if order == "reversed":
        assert Alteration("shared", order).words(words, "") == words[::-1]
    if order == "kept":
        assert places.tolist() == sorted(places)


@given(st.text(st.characters(max_codepoint=0xD7FF, exclude_categories=["Z", "Cc"])))
def test_letters_of_its_own_share_nothing_and_lose_nothing(text: str) -> None:
    import unicodedata

    composed = unicodedata.normalize("NFKC", text)
    copy = relettered(text)
    assert "".join(c if c.isspace() else chr(ord(c) - 0xF0000) for c in copy) == composed
    assert not {*copy} & {c for c in composed if not c.isspace()}


def test_lines_are_permuted_each_in_its_own_way() -> None:
    change = Alteration("shared", "permuted")
    line = [str(i) for i in range(12)]
    assert change.words(line, "a") == change.words(line, "a") != change.words(line, "b")
    assert Alteration("shared", "permuted", seed=2).words(line, "a") != change.words(line, "a")


def verses(path: Path, words: str, num: int = 60) -> Path:
    path.write_text("".join(f"GEN.1.{i}\t{words} {i} end\n" for i in range(num)), encoding="utf-8")
    return path


def made(folder: Path, **more: Any) -> dict[str, list[str]]:
    cfg = AlteredConfig(str(folder / "en.tsv"), str(folder / "out"), test=10, **more)
    run(cfg)
    return {p.name: [x for x in p.read_text().splitlines() if x] for p in (folder / "out").glob("*.txt")}


def test_a_copy_of_the_same_lines_or_of_others(tmp_path: Path) -> None:
    verses(tmp_path / "en.tsv", "in  the beginning")
    found = made(tmp_path, rows=20)
    assert found["train.qaa.txt"] == [relettered(x) for x in found["train.en.txt"]]
    assert len(found["train.en.txt"]) == 20 and found["train.en.txt"][0].startswith("in the beginning ")
    assert not {*found["train.en.txt"]} & {*found["test.en.txt"]}
    (tmp_path / "out").rename(tmp_path / "parallel")
    apart = made(tmp_path, rows=20, parallel=False)
    assert apart["test.en.txt"] == found["test.en.txt"]
    assert not {*apart["train.qaa.txt"]} & {relettered(x) for x in apart["train.en.txt"]}


def test_a_real_language_and_another_domain(tmp_path: Path) -> None:
    verses(tmp_path / "en.tsv", "in the beginning")
    de = verses(tmp_path / "de.tsv", "am anfang", 50)
    found = made(tmp_path, second=str(de), second_lang="de", change=Alteration("shared", "reversed"))
    assert len(found["train.de.txt"]) == 40 == len(found["train.en.txt"])
    numbers = [[word for word in x.split() if word.isdigit()] for x in found["test.en.txt"]]
    assert [x.split()[1:2] for x in found["test.de.txt"]] == numbers and found["test.de.txt"][0].endswith(
        "anfang am"
    )
    (tmp_path / "out").rename(tmp_path / "german")
    (tmp_path / "news.txt").write_text("".join(f"news {i}\n" for i in range(30)))
    other = made(tmp_path, domain=str(tmp_path / "news.txt"), change=Alteration())
    assert all(x.startswith("news") for x in other["train.qaa.txt"])
    assert other["test.qaa.txt"] == other["test.en.txt"]


def test_training_text_is_cut_to_megabytes(tmp_path: Path) -> None:
    verses(tmp_path / "en.tsv", "in the beginning")
    found = made(tmp_path, mb=0.0005)
    size = sum(len(x.encode()) + 1 for x in found["train.en.txt"])
    assert 460 < size <= 500 and len(found["train.qaa.txt"]) < len(
        found["train.en.txt"]
    )  # of more bytes a letter
    with pytest.raises(UserError, match=r"mb=3: there are 0\.00 MB"):
        run(AlteredConfig(str(tmp_path / "en.tsv"), str(tmp_path / "big"), test=10, mb=3))


def test_simple_lines_have_common_words_only() -> None:
    lines = {"1": "The dog runs.", "2": "the dog, the cat", "3": "a zebra runs"}
    assert Counter(simple(lines, 0)) == Counter(lines)
    assert list(simple(lines, 3)) == ["1"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"second_lang": "en"}, "lang=en and second_lang=en are the same language"),
        ({"rows": 51}, "60 lines in common, of which 50 are left"),
        ({"test": 0}, "test=0"),
        ({"mb": -1}, "mb=-1; valid: test from 1, rows, common and mb from 0"),
        ({"mb": float("nan")}, "mb=nan"),
        ({"second": "x", "domain": "y"}, "second= and domain="),
        ({"second_lang": "xx"}, "unknown language"),
    ],
)
def test_bad_settings_are_told_in_a_line(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    verses(tmp_path / "en.tsv", "in the beginning")
    with pytest.raises(UserError, match=said):
        run(
            AlteredConfig(
                **{"first": str(tmp_path / "en.tsv"), "out": str(tmp_path / "out"), "test": 10} | more
            )
        )


@pytest.mark.parametrize("text", ["no tab\n", "A\tx\nA\ty\n"])
def test_a_line_without_a_name_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "en.tsv").write_text(text)
    with pytest.raises(UserError, match=r"en.tsv line \d: .* (twice|without a tab); valid: NAME<TAB>TEXT"):
        run(AlteredConfig(str(tmp_path / "en.tsv"), str(tmp_path / "out")))
