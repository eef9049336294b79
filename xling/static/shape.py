"""Shape of a static encoder, without torch, so that a stage's settings load quickly."""

from dataclasses import dataclass

from xling.core.settings import values
from xling.core.settings.values import Range, ranged
from xling.text.words import features

_ABOVE_ZERO = Range(above=0, words="more than 0")


def _whole_number_range(least: int, most: int) -> Range:
    return Range(least, most, words=f"a whole number from {least} to {most}")


@dataclass(frozen=True)
class StaticConfig:
    """Shape of the encoder.

    Attributes:
        dim: size of the vectors.
        bits: the table has ``2 ** bits`` rows.
        smooth: a in the weight a / (a + share) of a word.
        sketch: size of a sentence's sketch, a fixed random projection of its features that finds names and
            numbers that no training text contains. 0 for none.
        sketch_weight: length of the sketch relative to the learned vector.
        features: version of the word features, one of `xling.text.words.features.READABLE_VERSIONS`.
    """

    dim: int = ranged(192, _whole_number_range(1, 4096))
    bits: int = ranged(19, _whole_number_range(1, 26))
    smooth: float = ranged(5e-3, _ABOVE_ZERO)
    sketch: int = ranged(384, _whole_number_range(0, 4096))
    sketch_weight: float = ranged(0.4, _ABOVE_ZERO)
    features: int = ranged(
        features.FEATURES_VERSION,
        Range(
            features.READABLE_VERSIONS[0],
            features.FEATURES_VERSION,
            words="a version that this code reads: 3 or 4",
        ),
    )

    def __post_init__(self) -> None:
        """Reject settings without a valid table.

        Raises:
            UserError: a setting out of range.
        """
        values.check(self)
