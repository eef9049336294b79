"""Recipes from text to a table and `xling watch`, killed by SIGKILL at many moments: what they end in is the same."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from static_helpers import by_hand, classified, tagged, texts

from tests.killed import attempts
from xling.core.commands import pipeline
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.eval.rows.suite import Example

TRAIN = ("updates=4", "warmup=1", "batch_tokens=256", "log_every=2", "valid_every=2", "save_every=2")
MOMENTS, STRIDE = 40, 3
"""Each attempt dies three renames later: after one, before the next."""
SAME = ("*.jsonl", "*.txt", "bits.json", "scores.json", "grid.csv", "claims.csv", "watch.csv", "model.pt")
"""Files that say nothing of times and places; logs are no part of them."""
DIGEST = re.compile(rb"checkpoint:\w+")


def written(folder: Path, suite: str, name: str, rows: Sequence[Example], labels: dict[str, str]) -> None:
    place = folder / "rows" / suite
    place.mkdir(parents=True, exist_ok=True)
    lines = []
    for row in rows:
        label = labels[row.label] if isinstance(row.label, str) else [labels.get(x, x) for x in row.label]
        lines.append(json.dumps({"id": row.id, "fields": dict(row.fields), "label": label}) + "\n")
    (place / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text in two made-up languages, which stand for English and German, and rows of three suites."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "mono").mkdir()
    for lang, words, seed in (("en", "xz", 1), ("de", "qw", 2)):
        lines = "".join(f"{text}\n" for text in texts(words, 900, seed)[0])
        (folder / f"mono/cv.{lang}.txt.gz").write_bytes(gzip.compress(lines.encode()))
        for number, split in enumerate(("train", "dev", "test")):
            rows = classified(words, 130 if split == "train" else 30, 10 + seed + 10 * number)
            written(folder, "sib200", f"{lang}.{split}", rows, {"low": "politics", "high": "sports"})
            tags = tagged(words, 40 if split == "train" else 30, 40 + seed + 10 * number)
            written(folder, "udpos", f"{lang}.{split}", tags, {"B-X": "NOUN", "I-X": "NOUN", "O": "VERB"})
            written(folder, "panx", f"{lang}.{split}", tags, {"B-X": "B-PER", "I-X": "I-PER"})
    return folder


def small(*steps: str) -> list[str]:
    return [f"{step}.train.{setting}" for step in steps for setting in TRAIN]


def rosita(data: Path, out: Path, model: Path) -> list[str]:
    words = [
        "sweep.scale=alone,close",
        "seed=1",
        "mb=0.02",
        "size=55",
        "updates=4",
        "twice=4",
        "rows=20",
        "dim=32",
    ]
    shape = ["ffn=64", "text.test=20", "other_text.test=20", "features.fit.epochs=1", "tuned.fit.epochs=1"]
    return ["run", "rosita", f"data={data}", f"out={out}", *words, *shape, *small("model")[1:]]


def multifit(data: Path, out: Path, model: Path) -> list[str]:
    teacher = (
        by_hand(out.parent / "teacher") if not (out.parent / "teacher").exists() else out.parent / "teacher"
    )
    words = [
        "lang=de",
        f"teacher={teacher}",
        "pieces=40",
        "dim=32",
        "ffn=64",
        "layers=1",
        "per_class=5",
        "folds=2",
    ]
    more = ["seeds=1", "epochs=3", "updates=4", "task_updates=4", *small("lm")[1:], *small("task_lm")[1:]]
    return ["run", "multifit_student", f"data={data}", f"out={out}", *words, *more]


def watch(data: Path, out: Path, model: Path) -> list[str]:
    words = ["suites=sib200", "langs=de", "seeds=1,2", "fit.epochs=1"]
    return ["watch", str(model), f"data={data}", f"out={out}/watch", *words]


MODULES = "polars,scipy.stats,torch,xling.eval.run.evaluation,xling.objectives,xling.training.train"


def contents(out: Path) -> dict[str, bytes]:
    """The bytes of what is compared; a signature's digest of a checkpoint tells its log, and so its times, too."""
    paths = [path for pattern in SAME for path in out.rglob(pattern) if path.name != "log.jsonl"]
    return {str(p.relative_to(out)): DIGEST.sub(b"", p.read_bytes()) for p in sorted(paths)}


def test_every_cell_of_rosita_learns_and_is_tested_on_the_same_first_text() -> None:
    cells = [
        pipeline.read(pipeline.recipes()["rosita"], [f"scale={scale}"])
        for scale in ("alone", "close", "distant")
    ]
    read = [
        (cell.settings("text"), cell.settings("shards").corpora["en"], cell.settings("bits").text)
        for cell in cells
    ]
    assert read[0] == read[1] == read[2]
    assert cells[0].settings("text").second == "", (
        "the lines in common with another file would differ by cell"
    )


def test_settings_of_fine_tuning_that_do_not_go_together_are_told_before_the_first_step() -> None:
    with pytest.raises(UserError, match=r"fit.unfreeze_epochs=3.0; valid: 0 to fit.epochs=2"):
        pipeline.merge_pipelines([pipeline.read(pipeline.recipes()["multifit_student"], ["epochs=2"])])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("recipe", [rosita, multifit, watch])
def test_killed_at_many_moments_it_ends_in_the_same_table(
    recipe: Callable[..., list[str]], data: Path, model: Path, tmp_path: Path
) -> None:
    words = recipe(data, tmp_path / "out", model)
    calm = tmp_path / "out", tmp_path / "undisturbed"
    code, deaths = attempts(words, MODULES, MOMENTS, STRIDE, calm)
    wanted = contents(tmp_path / "undisturbed")
    assert any(name.endswith("scores.json") for name in wanted)
    assert code == 0 and deaths > 1
    assert contents(tmp_path / "out") == wanted
    made = [path.parent for path in (tmp_path / "out").rglob(manifest.FILE_NAME)]
    assert all(manifest.verify(folder) for folder in made)
