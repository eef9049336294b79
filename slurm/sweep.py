"""Sweeps: ``sweep.seed=1,2,3 sweep.lr=1e-4,3e-4 out=runs/{seed}-{lr}`` as one list of words per configuration."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from xling.core.errors import UserError

PREFIX = "sweep."


def expand(words: Sequence[str]) -> list[list[str]]:
    """Return the arguments of every configuration of a sweep, the last axis fastest.

    ``{key}`` in another word is replaced by the value of the axis ``key``.

    Raises:
        UserError: an axis has no value or stands twice.
    """
    axes: dict[str, list[str]] = {}
    for word in words:
        if word.startswith(PREFIX):
            key, _, text = word.removeprefix(PREFIX).partition("=")
            if not key or not text or key in axes:
                raise UserError(f"{word!r}", "sweep.key=value,value,... once per key")
            axes[key] = text.split(",")
    others = [word for word in words if not word.startswith(PREFIX)]
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
