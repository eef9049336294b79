"""Settings of the objectives that learn from another encoder, and the constraints on them; without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from xling.core import languages
from xling.core.commands.inputs import STATIC_FILE
from xling.core.errors import UserError
from xling.core.settings.unused import Condition
from xling.core.settings.values import NOT_NEGATIVE, POSITIVE, SHARE, OneOf, ranged
from xling.models.files import model_folder
from xling.objectives.base_settings import MaskConfig, PairConfig, declare
from xling.text.files import shards
from xling.text.files.shards import vocab_digest

LEAST_SIMILARITY = 0.3
"""Default of ``objectives.teach.least``."""


@declare("distill")
@dataclass
class DistillConfig(MaskConfig):
    """Settings of distillation.

    Attributes:
        teacher: published model to learn from.
        soft: weight of the loss against the distributions of the teacher.
        hard: weight of masked LM.
        hidden: weight of the loss between hidden states.
        relations: weight of the loss between relations of queries, keys and values.
        temperature: temperature of the logits of both models for ``soft``.
        relation_heads: heads of the relations; 0 for as many as the teacher has.
        teacher_layer: layer, from 1, whose relations are used; 0 for the last.
    """

    has_weights: ClassVar[bool] = True

    teacher: str = ""
    soft: float = 1.0
    hard: float = 1.0
    hidden: float = 1.0
    relations: float = 1.0
    temperature: float = ranged(2.0, POSITIVE)
    relation_heads: int = 0
    teacher_layer: int = 0
    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition("temperature", lambda c: c.soft, "soft above 0"),
        Condition("relation_heads teacher_layer", lambda c: c.relations, "relations above 0"),
    )

    def check_model(self, langs: list[str], shape: Any) -> None:
        """Check the teacher, and that the weights and the layers fit both models."""
        if not self.teacher:
            raise UserError("no teacher to distill", "a published encoder", "objectives.distill.teacher=DIR")
        directory = Path(self.teacher)
        content = model_folder.read(directory, *model_folder.OURS)
        if content["format"] == model_folder.SEQ2SEQ:
            raise UserError(f"objectives.distill.teacher={directory} has a decoder", "an encoder alone")
        model_folder.check_vocabulary(vocab_digest(directory), Path(self.data), directory)
        teacher = model_folder.shape_of(content)
        if teacher.lang_embeddings and content["langs"] != langs:
            raise UserError(
                f"objectives.distill.teacher={directory} has language embeddings for {', '.join(content['langs'])}",
                f"the languages of this training: {', '.join(langs)}",
                f"set langs={','.join(content['langs'])}",
            )
        weights = {name: getattr(self, name) for name in ("soft", "hidden", "relations", "hard")}
        if min(weights.values()) < 0 or not self.soft + self.hidden + self.relations > 0:
            given = " ".join(f"{name}={weight}" for name, weight in weights.items())
            raise UserError(
                f"objectives.distill: {given}",
                "weights from 0, one of the first three above it",
            )
        if teacher.max_positions < self.tokens_per_sample:
            raise UserError(
                f"objectives.distill.tokens_per_sample={self.tokens_per_sample}",
                f"at most {teacher.max_positions}, the positions of the teacher",
            )
        if not 0 <= self.teacher_layer <= teacher.layers:
            raise UserError(
                f"objectives.distill.teacher_layer={self.teacher_layer}",
                f"1 to {teacher.layers}, 0 for the last",
            )
        heads = self.relation_heads or teacher.heads
        if heads < 0 or shape.dim % heads or teacher.dim % heads:
            raise UserError(
                f"objectives.distill.relation_heads={heads}",
                f"a divisor of the widths {shape.dim} and {teacher.dim}",
            )


@declare("teach")
@dataclass
class TeachConfig(PairConfig):
    """Settings of teaching.

    Attributes:
        teacher: published encoder to learn from; it may have another vocabulary.
        source: language that the teacher reads; pairs without it are left out.
        links: static encoder (`xling pretrain static`) that links words; without it only words of ``source`` are
            learned.
        least: least similarity of linked words.
        sentence: weight of the loss of sentences.
        words: weight of the loss of words.
        sides: what is taught: ``both`` sides of a pair, or the ``target`` alone, which costs half as much and leaves
            the source language to what the model has of it.
    """

    has_weights: ClassVar[bool] = True

    teacher: str = ""
    source: str = "en"
    links: str = ""
    least: float = ranged(LEAST_SIMILARITY, SHARE)
    sentence: float = ranged(1.0, NOT_NEGATIVE)
    words: float = ranged(1.0, NOT_NEGATIVE)
    sides: str = ranged("both", OneOf(("both", "target")))
    conditions: ClassVar[tuple[Condition, ...]] = (Condition("least", lambda c: c.links, "links=ENCODER"),)

    def check_model(self, langs: list[str], shape: Any) -> None:
        """Check the teacher, the pairs that it can read, and that the losses and their settings have an effect."""
        if not self.teacher:
            raise UserError("no teacher to learn from", "a published encoder", "objectives.teach.teacher=DIR")
        content = model_folder.check_model(Path(self.teacher), *model_folder.OURS)
        if content["format"] == model_folder.SEQ2SEQ or model_folder.shape_of(content).lang_embeddings:
            raise UserError(
                f"objectives.teach.teacher={self.teacher} has a decoder or language embeddings",
                "an encoder without them",
            )
        pairs = shards.select_pairs(self.pairs, Path(self.data), langs)
        if not any(languages.canonical(self.source) in languages.split_pair(pair) for pair in pairs):
            raise UserError(
                f"objectives.teach.source={self.source}: no pair has it",
                ", ".join(pairs),
                "give pairs with it",
            )
        if not self.sentence + self.words > 0:
            raise UserError(
                f"objectives.teach: sentence={self.sentence} words={self.words}", "one of the two above 0"
            )
        if self.links and not (Path(self.links) / STATIC_FILE).is_file():
            raise UserError(f"objectives.teach.links={self.links}", "an output of xling pretrain static")
