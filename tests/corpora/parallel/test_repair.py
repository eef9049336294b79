"""Damage is repaired before it is filtered, counted, and shown in the card."""

import json

import polars as pl
import pytest

from xling.core.commands.runner import run_local
from xling.corpora.parallel import chain
from xling.corpora.parallel.filters import Context
from xling.corpora.parallel.settings import ParallelConfig
from xling.corpora.toyworld import para
from xling.text.document import Ledger
from xling.text.pairs import make_batch

DAMAGED = {
    "entities": lambda text: text.replace(" ", "&nbsp;"),
    "mojibake": lambda text: text.replace("e", "é").encode().decode("cp1252"),
    "invisible": lambda text: "\u200b".join(text),
    "quotes": lambda text: f'"{text}"',
}


def repaired(pair, src, tgt, **settings):
    ledger = Ledger()
    table = make_batch({"src": list(src), "tgt": list(tgt)}, "t")
    kept, lost = chain.build(("repair",), {"repair": settings}, Context.of_pair(pair)).run_batch(
        table, ledger
    )
    assert not lost.height
    return kept.select("src", "tgt").rows(), ledger


@pytest.mark.parametrize("kind", DAMAGED)
def test_each_kind_is_repaired_counted_and_shown(kind):
    right = "Die alte Frau verkauft frisches Brot."
    expected = right.replace("e", "é") if kind == "mojibake" else right
    rows, ledger = repaired("en-de", ["The old woman sells fresh bread."], [DAMAGED[kind](right)])
    assert rows == [("The old woman sells fresh bread.", expected)]
    assert ledger.notes == {f"repaired_{kind}": 1}
    before, after = ledger.samples["repaired", kind][0][1].split("\n")
    assert (before, after) == (DAMAGED[kind](right)[:80], expected[:80])
    rows, ledger = repaired("en-de", ["The old woman."], [DAMAGED[kind](right)], **{kind: False})
    assert rows[0][1] == DAMAGED[kind](right)
    assert not ledger.notes


def test_a_side_in_another_code_page_is_put_right():
    right = ["Człowiek ten zgubiłby nas wszystkich.", "Został dłużej w dolinie, więc żałował.", "Jeden dom."]
    damaged = [text.encode("cp1250").decode("cp1252") for text in right]
    rows, ledger = repaired("en-pl", ["a b c"] * 3, damaged)
    assert [tgt for _, tgt in rows] == right
    assert ledger.notes == {"repaired_mojibake": 2}
    assert [tgt for _, tgt in repaired("en-pl", ["a b c"] * 3, damaged, mojibake=False)[0]] == damaged


def test_sides_in_each_others_script_change_places():
    src, tgt = ["This is a house.", "Это дом."], ["Это дом.", "This is a house of Иван."]
    rows, ledger = repaired("en-ru", src, tgt)
    assert rows == [("This is a house.", "Это дом."), ("This is a house of Иван.", "Это дом.")]
    assert ledger.notes == {"repaired_swapped": 1}
    assert repaired("en-ru", src, tgt, swapped=False)[0] == list(zip(src, tgt, strict=True))
    for pair in ("en-de", "uz-ru", "ru-uk"):  # of one script, or of two that are both their own
        assert not repaired(pair, src, tgt)[1].notes


def test_a_joiner_of_a_swapped_side_stays():
    rows, ledger = repaired("en-fa", ["می\u200cآیم."], ["I will come."])
    assert rows == [("I will come.", "می\u200cآیم.")]
    assert ledger.notes == {"repaired_swapped": 1}


def test_sides_in_each_others_language_change_places():
    pairs = list(dict.fromkeys(para("en", "de", 700, 1)))[:400]
    turned = [pair[::-1] if row % 20 == 0 else pair for row, pair in enumerate(pairs)]
    table = make_batch({"src": [a for a, _ in turned], "tgt": [b for _, b in turned]}, "t")
    for swap in (True, False):
        ledger = Ledger()
        made = chain.build(("langid",), {"langid": {"swap": swap}}, Context.of_pair("en-de"))
        kept, lost = made.run_batch(table, ledger)
        right = set(kept.select("src", "tgt").rows()) & {pairs[row] for row in range(0, len(pairs), 20)}
        if swap:
            assert len(right) >= 17
            assert ledger.notes["repaired_swapped"] == len(right)
            assert kept.schema["langid"] == pl.Float32
        else:
            assert not right
            assert (lost["reason"] == "swapped").sum() >= 12


def test_the_card_shows_what_was_repaired(tmp_path):
    pairs = list(dict.fromkeys(para("en", "de", 400, 1)))
    for side, lang in ((0, "en"), (1, "de")):
        lines = [p[side].replace(" ", "&nbsp;", 1) if n % 10 == 0 else p[side] for n, p in enumerate(pairs)]
        (tmp_path / f"text.{lang}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    cfg = ParallelConfig("en-de", (f"moses:{tmp_path / 'text'}",), str(tmp_path / "out"), audit=False)
    run_local("corpus parallel", cfg)
    [(kind, count, before, after)] = json.loads((cfg.directory / "stats.json").read_text())["repairs"]
    assert (kind, int(count)) == ("entities", 2 * len(range(0, len(pairs), 10)))
    assert "&nbsp;" in before
    assert before.replace("&nbsp;", " ") == after
    for name in ("card.md", "card.html"):
        assert "What was repaired" in (cfg.directory / name).read_text()
    assert not any("&nbsp;" in line for line in (cfg.directory / "train.de").read_text().splitlines())
