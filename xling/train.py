"""Pre-training: a recipe into fairseq's Trainer. The only place that starts training.

While it trains, checkpoints and the log stand in ``OUT.partial``; at the end ``OUT`` is published with
``model.pt`` (float32 weights and shape, no pickled code), the vocabulary and the log. Killed at any moment, the
same command goes on from the last good checkpoint and reaches the same weights.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from fairseq import tasks
from fairseq.data import iterators
from fairseq.dataclass.configs import FairseqConfig
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from corpora import vocab
from xling import parallel, plan, track
from xling.core import config, job, manifest
from xling.core.answer import Answer
from xling.core.errors import UserError
from xling.core.progress import Progress, say
from xling.core.stage import STAGES
from xling.models import checkpoint
from xling.models.adapters import is_adapter
from xling.models.encoder import num_parameters
from xling.objectives import OBJECTIVES
from xling.objectives.multi import MIX_SETTINGS, MultiConfig
from xling.track import LogTo, Show
from xling.update import SafeTrainer, Updates

__all__ = ["PretrainConfig", "run"]

STAGE = "pretrain"
assert STAGE in STAGES
MISHAPS = ("skipped_updates", "halved_batches")
EMBEDDINGS = ("encoder.tokens.weight", "lm_head.weight", "lm_head.bias")
SELECTED = "selected.pt"
Watch = Callable[[Trainer, Path], dict[str, float]]
WITH_DECODER = tuple(name for name, entry in OBJECTIVES.items() if entry.decoder)


@dataclass(frozen=True)
class ModelConfig:
    """Shape of the model; see `xling.models.encoder.EncoderConfig` and `xling.models.seq2seq.Seq2SeqConfig`.

    ``decoder_layers``, ``plain_head`` and ``unbiased_head`` count where an objective needs a decoder,
    ``lang_adapter`` (a width) and ``invertible`` where none does.
    """

    layers: int = 4
    dim: int = 256
    heads: int = 4
    ffn_dim: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    max_positions: int = 512
    pre_norm: bool = False
    lang_embeddings: bool = False
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    decoder_layers: int = 0
    plain_head: bool = False
    unbiased_head: bool = False
    checkpoint_activations: bool = False
    compile: bool = False
    lang_adapter: int = 0
    invertible: bool = False
    scale_embeddings: bool = False
    norm_eps: float = 1e-5


@dataclass(frozen=True)
class TrainConfig:
    """How long and how fast.

    Attributes:
        updates: optimiser steps.
        batch_tokens: real tokens in a batch of one process.
        accumulate: batches per update.
        beta2: of AdamW; .98 is RoBERTa's and XLM-R's, .999 BERT's.
        lr: peak learning rate; warms up over ``warmup`` updates, then decays linearly to 0.
        clip: largest gradient norm, 0 for none.
        log_every, valid_every, save_every: in updates.
        keep: checkpoints kept.
        max_skipped: updates skipped in a row, for gradients that are not finite, that stop training.
        sharding: ``full`` keeps a part of each weight, gradient and moment in every process (FSDP2) instead of all.
        threads: CPU threads of torch, 0 for its own choice.
    """

    updates: int = 1000
    batch_tokens: int = 4096
    accumulate: int = 1
    lr: float = 5e-4
    warmup: int = 100
    beta2: float = 0.98
    weight_decay: float = 0.01
    clip: float = 1.0
    log_every: int = 50
    valid_every: int = 500
    save_every: int = 500
    keep: int = 2
    max_skipped: int = 10
    sharding: Literal["none", "full"] = "none"
    threads: int = 0


@dataclass(frozen=True)
class PretrainConfig:
    """Settings of `run`.

    Attributes:
        data: binarised directory.
        out: directory to publish.
        objectives: objective -> its settings, for example ``mmlm: {alpha: 0.3}``.
        mix: how several objectives meet; see `xling.objectives.multi`.
        langs: languages to train on; empty for all in ``data``.
        init: published model to start from, empty for fresh weights. Of another vocabulary only with
            ``freeze=body``: then its embeddings are left behind.
        init_layers: layers of ``init`` to start from, the lowest is 0, in place of all: for a model of fewer layers.
        freeze: what stays as it is: nothing, the ``embeddings`` of the pieces with the output bias, the ``body``,
            which is all the rest (Artetxe et al. 2020), the ``encoder`` with the embeddings that the decoder shares
            (XNLG), or the ``decoder`` with them. At the end it is checked that no bit of it has changed. Adapters
            always learn; where they are, ``body`` means all that ``init`` brings, embeddings of the same vocabulary
            included (MAD-X).
        log: where the curves are shown while it runs, see `xling.track`; changes nothing of the result.
        dry_run: print the plan, measured by a short warm-up, and stop.
    """

    data: str
    out: str
    objectives: dict[str, dict[str, str]] = field(default_factory=lambda: {"mmlm": {}})
    mix: Literal["alternate", "sum"] = "alternate"
    langs: tuple[str, ...] = ()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    seed: int = 1
    init: str = ""
    init_layers: tuple[int, ...] = ()
    freeze: Literal["none", "body", "embeddings", "encoder", "decoder"] = "none"
    log: LogTo = "none"
    dry_run: bool = False


def run(cfg: PretrainConfig, watch: Watch | None = None) -> manifest.Manifest | Answer:
    """Train and publish, or return the plan of a dry run.

    Args:
        cfg: settings.
        watch: called at every validation with the trainer and ``OUT.partial``; what it returns is logged. A model
            that it writes there as `SELECTED` is published instead of the last; an error that it raises stops the run.

    Raises:
        UserError: shards are missing or damaged, an objective or one of its settings is unknown, a checkpoint in
            ``OUT.partial`` belongs to other settings.
    """
    track.check(cfg.log)
    log, cfg = cfg.log, replace(cfg, log="none")  # no part of what is made
    out, data = Path(cfg.out), Path(cfg.data)
    teachers = [settings["teacher"] for settings in cfg.objectives.values() if settings.get("teacher")]
    inputs = [data, *(Path(name) for name in (cfg.init, *teachers) if name)]
    if not cfg.dry_run and (done := manifest.up_to_date(out, STAGE, cfg, inputs)):
        return done
    for path in inputs:
        manifest.verify(path)
    if cfg.train.threads:
        torch.set_num_threads(cfg.train.threads)
    # fairseq asks its loader for pinned memory even where there is no accelerator; its search for the module
    # whose gradient is not finite uses old hooks.
    for message in ("'pin_memory' argument is set as true", "Using (a )?non-full backward hook"):
        warnings.filterwarnings("ignore", message=message)
    if cfg.dry_run:
        with tempfile.TemporaryDirectory() as folder:
            trainer, _ = build_trainer(cfg, Path(folder))
            return plan.describe(trainer, cfg.train.updates, cfg.train.accumulate)
    with parallel.joined():
        _train_and_publish(cfg, out, inputs, watch, log)
        parallel.wait()
    return manifest.read(out)


def _train_and_publish(
    cfg: PretrainConfig, out: Path, inputs: list[Path], watch: Watch | None, log: LogTo
) -> None:
    partial, data = out.with_name(f"{out.name}.partial"), Path(cfg.data)
    run_key = {"config": config.to_dict(cfg), "data": [manifest.digest(path) for path in inputs]}
    trainer, task = build_trainer(cfg, partial)
    frozen = frozen_digest(trainer.get_model()) if cfg.freeze != "none" else {}
    updates, seen = _train(cfg, trainer, partial, run_key, watch, log)
    assert not frozen or frozen == frozen_digest(trainer.get_model()), (
        f"freeze={cfg.freeze}: frozen weights have changed"
    )
    model = trainer.get_model()
    state = checkpoint.snapshot(model.state_dict(), {}) if parallel.is_sharded(model) else None
    if parallel.rank() > 0:
        return
    with manifest.publish(out, STAGE, cfg, inputs) as made:
        vocab.copy(data, made.path)
        shutil.copy(partial / "log.jsonl", made.path / "log.jsonl")
        if (selected := partial / SELECTED).is_file():
            shutil.copy(selected, made.path / "model.pt")
        else:
            checkpoint.save_model(made.path / "model.pt", model, task.langs, data, state)
        made.counts |= {
            "updates": trainer.get_num_updates(),
            "parameters": num_parameters(model),
            "skipped_updates": updates.skipped,
            "halved_batches": updates.halved,
            "langs": task.langs,
            "mixture": task.dataset("train").mixture(),
            "frozen": frozen,
            "seen": seen,
            "last": json.loads((partial / "log.jsonl").read_text().splitlines()[-1]),
        }
    shutil.rmtree(partial)


def build_trainer(cfg: PretrainConfig, save_dir: Path) -> tuple[Trainer, Any]:
    """The Trainer and task of fairseq for a recipe."""
    full = fairseq_config(cfg, save_dir)
    task = tasks.setup_task(full.task)
    _check_sizes(cfg, task.max_positions())
    torch.manual_seed(cfg.seed)
    model, criterion = task.build_model(full.model), task.build_criterion(full.criterion)
    if cfg.init:
        init, data = Path(cfg.init), Path(cfg.data)
        checkpoint.start_from(model, init, task.langs, data, _leaves_embeddings(cfg), cfg.init_layers)
        task.attach(model)
    if cfg.freeze != "none":
        freeze(model, cfg.freeze)
        if cfg.freeze == "body" and cfg.init and not _leaves_embeddings(cfg):
            freeze(model, "embeddings")
    if cfg.train.sharding == "full":
        _check_sharding(cfg)
        if parallel.size() > 1:
            decoder = getattr(model, "decoder", None)
            layers = [*model.encoder.layers, *(decoder.layers if decoder else [])]
            criterion.around = parallel.shard(model.cuda() if torch.cuda.is_available() else model, layers)
    return SafeTrainer(full, task, model, criterion), task


def _leaves_embeddings(cfg: PretrainConfig) -> bool:
    """Whether the embeddings of ``init`` are replaced by new ones."""
    with_adapters = cfg.model.lang_adapter or cfg.model.invertible
    same = with_adapters and vocab.vocab_digest(Path(cfg.init)) == vocab.vocab_digest(Path(cfg.data))
    return cfg.freeze == "body" and not same


def freeze(model: Any, part: str) -> None:
    """Keep a part of a model from training, see `PretrainConfig`; adapters and what objectives add always train."""
    for name, parameter in model.named_parameters():
        if not name.startswith("extras.") and not is_adapter(name) and _is_in(name, part):
            parameter.requires_grad_(False)


def _is_in(name: str, part: str) -> bool:
    if part in ("embeddings", "body"):
        return (name in EMBEDDINGS) == (part == "embeddings")
    return name in EMBEDDINGS or name.startswith("decoder.") == (part == "decoder")


def _check_sharding(cfg: PretrainConfig) -> None:
    """Refuse what would make the processes of a sharded model wait for different layers."""
    given = "train.sharding=full"
    if cfg.mix == "alternate" and len(cfg.objectives) > 1:
        raise UserError(f"{given} with mix=alternate", "one objective, or mix=sum")
    for name in cfg.objectives:
        if not OBJECTIVES[name].shardable:
            others = [other for other, entry in OBJECTIVES.items() if entry.shardable]
            raise UserError(f"{given} with objectives.{name}", ", ".join(others))


def frozen_digest(model: Any) -> dict[str, Any]:
    """How many parameters are frozen, and a SHA-256 of their bits."""
    kept = {name: p for name, p in model.named_parameters() if not p.requires_grad}
    found = hashlib.sha256()
    for name, parameter in sorted(kept.items()):
        whole = checkpoint.snapshot(parameter, {})
        found.update(name.encode() + whole.view(torch.uint8).numpy().tobytes())
    return {"parameters": sum(p.numel() for p in kept.values()), "sha256": found.hexdigest()}


def _check_sizes(cfg: PretrainConfig, length: int) -> None:
    """Refuse sizes that do not fit together; ``length`` is the longest example in tokens."""
    model, train = cfg.model, cfg.train
    if model.dim % model.heads:
        raise UserError(f"model.dim={model.dim} with model.heads={model.heads}", "a multiple of the heads")
    if length > model.max_positions:
        raise UserError(
            f"tokens_per_sample={length} with model.max_positions={model.max_positions}", "at most as many"
        )
    if length > train.batch_tokens:
        raise UserError(
            f"train.batch_tokens={train.batch_tokens} with tokens_per_sample={length}", "at least one example"
        )
    if model.unbiased_head and not model.plain_head:
        raise UserError("model.unbiased_head=true with model.plain_head=false", "both, or neither")
    if model.norm_eps <= 0:
        raise UserError(f"model.norm_eps={model.norm_eps}", "a number above 0")
    for name in ("updates", "accumulate", "log_every", "valid_every", "save_every", "keep", "max_skipped"):
        if getattr(train, name) < 1:
            raise UserError(f"train.{name}={getattr(train, name)}", "a whole number from 1")
    for name in ("dropout", "attention_dropout"):
        if not 0 <= getattr(model, name) < 1:
            raise UserError(f"model.{name}={getattr(model, name)}", "a share from 0, below 1")
    if model.lang_adapter < 0:
        raise UserError(f"model.lang_adapter={model.lang_adapter}", "a width from 1, or 0 for none")
    if model.invertible and model.dim % 2:
        raise UserError(f"model.invertible with model.dim={model.dim}", "an even width")
    if not 0 < train.beta2 < 1:
        raise UserError(f"train.beta2={train.beta2}", "a number between 0 and 1")


def fairseq_config(cfg: PretrainConfig, save_dir: Path) -> Any:
    """The recipe as fairseq's own configuration."""
    task_name, task_settings = _task_of(cfg)
    full = OmegaConf.structured(FairseqConfig)
    with_name: dict[str, tuple[str, Any]] = {
        "task": (task_name, task_settings),
        "model": _model_of(cfg),
        "criterion": ("xling_objective", OmegaConf.create({})),
        "optimizer": ("xling_adamw", OmegaConf.create({"beta1": 0.9, "beta2": cfg.train.beta2, "eps": 1e-6})),
        "lr_scheduler": ("polynomial_decay", OmegaConf.create({"warmup_updates": cfg.train.warmup})),
    }
    for key, (registered, value) in with_name.items():
        plain = OmegaConf.to_container(OmegaConf.structured(value), resolve=False)
        node = OmegaConf.create({**plain, "_name": registered})  # type: ignore[dict-item]
        OmegaConf.update(full, key, node, force_add=True)
    full.optimizer.weight_decay = cfg.train.weight_decay
    full.optimizer.lr = [cfg.train.lr]
    full.lr_scheduler.update(
        {
            "lr": [cfg.train.lr],
            "force_anneal": None,
            "end_learning_rate": 0.0,
            "power": 1.0,
            "total_num_update": float(cfg.train.updates),
        }
    )
    full.common.seed = cfg.seed
    full.common.cpu = not torch.cuda.is_available()
    full.common.log_format = "none"
    full.dataset.max_tokens = cfg.train.batch_tokens
    full.dataset.max_tokens_valid = cfg.train.batch_tokens
    full.dataset.num_workers = 0
    full.optimization.max_update = cfg.train.updates
    full.optimization.clip_norm = cfg.train.clip
    full.optimization.update_freq = [cfg.train.accumulate]
    full.optimization.lr = [cfg.train.lr]
    full.checkpoint.save_dir = str(save_dir)
    # Else rank 0 sends the state in classes that the restricted unpickler of the others refuses.
    full.checkpoint.load_checkpoint_on_all_dp_ranks = True
    parallel.configure(full.distributed_training)
    return full


def _model_of(cfg: PretrainConfig) -> tuple[str, Any]:
    """Name and shape of the model for fairseq: with a decoder where an objective needs one."""
    shape = asdict(cfg.model)
    if with_decoder := [name for name in cfg.objectives if OBJECTIVES[name].decoder]:
        for name in ("lang_adapter", "invertible"):
            if shape[name]:
                raise UserError(
                    f"model.{name} with {with_decoder[0]}, which has a decoder", "an encoder alone"
                )
        return "xling_seq2seq", OmegaConf.create(shape)
    for name in ("decoder_layers", "plain_head", "unbiased_head"):
        if shape.pop(name):
            raise UserError(f"model.{name} without an objective that has a decoder", ", ".join(WITH_DECODER))
    return "xling_encoder", OmegaConf.create(shape)


def _task_of(cfg: PretrainConfig) -> tuple[str, Any]:
    """Name and settings of the task for fairseq: one objective's own, or the mix of several."""
    known = {"data": cfg.data, "langs": ",".join(cfg.langs), "seed": str(cfg.seed)}
    if len(cfg.objectives) == 1:
        ((name, settings),) = cfg.objectives.items()
        own = {key: value for key, value in settings.items() if key not in MIX_SETTINGS}
        return f"xling_{name}", config.from_dict(OBJECTIVES[name].config, known | own, f"objectives.{name}")
    mix = known | {"objectives": json.dumps(cfg.objectives), "mode": cfg.mix}
    return "xling_multi", config.from_dict(MultiConfig, mix, "objectives")


def _train(
    cfg: PretrainConfig,
    trainer: Trainer,
    partial: Path,
    run_key: dict[str, Any],
    watch: Watch | None,
    log_to: LogTo,
) -> tuple[Updates, dict[str, Any]]:
    partial.mkdir(parents=True, exist_ok=True)
    epoch_itr = checkpoint.resume(trainer, partial, run_key)
    trainer.task.load_dataset("valid")
    if not len(trainer.task.dataset("valid")):
        raise UserError(
            f"no validation text in {cfg.data}: every language is a single document",
            fix="separate documents by blank lines, or give more text",
        )
    rank = parallel.rank()
    log = Log(partial / (f"log-{rank}.jsonl" if rank else "log.jsonl"), trainer.get_num_updates())
    updates = Updates(trainer, partial / "not-finite.pt", cfg.train.max_skipped)
    updates.skipped, updates.halved = log.mishaps
    told, clock = 0, Clock(f"pretrain {cfg.out}")
    sharded = parallel.is_sharded(trainer.get_model())
    writer = checkpoint.Writer(partial, cfg.train.keep)
    title, seen = f"pretrain {cfg.out}", dict[str, Any]()
    shown = track.shown(log_to if rank == 0 else "none", Path(cfg.out), cfg, trainer.get_num_updates())
    with (
        job.resumable(),
        writer,
        shown as log.show,
        Progress(title, cfg.train.updates, "updates") as progress,
    ):
        progress.update(trainer.get_num_updates())
        while trainer.get_num_updates() < cfg.train.updates:
            for samples in _updates(trainer, epoch_itr, cfg.train.accumulate):
                if not updates.make(samples):
                    continue
                done = trainer.get_num_updates()
                log.count(samples)
                clock.made(cfg.train.updates - done)
                last = done == cfg.train.updates
                stop = parallel.agreed(bool(job.stop_requested()))
                if done % cfg.train.log_every == 0 or last:
                    progress.update(done - progress.done, log.write_train(trainer, updates))
                    job.beat(done, cfg.train.updates, "updates", log.tokens_per_s * parallel.size())
                if done % cfg.train.valid_every == 0 or last:
                    losses = validate(trainer)
                    log.write_valid(trainer, losses, watch(trainer, partial) if watch else {})
                if done % cfg.train.save_every == 0 or last or stop:
                    if rank == 0 or sharded:
                        writer.save(trainer, epoch_itr, run_key)
                    if last or stop:
                        writer.wait()
                if writer.saved > told:
                    told = writer.saved
                    job.beat(done, cfg.train.updates, "updates", saved=told)
                if last:
                    seen = text_seen(trainer, epoch_itr)
                    break
                if stop:
                    parallel.wait()
                    raise job.Stopped
            epoch_itr = _next_epoch(trainer, epoch_itr)
    return updates, seen or text_seen(trainer, epoch_itr)


def text_seen(trainer: Trainer, epoch_itr: Any) -> dict[str, Any]:
    """How many epochs were made, and by language, pair or objective the tokens that are there and those read.

    Read are the tokens of the present epoch as often as there were epochs; the draw of another differs little.
    """
    before = getattr(epoch_itr, "begins_at", 0)
    made = before + epoch_itr.iterations_in_epoch * epoch_itr.num_shards
    epochs = epoch_itr.epoch - 1 + made / max(before + len(epoch_itr.frozen_batches), 1)
    mixture = trainer.task.dataset("train").mixture()
    tokens = {
        name: {"there": there, "read": round(drawn * epochs)} for name, (there, drawn) in mixture.items()
    }
    return {"epochs": round(epochs, 4), "tokens": tokens}


def _updates(trainer: Trainer, epoch_itr: Any, accumulate: int) -> Iterator[list[Any]]:
    """The batches of the current epoch, ``accumulate`` to an update."""
    trainer.begin_epoch(epoch_itr.next_epoch_idx)
    itr = epoch_itr.next_epoch_itr(fix_batches_to_gpus=False, shuffle=False)
    yield from iterators.GroupedIterator(itr, accumulate)


def _next_epoch(trainer: Trainer, epoch_itr: Any) -> Any:
    return trainer.get_train_iterator(epoch_itr.next_epoch_idx, load_dataset=False)


@torch.no_grad()
def validate(trainer: Trainer) -> dict[str, float]:
    """Mean validation loss in nats, over all and by language, as ``loss`` and ``loss_<lang>``."""
    iterator = trainer.get_valid_iterator("valid").next_epoch_itr(shuffle=False)
    with metrics.aggregate(new_root=True) as seen:
        for sample in iterator:
            trainer.valid_step(sample)
    return {key: float(value) for key, value in seen.get_smoothed_values().items() if key.startswith("loss")}


class Clock:
    """Says once on standard error how long the rest of a training will take, after `WARM` updates and `TIMED` more."""

    WARM, TIMED = 5, 20

    def __init__(self, what: str) -> None:
        self._what, self._updates, self._since = what, 0, 0.0

    def made(self, left: int) -> None:
        """Count an update; ``left`` are still to be made."""
        self._updates += 1
        if self._updates == self.WARM:
            self._since = time.perf_counter()
        if self._updates == self.WARM + self.TIMED and left and parallel.rank() == 0:
            seconds = (time.perf_counter() - self._since) / self.TIMED
            text = f"{self._what}: {left:,} updates left, about {left * seconds / 60:,.1f} min without validation"
            say(text)


class Log:
    """``log.jsonl``: one line per event; cut back to the checkpoint when a run is resumed.

    Attributes:
        show: gets every event too.
        mishaps: updates skipped and batches halved before the checkpoint.
    """

    def __init__(self, path: Path, num_updates: int) -> None:
        self.path = path
        self.show: Show = lambda event: None
        # What stands behind the last line end was torn off when the process was killed.
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []
        kept = [line for line in lines if json.loads(line)["update"] <= num_updates]
        manifest.write_atomic(path, "".join(f"{line}\n" for line in kept))
        metrics.reset_meters("train")  # of a run before this one in the same process
        self._tokens, self._since, self.tokens_per_s = 0, time.perf_counter(), 0.0
        events = [json.loads(line) for line in kept]
        self._epoch = max((event.get("epoch", 0) for event in events), default=0)
        seen = [event for event in events if event["split"] == "train"][-1:]
        self.mishaps = tuple(seen[0].get(key, 0) for key in MISHAPS) if seen else (0, 0)

    def count(self, samples: list[Any]) -> None:
        """Count the real tokens of an update."""
        self._tokens += sum(sample["ntokens"] for sample in samples if sample)

    def write_train(self, trainer: Trainer, updates: Updates) -> str:
        """Write the training loss since the last line; returns it in short for the progress bar.

        The first line of an epoch also says how much of each language, or pair, the epoch holds.
        """
        values = metrics.get_smoothed_values("train")
        rate = self.tokens_per_s = self._tokens / (time.perf_counter() - self._since)
        self._tokens, self._since = 0, time.perf_counter()
        metrics.reset_meters("train")
        # A language that had no turn since the last line has an empty meter.
        losses = {k: float(v) for k, v in values.items() if k.startswith("loss") and v is not None}
        counts = {
            "tokens_per_s": round(rate),
            **dict(zip(MISHAPS, (updates.skipped, updates.halved), strict=True)),
        }
        counts |= self._of_epoch(trainer.task.dataset("train"))
        self._write({"update": trainer.get_num_updates(), "split": "train", **counts, **losses})
        return f"loss {losses.get('loss', math.nan):.3f}, {rate:,.0f} tokens/s"

    def _of_epoch(self, dataset: Any) -> dict[str, Any]:
        """Its number and tokens by language, ``drawn/sw``, when it has not been written yet."""
        if dataset.epoch <= self._epoch:
            return {}
        self._epoch = dataset.epoch
        return {"epoch": dataset.epoch} | {f"drawn/{name}": n for name, (_, n) in dataset.mixture().items()}

    def write_valid(self, trainer: Trainer, losses: dict[str, float], more: dict[str, float]) -> None:
        """Write validation losses and their perplexities, by objective and language, and what a `Watch` measured."""
        ppl = {f"ppl{key[4:]}": round(math.exp(min(value, 50)), 3) for key, value in losses.items()}
        self._write({"update": trainer.get_num_updates(), "split": "valid", **losses, **ppl, **more})

    def _write(self, event: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(event) + "\n")
        self.show(event)
