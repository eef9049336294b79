"""Check a stage's inputs before heavy imports, and import models from the Hugging Face Hub."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xling.core.errors import UserError

HUB, IMPORTER = "hf:", "xling.hub.cached:checkpoint_of"


def check_there(reads: str, cfg: Any) -> None:
    """Check that a stage's inputs exist, so that a wrong path is reported before torch is imported.

    Args:
        reads: names of the settings that name a file or a folder, separated by spaces.
        cfg: the settings.

    Raises:
        UserError: a path does not exist.
    """
    for field in reads.split():
        path = str(getattr(cfg, field) or "")
        if path and not path.startswith(HUB) and not Path(path).exists():
            raise UserError(
                f"{field}={path}: there is no such file or folder",
                fix="check the path, or run the stage that makes it",
            )


def brought_here(reads: str, cfg: Any, load: Callable[[str], Any]) -> Any:
    """Replace every input ``hf:NAME_OR_FOLDER`` in the settings by the directory of the imported model.

    Args:
        reads: as in `check_there`.
        cfg: the settings, a dataclass.
        load: imports ``module:attribute``.

    Raises:
        UserError: the model does not exist or cannot be imported.
    """
    changed = {}
    for field in reads.split():
        value = getattr(cfg, field)
        if isinstance(value, (str, Path)) and str(value).startswith(HUB):
            changed[field] = type(value)(str(load(IMPORTER)(str(value))))
    return dataclasses.replace(cfg, **changed) if changed else cfg
