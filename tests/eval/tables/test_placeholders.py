"""Rows of PAWS-X whose text is NS are told, and scored with and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from xling import cli
from xling.eval.rows.listing import listing
from xling.eval.rows.suite import load, suites
from xling.eval.scores import predictions
from xling.eval.scores.predictions import Origin
from xling.eval.tables.publish import TableConfig, publish_tables

GOOD = [("A dog sleeps.", "The dog is asleep.", "1"), ("NS Bank", "No NS here", "0"), ("a", "b", "1")]
BAD = [("NS", "NS", "0"), ("NS", "A dog.", "0"), ("A dog.", " NS ", "1")]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "pawsx"
    folder.mkdir(parents=True)
    for lang, rows in (("es", [*GOOD, *BAD]), ("ja", GOOD), ("ko", BAD)):
        lines = ["sentence1\tsentence2\tlabel", *("\t".join(row) for row in rows)]
        (folder / f"dev.{lang}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "data"


def test_the_list_of_suites_counts_them(data: Path) -> None:
    told = listing(data)
    assert "    NS stands in place of a text in 3 of 6 dev rows in es, 3 of 3 dev rows in ko\n" in told
    assert "rows with NS (not translated) count" in listing()
    (data / "pawsx" / "dev.es.tsv").write_text("broken\n")
    assert "place of a text in 3 of 3 dev rows in ko" in listing(data)


def test_the_table_has_the_score_without_them(data: Path, tmp_path: Path) -> None:
    suite, files = suites()["pawsx"], []
    for seed in (1, 2):
        for lang in ("es", "ja", "ko"):
            rows = load(suite, lang, "dev", data)
            origin = Origin(
                "pawsx", lang, "dev", "pretrained", seed, "zero_shot", "source-dev", "en", "c" * 64
            )
            # All answers are 1; the second seed answers the last row with 0.
            answers = ["1"] * (len(rows) - (seed == 2)) + ["0"] * (seed == 2)
            predictions.write(tmp_path / "predictions", origin, rows, answers)
            files.append(origin.path(tmp_path / "predictions"))
    made_by = {"stage": "eval", "settings": {"data": str(data)}}
    publish_tables(TableConfig(), ("pawsx",), tmp_path / "tables", files, data, made_by)
    table = (tmp_path / "tables" / "table.md").read_text()
    note = (
        "pawsx: NS stands in place of a text in 3 of 6 dev rows in es, 3 of 3 dev rows in ko. "
        "Without them: pawsx accuracy of pretrained es 66.7."
    )
    assert f"- {note}" in table
    assert cli.main(["report", str(tmp_path / "tables"), f"out={tmp_path / 'report'}"]) == 0
    assert note in (tmp_path / "report" / "report.md").read_text()
    assert "| es " in table and "41.7" in table  # with them: 3 and 2 of 6
