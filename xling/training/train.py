"""Pre-training from a recipe with fairseq's Trainer; the only place that starts training.

During training, checkpoints and the log are in ``OUT.partial``. At the end ``OUT`` is published with
``model.pt`` (float32 weights and shape, no pickled code), the vocabulary and the log. After a kill at any
moment, the same command continues from the last good checkpoint and reaches the same weights.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from fairseq.logging import metrics
from fairseq.trainer import Trainer

from xling.core import signals
from xling.core.commands.runner import STAGES
from xling.core.errors import UserError
from xling.core.output import manifest, unfinished
from xling.core.output.command_result import Answer
from xling.core.progress import Progress, doing
from xling.models.distributed import processes
from xling.models.files import model_weights, sharded_state, training_checkpoint
from xling.models.network.encoder import choose_dtype, num_parameters
from xling.text import vocab
from xling.text.files import shards
from xling.training import cost, trackers, update
from xling.training.assemble import build_task, build_trainer, frozen_digest
from xling.training.plan import STAGE, Batches, PhasePlan, Plan, resolve
from xling.training.settings import PretrainConfig
from xling.training.update import Clock, Log, Updates

__all__ = ["run"]

assert STAGE in STAGES
SELECTED, SNAPSHOTS, SCRATCH = "selected.pt", "snapshots", "gathered"
READ_BY_PHASE = "phases.json"
Watch = Callable[[Trainer, Path], dict[str, float]]


def run(cfg: PretrainConfig | Plan, watch: Watch | None = None) -> manifest.Manifest | Answer:
    """Train and publish, or return the estimate of a dry run.

    Args:
        cfg: the plan that the check of the command has made, or the settings to make it from.
        watch: called at every validation with the trainer and ``OUT.partial``; its return value is logged. A
            model that it writes there as `SELECTED` is published instead of the last; an error that it raises
            stops the run.

    Raises:
        UserError: shards are missing or damaged, an objective or one of its settings is unknown, or a
            checkpoint in ``OUT.partial`` belongs to other settings.
    """
    plan = cfg if isinstance(cfg, Plan) else resolve(cfg)
    if plan.finished is not None:
        return plan.finished
    if plan.train.threads > 0:
        torch.set_num_threads(plan.train.threads)
    # Three warnings to silence. fairseq asks its loader for pinned memory even without an accelerator. Its
    # search for the module whose gradient is not finite uses old hooks. Loader workers are forked beside
    # fairseq's reading thread, of which Python 3.12 warns.
    messages = ("'pin_memory' argument is set as true", "Using (a )?non-full backward hook", ".*use of fork")
    for message in messages:
        warnings.filterwarnings("ignore", message=message)
    if plan.cfg.dry_run:
        with tempfile.TemporaryDirectory() as folder:
            trainer, _ = build_trainer(plan.phases[0].cfg, Path(folder))
            with update.memory_kept():
                return cost.describe(trainer, plan.train, plan.phases, build_task)
    with processes.process_group(), update.memory_kept():
        _train_and_publish(plan, watch)
        processes.wait()
    return manifest.read(plan.out)


def _train_and_publish(plan: Plan, watch: Watch | None) -> None:
    partial = plan.partial
    doing("building the model")
    trainer, task = build_trainer(plan.phases[0].cfg, partial)
    course = Course(plan.phases, trainer, partial)
    frozen = frozen_digest(trainer.get_model()) if plan.cfg.freeze != "none" else {}
    with signals.watched():
        updates, seen = _train(plan, trainer, course, watch)
    assert not frozen or frozen == frozen_digest(trainer.get_model()), (
        f"freeze={plan.cfg.freeze}: frozen weights have changed"
    )
    doing("publishing the model")
    model = trainer.get_model()
    state = _gathered(model, partial)
    if processes.rank() > 0:
        return
    with manifest.publish(plan.out, STAGE, plan.cfg, plan.inputs) as publication:
        vocab.copy_vocabulary(plan.data, publication.path)
        if (snapshots := partial / SNAPSHOTS).is_dir():
            shutil.copytree(snapshots, publication.path / SNAPSHOTS)
        shutil.copy(partial / "log.jsonl", publication.path / "log.jsonl")
        if (selected := partial / SELECTED).is_file():
            shutil.copy(selected, publication.path / "model.pt")
        else:
            model_weights.save_model(
                publication.path / "model.pt", model, course.langs(task.langs), plan.data, state
            )
        publication.counts |= {
            "updates": trainer.get_num_updates(),
            "parameters": num_parameters(model),
            "skipped_updates": updates.skipped,
            "halved_batches": updates.halved,
            "langs": course.langs(task.langs),
            "mixture": trainer.task.dataset("train").mixture(),
            "frozen": frozen,
            "seen": seen,
            "last": json.loads((partial / "log.jsonl").read_text().splitlines()[-1]),
        }
    shutil.rmtree(partial)


def _train(
    plan: Plan, trainer: Trainer, course: Course, watch: Watch | None
) -> tuple[Updates, dict[str, Any]]:
    """Make the updates from the last checkpoint to the end; return their maker and the tokens that were read."""
    train, partial = plan.train, plan.partial
    doing("opening the shards")
    partial.mkdir(parents=True, exist_ok=True)
    epoch_itr, accumulate = _resume(plan, trainer, course)
    _prepare(plan, trainer)
    log, updates = _log_and_updates(plan, trainer)
    title, saved, seen = f"pretrain {plan.cfg.out}", 0, dict[str, Any]()
    batches = Batches.of(replace(train, accumulate=accumulate), processes.size())
    clock, writer = Clock(title), training_checkpoint.Writer(partial, train.keep, accumulate)
    with contextlib.ExitStack() as stack:
        stack.enter_context(signals.resumable())
        stack.enter_context(writer)
        if plan.log != trackers.OFF and processes.rank() == 0:
            log.show = stack.enter_context(
                trackers.shown(plan.log, plan.out, plan.cfg, trainer.get_num_updates())
            )
        progress = stack.enter_context(Progress(title, train.updates, "updates"))
        progress.update(trainer.get_num_updates())
        while trainer.get_num_updates() < train.updates:
            for samples in _updates(trainer, epoch_itr, batches):
                if not updates.make(samples):
                    continue
                num_updates = trainer.get_num_updates()
                log.count(trainer, samples)
                clock.count_update(train.updates - num_updates)
                speed = log.tokens_per_s * processes.size() or None
                signals.beat(num_updates, train.updates, "updates", speed, waited_s=processes.waited_s())
                last = num_updates == train.updates
                stop = processes.agreed(bool(signals.stop_requested()))
                note = log.write_train(trainer, updates) if num_updates % train.log_every == 0 or last else ""
                progress.update(num_updates - progress.done, note)
                if num_updates % train.valid_every == 0 or last or course.ends(num_updates):
                    with signals.busy("validation"):
                        losses = validate(trainer, updates)
                        log.write_valid(trainer, losses, watch(trainer, partial) if watch else {})
                if num_updates in train.snapshots:
                    _keep_snapshot(plan, trainer, course, writer, epoch_itr)
                if phase_ends := course.ends(num_updates):
                    with signals.busy("next phase", changes_pace=True):
                        epoch_itr = course.turn(num_updates, text_seen(trainer, epoch_itr))
                if num_updates % train.save_every == 0 or last or stop or phase_ends:
                    _save(writer, trainer, epoch_itr, plan.run_key, last or stop)
                if writer.saved > saved:
                    saved = writer.saved
                    signals.beat(num_updates, train.updates, "updates", saved=saved)
                seen = text_seen(trainer, epoch_itr) if last else seen
                if stop and not last:
                    processes.wait()
                    raise signals.Stopped
                if last or phase_ends:
                    break
            else:
                epoch_itr = _next_epoch(trainer, epoch_itr)
    return updates, course.read(seen or text_seen(trainer, epoch_itr))


def _resume(plan: Plan, trainer: Trainer, course: Course) -> tuple[Any, int]:
    """Go on from the last checkpoint; with ``overwrite=true`` one of other settings is deleted first."""
    try:
        return training_checkpoint.resume(trainer, plan.partial, plan, course.enter)
    except unfinished.OtherSettingsError as error:
        if processes.rank() == 0:
            unfinished.replace(plan.partial, error)
            plan.partial.mkdir()
        elif not manifest.may_overwrite():
            raise
        processes.wait()
        return training_checkpoint.resume(trainer, plan.partial, plan, course.enter)


def _prepare(plan: Plan, trainer: Trainer) -> None:
    """Check the validation text and, before the first update, let the objectives prepare themselves."""
    trainer.task.load_dataset("valid")
    if not len(trainer.task.dataset("valid")):
        raise UserError(
            f"no validation text in {plan.data}: every language has only one document",
            fix="separate documents by blank lines, or give more text",
        )
    if not trainer.get_num_updates():
        for objective in trainer.task.objectives.values():
            around = trainer.get_criterion().around  # gathers the weights of a sharded model
            around(objective.before_first_update, trainer.get_model(), plan.train.batch_tokens)


def _log_and_updates(plan: Plan, trainer: Trainer) -> tuple[Log, Updates]:
    """Open the log of this process and the maker of updates, both restored for a resumed training."""
    rank, partial = processes.rank(), plan.partial
    log = Log(partial / (f"log-{rank}.jsonl" if rank else "log.jsonl"), trainer.get_num_updates())
    dtype, why = choose_dtype(plan.cfg.model.precision)
    log.precision = f"{str(dtype).removeprefix('torch.')}: {why}"
    updates = Updates(trainer, partial / "not-finite.pt", plan.train.max_skipped)
    updates.skipped, updates.halved = log.mishaps
    return log, updates


@signals.busy("checkpoint")
def _save(
    writer: training_checkpoint.Writer, trainer: Trainer, epoch_itr: Any, run_key: dict[str, Any], wait: bool
) -> None:
    """Write a checkpoint; every process takes part, since each may hold a shard of the weights."""
    for objective in trainer.task.objectives.values():
        objective.before_save(trainer.get_model())
    if processes.rank() == 0 or processes.is_sharded(trainer.get_model()):
        writer.save(trainer, epoch_itr, run_key)
    if wait:
        writer.wait()


@signals.busy("snapshot")
def _keep_snapshot(
    plan: Plan, trainer: Trainer, course: Course, writer: training_checkpoint.Writer, epoch_itr: Any
) -> None:
    """Write the model as it is, and the whole state if it is asked for.

    Every process takes part, since each may keep a share of the weights.
    """
    writer.wait()  # its thread sums over the processes too, and each must do so in the same order
    model, partial = trainer.get_model(), plan.partial
    out = partial / SNAPSHOTS / str(trainer.get_num_updates())
    if processes.rank() == 0:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
    if plan.train.snapshot_state:
        for objective in trainer.task.objectives.values():
            objective.before_save(model)
        if processes.rank() == 0 or processes.is_sharded(model):
            state = writer.state(trainer, epoch_itr, plan.run_key)
            training_checkpoint.put(out / Path(training_checkpoint.STATE).stem, state)
    weights = _gathered(model, partial)
    if processes.rank() > 0:
        return
    vocab.copy_vocabulary(plan.data, out)
    model_weights.save_model(out / "model.pt", model, course.langs(trainer.task.langs), plan.data, weights)
    shutil.rmtree(partial / SCRATCH, ignore_errors=True)


def _gathered(model: Any, partial: Path) -> dict[str, Any] | None:
    """Return the weights of a sharded model, which the first process maps from files; None if it is not sharded."""
    if not processes.is_sharded(model):
        return None
    weights = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("extras.")}
    return sharded_state.whole(weights, partial / SCRATCH)


def text_seen(trainer: Trainer, epoch_itr: Any) -> dict[str, Any]:
    """Return the number of epochs, and the tokens available and read by language, pair or objective.

    The tokens read are those of the current epoch times the number of epochs; draws of other epochs differ
    little.
    """
    epochs = epoch_itr.epoch - 1 + epoch_itr.used / max(epoch_itr.num_batches, 1)
    mixture = trainer.task.dataset("train").mixture()
    tokens = {
        name: {"there": there, "read": round(drawn * epochs)} for name, (there, drawn) in mixture.items()
    }
    return {"epochs": round(epochs, 4), "tokens": tokens}


class Course:
    """Control of the phases during training.

    Args:
        phases: the phases in order.
        trainer: the trainer whose task is exchanged.
        folder: where the record of read data is kept until the end.
    """

    def __init__(self, phases: Sequence[PhasePlan], trainer: Any, folder: Path) -> None:
        self._phases, self._trainer = phases, trainer
        self._file, self._current = folder / READ_BY_PHASE, 0

    def enter(self, update: int) -> None:
        """Enter the phase of the update after ``update``: another task over the same model."""
        ended = [phase.end <= update for phase in self._phases[:-1]].count(True)
        phase = self._phases[ended]
        if ended != self._current:
            task = build_task(phase.cfg)
            for entry in task.objectives.values():
                entry.fit(self._trainer.get_model().cfg)
            self._trainer.task = self._trainer.get_criterion().task = task
            task.load_dataset("valid")
        for name, theta in phase.thetas.items():
            setattr(self._trainer.get_model().encoder.cfg, name, theta)
        self._current = ended

    def ends(self, update: int) -> bool:
        """Return whether a phase, other than the last, ends with this update."""
        return any(phase.end == update for phase in self._phases[:-1])

    def langs(self, first: list[str]) -> list[str]:
        """Return all languages of the run; ``first`` are those of its first phase."""
        if len(self._phases) == 1:
            return first
        named = [
            lang
            for phase in self._phases
            for lang in phase.cfg.langs or shards.list_languages(Path(phase.cfg.data))
        ]
        return sorted({*named}, key=[*first, *named].index)

    def turn(self, update: int, seen: dict[str, Any]) -> Any:
        """Record what the current phase read, enter the next one after ``update``, and return its training iterator."""
        read = self._recorded() | {self._phases[self._current].name: seen}
        manifest.write_atomic(self._file, json.dumps(read))
        self.enter(update)
        return self._trainer.get_train_iterator(1, load_dataset=True)

    def read(self, seen: dict[str, Any]) -> dict[str, Any]:
        """Return what the whole run read: by phase, and the total epochs of each language."""
        if len(self._phases) == 1:
            return seen
        by_phase = {phase.name: self._recorded().get(phase.name, seen) for phase in self._phases[:-1]}
        return cost.in_all(by_phase | {self._phases[-1].name: seen})

    def _recorded(self) -> dict[str, Any]:
        return dict(json.loads(self._file.read_text(encoding="utf-8"))) if self._file.is_file() else {}


def _updates(trainer: Trainer, epoch_itr: Any, batches: Batches) -> Iterator[list[Any]]:
    with signals.busy("next epoch"):
        trainer.begin_epoch(epoch_itr.next_epoch_idx)
        itr = epoch_itr.next_epoch_itr()
    yield from batches.grouped(itr, trainer.get_num_updates)


@signals.busy("next epoch")
def _next_epoch(trainer: Trainer, epoch_itr: Any) -> Any:
    return trainer.get_train_iterator(epoch_itr.next_epoch_idx, load_dataset=False)


@torch.no_grad()
def validate(trainer: Trainer, updates: Updates) -> dict[str, float]:
    """Return the mean validation loss in nats, over all and by language, as ``loss`` and ``loss_<lang>``."""
    iterator, dataset = trainer.get_valid_iterator("valid"), trainer.task.dataset("valid")
    with metrics.aggregate(new_root=True) as seen:
        for number, sample in enumerate(iterator.next_epoch_itr(shuffle=False)):
            if not sample:  # the batch of the first process stands for it, which is of the same objective
                like = iterator.frozen_batches[number * processes.size()]
                trainer.reset_dummy_batch(dataset.collater([dataset[int(i)] for i in like]))
            updates.measure(sample)
    return {key: float(value) for key, value in seen.get_smoothed_values().items() if key.startswith("loss")}
