"""Registers every objective as a fairseq task, the criterion, the models and the optimiser."""

import xling.objectives

__all__ = ["xling"]
