"""Checks of models and settings that need no torch, made before the stages of this package are imported."""

from pathlib import Path
from types import SimpleNamespace

from xling.core import languages
from xling.core.commands import inputs
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import values
from xling.hub import unsupported_parts
from xling.hub.settings import ExportConfig, TrimConfig
from xling.models import parts
from xling.models.files import model_folder
from xling.text import vocab
from xling.text.files import corpus_reader
from xling.transfer.checks import check_not_joined


def check_trim(cfg: TrimConfig) -> list[Path]:
    """Return all that ``xling trim`` reads, after checking it.

    Raises:
        UserError: there is no text or no checkpoint, a language is unknown, or the model has no pieces to leave out.
    """
    values.check(cfg)
    for lang in cfg.corpora:
        languages.get(lang)
    paths = [path for names in cfg.corpora.values() for path in corpus_reader.resolve_files(names)]
    if not paths:
        raise UserError("no text to keep pieces for", "corpora.LANG=PATH", "name some text")
    for name, what in (
        (vocab.WORDPIECE, "a WordPiece vocabulary"),
        (vocab.TRANSFORMERS_TOKENIZER, "the tokenizer of another model"),
    ):
        if (cfg.checkpoint / name).is_file():
            raise UserError(
                f"{cfg.checkpoint} has {what}", "a SentencePiece vocabulary", "use the model as it is"
            )
    input_paths = [cfg.checkpoint, *paths]
    if not manifest.is_finished(cfg.out, "trim", cfg, input_paths):
        formats = (
            [model_folder.TASK] if (cfg.checkpoint / model_folder.TASK_FILE).is_file() else model_folder.OURS
        )
        shape = model_folder.check_model(cfg.checkpoint, *formats).get("shape", {})
        if frozen := parts.frozen_encoders(SimpleNamespace(**shape)):
            raise UserError(
                f"{cfg.checkpoint} has {', '.join(f'model.{name}={folder}' for name, folder in frozen.items())}",
                "a model that reads no other encoder",
                "use the model as it is",
            )
        if name := parts.without_pieces(shape):
            raise UserError(
                f"{cfg.checkpoint} has model.{name}",
                "a model with a vector for each piece",
                "it has none at the input: there is little to trim",
            )
    return input_paths


def check_export_hf(cfg: ExportConfig) -> None:
    """Check the model of ``xling export hf``.

    Raises:
        UserError: as `xling.hub.unsupported_parts.check_hf`; or a pooling for a static encoder, or for a model that
            declares its own.
    """
    if not (cfg.checkpoint / inputs.STATIC_FILE).is_file():
        unsupported_parts.check_hf(cfg.checkpoint)
        if cfg.pooling != "mean" and (cfg.checkpoint / model_folder.SENTENCE_FILE).is_file():
            raise UserError(
                f"pooling={cfg.pooling}, and {cfg.checkpoint} declares how it makes sentence vectors",
                "the modules that it was imported with",
                "leave pooling out",
            )
    elif cfg.pooling != "mean":
        raise UserError(
            f"pooling={cfg.pooling}, and {cfg.checkpoint} is a static encoder, which has no states",
            "pooling=mean",
            "leave pooling out",
        )
    check_no_static_head(cfg.checkpoint)


def check_no_static_head(checkpoint: Path) -> None:
    """Raise UserError for a fine-tuned static encoder, also one beside a Transformer: its head would be lost."""
    check_not_joined(checkpoint)
    if (checkpoint / inputs.STATIC_TASK_FILE).is_file():
        raise UserError(
            f"{checkpoint} is a fine-tuned static encoder, whose head would be lost",
            "the static encoder that it was fine-tuned from",
        )


def check_export_fairseq(cfg: ExportConfig) -> None:
    """Check the model of ``xling export fairseq``.

    Raises:
        UserError: the model is fine-tuned, has a WordPiece vocabulary, or a part that RoBERTa or mBART lacks.
    """
    if (cfg.checkpoint / model_folder.TASK_FILE).is_file():
        raise UserError(
            f"{cfg.checkpoint} is fine-tuned", "a directory of `xling pretrain`", "use xling export hf"
        )
    if (cfg.checkpoint / vocab.WORDPIECE).is_file():
        raise UserError(
            f"{cfg.checkpoint} has a WordPiece vocabulary",
            "a SentencePiece vocabulary",
            "use xling export hf",
        )
    unsupported_parts.check_hf(cfg.checkpoint)
    content = model_folder.read(cfg.checkpoint, *model_folder.OURS)
    shape = model_folder.shape_of(content)
    unsupported = unsupported_parts.unsupported_settings(shape)
    if content["format"] == model_folder.SEQ2SEQ and not shape.pre_norm:
        unsupported.append("layer norms after the blocks (model.pre_norm=false)")
    if shape.norm_eps != 1e-5:
        unsupported.append(f"layer norms with model.norm_eps={shape.norm_eps}")
    if shape.segment_embeddings:
        unsupported.append("segment embeddings (model.segment_embeddings)")
    if unsupported:
        raise UserError(
            f"{cfg.checkpoint} has {' and '.join(unsupported)}, which fairseq's classes cannot express",
            "a model without these",
            "use xling export hf",
        )
