"""The page of an audit in Chromium: by keys, kept in the browser, saved, in the dark, from right to left, at 390 px."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from browser import Browser

from xling.corpora.audit import results
from xling.corpora.audit.estimates import estimate
from xling.corpora.audit.sample import DROPPED, KEPT, Sample, Stratum
from xling.corpora.audit.stage import write_page

ARABIC = "تقع المدينة القديمة على ضفاف النهر الكبير. يذهب الأطفال إلى المدرسة كل صباح مع أصدقائهم."
LABEL = "document.querySelector('[data-label=\"{}\"]').getAttribute('aria-pressed')"
PLACE, SAID = "document.querySelector('#place').textContent", "document.querySelector('#said').textContent"


def sample() -> Sample:
    strata = [
        Stratum("kept a", KEPT, "ar", 900, source="text:a"),
        Stratum("kept b", KEPT, "ar", 100, source="text:b"),
        Stratum(
            "dropped langid/other_language", DROPPED, "ar", 50, "langid", "other_language", "<b>another</b>"
        ),
        Stratum("kept sw", KEPT, "sw", 70),
    ]
    bodies = [ARABIC * 3, "<script>alert(1)</script></script>", "x" * 900, "Habari\nza leo"]
    texts = [
        {"id": f"t/{round_}/{i}", "stratum": s.name, "texts": [bodies[i]], "url": "http://a.example/1"}
        for round_ in range(3)
        for i, s in enumerate(strata)
    ]
    return Sample("0123456789abcdef", strata, texts)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "audit.html"
    path.write_text(write_page(sample(), "Arabic (ar)", "xling", 0.1), encoding="utf-8")
    return path


@pytest.mark.browser
def test_a_reader_needs_only_keys_and_what_is_saved_is_counted_as_on_the_page(
    page: Path, tmp_path: Path
) -> None:
    with Browser(tmp_path / "profile") as window:
        window.open(page, 1280)
        for key in "14":
            window.press(key)
        assert (
            window.value(LABEL.format("language/right"))
            == window.value(LABEL.format("text/running"))
            == "true"
        )
        assert window.value("document.querySelector('.derived').dataset.label") == "verdict/keep"
        window.press("Enter")
        assert window.value(PLACE).startswith("text 2 of 12, 1 answered")
        for key in ("2", "Enter"):  # another language needs no more
            window.press(key)
        for key in ("1", "5", "6", "8", "Enter", "1", "4"):
            window.press(key)
        window.press("ArrowLeft")
        assert window.value(LABEL.format("verdict/keep")) == "true"
        assert window.value("document.querySelector('#about').hidden")
        window.press("i")
        assert "dropped by langid" in window.value("document.querySelector('#about').textContent")
        shown = window.value("[...document.querySelectorAll('#known tbody tr')].map(r => r.dataset.estimate)")

        window.open(page, 1280)  # what was answered is still there
        assert window.value(PLACE).startswith("text 5 of 12, 4 answered")
        window.press("s")
        assert "Write your name" in window.value(SAID)
        window.type("Ann O")
        window.press("Enter")
        saved = window.downloaded(tmp_path, lambda: window.press("s"))
        assert window.complaints == [] and all(url.startswith(("file:", "blob:")) for url in window.requests)
    assert saved.name == "answers-01234567-Ann_O.json"
    facts = sample().to_json()
    reader = results.read_answers(saved, facts)
    assert (reader.name, len(reader.answers)) == ("Ann O", 4)
    found = results.results(facts, [reader])
    for (_, value), text in zip(found.shares, shown, strict=True):
        assert value and json.loads(text) == pytest.approx(vars(value), abs=1e-12)
    shares = {(goal.text, goal.measure): value for goal, value in found.shares}
    assert shares["dropped by langid: ar", results.WRONGLY].share == 1  # type: ignore[union-attr]
    assert shares["kept: ar", results.RIGHT].share == pytest.approx(0.9)  # type: ignore[union-attr]
    assert estimate([]) is None


@pytest.mark.browser
def test_keys_that_are_for_the_browser_or_for_a_field_are_left_alone(page: Path, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as window:
        window.open(page, 1280)
        for held in (1, 2, 4):
            window.press("1", held)
        assert window.value(LABEL.format("language/right")) == "false"
        window.value("document.querySelector('#reader').focus()")
        window.press("1")
        assert window.value(LABEL.format("language/right")) == "false"
        window.value("document.querySelector('#item').focus()")
        for key in "11":
            window.press(key)
        assert window.value(LABEL.format("language/right")) == "false", "the second press takes it back"
        window.press("ArrowLeft")
        assert "first text" in window.value(SAID)
        for key in "14u":
            window.press(key)
        assert window.value(LABEL.format("text/running")) == "false"
        # One after the other: the language is chosen with the keyboard alone, too.
        window.press_until("document.activeElement.id === 'lang'")
        for key in ("ArrowDown", "ArrowDown"):
            window.press(key)
        assert window.value(PLACE).startswith("text 1 of 3")
        assert window.value("document.querySelector('#texts').textContent") == "Habari\nza leo"


@pytest.mark.browser
def test_texts_stand_in_their_direction_and_nothing_is_wider_than_the_screen(
    page: Path, tmp_path: Path
) -> None:
    with Browser(tmp_path / "profile") as window:
        for width, scheme in product((390, 1280), ("light", "dark")):
            window.scheme(scheme)
            window.open(page, width)
            assert (
                window.value("getComputedStyle(document.querySelector('#texts blockquote')).direction")
                == "rtl"
            )
            assert window.value("document.querySelector('#texts blockquote').lang") == "ar"
            for _ in range(4):
                assert window.value("document.documentElement.scrollWidth <= window.innerWidth"), width
                window.press("ArrowRight")
            assert window.wide_without_a_hint() == []
        assert window.complaints == []


@pytest.mark.browser
@pytest.mark.axe
def test_no_rule_of_wcag_aa_is_broken(page: Path, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as window:
        for width, scheme in product((390, 1280), ("light", "dark")):
            window.scheme(scheme)
            window.open(page, width)
            for key in "14i":
                window.press(key)
            assert window.broken_rules() == {}, (width, scheme)
