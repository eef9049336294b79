"""The recipe of the table on real data: its settings, and a run of minimal size."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path

import pytest

from xling.core.commands import pipeline
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.eval.rows.suite import load, row_line, suites
from xling.eval.scores.score_file import read_scores

RECIPE = Path(__file__).parents[2] / "recipes/real_eval.yaml"
STEPS = ("sentences", "tags", "answers", "retrieval")
ASKED = ("xnli", "sib200", "panx", "uner", "udpos", "xquad_folds", "tatoeba", "ntrex")


def test_every_step_takes_all_checkpoints_seeds_and_controls() -> None:
    made = pipeline.read(RECIPE, ["checkpoints=mmlm=runs/a,tlm=runs/b", "data=somewhere"])
    configs = [made.settings(name) for name in STEPS]
    assert tuple(name for cfg in configs for name in cfg.suites) == ASKED
    for cfg in configs:
        assert cfg.checkpoints == ("mmlm=runs/a", "tlm=runs/b")
        assert cfg.systems == ("pretrained", "random", "majority")
        rows = 0 if cfg.suites == ("tatoeba", "ntrex") else 2000  # nothing is fine-tuned for vectors
        assert (cfg.seeds, cfg.train_rows, cfg.data) == ((1, 2, 3), rows, Path("somewhere"))
    assert len(made.settings("report").runs) == 1
    assert list(made.steps)[-1] == "report"


@pytest.mark.slow
@pytest.mark.data
def test_the_table_on_real_data_at_minimal_size(model: Path, tmp_path: Path) -> None:
    langs = {"sentences": "en", "tags": "en", "answers": "en", "retrieval": "sw"}
    small = [f"{name}.fit.epochs=1" for name in STEPS[:3]] + [
        f"{name}.langs={x}" for name, x in langs.items()
    ]
    few = tmp_path / "data" / "rows"
    for name, split in itertools.product(ASKED, ("train", "dev", "test")):
        suite, lang = suites()[name], "sw" if name in ("tatoeba", "ntrex") else "en"
        (few / name).mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(UserError):  # UNER has no training rows at hand, for example
            rows = load(suite, lang, split, Path(os.environ["XLING_DATA"]))[:60]
            (few / name / f"{lang}.{split}.jsonl").write_text("".join(map(row_line, rows)), encoding="utf-8")
    words = [
        f"data={few.parent}",
        f"out={tmp_path}",
        f"checkpoints=mine={model}",
        "seeds=1",
        "rows=32",
    ]
    made = pipeline.read(RECIPE, [*words, *small, "answers.fit.max_length=64"])
    for name, step in made.steps.items():
        run_local(step.stage, made.settings(name))
    scores = [s for name in STEPS for s in read_scores(tmp_path / name / "tables/scores.json")]
    found = {(s.suite, s.system) for s in scores}
    assert found == {(suite, system) for suite in ASKED for system in ("mine", "random", "majority")}
    assert (tmp_path / "report/report.html").is_file()
