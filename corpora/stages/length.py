"""Documents too short to keep, by the measure CCNet takes before deduplication."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from xling.corpora.stages import STREAMING
from xling.text.document import Document, Ledger


@STREAMING.register("length")
@dataclass(frozen=True)
class Length:
    """Drop documents whose body, the text after the first line, is short.

    Args:
        min_chars: characters (code points) the body must have. CCNet: 300.
    """

    min_chars: int = 300

    name: ClassVar[str] = "length"
    reasons: ClassVar[dict[str, str]] = {
        "short": "the text after the title has fewer than min_chars characters"
    }
    partial: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, docs: Iterable[Document], ledger: Ledger) -> Iterator[Document]:
        """Yield the documents whose body has at least ``min_chars`` characters."""
        for doc in docs:
            ledger.enter(self.name, doc)
            title_chars = doc.text.find("\n")
            if title_chars < 0 or len(doc.text) - title_chars - 1 < self.min_chars:
                ledger.drop(self.name, "short", doc)
            else:
                yield doc
