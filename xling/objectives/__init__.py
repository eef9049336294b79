"""Pre-training objectives, one file each, registered as fairseq tasks ``xling_<name>`` when requested."""

from xling.objectives.base import OBJECTIVES

__all__ = ["OBJECTIVES"]
