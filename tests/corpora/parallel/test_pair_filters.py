import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.parallel.filter_examples import examples_of
from xling.core.errors import UserError
from xling.corpora.parallel import chain
from xling.corpora.parallel.clean import score_threshold
from xling.corpora.parallel.filters import PAIR_FILTERS, Context
from xling.corpora.parallel.filters.duplicates import Duplicates
from xling.corpora.parallel.filters.langid import PairLangId
from xling.corpora.parallel.filters.score import Score
from xling.corpora.toyworld import para
from xling.text.document import Ledger
from xling.text.pairs import SCHEMA, make_batch, near_duplicate_key

GOOD = ("The old woman sells fresh bread in the village.", "Die alte Frau verkauft frisches Brot im Dorf.")


def reasons_of(pairs, filters, pair="en-de", settings=None, heldout=()):
    made = chain.build(filters, settings or {}, Context.of_pair(pair, heldout))
    table = make_batch({"src": [p[0] for p in pairs], "tgt": [p[1] for p in pairs]}, "test")
    ledger = Ledger()
    kept, lost = made.run_batch(table, ledger)
    if made.corpus:
        _, reason = made.judge_corpus(made.keys(kept))
        lost = pl.concat(
            [lost, chain.add_reason(kept.select(*SCHEMA), "", reason).filter(reason.is_not_null())]
        )
    found = dict(zip(lost["id"].to_list(), lost["reason"].to_list(), strict=True))
    return [found.get(f"test/{i}") for i in range(len(pairs))]


def test_numbers_are_compared_by_value_in_any_script():
    pairs = [
        ("Built in 1998 for 12,500 people.", "در سال ۱۹۹۸ برای ۱۲٬۵۰۰ نفر ساخته شد."),
        ("Built in 1998.", "1998 में बना."),
        ("Built in 1998.", "१९९८ में बना."),
        ("Built in 1998.", "१९९७ में बना."),
    ]
    assert reasons_of(pairs, ["numbers"], "en-hi") == [None, None, None, "number_mismatch"]


@pytest.mark.parametrize(
    "pair",
    [
        ("I have 3 dogs.", "Ich habe drei Hunde."),
        ("He is twelve.", "Er ist 12."),
        ("It cost 1,500 euros in 1999.", "Es kostete 1.500 Euro im Jahr 1999."),
        ("See https://www.example.org/a", "Siehe http://example.org/a"),
        ("USA", "die USA"),
        ("Row, row, row your boat", "Ruder, ruder, ruder dein Boot"),
        ("I will <3 you", "Ich werde dich <3"),
    ],
)
def test_good_pairs_stay(pair):
    names = tuple(name for name in chain.DEFAULT_FILTERS if name not in ("langid", "length"))
    assert reasons_of([pair], names) == [None]


def test_ratio_knows_dense_scripts():
    english, chinese = "The old woman sells fresh bread in the village.", "老妇人在村里卖新鲜面包。"
    assert reasons_of([(english, chinese)], ("length", "script", "langid"), "en-zh") == [None]
    assert reasons_of([(english, chinese * 4)], ("length",), "en-zh") == ["ratio"]


def test_the_default_chain_holds_every_filter():
    assert set(chain.DEFAULT_FILTERS) == set(PAIR_FILTERS)


def test_duplicates_exact_near_and_by_side():
    pairs = [
        ("A cat.", "Eine Katze."),
        ("A cat.", "Eine Katze."),
        ("A CAT!", "eine Katze 2"),
        ("A cat.", "Kater"),
    ]
    pairs += [("Tom", "Eine Katze.")]
    assert reasons_of(pairs, ("duplicates",)) == [None, "exact_pair", "near_pair", None, None]
    assert reasons_of(pairs, ("duplicates",), settings={"duplicates": {"near": "false"}})[2] is None
    by_src = reasons_of(pairs, ("duplicates",), settings={"duplicates": {"sides": "src"}})
    assert by_src == [None, "exact_pair", "near_pair", "src_again", None]
    either = reasons_of(pairs, ("duplicates",), settings={"duplicates": {"sides": "either"}})
    assert either == [None, "exact_pair", "near_pair", "src_again", "tgt_again"]


@given(st.lists(st.tuples(st.sampled_from("aAbB1 !"), st.sampled_from("xXyY2 ?")), min_size=1, max_size=20))
def test_duplicates_are_idempotent_and_keep_the_first(pairs):
    context = Context.of_pair("en-de")
    table = make_batch({"src": [p[0] for p in pairs], "tgt": [p[1] for p in pairs]}, "t")
    item = Duplicates()
    stays = item.judge(item.keys(table, context), context).is_null()
    assert stays[0]
    kept = table.filter(stays)
    assert item.judge(item.keys(kept, context), context).null_count() == kept.height
    keys = [near_duplicate_key("src"), near_duplicate_key("tgt")]
    assert kept.select(keys).n_unique() == kept.height == table.select(keys).n_unique()


def test_overlap_finds_both_sides_in_any_direction(tmp_path):
    held = tmp_path / "test.txt"
    held.write_text(
        "The OLD woman sells fresh bread, in the village\nEin Satz aus dem Test.\nYes!\n", encoding="utf-8"
    )
    pairs = [GOOD, ("A sentence of the test.", "Ein Satz aus dem Test"), ("Yes!", "Ja!")]
    assert reasons_of(pairs, ("overlap",), heldout=(held,)) == ["heldout_src", "heldout_tgt", None]
    assert reasons_of(pairs, ("overlap",)) == [None] * 3


def test_score_threshold_and_top_k():
    keys = pl.DataFrame({"score": pl.Series([0.1, 0.9, None, 0.5, 0.9], dtype=pl.Float32)})
    context = Context.of_pair("en-de")
    assert Score(threshold=0.3).judge(keys, context).to_list() == ["low_score", None, None, None, None]
    assert Score(top_k=2).judge(keys, context).to_list() == [
        "below_top_k",
        None,
        None,
        "below_top_k",
        "below_top_k",
    ]


def test_trusted_words_change_nothing_but_time():
    pairs = list(para("en", "de", 1000, 1))
    foreign = [(src, tgt) for src, tgt in para("en", "fr", 100, 2)]
    mixed = [pair for i in range(100) for pair in (*pairs[10 * i : 10 * i + 10], foreign[i])]
    table = make_batch({"src": [p[0] for p in mixed], "tgt": [p[1] for p in mixed]}, "t")
    context = Context.of_pair("en-de")
    slow, fast = (PairLangId(trust=trust).judge(table, context) for trust in (False, True))
    agree = (slow.fill_null("") == fast.fill_null("")).mean()
    assert slow.is_not_null().sum() > 80
    assert agree > 0.97


def test_everything_that_enters_is_kept_or_counted():
    made = chain.build(chain.DEFAULT_FILTERS, {}, Context.of_pair("en-de"))
    pairs = [
        *para("en", "de", 200, 1),
        *((e.src, e.tgt) for name in PAIR_FILTERS for e in examples_of(name)),
    ]
    table = make_batch({"src": [p[0] for p in pairs], "tgt": [p[1] for p in pairs]}, "t")
    ledger = Ledger()
    kept, lost = made.run_batch(table, ledger)
    assert kept.height + lost.height == len(pairs) == ledger.seen["empty"]
    assert sum(ledger.dropped.values()) == lost.height
    for (stage, reason), count in ledger.dropped.items():
        assert lost.filter((pl.col("stage") == stage) & (pl.col("reason") == reason)).height == count
        assert ledger.samples[stage, reason]
    assert kept.columns == [*SCHEMA, *made.values]


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        (("lenght",), {}, "did you mean 'length'"),
        (("length",), {"length": {"max_ration": "3"}}, "max_ratio"),
        (("length",), {"noise": {}}, "filter in settings"),
        (("score",), {"score": {"threshold": "nan"}}, "threshold=nan"),
        (("length", "length"), {}, "listed twice"),
        (("duplicates", "length"), {}, "last"),
    ],
)
def test_recipes_are_checked(names, settings, message):
    with pytest.raises(UserError, match=message):
        chain.build(names, settings, Context.of_pair("en-de"))


def test_every_filter_of_a_number_leaves_it_as_a_column():
    assert "langid" in chain.build(chain.DEFAULT_FILTERS, {}, Context.of_pair("en-de")).values
    made = chain.build(tuple(n for n in chain.DEFAULT_FILTERS if n != "langid"), {}, Context.of_pair("en-de"))
    pairs = [
        GOOD,
        ("In 1999 we counted 12 of them.", "Im Jahr 1999 gab es eine Reihe."),
        ("A cat. It is.", "Die Katze ist"),
        ("Row row row", "Ruder Ruder Ruder"),
    ]
    kept, _ = made.run_batch(
        make_batch({"src": [p[0] for p in pairs], "tgt": [p[1] for p in pairs]}, "t"), Ledger()
    )
    assert set(made.values) == {
        "length_ratio", "longest_word", "foreign_letters", "numbers_alone", "letters", "marks_off", "distinct",
        "align",
    }  # fmt: skip
    assert kept["numbers_alone"].to_list() == [0, 1, 0, 0]
    assert kept["marks_off"].to_list()[:3] == [0, 0, 2]
    assert kept["longest_word"].to_list()[3] == 5
    assert kept["letters"][0] > kept["letters"][1] > 0.6
    assert kept["length_ratio"].min() >= 1
    assert kept["foreign_letters"].to_list() == [0, 0, 0, 0]


def test_the_number_of_a_line_is_no_number_of_the_text():
    pairs = [
        ("It rose in 2021.", "3395- Es stieg 2021."),
        ("12) It rose in 2021.", "Es stieg 2021."),
        ("3) In 2021", "4) Im Jahr 2021"),
        ("It was 1 - 0.", "Es stand 2 - 0."),
    ]
    table = make_batch({"src": [p[0] for p in pairs], "tgt": [p[1] for p in pairs]}, "t")
    measured = PAIR_FILTERS["numbers"]().measured(table, Context.of_pair("en-de"))
    assert measured["numbers_alone"].to_list() == [0, 0, 2, 2]


def test_runs_of_thousands_of_digits_are_compared():
    """Python refuses to read a number of more than 4,300 digits, and one of 400 miles is no finite number."""
    nines = "9" * 4301
    pairs = [
        (f"It is {nines} long.", f"Es ist {nines} lang."),
        (f"It is {nines} long.", "Es ist 7 lang."),
        (f"It is {nines}万 long.", "Es ist 7万 lang."),
        (f"It is {nines[:400]} miles long.", "Es ist 7 km lang."),
        ("It is 5 miles long.", f"Es ist {nines} km lang."),
    ]
    assert reasons_of(pairs, ["numbers"]) == [None, *["number_mismatch"] * 4]


@pytest.mark.parametrize("name", [n for n in sorted(PAIR_FILTERS) if PAIR_FILTERS[n].values])
def test_what_was_measured_is_not_measured_again(name):
    """Judging with the columns of a filter or without them says the same."""
    context = Context.of_pair("en-de")
    pairs = [(e.src, e.tgt) for e in examples_of(name) if e.pair == "en-de"] + list(para("en", "de", 30, 1))
    table = make_batch({"src": [p[0] for p in pairs], "tgt": [p[1] for p in pairs]}, "t")
    item = PAIR_FILTERS[name]().fitted(table, context)
    measured = item.measured(table, context)
    assert set(item.values) <= set(measured.columns)
    if name not in ("align", "langid"):
        assert item.judge(table, context).to_list() == item.judge(measured, context).to_list()


def test_an_automatic_threshold_lies_between_two_groups():
    random = np.random.default_rng(1)
    for share in (0.02, 0.2, 0.5):
        bad = random.normal(0.3, 0.08, round(2000 * share))
        good = random.normal(0.75, 0.07, 2000 - len(bad))
        scores = pl.DataFrame({"score": pl.Series(np.concatenate([bad, good]), dtype=pl.Float32)})
        reasons = Score(threshold="auto").judge(scores, Context.of_pair("en-de"))
        assert reasons[: len(bad)].is_not_null().mean() > 0.95
        assert reasons[len(bad) :].is_not_null().mean() < 0.01
    beliefs = np.concatenate([random.beta(1, 20, 100), random.beta(30, 1, 1900)])
    assert 0.2 < score_threshold.find_threshold(beliefs) < 0.95


@pytest.mark.parametrize("scores", [
    np.random.default_rng(2).normal(0.7, 0.1, 3000), np.random.default_rng(2).beta(9, 2, 3000), np.full(500, 0.5),
    np.arange(20.0), np.full(500, np.nan),
])  # fmt: skip
def test_one_group_is_not_cut(scores):
    assert score_threshold.find_threshold(scores) is None


def test_the_score_may_be_another_column():
    table = make_batch({"src": ["a"] * 3, "tgt": ["b"] * 3}, "t").with_columns(
        align=pl.Series([0.1, 0.9, None])
    )
    item = Score(threshold=0.5, column="align")
    context = Context.of_pair("en-de")
    assert item.judge(item.keys(table, context), context).to_list() == ["low_score", None, None]
    with pytest.raises(UserError, match="did you mean 'align'"):
        Score(column="aling").keys(table, context)
