"""Settings of a mix of objectives: their weights and schedules; without torch."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.settings import schedule
from xling.models.files import model_folder
from xling.text.vocab import vocab_digest

SETTINGS = ("weight", "schedule")
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
            schedule.parse(f"objectives.{name}.schedule", settings["schedule"])
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
