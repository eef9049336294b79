"""Checks of a training that need no torch: `xling pretrain` makes them before it imports anything heavy.

The training itself makes them again, and those of the objectives and of single weights beside them.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xling.core.commands import inputs
from xling.core.errors import UserError
from xling.core.settings import config, unused, values
from xling.models import parts
from xling.models.files import model_folder
from xling.models.model_setting import DECODER, ENCODER
from xling.models.shape import ModelConfig, wrong_side
from xling.objectives import declared
from xling.objectives.base_settings import CHUNKS, TaskConfig
from xling.static.settings import StaticTraining
from xling.text.encoders import check_encoder
from xling.text.files import nway, shards
from xling.training.plan import PhasePlan, Plan, resolve
from xling.training.settings import PretrainConfig, TrainConfig


def check(cfg: PretrainConfig) -> Plan:
    """Check the settings of ``xling pretrain`` and what they name; return the plan of the training.

    Raises:
        UserError: shards are missing or damaged, a setting of an objective is unknown, the model to start from does
            not fit, or the output is finished and was made with other settings.
    """
    plan = resolve(cfg)
    if plan.finished is None:
        check_settings(plan.cfg, plan.phases)
    return plan


def static(cfg: StaticTraining) -> None:
    """Check the aligned text of ``xling pretrain static``.

    Raises:
        UserError: it is not a finished output of its stage, or there is no such teacher.
    """
    nway.check_output(Path(cfg.data))
    if cfg.teacher.encoder:
        check_encoder(cfg.teacher.encoder)


def check_settings(cfg: PretrainConfig, phases: Sequence[PhasePlan]) -> None:
    """Check the settings of a training and of its phases, its shards, and the model that it starts from.

    Raises:
        UserError: as `check`.
    """
    data = Path(cfg.data)
    shards.check_dictionary(data)
    if cfg.init_pieces and not (Path(cfg.init_pieces) / inputs.STATIC_FILE).is_file():
        raise UserError(
            f"init_pieces={cfg.init_pieces} is not a static encoder", "an output of xling pretrain static"
        )
    for name in cfg.objectives:
        declared.find(name)
    for number, phase in enumerate(phases):
        langs, decoder = _check_phase(phase.cfg)
        if cfg.init and not number:
            _check_init(phase.cfg, langs, decoder)
        if cfg.encoder and not number:
            _check_two(phase.cfg, langs, decoder)


def _check_phase(cfg: PretrainConfig) -> tuple[list[str], bool]:
    """Check the objectives of one phase; return its languages, and whether the model has a decoder."""
    data, objectives = Path(cfg.data), settings_of_objectives(cfg)
    with_decoder = [name for name, settings in objectives.items() if settings.decoder]
    check_side(cfg.model, with_decoder)
    langs = shards.select_langs(",".join(cfg.langs), data, bool(with_decoder))
    if len(cfg.objectives) == 1:
        declared.unscheduled(*next(iter(cfg.objectives.items())))
    else:
        declared.of_mix(cfg.objectives, data)
    for name, settings in objectives.items():
        unused.check_conditions((CHUNKS, *settings.conditions), settings, f"with objectives.{name}")
        settings.check_data(langs)
        settings.check_model(langs, cfg.model)
    for name, folder in parts.frozen_encoders(cfg.model).items():
        if not with_decoder:
            if not (Path(folder) / inputs.STATIC_FILE).is_file():
                raise UserError(f"model.{name}={folder}", "an output of xling pretrain static")
            continue
        model_folder.check_model(Path(folder), model_folder.ENCODER)
        model_folder.check_vocabulary(shards.vocab_digest(Path(folder)), data, Path(folder))
        if cfg.train.sharding != "none":
            raise UserError(f"model.{name}={folder} with train.sharding={cfg.train.sharding}", "none")
    if cfg.train.sharding != "none":
        check_sharding(cfg)
    for prefix in (data / lang / split for lang in langs for split in ("train", "valid")):
        if prefix.parent.is_dir() or shards.is_there(prefix):
            shards.open_shard(prefix)
    return langs, bool(with_decoder)


def settings_of_objectives(cfg: PretrainConfig) -> dict[str, TaskConfig]:
    """Return the settings of every objective that a training uses.

    Raises:
        UserError: an objective or a setting is unknown, or a value has the wrong type or is out of range.
    """
    built = {}
    shared = {"data": cfg.data, "langs": ",".join(cfg.langs), "seed": str(cfg.seed)}
    for name, settings in cfg.objectives.items():
        own = {key: value for key, value in settings.items() if key not in declared.MIX_SETTINGS}
        built[name] = config.from_dict(declared.find(name), {**shared, **own}, f"objectives.{name}")
        values.check(built[name], f"objectives.{name}.")
        check_sizes(built[name].tokens_per_sample, cfg.model, cfg.train)
    return built


def check_sizes(length: int, model: ModelConfig, train: TrainConfig) -> None:
    """Reject sizes that do not fit together; ``length`` is the longest example in tokens."""
    if length > model.max_positions:
        raise UserError(
            f"tokens_per_sample={length} with model.max_positions={model.max_positions}",
            f"at most {model.max_positions}",
        )
    if length > train.batch_tokens:
        raise UserError(
            f"train.batch_tokens={train.batch_tokens} with tokens_per_sample={length}",
            f"at least {length}, one example",
        )


def check_side(model: ModelConfig, with_decoder: Sequence[str]) -> None:
    """Reject settings of the model that belong to the other side.

    Args:
        model: settings of the model.
        with_decoder: the objectives of the training that need a decoder.
    """
    shape = asdict(model)
    if with_decoder and (name := wrong_side(shape, ENCODER)):
        raise UserError(
            f"model.{name} with objectives.{with_decoder[0]}, which has a decoder",
            f"model.{name} for encoders alone",
            f"leave model.{name} out",
        )
    if not with_decoder and (name := wrong_side(shape, DECODER)):
        raise UserError(
            f"model.{name} without an objective that has a decoder",
            f"one of {', '.join(declared.with_decoder())}",
            f"leave model.{name} out",
        )


def check_sharding(cfg: PretrainConfig) -> None:
    """Reject settings under which the processes of a sharded model would wait for different layers."""
    sharding = f"train.sharding={cfg.train.sharding}"
    if parts.value(cfg.model, "share_layers"):
        raise UserError(f"{sharding} with model.share_layers=true", "train.sharding=none")
    if cfg.mix == "alternate" and len(cfg.objectives) > 1:
        raise UserError(f"{sharding} with mix=alternate", f"{sharding} with one objective, or with mix=sum")
    for name in cfg.objectives:
        if not declared.find(name).shardable:
            others = [other for other, settings in declared.find_all().items() if settings.shardable]
            raise UserError(
                f"{sharding} with objectives.{name}",
                f"{sharding} with {', '.join(others)}",
                "leave train.sharding out",
            )


def leaves_embeddings(cfg: PretrainConfig) -> bool:
    """Return whether the embeddings of ``init`` are replaced by new ones."""
    if cfg.embeddings:
        return True
    with_adapters = cfg.model.lang_adapter or cfg.model.invertible
    same = with_adapters and shards.vocab_digest(Path(cfg.init)) == shards.vocab_digest(Path(cfg.data))
    return cfg.freeze == "body" and not same


def _check_init(cfg: PretrainConfig, langs: list[str], decoder: bool) -> None:
    """Check that a training can start from a published model, as `xling.models.files.model_weights.start_from` does."""
    directory = Path(cfg.init)
    content = model_folder.check_body(directory, *model_folder.OURS)
    if not leaves_embeddings(cfg):
        model_folder.check_vocabulary(shards.vocab_digest(directory), Path(cfg.data), directory)
    if cfg.embeddings and shards.vocab_digest(directory) == shards.vocab_digest(Path(cfg.data)):
        raise UserError(
            f"embeddings={cfg.embeddings} with init={directory} over the same vocabulary as data={cfg.data}",
            "shards over another vocabulary",
            "leave embeddings= out: all rows are kept",
        )
    if cfg.embeddings and (decoder or content["format"] == model_folder.SEQ2SEQ):
        raise UserError(f"embeddings={cfg.embeddings} with a model that has a decoder", "an encoder")
    if not content:
        return
    theirs = model_folder.shape_of(content)
    if cfg.model.lang_embeddings:
        model_folder.check_langs(content["langs"], langs, directory)
    model_folder.check_settings(
        cfg.model, theirs, decoder and content["format"] == model_folder.SEQ2SEQ, directory
    )
    _check_widths(cfg, theirs, directory)


def _check_two(cfg: PretrainConfig, langs: list[str], decoder: bool) -> None:
    if not decoder:
        needed = ", ".join(declared.with_decoder())
        raise UserError(f"decoder={cfg.decoder} without an objective that has a decoder", f"one of {needed}")
    own_table = parts.value(cfg.model, "decoder_embeddings")
    layers = cfg.model.decoder_layers or cfg.model.layers
    if cfg.cross == "self" and layers > cfg.model.layers:
        raise UserError(
            f"cross=self with {cfg.model.layers} layers of the encoder and {layers} of the decoder",
            "as many layers of the encoder, or more",
            "cross=random",
        )
    for side, name in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
        directory = Path(name)
        content = model_folder.check_model(directory, *model_folder.OURS)
        if not content:
            continue
        theirs, has_decoder = model_folder.shape_of(content), content["format"] == model_folder.SEQ2SEQ
        if cfg.model.lang_embeddings and content["langs"] != langs:
            raise UserError(
                f"{side}={name} has language embeddings for {', '.join(content['langs'])}",
                f"those of this training, {', '.join(langs)}, in both models",
                "train both on the same languages, or without model.lang_embeddings",
            )
        theirs.decoder_embeddings = own_table
        model_folder.check_settings(cfg.model, theirs, has_decoder and side == "decoder", directory)
        num = (theirs.decoder_layers if has_decoder and side == "decoder" else 0) or theirs.layers
        if num != (wanted := layers if side == "decoder" else cfg.model.layers):
            setting = "decoder_layers" if side == "decoder" else "layers"
            raise UserError(f"model.{setting}={wanted} with {side}={name}, which has {num}", f"{num}")
        _check_widths(cfg, theirs, directory)
    _check_two_vocabularies(cfg)


def _check_two_vocabularies(cfg: PretrainConfig) -> None:
    mine, theirs = shards.vocab_digest(Path(cfg.data)), shards.vocab_digest(Path(cfg.decoder))
    if mine != theirs and not parts.value(cfg.model, "decoder_embeddings"):
        raise UserError(
            f"decoder={cfg.decoder} has another vocabulary than data={cfg.data}, and the model one table of embeddings",
            "the same vocabulary, or model.decoder_embeddings=true",
            "give model.decoder_embeddings=true over a vocabulary of both languages",
        )


def _check_widths(cfg: PretrainConfig, theirs: Any, directory: Path) -> None:
    """Reject a model to start from that has other widths, or more layers than the new one."""
    same = ("dim", "ffn_dim", *(["max_positions"] if cfg.model.positions == "learnt" else []))
    wrong = [name for name in same if getattr(cfg.model, name) != getattr(theirs, name)]
    if not cfg.init_layers and cfg.model.layers < theirs.layers:
        wrong.append("layers")
    for name in wrong:
        raise UserError(
            f"init={directory} has model.{name}={getattr(theirs, name)}, not {getattr(cfg.model, name)}",
            "the same" if name != "layers" else f"{theirs.layers} layers or more, or init_layers=",
            "give the model.* settings of that run",
        )
