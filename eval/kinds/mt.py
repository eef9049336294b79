"""Texts with their translations, to be translated by a model without fine-tuning."""

from collections.abc import Mapping
from typing import Any, ClassVar

from xling.eval.kinds.base import register
from xling.eval.kinds.generation import Generation


@register
class Translation(Generation):
    """The answer is a text in the second language of the pair."""

    name = "mt"
    label = "reference translation"
    metrics: ClassVar[tuple[str, ...]] = ("bleu", "chrf", "ter", "in_language")
    task = "mt"
    is_tuned = False
    pairs_languages = True
    own_setting = "mt"
    own_columns: ClassVar[tuple[str, ...]] = ("text_a", "text_b")

    def row_of_cells(self, cells: Mapping[str, Any], number: int) -> tuple[dict[str, Any], Any]:
        """Return the source and its reference."""
        return {"text": cells["text_a"]}, cells.get("text_b")
