"""Code-switched training rows.

Words are replaced by dictionary translations in several languages, redrawn every epoch.

Source: Qin et al. 2020 (CoSDA-ML). Tags follow their words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.errors import UserError
from xling.text.files.dictionary import Cosda, check_direction, read_dictionary
from xling.text.pairs import word_spans
from xling.text.words.substitution import project_tags, render_text
from xling.transfer.encode import Row
from xling.transfer.task import TASKS, Task

_CHECKED_ROWS = 2000


@dataclass(frozen=True)
class SwitchedRow:
    """A training row after substitution; see `xling.transfer.encode.Row`."""

    id: str
    fields: Mapping[str, Any]
    label: Any


class Switcher:
    """Maker of the code-switched rows of an epoch.

    Args:
        task: task of the rows; if the answer is a place in the text, words cannot be switched.
        lang: language of the rows.
        dictionaries: language -> file in MUSE's format, from ``lang``.
        rate: probability that a word is replaced, if a dictionary has it.
        rows: the training rows, to check the direction of the dictionaries on.
        seed: seed of all draws.

    Raises:
        UserError: the task does not allow switching, the rate is out of range, or a dictionary is unreadable
            or inverted.
    """

    def __init__(
        self,
        task: Task,
        lang: str,
        dictionaries: Mapping[str, str],
        rate: float,
        rows: Sequence[Row],
        seed: int,
    ) -> None:
        if not task.switched:
            fit = ", ".join(name for name, other in TASKS.items() if other.switched)
            raise UserError(
                f"switch= with rows of kind {task.name!r}, in which no word can be replaced",
                f"rows of kind {fit}",
                "leave switch out",
            )
        self._task, self._fields = task, task.switched
        self._spaced = frozenset(code for code in (lang, *dictionaries) if languages.get(code).spaces)
        tables = {other: read_dictionary(Path(path), lang) for other, path in dictionaries.items()}
        known = {
            word for row in rows[:_CHECKED_ROWS] for name in self._fields for word in _words(row.fields[name])
        }
        for other, table in tables.items():
            check_direction(Path(dictionaries[other]), table, known, lang)
        self._cosda = Cosda(lang, tables, rate, seed=seed)

    def __call__(self, rows: Sequence[Row], epoch: int) -> list[SwitchedRow]:
        """Return the rows of epoch ``epoch``; the same epoch gives the same rows."""
        return [self._row(row, epoch) for row in rows]

    def _row(self, row: Row, epoch: int) -> SwitchedRow:
        if self._task.tags_words:
            replaced = self._cosda(row.fields["tokens"], epoch, row.id, tags=row.label)
            return SwitchedRow(
                row.id, {**row.fields, "tokens": replaced.words}, tuple(project_tags(row.label, replaced))
            )
        switched = {}
        for name in self._fields:
            text = row.fields[name]
            places = word_spans(text)
            replaced = self._cosda([text[a:b] for a, b in places], epoch, row.id, name)
            switched[name] = render_text(replaced, text, places, self._spaced)
        return SwitchedRow(row.id, {**row.fields, **switched}, row.label)


def _words(text: str | Sequence[str]) -> list[str]:
    """Return the words of a text, or of tokens."""
    return [text[a:b] for a, b in word_spans(text)] if isinstance(text, str) else list(text)
