"""Vocabularies that add pieces to an imported WordPiece one: what stays, what is learned, what is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from xling.core.errors import UserError
from xling.text import vocab
from xling.text.tokenizers.wordpiece import build_tokenizer

ENGLISH, HINDI = "the house of the king", "राजा का घर बड़ा है"
PIECES = [
    "the",
    "house",
    "of",
    "king",
    *"abcdefghijklmnopqrstuvwxyz",
    *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"),
]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    folder.mkdir()
    build_tokenizer(PIECES, True, None, True).save(str(folder / vocab.WORDPIECE))
    (folder / vocab.DICTIONARY).write_text("".join(f"{name} 1\n" for name in PIECES), encoding="utf-8")
    for lang, line in (("en", ENGLISH + " kingship"), ("hi", HINDI), ("de", "das haus der kingship")):
        (tmp_path / f"{lang}.txt").write_text(f"{line}\n" * 20, encoding="utf-8")
    return folder


def config(base: Path, langs: str = "en hi de", **settings: object) -> vocab.VocabConfig:
    folder = base.parent
    corpora = {lang: (str(folder / f"{lang}.txt"),) for lang in langs.split()}
    return vocab.VocabConfig(
        out=str(folder / "out"), corpora=corpora, base=str(base), **{"size": 200, **settings}
    )  # type: ignore[arg-type]


def test_english_is_cut_as_before_and_other_words_are_pieces(base: Path) -> None:
    counts = vocab.run(config(base)).counts
    old, new = vocab.load_processor(base), vocab.load_processor(base.parent / "out")
    names = (base.parent / "out" / vocab.DICTIONARY).read_text("utf-8").split()[::2]
    assert names[: len(PIECES)] == PIECES and len(names) == new.get_piece_size() - 3
    assert counts["base_pieces"] == len(PIECES) and counts["new_pieces"] == len(names) - len(PIECES)
    for text in (ENGLISH, "kingship"):  # the German text has this word too
        assert new.encode(text) == old.encode(text)
    assert new.encode(HINDI, out_type=str) == [f"\u2581{word}" for word in HINDI.split()]
    assert new.encode("das haus", out_type=str) == ["\u2581das", "\u2581haus"]
    assert 0 not in new.encode("ab" * 60)  # longer than 100 characters


def test_the_same_text_gives_the_same_pieces(base: Path) -> None:
    """Many pairs of letters are equally frequent."""
    draw = random.Random(1)
    words = ("".join(draw.choices("abcdefghij", k=draw.randint(2, 6))) for _ in range(2400))
    (base.parent / "sw.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    found = set()
    for number in range(4):
        cfg = replace(config(base, langs="en sw", size=150), out=str(base.parent / str(number)))
        vocab.run(cfg)
        files = (vocab.DICTIONARY, vocab.WORDPIECE)
        found.add(tuple((base.parent / str(number) / name).read_bytes() for name in files))
    assert len(found) == 1


def test_mistakes(base: Path) -> None:
    for cfg, said in (
        (config(base, size=10), "size=10"),
        (config(base, langs="en"), "alone"),
        (config(base, byte_fallback=True), "byte_fallback"),
        (replace(config(base), base=str(base.parent)), "no WordPiece"),
        (vocab.VocabConfig(out="x", corpora={"en": ("y",)}, keep=("de",)), "without base="),
    ):
        with pytest.raises(UserError, match=said):
            vocab.run(cfg)
