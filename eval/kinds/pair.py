"""Pairs of texts with a class."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xling.eval.kinds.base import Example, register
from xling.eval.kinds.character_ngrams import character_grams
from xling.eval.kinds.classify import Classify


@register
class Pair(Classify):
    """The answer is the name of a class."""

    name = "pair"
    fields: ClassVar[Mapping[str, type]] = {"text_a": str, "text_b": str}
    task = "pair"
    analysed_as = ""
    texts: ClassVar[tuple[str, ...]] = ("text_a", "text_b")
    own_setting = "pairs"
    own_columns: ClassVar[tuple[str, ...]] = ("text_a", "text_b", "label")

    def class_and_tags(self, row: Example) -> tuple[list[str] | None, str | None, Sequence[str] | None]:
        """Return the n-grams of the second text, each marked as shared with the first or new."""
        first = set(character_grams(row.fields["text_a"]))
        second = character_grams(row.fields["text_b"])
        marked = [f"{'shared' if gram in first else 'new'}:{gram}" for gram in second]
        return marked, row.label, None
