"""Running the steps of a pipeline on this machine, several at a time where none of them needs another."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from xling.core import signals
from xling.core.commands.pipeline import Pipeline
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output.command_result import tell

_THREADS_VARIABLE = "OMP_NUM_THREADS"


def run_steps(
    pipeline: Pipeline, configs: Mapping[str, Any], steps_at_once: int, num_workers: int | None = 1
) -> Iterator[tuple[str, Any]]:
    """Run every step after the steps that it needs; yield the name and the result of each as it ends.

    One step at a time runs in this process. Several run in processes of their own, each with its share of the cores
    as torch threads unless ``OMP_NUM_THREADS`` is set. When a step fails, no further one starts; those that are
    running end first.

    Args:
        steps_at_once: processes.
        num_workers: processes for the parts of one stage, as for `run_local`; None is 1 for steps that run at once.

    Raises:
        UserError: a step failed, or its process was killed.
    """
    if steps_at_once == 1:
        for name, cfg in configs.items():
            _announce(pipeline, name)
            result, seconds = _run_timed(run_local, pipeline.steps[name].stage, cfg, num_workers)
            _announce(pipeline, name, seconds)
            yield name, result
        return
    threads_given = os.environ.get(_THREADS_VARIABLE)
    os.environ.setdefault(_THREADS_VARIABLE, str(max(1, len(os.sched_getaffinity(0)) // steps_at_once)))
    pool = ProcessPoolExecutor(
        steps_at_once, get_context("spawn"), signals.end_with_parent, max_tasks_per_child=1
    )
    try:
        with signals.stoppable(), pool:
            yield from _run_in_pool(pool, pipeline, configs, steps_at_once, num_workers or 1)
    finally:
        if threads_given is None:
            del os.environ[_THREADS_VARIABLE]


def _run_in_pool(
    pool: ProcessPoolExecutor,
    pipeline: Pipeline,
    configs: Mapping[str, Any],
    steps_at_once: int,
    num_workers: int,
) -> Iterator[tuple[str, Any]]:
    finished: set[str] = set()
    running: dict[Future[Any], str] = {}
    try:
        while len(finished) < len(configs):
            for name in _ready_steps(pipeline, finished, running.values())[: steps_at_once - len(running)]:
                _announce(pipeline, name)
                stage = pipeline.steps[name].stage
                running[pool.submit(_run_timed, run_local, stage, configs[name], num_workers)] = name
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                result, seconds = _result_of(name, future, running.values())
                _announce(pipeline, name, seconds)
                finished.add(name)
                yield name, result
    except (KeyboardInterrupt, signals.Stopped, GeneratorExit):
        for process in list((pool._processes or {}).values()):
            process.terminate()  # a stage that can go on later saves first
        raise


def _ready_steps(pipeline: Pipeline, finished: set[str], running: Any) -> list[str]:
    """Return steps that can start: first those with the longest chain of steps behind them, then by the file."""
    chain_length: dict[str, int] = {}
    for name in reversed(pipeline.steps):
        chain_length[name] = 1 + max(
            (chain_length[other] for other in chain_length if name in pipeline.steps[other].after), default=0
        )
    waiting = [name for name in pipeline.steps if name not in finished and name not in running]
    ready = [name for name in waiting if finished.issuperset(pipeline.steps[name].after)]
    return sorted(ready, key=lambda name: -chain_length[name])


def _run_timed(
    run_stage: Callable[[str, Any, int | None], Any], stage: str, cfg: Any, num_workers: int | None
) -> tuple[Any, tuple[float, float]]:
    clock_start, cpu_start = time.monotonic(), sum(os.times()[:4])
    result = run_stage(stage, cfg, num_workers)
    return result, (time.monotonic() - clock_start, sum(os.times()[:4]) - cpu_start)


def _announce(pipeline: Pipeline, name: str, seconds: tuple[float, float] | None = None) -> None:
    number, duration = list(pipeline.steps).index(name) + 1, ""
    if seconds:
        clock, processor = (f"{s / 60:.1f} min" if s >= 60 else f"{s:.1f} s" for s in seconds)
        duration = f" ended after {clock} ({processor} of processor time)"
    stage = pipeline.steps[name].stage
    tell(f"[{number}/{len(pipeline.steps)}] {name}: xling {stage}{duration}")


def _result_of(name: str, future: Future[Any], still_running: Any) -> tuple[Any, tuple[float, float]]:
    try:
        result: tuple[Any, tuple[float, float]] = future.result()
        return result
    except BrokenProcessPool:
        raise UserError(
            f"step {name!r} or one beside it was killed, often for lack of memory",
            fix="run the same command again: it goes on; steps_at_once=1 needs less memory",
        ) from None
    except Exception:
        if still_running:
            tell(f"{name} failed; {', '.join(still_running)} will end first")
        raise
