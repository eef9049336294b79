"""A metric, a kind of suite and a suite are one file each: what `xling eval` makes of three trial files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests import forked

RUN = Path(__file__).with_name("with_trial_files.py")
STARS = {"train": [1, 4, 3, 5, 3], "test": [3, 1, 5, 4]}


def xling(*words: str) -> subprocess.CompletedProcess[str]:
    return forked.run(str(RUN), "xling.cli", *words)


def test_three_files_are_evaluated_to_a_table(tmp_path: Path) -> None:
    for lang in ("en", "sw"):
        for split, stars in STARS.items():
            path = tmp_path / f"reviews/{lang}.{split}.jsonl"
            path.parent.mkdir(exist_ok=True)
            rows = [json.dumps({"review": f"{lang} {i}", "stars": s}) + "\n" for i, s in enumerate(stars)]
            path.write_text("".join(rows), encoding="utf-8")
    ran = xling("eval", "reviews", "systems=majority", f"data={tmp_path}", f"out={tmp_path / 'out'}")
    assert ran.returncode == 0, ran.stderr
    # The median of the training grades is 3: off by 0, 2, 2 and 1 of 4 steps.
    assert "reviews (closeness): majority" in ran.stdout and "68.8" in ran.stdout
    scores = json.loads((tmp_path / "out/tables/scores.json").read_text())["scores"]
    assert {s["signature"].split("|")[0] for s in scores} == {"closeness:1"}
    again = xling("eval", "reviews", "systems=ngram", f"data={tmp_path}", f"out={tmp_path / 'out'}")
    assert again.returncode == 2
    assert "the control ngram has no answer to the grade rows of reviews" in again.stderr


def test_a_row_and_an_answer_that_the_kind_refuses_are_named(tmp_path: Path) -> None:
    (tmp_path / "rows/reviews").mkdir(parents=True)
    row = {"id": "0", "fields": {"text": "good"}, "label": 7}
    for split in STARS:
        (tmp_path / f"rows/reviews/en.{split}.jsonl").write_text(json.dumps(row) + "\n")
    ran = xling("eval", "reviews", "systems=majority", f"data={tmp_path}", f"out={tmp_path / 'out'}")
    assert ran.returncode == 2
    assert "en.test.jsonl:1: label 7; valid: grade from 1 to 5" in ran.stderr.replace("en.train", "en.test")
