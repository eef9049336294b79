import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.corpora.codeswitch.alm import AlmSettings, draw_sentence, switch
from xling.corpora.codeswitch.build import CodeswitchConfig, run
from xling.corpora.codeswitch.documents import alternate_languages, group_by_document
from xling.corpora.parallel.settings import ParallelConfig
from xling.corpora.parallel.wordalign.aligner import AlignerSettings
from xling.corpora.parallel.wordalign.stage import LINKS_FILE, AlignConfig
from xling.corpora.toyworld import para
from xling.text.files import corpus_reader
from xling.text.files.dictionary import Cosda, check_direction, read_dictionary
from xling.text.pairs import split_words, word_spans
from xling.text.words.substitution import (
    Replacement,
    keeps_entities,
    project_tags,
    render_text,
    substitute,
    token_langs,
)

WORDS = st.lists(st.sampled_from(["cat", "dog", "house", "red", "Anna", "Paris"]), min_size=1, max_size=12)
DICTIONARIES = {
    "de": {"cat": ("Katze", "Kater"), "dog": ("Hund",), "house": ("Haus",), "anna": ("Anna Maria",)},
    "fr": {"cat": ("chat",), "red": ("rouge",), "paris": ("ville de Paris",)},
}


def tag(count, draw):
    """Random valid IOB2 tags."""
    tags, before = [], "O"
    for _ in range(count):
        options = ["O", "B-PER", "B-LOC"] + ([f"I-{before[2:]}"] if before != "O" else [])
        before = options[draw.integers(len(options))]
        tags.append(before)
    return tags


def test_substitution_keeps_account_of_origins_and_text():
    text = "Anna  saw a red house."
    at = word_spans(text)
    sentence = [text[a:b] for a, b in at]
    done = substitute(sentence, [Replacement(3, 5, ("ein", "rotes", "Haus"), "de")], "en")
    assert done.words == ("Anna", "saw", "a", "ein", "rotes", "Haus", ".")
    assert done.origins[3:6] == ((3, 5),) * 3
    assert done.langs[2:4] == ("en", "de")
    assert done.num_replaced("en") == 2
    assert render_text(done, text, at, {"en", "de"}) == "Anna  saw a ein rotes Haus."
    chinese = substitute(sentence, [Replacement(3, 5, ("红", "房", "子"), "zh")], "en")
    assert render_text(chinese, text, at, {"en"}) == "Anna  saw a 红房子."


@given(st.text(alphabet="ab ,.茶", max_size=30))
def test_rendering_without_replacement_is_the_text(text):
    at = word_spans(text)
    done = substitute([text[a:b] for a, b in at], (), "en")
    assert render_text(done, text, at, {"en"}) == text.strip()


def test_tokens_have_the_language_of_their_first_word():
    text = "Anna saw a house."
    at = word_spans(text)
    done = substitute([text[a:b] for a, b in at], [Replacement(3, 4, ("das", "Haus"), "de")], "en")
    new = render_text(done, text, at, {"en", "de"})
    assert new == "Anna saw a das Haus."
    assert token_langs(new, done) == ["en", "en", "en", "de", "de"]


@given(WORDS, st.integers(0, 10_000))
def test_labels_survive_substitution(sentence, key):
    """No entity is lost, split or joined, whatever is replaced by however many words."""
    tags = tag(len(sentence), np.random.default_rng(key))
    done = Cosda("en", DICTIONARIES, word_rate=0.9)(sentence, key, tags=tags)
    new = project_tags(tags, done)
    assert len(new) == len(done.words)
    types_of_new, types = ([tag[2:] for tag in each if tag.startswith("B-")] for each in (new, tags))
    assert types_of_new == types
    for position, label in enumerate(new):
        if label.startswith("I-"):
            assert position
            assert new[position - 1][2:] == label[2:]
    # every new word carries the type of the words that it stands for
    assert all(n[2:] == tags[start][2:] for n, (start, _) in zip(new, done.origins, strict=True))


def test_replacements_that_would_break_an_entity():
    tags = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC"]
    assert keeps_entities(tags, 0, 2)
    assert keeps_entities(tags, 1, 2)
    assert keeps_entities(tags, 2, 3)
    assert not keeps_entities(tags, 1, 3)
    assert not keeps_entities(tags, 3, 5)


def test_cosda_draws_anew_by_key_and_alike_by_the_same_key():
    cosda = Cosda("en", DICTIONARIES, word_rate=0.5)
    sentence = ["cat", "dog", "house", "red"] * 5
    first = cosda(sentence, "epoch", 1, 7)
    assert first == cosda(sentence, "epoch", 1, 7)
    assert first != cosda(sentence, "epoch", 2, 7)
    many = [cosda(sentence, i) for i in range(300)]
    langs = [lang for switched in many for lang in switched.langs]
    assert langs.count("en") / len(langs) == pytest.approx(0.5, abs=0.02)
    # cat is in both dictionaries, dog and house in one, red in the other
    assert langs.count("de") / len(langs) == pytest.approx(0.5 * (0.5 + 1 + 1) / 4, abs=0.02)
    assert langs.count("fr") / len(langs) == pytest.approx(0.5 * (0.5 + 1) / 4, abs=0.02)
    untouched = Cosda("en", DICTIONARIES, sentence_rate=0.25, word_rate=1.0)
    share = np.mean([untouched(sentence, i).words == tuple(sentence) for i in range(400)])
    assert share == pytest.approx(0.75, abs=0.06)


def test_capitals_follow_the_word_that_is_replaced():
    cosda = Cosda("en", {"de": {"dog": ("hund",)}}, word_rate=1.0)
    assert cosda(["Dog", "DOG", "dog"], 1).words == ("Hund", "HUND", "hund")


def test_dictionaries_are_read_in_both_separators(tmp_path):
    path = tmp_path / "en-de.txt"
    path.write_text("Cat\tKatze\ncat Kater\n\nice cream\tEis\ncat Katze\n", encoding="utf-8")
    assert read_dictionary(path) == {"cat": ("Katze", "Kater"), "ice cream": ("Eis",)}
    path.write_text("cat\nKatze\n")
    with pytest.raises(UserError, match="line 1"):
        read_dictionary(path)


def test_a_dictionary_the_wrong_way_round_is_detected(tmp_path):
    text = {"the", "cat", "sees", "a", "dog", "house"}
    right = {"cat": ("Katze",), "dog": ("Hund",), "house": ("Haus",)}
    wrong = {t.lower(): (s,) for s, ts in right.items() for t in ts}
    check_direction(tmp_path, right, text, "en")
    with pytest.raises(UserError, match="wrong way round"):
        check_direction(tmp_path, wrong, text, "en")


def aligned(count=300):
    for number, (a, b) in enumerate(para("en", "de", count, 1)):
        src, tgt = split_words(a), split_words(b)
        yield number, src, tgt, {(i, i) for i in range(min(len(src), len(tgt)))}


def test_alm_stays_under_its_rate_and_phrases_under_five_words():
    settings = AlmSettings()
    for number, src, tgt, links in aligned():
        done = switch(src, tgt, links, ("en", "de"), settings, np.random.default_rng(number))
        assert done.num_replaced("en") < 0.3 * len(src)
        foreign = [o for o, lang in zip(done.origins, done.langs, strict=True) if lang == "de"]
        assert all(end - start <= 4 for start, end in foreign)
        # what was not replaced is as it was, in order
        kept = [
            (o[0], w) for o, w, lang in zip(done.origins, done.words, done.langs, strict=True) if lang == "en"
        ]
        assert kept == sorted(kept)
        assert all(src[i] == word for i, word in kept)


def test_alm_mixes_80_10_10_in_both_directions():
    settings = AlmSettings()
    drawn = [
        draw_sentence(src, tgt, links, ("en", "de"), settings, number, copy)[:2]
        for number, src, tgt, links in aligned(200)
        for copy in range(10)
    ]
    shares = {kind: np.mean([k == kind for k, _ in drawn]) for kind in ("switched", "source", "target")}
    assert shares == pytest.approx({"switched": 0.8, "source": 0.1, "target": 0.1}, abs=0.03)
    assert np.mean([side for kind, side in drawn if kind == "switched"]) == pytest.approx(0.5, abs=0.04)


def test_documents_alternate():
    pairs = [("e0", "d0"), ("e1", "d1"), ("e2", "d2")]
    assert alternate_languages(pairs, 0) == [(0, "e0"), (1, "d1"), (0, "e2")]
    assert alternate_languages(pairs, 1) == [(1, "d0"), (0, "e1"), (1, "d2")]
    rows = [("a", "1", "1"), ("a", "2", "2"), ("b", "3", "3"), ("b", "4", "4"), ("b", "5", "5")]
    assert [(name, len(held)) for name, held in group_by_document(rows, 2)] == [("a", 2), ("b", 2), ("b", 1)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A parallel corpus of the toy world and its alignment."""
    folder = tmp_path_factory.mktemp("made")
    cfg = ParallelConfig(
        "en-de", source=("toyworld:400",), out=str(folder / "para"), dev_pairs=0, test_pairs=0
    )
    run_local("corpus parallel", cfg)
    quick = AlignerSettings(em_iterations=3, sweeps=8, averaged_sweeps=4)
    align = AlignConfig("en-de", corpus=str(folder / "para"), out=str(folder / "align"), aligner=quick)
    run_local("align", align)
    return folder


def test_alm_corpus(made, tmp_path):
    cfg = CodeswitchConfig("en-de", source=(str(made / "align"),), out=str(tmp_path / "cs"))
    run(cfg)
    found = manifest.verify(tmp_path / "cs")
    rates = found.counts["replacement_rate"]
    assert 0.1 < rates["en>de"] < 0.3
    assert 0.1 < rates["de>en"] < 0.3
    assert set(found.counts["kinds"]) == {"source en", "switched de", "switched en", "target de"}
    assert len((tmp_path / "cs" / "train.txt").read_text().splitlines()) == found.counts["sentences"]
    texts, langs = ((tmp_path / "cs" / n).read_text().splitlines() for n in ("train.txt", "train.langs"))
    assert [len(text.split(" ")) for text in texts] == [len(row.split(" ")) for row in langs]
    assert any(len(set(row.split())) == 2 for row in langs)
    assert "Code-switched corpus en-de (alm)" in (tmp_path / "cs" / "card.md").read_text()
    assert "up to date" in run(cfg)
    digest = found.digest()
    shutil.rmtree(tmp_path / "cs")
    run(cfg)
    assert manifest.read(tmp_path / "cs").digest() == digest


def test_pairs_without_links_are_told_where_they_are_most(made, tmp_path, monkeypatch):
    read_lines = corpus_reader.read_lines

    def read_few_links(path):
        rows = list(read_lines(path))
        return [row if i % 4 == 0 else "" for i, row in enumerate(rows)] if path.name == LINKS_FILE else rows

    monkeypatch.setattr(corpus_reader, "read_lines", read_few_links)
    said = str(run(CodeswitchConfig("en-de", source=(str(made / "align"),), out=str(tmp_path / "cs"))))
    assert "less than half was kept; most was dropped by switch/no_links: 29" in said


def test_a_parallel_corpus_is_aligned_on_the_way(tmp_path):
    para_dir = str(tmp_path / "para")
    settings = {"source": ("toyworld:60",), "dev_pairs": 0, "test_pairs": 0}
    run_local("corpus parallel", ParallelConfig("en-de", out=para_dir, **settings))
    run(CodeswitchConfig("en-de", source=(para_dir,), out=str(tmp_path / "cs")))
    assert manifest.verify(tmp_path / "cs").counts["sentences"] > 40
    assert manifest.verify(tmp_path / "cs.align").counts["pairs"] > 40


def test_document_corpus(made, tmp_path):
    cfg = CodeswitchConfig(
        "en-de", mode="documents", source=(str(made / "para"),), out=str(tmp_path / "cs"), max_sentences=8
    )
    run(cfg)
    found = manifest.verify(tmp_path / "cs")
    text = (tmp_path / "cs" / "train.txt").read_text()
    assert len(text.strip().split("\n\n")) == found.counts["sentences"]
    assert found.counts["replacement_rate"]["en>de"] == pytest.approx(0.5, abs=0.1)


def test_dictionary_corpus_in_several_languages(tmp_path):
    (tmp_path / "en.txt").write_text("The cat sees a red house.\nA dog is here.\n" * 50)
    paths = {}
    for lang, table in DICTIONARIES.items():
        path = tmp_path / f"en-{lang}.txt"
        path.write_text("".join(f"{s}\t{t}\n" for s, ts in table.items() for t in ts))
        paths[lang] = str(path)
    settings = {"source": (str(tmp_path / "en.txt"),), "dictionaries": paths, "word_rate": 0.5}
    cfg = CodeswitchConfig("en-de", mode="dictionary", out=str(tmp_path / "cs"), **settings)
    run(cfg)
    rates = manifest.verify(tmp_path / "cs").counts["replacement_rate"]
    assert set(rates) == {"en>de", "en>fr"}
    assert json.loads((tmp_path / "cs" / "stats.json").read_text())["ledger"]["seen"]["read"] == 100
    turned = tmp_path / "de-en.txt"
    turned.write_text("".join(f"{t}\t{s}\n" for s, ts in DICTIONARIES["de"].items() for t in ts))
    wrong = CodeswitchConfig(
        "en-de",
        mode="dictionary",
        source=settings["source"],
        dictionaries={"de": str(turned)},
        out=str(tmp_path / "x"),
    )
    with pytest.raises(UserError, match="wrong way round"):
        run(wrong)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": ("nowhere",)}, "no alignment and no parallel corpus at nowhere"),
        ({"mode": "documents", "source": ("nowhere",)}, "no parallel corpus"),
        ({"source": ("one", "two")}, "source=one,two with mode=alm; valid: one directory"),
        ({"mode": "dictionary"}, "dictionaries"),
        ({"dictionaries": {"de": "x"}}, "dictionaries"),
        ({"mode": "dictionary", "dictionaries": {"de": "x"}}, "source"),
        ({"alm": AlmSettings(switched=0.9)}, "together"),
    ],
)
def test_mistakes_are_told(changes, message):
    with pytest.raises(UserError, match=message):
        run(CodeswitchConfig(**({"pair": "en-de"} | changes)))
