"""Base classes of the settings of objectives, and the table of those that are declared; without torch.

An objective's settings are a plain dataclass. It also says what a training must know of the objective before
it imports torch: facts as class variables, constraints as methods. ``@declare("mine")`` puts it into the table:
those of this package in `xling.objectives.settings`, those of another package in the module ``X_settings`` beside
``X``, which the entry point ``objective.mine`` names. One without such a module is known once ``X`` is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from xling.core.settings.unused import Condition
from xling.core.settings.values import COUNT, COUNT_OR_NONE, PART, SEQUENCE, OneOf, Range, ranged
from xling.data.masking import check_shares
from xling.text.files import shards

SETTINGS: dict[str, type[TaskConfig]] = {}
"""Settings by the name of the objective."""
CHUNKS = Condition("read_buffer", lambda c: c.read_chunk, "read_chunk above 0")
"""Of every objective, beside its own conditions."""
T = TypeVar("T", bound="TaskConfig")


def declare(name: str) -> Callable[[type[T]], type[T]]:
    """Put the settings of the objective ``name`` into the table.

    Raises:
        ValueError: another objective has the name.
    """

    def decorate(cls: type[T]) -> type[T]:
        if name in SETTINGS:
            raise ValueError(f"objective {name!r} is declared twice")
        SETTINGS[name] = cls
        return cls

    return decorate


@dataclass
class TaskConfig:
    """Settings and facts of an objective; these settings are those that every one has.

    Attributes:
        decoder: it needs a model with a decoder.
        shardable: its loss only uses the weights in one forward pass.
        has_weights: it keeps weights of its own in the model.
        conditions: settings that need another one to have an effect.
        data: binarised directory.
        langs: languages separated by commas; empty for all that the data has.
        alpha: exponent of the sampling of languages, or pairs, by their tokens.
        tokens_per_sample: longest sequence, including specials; with a decoder, of either side.
        read_chunk: neighbouring items that are read together, for file systems that are slow at small reads; 0
            reads every item where it lies.
        read_buffer: chunks of a language that are shuffled together.
    """

    decoder: ClassVar[bool] = False
    shardable: ClassVar[bool] = True
    has_weights: ClassVar[bool] = False
    conditions: ClassVar[tuple[Condition, ...]] = ()

    data: str = ""
    langs: str = ""
    alpha: float = ranged(0.3, Range(least=0, most=1))
    tokens_per_sample: int = ranged(256, SEQUENCE)
    read_chunk: int = ranged(0, COUNT_OR_NONE)
    read_buffer: int = ranged(16, COUNT)
    seed: int = 1

    def check_data(self, langs: list[str]) -> None:
        """Check the settings against each other and against the data.

        Args:
            langs: languages of the training.

        Raises:
            UserError: they do not fit; also for an unknown pair, and text or a model that is missing.
        """

    def check_model(self, langs: list[str], shape: Any) -> None:
        """Check the settings against the shape of the model that is trained, and of its teacher.

        Raises:
            UserError: they do not fit.
        """


@dataclass
class MaskConfig(TaskConfig):
    """Settings of all masked objectives; the defaults are those of BERT and XLM-R.

    Attributes:
        mask_prob: share of the tokens that is predicted.
        leave_unmasked_prob: share of the predicted tokens that is left unchanged.
        random_token_prob: share of the predicted tokens that becomes a random token.
        mask_unit: ``token`` (BERT, RoBERTa), ``word`` (BERT's later whole-word masking) or ``span`` (SpanBERT); in
            scripts without spaces each piece with a letter begins a word.
    """

    mask_prob: float = ranged(0.15, PART)
    leave_unmasked_prob: float = ranged(0.1, PART)
    random_token_prob: float = ranged(0.1, PART)
    mask_unit: str = ranged("token", OneOf(("token", "word", "span")))

    def check_data(self, langs: list[str]) -> None:
        """Check the shares of masking."""
        super().check_data(langs)
        check_shares(self.leave_unmasked_prob, self.random_token_prob)


@dataclass
class PairConfig(TaskConfig):
    """Settings of objectives on parallel text.

    Attributes:
        pairs: pairs separated by commas; empty for all that the data has.
    """

    pairs: str = ""

    def check_data(self, langs: list[str]) -> None:
        """Check the pairs."""
        super().check_data(langs)
        shards.select_pairs(self.pairs, Path(self.data), langs)


@dataclass
class TextConfig(TaskConfig):
    """Settings of objectives on monolingual text with a decoder.

    Attributes:
        join: join neighbouring sentences of a document into one example as long as they fit.
    """

    decoder: ClassVar[bool] = True

    join: bool = False
