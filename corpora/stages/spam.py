"""Stage that drops adult, gambling and machine-made pages by their words. It is not among the default stages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from xling.core.errors import UserError
from xling.corpora import spam
from xling.corpora.stages import STREAMING, Example, Stage
from xling.text.document import Document

_LETTER = (
    "The lottery of the town raises money for the new library. Last year it brought in more than anyone had "
    "hoped, and the council thanked all who had bought a ticket."
)


@STREAMING.register("spam")
@dataclass(frozen=True)
class Spam(Stage):
    """Drop spam by its words, and set ``meta["spam"]``, the probability that a page is spam.

    Args:
        threshold: probability from which a page is dropped; 1 drops none.
        sources: beginnings of the source URIs whose documents are judged; others, for example Wikipedia, pass.
        model: file of ``xling corpus spam-train``; empty for the built-in model, which was made from lists of
            words and finds what is about gambling, articles included.
    """

    threshold: float = 0.5
    sources: tuple[str, ...] = ("",)
    model: Path | None = None

    name: ClassVar[str] = "spam"
    reasons: ClassVar[dict[str, str]] = {
        "spam": "its words are those of adult, gambling or machine-made pages"
    }
    examples = (
        Example("", _LETTER),
        Example(
            "spam",
            "casino poker\n"
            + "online casino bonus free slots poker jackpot roulette betting porn xxx sex\n" * 2,
        ),
    )

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:  # not a number fails, too
            raise UserError(f"settings.spam.threshold={self.threshold}", "a number above 0, at most 1")

    def judge(self, doc: Document) -> str | None:
        """Return ``spam`` or None, and note the probability."""
        if not doc.source.startswith(self.sources):
            return None
        log_odds = self._model.log_odds(doc.text)
        share = 1 / (1 + math.exp(-max(-700.0, min(700.0, log_odds))))
        doc.meta["spam"] = round(share, 4)
        return "spam" if doc.meta["spam"] >= self.threshold and self.threshold < 1 else None

    def explain(self, text: str) -> str:
        """Return the most telling words of a text that was dropped."""
        told = self._model.telling(text)
        return f"most telling: {', '.join(told)}" if told else ""

    @property
    def _model(self) -> spam.SpamModel:
        return spam.load(self.model or Path(spam.__file__).with_name(spam.FILE_NAME))
