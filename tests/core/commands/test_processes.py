"""Work in several processes, with results in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xling.core.commands import processes
from xling.core.errors import UserError


def refuse_seven(number: int) -> int:
    if number == 7:
        raise UserError("seven", "another number")
    return number * number


def test_results_come_in_the_order_of_the_work_and_few_items_are_read_ahead() -> None:
    read: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100, 120):
            read.append(number)
            yield number

    results = processes.in_order(refuse_seven, numbers(), 2)
    assert next(results) == 10_000 and len(read) == 6
    assert list(results) == [number * number for number in range(101, 120)]


def test_an_error_comes_back_and_ends_the_rest() -> None:
    results = processes.in_order(refuse_seven, range(6, 100), 2)
    assert next(results) == 36
    with pytest.raises(UserError, match="seven"):
        next(results)
    with pytest.raises(StopIteration):
        next(results)


def test_a_part_may_start_processes_only_where_it_is_told() -> None:
    assert processes.of_this_part() == 1
    with processes.allowed(4):
        assert processes.of_this_part() == 4
    assert processes.of_this_part() == 1
