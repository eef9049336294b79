"""The updates of a fine-tuning: learning rates, batches, and the order of several tasks over one body.

Of several tasks the body is shared and every task has its head (MT-DNN, Liu et al. 2019, algorithm 1: the batches
of all tasks are merged and shuffled). Tasks are drawn by ``size ** alpha``: 1 is MT-DNN's own, below 1 small tasks
come more often.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from typing import TypeVar

import numpy as np

from xling.core.sampling import alpha_shares, rng
from xling.data.packing import Example
from xling.transfer.settings import TuneConfig

Batch = TypeVar("Batch")
Passes = Callable[[int], Sequence[Batch]]
"""Number of a pass over the rows of a task -> its batches."""


def learning_rate(cfg: TuneConfig, step: int, total: int) -> float:
    """Return the rate of an update, from 0, of ``total``: linear warm-up, linear decay to 0."""
    warmup = max(1, int(cfg.warmup * total))
    return cfg.lr * min((step + 1) / warmup, max(0, total - step) / max(1, total - warmup))


def epoch_batches(units: Sequence[list[Example]], cfg: TuneConfig, epoch: int) -> Iterator[list[Example]]:
    """Yield the batches of one epoch.

    Shuffled, then sorted by length within a hundred batches, then shuffled again.
    """
    generator = rng(cfg.seed, "tune", epoch)
    order = generator.permutation(len(units))
    lengths = np.array([sum(len(example["tokens"]) for example in units[i]) for i in order])
    pool = 100 * cfg.batch_rows
    chunks = [
        order[start : start + pool][np.argsort(lengths[start : start + pool], kind="stable")]
        for start in range(0, len(order), pool)
    ]
    batches = [
        chunk[i : i + cfg.batch_rows] for chunk in chunks for i in range(0, len(chunk), cfg.batch_rows)
    ]
    for index in generator.permutation(len(batches)):
        yield [example for i in batches[index] for example in units[i]]


def batches_of_each(sizes: Sequence[int], batch_rows: int, alpha: float) -> list[int]:
    """Return how many batches of each task an epoch has, as many in all as one pass over the rows of every task.

    Args:
        sizes: rows of each task.
        batch_rows: rows of a batch.
        alpha: exponent of the sampling; 1 is one pass over every task.

    Returns:
        Counts from 1; what the shares leave over goes to the largest remainders.
    """
    own = [-(-size // batch_rows) for size in sizes]
    if alpha == 1:
        return own
    shares = alpha_shares({str(i): size for i, size in enumerate(sizes)}, alpha)
    exact = np.array(list(shares.values())) * sum(own)
    counts = np.floor(exact).astype(int)
    for i in np.argsort(counts - exact, kind="stable")[: sum(own) - counts.sum()]:
        counts[i] += 1
    return [max(1, int(number)) for number in counts]


def epoch_of(
    passes: Sequence[Passes[Batch]], counts: Sequence[int], seed: int, epoch: int
) -> Iterator[tuple[int, Batch]]:
    """Yield (task, batch) of an epoch: each task goes on where its last epoch ended, and begins again at its end."""
    streams = [
        islice(_endless(of_task), epoch * number, (epoch + 1) * number)
        for of_task, number in zip(passes, counts, strict=True)
    ]
    tasks = np.repeat(np.arange(len(counts)), counts)
    for task in rng(seed, "tasks", epoch).permutation(tasks).tolist() if len(counts) > 1 else tasks.tolist():
        yield task, next(streams[task])


def _endless(of_task: Passes[Batch]) -> Iterator[Batch]:
    for number in count():
        yield from of_task(number)
