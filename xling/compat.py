"""Every repair of fairseq 0.12.3 (package fairseq-fixed 0.12.3.1) in one place, each with its cause.

``import xling`` ensures that fairseq, if it is not loaded yet, imports modules only on demand (`lighten`).
``install`` is called by all code that trains with fairseq; it may be called again.
"""

import argparse
import ast
import collections
import contextlib
import dataclasses
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import pickle
import pkgutil
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

HEADER = 4  # bytes that fairseq puts before what it gathers
HUGE_PAGES_VARIABLE = "THP_MEM_ALLOC_ENABLE"

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
    """Apply all patches of fairseq and torch, once a process."""
    global _installed
    if _installed:
        return
    _allow_own_checkpoints()
    _import_tasks_of_loaded_package()
    _gather_without_gpu()
    _stand_in_for_compiled_parts()
    _installed = True


def repairs() -> list[Repair]:
    """Return every patch that `install` applies, and whether it is active now."""
    import torch
    from fairseq import utils
    from fairseq.distributed import utils as distributed

    allowed = argparse.Namespace in torch.serialization.get_safe_globals()
    return [
        Repair("import", "fairseq imports every model and task of its own", _loads_on_demand()),
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
    """Let torch.load read the checkpoints of fairseq.

    Cause: torch.load reads weights only since 2.6, and fairseq stores an ``argparse.Namespace``.

    The restricted unpickler stays on and learns the few harmless classes that fairseq writes, so a checkpoint
    with code in it is still refused.
    """
    import torch
    from omegaconf import DictConfig, ListConfig
    from omegaconf.base import ContainerMetadata, Metadata
    from omegaconf.nodes import AnyNode, BooleanNode, FloatNode, IntegerNode, StringNode

    plain: list[Any] = [argparse.Namespace, collections.defaultdict, dict, list, int, typing.Any]
    config: list[Any] = [
        DictConfig, ListConfig, ContainerMetadata, Metadata, AnyNode, BooleanNode, FloatNode, IntegerNode, StringNode,
    ]  # fmt: skip
    torch.serialization.add_safe_globals(plain + config)


def plain_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a model and its task as stock fairseq reads them from a checkpoint, plain values alone.

    Cause: torch.load reads weights only since 2.6, so that stock fairseq refuses a checkpoint with a ``Namespace``.
    """
    from fairseq.dataclass.configs import FairseqConfig
    from omegaconf import OmegaConf

    settings: Any = OmegaConf.to_container(
        OmegaConf.structured(FairseqConfig()), resolve=True, enum_to_str=True
    )
    parts = {
        part: {"_name": name, **vars(args)} for part, name in (("task", args.task), ("model", args.arch))
    }
    return settings | parts | {"criterion": {"_name": args.criterion}}


def _import_tasks_of_loaded_package() -> None:
    """Import the tasks of ``--user-dir`` if its package is already loaded.

    Cause: ``--user-dir`` imports no tasks when the package is already loaded.

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
    """Let ``all_gather_list`` use the CPU with gloo.

    Cause: ``all_gather_list`` allocates on a GPU even where the processes speak gloo.

    Its limit stays: what would not fit on GPUs fails on CPUs too.
    """
    import torch
    from fairseq.distributed import utils

    original = utils.all_gather_list

    def all_gather_list(data: Any, group: Any = None, max_size: int = 16384) -> list[Any]:
        if torch.cuda.is_available():
            return list(original(data, group, max_size))
        if (size := len(pickle.dumps(data)) + HEADER) > max_size:
            raise ValueError(f"encoded data size ({size}) exceeds max_size ({max_size})")
        gathered: list[Any] = [None] * utils.get_world_size(group or utils.get_global_group())
        torch.distributed.all_gather_object(gathered, data, group)
        return gathered

    utils.all_gather_list = all_gather_list


def _stand_in_for_compiled_parts() -> None:
    """Let stock tasks run where fairseq was built without its compiled parts.

    Cause: stock batches and blocks are an ImportError there.
    """
    from xling import fairseq_parts

    for name, module in fairseq_parts.modules().items():
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = module


def stand_in_for_bleu() -> None:
    """Let ``--scoring bleu`` run where fairseq was built without its compiled parts; a training does not need it.

    Cause: it is an ImportError there.
    """
    from xling import fairseq_parts

    if importlib.util.find_spec("fairseq.libbleu") is None:
        fairseq_parts.patch_bleu(importlib.import_module("fairseq.scoring.bleu").Scorer)


def resolve_annotations() -> None:
    """Turn the annotations of a configuration from text into types.

    Cause: fairseq makes command-line options from ``field.type`` of a configuration.

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
    """Refuse a task name that fairseq knows already.

    Cause: fairseq's ``register_task`` answers a name that exists with the old class, in silence.

    Raises:
        ValueError: the name is taken.
    """
    from fairseq.models import MODEL_REGISTRY
    from fairseq.tasks import TASK_REGISTRY

    if not name.startswith("xling_"):  # no name of fairseq's own starts so
        import_everything()
    taken = {"task": TASK_REGISTRY, "model": MODEL_REGISTRY}[kind]
    if name in taken:
        raise ValueError(f"fairseq already has a {kind} called {name!r}")


# Packages whose __init__ imports every file beside it, to register what is in them; in fairseq's own order.
_CATALOGUES = (
    "fairseq.criterions",
    "fairseq.models",
    "fairseq.optim",
    "fairseq.optim.lr_scheduler",
    "fairseq.scoring",
    "fairseq.data.encoders",
    "fairseq.tasks",
)
# Packages whose __init__ imports names from files beside it.
_COLLECTIONS = ("fairseq.data", "fairseq.modules")
_SCHEDULE = "fairseq.optim.lr_scheduler.polynomial_decay_schedule"
# Functions that look a name up among all that fairseq has registered, and the table they look in.
_LOOKUPS = {
    "fairseq.criterions": {"build_criterion_": "CRITERION_REGISTRY"},
    "fairseq.models": {"build_model": "ARCH_MODEL_REGISTRY"},
    "fairseq.optim": {"_build_optimizer": "OPTIMIZER_REGISTRY"},
    "fairseq.optim.lr_scheduler": {"build_lr_scheduler_": "LR_SCHEDULER_REGISTRY"},
    "fairseq.scoring": {"_build_scorer": "SCORER_REGISTRY"},
    "fairseq.data.encoders": {"build_tokenizer": "TOKENIZER_REGISTRY", "build_bpe": "BPE_REGISTRY"},
    "fairseq.tasks": {"setup_task": "TASK_REGISTRY", "get_task": "TASK_REGISTRY"},
    "fairseq.dataclass.utils": {"override_module_args": ""},
    "fairseq.dataclass.initialize": {"add_defaults": ""},
    "fairseq.options": {"get_parser": ""},
}
_NAME_FIELDS = (
    "_name",
    "arch",
    "task",
    "criterion",
    "optimizer",
    "lr_scheduler",
    "tokenizer",
    "bpe",
    "scoring",
)


def lighten() -> None:
    """Make fairseq import modules on demand, and all of them only when a name is looked up.

    Cause: ``import fairseq`` imports all of its models, tasks, criterions and data sets, and with them scipy,
    pandas, wandb and tensorboard: 5 s and 2500 modules, of which training here uses a tenth. Where fairseq is
    already loaded, as in ``fairseq-train --user-dir xling``, nothing changes.
    """
    if "fairseq" not in sys.modules and not _loads_on_demand():
        sys.meta_path.insert(0, _OnDemand())


def ask_for_huge_pages() -> None:
    """Have torch ask the kernel for pages of 2 MiB under tensors at least as large, unless the environment says.

    Cause: with pages of 4 KiB an update on a CPU takes about a twelfth longer, for looking pages up. torch reads the
    variable at its first allocation, so it is set before torch is imported. Without such pages nothing changes.

    Source: c10/core/impl/alloc_cpu.cpp; transparent_hugepage in the kernel's guide.
    """
    os.environ.setdefault(HUGE_PAGES_VARIABLE, "1")


def _loads_on_demand() -> bool:
    return any(isinstance(finder, _OnDemand) for finder in sys.meta_path)


class _OnDemand(importlib.abc.MetaPathFinder):
    """Finds the packages of fairseq that import more than they need."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        light = name == "fairseq" or name in _CATALOGUES or name in _COLLECTIONS
        if not light and name not in _LOOKUPS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = (_LightPackage if light else _WithLookups)(name, spec.origin)
        return spec


class _WithLookups(importlib.machinery.SourceFileLoader):
    """Loads a module and gives its `_LOOKUPS` what they may look for."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        for function, table in _LOOKUPS.get(module.__name__, {}).items():
            known = getattr(module, table) if table else {}
            setattr(module, function, _with_everything(getattr(module, function), known))


class _LightPackage(_WithLookups):
    """Loads a package without the files that its ``__init__`` imports: each follows when its name is used."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of ``__init__`` without imports of files beside it; it is never cached."""
        tree = ast.parse(self.get_data(self.path))
        self._homes = _homes(tree) if fullname in _COLLECTIONS else {}
        tree.body = [node for node in tree.body if not self._imports_all(node)]
        if fullname == "fairseq":
            _leave_out_progress_bar(tree)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def _imports_all(self, node: ast.stmt) -> bool:
        """Return whether a statement imports files beside ``__init__`` only for their side effects."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return ast.unparse(node.value.func) in ("import_models", "import_tasks")
        if isinstance(node, ast.Import):
            return node.names[0].name.startswith("fairseq.")
        if isinstance(node, ast.ImportFrom):
            return (node.module is None and bool(node.level)) or node.names[0].name in self._homes
        return isinstance(node, ast.For)

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        homes = self._homes

        def of_submodule(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            home = f"{module.__name__}.{homes.get(name, name)}"
            try:
                submodule = importlib.import_module(home)
            except ModuleNotFoundError as error:
                if error.name != home:
                    raise
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}") from None
            return getattr(submodule, name) if name in homes else submodule

        module.__getattr__ = of_submodule  # type: ignore[method-assign]
        for name, home in homes.items():
            if name == home:  # else the submodule would hide what it defines under its own name
                setattr(module, name, of_submodule(name))
        if module.__name__ == _SCHEDULE.rpartition(".")[0]:  # the one that every training here has
            importlib.import_module(_SCHEDULE)


def _leave_out_progress_bar(tree: ast.Module) -> None:
    """Keep fairseq's progress bar from importing wandb and tensorboard, which it does where they are installed."""
    tree.body = [node for node in tree.body if "'fairseq.progress_bar'" not in ast.unparse(node)]
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            node.names = [alias for alias in node.names if alias.name != "progress_bar"]


def _homes(tree: ast.Module) -> dict[str, str]:
    """Map the names that a package imports from files beside it to those files."""
    return {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
        for alias in node.names
    }


def _with_everything(lookup: Callable[..., Any], known: typing.Container[str]) -> Callable[..., Any]:
    """Wrap ``lookup(cfg, ...)``: import all of fairseq first, unless ``known`` has the name in ``cfg``."""

    @functools.wraps(lookup)
    def looked_up(cfg: Any = None, *args: Any, **settings: Any) -> Any:
        if not any(isinstance(name, str) and name in known for name in _names(cfg)):
            import_everything()
        return lookup(cfg, *args, **settings)

    return looked_up


def _names(cfg: Any) -> list[Any]:
    """Names that a lookup is given: a string, or some fields of its configuration."""
    if isinstance(cfg, str):
        return [cfg]
    if isinstance(cfg, Mapping):
        # omegaconf raises an error for a key that is missing. The error refers to itself, so until the collector
        # runs it would keep the arguments of the lookup: the optimiser that a resumed run replaces.
        return [cfg[field] for field in set(cfg).intersection(_NAME_FIELDS)]
    return [getattr(cfg, field, None) for field in _NAME_FIELDS]


@functools.cache
def import_everything() -> None:
    """Import all that stock fairseq registers: models, tasks, criterions, optimisers, schedules, scorers."""
    with quiet_logging():
        for package in _CATALOGUES:
            folder = importlib.import_module(package)
            for module in pkgutil.iter_modules(folder.__path__):
                importlib.import_module(f"{package}.{module.name}")
        importlib.import_module("fairseq.benchmark")
        importlib.import_module("fairseq.model_parallel")


@contextlib.contextmanager
def quiet_logging() -> Iterator[None]:
    """Leave the root logger as it was.

    Cause: two of fairseq's tasks call ``logging.basicConfig(level=DEBUG)`` when they are imported, and every
    library then writes what it does to standard error.
    """
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
