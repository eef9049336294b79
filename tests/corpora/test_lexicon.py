"""Induced dictionaries: vectors, seeds, CSLS, and a language that is another one re-lettered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from corpora.lexicon.induce import Cues, csls, induce, mutual, rotation, seeds, spelling
from corpora.lexicon.stage import BliConfig, run
from corpora.lexicon.vectors import learn
from xling.core.errors import UserError

TEXT = [f"the {a} {v} a {o} {n}" for a in ["cat", "dog", "cow"] for v in ["sees", "wants"]
        for o in ["boat", "house", "book"] for n in ["1", "2", "3"]]  # fmt: skip


def test_words_of_like_use_have_like_vectors() -> None:
    words = learn(TEXT, 50, 6, 2, 1)
    assert words.words[:2] == ["a", "the"] and words.counts[0] == len(TEXT)
    vector = dict(zip(words.words, words.vectors, strict=True))
    assert vector["cat"] @ vector["dog"] > 0.8 > vector["cat"] @ vector["boat"]
    assert np.allclose(np.linalg.norm(words.vectors, axis=1), 1)
    with pytest.raises(UserError, match="words occur 9 times"):
        learn(["a b"], 50, 6, 2, 9)


def test_procrustes_finds_a_rotation_and_csls_is_as_in_the_paper() -> None:
    random = np.random.default_rng(1)
    points, turn = random.standard_normal((20, 4)), np.linalg.qr(random.standard_normal((4, 4)))[0]
    assert np.allclose(rotation(points, points @ turn), turn)
    cosines = np.array([[1.0, 0.5], [0.0, 0.5]])
    # With all neighbours counted: rows .75, .25; columns .5, .5.
    assert np.allclose(csls(cosines), [[2 - 1.25, 1 - 1.25], [0 - 0.75, 1 - 0.75]])
    rows, columns = mutual(csls(cosines))
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [0, 1])


def test_spelling_and_seeds() -> None:
    table = spelling(["nation", "1998"], ["nation", "natur", "xyz"])
    assert table[0, 0] == pytest.approx(1) and 0 < table[0, 1] < 1 and table[0, 2] == table[1, 0] == 0
    words = learn(TEXT, 50, 6, 2, 1)
    rows, columns = seeds(words, words, 1)
    assert rows.tolist() == columns.tolist() == list(range(len(words.words)))


def test_a_text_finds_its_own_words_again_through_its_numerals() -> None:
    words = learn(TEXT, 50, 6, 2, 1)
    found = induce(words, words, Cues(), 3, 1).argmax(1)
    assert found.tolist() == list(range(len(words.words)))


def test_it_publishes_both_directions_and_scores_against_gold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "en").write_text("\n".join(TEXT) + "\n", encoding="utf-8")
    (tmp_path / "gold").write_text("cat\tcat\ndog\tdog\nunseen\tx\n", encoding="utf-8")
    files = {"en": (f"{tmp_path}/en",), "fr": (f"{tmp_path}/en",)}
    cfg = BliConfig("en-fr", files, f"{tmp_path}/out", f"{tmp_path}/gold", min_count=1, min_seeds=1)
    assert run(cfg).counts["gold"] == {"p1": 1.0, "scored": 2, "entries": 3}
    assert "cat\tcat\n" in (tmp_path / "out/fr-en.txt").read_text()
    assert "P@1 100.00 on 2 of 3" in capsys.readouterr().out
    with pytest.raises(UserError, match="no text in sw"):
        run(BliConfig("en-sw", files, f"{tmp_path}/other"))
