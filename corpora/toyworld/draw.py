"""Counter-based randomness: a stream that depends on its key alone, never on what was drawn elsewhere."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")
_MASK = (1 << 64) - 1


def digest(*key: object) -> int:
    """Return 64 bits that depend on ``key`` alone; keys are told apart by their ``repr``."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=8).digest(), "little")


class Draw:
    """A stream of draws keyed by ``(seed, ...)``.

    SplitMix64 (Steele, Lea and Flood 2014), started at a hash of the key: cheap to open for each item,
    which generators with a large state are not.
    """

    def __init__(self, *key: object) -> None:
        self._state = digest(*key)

    def below(self, bound: int) -> int:
        """Return an integer in [0, bound)."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((z ^ (z >> 31)) * bound) >> 64

    def chance(self, percent: int) -> bool:
        """Return true with a probability of ``percent`` / 100."""
        return self.below(100) < percent

    def choice(self, items: Sequence[T]) -> T:
        """Draw one of ``items`` uniformly."""
        return items[self.below(len(items))]
