"""Pre-training objectives, one file each, registered as fairseq tasks ``xling_<name>``."""

from xling.objectives.base import OBJECTIVES

OBJECTIVES.discover()

__all__ = ["OBJECTIVES"]
