"""The benchmark of cuts: what is drawn from a cut, and that clean text gives the smaller loss."""

from __future__ import annotations

from benchmarks import cuts


def test_a_draw_has_the_characters_asked_for_and_whole_lines_but_the_last() -> None:
    texts = [f"document {i}\nits second line" for i in range(50)]
    lines = cuts.drawn(texts, 200, seed=1)
    assert sum(map(len, lines)) == 200
    assert {*lines[:-1]} <= {line for text in texts for line in text.split("\n")}
    assert lines != cuts.drawn(texts, 200, seed=2)
    assert lines == cuts.drawn(texts, 200, seed=1)


def test_text_like_the_held_out_lines_gives_the_smaller_loss() -> None:
    clean = [f"the {noun} is in the {place}" for noun in ("cat", "dog", "hen") for place in ("barn", "yard")]
    menu = ["login | register | cart", "home | about | contact", "share | tweet | pin"] * 2
    held = {"clean": ["the hen is in the barn", "the dog is in the yard"]}
    known = "".join(sorted({c for line in (*clean, *menu) for c in line}))
    near, far = (cuts.losses(lines, held, known, 4)["clean"] for lines in (clean, menu))
    assert near.shape == (2,)
    assert (near < far).all()
