"""Pre-training objectives, one file each, registered as fairseq tasks ``xling_<name>`` when requested."""

from typing import Any

from xling.core.registry import Registry

OBJECTIVES: Registry[Any] = Registry("objective", folder="xling.objectives", plugin="objective")
"""Classes derived from `xling.objectives.base.Objective`."""
