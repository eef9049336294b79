"""Rows that fine-tuning takes, without a suite to read them from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Sentence:
    """A row of a classification task."""

    text: str
    label: str
    id: str = "row"

    @property
    def fields(self) -> dict[str, Any]:
        return {"text": self.text}
