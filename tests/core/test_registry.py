"""Closed lists of named things."""

from __future__ import annotations

import pytest

from xling.core.errors import UserError
from xling.core.registry import Registry


def test_things_come_back_by_name_in_order() -> None:
    things: Registry[int] = Registry("thing")
    assert things.add("b", 1) == 1
    assert things.register("a")(2) == 2
    assert dict(things) == {"b": 1, "a": 2} and list(things) == ["b", "a"] and len(things) == 2


def test_a_name_registered_twice_is_a_mistake_of_the_program() -> None:
    things: Registry[int] = Registry("thing")
    things.add("a", 1)
    with pytest.raises(ValueError, match="thing 'a' is registered twice"):
        things.add("a", 1)
    assert things["a"] == 1


def test_an_unknown_name_answers_with_the_nearest() -> None:
    things: Registry[int] = Registry("thing")
    things.add("mono", 1)
    with pytest.raises(UserError, match=r"unknown thing 'mnoo'; valid: mono; fix: did you mean 'mono'\?"):
        things["mnoo"]


def test_asking_for_membership_never_raises() -> None:
    things: Registry[int] = Registry("thing")
    things.add("a", 1)
    assert "a" in things and "b" not in things and 3 not in things and things.get("a") == 1
