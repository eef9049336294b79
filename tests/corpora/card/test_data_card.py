"""The data card: compared whole, self-contained, and true to its numbers."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from xling.corpora.card import data_card, publication
from xling.corpora.card.counters import Counters, log_bin
from xling.pages import charts

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def stats() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / "stats.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", [data_card.MARKDOWN_FILE, data_card.HTML_FILE])
def test_golden_card(tmp_path: Path, stats: dict[str, Any], name: str) -> None:
    data_card.write(tmp_path, stats)
    assert (tmp_path / name).read_text(encoding="utf-8") == (GOLDEN / name).read_text(encoding="utf-8")


def test_the_page_loads_nothing_from_elsewhere(tmp_path: Path, stats: dict[str, Any]) -> None:
    data_card.write(tmp_path, stats)
    page = (tmp_path / data_card.HTML_FILE).read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href)\s*=|@import|url\((?!#)""", page)


def test_markup_in_texts_is_shown_not_run(tmp_path: Path, stats: dict[str, Any]) -> None:
    stats["counters"]["samples"] = [[1, "a<b>", "<script>alert(1)</script> & *x* | y"]]
    stats["ledger"]["samples"]["langid\tother_language"] = [["i", "</blockquote><img src=x>"]]
    data_card.write(tmp_path, stats)
    page = (tmp_path / data_card.HTML_FILE).read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; *x* | y" in page
    assert "\\<script\\>alert(1)\\</script\\> & \\*x\\* \\| y" in (
        tmp_path / data_card.MARKDOWN_FILE
    ).read_text(encoding="utf-8")


def test_the_funnel_ends_at_the_corpus(stats: dict[str, Any]) -> None:
    facts = data_card.CardData(stats)
    steps = facts.steps()
    assert [step.name for step in steps][:2] == ["read", "repair"]
    assert steps[0].num_entered == stats["ledger"]["seen_chars"]["read"]
    assert steps[-1].num_left == stats["ledger"]["seen_chars"]["corpus"]
    assert all(before.num_left == after.num_entered for before, after in itertools.pairwise(steps))


def test_every_reason_is_listed_with_samples(stats: dict[str, Any]) -> None:
    facts = data_card.CardData(stats)
    assert {f"{loss.stage}\t{loss.reason}" for loss in facts.losses} == set(stats["ledger"]["dropped"])
    assert all(loss.samples for loss in facts.losses)
    assert all(loss.meaning for loss in facts.losses)


def test_rare_languages_are_gathered(stats: dict[str, Any]) -> None:
    stats["counters"]["confusion"] = {f"l{i}\tm{i}": i + 1 for i in range(20)}
    rows, columns, counts = data_card.CardData(stats).confusion()
    assert len(rows) == len(columns) == 12
    assert rows[-1] == columns[-1] == "other"
    assert sum(counts.values()) == sum(range(1, 21))


def test_bins_are_tenths_of_a_decade() -> None:
    assert [log_bin(v) for v in (1, 1.2, 1.3, 9.99, 10, 1000, 0)] == [0, 0, 1, 9, 10, 30, -1]


def test_a_histogram_shows_every_document_once() -> None:
    svg = charts.histogram({10: 3, 11: 5}, {9: 2}, "characters", {"head": 12.0, "tail": 900.0})
    shown = [int(n) for n in re.findall(r": (\d+) documents", svg)]
    assert sorted(shown) == [2, 3, 5]
    assert svg.count('class="mark"') == 2
    assert charts.histogram({}, {}, "characters") == ""
    ticks = re.findall(r'class="quiet">([^<]+)<', charts.histogram({10: 3, 25: 1}, {}, "characters"))
    assert ticks == [
        charts.short_number(10),
        charts.short_number(100),
        charts.short_number(1000),
        "characters",
    ]


def test_a_number_stands_on_the_line_of_its_row_and_a_lost_text_is_marked() -> None:
    svg = charts.matrix(("en", "sw"), ("a",), {("sw", "a"): charts.MatrixCell("7", 0.2, "seven")}, "x")
    height = {text: y for y, text in re.findall(r'y="([^"]+)"[^>]*>([^<]+)</text>', svg)}
    assert height["7"] == height["sw"] != height["en"]
    assert data_card._quote("n", "t", is_dropped=True).startswith('<blockquote class="lost" ')
    assert "lost" not in data_card._quote("n", "t")


def test_a_matrix_of_shades_has_room_for_every_row_and_column() -> None:
    cells = {
        ("en", "sw"): charts.MatrixCell("1", 0.5, "one"),
        ("sw", "en"): charts.MatrixCell("2", 1.0, "two"),
    }
    svg = charts.shade_matrix(("en", "sw", "th"), ("en", "sw"), cells, "pairs")
    width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', svg)[0])
    # Squares of 15 behind names of two letters, and a margin of 6.
    assert (width, height) == pytest.approx((24 + 15 + 2 * 15 + 6, 16 + 15 + 3 * 15 + 6), abs=1)
    assert svg.count("h14v14h-14z") == len(cells) and svg.count("<path") == 2


def test_counters_add_up_in_any_grouping(stats: dict[str, Any]) -> None:
    one, two, three = (Counters.of_stats(stats) for _ in range(3))
    one.merge(two, 5)
    one.merge(three, 5)
    total = sum(Counters.of_stats(stats).histograms["length kept"].values())
    assert sum(one.histograms["length kept"].values()) == 3 * total
    assert len(one.samples) == 5
    assert Counters.from_json(one.to_json()) == one
    older = {"tally": stats["counters"]}
    assert Counters.of_stats(older) == Counters.of_stats(stats), "the name until 0.2"


def test_the_card_says_what_another_limit_would_keep(tmp_path: Path, stats: dict[str, Any]) -> None:
    stats["limits"] = {"min_ended": 0.25, "max_short": 0.35, "min_words": 50}
    stats["counters"]["statistics"] = {
        "ended": {"10": 2, "25": 3, "90": 15},
        "short": {"0": 16, "40": 3, "100": 1},
    }
    assert [[row[0], *row[2:]] for row in data_card.CardData(stats).limit_rows()] == [
        ["min_ended", "0.25", "90.0 %", "0.1", "0.1", "0.25", "0.9"],
        ["max_short", "0.35", "80.0 %", "1", "0.4", "0.4", "0"],
    ]
    stats["limits"] = {
        "min_ended": 0.25,
        "min_mean_word": 2.5,
    }  # a mean word of one document, the others are Chinese
    stats["counters"]["statistics"] = {"ended": {"10": 2, "90": 18}, "mean_word": {"165": 1}}
    assert [[row[0], *row[2:]] for row in data_card.CardData(stats).limit_rows()] == [
        ["min_mean_word", "2.5", "95.0 %", "1.65", "any", "any", "any"],
        ["min_ended", "0.25", "90.0 %", "0.1", "0.1", "0.9", "0.9"],
    ]
    data_card.write(tmp_path, stats)
    assert "What another limit would keep" in (tmp_path / data_card.HTML_FILE).read_text(encoding="utf-8")
    assert "| min_mean_word" in (tmp_path / data_card.MARKDOWN_FILE).read_text(encoding="utf-8").replace(
        "\\_", "_"
    )


def test_long_names_break_after_underscores_and_the_last_mark_is_inside_the_picture() -> None:
    shown = data_card.as_html(
        data_card.table(["limit", "now"], [["max_repeated_line_chars", "1"]], numbers=(1,))
    )
    assert "max_<wbr>repeated_<wbr>line_<wbr>chars" in shown
    drawn = charts.histogram({30: 2}, {}, "characters")
    assert f'<text x="{charts.CHART_WIDTH}.0"' in drawn
    assert re.findall(r'text-anchor="(\w+)" class="quiet">10k<', drawn) == ["end"]
    assert re.findall(r'x="0.0" y="[\d.]+" text-anchor="(\w+)" class="quiet">1k<', drawn) == ["start"]


def test_a_source_captured_on_one_day_shows_one_date(stats: dict[str, Any]) -> None:
    for first, last, shown in (
        ("2024-05-01", "2024-05-01", "2024-05-01"),
        ("2024-05-01", "2024-05-03", "2024-05-01 to 2024-05-03"),
        ("", "", "not stated"),
    ):
        uri = stats["sources"][0]["uri"]
        stats["counters"]["sources"][uri] |= {"first_date": first, "last_date": last}
        assert data_card.CardData(stats).source_rows()[0][1] == shown


def test_another_spelling_of_the_same_text_is_no_loss(tmp_path: Path, stats: dict[str, Any]) -> None:
    facts = data_card.CardData(stats)
    decomposed = json.loads(json.dumps(stats))
    for stage in ("read", "repair"):  # letters and marks apart, which repair joins
        decomposed["ledger"]["seen_chars"][stage] += 9000
    other = data_card.CardData(decomposed)
    assert other.steps() == facts.steps()
    assert other.summary_tiles() == facts.summary_tiles()
    assert other.summary() == facts.summary()
    assert publication.summary(tmp_path, decomposed, "yo", ["characters"], [], "", {}) == publication.summary(
        tmp_path, stats, "yo", ["characters"], [], "", {}
    )


def test_without_losses_no_chapter_is_empty(tmp_path: Path, stats: dict[str, Any]) -> None:
    stats["ledger"] |= {"dropped": {}, "dropped_chars": {}, "samples": {}}
    data_card.write(tmp_path, stats)
    for name in (data_card.MARKDOWN_FILE, data_card.HTML_FILE):
        assert "samples of every reason" not in (tmp_path / name).read_text(encoding="utf-8")
