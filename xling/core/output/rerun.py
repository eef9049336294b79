"""Compare a finished output with the one that a run would make, and name the differences.

Two runs make the same output if their settings and the contents of their inputs are equal. The spelling of a
path, the location of a folder, and the version of xling do not matter.
"""

import dataclasses
import fnmatch
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from xling.core.settings import config

NO_EFFECT = "no_effect"
NO_EFFECT_METADATA = {NO_EFFECT: True}
"""Field metadata for a setting that does not change the output, for example how often a log is written."""

GONE: Mapping[str, Any] = {
    "model.compile": False,
    "estimator": "auto",
    "init_tiled": False,
    "init_noise": 0.01,
    "fit.l2_start": 0.0,
    "scores": None,  # of analyse
    "table.exposure": None,
}
"""Settings of earlier versions that are no more -> the value with which they made what is made today."""

_MISSING = object()


def differences(
    finished: tuple[Mapping[str, Any], Mapping[str, str]],
    planned: tuple[Mapping[str, Any], Mapping[str, Collection[str]]],
    cfg: Any,
) -> list[str]:
    """List the differences between a finished output and the one that a run would make; empty if there are none.

    Args:
        made: settings of the finished output, and path -> digest of each of its inputs.
        planned: settings of the run, and path -> the digests that its content may be recorded by.
        cfg: the settings as the dataclass that they came from, for its defaults; other types have no
            defaults.

    Returns:
        One text per difference, for example ``train.updates=2, now 3``.
    """
    recorded, given = list(finished[1].values()), list(planned[1].values())
    same_inputs = len(recorded) == len(given) and all(
        old in new for old, new in zip(recorded, given, strict=True)
    )
    old = _flatten(finished[0])
    new = _flatten(planned[0])
    recorded_digests = set(recorded)
    digest_by_path = {
        path: next((d for d in digests if d in recorded_digests), "new")
        for path, digests in planned[1].items()
    }
    defaults = _flatten(config.defaults(cfg)) if dataclasses.is_dataclass(cfg) else {}
    ignored = set(_keys_without_effect(cfg))
    changed = []
    for key in dict.fromkeys((*old, *new)):
        old_value = old.get(key, defaults.get(key, _MISSING))
        new_value = new.get(key, GONE.get(key, _MISSING))
        if key == "out" or key in ignored or old_value == new_value:
            continue
        if _replace_paths(old_value, finished[1]) != _replace_paths(new_value, digest_by_path):
            changed.append(f"{key}={_format_value(old_value)}, now {_format_value(new_value)}")
    if not same_inputs:
        changed_paths = [path for path, digests in planned[1].items() if recorded_digests.isdisjoint(digests)]
        changed += [f"{path} has other content" for path in changed_paths]
        if not changed_paths:
            changed.append(f"{len(recorded)} inputs, now {len(given)}, or in another order")
    return changed


def _flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten settings to dotted key -> plain value; a list has one key per item."""
    if isinstance(value, Mapping):
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [(str(number), item) for number, item in enumerate(value)]
    else:
        return {prefix: value}
    leaves: dict[str, Any] = {}
    for key, item in items:
        leaves |= _flatten(item, f"{prefix}.{key}".lstrip("."))
    return leaves


def _replace_paths(value: Any, digests: Mapping[str, str]) -> Any:
    """Replace every path in a setting by the digests of the inputs that it names; keep other values."""
    if not isinstance(value, str):
        return value
    return "".join(_digest_of_path(part, digests) or part for part in re.split(r"([,:=])", value))


def _digest_of_path(text: str, digests: Mapping[str, str]) -> str:
    """Return a digest of the inputs that a path, a directory or a glob names; empty if it names none."""
    if not text:
        return ""
    path = str(Path(text))
    matching = [
        digest
        for name, digest in digests.items()
        if name == path or name.startswith(f"{path}/") or fnmatch.fnmatch(name, text)
    ]
    return hashlib.sha256("\n".join(matching).encode()).hexdigest() if matching else ""


def _keys_without_effect(cfg: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of the settings that do not change the output."""
    if not dataclasses.is_dataclass(cfg):
        return
    for item in dataclasses.fields(cfg):
        if item.metadata.get(NO_EFFECT):
            yield f"{prefix}{item.name}"
        yield from _keys_without_effect(getattr(cfg, item.name), f"{prefix}{item.name}.")


def _format_value(value: Any) -> str:
    return "not given" if value is _MISSING else str(value)
