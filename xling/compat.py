"""Every repair of fairseq 0.12.3 (package fairseq-fixed 0.12.3.1) in one place, each with its cause.

``install`` is called by whatever imports fairseq here; it may be called again.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib
import pkgutil
import typing
from pathlib import Path
from typing import Any

import torch

_installed = False


@dataclasses.dataclass(frozen=True)
class Repair:
    """Whether a repair is in place.

    Attributes:
        name: what is repaired.
        cause: what goes wrong without it.
        holds: whether it is in place.
    """

    name: str
    cause: str
    holds: bool


def install() -> None:
    """Apply the repairs."""
    global _installed
    if _installed:
        return
    _allow_own_checkpoints()
    _import_tasks_of_loaded_package()
    _gather_without_gpu()
    _installed = True


def repairs() -> list[Repair]:
    """Every repair that `install` makes, and whether it holds now."""
    from fairseq import utils
    from fairseq.distributed import utils as distributed

    allowed = argparse.Namespace in torch.serialization.get_safe_globals()
    return [
        Repair("own checkpoints", "torch.load refuses the settings in fairseq's checkpoints", allowed),
        Repair(
            "--user-dir",
            "fairseq imports no criterion of a loaded package",
            _is_ours(utils.import_user_module),
        ),
        Repair(
            "gloo", "fairseq gathers through a GPU where there is none", _is_ours(distributed.all_gather_list)
        ),
    ]


def _is_ours(function: Any) -> bool:
    return bool(function.__module__ == __name__)


def _allow_own_checkpoints() -> None:
    """Cause: torch.load reads weights only since 2.6, and fairseq stores an ``argparse.Namespace``.

    The restricted unpickler stays on and learns the few harmless classes that fairseq writes, so a checkpoint
    with code in it is still refused.
    """
    from omegaconf import DictConfig, ListConfig
    from omegaconf.base import ContainerMetadata, Metadata
    from omegaconf.nodes import AnyNode, BooleanNode, FloatNode, IntegerNode, StringNode

    plain: list[Any] = [argparse.Namespace, collections.defaultdict, dict, list, int, typing.Any]
    config: list[Any] = [
        DictConfig, ListConfig, ContainerMetadata, Metadata, AnyNode, BooleanNode, FloatNode, IntegerNode, StringNode,
    ]  # fmt: skip
    torch.serialization.add_safe_globals(plain + config)


def _import_tasks_of_loaded_package() -> None:
    """Cause: ``--user-dir`` imports no tasks when the package is already loaded.

    `xling` may be loaded before fairseq parses its arguments (an editable install, an in-process launch).
    """
    from fairseq import utils

    original = utils.import_user_module

    def import_user_module(args: Any) -> None:
        original(args)
        if user_dir := getattr(args, "user_dir", None):
            tasks = f"{Path(user_dir).name}.tasks"
            for module in pkgutil.iter_modules(importlib.import_module(tasks).__path__):
                importlib.import_module(f"{tasks}.{module.name}")

    import_user_module.memo = set()  # type: ignore[attr-defined]
    utils.import_user_module = import_user_module


def _gather_without_gpu() -> None:
    """Cause: ``all_gather_list`` allocates on a GPU even where the processes speak gloo."""
    from fairseq.distributed import utils

    original = utils.all_gather_list

    def all_gather_list(data: Any, group: Any = None, max_size: int = 16384) -> list[Any]:
        if torch.cuda.is_available():
            return list(original(data, group, max_size))
        gathered: list[Any] = [None] * utils.get_world_size(group or utils.get_global_group())
        torch.distributed.all_gather_object(gathered, data, group)
        return gathered

    utils.all_gather_list = all_gather_list


def resolve_annotations() -> None:
    """Cause: fairseq makes command-line options from ``field.type`` of a configuration.

    That is text where annotations are postponed (``from __future__ import annotations``), and fairseq stops
    with "field should be a type". Called when everything of ours, and of packages that add to it, is imported.
    """
    from fairseq.dataclass import FairseqDataclass

    waiting = [FairseqDataclass]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if any(isinstance(field.type, str) for field in dataclasses.fields(cls)):
            hints = typing.get_type_hints(cls)
            for field in dataclasses.fields(cls):
                field.type = hints[field.name]


def check_new(kind: str, name: str) -> None:
    """Cause: fairseq's ``register_task`` answers a name that exists with the old class, in silence.

    Raises:
        ValueError: the name is taken.
    """
    from fairseq.models import MODEL_REGISTRY
    from fairseq.tasks import TASK_REGISTRY

    taken = {"task": TASK_REGISTRY, "model": MODEL_REGISTRY}[kind]
    if name in taken:
        raise ValueError(f"fairseq already has a {kind} called {name!r}")
