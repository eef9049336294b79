"""Settings of language-adversarial training, without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from xling.core.errors import UserError
from xling.core.settings.unused import Condition
from xling.core.settings.values import NOT_NEGATIVE, POSITIVE, OneOf, ranged
from xling.objectives.base_settings import TaskConfig, declare
from xling.text.files import shards

CLIP = 0.01


@declare("lang_adversary")
@dataclass
class LangAdversaryConfig(TaskConfig):
    """Settings of language-adversarial training.

    Attributes:
        reversal: factor of the reversed gradient that the encoder gets; 0 trains a probe of languages alone.
        warmup: updates over which ``reversal`` rises from 0.
        form: ``classes``: the discriminator learns by cross-entropy. ``wgan``: it is a critic, whose weights are bound.
        clip: bound of the weights of a critic.
        pooling: vector of a sentence: the ``mean`` of its states, or that of ``<s>`` (``cls``).
    """

    has_weights: ClassVar[bool] = True

    reversal: float = ranged(0.1, NOT_NEGATIVE)
    warmup: int = ranged(0, NOT_NEGATIVE)
    form: str = ranged("classes", OneOf(("classes", "wgan")))
    clip: float = ranged(CLIP, POSITIVE)
    pooling: str = ranged("mean", OneOf(("mean", "cls")))
    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition("clip", lambda c: c.form == "wgan", "form=wgan"),
        Condition("warmup", lambda c: c.reversal, "reversal above 0"),
    )

    def check_data(self, langs: list[str]) -> None:
        """Check that there are languages to tell apart."""
        super().check_data(langs)
        there = [lang for lang in shards.list_languages(Path(self.data)) if lang in langs]
        if len(there) < 2:
            raise UserError(
                f"objectives.lang_adversary with monolingual text in {', '.join(there) or 'no language'}",
                "text in two languages or more",
                "binarize text of more languages, or name them in langs=",
            )
