"""xling: multilingual pre-training and cross-lingual transfer.

The public Python interface is `load`, `Model` and the module ``xling.corpus``; each is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from xling import compat

if TYPE_CHECKING:
    from xling import corpus
    from xling.api import Model, load

__all__ = ["Model", "corpus", "load"]

compat.lighten()
compat.ask_for_huge_pages()


def __getattr__(name: str) -> Any:
    """Import a public name on its first use, so that ``import xling`` stays light."""
    if name == "corpus":
        return importlib.import_module("xling.corpus")
    if name in __all__:
        return getattr(importlib.import_module("xling.api"), name)
    raise AttributeError(f"module 'xling' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
