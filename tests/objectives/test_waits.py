"""No objective waits for its GPU between the batches of an update."""

from __future__ import annotations

from typing import Any

import pytest

from tests.objectives import waits
from xling.models.network import attention, loss
from xling.objectives import OBJECTIVES

WRITES = (
    "umt",
)  # it translates with the model, step by step, and asks after each whether all sentences have ended


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the limits of a GPU."""
    for limits in (loss.ALIGNMENT, loss.BLOCK_BYTES, loss.CHUNK_BYTES):
        monkeypatch.setitem(limits, waits.GPU, limits["cuda"])


def batches(task: Any, num: int) -> list[Any]:
    task.load_dataset("train")
    dataset = task.dataset("train")
    chosen = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=256)[:num]
    samples = [dataset.collater([dataset[int(i)] for i in batch]) for batch in chosen]
    return [waits.moved(sample) | {"place": place} for place, sample in enumerate(samples)]


# Attention that is not fused is the same for all: one encoder and one decoder.
@pytest.mark.parametrize(
    ("name", "fused"),
    [*((name, True) for name in OBJECTIVES if name not in WRITES), ("mmlm", False), ("translation", False)],
)
def test_a_batch_is_computed_without_waiting_for_the_gpu(
    name: str, fused: bool, build: Any, monkeypatch: pytest.MonkeyPatch, gpu: None
) -> None:
    if fused:
        monkeypatch.setattr(
            attention, "is_unpadded", lambda query, how: how.sees is None and how.bias is None
        )
        monkeypatch.setattr(attention, "_flash_attention", lambda query, *given, **named: query * 1)
    trainer, task = build(name)
    model = trainer.get_model()
    waits.put(model)
    for sample in batches(task, 2):  # the first of a run may move what stays on the GPU
        with waits.Waits() as noted:
            task.train_step(sample, model, trainer.get_criterion(), trainer.optimizer, 1)
            task.objectives[name].after_update(model)
    assert not noted.seen, "\n".join(noted.seen)


def test_an_update_waits_once_for_the_norm_and_once_for_the_losses(build: Any, gpu: None) -> None:
    trainer, task = build("mmlm", "train.optimizer=stable_adamw")  # torch's own refuses this GPU
    waits.put(trainer.get_model())
    samples = batches(task, 3)
    with waits.Waits() as noted:
        trainer.train_step(samples)
    lines = [line.rpartition("/xling/")[2].partition(":")[0] for line in noted.seen]
    assert lines == ["models/optim/adamw.py", "objectives/base.py"], "\n".join(noted.seen)
