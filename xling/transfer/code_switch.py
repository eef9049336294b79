"""Code-switched training rows.

Words are replaced by dictionary translations in several languages, redrawn every epoch.

Source: Qin et al. 2020 (CoSDA-ML). Tags follow their words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.errors import UserError
from xling.text.files.dictionary import Cosda, check_direction, read_dictionary
from xling.text.pairs import word_spans
from xling.text.words.substitution import project_tags, render_text
from xling.transfer.encode import LabelledRow
from xling.transfer.task import TASKS, Task

_NUM_CHECKED_ROWS = 2000


@dataclass(frozen=True)
class SwitchedRow:
    """A training row after substitution; see `xling.transfer.encode.LabelledRow`."""

    id: str
    fields: Mapping[str, Any]
    label: Any


class RowSwitcher:
    """Maker of the code-switched rows of an epoch.

    Args:
        task: task of the rows; if the answer is a place in the text, words cannot be switched.
        dictionaries: language -> file in MUSE's format, from ``lang``.
        rows: the training rows, to check the direction of the dictionaries on.

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
        rows: Sequence[LabelledRow],
        seed: int,
    ) -> None:
        if not task.switched_fields:
            valid_kinds = ", ".join(name for name, other in TASKS.items() if other.switched_fields)
            raise UserError(
                f"switch= with rows of kind {task.name!r}, in which no word can be replaced",
                f"rows of kind {valid_kinds}",
                "leave switch out",
            )
        self._task, self._switched_fields = task, task.switched_fields
        self._spaced_langs = frozenset(code for code in (lang, *dictionaries) if languages.get(code).spaces)
        dictionary_of_lang = {
            other: read_dictionary(Path(path), lang) for other, path in dictionaries.items()
        }
        row_words = {
            word
            for row in rows[:_NUM_CHECKED_ROWS]
            for name in self._switched_fields
            for word in _split_words(row.fields[name])
        }
        for other, table in dictionary_of_lang.items():
            check_direction(Path(dictionaries[other]), table, row_words, lang)
        self._cosda = Cosda(lang, dictionary_of_lang, rate, seed=seed)

    def __call__(self, rows: Sequence[LabelledRow], epoch: int) -> list[SwitchedRow]:
        """Return the rows of epoch ``epoch``; the same epoch gives the same rows."""
        return [self._switch_row(row, epoch) for row in rows]

    def _switch_row(self, row: LabelledRow, epoch: int) -> SwitchedRow:
        if self._task.tags_words:
            switched_sentence = self._cosda(row.fields["tokens"], epoch, row.id, tags=row.label)
            return SwitchedRow(
                row.id,
                {**row.fields, "tokens": switched_sentence.words},
                tuple(project_tags(row.label, switched_sentence)),
            )
        new_fields = {}
        for name in self._switched_fields:
            text = row.fields[name]
            word_places = word_spans(text)
            switched_sentence = self._cosda([text[a:b] for a, b in word_places], epoch, row.id, name)
            new_fields[name] = render_text(switched_sentence, text, word_places, self._spaced_langs)
        return SwitchedRow(row.id, {**row.fields, **new_fields}, row.label)


def _split_words(text: str | Sequence[str]) -> list[str]:
    return [text[a:b] for a, b in word_spans(text)] if isinstance(text, str) else list(text)
