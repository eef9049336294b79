"""Registers every objective as a fairseq task, those of other packages too, the criterion, models and optimiser."""

from xling import compat
from xling.models.network import encoder, seq2seq
from xling.models.optim import adamw
from xling.objectives import OBJECTIVES, criterion, multi

__all__ = ["adamw", "criterion", "encoder", "multi", "seq2seq"]

tuple(OBJECTIVES.values())  # the tasks of other packages are registered when they are imported
compat.resolve_annotations()
