import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.corpora.parallel.wordalign import model1, phrases, simalign, symmetrise
from xling.corpora.parallel.wordalign.aligner import AlignerSettings, align
from xling.corpora.parallel.wordalign.stage import AlignConfig
from xling.corpora.parallel.wordalign.symmetrise import format_pharaoh, parse_pharaoh
from xling.corpora.toyworld import para
from xling.text.pairs import split_words, word_spans

GOLDEN = Path(__file__).parent / "golden" / "alignments.en-sw.tsv"
QUICK = AlignerSettings(em_iterations=3, sweeps=10, averaged_sweeps=5)


def alignment_error_rate(links, sure, possible):
    """Return AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), 0 is perfect; ``possible`` includes ``sure``.

    Source: Och and Ney 2003, equation 26.
    """
    possible = possible | sure
    total = len(links) + len(sure)
    return 1 - (len(links & sure) + len(links & possible)) / total if total else 0.0


links_of = st.integers(1, 7).flatmap(
    lambda i: st.integers(1, 7).flatmap(
        lambda j: st.tuples(
            st.just(i),
            st.just(j),
            st.sets(st.tuples(st.integers(0, i - 1), st.integers(0, j - 1)), max_size=10),
        )
    )
)


def golden():
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            src, tgt, sure, possible = line.split("\t")
            yield split_words(src), split_words(tgt), parse_pharaoh(sure), parse_pharaoh(possible)


def test_words_cut_punctuation_numbers_and_unspaced_scripts():
    assert split_words("Don't pay 1,200.50 euros, well-known!") == [
        "Don't",
        "pay",
        "1,200.50",
        "euros",
        ",",
        "well-known",
        "!",
    ]
    assert split_words("我爱 tea。") == ["我", "爱", "tea", "。"]
    assert split_words("हिन्दी में می‌خواهم שָׁלוֹם") == ["हिन्दी", "में", "می‌خواهم", "שָׁלוֹם"]
    assert split_words("น้ำ") == ["น้", "ำ"]
    assert split_words("mag’alim ng'ombe") == ["mag’alim", "ng'ombe"]


@given(st.text(max_size=40))
def test_spans_cover_everything_but_spaces(text):
    covered = {i for start, end in word_spans(text) for i in range(start, end)}
    assert {i for i, char in enumerate(text) if not char.isspace()} <= covered


def test_the_aligner_is_right_on_the_golden_set():
    gold = list(golden())
    more = [(split_words(a), split_words(b)) for a, b in para("en", "sw", 600, 3)]
    src = [g[0] for g in gold] + [m[0] for m in more]
    tgt = [g[1] for g in gold] + [m[1] for m in more]
    found = align(src, tgt)[: len(gold)]
    errors = [alignment_error_rate(f, g[2], g[3]) for f, g in zip(found, gold, strict=True)]
    assert np.mean(errors) < 0.1, [format_pharaoh(f) for f in found]


def test_model_1_alone_learns_the_three_sentence_example():
    # das Haus / das Buch / ein Buch, the example every course on IBM model 1 uses
    src = [["das", "haus"], ["das", "buch"], ["ein", "buch"]]
    tgt = [["the", "house"], ["the", "book"], ["a", "book"]]
    left, right = model1.encode(src), model1.encode(tgt)
    lexicon = model1.Lexicon(left, right, np.arange(3))
    links = model1.train(lexicon, 20, prior=1e-3, null_prior=0.05)
    by_row = {
        int(r): best[:, k]
        for b, best in zip(lexicon.batches, links, strict=True)
        for k, r in enumerate(b.rows)
    }
    assert [by_row[r].tolist() for r in range(3)] == [[0, 1]] * 3


def test_model_1_is_expectation_maximisation():
    """One iteration equals the textbook computation by loops, without a prior."""
    src, tgt = [["a", "b"], ["a"]], [["x", "y"], ["x"]]
    left, right = model1.encode(src), model1.encode(tgt)
    lexicon = model1.Lexicon(left, right, np.arange(2))
    null_prior = 0.2
    probs = lexicon.probabilities.copy()
    posteriors = {}
    for batch in lexicon.batches:
        real, null = model1.posterior(batch, probs, null_prior)
        for k, row in enumerate(batch.rows):
            posteriors[int(row)] = (real[:, k], null[:, k])
    # uniform t: each of I words has (1 - p0) / I against p0 for NULL
    np.testing.assert_allclose(posteriors[0][0][:2], [[0.4, 0.4], [0.4, 0.4]], rtol=1e-6)
    np.testing.assert_allclose(posteriors[1][0][:1], [[0.8]], rtol=1e-6)
    np.testing.assert_allclose(posteriors[1][1][:1], [0.2], rtol=1e-6)


def test_alignment_is_repeatable_and_leaves_out_what_it_says():
    pairs = [(split_words(a), split_words(b)) for a, b in para("en", "de", 60, 3)]
    src, tgt = [p[0] for p in pairs], [p[1] for p in pairs]
    src[5], tgt[7], src[9] = [], [], ["long"] * 201
    first, second = align(src, tgt, QUICK), align(src, tgt, QUICK)
    assert first == second
    assert first[5] == first[7] == first[9] == set()
    assert all(
        0 <= i < len(s) and 0 <= j < len(t) for s, t, f in zip(src, tgt, first, strict=True) for i, j in f
    )


def test_chunks_have_their_own_random_numbers():
    pairs = [(split_words(a), split_words(b)) for a, b in para("en", "de", 40, 3)]
    src, tgt = [p[0] for p in pairs], [p[1] for p in pairs]
    settings = AlignerSettings(em_iterations=2, sweeps=4, averaged_sweeps=2, chunk_pairs=25)
    assert len(align(src, tgt, settings)) == 40
    assert align([], [], settings) == []


def test_grow_diag_final_and_by_hand():
    forward, backward = {(0, 0), (1, 1), (2, 1), (3, 3)}, {(0, 0), (1, 1), (1, 2), (4, 4)}
    # (2, 1) and (1, 2) neighbour (1, 1); (3, 3) and (4, 4) stand free and are added by final-and
    assert symmetrise.grow_diag_final_and(forward, backward) == forward | backward
    # a link to two covered words is not added
    assert symmetrise.grow_diag_final_and({(0, 0), (5, 0)}, {(0, 0)}) == {(0, 0)}
    # a neighbour that covers a new word is
    assert symmetrise.grow_diag_final_and({(0, 0), (1, 0)}, {(0, 0)}) == {(0, 0), (1, 0)}


@given(links_of, links_of)
def test_symmetrised_links_lie_between_intersection_and_union(a, b):
    forward, backward = a[2], b[2]
    found = symmetrise.grow_diag_final_and(set(forward), set(backward))
    assert forward & backward <= found <= forward | backward
    assert parse_pharaoh(format_pharaoh(found)) == found


@given(links_of)
def test_phrases_are_exactly_the_consistent_ones(case):
    num_src, num_tgt, links = case
    found = set(phrases.extract_spans(links, num_src, num_tgt, max_words=3))
    wanted = set()
    for a in range(num_src):
        for b in range(a + 1, min(a + 3, num_src) + 1):
            for c in range(num_tgt):
                for d in range(c + 1, min(c + 3, num_tgt) + 1):
                    inside = [(a <= i < b, c <= j < d) for i, j in links]
                    if (True, True) in inside and (True, False) not in inside and (False, True) not in inside:
                        wanted.add(phrases.Span(a, b, c, d))
    assert found == wanted


def test_phrase_table_probabilities():
    rows = [(["the", "House"], ["das", "haus"], {(0, 0), (1, 1)})] * 3
    rows += [(["house"], ["heim"], {(0, 0)})]
    table = {(p.src, p.tgt): p for p in phrases.phrase_table(rows, max_words=2)}
    assert table["house", "haus"].tgt_given_src == pytest.approx(0.75)
    assert table["house", "heim"].tgt_given_src == pytest.approx(0.25)
    assert table["house", "heim"].src_given_tgt == 1.0
    assert table["the house", "das haus"].count == 3
    assert all(p.count >= 2 for p in phrases.phrase_table(rows, min_count=2))


def test_itermax_adds_links_that_argmax_must_leave():
    similarity = np.array([[0.9, 0.8, 0.0], [0.1, 0.2, 0.7]])
    assert simalign.argmax(similarity) == {(0, 0), (1, 2)}
    assert simalign.itermax(similarity) == {(0, 0), (0, 1), (1, 2)}
    assert simalign.itermax(similarity, num_iterations=1) == simalign.argmax(similarity)
    assert simalign.itermax(np.zeros((0, 3))) == set()


def test_itermax_of_the_same_words_is_the_diagonal():
    vectors = np.eye(5)[:, :4] + 0.01
    vectors[4] = [0.5, -0.5, 0.5, -0.5]
    found = simalign.argmax(simalign.cosine(vectors, vectors))
    assert found == {(i, i) for i in range(5)}


def test_error_rate():
    assert alignment_error_rate({(0, 0)}, {(0, 0)}, set()) == 0
    assert alignment_error_rate({(0, 0), (1, 1)}, {(0, 0)}, {(1, 1)}) == 0
    assert alignment_error_rate({(1, 0)}, {(0, 0)}, set()) == 1


def write_pairs(folder: Path, count: int = 80) -> tuple[Path, Path]:
    pairs = list(para("en", "sw", count, 5))
    for side, lang in ((0, "en"), (1, "sw")):
        (folder / f"text.{lang}").write_text("".join(p[side] + "\n" for p in pairs), encoding="utf-8")
    return folder / "text.en", folder / "text.sw"


def test_stage_publishes_links_words_and_phrases(tmp_path):
    src, tgt = write_pairs(tmp_path)
    cfg = AlignConfig(
        "en-sw", src=str(src), tgt=str(tgt), out=str(tmp_path / "out"), aligner=QUICK, min_count=1
    )
    assert "80" in run_local("align", cfg)
    out = tmp_path / "out"
    assert len((out / "links.txt").read_text().splitlines()) == 80
    with gzip.open(out / "phrases.tsv.gz", "rt") as table:
        assert next(table).split() == ["src", "tgt", "tgt_given_src", "src_given_tgt", "count"]
        rows = [line.rstrip("\n").split("\t") for line in table]
    assert len(rows) > 100
    assert all(0 < float(p) <= 1 for row in rows for p in row[2:4])
    first = manifest.read(out).digest()
    assert "up to date" in run_local("align", cfg)
    shutil.rmtree(out)
    run_local("align", cfg, num_workers=2)
    assert manifest.read(out).digest() == first


def test_stage_refuses_a_line_that_is_no_sentence(tmp_path):
    """A line of 30 MB took 3.8 GB."""
    for lang in ("en", "de"):
        (tmp_path / lang).write_text(f"a b c\n{'a b ' * 30_000}\n", encoding="utf-8")
    cfg = AlignConfig("en-de", src=str(tmp_path / "en"), tgt=str(tmp_path / "de"), out=str(tmp_path / "out"))
    with pytest.raises(UserError, match=r"en line 2: 120,000 characters.*at most 100,000"):
        run_local("align", cfg)
    assert not (tmp_path / "out").exists()


def test_stage_refuses_unequal_files(tmp_path):
    src, tgt = write_pairs(tmp_path, 5)
    tgt.write_text("moja\nmbili\n")
    cfg = AlignConfig("en-sw", src=str(src), tgt=str(tgt), out=str(tmp_path / "out"))
    with pytest.raises(UserError, match=r"5 lines but .* has 2 lines"):
        run_local("align", cfg)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"src": ""}, "no text to align is named"),
        ({"method": "embedding"}, "checkpoint"),
        ({"pair": "en-qx"}, "qx"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(UserError, match=message):
        AlignConfig(**({"pair": "en-sw", "src": "a", "tgt": "b"} | changes))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sweeps": 3}, r"aligner\.averaged_sweeps=16; valid: 1 to 3"),
        ({"chunk_pairs": 0}, r"aligner\.chunk_pairs=0; valid: a whole number from 1"),
        ({"em_iterations": 0}, r"aligner\.em_iterations=0"),
        ({"null_prior": -1.0}, r"aligner\.null_prior=-1\.0; valid: a probability"),
        ({"lexical_prior": 0.0}, r"aligner\.lexical_prior=0\.0"),
    ],
)
def test_settings_of_the_aligner_are_checked(settings, message):
    with pytest.raises(UserError, match=message):
        AlignerSettings(**settings)
