"""The speed run: `xling run hour` under a fixed budget, its score, and one row (docs/hour.md).

Usage: ``XLING_DATA=FOLDER python -m benchmarks.speedrun "what was changed" [key=value ...]``. The settings are those of
`xling run hour`; ``out`` (default ``runs/speedrun``) has to be new. The score is the mean over the suites of
their averages over languages without English; the time is that of the whole pipeline on the clock.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from xling.core.commands import pipeline
from xling.core.commands.parallel_steps import run_steps
from xling.core.commands.pipeline import RECIPES_FOLDER
from xling.core.errors import UserError
from xling.eval.rows.suite import data_folder, suites
from xling.eval.scores.score_file import Score, read_scores

STEPS = ("ntrex", "tatoeba", "texts", "tags", "names", "requests")
SUITES = ("sib200", "xnli", "udpos", "panx", "uner", "masakhaner", "xsid", "tatoeba", "ntrex")


def averages(scores: list[Score]) -> dict[str, float]:
    """Suite -> mean of its main metric over languages and seeds of the system ``pretrained``.

    The languages are those of the published suite without English.
    """
    means: dict[str, float] = {}
    for name in SUITES:
        metric, langs = suites()[name].metric, set(suites()[name].languages) - {"en"}
        values = [
            score.value
            for score in scores
            if (score.suite, score.system, score.metric) == (name, "pretrained", metric)
            and score.lang in langs
        ]
        if values:
            means[name] = statistics.fmean(values)
    return means


def row(what: str, means: dict[str, float], minutes: float, commit: str) -> str:
    """Return a row: what was changed, the score, each suite, minutes, commit."""
    cells = [f"{means[name]:.1f}" if name in means else "-" for name in SUITES]
    score = f"**{statistics.fmean(means.values()):.1f}**"
    return "| " + " | ".join([what, score, *cells, f"{minutes:.0f}", commit]) + " |"


def main(words: list[str]) -> int:
    """Run the pipeline and print its row.

    Raises:
        UserError: ``out`` is there already.
    """
    what = words.pop(0) if words and "=" not in words[0] else "as it is"
    given = dict(word.partition("=")[::2] for word in words)
    given = {"data": str(data_folder(given.get("data"))), "out": "runs/speedrun"} | given
    out = Path(given["out"])
    if out.exists():
        raise UserError(f"out={out} is there already", "a new folder: the clock counts every step")
    steps = pipeline.read(RECIPES_FOLDER / "hour.yaml", [f"{key}={value}" for key, value in given.items()])
    start = time.monotonic()
    configs = {name: steps.settings(name) for name in steps.steps}
    for _ in run_steps(steps, configs, steps.steps_at_once):
        pass  # each step says on standard error how long it took
    minutes = (time.monotonic() - start) / 60
    scores = [score for step in STEPS for score in read_scores(out / step / "tables/scores.json")]
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    print(row(what, averages(scores), minutes, commit))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        print(f"speedrun: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
