"""The settings of an objective by its name; torch is imported only for one that does not declare them apart."""

import contextlib
import importlib
import pkgutil
from importlib.metadata import EntryPoint

import xling.objectives
from xling.core.errors import UserError, unknown
from xling.core.registry import plugin_entry_points
from xling.objectives import OBJECTIVES
from xling.objectives import settings as settings
from xling.objectives.base_settings import SETTINGS, TaskConfig


def find(name: str) -> type[TaskConfig]:
    """Return the settings of an objective.

    Raises:
        UserError: there is no such objective, or that of another package cannot be loaded.
    """
    points = _plugins()
    if name not in SETTINGS and name in points:
        with contextlib.suppress(Exception):  # a package may raise anything; loading its objective says so
            importlib.import_module(f"{points[name].module}_settings")
    if name not in SETTINGS:
        modules = (module.name for module in pkgutil.iter_modules(xling.objectives.__path__))
        if name not in points and name not in modules:
            raise unknown("objective", name, sorted({*SETTINGS, *points}))
        OBJECTIVES[name]  # registering it declares it
    return SETTINGS[name]


def find_all() -> dict[str, type[TaskConfig]]:
    """Return the settings of every objective by name, without those of other packages that cannot be loaded."""
    for name in _plugins():
        with contextlib.suppress(UserError):  # a training that asks for it says so
            find(name)
    return dict(sorted(SETTINGS.items()))


def with_decoder() -> list[str]:
    """Return the names of the objectives that need a model with a decoder."""
    return [name for name, settings_of in find_all().items() if settings_of.decoder]


def _plugins() -> dict[str, EntryPoint]:
    points = (point for point in plugin_entry_points() if point.name.startswith("objective."))
    return {point.name.partition(".")[2]: point for point in points}
