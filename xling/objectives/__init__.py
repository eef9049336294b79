"""Pre-training objectives, one file each, registered as fairseq tasks ``xling_<name>``."""

import importlib
import pkgutil

from xling.models import encoder, optim
from xling.objectives.base import OBJECTIVES

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["OBJECTIVES", "encoder", "optim"]
