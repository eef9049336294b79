"""The one notation of schedules."""

from __future__ import annotations

import pytest

from xling.core.errors import UserError
from xling.core.settings import values


def test_values_are_linear_between_points_and_constant_outside() -> None:
    given = values.parse_schedule("name", "10:1,20:0,30:.5")
    assert [given.at(update) for update in (0, 10, 15, 20, 25, 99)] == [1, 1, 0.5, 0, 0.25, 0.5]


@pytest.mark.parametrize(
    "text", ["", "cosine", "5:1,2:0", "5:1,5:0", "0:nan", "0:inf", "0:-1", "-1:1", "0:1:2", "1.5:1"]
)
def test_anything_else_is_told_the_form(text: str) -> None:
    with pytest.raises(UserError, match=r"UPDATE:VALUE,.*for example 0:1,1000:0"):
        values.parse_schedule("objectives.tlm.schedule", text)
