"""Stage that drops documents too short to keep, by the measure CCNet uses before deduplication."""

from dataclasses import dataclass
from typing import ClassVar

from xling.corpora.stages import STREAMING, Stage
from xling.text.document import LONE, Document


@STREAMING.register("length")
@dataclass(frozen=True)
class Length(Stage):
    """Drop documents whose body, the text without its title, is short.

    A title is what the source says is one: the first line of WET. Documents of one line, as ``lines:`` gives them, are
    only judged by another number than the default.

    Args:
        min_chars: characters (code points) the body must have. CCNet: 300.
    """

    min_chars: int = 300

    name: ClassVar[str] = "length"
    reasons: ClassVar[dict[str, str]] = {
        "short": "the text, without its title, has fewer than min_chars characters"
    }

    def judge(self, doc: Document) -> str | None:
        """Return why a document is dropped: its text has fewer than ``min_chars`` characters."""
        if doc.form == LONE and self.min_chars == Length.min_chars:
            return None
        num_title = doc.text.index("\n") + 1 if doc.num_title_lines else 0
        return "short" if len(doc.text) - num_title < self.min_chars else None
