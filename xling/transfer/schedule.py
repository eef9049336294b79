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


def learning_rate(lr: float, warmup_share: float, step: int, total: int) -> float:
    """Return the rate of an update, from 0, of ``total``: linear warm-up to ``lr``, linear decay to 0."""
    warmup = max(1, int(warmup_share * total))
    return lr * min((step + 1) / warmup, max(0, total - step) / max(1, total - warmup))


def epoch_batches(units: Sequence[list[Example]], cfg: TuneConfig, epoch: int) -> Iterator[list[Example]]:
    """Yield the batches of one epoch, each of rows of similar length."""
    lengths = [sum(len(example["tokens"]) for example in unit) for unit in units]
    generator = rng(cfg.seed, "tune", epoch)
    for batch in batches_by_length(lengths, cfg.batch_rows, 100 * cfg.batch_rows, generator):
        yield [example for i in batch for example in units[i]]


def batches_by_length(
    lengths: Sequence[int], batch_rows: int, pool_rows: int, generator: np.random.Generator
) -> Iterator[list[int]]:
    """Yield the rows of each batch: all shuffled, sorted by length within a pool, cut, the batches shuffled."""
    order, length_of = generator.permutation(len(lengths)), np.array(lengths)
    pools = [order[start : start + pool_rows] for start in range(0, len(order), pool_rows)]
    pools = [pool[np.argsort(length_of[pool], kind="stable")] for pool in pools]
    batches = [pool[i : i + batch_rows] for pool in pools for i in range(0, len(pool), batch_rows)]
    for index in generator.permutation(len(batches)):
        yield batches[index].tolist()


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
