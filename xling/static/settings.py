"""Settings of ``xling pretrain static``, which load without torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xling.core.errors import UserError
from xling.core.settings import values
from xling.core.settings.values import COUNT_OR_NONE, NOT_NEGATIVE, PART, POSITIVE, Lang, Range, ranged
from xling.static.shape import StaticConfig
from xling.text.words.features import FEATURES_VERSION

SOURCE_SHARES = {
    "bible": 0.3, "seed": 0.2, "mafand": 0.12, "nli": 0.08, "multi30k": 0.05, "dictionary": 0.05, "indian": 0.02,
    "stories": 0.02, "udhr": 0.01, "para_extra": 0.25, "po": 0.08,
}  # fmt: skip

SOURCE_MASS = {
    "bible": 0.1, "seed": 0.3, "multi30k": 0.15, "mafand": 0.5, "nli": 0.5, "indian": 0.5, "stories": 0.5, "udhr": 0.1,
    "dictionary": 0.02,
}  # fmt: skip
"""Default weights: verses recur in sixty languages, captions are similar, dictionary entries are short rows."""


@dataclass(frozen=True)
class LatentConfig:
    """Settings of `latent_table`, or an encoder to use instead.

    Attributes:
        encoder: output of ``xling pretrain static`` with the same ``model.*`` to train further, or with a smaller
            ``model.dim``, to which random numbers are added; latent vectors are not computed then.
        rounds: rounds of subspace iteration; 0 starts from a random table instead.
        fit_rounds: iterations of conjugate gradients.
        ridge: strength of the ridge penalty, relative to the median weight of a feature.
        mass: weight of a text by source, 1 by default; a row weighs as much as its texts together.
    """

    encoder: Path | None = None
    rounds: int = 3
    fit_rounds: int = 5
    ridge: float = 0.3
    mass: Mapping[str, float] | None = None


@dataclass(frozen=True)
class TeacherConfig:
    """An encoder whose vectors the student learns from every side of a row.

    Attributes:
        encoder: ``hf:DIR``, a folder of ours or of sentence-transformers, ``NAME`` or ``NAME:PATH`` of a plug-in; ""
            for none.
        langs: languages that it knows, the best first; a row is read in the first that it has.
        max_texts: number of different texts that the teacher reads, drawn once; 0 for all. Other rows are learned by
            contrast alone.
        weight: weight of the imitation beside the contrast of the two sides, 0 to 1: 1 learns from the teacher alone.
        temperature: temperature of the contrast with the teacher's vectors of the other rows.
        distance: weight of the squared distance to the teacher's vector.
    """

    encoder: str = ""
    langs: tuple[Lang, ...] = ("en",)
    max_texts: int = ranged(0, COUNT_OR_NONE)
    weight: float = ranged(0.5, Range(above=0, most=1, words="more than 0, at most 1"))
    temperature: float = ranged(0.05, POSITIVE)
    distance: float = ranged(5.0, NOT_NEGATIVE)


@dataclass(frozen=True)
class StaticTraining:
    """Settings of ``xling pretrain static``.

    Attributes:
        data: output of ``xling corpus nway``.
        out: directory to publish.
        minutes: wall time of the updates, with ``updates=0``; the learning rate falls to zero over it. 0
            keeps the latent vectors unchanged.
        updates: number of updates instead; then a resumed run ends in the same weights.
        shares: share of the rows by source; the other sources share the rest evenly. Within a source a set of
            aligned files counts by the square root of its rows.
        start: latent vectors, or an encoder, to start from.
        teacher: an encoder to imitate.
        rows: rows of one update.
        english: share of the rows with three or more languages in which one side is English.
        drop: share of the words of a text that are dropped.
        lr: initial learning rate.
        temperature: temperature of the softmax over the rows.
        margin: subtracted from the similarity of a row's own translation.
        lengths: numbers of a vector's beginning that also have to find the translation alone (Kusupati et al. 2022,
            Matryoshka), below ``model.dim``.
        seed: seed of the table and of the batches.
        save_minutes: minutes between saved states from which a stopped run continues.
        model: shape of the encoder.
    """

    data: Path
    out: Path
    minutes: float = ranged(20.0, NOT_NEGATIVE)
    updates: int = ranged(0, COUNT_OR_NONE)
    shares: dict[str, float] = field(default_factory=lambda: dict(SOURCE_SHARES))
    start: LatentConfig = field(default_factory=LatentConfig)
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    rows: int = ranged(1024, Range(least=2, words="at least 2: the other rows are the negatives"))
    english: float = ranged(1.0, PART)
    drop: float = ranged(0.1, Range(least=0, most=0.9))
    lr: float = ranged(0.02, POSITIVE)
    temperature: float = ranged(0.05, POSITIVE)
    margin: float = 0.2
    lengths: tuple[int, ...] = ()
    seed: int = 1
    save_minutes: float = ranged(2.0, POSITIVE)
    model: StaticConfig = field(default_factory=StaticConfig)

    def __post_init__(self) -> None:
        """Reject invalid settings.

        Raises:
            UserError: a setting out of range.
        """
        if self.model.features != FEATURES_VERSION:
            raise UserError(
                f"model.features={self.model.features}",
                f"{FEATURES_VERSION}, the version of the rows of text",
                "leave it out",
            )
        values.check(self)
        if not all(0 < length < self.model.dim for length in self.lengths):
            raise UserError(
                f"lengths={','.join(map(str, self.lengths))}",
                f"numbers from 1 to {self.model.dim - 1}, below model.dim",
            )
        if not self.updates and not self.minutes and (self.start.encoder or not self.start.rounds):
            raise UserError(
                "minutes=0 updates=0 would learn nothing", "one of them above 0, or start.rounds above 0"
            )
        if not self.teacher.encoder and self.teacher != TeacherConfig():
            raise UserError(
                "settings of the teacher are given, and no teacher",
                "teacher.encoder=ENCODER",
                "or leave them out",
            )
        values.check(self.teacher, "teacher.")
        if not self.teacher.langs:
            raise UserError("teacher.langs= is empty", "one language or more")
