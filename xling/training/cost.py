"""Estimated cost of a pre-training run, from its settings and a short warm-up: ``xling pretrain --dry-run``."""

import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from xling.core.output.command_result import Answer
from xling.models.network.encoder import choose_dtype, num_parameters
from xling.training.plan import Batches, PhasePlan
from xling.training.settings import TrainConfig

WARM, TIMED = 1, 3
_BYTES_OF_STATE = 3 * 4  # a gradient and AdamW's two moments, all float32
_BYTES_OF_MASTER = 4  # if the weights are not float32


def describe(
    trainer: Any, train: TrainConfig, phases: Sequence[PhasePlan], build: Callable[..., Any]
) -> Answer:
    """Describe model, data, floating point operations, memory and time of a run.

    Args:
        trainer: trainer of the first phase; unusable afterwards.
        build: builds a task from the settings of a phase.

    The warm-up makes `WARM` + 1 + `TIMED` updates of real batches with ``trainer``.
    Operations are those of matrix products and attention, counted by torch in one update.
    """
    epoch_itr = trainer.get_train_iterator(1, load_dataset=True)
    num_batches = len(epoch_itr)
    dataset, model = trainer.task.dataset("train"), trainer.get_model()
    trainer.lr_step(1)
    tokens, flops, seconds = _warm_up(trainer, _endless(trainer, epoch_itr, train.accumulate))
    updates, batches = train.updates, Batches.of(train)
    num_batches_read = batches.total(updates)
    epochs, total = num_batches_read / num_batches, num_batches_read * tokens / train.accumulate
    seconds_in_all = seconds * num_batches_read / train.accumulate
    by_phase = _estimate_phases(phases, build, batches, tokens / train.accumulate) if len(phases) > 1 else {}
    lines = [
        f"model      {_model_line(model)}",
        f"data       an epoch: {len(dataset):,} examples, {num_batches:,} batches, {dataset.epoch_tokens():,} tokens",
        *(_phase_lines(by_phase) if by_phase else _mixture_lines(dataset, epochs)),
        f"training   {updates:,} updates of about {tokens:,.0f} tokens: {total:,.0f} tokens, {epochs:.2f} epochs",
        f"operations {flops / tokens / 1e6:,.2f} MFLOP a token, {flops / tokens * total / 1e15:,.3f} PFLOP in all",
        f"memory     {_memory_line(trainer, model)}",
        f"speed      {seconds:.3f} s an update, {tokens / seconds:,.0f} tokens/s, {flops / seconds / 1e9:,.1f} GFLOP/s",
        f"time       {_duration(seconds_in_all)} without validation",
    ]
    facts = {
        "parameters": num_parameters(model),
        "epoch": {"examples": len(dataset), "batches": num_batches, "tokens": dataset.epoch_tokens()},
        "mixture": {
            name: {"tokens": there, "tokens_an_epoch": drawn}
            for name, (there, drawn) in dataset.mixture().items()
        },
        "updates": updates,
        "tokens": round(total),
        "epochs": round(epochs, 4),
        "flop": flops / tokens * total,
        "tokens_per_s": round(tokens / seconds),
        "seconds": round(seconds_in_all, 1),
    }
    if by_phase:
        facts["seen"] = in_all(by_phase)
    return Answer("\n".join(lines), facts)


def _estimate_phases(
    phases: Sequence[PhasePlan], build: Callable[..., Any], batches: Batches, tokens: float
) -> dict[str, dict[str, Any]]:
    """Estimate what each phase will read of each language, from its first epoch and ``tokens`` per batch."""
    by_phase, begin = {}, 0
    for phase in phases:
        task = build(phase.cfg)
        task.load_dataset("train")
        mixture = task.dataset("train").mixture()
        epoch = max(sum(drawn for _, drawn in mixture.values()), 1)
        total = (batches.total(phase.end) - batches.total(begin)) * tokens
        seen = {
            n: {"there": there, "read": round(total * drawn / epoch)} for n, (there, drawn) in mixture.items()
        }
        by_phase[phase.name] = {
            "updates": phase.end - begin,
            "epochs": round(total / epoch, 4),
            "tokens": seen,
        }
        begin = phase.end
    return by_phase


def in_all(by_phase: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Sum the tokens read and the epochs of each language over all phases.

    ``tokens`` as in one phase, and ``phases``.
    """
    tokens: dict[str, dict[str, Any]] = {}
    for seen in by_phase.values():
        for name, one in seen["tokens"].items():
            summed = tokens.get(name, {"there": one["there"], "read": 0})
            tokens[name] = {"there": max(summed["there"], one["there"]), "read": summed["read"] + one["read"]}
    for one in tokens.values():
        one["epochs"] = round(one["read"] / max(one["there"], 1), 4)
    return {"tokens": tokens, "phases": dict(by_phase)}


def _phase_lines(by_phase: dict[str, dict[str, Any]]) -> list[str]:
    """Format each phase with the tokens of its languages, then the total."""
    lines = []
    for name, seen in (*by_phase.items(), ("in all", in_all(by_phase))):
        length = f": {seen['updates']:,} updates, {seen['epochs']:.2f} epochs" if "updates" in seen else ""
        lines.append(f"phase      {name}{length}")
        lines += [
            f"           {lang:<16} {one['there']:>14,} tokens, {one['read']:>14,} read, seen "
            f"{one['read'] / max(one['there'], 1):.2f} times"
            for lang, one in seen["tokens"].items()
        ]
    return lines


def _endless(trainer: Any, epoch_itr: Any, accumulate: int) -> Iterator[list[Any]]:
    while True:
        trainer.begin_epoch(epoch_itr.next_epoch_idx)
        yield from Batches(accumulate, 1).grouped(epoch_itr.next_epoch_itr(), lambda: 0)
        epoch_itr = trainer.get_train_iterator(epoch_itr.next_epoch_idx, load_dataset=False)


def _warm_up(trainer: Any, batches: Iterator[list[Any]]) -> tuple[float, float, float]:
    """Measure mean real tokens, floating point operations and median seconds of an update."""
    for _ in range(WARM):
        trainer.train_step(next(batches))
    samples = next(batches)
    with FlopCounterMode(display=False) as counter:
        trainer.train_step(samples)
    flops_a_token = counter.get_total_flops() / _tokens(samples)
    tokens, seconds = [], []
    for _ in range(TIMED):
        samples = next(batches)
        begin = time.perf_counter()
        trainer.train_step(samples)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        tokens.append(_tokens(samples))
    mean = statistics.fmean(tokens)
    return mean, flops_a_token * mean, statistics.median(seconds)


def _tokens(samples: list[Any]) -> int:
    return int(sum(sample["ntokens"] for sample in samples))


def _model_line(model: Any) -> str:
    embeddings = model.encoder.tokens.weight.numel()
    extras = num_parameters(model.extras)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    body = num_parameters(model) - embeddings - extras
    dtype, why = choose_dtype(model.cfg.precision)
    return (
        f"{body + embeddings:,} parameters ({embeddings:,} embeddings, {body:,} others), {extras:,} of objectives, "
        f"{trained:,} trained, {str(dtype).removeprefix('torch.')} ({why})"
    )


def _mixture_lines(dataset: Any, epochs: float) -> list[str]:
    return [
        f"           {name:<16} {there:>14,} tokens, {drawn:>14,} an epoch, seen "
        f"{drawn * epochs / max(there, 1):.2f} times"
        for name, (there, drawn) in dataset.mixture().items()
    ]


def _memory_line(trainer: Any, model: Any) -> str:
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    trained = [p for p in model.parameters() if p.requires_grad]
    state = sum(
        p.numel() * (_BYTES_OF_STATE + _BYTES_OF_MASTER * (p.dtype != torch.float32)) for p in trained
    )
    if torch.cuda.is_available():
        peak, where = torch.cuda.max_memory_allocated(), "of the GPU"
    else:
        peak, where = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "of the process"
    shown = (f"{n / 2**30:.2f} GiB" for n in (weights, state, peak))
    return "{} of weights, {} of optimiser and gradients; peak {where} {}".format(*shown, where=where)


def _duration(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
