"""Stage that drops documents too short to keep, by the measure CCNet uses before deduplication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xling.corpora.stages import STREAMING, Example, Stage
from xling.text.document import Document


@STREAMING.register("length")
@dataclass(frozen=True)
class Length(Stage):
    """Drop documents whose body, the text after the first line, is short.

    Args:
        min_chars: characters (code points) the body must have. CCNet: 300.
    """

    min_chars: int = 300

    name: ClassVar[str] = "length"
    reasons: ClassVar[dict[str, str]] = {
        "short": "the text after the title has fewer than min_chars characters"
    }
    examples = (
        Example("", "t\n" + "x" * 300),
        Example("", "a title\nten chars.", settings={"min_chars": 10}),
        Example("short", "t\n" + "x" * 299),
        Example("short", "t" * 500),
    )

    def judge(self, doc: Document) -> str | None:
        """Return why a document is dropped: its text has fewer than ``min_chars`` characters."""
        _, _, body = doc.text.partition("\n")
        return "short" if len(body) < self.min_chars or "\n" not in doc.text else None
