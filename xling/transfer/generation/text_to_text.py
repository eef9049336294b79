"""Classes as texts: a model with a decoder learns to write the name of a class (T5, mT5).

A row becomes ``suite: field: text field: text``. An answer is right if it is the name of the class, character by
character; any other text is an empty answer, and wrong. The names are those of the training language, so the
decoder starts with the token of that language, whatever the language of a row.

Source: Raffel et al. 2020, section 2.4; Xue et al. 2021, section 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xling.core.errors import UserError
from xling.core.output.command_result import tell
from xling.transfer.encode import LabelledRow
from xling.transfer.generation.decoder_system import TextGenerator, Weights
from xling.transfer.task import Task, TaskShape


@dataclass(frozen=True)
class TextRow:
    """A row as a source text and the name of its class."""

    id: str
    fields: dict[str, Any]
    label: Any


def as_texts(suite: TaskShape, task: Task, rows: Sequence[LabelledRow]) -> list[TextRow]:
    """Return rows with one ``text`` each.

    Raises:
        UserError: the answers are of another kind than a class.
    """
    if not (task.pooled and task.switched_fields):
        raise UserError(
            f"fit.text_to_text=true for {suite.name}, whose answers are not classes",
            "a suite of texts or pairs of texts with one class",
        )
    return [
        TextRow(
            row.id,
            {
                "text": " ".join(
                    [f"{suite.name}:", *(f"{name}: {row.fields[name]}" for name in task.switched_fields)]
                )
            },
            row.label,
        )
        for row in rows
    ]


@dataclass
class TextToText:
    """A text generator that learned the classes of a suite.

    Attributes:
        generator: the model.
        lang: language of the training rows.
        labels: names of the classes.
    """

    generator: TextGenerator
    lang: str
    labels: tuple[str, ...]

    def check_names(self) -> None:
        """Raise UserError for a name of a class that the vocabulary cannot write."""
        translator = self.generator.translator
        for label in self.labels:
            if translator.decode_text(translator.truncated_pieces(label)) != label:
                raise UserError(
                    f"the vocabulary of {self.generator.ckpt} cannot write the class {label!r}",
                    "names of classes in pieces of the vocabulary",
                    "leave fit.text_to_text out, or pre-train over a vocabulary with byte_fallback=true",
                )

    def predict(
        self, weights: Weights, suite: TaskShape, task: Task, rows: Sequence[LabelledRow], lang: str
    ) -> list[str]:
        """Write the class of each row; empty where the text is not one."""
        written = self.generator.predict(weights, task, as_texts(suite, task, rows), lang, self.lang)
        answers = [text if text in self.labels else "" for text in written]
        if lost := answers.count(""):
            tell(f"xling: {suite.name} {lang}: {lost} of {len(rows)} outputs name no class, and are wrong")
        return answers
