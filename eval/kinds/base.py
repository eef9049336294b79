"""Kinds of suites: the form of a suite's rows and everything that depends on it, from reading to statistics.

A kind is one file in ``eval/kinds/``. It defines

- the content of a row,
- how a model is asked for answers: by fine-tuning on a task of `xling.transfer.task`, without it, or from vectors,
- the form of an answer,
- the answers of the controls,
- which rows depend on each other.

No other code depends on the name of a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np

from xling.array_types import Float32, Int64
from xling.core.errors import UserError
from xling.core.registry import Registry
from xling.eval.kinds.nearest_neighbours import Distance

Translate = Callable[[Sequence[str]], list[str]]
Match = Callable[
    [Sequence[str], Sequence[str], "Int64[np.ndarray, 'texts depth']"], "Float32[np.ndarray, 'texts depth']"
]


@dataclass(frozen=True, slots=True)
class Example:
    """One row of a suite; its kind says which ``fields`` there are and what the ``label`` is."""

    id: str
    fields: Mapping[str, Any]
    label: Any


class LabelSet(Protocol):
    """Interface of a suite's labels: the closed set, if there is one, and whether they are types of spans."""

    @property
    def labels(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def scheme(self) -> str: ...  # noqa: D102


Analysed = Literal["", "pairs", "classes"]
"""How `xling analyse` reads the rows of a kind, see `Kind`."""


@dataclass(frozen=True)
class VectorQuestion:
    """Inputs for an answer from vectors.

    Attributes:
        langs: languages of the two sides.
        embed: (texts, language) -> float32 (num_texts, dim).
        training: the training rows of the same languages, read on demand.
        is_control: a system that may not have learned anything.
        match: (texts, texts of the other side, candidates (num_texts, depth)) -> what their words add to the scores
            of the candidates, float32 (num_texts, depth); None if words are not compared.
    """

    rows: Sequence[Example]
    langs: tuple[str, str]
    embed: Callable[[Sequence[str], str], Float32[np.ndarray, "texts dim"]]
    distance: Distance
    training: Callable[[], list[Example]]
    is_control: bool
    match: Match | None = None


class Kind:
    """A kind of suite, one instance in `KINDS`.

    Attributes:
        fields: field of a row -> ``str``, or ``tuple`` for a list of texts.
        label: description of a label.
        label_type: ``str`` or ``int``, or ``tuple`` for a list of texts.
        answer: description of a prediction.
        metrics: metrics of a suite that names none, the main one first.
        task: name in `xling.transfer.task.TASKS` of the task; "" if answers come from vectors.
        is_tuned: a model is fine-tuned on the suite's rows first.
        reads_training: answers from vectors also depend on training rows.
        compares_words: the words of the nearest texts can be compared too (`VectorQuestion.match`).
        closed: a suite has to name its labels.
        may_be_rare: classes may have fewer rows than few-shot transfer requires.
        pairs_languages: a language of the suite is a pair such as ``en-de``.
        is_slow: metrics align texts, a hundred times the cost of counting: their row statistics are cached.
        with_intervals: section of a report that shows the interval of every score, or "".
        texts: fields to translate if labels survive translation.
        analysed_as: what `xling analyse` reads: ``pairs`` of translations, ``classes`` of parallel texts, or "".
        own_setting: setting that names own files of such rows, or "".
        own_columns: columns that own files need, see `xling.eval.rows.own_formats`.
    """

    name: ClassVar[str]
    fields: ClassVar[Mapping[str, type]]
    label: ClassVar[str]
    label_type: ClassVar[type] = str
    answer: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]
    task: ClassVar[str] = ""
    is_tuned: ClassVar[bool] = True
    reads_training: ClassVar[bool] = False
    compares_words: ClassVar[bool] = False
    closed: ClassVar[bool] = False
    may_be_rare: ClassVar[bool] = False
    pairs_languages: ClassVar[bool] = False
    is_slow: ClassVar[bool] = False
    with_intervals: ClassVar[str] = ""
    texts: ClassVar[tuple[str, ...]] = ()
    analysed_as: ClassVar[Analysed] = ""
    own_setting: ClassVar[str] = ""
    own_columns: ClassVar[tuple[str, ...]] = ()

    # Rows.

    def row_of_cells(self, cells: Mapping[str, Any], number: int) -> tuple[dict[str, Any], Any]:
        """Return fields and label of the row ``number`` of an own file, whose label may be missing (None)."""
        return {name: cell for name, cell in cells.items() if name in self.fields}, cells.get("label")

    def cells_of_answer(self, answer: Any) -> dict[str, Any]:
        """Return an answer as the values that are written beside the texts of an own file."""
        return {"label": answer}

    def is_label(self, row: Example) -> bool:
        """Return whether a row's label has the right shape."""
        if self.label_type is tuple:
            return is_texts(row.label)
        return isinstance(row.label, self.label_type) and not isinstance(row.label, bool)

    def label_mismatch(self, row: Example) -> tuple[str, str] | None:
        """Return what is wrong with an optional field of a row, and what would be right; None if nothing is."""
        return None

    def closed_labels(self, suite: LabelSet, row: Example) -> Iterable[str]:
        """Yield the parts of a row's label that must be in the suite's closed set."""
        return ()

    def tags(self, suite: LabelSet) -> tuple[str, ...]:
        """Return the closed set of labels that a model chooses from."""
        return suite.labels

    # Statistics.

    def block(self, row: Example) -> Hashable:
        """Return the key shared by rows whose answers depend on each other: the ``document``; None for none."""
        shared: Hashable = row.fields.get("document")
        return shared

    # Answers.

    def is_answer(self, suite: LabelSet, row: Example, answer: Any) -> bool:
        """Return whether an answer is valid for a row."""
        return isinstance(answer, str)

    def candidate_check(
        self, rows: Sequence[Example], training: Callable[[], Sequence[Example]]
    ) -> Callable[[Any], bool] | None:
        """Return whether an answer is among the candidates of rows and training rows; None without candidates."""
        return None

    def right_answer(self, row: Example) -> Any:
        """Return the correct answer."""
        return row.label

    def answers_by_vectors(self, question: VectorQuestion) -> list[Any]:
        """Compute answers from vectors, for a kind without a task."""
        raise NotImplementedError(self.name)

    def passages(self, row: Example) -> dict[str, str]:
        """Return the texts of a row that a model must not have read before: field -> text, including references."""
        fields = {name: row.fields.get(name, "") for name in self.fields}
        return {
            name: " ".join(value) if is_texts(value) else str(value)
            for name, value in fields.items()
            if value
        }

    # For display.

    def source_of(self, row: Example) -> str:
        """Return the input of a system as text: the passages of a row without its reference."""
        return " / ".join(text for name, text in self.passages(row).items() if name != "reference")

    def answer_text(self, answer: Any, row: Example, rows: Sequence[Example]) -> str:
        """Return an answer to one of ``rows`` as text."""
        return _plain_text(answer)

    # Protocols.

    def classes(self, suite: LabelSet, row: Example) -> set[Hashable]:
        """Return the classes that a row is a shot of, for few-shot transfer."""
        return {row.label}

    def translated(self, rows: Sequence[Example], translate: Translate) -> list[Example]:
        """Return rows with translated texts and unchanged labels.

        Raises:
            UserError: labels are places in the text, or texts.
        """
        if not self.texts:
            raise UserError(
                f"labels of {self.name} rows do not survive translation: they are places in the text, or texts",
                "suites of sentence pairs, classes or choices",
            )
        fields: list[dict[str, Any]] = [dict(row.fields) for row in rows]
        for name in self.texts:
            texts_of_rows = [f[name] for f in fields]
            are_texts = all(isinstance(value, str) for value in texts_of_rows)
            new = translate(
                texts_of_rows if are_texts else [text for value in texts_of_rows for text in value]
            )
            parts: Iterator[Any] = iter(new) if are_texts else _regroup(new, texts_of_rows)
            for field, value in zip(fields, parts, strict=True):
                field[name] = value
        return [replace(row, fields=new) for row, new in zip(rows, fields, strict=True)]

    # Controls.

    def majority_label(self, train: Sequence[Example], most_frequent: Callable[[Iterable[Any]], Any]) -> Any:
        """Return the label that the control ``majority`` counts; kinds without this method have no such control."""
        raise NotImplementedError(self.name)

    def majority_answer(self, majority_label: Any, row: Example) -> Any:
        """Return the answer of the control ``majority``."""
        return majority_label

    def class_and_tags(self, row: Example) -> tuple[list[str] | None, str | None, Sequence[str] | None]:
        """Return what the control ``ngram`` learns of a row: features and class name, or None; tags, or None.

        A kind without this method has no such control.
        """
        raise NotImplementedError(self.name)

    def answer_from_tags(self, name: str | None, tags: list[str] | None) -> Any:
        """Convert a class and tags to an answer."""
        return name if tags is None else tags


def of_bioes(tags: Sequence[str], types: Collection[str]) -> tuple[str, ...]:
    """Convert BIOES tags (also BILOU), with ``S-`` (``U-``) for one word and ``E-`` (``L-``) for the last, to IOB2.

    Args:
        tags: of one sentence.
        types: the types of spans; a tag of another type stays as it is.
    """
    ours = {"S": "B", "U": "B", "E": "I", "L": "I"}
    return tuple(
        f"{ours[tag[0]]}{tag[1:]}" if tag[1:2] == "-" and tag[0] in ours and tag[2:] in types else tag
        for tag in tags
    )


def is_texts(value: Any) -> bool:
    """Return whether a value is a tuple of texts."""
    return isinstance(value, tuple) and all(isinstance(each, str) for each in value)


def _plain_text(value: Any) -> str:
    return " ".join(map(_plain_text, value)) if isinstance(value, (list, tuple)) else str(value)


def _regroup(texts: Sequence[str], groups: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    start = 0
    for part in groups:
        yield tuple(texts[start : start + len(part)])
        start += len(part)


KINDS: Registry[Kind] = Registry("kind of suite", "xling.eval.kinds", "kind")
AnyKind = TypeVar("AnyKind", bound=type[Kind])


def register(kind: AnyKind) -> AnyKind:
    """Add a kind under its name."""
    KINDS.add(kind.name, kind())
    return kind
