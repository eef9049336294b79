"""Links between the words of two languages: drawn alike for every language, aligned, read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xling.core.errors import UserError
from xling.corpora.nway import word_alignments
from xling.corpora.nway.word_alignments import LinksConfig, words
from xling.text.files.word_alignments import FILE_NAME, read_word_alignments

WORDS = {
    "eng_Latn": ["dog", "cat", "house", "river", "bread", "water", "king", "stone", "bird", "tree"],
    "deu_Latn": ["Hund", "Katze", "Haus", "Fluss", "Brot", "Wasser", "König", "Stein", "Vogel", "Baum"],
    "zho_Hans": list("狗猫屋河面水王石鸟树"),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data/seed"
    folder.mkdir(parents=True)
    rows = np.random.default_rng(1).integers(0, 10, (200, 4))
    for code, forms in WORDS.items():
        joint = "" if code == "zho_Hans" else " "
        text = "".join(joint.join(forms[i] for i in row) + "\n" for row in rows)
        (folder / f"{code}.txt").write_text(text, encoding="utf-8")
    return tmp_path / "data"


def test_words_of_one_meaning_are_linked(data: Path, tmp_path: Path) -> None:
    made = word_alignments.run(LinksConfig(data, tmp_path / "links", pairs=100))
    assert made.counts["pairs"] == {"de": 100, "zh": 100}
    packed = (tmp_path / "links" / FILE_NAME).read_bytes()
    assert packed[3:8] == bytes(5), "neither the name nor the time of the file"
    found = read_word_alignments(tmp_path / "links")
    assert {pair.lang for pair in found} == {"de", "zh"}
    assert [p.src for p in found if p.lang == "de"] == [p.src for p in found if p.lang == "zh"]
    english, german, chinese = WORDS.values()
    right = total = 0
    for pair in found:
        forms = german if pair.lang == "de" else chinese
        right += sum(forms[english.index(pair.src[i])] == pair.tgt[j] for i, j in pair.links)
        total += len(pair.links)
    assert total > 600
    assert right / total > 0.95


def test_words_keep_their_case_and_characters_stand_alone() -> None:
    assert words("Die Stadt 東京 (Tokio).") == ["Die", "Stadt", "東", "京", "(", "Tokio", ")", "."]


def test_what_cannot_be_linked_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is aligned with 'sw'"):
        word_alignments.run(LinksConfig(data, tmp_path / "links", source="sw"))
    with pytest.raises(UserError, match="pairs=0; valid: a whole number from 1"):
        word_alignments.run(LinksConfig(data, tmp_path / "links", pairs=0))


def test_a_short_source_leaves_its_share_to_the_others() -> None:
    one, two = ([([f"{name}{i}"], ["x"]) for i in range(size)] for name, size in (("a", 3), ("b", 20)))
    assert [src for (src,), _ in word_alignments._draw_evenly([one, two], 8)] == [
        "a0",
        "b0",
        "a1",
        "b1",
        "a2",
        "b2",
        "b3",
        "b4",
    ]
    assert len(word_alignments._draw_evenly([one, two], 100)) == 23
