"""Size and latency of models, and what a report makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xling.core.errors import UserError
from xling.core.output.manifest import publish
from xling.eval.report import frontier, stage
from xling.eval.scores.score_file import Score, write_scores
from xling.hub.settings import MeasureConfig, TrimConfig
from xling.hub.size_and_latency import FILE_NAME, run
from xling.hub.trim import run as trim


def test_smaller_models_measure_smaller(model: Path, corpus: Path, tmp_path: Path) -> None:
    text = (str(corpus / "en.txt"),)
    trim(TrimConfig(model, tmp_path / "trimmed", {"en": text}))
    small = f"small={tmp_path / 'trimmed'}"
    cfg = MeasureConfig(
        (f"base={model}", small), text, tmp_path / "out", (f"tiny={tmp_path / 'trimmed'}",), 5, 2
    )
    run(cfg)
    made_at = (tmp_path / "out" / FILE_NAME).stat().st_mtime_ns
    found = {m["name"]: m for m in json.loads((tmp_path / "out" / FILE_NAME).read_text())["models"]}
    assert list(found) == ["base", "small", "tiny"]
    assert found["base"]["megabytes"] > found["small"]["megabytes"] > found["tiny"]["megabytes"]
    assert found["base"]["vocabulary"] > found["small"]["vocabulary"] == found["tiny"]["vocabulary"]
    assert all(0 < m["low"] <= m["ms"] <= m["high"] for m in found.values())
    run(cfg)
    assert (tmp_path / "out" / FILE_NAME).stat().st_mtime_ns == made_at, "a rerun measures nothing"


@pytest.mark.parametrize(
    ("names", "int8", "settings", "message"),
    [
        ((), (), {}, "at least one model"),
        (("a={}", "a={}"), (), {}, "a different name for each"),
        (("a={}",), ("a={}",), {}, "a different name for each"),
        (("a={}",), (), {"rounds": 0}, "rounds=0"),
        (("a={}",), (), {"text": ("nowhere.txt",)}, "nothing to read"),
        (("a={}/none",), (), {}, "none"),
    ],
)
def test_mistakes(
    model: Path, corpus: Path, tmp_path: Path, names: Any, int8: Any, settings: dict[str, Any], message: str
) -> None:
    given = {"text": (str(corpus / "en.txt"),), **settings}
    places = [tuple(name.format(model) for name in each) for each in (names, int8)]
    with pytest.raises(UserError, match=message):
        run(MeasureConfig(places[0], out=tmp_path / "out", int8=places[1], **given))
    assert not (tmp_path / "out").exists()


def point(name: str, megabytes: float, ms: float, score: float) -> dict[str, Any]:
    sizes = {"layers": 2, "vocabulary": 9, "megabytes": megabytes, "ms": ms, "low": ms, "high": ms}
    return {"name": name, "score": score, **sizes}


def test_the_front_by_hand() -> None:
    points = [
        point("a", 9, 1, 70),
        point("b", 5, 2, 70),
        point("c", 5, 2, 70),
        point("d", 6, 9, 69),
        point("e", 1, 9, 40),
    ]
    assert frontier.on_front(points, "megabytes") == [False, True, True, False, True]
    assert frontier.on_front(points, "ms") == [True, False, False, False, False]


def test_the_report_names_the_smallest_that_keeps_its_score(tmp_path: Path) -> None:
    models = [
        point("big", 40, 9, 0),
        point("half", 20, 5, 0),
        point("tiny", 2, 1, 0),
        point("unscored", 1, 1, 0),
    ]
    with publish(tmp_path / "run/measured", "measure", {}) as made:
        (made.path / FILE_NAME).write_text(json.dumps({"lose": 2.0, "models": models}))
    values = {"big": (70.0, 72.0), "half": (68.0, 71.0), "tiny": (50.0, 60.0)}
    scores = [
        Score("sib200", "sw", "accuracy", value, 204, seed, name, low=value - 5, high=value + 5)
        for name, each in values.items()
        for seed, value in enumerate(each)
    ]
    with publish(tmp_path / "run/scores", "eval", {}) as made:
        write_scores(made.path / "scores.json", scores)
    stage.run(stage.ReportConfig((str(tmp_path / "run"),), tmp_path / "report"))
    text = (tmp_path / "report/report.md").read_text()
    assert "at most 2 points against big: half, 2.0 times smaller, 1.8 times as fast" in text
    header, *rows = (tmp_path / "report/size_sib200.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["big", "half", "tiny"]
    assert "against the first" in header and ",-1.5" in rows[1]
    page = (tmp_path / "report/report.html").read_text()
    assert page.count("the Pareto front</figcaption>") == 2
