"""Pre-training from a recipe with fairseq's Trainer; the only place that starts training.

During training, checkpoints and the log are in ``OUT.partial``. At the end ``OUT`` is published with
``model.pt`` (float32 weights and shape, no pickled code), the vocabulary and the log. After a kill at any
moment, the same command continues from the last good checkpoint and reaches the same weights.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from fairseq.logging import metrics
from fairseq.trainer import Trainer

from xling.core import signals
from xling.core.commands.runner import STAGES
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.answer import Answer
from xling.core.progress import Progress
from xling.core.settings import config
from xling.models.distributed import processes
from xling.models.files import model_weights, sharded_state, training_checkpoint
from xling.models.network.encoder import choose_dtype, num_parameters
from xling.text import vocab
from xling.training import branch, cost, memory, phases, track
from xling.training.assemble import build_task, build_trainer, frozen_digest
from xling.training.batches import Batches
from xling.training.checks import STAGE, inputs_of
from xling.training.log import Clock, Log
from xling.training.phases import Course
from xling.training.settings import PretrainConfig
from xling.training.update import Updates

__all__ = ["run"]

assert STAGE in STAGES
SELECTED, SNAPSHOTS, SCRATCH = "selected.pt", "snapshots", "gathered"
Watch = Callable[[Trainer, Path], dict[str, float]]


def run(cfg: PretrainConfig, watch: Watch | None = None) -> manifest.Manifest | Answer:
    """Train and publish, or return the plan of a dry run.

    Args:
        cfg: settings.
        watch: called at every validation with the trainer and ``OUT.partial``; its return value is logged. A
            model that it writes there as `SELECTED` is published instead of the last; an error that it raises
            stops the run.

    Raises:
        UserError: shards are missing or damaged, an objective or one of its settings is unknown, or a
            checkpoint in ``OUT.partial`` belongs to other settings.
    """
    track.check(cfg.log)
    log, cfg = cfg.log, replace(cfg, log="none")  # does not change the output
    out = Path(cfg.out)
    published, inputs = inputs_of(cfg)
    inputs += branch.checked(cfg)
    if not cfg.dry_run and (done := manifest.up_to_date(out, STAGE, cfg, inputs)):
        return done
    for path in published:
        manifest.verify(path)
    if cfg.train.threads > 0:
        torch.set_num_threads(cfg.train.threads)
    # Three warnings to silence. fairseq asks its loader for pinned memory even without an accelerator. Its
    # search for the module whose gradient is not finite uses old hooks. Loader workers are forked beside
    # fairseq's reading thread, of which Python 3.12 warns.
    messages = ("'pin_memory' argument is set as true", "Using (a )?non-full backward hook", ".*use of fork")
    for message in messages:
        warnings.filterwarnings("ignore", message=message)
    if cfg.dry_run:
        whole, parts = phases.planned(branch.from_there(cfg))
        with tempfile.TemporaryDirectory() as folder:
            trainer, _ = build_trainer(parts[0].cfg, Path(folder))
            with memory.kept():
                return cost.describe(trainer, whole.train, parts, build_task)
    with processes.process_group(), memory.kept():
        _train_and_publish(cfg, out, inputs, watch, log)
        processes.wait()
    return manifest.read(out)


def _train_and_publish(
    cfg: PretrainConfig, out: Path, inputs: list[Path], watch: Watch | None, log: str
) -> None:
    partial, data = out.with_name(f"{out.name}.partial"), Path(cfg.data)
    run_key = {
        "config": config.to_dict(cfg),
        "data": {str(path): manifest.content_digest(path) for path in inputs},
    }
    given = cfg  # the next start compares its settings with these
    cfg, parts = phases.planned(branch.from_there(cfg), processes.size())
    trainer, task = build_trainer(parts[0].cfg, partial)
    course = Course(parts, trainer, build_task, partial)
    frozen = frozen_digest(trainer.get_model()) if cfg.freeze != "none" else {}
    with signals.watched():
        updates, seen = _train(cfg, trainer, course, partial, run_key, watch, log)
    assert not frozen or frozen == frozen_digest(trainer.get_model()), (
        f"freeze={cfg.freeze}: frozen weights have changed"
    )
    model = trainer.get_model()
    state = _gathered(model, partial)
    if processes.rank() > 0:
        return
    with manifest.publish(out, STAGE, given, inputs) as publication:
        vocab.copy_vocabulary(data, publication.path)
        if (kept := partial / SNAPSHOTS).is_dir():
            shutil.copytree(kept, publication.path / SNAPSHOTS)
        shutil.copy(partial / "log.jsonl", publication.path / "log.jsonl")
        if (selected := partial / SELECTED).is_file():
            shutil.copy(selected, publication.path / "model.pt")
        else:
            model_weights.save_model(
                publication.path / "model.pt", model, course.langs(task.langs), data, state
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
    cfg: PretrainConfig,
    trainer: Trainer,
    course: Course,
    partial: Path,
    run_key: dict[str, Any],
    watch: Watch | None,
    log_to: str,
) -> tuple[Updates, dict[str, Any]]:
    partial.mkdir(parents=True, exist_ok=True)
    epoch_itr, accumulate = training_checkpoint.resume(trainer, partial, run_key, cfg, course.enter)
    _prepare(cfg, trainer)
    log, updates = _accounts(cfg, trainer, partial)
    title, told, seen = f"pretrain {cfg.out}", 0, dict[str, Any]()
    batches = Batches.of(replace(cfg.train, accumulate=accumulate), processes.size())
    clock, writer = Clock(title), training_checkpoint.Writer(partial, cfg.train.keep, accumulate)
    shown = track.shown(
        log_to if processes.rank() == 0 else "none", Path(cfg.out), cfg, trainer.get_num_updates()
    )
    with (
        signals.resumable(),
        writer,
        shown as log.show,
        Progress(title, cfg.train.updates, "updates") as progress,
    ):
        progress.update(trainer.get_num_updates())
        while trainer.get_num_updates() < cfg.train.updates:
            for samples in _updates(trainer, epoch_itr, batches):
                if not updates.make(samples):
                    continue
                done = trainer.get_num_updates()
                log.count(trainer, samples)
                clock.count_update(cfg.train.updates - done)
                speed = log.tokens_per_s * processes.size() or None
                signals.beat(done, cfg.train.updates, "updates", speed, waited_s=processes.waited_s())
                last = done == cfg.train.updates
                stop = processes.agreed(bool(signals.stop_requested()))
                if done % cfg.train.log_every == 0 or last:
                    progress.update(done - progress.done, log.write_train(trainer, updates))
                if done % cfg.train.valid_every == 0 or last or course.ends(done):
                    with signals.busy("validation"):
                        losses = validate(trainer, updates)
                        log.write_valid(trainer, losses, watch(trainer, partial) if watch else {})
                if done in cfg.train.snapshots:
                    _keep_snapshot(cfg, trainer, course, partial, (writer, epoch_itr, run_key))
                if turns := course.ends(done):
                    with signals.busy("next phase", changes_pace=True):
                        epoch_itr = course.turn(done, text_seen(trainer, epoch_itr))
                if done % cfg.train.save_every == 0 or last or stop or turns:
                    _save(writer, trainer, epoch_itr, run_key, last or stop)
                if writer.saved > told:
                    told = writer.saved
                    signals.beat(done, cfg.train.updates, "updates", saved=told)
                seen = text_seen(trainer, epoch_itr) if last else seen
                if stop and not last:
                    processes.wait()
                    raise signals.Stopped
                if last or turns:
                    break
            else:
                epoch_itr = _next_epoch(trainer, epoch_itr)
    return updates, course.read(seen or text_seen(trainer, epoch_itr))


def _prepare(cfg: PretrainConfig, trainer: Trainer) -> None:
    """Check the validation text and, before the first update, let the objectives prepare themselves."""
    _check_validation(cfg, trainer)
    if not trainer.get_num_updates():
        for objective in trainer.task.objectives.values():
            around = trainer.get_criterion().around  # gathers the weights of a sharded model
            around(objective.before_first_update, trainer.get_model(), cfg.train.batch_tokens)


def _check_validation(cfg: PretrainConfig, trainer: Trainer) -> None:
    trainer.task.load_dataset("valid")
    if not len(trainer.task.dataset("valid")):
        raise UserError(
            f"no validation text in {cfg.data}: every language has only one document",
            fix="separate documents by blank lines, or give more text",
        )


def _accounts(cfg: PretrainConfig, trainer: Trainer, partial: Path) -> tuple[Log, Updates]:
    """Open the log of this process and the maker of updates, both restored for a resumed training."""
    rank = processes.rank()
    log = Log(partial / (f"log-{rank}.jsonl" if rank else "log.jsonl"), trainer.get_num_updates())
    dtype, why = choose_dtype(cfg.model.precision)
    log.precision = f"{str(dtype).removeprefix('torch.')}: {why}"
    updates = Updates(trainer, partial / "not-finite.pt", cfg.train.max_skipped)
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
    cfg: PretrainConfig,
    trainer: Trainer,
    course: Course,
    partial: Path,
    run: tuple[training_checkpoint.Writer, Any, dict[str, Any]],
) -> None:
    """Write the model as it is, and the whole state if it is asked for.

    Every process takes part, since each may keep a share of the weights.
    """
    model, data = trainer.get_model(), Path(cfg.data)
    out = partial / SNAPSHOTS / str(trainer.get_num_updates())
    if processes.rank() == 0:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
    if cfg.train.snapshot_state:
        for objective in trainer.task.objectives.values():
            objective.before_save(model)
        if processes.rank() == 0 or processes.is_sharded(model):
            writer, epoch_itr, run_key = run
            training_checkpoint.put(
                out / Path(training_checkpoint.STATE).stem, writer.state(trainer, epoch_itr, run_key)
            )
    state = _gathered(model, partial)
    if processes.rank() > 0:
        return
    vocab.copy_vocabulary(data, out)
    model_weights.save_model(out / "model.pt", model, course.langs(trainer.task.langs), data, state)
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


def _updates(trainer: Trainer, epoch_itr: Any, batches: Batches) -> Iterator[list[Any]]:
    """Yield the batches of the current epoch, grouped by update."""
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
