"""The notation of every schedule: ``UPDATE:VALUE,...``, linear between its points and constant outside of them."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from xling.core.errors import UserError


@dataclass(frozen=True)
class Schedule:
    """A value by the number of updates.

    Attributes:
        updates: ascending.
        values: from 0, one for each.
    """

    updates: tuple[int, ...]
    values: tuple[float, ...]

    def at(self, update: int) -> float:
        """Return the value after ``update`` updates."""
        return float(np.interp(update, self.updates, self.values))


def parse(name: str, text: str) -> Schedule:
    """Read the setting ``name``, for example ``0:1,1000:0``.

    Raises:
        UserError: it has another form, its updates do not ascend, or a value is below 0 or not finite.
    """
    try:
        points = [point.split(":") for point in str(text).split(",")]
        updates, values = [int(update) for update, _ in points], [float(value) for _, value in points]
    except ValueError:
        updates, values = [], []
    ascends = bool(updates) and updates[0] >= 0 and all(one < next_one for one, next_one in pairwise(updates))
    if not ascends or not all(0 <= value < math.inf for value in values):
        raise UserError(
            f"{name}={text}", "UPDATE:VALUE,..., updates ascending and values from 0, for example 0:1,1000:0"
        )
    return Schedule(tuple(updates), tuple(values))
