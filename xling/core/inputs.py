"""Check a stage's inputs before heavy imports, and import models from the Hugging Face Hub."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from xling.core.errors import UserError

HUB, IMPORTER = "hf:", "xling.hub.cached:checkpoint_of"
MODELS = ("model.pt", "task.pt")
"""Files of which a checkpoint of ours has one."""
_STANDARD_INPUT = re.compile("[a-z0-9]+:-")


def check_there(reads: str, cfg: Any) -> None:
    """Check that a stage's inputs exist, so that a wrong path is reported before torch is imported.

    Args:
        reads: names of the settings that name a file or a folder, separated by spaces.
        cfg: the settings.

    Raises:
        UserError: a path does not exist, or a checkpoint is a model of the hub that was not imported.
    """
    for field in reads.split():
        given = getattr(cfg, field)
        for path in map(str, given if isinstance(given, tuple) else filter(None, [given])):
            if not path.startswith(HUB) and not Path(path).exists():
                raise UserError(
                    f"{field}={path}: there is no such file or folder",
                    fix="check the path, or run the stage that makes it",
                )
            if field in ("checkpoint", "checkpoints"):
                refuse_hub_folder(Path(path))


def refuse_hub_folder(folder: Path) -> None:
    """Raise UserError for a model as transformers saves it, given as a checkpoint of ours."""
    if (folder / "config.json").is_file() and not any((folder / name).is_file() for name in MODELS):
        raise UserError(
            f"no checkpoint at {folder}",
            f"a directory with {' or '.join(MODELS)}",
            f"it looks like a Hugging Face model: write hf:{folder}, or use the output of "
            f"`xling import hf {folder} out=DIR`",
        )


@contextlib.contextmanager
def standard_input(cfg: Any, out: Path) -> Iterator[Any]:
    """Copy standard input beside ``out`` where a source is ``SCHEME:-``, and yield the settings with its path.

    A corpus is built in parts, and a finished one is known by the digests of its inputs: both need a file.

    Raises:
        UserError: standard input is empty, or two sources name it.
    """
    sources = getattr(cfg, "source", ())
    named = [uri for uri in sources if _STANDARD_INPUT.fullmatch(uri)] if isinstance(sources, tuple) else []
    if not named:
        yield cfg
        return
    if len(named) > 1:
        raise UserError(f"source={','.join(named)}: standard input is read once", "one source SCHEME:-")
    path = out.absolute().with_name(f".{out.name}.stdin")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        if not path.stat().st_size:
            raise UserError(
                f"source={named[0]}: standard input is empty", fix="pipe the text into the command"
            )
        told = tuple(uri[:-1] + str(path) if uri in named else uri for uri in sources)
        yield dataclasses.replace(cfg, source=told)
    finally:
        path.unlink(missing_ok=True)


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
