"""What a stage reads: looked for before anything heavy is imported, and models of the hub brought here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xling.core.errors import UserError

HUB, IMPORTER = "hf:", "xling.hub.cached:checkpoint_of"


def check_there(reads: str, cfg: Any) -> None:
    """Look for what a stage is to read: a wrong path is told before torch is imported.

    Args:
        reads: names of the settings that name a file or a folder, spaces between.
        cfg: the settings.

    Raises:
        UserError: there is nothing at a path.
    """
    for field in reads.split():
        path = str(getattr(cfg, field) or "")
        if path and not path.startswith(HUB) and not Path(path).exists():
            raise UserError(
                f"{field}={path}: there is no such file or folder",
                fix="check the path, or run the stage that makes it",
            )


def brought_here(reads: str, cfg: Any, load: Callable[[str], Any]) -> Any:
    """Settings with the directory of an imported model in the place of every ``hf:NAME_OR_FOLDER`` that is read.

    Args:
        reads: as in `check_there`.
        cfg: the settings, a dataclass.
        load: imports ``module:attribute``.

    Raises:
        UserError: there is no such model, or none that can be taken.
    """
    changed = {}
    for field in reads.split():
        value = getattr(cfg, field)
        if isinstance(value, (str, Path)) and str(value).startswith(HUB):
            changed[field] = type(value)(str(load(IMPORTER)(str(value))))
    return dataclasses.replace(cfg, **changed) if changed else cfg
