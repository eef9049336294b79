"""The table of commands: names of modules as text, so that `xling --help` and a pool worker import nothing heavy."""

import tomllib
from importlib.resources import files

from xling.core.commands.stage_type import Stage

NAMED_PIPELINES = ("quickstart", "encoder")
"""Recipes that are run by their name alone."""
PLANNED_PIPELINES = {"language": "language survey"}
"""Words whose pipeline a stage writes, as ``pipeline.yaml`` in its output -> that stage."""
OTHER_WORDS = (
    "run",
    *NAMED_PIPELINES,
    *PLANNED_PIPELINES,
    "config",
    "why-rerun",
    "slurm",
    "recipes",
    "schema",
)
"""First words of `xling` that name no stage."""


_TEXT = (files("xling.core.commands") / "commands.toml").read_text(encoding="utf-8")
COMMANDS = tuple(Stage(name, **entry) for name, entry in tomllib.loads(_TEXT).items())
"""The commands of ``commands.toml``, in its order."""
