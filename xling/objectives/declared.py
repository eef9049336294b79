"""The settings of an objective by its name, and those of a mix of several.

Torch is imported only for an objective that does not declare its settings apart.
"""

import contextlib
import importlib
import math
import pkgutil
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import xling.objectives.settings
from xling.core.errors import UserError, unknown
from xling.core.registry import plugin_entry_points
from xling.core.settings import values
from xling.models.files import model_folder
from xling.objectives import OBJECTIVES
from xling.objectives.base_settings import SETTINGS, TaskConfig
from xling.text.files.shards import vocab_digest


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


MIX_SETTINGS = ("weight", "schedule")
"""Settings of an objective that belong to the mix."""


def of_mix(objectives: Mapping[str, Mapping[str, Any]], data: Path) -> None:
    """Check the settings of several objectives that are trained together.

    Raises:
        UserError: there is none, a weight or a schedule is invalid, one has languages of its own, or text of
            another vocabulary.
    """
    if not objectives:
        raise UserError("the mix holds no objective", "objectives.NAME.weight=1, for example objectives.mmlm")
    for name, settings in objectives.items():
        weight_of(name, settings.get("weight", 1))
        if settings.get("schedule"):
            values.parse_schedule(f"objectives.{name}.schedule", settings["schedule"])
        if "langs" in settings:
            raise UserError(
                f"objectives.{name}.langs is given, and a mix has one list of languages",
                "langs= for all objectives",
                f"leave objectives.{name}.langs out",
            )
        if (own := Path(settings.get("data", data))) != data:
            model_folder.check_vocabulary(vocab_digest(data), own, data)


def weight_of(name: str, text: Any) -> float:
    """Parse the weight of an objective.

    Raises:
        UserError: it is not a number above 0.
    """
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight < math.inf:
        raise UserError(f"objectives.{name}.weight={text}", "a number above 0")
    return weight


def unscheduled(name: str, settings: Mapping[str, Any]) -> None:
    """Raise UserError where an objective that is trained alone has a schedule."""
    if settings.get("schedule"):
        raise UserError(f"objectives.{name}.schedule with one objective", "a mix of several", "leave it out")
