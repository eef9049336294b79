"""The report's page in a browser: keyboard alone, day and night, two widths, and the rules of WCAG AA; its size."""

from __future__ import annotations

import csv
import re
import shutil
import time
import warnings
from itertools import product
from pathlib import Path

import pytest
from browser import Browser
from eval_helpers import Epochs, write_world

from xling.core import languages
from xling.eval.report import browse, comparison, sections, stage
from xling.eval.report.artifacts import open_runs
from xling.eval.report.stage import ReportConfig
from xling.eval.run import evaluation
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import score_file
from xling.eval.scores.score_file import Score
from xling.pages import figure, tabular
from xling.pages.page import html_document

LANGS = ("en", "de", "sw")
SYSTEMS = {"one": [12, 3, 3], "two": [12, 12, 12], "three": [12, 3, 4]}
WIDTHS, SCHEMES = (390, 768, 1280), ("light", "dark")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[str, ...], Path]:
    root = tmp_path_factory.mktemp("page")
    world = write_world(root / "data")
    for name, right in SYSTEMS.items():
        cfg = EvalConfig(("toy_xnli",), root / name, world, langs=LANGS, seeds=(1,))
        given = {lang: [n] * 4 for lang, n in zip(LANGS, right, strict=True)}
        evaluation.evaluate_systems(cfg, [Epochs(given, digest=name[0] * 64)])
    return tuple(f"{name}={root / name}" for name in SYSTEMS), world


@pytest.fixture(scope="module")
def page(runs: tuple[tuple[str, ...], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "out"
    stage.run(ReportConfig(runs[0], out, data=runs[1]))
    return out / "report.html"


def test_systems_of_one_rank_are_not_told_apart(runs: tuple[tuple[str, ...], Path]) -> None:
    found = comparison.rank_groups(comparison.systems_of(open_runs(runs[0]), runs[1]))
    assert found == {("toy_xnli", "two"): 1, ("toy_xnli", "three"): 2, ("toy_xnli", "one"): 2}
    alone = comparison.systems_of(open_runs(runs[0][:1]), runs[1])
    assert comparison.rank_groups(alone) == {}


def test_evaluations_of_one_run_are_read_on_their_own_data(world: Path, tmp_path: Path) -> None:
    """A recipe scores a teacher on the suite, and a student on a folder of labelled rows."""
    labelled = Path(shutil.copytree(world, tmp_path / "labelled"))
    for path in labelled.rglob("*test*"):
        path.write_bytes(path.read_bytes().rstrip(b"\n"))
    for name, data in (("teacher", world), ("student", labelled)):
        system = Epochs({"en": [12] * 4, "de": [3] * 4}, digest=name[0] * 64)
        system.name = name
        cfg = EvalConfig(("toy_xnli",), tmp_path / "scores" / name, data, langs=("en", "de"), seeds=(1,))
        evaluation.evaluate_systems(cfg, [system])
    (both,) = open_runs([str(tmp_path / "scores")])
    systems = comparison.systems_of([both], None)
    rows = {(s.name, len(read().rows)) for s in systems for read in s.scored.values()}
    assert rows == {("teacher", 12), ("student", 12)}


def test_a_control_of_another_run_is_compared_under_the_names_of_the_table(
    world: Path, tmp_path: Path
) -> None:
    """Random weights were trained with three seeds in an evaluation of their own."""
    for name, right in (("pretrained", 12), ("random", 3)):
        system = Epochs({"en": [12] * 4, "de": [right] * 4}, digest=name[0] * 64)
        system.name = name
        cfg = EvalConfig(("toy_xnli",), tmp_path / name, world, langs=("en", "de"), seeds=(1,))
        evaluation.evaluate_systems(cfg, [system])
    for order in (("pretrained", "random"), ("random", "pretrained")):
        out = tmp_path / f"{order[0]}-first"
        stage.run(ReportConfig(tuple(str(tmp_path / name) for name in order), out, data=world))
        (test,) = csv.DictReader((out / "comparison.csv").read_text(encoding="utf-8").splitlines())
        assert (test["system"], test["against"], float(test["difference"])) == ("pretrained", "random", 75)
        overall = csv.DictReader((out / "overall.csv").read_text(encoding="utf-8").splitlines())
        marks = {row["system"]: row["toy_xnli (accuracy)"] for row in overall}
        assert marks["pretrained"].endswith(" better") and marks["random"].endswith(" (a)")


def test_rows_with_errors_name_source_gold_and_both_answers(runs: tuple[tuple[str, ...], Path]) -> None:
    systems = comparison.systems_of(open_runs(runs[0]), runs[1])
    (table,) = browse.rows(systems, 60).details
    assert [name for name, _ in table.columns][3:] == ["gold", "one", "two", "what"]
    assert {row[0] for row in table.rows} == {"de", "sw"}, "all of English is right"
    for _, _, source, gold, first, second, what in table.rows:
        assert " / " in str(source) and first != gold and second == gold and what == browse.KINDS[1]
    assert len(table.rows) == 18
    shared = browse.rows(systems, 5).details[0]
    assert [row[0] for row in shared.rows] == ["de", "de", "de", "sw", "sw"]
    assert not browse.rows(systems, 0)


@pytest.mark.browser
def test_the_page_is_used_by_the_keyboard_alone(page: Path, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as window:
        for width, scheme in product(WIDTHS, SCHEMES):
            window.scheme(scheme)
            window.open(page, width)
            assert window.value("document.documentElement.scrollWidth <= window.innerWidth"), (
                "scrolls sideways"
            )
            assert window.wide_without_a_hint() == []
            window.open(page, width)
            window.picture(tmp_path / f"page.{width}.{scheme}.png")  # to look at
        ground = "getComputedStyle(document.body).backgroundColor"
        assert window.value(ground) == "rgb(20, 24, 31)", "dark"
        focus = "document.activeElement"
        table = "document.querySelector('[data-title=Overall]')"
        window.press_until(f"{focus}.className === 'sort' && {focus}.textContent.startsWith('toy_xnli')")
        window.press("Enter")
        order = f"[...{table}.tBodies[0].rows].map(r => r.cells[0].textContent)"
        assert window.value(order) == ["two", "three", "one"]
        window.press("Enter")
        assert window.value(order) == ["one", "three", "two"]
        assert window.value(f"{focus}.closest('th').getAttribute('aria-sort')") == "ascending"
        window.press_until(f"{focus}.id === 'filter-family'")
        window.press("ArrowDown")
        assert window.value(f"{focus}.value") == "Bantu"
        shown = "[...document.querySelectorAll('[data-rows] tr.lang')].filter(r => !r.hidden).map(r => r.innerText[0])"
        assert window.value(shown) == ["s"]
        assert "averages stay those of all languages" in window.value(
            "document.getElementById('said').textContent"
        )
        window.press_until(f"{focus}.textContent === 'Markdown'")
        window.press("Enter")
        time.sleep(0.2)
        copied = window.value("document.getElementById('said').dataset.copied")
        assert copied.splitlines()[1].startswith("|---|") and "sw" in copied and "| de" not in copied
        assert window.requests and all(url.startswith("file:") for url in window.requests)
        assert window.complaints == []


@pytest.mark.browser
@pytest.mark.axe
def test_no_rule_of_wcag_aa_is_broken(page: Path, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as window:
        for width, scheme in product(WIDTHS, SCHEMES):
            window.scheme(scheme)
            window.open(page, width)
            assert window.broken_rules() == {}, (width, scheme)


def test_fifty_systems_in_a_hundred_languages_are_below_two_megabytes(tmp_path: Path) -> None:
    codes = sorted(languages.LANGUAGES)[:100]
    assert len(codes) == 100
    scores = [
        Score(
            "sib200", lang, "accuracy", 30 + (7 * i + 3 * j) % 60 + 0.12, 204, 1, f"system{j}",
            f"accuracy/1 data {'0' * 16} checkpoint {'1' * 16} seed 1", low=29.0, high=91.0,
        )
        for j in range(50)
        for i, lang in enumerate(codes)
    ]  # fmt: skip
    score_file.write_scores(tmp_path / "scores.json", scores)
    stage.run(ReportConfig((str(tmp_path / "scores.json"),), tmp_path / "out"))
    text = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 2_000_000
    assert len(re.findall(r'<tr class="lang">', text)) == 100 and text.count("system49") > 3
    assert "200 of 5,000 rows; all are in signatures.csv" in text
    lines = (tmp_path / "out/signatures.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 5001


def test_a_curve_is_named_by_its_loss_or_its_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, str]] = []
    monkeypatch.setattr(
        sections.figure, "line_charts", lambda series, title, label: shown.append((title, label)) or []
    )
    names = ("loss/mmlm", "en-sw/round_trip")
    events = [{"split": "valid", "update": n, **dict.fromkeys(names, 1.0 / n)} for n in (1, 2)]
    assert list(sections._charts_of("run", events, "valid")) == []
    losses = [("run, validation loss of mmlm", "loss in nats")]
    assert [each for each in shown if each[1] == "loss in nats"] == losses
    assert all(title.startswith("run, validation: ") for title, label in shown if label != "loss in nats")


def test_losses_come_first_and_speed_is_folded() -> None:
    events = [
        {
            "split": split,
            "update": update,
            "loss": 3.0 - update / 10,
            "mfu": 0.2,
            "gnorm": 1.0,
            "tokens_per_s": 9.0,
        }
        for update in (1, 2, 3)
        for split in ("train", "valid")
    ]
    for split, number in (("train", 4), ("valid", 4)):
        drawn = list(sections._charts_of("run", events, split))
        assert len(drawn) == number
        shown = [
            re.findall("<figcaption>(.*?)</figcaption>", picture)[0]
            for is_shown, picture in drawn
            if is_shown
        ]
        assert "loss of all objectives" in shown[0]
        assert split == "valid" or len(shown) == 1


def test_pictures_have_the_colours_of_the_page() -> None:
    (picture,) = sections.figure.line_charts({"all": [(0, 1), (1, 2)], "en": [(0, 2), (1, 3)]}, "a", "b")
    assert "var(--ink)" in picture and "var(--line)" in picture
    assert not re.search("#000000|#ffffff|#d5dae0|#5b6470", picture)


def test_a_line_of_one_point_is_seen_and_whole_numbers_have_no_fractions() -> None:
    (one,) = figure.line_charts({"sw": [(60.0, 7.3)]}, "loss", "nats")
    assert "<use" in one.partition('id="')[2]
    (layers,) = figure.line_charts({"sw": [(0.0, 1.0), (1.0, 2.0), (2.0, 1.5)]}, "layers", "percent", "layer")
    axis = re.findall(r">(\d(?:\.\d)?)</text>", layers)
    assert axis[:3] == ["0", "1", "2"]


def test_headings_skip_no_level_and_boxes_of_one_name_are_told_apart() -> None:
    made = html_document("t", "<h1>a</h1><h3>b</h3><h3>c</h3><h2>d</h2><h3>e</h3>" + 2 * tabular.html_table(
        tabular.Table("t", "", (("x", ""),), (("1",),)), heading=False
    ))  # fmt: skip
    assert re.findall(r"<h\d>.</h\d>", made) == [
        "<h1>a</h1>", "<h2>b</h2>", "<h2>c</h2>", "<h2>d</h2>", "<h3>e</h3>",
    ]  # fmt: skip
    assert re.findall(r'aria-label="(.*?)"', made) == ["Table", "Table 2"]
    assert made.count("<main>") == made.count("</main>") == 1


@pytest.mark.parametrize("name", ["ኢትዮጵያ", "ไทย", "run\x1b[31m", "a\nb"])
def test_names_in_pictures_give_no_warning_and_stay_text(name: str) -> None:
    points = [(0.0, 1.0), (1.0, 2.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (chart,) = figure.line_charts({name: points, "other": points}, "losses", "loss")
    assert name.partition("\x1b")[0].partition("\n")[0] in chart
