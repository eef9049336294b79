"""Settings of the objective ``bilm``."""

from dataclasses import dataclass

from xling.objectives.base_settings import TaskConfig, declare


@declare("bilm")
@dataclass
class BilmConfig(TaskConfig):
    """Settings of the language model of two directions: those of every objective."""
