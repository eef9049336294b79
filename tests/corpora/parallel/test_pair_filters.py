import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.corpora.parallel import chain
from xling.corpora.parallel.filters import PAIR_FILTERS, Context
from xling.corpora.parallel.filters.duplicates import Duplicates
from xling.corpora.parallel.filters.langid import PairLangId
from xling.corpora.parallel.filters.score import Score
from xling.corpora.toyworld import para
from xling.text.document import Ledger
from xling.text.pairs import SCHEMA, frame, near_key

GOOD = ("The old woman sells fresh bread in the village.", "Die alte Frau verkauft frisches Brot im Dorf.")


def reasons_of(pairs, filters, pair="en-de", settings=None, heldout=()):
    made = chain.build(filters, settings or {}, Context.of_pair(pair, heldout))
    table = frame({"src": [p[0] for p in pairs], "tgt": [p[1] for p in pairs]}, "test")
    ledger = Ledger()
    kept, lost = made.run_batch(table, ledger)
    if made.corpus:
        _, reason = made.judge_corpus(made.keys(kept))
        lost = pl.concat(
            [lost, chain.with_reason(kept.select(*SCHEMA), "", reason).filter(reason.is_not_null())]
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
    names = tuple(name for name in chain.DEFAULT if name not in ("langid", "length"))
    assert reasons_of([pair], names) == [None]


def test_ratio_knows_dense_scripts():
    english, chinese = "The old woman sells fresh bread in the village.", "老妇人在村里卖新鲜面包。"
    assert reasons_of([(english, chinese)], ("length", "script", "langid"), "en-zh") == [None]
    assert reasons_of([(english, chinese * 4)], ("length",), "en-zh") == ["ratio"]


def test_the_default_chain_holds_every_filter():
    assert set(chain.DEFAULT) == set(PAIR_FILTERS)


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
    table = frame({"src": [p[0] for p in pairs], "tgt": [p[1] for p in pairs]}, "t")
    item = Duplicates()
    stays = item.judge(item.keys(table, context), context).is_null()
    assert stays[0]
    kept = table.filter(stays)
    assert item.judge(item.keys(kept, context), context).null_count() == kept.height
    keys = [near_key("src"), near_key("tgt")]
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
    pairs = list(para("en", "de", 9000, 1))
    foreign = [(src, tgt) for src, tgt in para("en", "fr", 300, 2)]
    mixed = [pair for i in range(300) for pair in (*pairs[30 * i : 30 * i + 30], foreign[i])]
    table = frame({"src": [p[0] for p in mixed], "tgt": [p[1] for p in mixed]}, "t")
    context = Context.of_pair("en-de")
    slow, fast = (PairLangId(trust=trust).judge(table, context) for trust in (False, True))
    agree = (slow.fill_null("") == fast.fill_null("")).mean()
    assert slow.is_not_null().sum() > 250
    assert agree > 0.97


def test_everything_that_enters_is_kept_or_counted():
    made = chain.build(chain.DEFAULT, {}, Context.of_pair("en-de"))
    pairs = [
        *para("en", "de", 200, 1),
        *((e.src, e.tgt) for cls in PAIR_FILTERS.values() for e in cls.examples),
    ]
    table = frame({"src": [p[0] for p in pairs], "tgt": [p[1] for p in pairs]}, "t")
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
