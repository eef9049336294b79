"""Reports over many runs, and over runs whose answers or tables were changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.eval.report.test_report import make_runs
from xling.core.errors import UserError
from xling.eval.report import artifacts, comparison, sections
from xling.pages import figure


@pytest.fixture
def runs(tmp_path: Path, world: Path) -> Path:
    """Two runs of every kind of stage that a report reads."""
    return make_runs(tmp_path, world)


def test_only_the_first_runs_have_pictures_of_their_own(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(figure, "draw_figure", lambda draw, caption, height=0.0: drawn.append(caption) or "")
    monkeypatch.setattr(sections, "MAX_RUNS_DRAWN", 1)
    found = artifacts.open_runs([f"{name}={runs / 'one'}" for name in ("a", "b", "c")])
    assert "report: read: 3 of 3 runs" in capsys.readouterr().err
    said = [sections.training(found), sections.corpus(found)]
    assert [caption for caption in drawn if caption.startswith(("b:", "c:"))] == []
    assert len([caption for caption in drawn if caption.startswith("a:")]) == 8
    assert all("The first 1 of 3 runs have pictures of their own" in section.lead for section in said)
    assert {row[0] for row in said[0].details[0].rows} == {"a", "b", "c"}


def test_a_table_beside_changed_answers_or_scores_is_refused(runs: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(runs / "one", moved)
    shutil.rmtree(runs / "one")
    artifacts.open_run(moved, "run")
    path = sorted((moved / "eval" / "predictions").rglob("sw.test.parquet"))[0]
    frame, facts = pl.read_parquet(path), pl.read_parquet_metadata(path)
    facts = {name: text for name, text in facts.items() if name != "ARROW:schema"}
    frame.with_columns(pl.lit('"neutral"').alias("prediction")).write_parquet(path, metadata=facts)
    with pytest.raises(UserError, match=r"sw\.test\.parquet was changed after the tables .*eval rescore"):
        artifacts.open_run(moved, "run")
    with pytest.raises(UserError, match="the answers were changed after they were predicted"):
        list(comparison.predictions.evaluate_file(path, tmp_path / "data"))
    shutil.rmtree(moved / "eval" / "predictions")
    artifacts.open_run(moved, "run")
    scores = moved / "eval" / "tables" / "scores.json"
    scores.write_text(scores.read_text().replace('"value": ', '"value": 1'))
    with pytest.raises(UserError, match=r"scores\.json was changed or damaged after 'eval' wrote it"):
        artifacts.open_run(moved, "run")


def test_a_folder_with_an_equals_sign_in_its_name_is_a_run(runs: Path) -> None:
    for name in ("lr=1e-4", "lr=3e-4"):
        (runs / name).symlink_to(runs / "one")
    found = artifacts.open_runs([str(runs / "lr=1e-4"), f"high={runs / 'lr=3e-4'}"])
    assert [(run.name, run.folder) for run in found] == [
        ("lr=1e-4", runs / "lr=1e-4"),
        ("high", runs / "lr=3e-4"),
    ]
