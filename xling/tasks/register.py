"""Registers every objective as a fairseq task, the criterion, the models and the optimiser."""

import xling.objectives
from xling import compat

__all__ = ["xling"]

compat.resolve_annotations()
