"""Sweeps: ``sweep.seed=1,2,3 sweep.lr=1e-4,3e-4 out=runs/{seed}-{lr}`` as one list of words per configuration."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from xling.core.errors import UserError

PREFIX = "sweep."


def expand(
    words: Sequence[str], default_values: Mapping[str, Sequence[str]] | None = None
) -> list[list[str]]:
    """Return the arguments of every configuration of a sweep, the last axis fastest.

    ``{key}`` in another word is replaced by the value of the axis ``key``.

    Args:
        default_values: axes that hold where the words name neither the axis nor the key itself.

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
    fixed_words = [word for word in words if not word.startswith(PREFIX)]
    given = {*axes, *(word.partition("=")[0] for word in fixed_words)}
    axes = {key: [*values] for key, values in (default_values or {}).items() if key not in given} | axes
    configurations = []
    for values in itertools.product(*axes.values()):
        axis_values = dict(zip(axes, values, strict=True))
        filled_words = []
        for word in fixed_words:
            for key, value in axis_values.items():
                word = word.replace("{" + key + "}", value)
            filled_words.append(word)
        configurations.append([*filled_words, *(f"{key}={value}" for key, value in axis_values.items())])
    return configurations


def distinct(cfgs: Sequence[Any]) -> list[Any]:
    """Settings without those that stand there already, in order, as `check_outputs` allows them.

    Raises:
        UserError: two that differ write to the same place.
    """
    distinct_cfgs: list[Any] = []
    for cfg in cfgs:
        if cfg not in distinct_cfgs:
            distinct_cfgs.append(cfg)
    check_outputs(distinct_cfgs)
    return distinct_cfgs


def check_outputs(cfgs: Sequence[Any]) -> None:
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
