"""The cleaner of lines: exact whatever it is called with, trained by its benchmark, asked by `why`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import lines
from benchmarks.lines import Page, score
from tests.corpora.crawl import SENTENCES, sentences
from tests.corpora.examples import record_of
from tests.corpora.stages.stage_examples import FOOTER, MENU, TEXT
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.corpora.builtin import boilerplate
from xling.corpora.inspect import why
from xling.corpora.langid import ngrams
from xling.corpora.mono import MonoConfig
from xling.corpora.stages.lines import Lines
from xling.text.document import TITLED, Document, Ledger

LINE = st.text(
    st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=40
) | st.sampled_from(
    [*MENU.split("\n"), *TEXT.split("\n"), "你好，世界。", "เด็ก ๆ ไปโรงเรียน", "12.3.2024", "»", "𠀀𠀁"]
)
PAGES = st.lists(st.lists(LINE, min_size=1, max_size=12).map("\n".join), min_size=1, max_size=5)
EVERY: dict[str, Any] = {"sources": ("",), "min_chars": 1}


@settings(max_examples=60, deadline=None)
@given(pages=PAGES)
def test_a_page_is_judged_alike_alone_and_among_others(pages: list[str]) -> None:
    model = boilerplate.load(Path(boilerplate.__file__).with_suffix(".npz"))
    together = model.scores(pages)
    assert len(together) == sum(page.count("\n") + 1 for page in pages)
    apart = np.concatenate([model.scores([page]) for page in pages])
    assert together.tolist() == apart.tolist()  # to the last bit
    seen = boilerplate.features(pages)
    assert np.isfinite(seen).all()
    assert (seen * 256 == np.rint(seen * 256)).all() and np.abs(seen).max() <= 16


@pytest.mark.parametrize("lang", sorted(SENTENCES))
def test_menus_go_and_text_stays_in_every_script(lang: str) -> None:
    joint = "" if lang in ("zh", "th") else " "
    known = sentences(lang)
    body = [joint.join(known[i : i + 3]) for i in range(0, len(known) - 2, 2)]
    words = [word for sentence in known for word in (sentence[:5].strip(),)]
    text = "\n".join(["Title", *words[:8], *body, *words[8:12]])
    (doc,) = Lines(**EVERY)([Document("0", text)], Ledger())
    kept = doc.text.split("\n")[1:]
    assert sum(line in kept for line in body) >= 0.8 * len(body)
    assert sum(line in kept for line in words[:12]) <= 3


def test_only_the_named_sources_are_judged() -> None:
    text = f"The old bridge\n{MENU}\n{TEXT}\n{FOOTER}"
    uris = ("wiki:a", "wet:b", "text:c", "cc:d")
    docs = [Document(str(i), text, source=uri, form=TITLED) for i, uri in enumerate(uris)]
    ledger = Ledger()
    kept = {doc.source: doc.text for doc in Lines()(docs, ledger)}
    assert kept["wiki:a"] == kept["text:c"] == text
    assert kept["wet:b"] == kept["cc:d"] == f"The old bridge\n{TEXT}"
    assert ledger.dropped == {("lines", "boilerplate"): 2}


def test_mistakes_are_told() -> None:
    with pytest.raises(UserError, match=r"threshold=1.5.*between 0 and 1"):
        Lines(threshold=1.5)


@pytest.mark.parametrize("content", [b"", b"no", b"PK\x03\x04 cut"])
def test_another_file_is_no_model(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    for loaded in (boilerplate.load, ngrams.load):
        with pytest.raises(UserError, match=r"a\.npz is not a"):
            loaded(tmp_path / "a.npz")


def test_labels_follow_the_order_of_the_page() -> None:
    page = "Home\nNews\nThe bridge is old and long.\nHome is where the river is.\nNews"
    main = "The bridge is old\nand long. Home is where the river is."
    assert lines.labels(page, main).tolist() == [False, False, True, True, False]
    assert lines.labels(page, "").tolist() == [False] * 5
    assert lines.labels("!!!\n你好世界\n菜单", "你好世界").tolist() == [False, True, False]


def test_scores_count_letters() -> None:
    page = Page("a", "abcd\nefgh\nij", np.array([1.0, 0.0, np.nan]))
    values = score([np.array([True, True, True])], [page])
    assert values["precision"] == 0.5 == values["precision without cleaning"]
    assert values["recall"] == values["recall of a page"] == 1.0
    assert score([np.array([False, True, True])], [page])["recall"] == 0.0


def test_a_build_explains_what_it_cut(tmp_path: Path) -> None:
    text = f"The old bridge\n{MENU}\n{TEXT}\n{FOOTER}"
    (tmp_path / "a.wet").write_bytes(record_of("conversion", text.encode()))
    settings = {"lines": {"min_chars": 100}}
    cfg = MonoConfig(
        "en", str(tmp_path / "en"), source=(f"wet:{tmp_path}/a.wet",), settings=settings, after_dedup=()
    )
    run_local("corpus mono", cfg)
    said = why.run(why.WhyConfig("Privacy policy", str(tmp_path / "en")))
    assert "lost a part by lines: boilerplate (these lines look like menus" in said
    assert "kept" in why.run(why.WhyConfig("Several members asked", str(tmp_path / "en")))
    stats = json.loads((tmp_path / "en" / "stats.json").read_text(encoding="utf-8"))
    assert stats["ledger"]["notes"]["boilerplate lines"] >= 9


def test_a_network_learns_the_share_of_what_cannot_be_told_apart_and_separates_what_can() -> None:
    draw = np.random.default_rng(3)
    seen = draw.normal(size=(2000, 2))
    wanted = np.where(seen[:, 0] > 0.3, 1.0, (draw.random(2000) < 0.2).astype(float))
    inner, outer = lines._fit(seen, wanted, np.ones(2000), [1], 6, 25)
    hidden = np.maximum(0, np.concatenate([seen, np.ones((2000, 1))], axis=1) @ inner)
    share = 1 / (1 + np.exp(-(hidden @ outer[:-1] + outer[-1])))
    assert share[seen[:, 0] > 0.6].mean() > 0.9
    assert share[seen[:, 0] < 0].mean() == pytest.approx(0.2, abs=0.04)


def test_the_features_of_a_line_by_hand() -> None:
    counted = boilerplate._count_characters(["Hi Bob, 12."])
    own = np.empty((18, 1))
    boilerplate._own_features(own, counted, np.array([7.0]))
    own = own[:, 0]
    # 11 characters, 3 words: both begin with a capital, one ends in a comma, the last in a full stop.
    wanted = [1.5, 2.0, 8 / 11, 8 / 11, 8 / 3, 0.0, 1.0, 1.0, 2.0, 0.0]
    assert own[:10].tolist() == pytest.approx(wanted, abs=1 / 256)
    assert own[14] == pytest.approx(7 / 12, abs=1 / 256) and own[17] == pytest.approx(8 / 3, abs=1 / 256)


def test_the_place_of_a_line_on_its_page_by_hand() -> None:
    counted = boilerplate._count_characters(["a\nb\nc"])
    units, mass = np.array([1.0, 2.0, 1.0]), np.array([2.0, 3.0, 5.0])
    size, is_long = np.array([0.5, 1.0, 1.5]), np.array([0.0, 0.0, 1.0])
    places = np.empty((12, 3))
    boilerplate._position_features(places, counted, units, mass, size, is_long)
    columns = places.T.tolist()
    assert columns[1] == pytest.approx(
        [1.0, 1.0, 2.0, 4 / 3, np.log2(5) / 2, 5.0, np.log2(11) / 2, 0.8, 2.0, 1.0, 4 / 3, 1.0], abs=1 / 512
    )
    wanted = [[0.0, 3.2], [0.8, 2.0], [2.0, 0.0]]
    assert np.abs(places.T[:, 7:9] - wanted).max() <= 1 / 512


@settings(max_examples=60, deadline=None)
@given(pages=PAGES)
def test_neighbours_and_means_are_those_of_each_line_by_itself(pages: list[str]) -> None:
    seen = boilerplate.features(pages)
    first = 0
    for page in pages:
        own = seen[first : first + page.count("\n") + 1]
        first += len(own)
        for line in range(len(own)):
            around = [
                own[line + offset, column] if 0 <= line + offset < len(own) else -1.0
                for offset in boilerplate._OFFSETS
                for column in (0, 8, 4, 2)
            ]
            assert own[line, 18:42].tolist() == around
            means = [
                own[max(0, line - reach) : line + reach + 1, column].mean()
                for reach in boilerplate._WINDOWS
                for column in (0, 8, 4, 5)
            ]
            smooth = own[line, 42:57].reshape(3, 5)[:, [0, 1, 3, 4]].ravel()
            assert np.abs(smooth - means).max() <= 1 / 512
