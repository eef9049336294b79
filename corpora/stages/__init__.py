"""Corpus stages, one file each.

A streaming stage is a frozen dataclass: its fields are its configuration, `name` its name in `STREAMING`,
`reasons` what it drops and why, and calling it with documents and a ledger runs it. Reasons listed in
`partial` drop a part of a document, for example a paragraph; the others drop the document. Barriers
(`paragraphs`, `near_duplicates`, `perplexity.fit_cutoffs`) are functions over the files of all shards.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from typing import ClassVar, Protocol

from xling.core.registry import Registry
from xling.text.document import Document, Ledger


class ConfiguredStage(Protocol):
    """A `StreamingStage` with its drop reasons; built from keyword arguments, all with defaults."""

    name: ClassVar[str]
    reasons: ClassVar[dict[str, str]]
    partial: ClassVar[frozenset[str]]

    def __call__(self, docs: Iterable[Document], ledger: Ledger) -> Iterator[Document]:
        """Yield the documents that survive, in their order."""
        ...


STREAMING: Registry[type[ConfiguredStage]] = Registry("corpus stage")


def load_all() -> Registry[type[ConfiguredStage]]:
    """Import every module of this package and return the complete registry."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return STREAMING
