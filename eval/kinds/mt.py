"""Texts with their translations, to be translated by a model without fine-tuning."""

from __future__ import annotations

from typing import ClassVar

from xling.eval.kinds.base import KINDS
from xling.eval.kinds.generation import Generation


class Translation(Generation):
    """The answer is a text in the second language of the pair."""

    name = "mt"
    label = "reference translation"
    metrics: ClassVar[tuple[str, ...]] = ("bleu", "chrf", "ter", "in_language")
    task = "mt"
    is_tuned = False
    pairs_languages = True


KINDS.add(Translation.name, Translation())
