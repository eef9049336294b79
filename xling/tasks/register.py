"""Registers every objective as a fairseq task, those of other packages too, models and the optimiser."""

from xling import compat
from xling.models.network import encoder, seq2seq
from xling.models.optim import adamw
from xling.objectives import OBJECTIVES, multi

__all__ = ["adamw", "encoder", "multi", "seq2seq"]

tuple(OBJECTIVES.values())  # the tasks of other packages are registered when they are imported
compat.resolve_annotations()
