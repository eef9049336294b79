"""The lexicon and the classifiers that a corpus gives itself: damage ranks below clean pairs, files are read back."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.corpora.parallel.clean import judge, lexical, near_duplicates, pair_classifier, synthetic_noise
from xling.corpora.parallel.clean.judge import Judge
from xling.corpora.parallel.clean.synthetic_noise import CleanPairs
from xling.corpora.parallel.filters import Context
from xling.corpora.parallel.filters.align import Align
from xling.corpora.toyworld import para

CONTEXT = Context.of_pair("en-de")
KINDS = tuple(kind for classes in judge.GROUPS.values() for kinds in classes for kind in kinds)


def table(pairs):
    return pl.DataFrame(list(pairs), {"src": pl.String, "tgt": pl.String}, orient="row")


def add_noise(clean, share, random, names):
    """The pairs with a share of them damaged, all kinds alike, as (kind or "", source, target); copies come last."""
    rows = [("", *pair) for pair in clean.pairs]
    copies = []
    order = random.permutation(len(rows))[: round(share * len(rows))].tolist()
    for turn, row in enumerate(order):
        name = names[turn % len(names)]
        if damaged := synthetic_noise.KINDS[name](row, clean, random):
            if name in synthetic_noise.COPY_KINDS:
                copies.append((name, *damaged))
            else:
                rows[row] = (name, *damaged)
    return [*rows, *copies]


@pytest.fixture(scope="module")
def noisy():
    pairs = list(dict.fromkeys(para("en", "de", 1500, 1)))
    rows = add_noise(CleanPairs(pairs, ()), 0.2, rng(1, "test"), KINDS)
    return np.array([row[0] for row in rows]), table(row[1:] for row in rows)


@pytest.fixture(scope="module")
def trained(noisy):
    return judge.train(noisy[1])


def area(clean, damaged):
    """Probability that a clean pair has lower odds than a damaged one."""
    return (clean[:, None] < damaged[None]).mean()


def test_planted_damage_ranks_behind_clean_pairs(noisy, trained):
    kinds, pairs = noisy
    odds = trained.odds(pairs)
    for place, own in enumerate(judge.GROUPS.values()):
        for kind in (kind for kinds in own for kind in kinds):
            assert area(odds[kinds == "", place], odds[kinds == kind, place]) >= 0.95, kind


def test_the_filter_drops_damage_and_keeps_clean_pairs(noisy):
    kinds, pairs = noisy
    gone = Align().judge(pairs, CONTEXT).is_not_null().to_numpy()
    assert gone[kinds == ""].mean() <= 0.01
    assert gone[kinds != ""].mean() >= 0.35


def test_marks_alone_do_not_make_a_pair_partial(noisy, trained):
    """A translator who made one sentence of two was taken for one who left one out."""
    kinds, pairs = noisy
    clean = [pair for pair in pairs.filter(kinds == "").rows() if len(pair[0].split()) > 7][:200]
    joined = [
        (f"{src[: len(src) // 2]}. {src[len(src) // 2 :].strip().capitalize()}", tgt) for src, tgt in clean
    ]
    partial = list(judge.GROUPS).index("partial")
    without = replace(
        trained, by_words=tuple(replace(each, weights=0 * each.weights + 99) for each in trained.by_words)
    )
    limit = Align().partial
    assert (without.odds(table(joined))[:, partial] > limit).mean() > 2 * (
        trained.odds(table(joined))[:, partial] > limit
    ).mean()


def test_a_judge_is_read_back_and_gives_the_same_odds(noisy, trained, tmp_path):
    trained.save(tmp_path / "judge.npz")
    again = Judge.load(tmp_path / "judge.npz")
    np.testing.assert_allclose(again.odds(noisy[1]), trained.odds(noisy[1]), rtol=1e-5, atol=1e-5)
    frozen = Align(tables=tmp_path / "judge.npz").judge(noisy[1], CONTEXT)
    assert frozen.equals(Align().judge(noisy[1], CONTEXT))


def test_the_verdict_on_a_pair_does_not_depend_on_its_neighbours(noisy, trained):
    whole = trained.odds(noisy[1])
    parts = [trained.odds(noisy[1][first : first + 97]) for first in range(0, len(whole), 97)]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-6, atol=1e-6)


def test_few_pairs_are_not_judged(noisy):
    assert judge.train(noisy[1].head(judge.MIN_PAIRS - 1)) is None
    assert Align().judge(noisy[1].head(10), CONTEXT).null_count() == 10


@pytest.mark.parametrize("content", [b"", b"no", b"PK\x03\x04 cut"])
def test_a_file_that_was_cut_off_is_no_judge(tmp_path, content):
    (tmp_path / "judge.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"judge\.npz holds no tables of word pairs"):
        Judge.load(tmp_path / "judge.npz")


def test_wrong_settings_and_files(tmp_path):
    with pytest.raises(UserError, match=r"partial=nan"):
        Align(partial=float("nan"))
    (tmp_path / "text").write_text("no arrays")
    for name in ("text", "missing"):
        with pytest.raises(UserError, match="no table"):
            Align(tables=tmp_path / name)


def test_texts_without_words_are_measured(trained):
    odds = trained.odds(table([("", "Haus"), ("House", "..."), ("", "")]))
    assert np.isfinite(odds).all()


def test_tokens_are_the_beginnings_of_words_and_single_characters_of_unspaced_scripts():
    for one, other in (("Translations", "translated"), ("a b", "A, b!"), ("安格 abc", "安 格 abc")):
        found = lexical.tokens(pl.Series([one, other]))
        assert found.ids[: found.starts[1]].tolist() == found.ids[found.starts[1] :].tolist()
    assert lexical.tokens(pl.Series(["", "x y"])).lengths.tolist() == [0, 2]


def test_keys_of_one_slot_are_all_found():
    """Of two keys in one slot one was lost: one word in ten of a small corpus was taken for unseen."""
    keys = np.random.default_rng(1).integers(1, 1 << 63, 20_000).astype(np.uint64)
    counts = lexical.Counts(keys[:10_000], np.arange(1.0, 10_001.0)[:, None])
    assert counts.lookup(keys)[:, 0].tolist() == [*range(1, 10_001), *[0] * 10_000]


WORDS = st.lists(st.sampled_from(["ein", "Haus", "alt", "im", "im", "Wald", "茶"]), min_size=1, max_size=8)


@given(WORDS, st.integers(0, 8), st.sampled_from(["neu", "im", "茶"]), WORDS)
def test_one_word_more_is_found_in_any_place_and_nothing_else(words, place, extra, other):
    longer = [*words[:place], extra, *words[place:]]
    texts = pl.Series([" ".join(each) for each in (words, longer, other)])
    found = near_duplicates.text_sums(near_duplicates.whole_words(texts))
    for a, b in ((0, 1), (1, 0)):
        assert near_duplicates.differ_in_one_word(found[:, [a]], found[:, [b]])[0]
    low = [sorted(w.lower() for w in each) for each in (words, other)]
    apart = abs(len(low[0]) - len(low[1])) == 1 and any(
        sorted(longest[:i] + longest[i + 1 :]) == min(low, key=len)
        for longest in [max(low, key=len)]
        for i in range(len(longest))
    )
    assert near_duplicates.differ_in_one_word(found[:, [0]], found[:, [2]])[0] == apart


def test_the_spread_of_a_trait_is_that_of_its_inner_nine_tenths():
    draw = np.random.default_rng(1)
    whole, planted = draw.normal((0, 5), (1, 4), (4000, 2)), draw.normal((3, 20), (1, 4), (400, 2))
    fitted = pair_classifier._fit(whole, planted)
    np.testing.assert_allclose(fitted.middle, (0, 5), atol=0.3)
    np.testing.assert_allclose(fitted.spread, (1, 4), rtol=0.06)


def test_odds_are_the_weighted_terms() -> None:
    random = np.random.default_rng(1)
    traits = random.normal(0, 3, (50, 4))
    classifier = pair_classifier.Classifier(
        random.normal(size=4), random.uniform(0.5, 2, 4), random.normal(size=12)
    )
    terms = pair_classifier._add_squares((traits - classifier.middle) / classifier.spread)
    np.testing.assert_allclose(classifier.odds(traits), terms @ classifier.weights)
