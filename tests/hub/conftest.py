"""Fine-tuned models of every kind on the tiny model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.tuning import fine_tune
from xling.core.output import manifest
from xling.models.files import model_weights
from xling.transfer import tune
from xling.transfer.settings import TuneConfig

LABELS = ("no", "yes", "maybe")


@dataclass
class Row:
    id: str
    fields: dict[str, Any]
    label: Any


ROWS = {
    "classify": [
        Row(str(i), {"text": text}, LABELS[i % 3])
        for i, text in enumerate(("a red boat", "two books", "บ้านหลังเล็ก", "the small house at home"))
    ],
    "pair": [
        Row(str(i), {"text_a": a, "text_b": b}, LABELS[i % 3])
        for i, (a, b) in enumerate((("a red boat", "two"), ("", "books"), ("جارتي", "my neighbour")))
    ],
    "span": [
        Row(str(i), {"context": context, "question": question}, ((answer, context.index(answer)),))
        for i, (context, question, answer) in enumerate(
            (
                ("The old woman sees a red boat near the river.", "What does she see?", "a red boat"),
                ("หญิงชราเห็นเรือสีแดงใกล้แม่น้ำ", "", "เรือสีแดง"),
                ("  جارتي تبيع\u200f خبزا 👩‍👧 طازجا  ", "ماذا تبيع؟", "خبزا"),
            )
        )
    ],
    "choice": [
        Row(str(i), {"premise": premise, "question": asked, "choices": choices}, i % 2)
        for i, (premise, asked, choices) in enumerate(
            (
                ("My neighbour sells bread.", "cause", ("She wants two books.", "at home")),
                ("", "effect", ("the long letter", "")),
            )
        )
    ],
    "intent_slots": [
        Row("0", {"tokens": ("two", "books")}, ("no", ("yes", "maybe"))),
    ],
    "tag": [
        Row(str(i), {"tokens": words}, tuple(LABELS[len(w) % 3] for w in words))
        for i, words in enumerate((("My", "neighbour", "sees"), ("books",), ("البيت", "الصغير", "x-y")))
    ],
}


def tuned_from(model: Path, folder: Path, kind: str, **settings: Any) -> tune.TunedModel:
    """Fine-tune a published model for a task and publish the result in ``folder``."""
    cfg = TuneConfig(
        **{"epochs": 1, "lr": 1e-2, "batch_rows": 2, "max_length": 64, "precision": "fp32"} | settings
    )
    labels = (*(f"intent:{name}" for name in LABELS), *LABELS) if kind == "intent_slots" else LABELS
    labels = () if kind in ("span", "choice") else labels
    tuned = fine_tune(model, kind, labels, ROWS[kind], cfg)[-1]  # type: ignore[arg-type]
    with manifest.publish(folder, "finetune", cfg, [model]) as out:
        tune.save_tuned(tuned, out.path, model, model_weights.load_model(model)[1])
    return tuned


@pytest.fixture
def task(model: Path, tmp_path: Path) -> Callable[..., tuple[tune.TunedModel, Path, list[Any]]]:
    """``task(kind, **settings)``: a fine-tuned model, where it is published, and rows it has seen."""

    def made(kind: str, **settings: Any) -> tuple[tune.TunedModel, Path, list[Any]]:
        folder = tmp_path / "task"
        return tuned_from(model, folder, kind, **settings), folder, ROWS[kind]

    return made


@pytest.fixture
def copied(foreign: Path, tmp_path: Path) -> Path:
    """A copy, to be harmed, of the foreign model that the module makes."""
    shutil.copytree(foreign, tmp_path / "copy")
    return tmp_path / "copy"
