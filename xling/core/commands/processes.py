"""Work in several processes of this machine, with the results in the order of the work."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextvars import ContextVar
from multiprocessing import get_context
from typing import TypeVar

from xling.core import signals

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_processes: ContextVar[int] = ContextVar("processes", default=1)


def of_this_part() -> int:
    """Return how many processes a part may start; 1 where other parts have the cores."""
    return _processes.get()


@contextlib.contextmanager
def allowed(number: int) -> Iterator[None]:
    """Let the part that runs meanwhile start ``number`` processes."""
    token = _processes.set(number)
    try:
        yield
    finally:
        _processes.reset(token)


def in_order(
    function: Callable[[_Item], _Result], items: Iterable[_Item], num_processes: int
) -> Iterator[_Result]:
    """Yield the result of each item. At most three items for each process are read before their results are wanted.

    An error in one of them, in ``items`` or where the results go ends all processes.
    """
    waiting: deque[Future[_Result]] = deque()
    with ProcessPoolExecutor(num_processes, get_context("forkserver"), signals.end_with_parent) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) == 3 * num_processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()  # a killed worker never returns its part, and the pool would wait forever
            raise
