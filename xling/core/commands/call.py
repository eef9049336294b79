"""Stages called from Python with settings as values."""

from collections.abc import Mapping
from typing import Any

from xling.core.commands.runner import STAGES, load, run_local
from xling.core.settings import config


def stage(name: str, settings: Mapping[str, Any], num_workers: int = 1) -> Any:
    """Run a stage on this machine with settings given as Python values and return its answer.

    Args:
        name: a name in `STAGES`.
        settings: values by name; nested settings are mappings.
        num_workers: processes for the parts of a phase.

    Raises:
        UserError: an unknown setting or a value of a wrong type, and whatever the stage raises.
    """
    cfg = config.from_dict(load(STAGES[name].config), settings, f"xling {name}")
    return run_local(name, cfg, num_workers)
