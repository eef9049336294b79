"""Updates that go wrong: losses that are not finite, batches that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from xling.core.errors import UserError
from xling.objectives.base import OBJECTIVES
from xling.training import train, update
from xling.training.update import SafeTrainer, Updates, is_out_of_memory


@pytest.fixture
def parts(build: Any, tmp_path: Path) -> tuple[Any, Any, Any]:
    """Trainer, dataset and batches of TLM and XLCO summed."""
    trainer, task = build("tlm+xlco", "mix=sum", "objectives.xlco.mix=0", "model.dropout=0")
    task.load_dataset("train")
    trainer.lr_step(1)
    dataset = task.dataset("train")
    return trainer, dataset, dataset.batch_by_size(dataset.ordered_indices(), max_tokens=256)


def sample_of(dataset: Any, batch: Any) -> Any:
    return dataset.collater([dataset[int(i)] for i in batch])


def weights(trainer: Any) -> dict[str, torch.Tensor]:
    return {k: v.clone() for k, v in trainer.get_model().state_dict().items()}


def poison(monkeypatch: pytest.MonkeyPatch, name: str, when: Any) -> None:
    original = OBJECTIVES[name].loss

    def loss(self: Any, model: Any, sample: Any) -> Any:
        made = original(self, model, sample)
        return made._replace(total=made.total * torch.nan) if when() else made

    monkeypatch.setattr(OBJECTIVES[name], "loss", loss)


def test_a_step_that_is_not_finite_leaves_everything_as_it_was(
    parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, dataset, batches = parts
    updates = Updates(trainer, tmp_path / "dump.pt", limit=3)
    assert updates.make([sample_of(dataset, batches[0])])
    before = weights(trainer)
    with monkeypatch.context() as patch:
        poison(patch, "tlm", lambda: True)
        assert not updates.make([sample_of(dataset, batches[1])])
    after = weights(trainer)
    assert not [key for key in before if not torch.equal(before[key], after[key])]
    assert (updates.skipped, trainer.get_num_updates()) == (1, 1)
    assert updates.make([sample_of(dataset, batches[1])])
    filled = int(trainer.get_model().extras["xlco"].position[1])
    pairs = [i for batch in batches[:2] for i in batch if i >= dataset._offsets[1]]
    assert filled == min(len(pairs), 64)


def test_training_goes_on_after_a_skip_and_counts_it(
    recipe: Any, bitext: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(1000))
    poison(monkeypatch, "mmlm", lambda: next(calls) == 1)
    made = train.run(recipe(bitext, "mmlm", tmp_path / "out"))
    assert made.counts["updates"] == 3
    assert made.counts["skipped_updates"] == 1
    events = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert [e["skipped_updates"] for e in events if e["split"] == "train"] == [0, 1, 1]


def test_training_stops_after_a_limit_and_keeps_the_batch(
    recipe: Any, bitext: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, "mmlm", lambda: True)
    with pytest.raises(UserError, match="not finite after 0 updates, 2 times in a row"):
        train.run(recipe(bitext, "mmlm", tmp_path / "out", "train.max_skipped=2"))
    dumped = torch.load(tmp_path / "out.partial" / "not-finite.pt", weights_only=True)
    assert dumped["update"] == 0
    assert dumped["samples"][0]["net_input"]["src_tokens"].dim() == 1
    assert not list(tmp_path.rglob("crash.pt"))


def full_memory(
    monkeypatch: pytest.MonkeyPatch, name: str, limit: int, error: Exception, training: bool = True
) -> None:
    original = OBJECTIVES[name].loss

    def loss(self: Any, model: Any, sample: Any) -> Any:
        if sample["nsentences"] > limit and model.training == training:
            raise error
        return original(self, model, sample)

    monkeypatch.setattr(OBJECTIVES[name], "loss", loss)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
        MemoryError("Unable to allocate 8 GiB"),
    ],
)
def test_a_batch_that_does_not_fit_is_halved_with_the_same_gradient(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    results = []
    for limit in (1000, 2):
        trainer, task = build("tlm", "model.dropout=0", "train.batch_tokens=512")
        task.load_dataset("train")
        trainer.lr_step(1)
        dataset = task.dataset("train")
        batch = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=512)[0]
        assert 4 < len(batch) <= 32
        updates = Updates(trainer, tmp_path / "dump.pt", limit=3)
        with monkeypatch.context() as patch:
            full_memory(patch, "tlm", limit, error)
            assert updates.make([sample_of(dataset, batch)])
        results.append((weights(trainer), updates.halved, trainer.get_num_updates()))
    (whole, none, one), (split, some, also_one) = results
    assert (none, one, also_one) == (0, 1, 1)
    assert some >= 3
    for key, value in whole.items():
        torch.testing.assert_close(split[key], value, rtol=2e-3, atol=2e-5, msg=key)


def data_of(build: Any, names: str, *words: str) -> tuple[Any, Any, Any]:
    """Trainer, dataset and batches of a task."""
    trainer, task = build(names, *words)
    task.load_dataset("train")
    trainer.lr_step(1)
    dataset = task.dataset("train")
    return trainer, dataset, dataset.batch_by_size(dataset.ordered_indices(), max_tokens=256)


@pytest.mark.parametrize("names", ["mmlm", "mmlm+xlco"])
def test_an_empty_batch_behind_others_changes_nothing(build: Any, tmp_path: Path, names: str) -> None:
    """A process that has a batch less than others at the end of an epoch; fairseq forgot what it had counted."""
    made = []
    for more in ([], [{}]):
        trainer, dataset, batches = data_of(build, names, "mix=sum", "model.dropout=0.2")
        trainer.reset_dummy_batch(sample_of(dataset, batches[0]))
        updates = Updates(trainer, tmp_path / "dump.pt", limit=3)
        for batch in batches[:2]:
            assert updates.make([sample_of(dataset, batch), *more])
        made.append(weights(trainer))
    assert not [key for key, value in made[0].items() if not torch.equal(made[1][key], value)]


def test_a_batch_draws_the_same_dropout_in_whichever_process_it_is(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, dataset, batches = data_of(build, "mmlm", "model.dropout=0.3")
    updates = Updates(trainer, tmp_path / "dump.pt", limit=3)

    def summed(rank: int, size: int, *numbers: int) -> dict[str, torch.Tensor]:
        """The gradients that one of ``size`` processes adds up."""
        monkeypatch.setattr(SafeTrainer, "data_parallel_world_size", size)
        monkeypatch.setattr(SafeTrainer, "data_parallel_rank", rank)
        trainer._set_seed()
        trainer.zero_grad()
        for sample in updates._numbered([sample_of(dataset, batches[number]) for number in numbers]):
            trainer.task.train_step(sample, trainer.model, trainer.criterion, trainer.optimizer, 0)
        return {n: p.grad.clone() for n, p in trainer.get_model().named_parameters() if p.grad is not None}

    one, first, second = summed(0, 1, 0, 1, 2, 3), summed(0, 2, 0, 2), summed(1, 2, 1, 3)
    for name, value in one.items():
        torch.testing.assert_close(first[name] + second[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_keys_are_queued_in_the_order_of_the_batches(build: Any) -> None:
    trainer, _ = build("xlco", "model.dropout=0")
    state = trainer.get_model().extras["xlco"]
    state.pending = [(place, torch.full((2, state.queue.shape[1]), float(place))) for place in (2, 0, 1)]
    trainer.task.objectives["xlco"].after_update(trainer.get_model())
    assert state.queue[:6, 0].tolist() == [0, 0, 1, 1, 2, 2] and not state.pending


def gradients(trainer: Any, task: Any, samples: list[Any]) -> dict[str, torch.Tensor]:
    model = trainer.get_model()
    model.train()
    model.zero_grad()
    divisor = 0
    for sample in samples:
        total, num, _ = trainer.criterion(model, sample)
        total.backward()
        divisor += num
    return {name: p.grad / divisor for name, p in model.named_parameters() if p.grad is not None}


def test_parts_of_a_mixed_batch_weigh_what_they_did_in_it(build: Any, tmp_path: Path) -> None:
    # Many short blocks beside few long pairs: after some halving a part holds no pair at all.
    words = ("mix=sum", "model.dropout=0", "objectives.mmlm.tokens_per_sample=16", "objectives.tlm.weight=2")
    trainer, task = build("mmlm+tlm", *words)
    task.load_dataset("train")
    dataset, updates = task.dataset("train"), Updates(trainer, tmp_path / "dump.pt", limit=3)
    batch = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=128)[0]
    samples = [sample_of(dataset, batch)]
    wanted = gradients(trainer, task, samples)
    for _ in range(3):
        samples = [half for sample in samples for half in updates._halves(sample, "train")]
        found = gradients(trainer, task, samples)
        for name, gradient in wanted.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-6, msg=name)
    assert {len(sample["parts"]) for sample in samples} == {1, 2}


@pytest.mark.parametrize("num", [3, 4])
def test_a_part_of_one_example_waits_for_the_others_to_be_halved(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num: int
) -> None:
    trainer, task = build("mmlm")
    task.load_dataset("train")
    trainer.lr_step(1)
    dataset = task.dataset("train")
    batch = dataset.batch_by_size(dataset.ordered_indices(), max_sentences=num)[0]
    assert len(batch) == num
    full_memory(monkeypatch, "mmlm", 1, MemoryError("out of memory"))
    assert Updates(trainer, tmp_path / "dump.pt", limit=3).make([sample_of(dataset, batch)])


def test_validation_halves_what_does_not_fit_and_finds_the_same_loss(
    recipe: Any, bitext: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, halved, given_back = [], [], []
    monkeypatch.setattr(update, "give_back", lambda: given_back.append(1))
    for limit in (1000, 2):
        with monkeypatch.context() as patch:
            full_memory(patch, "tlm", limit, torch.OutOfMemoryError("out of memory"), training=False)
            out = tmp_path / str(limit)
            made = train.run(recipe(bitext, "tlm", out))
        events = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        found.append(next(event["loss"] for event in events if event["split"] == "valid"))
        halved.append(made.counts["halved_batches"])
    assert found[1] == pytest.approx(found[0], abs=1e-3) and halved[0] == 0 < halved[1]
    assert len(given_back) == halved[1] + 2, "before every try in halves, and at the end of both runs"
    with monkeypatch.context() as patch:
        full_memory(patch, "tlm", 0, torch.OutOfMemoryError("out of memory"), training=False)
        with pytest.raises(UserError, match="out of memory with a batch of one example"):
            train.run(recipe(bitext, "tlm", tmp_path / "none"))


def test_one_example_that_does_not_fit_is_the_users_to_mend(
    parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, dataset, batches = parts
    full_memory(monkeypatch, "tlm", 0, torch.OutOfMemoryError("out of memory"))
    with pytest.raises(UserError, match="out of memory with a batch of one example"):
        Updates(trainer, tmp_path / "dump.pt", limit=3).make([sample_of(dataset, batches[0])])


def test_other_errors_pass_and_leave_no_crash_file(
    recipe: Any, bitext: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_memory(monkeypatch, "mmlm", 0, KeyError("a mistake of ours"))
    with pytest.raises(KeyError, match="a mistake of ours"):
        train.run(recipe(bitext, "mmlm", tmp_path / "out"))
    assert not list(tmp_path.rglob("crash.pt"))
    assert not is_out_of_memory(ValueError("shape"))
