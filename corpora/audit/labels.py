"""Questions that readers of a sample answer, by name: our own, those of HPLT and FineWeb-C, and those for pairs.

Sources: van Noord et al. 2024 (arXiv 2403.08693) for running text; the guidelines of HPLT's release 3
(hplt-project/release3_inspection); FineWeb-C's labels of educational value; Kreutzer et al. 2022 (arXiv 2103.12028) for
pairs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


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

_LANGUAGE = Question(
    LANGUAGE,
    "Language",
    (
        Label("right", "1", "right"),
        Label("other", "2", "another language", is_wrong_language=True, is_unwanted=True),
        Label("none", "3", "no language", is_wrong_language=True, is_unwanted=True),
    ),
)
_VERDICT = Question(
    VERDICT,
    "Belongs into the corpus (where it was dropped: wrongly)",
    (Label(KEEP, "8", "belongs"), Label("drop", "9", "does not", is_unwanted=True)),
    is_verdict=True,
)

PRESETS: dict[str, tuple[Question, ...]] = {
    "xling": (
        _LANGUAGE,
        Question(
            "text",
            "Text",
            (
                Label("running", "4", "running text"),
                Label("boilerplate", "5", "boilerplate", is_unwanted=True),
            ),
        ),
        Question(
            "more",
            "And",
            (
                Label("adult", "6", "adult", is_unwanted=True),
                Label("machine", "7", "machine-made", is_unwanted=True),
            ),
            takes_many=True,
        ),
        _VERDICT,
    ),
    "hplt": (
        Question(
            LANGUAGE,
            "Language correct",
            (
                Label("1", "1", "most of it"),
                Label("0", "0", "not most of it", is_wrong_language=True, is_unwanted=True),
            ),
        ),
        Question(
            "more",
            "And",
            (
                Label("porn", "2", "porn", is_unwanted=True),
                Label("unnatural", "3", "unnatural", is_unwanted=True),
                Label("artifacts", "4", "text artifacts"),
            ),
            takes_many=True,
        ),
    ),
    "fineweb-c": (
        Question(
            "educational",
            "Educational value",
            (
                Label("None", "1", "none"),
                Label("Minimal", "2", "minimal"),
                Label("Basic", "3", "basic"),
                Label("Good", "4", "good"),
                Label("Excellent", "5", "excellent"),
                Label("Problematic", "6", "problematic content", is_unwanted=True),
            ),
        ),
        Question(
            LANGUAGE,
            "Language",
            (
                Label("correct", "7", "correct"),
                Label("incorrect", "8", "incorrect", is_wrong_language=True, is_unwanted=True),
            ),
        ),
    ),
    "pairs": (
        Question(
            LANGUAGE,
            "Pair",
            (
                Label("CC", "1", "correct, natural"),
                Label("CB", "2", "correct, boilerplate"),
                Label("CS", "3", "correct, short"),
                Label("X", "4", "wrong translation", is_unwanted=True),
                Label("WL", "5", "wrong language", is_wrong_language=True, is_unwanted=True),
                Label("NL", "6", "no language", is_wrong_language=True, is_unwanted=True),
            ),
        ),
        Question(
            "more",
            "And",
            (
                Label("adult", "7", "adult", is_unwanted=True),
                Label("machine", "a", "machine-translated", is_unwanted=True),
            ),
            takes_many=True,
        ),
        _VERDICT,
    ),
}
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
