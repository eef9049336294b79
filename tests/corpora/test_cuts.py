"""The benchmark of cuts: what is drawn from a cut, and that clean text gives the smaller loss."""

from __future__ import annotations

import numpy as np

from benchmarks import cuts
from benchmarks.crawl import char_lstm


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


def test_the_bits_of_the_lstm_are_those_of_one_line_at_a_time_and_fall_with_like_text() -> None:
    lines = ["the cat is in the barn", "the dog is in the yard"] * 40
    held = ["the dog is in the barn", "a", "the cat is in the yard"]
    model = char_lstm.learned(lines, "abcdefghijklmnopqrstuvwxyz |", seed=1)
    together = char_lstm.bits_of(model, held)
    assert together.shape == (3,)
    np.testing.assert_allclose(together, [char_lstm.bits_of(model, [line])[0] for line in held], rtol=1e-4)
    untrained = char_lstm.learned(["zzzz"], "abcdefghijklmnopqrstuvwxyz |", seed=1)
    assert together[0] < 0.7 * char_lstm.bits_of(untrained, held)[0]


def test_rows_are_classified_by_what_the_states_hold() -> None:
    model = char_lstm.learned(["aaaa bbbb", "bbbb aaaa"] * 200, "ab ", seed=1)
    rows = [("aaaa aaaa", "first"), ("bbbb bbbb", "second")] * 8
    assert char_lstm.classified(model, rows, [("aaa aaa aaa", "first"), ("bbbb bbb", "second")]).all()
    assert not char_lstm.classified(model, rows, [("aaaa aaaa", "second")]).any()
