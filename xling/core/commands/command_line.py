"""Rebuild the command line for a stage's settings; `config.load` reads it back to the same settings."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from xling.core.commands.runner import STAGES, load
from xling.core.errors import UserError
from xling.core.settings import config


def command_words(stage: str, settings: Mapping[str, Any], out: str) -> list[str]:
    """Return ``xling STAGE key=value ...`` for the settings of a manifest, without settings at their defaults.

    Args:
        stage: a name in `xling.core.commands.runner.STAGES`.
        settings: as `xling.core.settings.config.to_dict` gives them. If this version no longer accepts them, all are
            written out.
        out: the published directory, for stages whose manifest does not name it.
    """
    command = ["xling", *stage.split()]
    if stage not in STAGES:
        return [*command, *overrides(settings, {})]
    cls = load(STAGES[stage].config)
    if "out" in {f.name for f in dataclasses.fields(cls)} and settings.get("out") in (None, "."):
        settings = {**settings, "out": out}
    changed_words = list(overrides(settings, config.defaults(cls)))
    try:
        rebuilt = config.to_dict(config.load(cls, overrides=changed_words))
        if all(rebuilt.get(name) == value for name, value in settings.items()):
            return [*command, *changed_words]
    except UserError:
        pass
    return [*command, *overrides(settings, {})]


def overrides(settings: Mapping[str, Any], defaults: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the settings that differ from the defaults as ``key=value`` words."""
    for name, value in settings.items():
        key, default = f"{prefix}{name}", defaults.get(name, dataclasses.MISSING)
        if value == default:
            continue
        if isinstance(value, Mapping) and value and all(n and not set(n) & set(".= ") for n in value):
            # For a mapping such as objectives=..., the default applies only if no key of it is given.
            is_dataclass_like = isinstance(default, Mapping) and default.keys() == value.keys()
            yield from overrides(value, default if is_dataclass_like else {}, f"{key}.")
        elif isinstance(value, (Mapping, list, tuple)):
            yield f"{key}={_format_sequence(value)}"
        else:
            yield f"{key}={_format_scalar(value)}"


def _format_sequence(value: Any) -> str:
    """Format a list or mapping as `xling.core.settings.config.nested` reads it."""
    plain = isinstance(value, (list, tuple)) and all(isinstance(v, (str, int, float)) for v in value)
    if plain and value and not any(set(str(v)) & set(",[{") or not str(v) for v in value):
        return ",".join(map(_format_scalar, value))
    return json.dumps(value, ensure_ascii=False)


def _format_scalar(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
