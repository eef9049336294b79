"""Assembly of fairseq's Trainer from settings.

Task, model, initial weights, frozen and sharded parts, and checks.
"""

import copy
import functools
import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch
from fairseq import tasks
from fairseq.dataclass.configs import FairseqConfig
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from xling.core.errors import UserError
from xling.core.settings import config
from xling.models.distributed import processes
from xling.models.files import model_weights, training_checkpoint
from xling.models.model_setting import ENCODER
from xling.models.network.adapters import is_adapter
from xling.models.optim.schedules import ScheduleConfig
from xling.models.shape import ModelConfig, names
from xling.objectives import OBJECTIVES, declared
from xling.objectives.multi import MultiConfig
from xling.static import new_rows, pieces
from xling.training import two_starts
from xling.training.checks import check_sharding, check_side, check_sizes, leaves_embeddings
from xling.training.settings import PretrainConfig, TrainConfig
from xling.training.update import SafeTrainer

EMBEDDINGS = (
    "encoder.tokens.weight",
    "decoder.words.weight",
    "lm_head.weight",
    "lm_head.bias",
    "decoder.head.weight",
    "decoder.head.bias",
)
_RULE = (
    ("beta1", "beta1"),
    ("beta2", "beta2"),
    ("eps", "eps"),
    ("rule", "optimizer"),
    ("momentum", "momentum"),
)


def build_trainer(cfg: PretrainConfig, save_dir: Path) -> tuple[Trainer, Any]:
    """Build fairseq's Trainer and task for a recipe."""
    if (
        torch.cuda.is_available()
    ):  # float32 products in TF32: eight times as fast on an H100, with bfloat16's range
        torch.set_float32_matmul_precision("high")
    full = fairseq_config(cfg, save_dir)
    task = build_task(cfg, full)
    torch.manual_seed(cfg.seed)
    model, criterion = task.build_model(full.model), task.build_criterion(full.criterion)
    if cfg.init:
        init, data = Path(cfg.init), Path(cfg.data)
        model_weights.start_from(model, init, task.langs, data, leaves_embeddings(cfg), cfg.init_layers)
        task.attach(model)
    if cfg.encoder:
        two = Path(cfg.encoder), Path(cfg.decoder)
        two_starts.start(model, *two, cfg.cross, task.langs, Path(cfg.data))
        task.attach(model)
    if cfg.embeddings:
        old_table = model_weights.load_body(Path(cfg.init))[0].encoder.tokens.weight
        encoder = Path(cfg.init_pieces) if cfg.init_pieces else None
        table = model.encoder.tokens.weight
        new_rows.start_rows(table, old_table, Path(cfg.data), Path(cfg.init), cfg.embeddings, encoder)
    elif cfg.init_pieces:
        pieces.initialise_pieces(model.encoder.tokens.weight, Path(cfg.init_pieces), Path(cfg.data))
    if cfg.freeze != "none":
        freeze(model, cfg.freeze)
        if cfg.freeze == "body" and cfg.init and not leaves_embeddings(cfg):
            freeze(model, "embeddings")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise UserError(
                f"freeze={cfg.freeze} leaves nothing to learn",
                "a part beside which others learn",
                "freeze=embeddings, or adapters: model.lang_adapter=64",
            )
    if cfg.freeze_pieces:
        kept = new_rows.rows_to_keep(Path(cfg.data), Path(cfg.freeze_pieces))
        new_rows.keep_rows(model.encoder.tokens.weight, kept)
        if know := getattr(model.encoder.tokens, "know", None):  # see `parts.Part`
            know(kept)
    if cfg.train.sharding != "none":
        check_sharding(cfg)
        if processes.size() > 1:
            decoder = getattr(model, "decoder", None)
            layers = [*model.encoder.layers, *(decoder.layers if decoder else [])]
            layers += [unit for entry in task.objectives.values() for unit in entry.units(model)]
            criterion.around = processes.shard(
                model.cuda() if torch.cuda.is_available() else model,
                layers,
                _shard_size(cfg.train),
                cfg.train.exchange == "batch",
            )
    return SafeTrainer(full, task, model, criterion), task


def build_task(cfg: PretrainConfig, full: Any = None) -> Any:
    """Build fairseq's task for a recipe; ``full`` is the recipe in fairseq's own configuration, if there is one."""
    task = tasks.setup_task((_with_task(cfg) if full is None else full).task)
    check_sizes(task.max_positions(), cfg.model, cfg.train)
    return task


def freeze(model: Any, part: str) -> None:
    """Freeze a part of a model, see `PretrainConfig`; adapters and the objectives' own modules always train."""
    for name, parameter in model.named_parameters():
        is_embedding, is_decoder = name in EMBEDDINGS, name.startswith("decoder.")
        is_in = {"embeddings": is_embedding, "body": not is_embedding, "decoder": is_decoder or is_embedding}
        if not name.startswith("extras.") and not is_adapter(name) and is_in.get(part, not is_decoder):
            parameter.requires_grad_(False)


def frozen_digest(model: Any) -> dict[str, Any]:
    """Return the number of frozen parameters and a SHA-256 of their bits, without the objectives' own state."""
    kept = {n: p for n, p in model.named_parameters() if not p.requires_grad and not n.startswith("extras.")}
    hasher = hashlib.sha256()
    for name, parameter in sorted(kept.items()):
        whole = training_checkpoint.snapshot(parameter, {})
        hasher.update(name.encode() + whole.view(torch.uint8).numpy().tobytes())
    return {"parameters": sum(p.numel() for p in kept.values()), "sha256": hasher.hexdigest()}


def _shard_size(train: TrainConfig) -> int:
    """Return how many processes share a copy of the model, 0 for all.

    Raises:
        UserError: the processes cannot be divided so, or their number on a node is unknown.
    """
    if train.sharding == "full":
        return 0
    num = train.shard_size or processes.processes_per_node()
    if not num or processes.size() % num:
        sharding = f"train.sharding=hybrid with train.shard_size={train.shard_size}"
        raise UserError(
            f"{sharding}, {num or 'an unknown number of'} processes on a node and {processes.size()} in all",
            f"divisors of {processes.size()}",
            "give train.shard_size=, or start as many processes on every node",
        )
    return num


def fairseq_config(cfg: PretrainConfig, save_dir: Path) -> Any:
    """Convert the recipe to fairseq's own configuration."""
    train, full = cfg.train, _with_task(cfg)
    with_name: dict[str, tuple[str, Any]] = {
        "model": _model_of(cfg),
        "criterion": ("xling_objective", OmegaConf.create({})),
        "optimizer": (
            "xling_adamw",
            OmegaConf.create({name: getattr(train, theirs) for name, theirs in _RULE}),
        ),
        "lr_scheduler": _schedule_of(train),
    }
    for key, named in with_name.items():
        _put(full, key, named)
    full.optimizer.weight_decay = cfg.train.weight_decay
    full.optimizer.lr = [cfg.train.lr]
    full.common.cpu = not torch.cuda.is_available()
    full.common.log_format = "none"
    full.dataset.max_tokens = cfg.train.batch_tokens
    full.dataset.max_tokens_valid = cfg.train.batch_tokens
    full.dataset.num_workers = cfg.train.workers
    full.optimization.max_update = cfg.train.updates
    full.optimization.clip_norm = cfg.train.clip
    full.optimization.update_freq = [cfg.train.accumulate]
    full.optimization.lr = [cfg.train.lr]
    full.checkpoint.save_dir = str(save_dir)
    # Otherwise rank 0 sends the state in classes that the restricted unpickler of the others rejects.
    full.checkpoint.load_checkpoint_on_all_dp_ranks = True
    processes.configure(full.distributed_training)
    return full


def _with_task(cfg: PretrainConfig) -> Any:
    """Return fairseq's own configuration with the task of a recipe; a copy, five times as fast as to build it."""
    full = copy.deepcopy(_defaults())
    full.common.seed = cfg.seed
    _put(full, "task", _task_of(cfg))
    return full


@functools.cache
def _defaults() -> Any:
    return OmegaConf.structured(FairseqConfig)


def _put(full: Any, key: str, named: tuple[str, Any]) -> None:
    """Give a part of fairseq's configuration its registered name and its settings."""
    registered, value = named
    plain = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.structured(value), resolve=False))
    node = OmegaConf.create({**plain, "_name": registered})
    OmegaConf.update(full, key, node, force_add=True)


def _schedule_of(train: TrainConfig) -> tuple[str, Any]:
    """Return name and settings of the schedule for fairseq, which has its own linear one."""
    if train.schedule == "linear":
        settings = {
            "warmup_updates": train.warmup,
            "force_anneal": None,
            "end_learning_rate": 0.0,
            "power": 1.0,
            "total_num_update": float(train.updates),
        }
        return "polynomial_decay", OmegaConf.create(settings | {"lr": [train.lr]})
    schedule = ScheduleConfig(
        name=train.schedule,
        warmup=train.warmup,
        updates=train.updates,
        decay=train.decay,
        shape=train.decay_shape,
        final=train.final_lr,
        lr=[train.lr],
    )
    return "xling_schedule", schedule


def _model_of(cfg: PretrainConfig) -> tuple[str, Any]:
    """Return name and shape of the model for fairseq, with a decoder if an objective needs one."""
    shape = asdict(cfg.model)
    with_decoder = [name for name in cfg.objectives if OBJECTIVES[name].decoder]
    check_side(cfg.model, with_decoder)
    if with_decoder:
        return "xling_seq2seq", OmegaConf.create(shape)
    kept = names(ModelConfig, only=(None, ENCODER))
    return "xling_encoder", OmegaConf.create({name: shape[name] for name in kept})


def _task_of(cfg: PretrainConfig) -> tuple[str, Any]:
    """Return name and settings of the task for fairseq: that of the one objective, or a mix of several."""
    known = {"data": cfg.data, "langs": ",".join(cfg.langs), "seed": str(cfg.seed)}
    if len(cfg.objectives) == 1:
        ((name, settings),) = cfg.objectives.items()
        declared.unscheduled(name, settings)
        own = {key: value for key, value in settings.items() if key not in declared.MIX_SETTINGS}
        return f"xling_{name}", config.from_dict(OBJECTIVES[name].config, known | own, f"objectives.{name}")
    mix = known | {"objectives": json.dumps(cfg.objectives), "mode": cfg.mix}
    return "xling_multi", config.from_dict(MultiConfig, mix, "objectives")
