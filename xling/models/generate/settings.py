"""Settings of generation, in a separate module because they load without torch."""

from dataclasses import dataclass

from xling.core.errors import UserError
from xling.core.settings import values
from xling.core.settings.values import NOT_NEGATIVE, POSITIVE, Range, ranged


@dataclass(frozen=True)
class Search:
    """Settings of the search for the best output.

    Attributes:
        beam: number of hypotheses kept; 1 is greedy.
        length_penalty: exponent of the length that a score is divided by; above 1 favours long outputs.
        max_len_a, max_len_b: an output has at most ``a * source length + b`` tokens, without ``</s>``.
        min_len: minimum number of tokens before ``</s>``.
        sample: sample from the distribution instead of searching; with ``beam`` 1.
        top_k: sample only from the best k, 0 for all.
        temperature: temperature of sampling; below 1 sharpens.
        seed: seed of sampling.
    """

    beam: int = ranged(5, Range(least=1))
    length_penalty: float = 1.0
    max_len_a: float = ranged(1.5, NOT_NEGATIVE)
    max_len_b: int = ranged(10, Range(least=1))
    min_len: int = ranged(1, NOT_NEGATIVE)
    sample: bool = False
    top_k: int = ranged(0, NOT_NEGATIVE)
    temperature: float = ranged(1.0, POSITIVE)
    seed: int = 1

    def __post_init__(self) -> None:
        values.check(self)
        if self.sample and self.beam > 1:
            raise UserError(f"sample with beam={self.beam}", "beam=1")
