"""Sweeps: ``sweep.seed=1,2,3 sweep.lr=1e-4,3e-4 out=runs/{seed}-{lr}`` as one list of words per configuration."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from xling.core.errors import UserError

PREFIX = "sweep."


def expand(words: Sequence[str], usual: Mapping[str, Sequence[str]] | None = None) -> list[list[str]]:
    """Return the arguments of every configuration of a sweep, the last axis fastest.

    ``{key}`` in another word is replaced by the value of the axis ``key``.

    Args:
        words: of a command.
        usual: axes that hold where the words name neither the axis nor the key itself.

    Raises:
        UserError: an axis has no value or stands twice.
    """
    axes: dict[str, list[str]] = {}
    for word in words:
        if word.startswith(PREFIX):
            key, _, text = word.removeprefix(PREFIX).partition("=")
            if not key or not text or key in axes:
                raise UserError(
                    f"{word!r} has no key, has no values, or repeats a key",
                    "sweep.KEY=VALUE,VALUE,... once for each key",
                )
            axes[key] = text.split(",")
    others = [word for word in words if not word.startswith(PREFIX)]
    given = {*axes, *(word.partition("=")[0] for word in others)}
    axes = {key: [*values] for key, values in (usual or {}).items() if key not in given} | axes
    configurations = []
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        filled = []
        for word in others:
            for key, value in chosen.items():
                word = word.replace("{" + key + "}", value)
            filled.append(word)
        configurations.append([*filled, *(f"{key}={value}" for key, value in chosen.items())])
    return configurations


def distinct(cfgs: Sequence[Any]) -> list[Any]:
    """Settings without those that stand there already, in order, as `check_places` allows them.

    Raises:
        UserError: two that differ write to the same place.
    """
    kept: list[Any] = []
    for cfg in cfgs:
        if cfg not in kept:
            kept.append(cfg)
    check_places(kept)
    return kept


def check_places(cfgs: Sequence[Any]) -> None:
    """Refuse settings of one stage that write to the same place.

    Raises:
        UserError: two do.
    """
    places = [str(getattr(cfg, "out", position)) for position, cfg in enumerate(cfgs)]
    for place in places:
        if places.count(place) > 1:
            raise UserError(
                f"the sweep writes to out={place} more than once", "an out= with each swept key in it"
            )
