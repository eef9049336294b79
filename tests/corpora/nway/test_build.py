"""Aligned text of many languages: what is read from each folder, and the words of every row."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from xling.core.errors import UserError
from xling.corpora.nway import build, sources
from xling.corpora.nway.build import NwayConfig
from xling.corpora.nway.scored_verses import is_scored, scored_verses
from xling.text.files.nway import open_rows, read_words
from xling.text.words.features import WINDOW_PREFIX, hash_features


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """One small file of every source."""
    folder = tmp_path / "data"
    write(folder / "bible/eng.tsv.gz", "GEN.1.1\tIn the beginning", "GEN.1.2\tThe earth was empty")
    write(folder / "bible/deu.tsv.gz", "GEN.1.2\tDie Erde war leer", "GEN.1.1\tAm Anfang")
    write(folder / "bible_nt/eng.tsv.gz", "GEN.1.1\tanother edition")
    write(folder / "bible_nt/swh.tsv.gz", "GEN.1.1\tHapo mwanzo")
    write(folder / "seed/eng_Latn.txt.gz", "a river", "a lake")
    write(folder / "seed/scn_Latn.txt.gz", "un ciumi", "")
    write(folder / "multi30k/train.en.gz", "a dog")
    write(folder / "multi30k/train.de.gz", "ein Hund")
    write(folder / "multi30k/val.en", "scored")
    write(folder / "mafand/en-sw.train.en.gz", "the news")
    write(folder / "mafand/en-sw.train.sw.gz", "habari")
    write(folder / "mafand/en-sw.dev.en", "scored")
    write(folder / "mafand/en-sw.dev.sw", "scored")
    write(folder / "nli/train.en.tsv.gz", "premise\thypothesis\tlabel", "p one\th one\tneutral")
    write(folder / "nli/train.fr.tsv.gz", "premise\thypothesis\tlabel", "p un\th un\tneutral")
    write(folder / "nli/xnli.dev.fr.tsv", "premise\thypothesis\tlabel", "scored\tscored\tneutral")
    write(folder / "indian/bn-en.dict.bn.gz", "নদী")
    write(folder / "indian/bn-en.dict.en.gz", "river")
    write(folder / "bli/en-fi.train5k.tsv", "dog\tkoira", "cat kissa")
    write(folder / "bli/en-fi.test2k.tsv", "scored\tscored")
    write(
        folder / "stories/asp.tsv",
        "story_id\tlang\tpage\ttext",
        "1\ten\t0\tThe hare", "1\ten\t1\tHe ran", "1\tsw\t0\tSungura", "1\tsw\t1\tAlikimbia", "1\tfr\t0\tLe lièvre",
    )  # fmt: skip
    write(folder / "udhr/eng.txt", "All human beings", "Everyone")
    write(folder / "udhr/tha.txt", "มนุษย์", "ทุกคน")
    write(folder / "udhr/xho.txt", "one paragraph only")
    write(folder / "ntrex/ntrex.deu.txt", "scored eins")
    write(folder / "ntrex/ntrex.eng.txt", "scored one")
    write(folder / "tatoeba/tur-eng.tur", "scored bir")
    write(folder / "tatoeba/tur-eng.eng", "scored one")
    return folder


def rows_of(data: Path, name: str) -> dict[str, list[str | None]]:
    (rows,) = sources.read(data, [name])
    return {lang: list(texts) for lang, texts in rows.texts.items()}


def test_verses_are_joined_on_their_ids_and_the_first_edition_counts(data: Path) -> None:
    found = rows_of(data, "bible")
    pairs = set(zip(found["en"], found["de"], found["sw"], strict=True))
    assert pairs == {
        ("In the beginning", "Am Anfang", "Hapo mwanzo"),
        ("The earth was empty", "Die Erde war leer", None),
    }


def test_the_verses_that_taxi1500_scores_are_in_no_language(tmp_path: Path) -> None:
    """John 2:6 and 2 Timothy 2:24 are test verses in every language, John 2:7 is none."""
    kept = ("JHN.2.7", "JOH.2.7", "43002007", "jhn 2:7-8", "GEN.2.6", "1TI.2.24", "preface")
    scored = ("JHN.2.6", "JOH.2.6", "43002006", "jhn 2:5-7", "2TI.2.24", "JHN.002.006")
    for code in ("eng", "swh"):
        write(tmp_path / f"bible/{code}.tsv.gz", *(f"{verse}\t{code} {verse}" for verse in (*kept, *scored)))
    assert rows_of(tmp_path, "bible") == {
        lang: [f"{code} {verse}" for verse in kept] for lang, code in (("en", "eng"), ("sw", "swh"))
    }
    assert sum(verse.partition(".")[0].isdecimal() for verse in scored_verses()) == 111


def test_a_corpus_that_brings_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "empty").mkdir()
    for name, said in (("gone", "is not a folder"), ("empty", "has no pairs of en, sw")):
        cfg = NwayConfig(tmp_path / "data", tmp_path / "out", langs=("en", "sw"), corpora=(tmp_path / name,))
        with pytest.raises(UserError, match=f"{name} {said}"):
            build.run(cfg)
    assert not (tmp_path / "out").exists()


@pytest.mark.data
def test_real_verses_lack_exactly_those_of_taxi1500() -> None:
    data = Path(os.environ["XLING_DATA"])
    path = data / "bible/eng.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        ids = [line.partition("\t")[0] for line in file]
    assert sum(map(is_scored, ids)) == 111


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("seed", {"en": ["a river", "a lake"], "scn": ["un ciumi", None]}),
        ("multi30k", {"de": ["ein Hund"], "en": ["a dog"]}),
        ("mafand", {"en": ["the news"], "sw": ["habari"]}),
        ("nli", {"en": ["p one", "h one"], "fr": ["p un", "h un"]}),
        ("indian", {"bn": ["নদী"], "en": ["river"]}),
        ("bli", {"en": ["dog", "cat"], "fi": ["koira", "kissa"]}),
        ("stories", {"en": ["The hare", "He ran"], "sw": ["Sungura", "Alikimbia"]}),
        ("ntrex", {"de": ["scored eins"], "en": ["scored one"]}),
        ("tatoeba", {"tr": ["scored bir"], "en": ["scored one"]}),
        ("udhr", {"en": ["All human beings", "Everyone"], "th": ["มนุษย์", "ทุกคน"]}),
    ],
)
def test_each_folder_is_read_in_its_layout(data: Path, name: str, texts: dict[str, list[str | None]]) -> None:
    assert rows_of(data, name) == texts


def test_dev_pairs_are_read_where_there_are_no_training_pairs(tmp_path: Path) -> None:
    write(tmp_path / "mafand/en-kin.dev.en.gz", "the news")
    write(tmp_path / "mafand/en-kin.dev.kin.gz", "amakuru")
    assert rows_of(tmp_path, "mafand") == {"en": ["the news"], "rw": ["amakuru"]}


def test_a_corpus_holds_the_words_of_every_text_and_none_of_the_scored_ones(
    data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "nway"
    made = build.run(NwayConfig(data, out, min_count=1))
    words = read_words(out)
    assert "scored" not in words
    sets, hashes, ends, frequency = open_rows(out)
    bible = next(each for each in sets if each.source == "bible")
    column = bible.langs.index("de")
    texts = {" ".join(words[i] for i in bible.text(column, row)) for row in range(2)}
    assert texts == {"am anfang", "die erde war leer"}
    assert len(frequency) == len(words) == len(ends) - 1
    place = words.index("anfang")
    assert hashes[ends[place] : ends[place + 1]].tolist() == hash_features("Anfang").tolist()
    assert made.counts["rows"]["seed"] == {"en": 2, "scn": 1}
    assert build.run(NwayConfig(data, out, min_count=1)).digest() == made.digest()


def test_rare_words_are_left_out_and_counted(data: Path, tmp_path: Path) -> None:
    made = build.run(NwayConfig(data, tmp_path / "nway", sources=("mafand", "seed"), min_count=2))
    assert read_words(tmp_path / "nway") == ["a"]
    assert made.counts["words"] == 1
    sets, *_ = open_rows(tmp_path / "nway")
    (seed,) = (each for each in sets if each.source == "seed")
    assert [len(seed.text(seed.langs.index("en"), row)) for row in (0, 1)] == [1, 1]
    assert np.diff(seed.ends).sum() == len(seed.words) == 2


def test_traditional_and_simplified_characters_are_one_word(tmp_path: Path) -> None:
    write(tmp_path / "mafand/en-zh.train.en.gz", "library", "book")
    write(tmp_path / "mafand/en-zh.train.zh.gz", "圖書", "图书")
    made = build.run(NwayConfig(tmp_path, tmp_path / "nway", min_count=1))
    assert set(read_words(tmp_path / "nway")) == {
        "library",
        "book",
        f"{WINDOW_PREFIX}图书",
        f"{WINDOW_PREFIX}书",
    }
    assert made.counts["words"] == 4


def test_files_of_a_pair_that_differ_in_length_are_refused(data: Path, tmp_path: Path) -> None:
    write(data / "mafand/en-sw.train.sw.gz", "habari", "zaidi")
    with pytest.raises(UserError, match=r"mafand: aligned files differ in length: en 1, sw 2"):
        build.run(NwayConfig(data, tmp_path / "nway"))


def test_a_folder_without_aligned_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no aligned text below .*fix: check data="):
        build.run(NwayConfig(tmp_path / "empty", tmp_path / "nway"))
    with pytest.raises(UserError, match=r"unknown source of aligned text 'bibel'.*did you mean 'bible'"):
        build.run(NwayConfig(tmp_path / "empty", tmp_path / "nway", sources=("bibel",)))


def test_more_pairs_are_read_by_their_english_and_their_line(tmp_path: Path) -> None:
    write(tmp_path / "para_extra/news.en-zh_TW.en.gz", "one", "two")
    write(tmp_path / "para_extra/news.en-zh_TW.zh_TW.gz", "一", "")
    for lang, text in (("en", "three"), ("am", "ሶስት"), ("so", "saddex")):
        write(tmp_path / f"para_extra/horn.{lang}.gz", text)
    write(tmp_path / "para_extra/alone.en-th.th.gz", "no other side")
    write(tmp_path / "po/game.th.tsv.gz", "You are dead.\tคุณตายแล้ว", "New game\tเกมใหม่", "no translation\t")
    write(tmp_path / "po/game.pt_BR.tsv.gz", "You are dead.\tVocê morreu.")
    write(tmp_path / "po/other.th.tsv.gz", "New game\tเกมอื่น")
    assert [rows.texts for rows in sources.read(tmp_path, ["para_extra"])] == [
        {"am": ["ሶስት"], "en": ["three"], "so": ["saddex"]},
        {"en": ["one", "two"], "zh_Hant": ["一", None]},
    ]
    assert [rows.texts for rows in sources.read(tmp_path, ["po"])] == [
        {"en": ["You are dead.", "New game"], "pt": ["Você morreu.", None], "th": ["คุณตายแล้ว", "เกมใหม่"]},
        {"en": ["New game"], "th": ["เกมอื่น"]},
    ]


def test_stories_of_one_collection_are_joined_over_its_files(tmp_path: Path) -> None:
    head = "story_id\tlang\tpage\ttext"
    write(tmp_path / "stories/asp.tsv", head, "1\ten\t0\tThe hare", "1\ten\t1\tHe ran")
    write(tmp_path / "stories_extra/global_asp.tsv.gz", head, "1\tar\t0\tالأرنب", "1\tar\t1\tركض")
    longer = [f"1\tth\t{page}\tหน้า" for page in range(3)]
    write(tmp_path / "stories_extra/global_pb.tsv.gz", head, *longer)
    assert rows_of(tmp_path, "stories") == {"ar": ["الأرنب", "ركض"], "en": ["The hare", "He ran"]}
