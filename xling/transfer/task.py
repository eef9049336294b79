"""What a model is fine-tuned on: how rows of one shape are read, learned and answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np
from torch import Tensor

from xling.core.registry import Registry
from xling.data.packing import Example
from xling.transfer.encode import Row

if TYPE_CHECKING:
    from jaxtyping import Float, Int

Windows: TypeAlias = Sequence[tuple[Example, np.ndarray]]
"""The examples of a row in order, each with its logits (M, K)."""


class LabelSet(Protocol):
    """What a suite says of its labels: a closed set, or none, and whether they are types of spans."""

    @property
    def labels(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def scheme(self) -> str: ...  # noqa: D102


class TaskShape(LabelSet, Protocol):
    """What is read of a suite: its task, if it has one, its closed labels and whether they are spans."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def task(self) -> str: ...  # noqa: D102


class Task:
    """A task, one instance in `TASKS`.

    Attributes:
        name: registry name, which a fine-tuned model records.
        pointers: the answer is one of the chosen tokens, which compete with each other; there are no labels.
        pooled: a dense layer stands before the classifier.
        together: all examples of a row compete.
        two_texts: the features may be those of a pair; see `xling.transfer.heads.TaskModel`.
        tags_words: a label per word, which moves with the word.
        open_labels: rows may bring labels beside the suite's.
        switched: fields whose words may be replaced by translations; none where the answer is a place in a text.
        xlmr_class: class of `transformers` with the same head, for an export; "" if there is none.
        writes: the answer is a text, written by a model with a decoder.
        translates: the language of a row is a pair, source and target.
        compares: the answer is the likelier text, by a pre-trained encoder as it is.
    """

    name: ClassVar[str]
    pointers: ClassVar[bool] = False
    pooled: ClassVar[bool] = False
    together: ClassVar[bool] = False
    two_texts: ClassVar[bool] = False
    tags_words: ClassVar[bool] = False
    open_labels: ClassVar[bool] = False
    switched: ClassVar[tuple[str, ...]] = ()
    xlmr_class: ClassVar[str] = ""
    writes: ClassVar[bool] = False
    translates: ClassVar[bool] = False
    compares: ClassVar[bool] = False

    def encode(
        self, processor: Any, row: Row, labels: Sequence[str], max_length: int, labelled: bool = True
    ) -> list[Example]:
        """The windows of a row: several where a text is too long, or one per alternative.

        Args:
            processor: SentencePiece model.
            row: the row.
            labels: closed list of labels.
            max_length: sub-tokens of one sequence, specials included.
            labelled: read the row's label; without, a row may have one that is not in ``labels``.

        Returns:
            Examples with ``tokens`` (length,), ``positions`` (length,), ``chosen`` (M,) and ``target`` (M,): indices
            into ``labels``, -1 where the label is unknown or not read. Two texts also have ``segments`` (length,),
            0 and 1, and pairs and alternatives ``sides`` (length,): 1 and 2 at the sub-tokens, 0 at specials.

        Raises:
            UserError: a label that is not in ``labels``.
        """
        raise NotImplementedError(self.name)

    def decode(self, labels: Sequence[str], row: Row, windows: Windows) -> Any:
        """The answer to a row, of the shape of its label; of a span its text alone."""
        raise NotImplementedError(self.name)

    def labels_of(self, given: LabelSet, train: Sequence[Row]) -> tuple[str, ...]:
        """The closed list of labels; none where the answer is a place."""
        return ()

    def num_outputs(self, labels: Sequence[str]) -> int:
        """Columns of the classifier."""
        return len(labels)

    def masked(
        self, logits: Float[Tensor, "chosen labels"], positions: Int[Tensor, " chosen"], labels: Sequence[str]
    ) -> Float[Tensor, "chosen labels"]:
        """Logits (M, K) without labels that a token at its position (M,) cannot have."""
        return logits

    def loss(
        self, losses: Float[Tensor, " chosen"], target: Int[Tensor, " chosen"], labels: Sequence[str]
    ) -> Float[Tensor, ""]:
        """One number from the negative log-likelihood of every chosen token, (M,)."""
        return losses.mean()


TASKS: Registry[Task] = Registry("task", "xling.transfer.tasks")
