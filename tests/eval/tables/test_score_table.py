"""Tables compared whole with golden files, and what a hole does to them."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from xling.core.errors import UserError
from xling.eval.report import stage
from xling.eval.scores import score_file
from xling.eval.scores.score_file import FORMAT, Score, read_scores
from xling.eval.tables import render, score_table

GOLDEN = Path(__file__).parent / "golden"


def scores() -> list[Score]:
    """Two suites, two seeds, two controls, an oracle selection and a published column."""
    found = []
    values = {"en": 90.0, "de": 70.0, "sw": 50.0, "tr": 61.25}
    for suite, metric in (("toy_ner", "span_f1"), ("toy_xnli", "accuracy")):
        for lang, value in values.items():
            for seed in (1, 2):
                common = {"suite": suite, "lang": lang, "metric": metric, "n": 100, "synthetic": True}
                found.append(Score(value=value + seed, seed=seed, low=value - 3, high=value + 5, **common))
                found.append(Score(value=value / 3, seed=seed, system="random", **common))
                if suite == "toy_ner":
                    found.append(Score(value=value + 2 * seed, seed=seed, select="oracle", **common))
            found.append(
                Score(value=33.3, seed=-1, system="majority", select="last", low=30.0, high=36.0, **common)
            )
    for lang, value in (("en", 95.0), ("de", 80.0), ("average", 81.5)):
        found.append(
            Score(
                "toy_xnli",
                lang,
                "accuracy",
                value,
                1,
                -1,
                "XLM_R & co (published)",
                "Paper, table 1",
                select="published",
            )
        )
    return found


def table(**changes: object) -> score_table.ScoreTable:
    groups = score_table.groups_of_languages(scores()[:-1], ("family", "script"))
    settings = {"groups": groups, "corpus_sizes": {"de": 9.0, "sw": 1.0, "tr": 3.0, "en": 20.0, "fr": 1.0}}
    return score_table.language_table(scores(), "Zero-shot <transfer>", **settings | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(render.FORMATS))
def test_every_format_equals_its_golden_file(name: str) -> None:
    path = GOLDEN / f"table.{name}"
    text = render.FORMATS[name](table())
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def line(found: score_table.ScoreTable, name: str) -> list[float | None]:
    (row,) = [row for row in found.lines if row.name == name]
    return [cell.value for cell in row.cells]


def test_the_arithmetic_by_hand() -> None:
    found = table()
    assert found.columns[:4] == ("pretrained source-dev", "pretrained oracle", "random", "majority")
    assert line(found, "average without source")[0] == pytest.approx((70 + 50 + 61.25) / 3 + 1.5)
    assert line(found, "average")[0] == pytest.approx((90 + 70 + 50 + 61.25) / 4 + 1.5)
    assert line(found, "transfer gap")[0] == pytest.approx(90 - (70 + 50 + 61.25) / 3)
    assert line(found, "family Bantu")[0] == pytest.approx(51.5)
    assert line(found, "script Latn")[0] == pytest.approx((70 + 50 + 61.25) / 3 + 1.5)
    (row,) = [row for row in found.lines if row.name == "average"]
    assert row.cells[0].spread == pytest.approx(0.5**0.5)
    assert line(found, "average as published") == [None] * 7 + [81.5]
    assert line(found, "average")[7] is None, "a published column that lacks languages has no average of ours"


def test_correlation_with_corpus_size_has_ties_at_mean_rank() -> None:
    assert score_table.spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert score_table.spearman([4, 3, 2, 1], [10, 20, 30, 40]) == pytest.approx(-1)
    assert score_table.spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9486832980505138)
    assert score_table.spearman([1, 1, 1], [1, 2, 3]) == 0
    amounts = {lang: float(i) for i, lang in enumerate(["de", "sw", "tr", "fr"])}
    more = [
        *scores(),
        Score("toy_ner", "fr", "span_f1", 80.0, 1, 1),
        Score("toy_ner", "fr", "span_f1", 80.0, 1, 2),
    ]
    found = score_table.language_table(more, allow_missing=True, corpus_sizes=amounts)
    assert (
        "toy_ner span_f1 of pretrained: rank correlation with corpus size 0.40 over 4 languages."
        in found.notes
    )


def test_a_hole_never_gets_an_average() -> None:
    holed = [s for s in scores() if not (s.suite == "toy_ner" and s.lang == "sw" and s.system == "random")]
    found = score_table.language_table(holed)
    random = found.columns.index("random")
    assert line(found, "average")[random] is None
    assert line(found, "transfer gap")[random] is None
    assert line(found, "average")[0] is not None
    assert "toy_ner span_f1 of random: no score in sw, so no average." in found.notes
    allowed = score_table.language_table(holed, allow_missing=True)
    assert line(allowed, "average")[random] == pytest.approx((90 + 70 + 61.25) / 9)
    (row,) = [row for row in allowed.lines if row.name == "average"]
    assert row.cells[random].mark == "*"
    assert "* toy_ner span_f1 of random: averages leave out sw, which have no score." in allowed.notes


def test_a_missing_seed_is_a_hole() -> None:
    holed = [s for s in scores() if not (s.lang == "sw" and s.seed == 2 and s.suite == "toy_xnli")]
    found = score_table.language_table(holed)
    place = [i for i, name in enumerate(found.columns) if name.startswith("pretrained")][-1]
    assert line(found, "average")[place] is None


def test_unscored_languages_of_the_published_suite_are_named() -> None:
    found = score_table.language_table(
        [Score("pawsx", lang, "accuracy", 50.0, 10, 1) for lang in ("en", "de")]
    )
    assert "pawsx: 2 of the suite's 7 languages; not scored: es fr ja ko zh." in found.notes


def test_bad_input() -> None:
    with pytest.raises(UserError, match="no scores to tabulate"):
        score_table.language_table([])
    twice = [*scores(), dataclasses.replace(scores()[0], value=1.0)]
    with pytest.raises(
        UserError, match=r"two scores of toy_ner/en/span_f1, pretrained, seed 1: 91\.0 and 1\.0"
    ):
        score_table.language_table(twice)
    with pytest.raises(UserError, match="unknown grouping 'families'"):
        score_table.groups_of_languages(scores(), ("families",))


def test_sizes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "sizes.tsv"
    path.write_text("sw\t10\neng\t200.5\n")
    assert score_table.read_sizes(path) == {"sw": 10.0, "en": 200.5}
    path.write_text("sw\t10\nde\tmany\n")
    with pytest.raises(UserError, match=r"sizes\.tsv:2: 'de\\tmany'"):
        score_table.read_sizes(path)


def test_scores_file_round_trip_and_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    score_file.write_scores(path, scores())
    assert score_file.read_scores(path) == scores()
    assert score_file.merge([path, path]) == scores()
    other = tmp_path / "other.json"
    score_file.write_scores(other, [dataclasses.replace(scores()[0], value=1.0)])
    with pytest.raises(
        UserError, match=r"disagree on toy_ner/en/span_f1, pretrained, seed 1: 1\.0 and 91\.0"
    ):
        score_file.merge([path, other])
    rows = json.loads(path.read_text())
    rows["scores"][1]["vlaue"] = rows["scores"][1].pop("value")
    path.write_text(json.dumps(rows))
    with pytest.raises(UserError, match=r"scores\.json:3: .*vlaue"):
        score_file.read_scores(path)
    path.write_text("[]")
    with pytest.raises(UserError, match="is not a scores file"):
        score_file.read_scores(path)
    path.write_text("{")
    with pytest.raises(UserError, match="is not JSON"):
        score_file.read_scores(path)
    with pytest.raises(UserError, match="no scores at"):
        score_file.read_scores(tmp_path / "none.json")


def test_latex_has_no_raw_signs() -> None:
    text = render.latex_table(table())
    assert r"XLM\_R \& co" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    rows = [row for row in text.splitlines() if row.endswith(r" \\") and "multicolumn" not in row]
    assert {row.count(" & ") for row in rows} == {len(table().columns)}


WHOLE = dataclasses.asdict(Score("toy_ner", "en", "span_f1", 50.0, 9, 1))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"format": FORMAT}, r"holds no list of scores"),
        ({"format": FORMAT, "scores": {}}, r"holds no list of scores"),
        ({"format": FORMAT, "scores": [3]}, r"scores\.json:2: 3 is not a score"),
        ({"format": FORMAT, "scores": [WHOLE | {"n": "9"}]}, r"scores\.json:2: n='9'; valid: int"),
        (
            {"format": FORMAT, "scores": [WHOLE | {"value": None}]},
            r"scores\.json:2: value=None; valid: float",
        ),
        (
            {"format": FORMAT, "scores": [WHOLE, WHOLE | {"suite": None}]},
            r"scores\.json:3: suite=None; valid: str",
        ),
        (
            {"format": FORMAT, "scores": [WHOLE | {"low": "1"}]},
            r"scores\.json:2: low='1'; valid: float \| None",
        ),
    ],
)
def test_damaged_scores_are_named_with_their_line(tmp_path: Path, wrong: Any, message: str) -> None:
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(wrong))
    with pytest.raises(UserError, match=message):
        read_scores(path)


def test_no_name_opens_html_in_markdown() -> None:
    text = "x <script>alert(1)</script> <img src=x> <!-- --> <?php p < 0.05 a<b 1 <2"
    shown = render.escape_html_tags(text)
    assert shown == (
        "x &lt;script>alert(1)&lt;/script> &lt;img src=x> &lt;!-- --> &lt;?php p < 0.05 a&lt;b 1 <2"
    )


def test_another_treebank_of_the_source_is_no_transfer_and_other_languages_stand_below() -> None:
    values = {"en": 90.0, "en_ewt": 94.0, "de": 70.0, "sw": 10.0, "fr": 60.0}
    found = score_table.language_table(
        [Score("udpos", lang, "tag_accuracy", v, 10, 1) for lang, v in values.items()]
    )
    lines = {line.name: line.cells[0].value for line in found.lines}
    assert list(lines) == [
        "en",
        "de",
        "fr",
        "average without source",
        "average",
        "transfer gap",
        "en_ewt",
        "sw",
    ]
    assert lines["average without source"] == pytest.approx(65)
    assert lines["average"] == pytest.approx((90 + 70 + 60) / 3)
    assert lines["transfer gap"] == pytest.approx(25)
    assert "udpos: averages are over languages of the published suite; not in them: en_ewt sw." in found.notes
    alone = score_table.language_table(
        [Score("udpos", lang, "tag_accuracy", 50.0, 10, 1) for lang in ("en", "en_ewt")]
    )
    assert "average without source" not in {line.name for line in alone.lines}
    free = score_table.language_table(
        [Score("toy_ner", x, "span_f1", v, 10, 1) for x, v in (("en", 9.0), ("en_ewt", 99.0), ("de", 5.0))]
    )
    assert {x.name: x.cells[0].value for x in free.lines}["average without source"] == 5.0


def test_an_average_without_a_source_that_is_not_there_is_given_once() -> None:
    found = score_table.language_table(
        [Score("tatoeba", lang, "accuracy", v, 10, 1) for lang, v in (("de", 70.0), ("sw", 50.0))]
    )
    assert [(line.name, line.cells[0].value) for line in found.lines][2:] == [("average", 60.0)]


def test_the_findings_count_no_treebank_of_the_source() -> None:
    rows = [Score("toy_ner", x, "span_f1", 50.0, 10, 1) for x in ("en", "en_ewt", "de", "sw")]
    (said,) = stage.summary(rows)
    assert "on average over the 2 languages other than en" in said


def test_a_note_names_at_most_forty_languages_without_a_score() -> None:
    scores = [Score("sib200", lang, "accuracy", 50.0, 204, 1) for lang in ("en", "de")]
    (note,) = [n for n in score_table.language_table(scores, "t").notes if "not scored" in n]
    assert note.startswith("sib200: 2 of the suite's 205 languages; not scored: ") and note.endswith(
        " and 163 more."
    )
    assert len(note.split(": ")[-1].split()) == 43
