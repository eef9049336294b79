"""Examples and losses stay what they were: a training that goes on after an upgrade reads the same examples.

For every objective, as it is and with one setting changed at a time, and for mixtures, `recorded.json` has a digest of
batches and examples of two epochs and the loss of a fresh model. After a change that is meant, write the file anew with
``pytest tests/objectives/test_recorded.py --record``, and say in the changelog what has changed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from xling.core.errors import UserError
from xling.core.settings.values import RANGE
from xling.objectives import OBJECTIVES
from xling.objectives.base import TaskConfig
from xling.objectives.mmlm import MaskConfig
from xling.objectives.multi import MultiConfig

FILE = Path(__file__).with_name("recorded.json")
# Where an example of a mixture of languages comes from is in `tests/data`; paths and seeds are no choice.
LEFT_OUT = {"data", "langs", "seed", "pairs"} | (
    {field.name for field in dataclasses.fields(TaskConfig)} - {"alpha"}
)
MIXES = ["+".join((*e.trial.mixed_with, name)) for name, e in OBJECTIVES.items() if e.trial.mixed_with]
EVERY = [*OBJECTIVES, *MIXES]


def choices(config: Any, name: str) -> tuple[str, ...]:
    """The words that a setting may have; none where there is no such setting."""
    (found,) = [field.metadata[RANGE] for field in dataclasses.fields(config) if field.name == name] or [()]
    return tuple(found)


WORDS = (*choices(MaskConfig, "mask_unit"), "mean", "batch")


def changes(name: str) -> Iterator[str]:
    """The empty change, then every setting of an objective with another value, or every mode of a mixture."""
    yield ""
    if "+" in name:
        last = name.split("+")[-1]
        for mode in choices(MultiConfig, "mode"):
            yield f"mix={mode} objectives.{last}.weight=0.5 objectives.{last}.schedule=0:1,4:3"
        return
    entry = OBJECTIVES[name]
    styles = choices(entry.config, "style")
    for field in dataclasses.fields(entry.config):
        if field.name in LEFT_OUT or field.name in entry.trial.settings or field.name.startswith("_"):
            continue
        if isinstance(field.default, bool):
            yield f"{field.name}={str(not field.default).lower()}"
        elif isinstance(field.default, float):
            yield f"{field.name}={0.5 if field.default != 0.5 else 0.25}"
        elif isinstance(field.default, int):
            yield f"{field.name}={3 if field.default != 3 else 2}"
        elif isinstance(field.default, str) and field.default:
            yield from (f"{field.name}={word}" for word in (*styles, *WORDS) if word != field.default)


def plain(value: Any) -> Any:
    """Arrays and tensors as lists, at any depth."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, (np.ndarray, torch.Tensor, np.generic)) else value


def facts(task: Any) -> Iterator[Any]:
    """Batches, examples and counts of two epochs of training and of validation."""
    for split, epochs in (("train", (1, 2)), ("valid", (0,))):
        task.load_dataset(split)
        dataset = task.dataset(split)
        for epoch in epochs:
            dataset.set_epoch(epoch)
            windows = list(dataset.windows(256))
            batches = [batch for _, some in windows for batch in some]
            yield plain([split, epoch, dataset.sizes, windows, dataset.epoch_tokens(), dataset.mixture()])
            for batch in (batches[0], batches[-1]):
                yield plain([dataset[int(i)] for i in batch])
                for some in (batch, *dataset.halves(batch)):
                    yield plain(dataset.collater([dataset[int(i)] for i in some]))


def losses_of(trainer: Any, task: Any) -> Iterator[float]:
    """The loss of a fresh model on two batches, whole and by language, and what `combine` makes of it, nats."""
    model, dataset = trainer.get_model(), task.dataset("train")
    dataset.set_epoch(1)
    for number, batch in enumerate(dataset.batch_by_size(dataset.ordered_indices(), max_tokens=256)[:2]):
        torch.manual_seed(3)
        task.num_updates = 2 * number
        sample = dataset.collater([dataset[int(i)] for i in batch])
        losses = task.losses(model, sample)
        total, divisor = task.combine(losses, sample)
        yield from (float(total.detach()) / max(divisor, 1), float(divisor))
        for loss in losses.values():
            yield from torch.bincount(loss.langs.cpu(), loss.rows.detach().float().cpu()).tolist()


def described(name: str, change: str, build: Any) -> list[Any]:
    """A digest of the examples, then the losses; a word alone if the setting is refused."""
    changed = [word if "+" in name else f"objectives.{name}.{word}" for word in change.split()]
    try:
        trainer, task = build(name, "model.dropout=0", *changed)
        digest = hashlib.sha256(json.dumps(list(facts(task))).encode()).hexdigest()[:12]
        is_written = any(OBJECTIVES[single].trial.makes_sources for single in name.split("+"))
        return [digest, *([] if is_written else (float(f"{loss:.5g}") for loss in losses_of(trainer, task)))]
    except UserError:
        return ["refused"]


@pytest.mark.parametrize("name", EVERY)
def test_examples_and_losses_are_those_that_were_recorded(
    name: str, build: Any, pytestconfig: pytest.Config
) -> None:
    recorded = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    now = {change: described(name, change, build) for change in changes(name)}
    if pytestconfig.getoption("--record"):
        lines = [
            f"{json.dumps(key)}: {json.dumps(known)}"
            for key, known in sorted((recorded | {name: now}).items())
        ]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        return
    assert now.keys() == recorded[name].keys()
    for change, (digest, *losses) in now.items():
        assert digest == recorded[name][change][0], f"examples of {name} {change}"
        assert losses == pytest.approx(recorded[name][change][1:], rel=2e-3, abs=2e-3), f"{name} {change}"
    assert now[""] != ["refused"]


def test_what_is_recorded_is_an_objective() -> None:
    assert set(json.loads(FILE.read_text(encoding="utf-8"))) == set(EVERY)
