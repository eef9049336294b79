"""Settings of the stages of this package, in a separate module because they load without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from xling.core.settings.values import COUNT, Lang, ranged


@dataclass(frozen=True)
class ExportConfig:
    """Settings of ``xling export``.

    Attributes:
        checkpoint: directory of ``xling pretrain`` or, for ``hf``, of ``xling finetune``.
        out: directory to publish.
        scores: ``scores.json`` of evaluations, for the model card.
        pooling: sentence vectors that sentence-transformers computes from an exported encoder: ``mean`` over the
            sub-words without specials, as in evaluations, or ``cls``. A model imported from sentence-transformers
            keeps its own modules.
    """

    checkpoint: Path
    out: Path
    scores: tuple[Path, ...] = ()
    pooling: Literal["mean", "cls"] = "mean"


@dataclass(frozen=True)
class ImportConfig:
    """Settings of ``xling import``.

    Attributes:
        source: directory of the model, or for ``hf`` its name on the Hugging Face Hub.
        out: directory to publish, as ``xling pretrain`` does.
        langs: languages of the model, for the record. For mBART without ``tokenizer.json``: the languages of
            its tokens, in their order. For T5 and mT5, which have no language tokens: the languages that get
            a token for the decoder's start.
        allow_pickle: read ``pytorch_model.bin`` if there is no safetensors file. Only tensors and plain
            values are accepted; a file with anything else is rejected.
        revision: revision of a model on the Hub.
        extend_vocab: a SentencePiece model, or the directory of ``xling vocab``, whose pieces are added.
        init: rows of added pieces. ``mean``: the mean of all old ones. ``fvt``: the mean of the old pieces
            that the new one is segmented into. ``overlap``: a copy of the old piece with the same letters
            (with or without the word's start, in any case). Without a match, the mean of all.
    """

    source: Path
    out: Path
    langs: tuple[Lang, ...] = ()
    allow_pickle: bool = False
    revision: str = ""
    extend_vocab: Path | None = None
    init: Literal["mean", "fvt", "overlap"] = "fvt"


@dataclass(frozen=True)
class TokenizerConfig:
    """Settings of ``xling import tokenizer``.

    Attributes:
        source: a ``tokenizer.json`` of the package tokenizers, or a directory with one. The specials are those
            of ``tokenizer_config.json`` beside it, else those with the usual names.
        out: directory to publish, as ``xling vocab`` does.
    """

    source: Path
    out: Path


@dataclass(frozen=True)
class TrimConfig:
    """Settings of ``xling trim``.

    Attributes:
        checkpoint: directory of ``xling pretrain``, ``xling import`` or ``xling finetune``.
        out: directory to publish, of the same kind.
        corpora: language -> files, globs or corpus directories of text whose segmentation must not change.
        least: how often a piece must be used to be kept.
    """

    checkpoint: Path
    out: Path
    corpora: dict[Lang, tuple[str, ...]]
    least: int = ranged(1, COUNT)


@dataclass(frozen=True)
class QuantizeConfig:
    """Settings of ``xling quantize``.

    Attributes:
        checkpoint: directory of ``xling pretrain``, ``xling import`` or ``xling finetune``.
        out: directory to publish, of the same kind.
    """

    checkpoint: Path
    out: Path
