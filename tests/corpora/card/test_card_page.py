"""The data card in a browser: on a telephone nothing is out of sight, by day and night no rule of WCAG AA is broken."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from browser import Browser

from xling.corpora.card import data_card

GOLDEN = Path(__file__).parent / "golden"
WIDTHS, SCHEMES = (390, 768, 1280), ("light", "dark")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    data_card.write(tmp_path, json.loads((GOLDEN / "stats.json").read_text(encoding="utf-8")))
    return tmp_path / data_card.HTML_FILE


@pytest.mark.browser
def test_shares_and_kept_are_in_sight_at_every_width(page: Path, tmp_path: Path) -> None:
    right_edge = "e => e.getBoundingClientRect().right"
    with Browser(tmp_path / "profile") as window:
        for width, scheme in product(WIDTHS, SCHEMES):
            window.scheme(scheme)
            window.open(page, width)
            assert window.value("document.documentElement.scrollWidth <= window.innerWidth")
            assert window.wide_without_a_hint() == []
            numbers = "[...document.querySelectorAll('.bars .number, .bars .quiet')]"
            assert window.value(f"Math.max(...{numbers}.map({right_edge})) <= window.innerWidth")
            kept = "[...document.querySelectorAll('td')].filter(e => e.dataset.label === 'kept')"
            assert window.value(f"{kept}.length > 0 && {kept}.every(e => e.offsetWidth > 0)")
            assert window.value(f"Math.max(...{kept}.map({right_edge})) <= window.innerWidth")
        assert window.complaints == []


@pytest.mark.browser
@pytest.mark.axe
def test_no_rule_of_wcag_aa_is_broken(page: Path, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as window:
        for width, scheme in product(WIDTHS, SCHEMES):
            window.scheme(scheme)
            window.open(page, width)
            assert window.broken_rules() == {}, (width, scheme)
