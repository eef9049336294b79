"""Pairs of one language with every other one, and the vocabulary and shards that are made of them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from xling.core.errors import UserError
from xling.corpora import binarize
from xling.corpora.nway import pair_texts
from xling.corpora.nway.pair_texts import PairsConfig
from xling.text import vocab
from xling.text.files import shards


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two sources: pairs of many languages, with gaps and repetitions, and a folder of messages."""
    folder = tmp_path / "data"
    (folder / "para_extra").mkdir(parents=True)
    (folder / "po").mkdir()
    sides = {
        "news.en-fr.en": ["the house is big", "the house is big", "", "a long row " * 50, "we go home now"],
        "news.en-fr.fr": ["la maison est grande", "la maison est grande", "vide", "longue", "on rentre"],
        "many.en": ["one two three", "four five"],
        "many.sw": ["moja mbili tatu", "nne tano"],
        "many.am": ["አንድ ሁለት", ""],
    }
    for name, lines in sides.items():
        with gzip.open(folder / "para_extra" / f"{name}.gz", "wt", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
    (folder / "po" / "mail.fr.tsv").write_text("open the file\touvrir le fichier\nno\t\n", "utf-8")
    return folder


def rows(folder: Path, pair: str) -> set[tuple[str, ...]]:
    sides = [(folder / pair / f"train.{lang}").read_text("utf-8").splitlines() for lang in pair.split("-")]
    return set(zip(*sides, strict=True))


def test_a_code_that_no_list_has_is_left_out_with_a_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`xling vocab rows=` would refuse it."""
    with gzip.open(data / "para_extra" / "many.zzx.gz", "wt", encoding="utf-8") as file:
        file.write("uno\ndos\n")
    counts = pair_texts.run(PairsConfig(data, tmp_path / "out", least=2)).counts
    assert counts["pairs"] == {"fr": 3, "sw": 2}
    assert counts["langs_without_a_code"] == {"zzx": 2}
    assert "no list of languages has the code: zzx (2 pairs)" in capsys.readouterr().err


def test_pairs_of_every_language_and_what_was_dropped(data: Path, tmp_path: Path) -> None:
    counts = pair_texts.run(PairsConfig(data, tmp_path / "out", least=2)).counts
    assert counts["pairs"] == {"fr": 3, "sw": 2}
    assert counts["langs_with_too_few_pairs"] == {"am": 1}
    assert counts["dropped"] == {"repeated": 1, "too long": 1}
    assert rows(tmp_path / "out", "en-fr") == {
        ("the house is big", "la maison est grande"), ("we go home now", "on rentre"),
        ("open the file", "ouvrir le fichier"),
    }  # fmt: skip
    assert rows(tmp_path / "out", "en-sw") == {
        ("one two three", "moja mbili tatu"),
        ("four five", "nne tano"),
    }
    limited = pair_texts.run(PairsConfig(data, tmp_path / "few", least=1, limit=1, langs=("fr", "am")))
    assert limited.counts["pairs"] == {"am": 1, "fr": 2}
    assert limited.counts["dropped"]["over the limit"] == 1


def test_a_vocabulary_and_shards_of_all_of_them(data: Path, tmp_path: Path) -> None:
    pair_texts.run(PairsConfig(data, tmp_path / "pairs", least=2))
    pairs = str(tmp_path / "pairs")
    made = vocab.run(vocab.VocabConfig(rows=pairs, out=str(tmp_path / "vocab"), size=36))
    assert made.counts["chars"].keys() == {"en", "fr", "sw"}
    cfg = binarize.BinarizeConfig(vocab=str(tmp_path / "vocab"), rows=pairs, out=str(tmp_path / "shards"))
    counts = binarize.run(cfg).counts
    assert shards.list_pairs(tmp_path / "shards") == ["en-fr", "en-sw"]
    assert counts["en-fr"]["train.fr"]["items"] + counts["en-fr"]["valid.fr"]["items"] == 3
    assert set(shards.list_languages(tmp_path / "shards")) == {"en", "fr", "sw"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"langs": ("de",)}, "no pairs of en with de"),
        ({"source": "de"}, "no pairs of de"),
        ({"limit": -1}, "limit=-1"),
    ],
)
def test_what_is_not_there(settings: dict[str, object], said: str, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        pair_texts.run(PairsConfig(data, tmp_path / "out", **settings))  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="no sentence pairs in"):
        vocab.run(vocab.VocabConfig(rows=str(data), out=str(tmp_path / "vocab")))
