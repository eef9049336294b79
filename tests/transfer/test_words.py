from pathlib import Path

import numpy as np
import pytest

from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.corpora.mining.stage import MineConfig
from xling.corpora.parallel.wordalign.stage import AlignConfig
from xling.text.pairs import split_words
from xling.transfer.words import word_vectors

SENTENCES = ["My neighbour likes fresh bread at home.", "The teacher sees a red boat.", "At home."]


def test_a_vector_a_word_in_context(model: Path) -> None:
    cut = [split_words(text) for text in SENTENCES]
    found = word_vectors(model, cut, "en")
    assert [len(v) for v in found] == [len(c) for c in cut]
    assert all(np.abs(v).sum(axis=1).min() > 0 for v in found)
    # "home" has another vector in another sentence, but the same one before the first layer
    assert not np.allclose(found[0][-2], found[2][1], atol=1e-3)
    alone = word_vectors(model, cut[1:2], "en")
    np.testing.assert_allclose(alone[0], found[1], atol=1e-4)
    with pytest.raises(UserError, match="layer"):
        word_vectors(model, cut, "en", layer=99)


def test_align_and_mine_with_an_encoder(model: Path, tmp_path: Path) -> None:
    """The same text on both sides: every word is linked to itself and every sentence finds itself."""
    for lang in ("en", "ar"):
        (tmp_path / f"t.{lang}").write_text("".join(text + "\n" for text in SENTENCES))
    files = {"src": str(tmp_path / "t.en"), "tgt": str(tmp_path / "t.ar")}
    align = AlignConfig(
        "en-ar", **files, method="embedding", checkpoint=str(model), out=str(tmp_path / "align")
    )
    run_local("align", align)
    links = (tmp_path / "align" / "links.txt").read_text().splitlines()
    assert links[2].split()[:3] == ["0-0", "1-1", "2-2"]
    mine = MineConfig(
        "en-ar", **files, checkpoint=str(model), out=str(tmp_path / "mine"), neighbours=2, threshold=0
    )
    run_local("mine", mine)
    rows = [line.split("\t") for line in (tmp_path / "mine" / "pairs.tsv").read_text().splitlines()]
    assert sum(row[1] == row[2] for row in rows) == len(SENTENCES)
    assert manifest.verify(tmp_path / "mine").counts["pairs"] == len(rows)
