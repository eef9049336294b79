"""Documents that consist of questions: a stage added by this file alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xling.corpora.stages import STREAMING, Example, Stage
from xling.text.document import Document


@STREAMING.register("questions")
@dataclass(frozen=True)
class Questions(Stage):
    """Drop documents of which too many paragraphs are questions.

    Args:
        max_share: largest share of paragraphs that end in a question mark.
    """

    max_share: float = 0.5

    name: ClassVar[str] = "questions"
    reasons: ClassVar[dict[str, str]] = {"asked": "too many paragraphs are questions"}
    examples = (
        Example("", "Who?\nMe."),
        Example("asked", "Who?\nWhy?\nMe."),
        Example("asked", "Who?\nMe.", settings={"max_share": 0.1}),
    )

    def judge(self, doc: Document) -> str | None:
        """Why a document is dropped."""
        lines = doc.text.split("\n")
        return "asked" if sum(line.endswith("?") for line in lines) > self.max_share * len(lines) else None
