"""Checks of models and settings that need no torch, made before the stages of this package are imported."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.commands import inputs
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.data.symbols import Symbols
from xling.models.files import model_folder
from xling.training import trackers
from xling.transfer import plans
from xling.transfer.settings import BackTranslateConfig, GenerateConfig, SwapConfig, TranslateConfig


def check_translate(cfg: TranslateConfig) -> None:
    """Check the model and the languages of ``xling translate``.

    Raises:
        UserError: the model has no decoder or was not trained on a language.
    """
    if cfg.join and cfg.via:
        raise UserError(f"join=true with via={cfg.via}", "one of the two", "translate twice")
    check_languages(cfg.checkpoint, cfg.src, cfg.via, cfg.tgt)


def check_back_translate(cfg: BackTranslateConfig) -> None:
    """Check the text, the model and the languages of ``xling back-translate``.

    Raises:
        UserError: as `check_translate`, or a file is missing.
    """
    if not cfg.is_published():
        check_languages(cfg.checkpoint, cfg.src, cfg.via, cfg.tgt)


def check_generate(cfg: GenerateConfig) -> None:
    """Check the rows, the model and the languages of ``xling finetune generate``.

    Raises:
        UserError: as `xling.transfer.generation.finetune.run`, or the output is finished and was made with other
        settings.
    """
    trackers.check(cfg.log)
    paths = [Path(name) for name in (cfg.checkpoint, cfg.train, *cfg.test.values())]
    for path in paths[1:]:
        plans.read_rows(path)
    if not manifest.is_finished(Path(cfg.out), "finetune generate", replace(cfg, log="none"), paths):
        check_languages(cfg.checkpoint, cfg.lang, *cfg.test)


def check_swap(cfg: SwapConfig) -> None:
    """Check the models of ``xling swap``.

    Raises:
        UserError: neither embeddings nor adapters are named, or a model is of another kind.
    """
    sources = [Path(name) for name in (cfg.embeddings, cfg.adapters) if name]
    if not sources:
        raise UserError(
            "neither embeddings= nor adapters= is given",
            "a checkpoint whose embeddings or adapters the task model takes over",
            "embeddings=DIR, adapters=DIR or both",
        )
    model_folder.check_model(Path(cfg.task), model_folder.TASK)
    check_not_joined(Path(cfg.task))
    for source in sources:
        model_folder.check_model(source, *model_folder.OURS, model_folder.FOREIGN)
    files = [Path(cfg.task) / model_folder.TASK_FILE, *(each / model_folder.MODEL_FILE for each in sources)]
    for file in files:
        if features := model_folder.shape_of(model_folder.facts(file)).features:
            raise UserError(
                f"{file.parent} has model.features={features}, which reads words by its own vocabulary",
                "models without features",
                "fine-tune the other model instead",
            )


def check_mine(cfg: Any) -> None:
    """Check the model of ``xling mine``.

    Raises:
        UserError: it is fine-tuned, or no model.
    """
    if cfg.checkpoint and not (Path(cfg.checkpoint) / inputs.STATIC_FILE).is_file():
        model_folder.check_model(Path(cfg.checkpoint), *model_folder.OURS, model_folder.FOREIGN)


def check_random_control(checkpoint: Path) -> None:
    """Raise UserError where a model is fine-tuned, so that there is no control with random weights."""
    if model_folder.has_head(checkpoint):
        raise UserError(
            f"{checkpoint} is fine-tuned: it has no random control, which is trained like the pre-trained model",
            "a pre-trained checkpoint for the system random",
            "systems=pretrained, with training rows also systems=pretrained,majority",
        )


def check_not_joined(checkpoint: Path) -> None:
    """Raise UserError for a fine-tuned model with a head over its static encoder, which would be lost."""
    if model_folder.is_joined(checkpoint):
        raise UserError(
            f"{checkpoint} answers by a head over its static encoder too, which would be lost",
            "a model that was fine-tuned without joined=true",
        )


def features_of(checkpoint: Path, setting: str) -> Path:
    """Return the static encoder of the features of a pre-trained encoder, which a setting needs.

    Raises:
        UserError: the model has no features, or is fine-tuned.
    """
    content = model_folder.facts(checkpoint / model_folder.MODEL_FILE) if checkpoint.is_dir() else {}
    shape = model_folder.shape_of(content)
    if model_folder.has_head(checkpoint) or shape.decoder_layers or not shape.features:
        raise UserError(
            f"{setting} with {checkpoint}",
            "an encoder that xling pretrain trained with model.features=",
            f"leave {setting} out",
        )
    return Path(shape.features)


def check_languages(checkpoint: str, *langs: str) -> None:
    """Raise UserError where a model has no decoder or was not trained on one of the languages; empty ones are none."""
    codes = [languages.get(lang).code for lang in langs if lang]
    content = model_folder.check_model(Path(checkpoint), model_folder.SEQ2SEQ)
    for code in codes if content else ():
        Symbols(0, tuple(content["langs"])).index_of(code, checkpoint)
