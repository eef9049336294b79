"""Questions that readers of a sample answer, by name: our own, those of HPLT and FineWeb-C, and those for pairs.

Sources: van Noord et al. 2024 (arXiv 2403.08693) for running text; the guidelines of HPLT's release 3
(hplt-project/release3_inspection); FineWeb-C's labels of educational value; Kreutzer et al. 2022 (arXiv 2103.12028) for
pairs.
"""

from dataclasses import asdict, dataclass
from typing import Any

from xling.core.package_tables import load_table


@dataclass(frozen=True)
class Label:
    """One answer.

    Attributes:
        name: as it is saved.
        key: the key that gives it.
        text: as it is shown.
        is_wrong_language: the text counts as one in another language, or in none; no more needs to be said of it.
        is_unwanted: the text does not belong into a corpus of running text.
    """

    name: str
    key: str
    text: str
    is_wrong_language: bool = False
    is_unwanted: bool = False


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        name: as its answers are saved.
        text: as it is shown.
        labels: the answers.
        takes_many: any number of answers, none too; a question with one answer must be answered.
        is_verdict: its answers ``keep`` and ``drop`` say whether the text belongs into the corpus. Where none is
            given, the other answers say it.
    """

    name: str
    text: str
    labels: tuple[Label, ...]
    takes_many: bool = False
    is_verdict: bool = False


LANGUAGE, VERDICT, KEEP = "language", "verdict", "keep"


def _questions(entries: list[dict[str, Any]]) -> tuple[Question, ...]:
    labels = [tuple(Label(**label) for label in entry["labels"]) for entry in entries]
    return tuple(Question(**{**entry, "labels": of}) for entry, of in zip(entries, labels, strict=True))


_TABLE = load_table(__package__, "labels.yaml")
PRESETS: dict[str, tuple[Question, ...]] = {name: _questions(entries) for name, entries in _TABLE.items()}
"""Preset -> its questions. Two labels of a preset have different keys."""

Answers = dict[str, list[str]]
"""Question -> names of the labels that a reader gave."""


def as_json(preset: str) -> list[dict[str, Any]]:
    """Return the questions of a preset as plain values, for the page."""
    return [asdict(question) for question in PRESETS[preset]]


def chosen(preset: str, answers: Answers) -> list[Label]:
    """Return the labels that were given; what the preset does not know is left out."""
    return [
        label
        for question in PRESETS[preset]
        for label in question.labels
        if label.name in answers.get(question.name, ())
    ]


def is_complete(preset: str, answers: Answers) -> bool:
    """Return whether every question that needs an answer has one; a text in a wrong language needs no more."""
    needed = [q.name for q in PRESETS[preset] if not (q.takes_many or q.is_verdict)]
    wrong = any(label.is_wrong_language for label in chosen(preset, answers))
    return wrong or all(answers.get(name) for name in needed)


def is_right_language(preset: str, answers: Answers) -> bool:
    """Return whether the reader saw the language that the corpus says."""
    return not any(label.is_wrong_language for label in chosen(preset, answers))


def belongs(preset: str, answers: Answers) -> bool:
    """Return whether the text belongs into the corpus: as the reader says, else as the labels do."""
    if given := answers.get(VERDICT):
        return KEEP in given
    return not any(label.is_unwanted for label in chosen(preset, answers))
