"""Fine-tuning of an encoder on labelled rows, and prediction: classes, tags, intents with slots, answers, choices.

It uses AdamW, linear warm-up and decay, and batches by length without padding. The evaluation, not this
module, chooses the checkpoint among the epochs.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from xling.core import languages, signals
from xling.core.errors import UserError
from xling.core.output.command_result import tell
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.core.settings.config import from_dict
from xling.data.packing import Example, pack
from xling.models.files import model_weights
from xling.models.files.model_folder import TASK, TASK_FILE
from xling.models.network.encoder import Encoder, EncoderConfig, working_dtype
from xling.models.network.transformers_wrapper import SETTINGS_KEY, TransformersEncoder
from xling.models.optim.adamw import NotFiniteError
from xling.text import vocab
from xling.transfer import regime
from xling.transfer.adversary import Adversary
from xling.transfer.code_switch import RowSwitcher
from xling.transfer.encode import LabelledRow
from xling.transfer.heads import TaskModel
from xling.transfer.saved import SavedStates
from xling.transfer.settings import TuneConfig, check_tuning_settings
from xling.transfer.task import TASKS, ScoredWindows, Task

R3F_NOISE = 1e-5
OnUpdate = Callable[[int, int, float], None]


@dataclass
class TunedModel:
    """A fine-tuned model with everything needed for prediction.

    Attributes:
        model: encoder and heads.
        processor: tokenizer.
        max_length: sub-tokens of one sequence.
        lang: the language of ``langs`` it was fine-tuned in.
        langs: languages that the encoder was trained in, in the order of its language embeddings.
    """

    model: TaskModel
    processor: Any
    max_length: int
    lang: int = 0
    langs: tuple[str, ...] = ()

    def encode(self, rows: Sequence[LabelledRow], labelled: bool = True) -> list[tuple[int, Example]]:
        """Encode all rows as (index of the row, example); see `xling.transfer.task.Task.encode`."""
        windows = []
        for index, row in enumerate(rows):
            for example in self.model.task.encode(
                self.processor, row, self.model.labels, self.max_length, labelled
            ):
                extra = {"id": np.array([index]), "langs": np.full(len(example["tokens"]), self.lang)}
                windows.append((index, example | extra))
        return windows

    def _index_of(self, lang: str) -> int:
        """Return the index of a language; if the encoder has no vector of it, warn and return the tuned one."""
        if getattr(self.model.encoder, "langs", None) is None:
            return 0
        for index, each in enumerate(self.langs):
            if languages.is_same(each, lang):
                return index
        tell(
            f"xling: warning: the model has no vector for the language {lang!r}: "
            f"its rows are read as {self.langs[self.lang]!r}, the language of the fine-tuning"
        )
        return self.lang

    def predict(self, rows: Sequence[LabelledRow], batch_tokens: int = 8192, lang: str = "") -> list[Any]:
        """Return an answer per row, in the form of its label, in the order of ``rows``; see `scores`."""
        decode, labels = self.model.task.decode, self.model.labels
        windows = self.scores(rows, batch_tokens, lang)
        return [decode(labels, row, parts) for row, parts in zip(rows, windows, strict=True)]

    def scores(
        self, rows: Sequence[LabelledRow], batch_tokens: int = 8192, lang: str = ""
    ) -> list[ScoredWindows]:
        """Return the windows of each row with their logits, float32 (chosen, labels), in the order of ``rows``.

        Args:
            rows: any number.
            batch_tokens: tokens of one forward pass.
            lang: language of the rows, for models with language embeddings; a language that the encoder was
                not trained in is read like the language of the fine-tuning.
        """
        reader = replace(self, lang=self._index_of(lang)) if lang else self
        windows = reader.encode(rows, labelled=False)
        scores: list[np.ndarray] = [np.empty(0)] * len(windows)
        self.model.eval()
        with torch.inference_mode():
            for batch in batches_by_tokens([len(e["tokens"]) for _, e in windows], batch_tokens):
                sample = pack([windows[i][1] | {"id": np.array([i])} for i in batch])
                logits = self.model(sample).float().numpy()
                ends = np.cumsum(sample["num_chosen"])
                for index, window_scores in zip(
                    sample["id"].tolist(), np.split(logits, ends[:-1]), strict=True
                ):
                    scores[index] = window_scores
        windows_of_row: list[list[tuple[Example, np.ndarray]]] = [[] for _ in rows]
        for (row_index, example), window_scores in zip(windows, scores, strict=True):
            windows_of_row[row_index].append((example, window_scores))
        return list(windows_of_row)


def fine_tune(
    ckpt: Path, task: str, labels: Sequence[str], train: Sequence[LabelledRow], cfg: TuneConfig, lang: str = "en",
    title: str = "fine-tune", on_update: OnUpdate | None = None, saved_states: SavedStates | None = None,
) -> list[TunedModel]:  # fmt: skip
    """Fine-tune a published checkpoint and return one model per epoch, the last epoch last.

    Args:
        ckpt: directory of `xling pretrain`.
        task: name in `xling.transfer.task.TASKS`.
        labels: closed list of labels.
        train: training rows.
        cfg: settings.
        lang: language of the rows, for models with language embeddings.
        title: name on the progress bar.
        on_update: called after every update with its number, the epoch from 0, and the loss; also for the earlier
            updates of a resumed run.
        saved_states: where the state is saved, so that a killed run can resume.

    Raises:
        Stopped: it was asked to stop, and has saved.
        UserError: no checkpoint, no training rows, an unknown label, a loss that is not finite, or
            dictionaries that `Switcher` rejects.
    """
    for name, minimum in (("epochs", 1), ("batch_rows", 1), ("max_length", 8)):
        if getattr(cfg, name) < minimum:
            raise UserError(f"{name}={getattr(cfg, name)}", f"a whole number from {minimum}")
    check_tuning_settings(cfg)
    torch.manual_seed(cfg.seed)
    published, langs = model_weights.load_model(ckpt, cfg.dropout, cfg.random_init)
    encoder: Any = published.encoder
    if isinstance(encoder, TransformersEncoder):
        regime.check_no_layer_settings(cfg, ckpt)
    encoder = regime.add_task_adapter(encoder, cfg.task_adapter)
    features = cfg.text_features if TASKS[task].one_text else cfg.pair_features
    model = TaskModel(encoder, task, labels, cfg.dropout, features, cfg.label_smoothing)
    model = model.to(working_dtype(cfg.precision))
    regime.check_head(cfg, model)
    max_length = min(cfg.max_length, published.encoder.cfg.max_positions)
    lang_index = model_weights.language_index(published, langs, lang, ckpt)
    tuned = TunedModel(model, vocab.load_processor(ckpt), max_length, lang_index, tuple(langs))
    switcher = (
        RowSwitcher(model.task, lang, cfg.switch, cfg.switch_rate, train, cfg.seed) if cfg.switch else None
    )
    # Switched rows may be longer or shorter: the number of updates per epoch is computed from the unswitched
    # rows.
    units = _training_units(tuned, train, title)
    if cfg.freeze_embeddings:
        model.encoder.tokens.requires_grad_(False)
    regime.freeze_lowest(model, cfg.freeze_layers)
    tuning_optimizer = regime.TuningOptimizer(model, cfg)
    if cfg.adversary:
        tuning_optimizer.adversary = Adversary(cfg, model, ckpt, langs)
    return _train(tuned, tuning_optimizer, train, units, switcher, cfg, title, on_update, saved_states)


def _train(
    tuned: TunedModel, tuning_optimizer: regime.TuningOptimizer,
    train: Sequence[LabelledRow], units: list[list[Example]],
    switcher: RowSwitcher | None, cfg: TuneConfig, title: str,
    on_update: OnUpdate | None, saved_states: SavedStates | None,
) -> list[TunedModel]:  # fmt: skip
    """Make all updates, from the saved state if there is one; return one model per epoch."""
    model, per_epoch = tuned.model, -(-len(units) // cfg.batch_rows)
    epoch_models, past_updates, updates_to_skip = _restore_state(tuned, tuning_optimizer, saved_states)
    if on_update:
        for event in past_updates:
            on_update(*event)
    with (
        signals.resumable() if saved_states else contextlib.nullcontext(),
        signals.watched(),
        Progress(title, per_epoch * cfg.epochs, "updates") as progress,
    ):
        progress.update(len(past_updates))
        for epoch in range(len(epoch_models), cfg.epochs):
            if switcher:
                units = _training_units(tuned, switcher(train, epoch), title)
            for step, batch in enumerate(_epoch_batches(units, cfg, epoch)):
                if step < updates_to_skip:
                    continue
                tuning_optimizer.optimizer.set_lr(
                    _learning_rate(cfg, epoch * per_epoch + step, per_epoch * cfg.epochs)
                )
                tuning_optimizer.unfreeze(epoch + step / per_epoch)
                loss = _make_update(model, tuning_optimizer, batch, cfg)
                progress.update(1, f"loss {loss:.3f}")
                past_updates.append((progress.done, epoch, loss))
                if on_update:
                    on_update(*past_updates[-1])
                should_stop = bool(saved_states and signals.stop_requested())
                if saved_states and (should_stop or saved_states.is_due()):
                    saved_states.save(
                        progress.done, _state_to_save(model, tuning_optimizer, epoch, step + 1, past_updates)
                    )
                    signals.beat(progress.done, per_epoch * cfg.epochs, "updates", saved=progress.done)
                if should_stop:
                    raise signals.Stopped
            updates_to_skip = 0
            epoch_models.append(replace(tuned, model=copy.deepcopy(model).requires_grad_(False).eval()))
            if saved_states:
                saved_states.save_epoch(epoch, model.state_dict())
                saved_states.save(
                    progress.done, _state_to_save(model, tuning_optimizer, epoch + 1, 0, past_updates)
                )
    return epoch_models


def _state_to_save(
    model: TaskModel,
    tuning_optimizer: regime.TuningOptimizer,
    epoch: int,
    step: int,
    past_updates: list[tuple[int, int, float]],
) -> dict[str, Any]:
    """Return the state for `_restore_state` after ``step`` updates of ``epoch``."""
    weights, optimizer = model.state_dict(), tuning_optimizer.optimizer.state_dict()
    state = {"epoch": epoch, "step": step, "model": weights, "optimizer": optimizer, "told": past_updates}
    if tuning_optimizer.adversary:
        state["adversary"] = tuning_optimizer.adversary.state_dict()
    return state


def _restore_state(
    tuned: TunedModel, tuning_optimizer: regime.TuningOptimizer, saved_states: SavedStates | None
) -> tuple[list[TunedModel], list[tuple[int, int, float]], int]:
    """Restore the models of completed epochs, the reported updates, and the number of updates of this epoch."""
    if saved_states is None or (saved := saved_states.load()) is None:
        return [], [], 0
    state, weights = saved
    epoch_models = []
    for each in weights:
        model = copy.deepcopy(tuned.model).requires_grad_(False).eval()
        model.load_state_dict(each)
        epoch_models.append(replace(tuned, model=model))
    tuned.model.load_state_dict(state["model"])
    tuning_optimizer.optimizer.load_state_dict(state["optimizer"])
    if tuning_optimizer.adversary:
        tuning_optimizer.adversary.load_state_dict(state["adversary"])
    return epoch_models, [tuple(event) for event in state["told"]], state["step"]


def _training_units(tuned: TunedModel, rows: Sequence[LabelledRow], title: str) -> list[list[Example]]:
    """Group windows into training units: a window with a target, or all alternatives of a row.

    Their ``id`` says which sequences compete; see `xling.transfer.heads.TaskModel.log_probabilities`.
    """
    examples = [(row_index, example) for row_index, example in tuned.encode(rows) if len(example["chosen"])]
    if not examples:
        raise UserError(f"{title}: no training rows", fix="check the training split")
    if any("shares" in example for _, example in examples):
        one_hot = np.eye(len(tuned.model.labels), dtype=np.float32)
        examples = [(row_index, {"shares": one_hot[each["target"]]} | each) for row_index, each in examples]
    units: dict[int, list[Example]] = {}
    for number, (row_index, example) in enumerate(examples):
        if (example["target"] < 0).any():
            raise UserError(f"{title}: row {rows[row_index].id} has no label", fix="check the training split")
        key = row_index if tuned.model.task.alternatives_compete else number
        units.setdefault(key, []).append(example | {"id": np.array([key])})
    return list(units.values())


def save_tuned(tuned: TunedModel, directory: Path, ckpt: Path, langs: list[str]) -> None:
    """Write ``task.pt`` and the vocabulary of ``ckpt`` for `load_tuned`."""
    if ckpt != directory:
        vocab.copy_vocabulary(ckpt, directory)
    model = tuned.model
    properties = {
        "shape": model_weights.shape_of(model.encoder.cfg),
        "langs": langs,
        "lang": tuned.lang,
        "kind": model.task.name,
        "labels": list(model.labels),
        "features": model.features,
        "max_length": tuned.max_length,
    }
    encoder: Any = model.encoder
    if isinstance(encoder, TransformersEncoder):
        properties[SETTINGS_KEY] = encoder.settings
    model_weights.write_published(directory / TASK_FILE, TASK, properties, model.state_dict(), directory)


def load_tuned(directory: Path, lang: str = "") -> TunedModel:
    """Load a fine-tuned model written by `save_tuned`, in float32.

    Args:
        directory: output of `xling finetune`.
        lang: language of the rows it will read; default: the language it was fine-tuned on (English in files
            that do not record it).

    Raises:
        UserError: as `xling.models.files.model_weights.read_published`.
    """
    path = directory / TASK_FILE
    state = model_weights.read_published(path, TASK)
    shape = from_dict(EncoderConfig, {k: str(v) for k, v in state["shape"].items()}, str(path))
    langs = state["langs"]
    vocab_size = state["weights"]["encoder.tokens.weight"].shape[0]
    encoder: Any = (
        TransformersEncoder(state[SETTINGS_KEY], vocab_size)
        if SETTINGS_KEY in state
        else Encoder(shape, vocab_size, len(langs) if shape.lang_embeddings else 0)
    )
    model = TaskModel(encoder, state["kind"], state["labels"], 0.0, state["features"])
    model.load_state_dict(state["weights"])
    tuned_lang = state.get("lang", langs.index("en") if "en" in langs else 0)
    name = languages.find(lang, langs)
    lang_index = tuned_lang if name is None else langs.index(name)
    model.requires_grad_(False).eval()
    return TunedModel(model, vocab.load_processor(directory), state["max_length"], lang_index, tuple(langs))


def average_models(checkpoints: Sequence[TunedModel]) -> TunedModel:
    """Average the weights of the given models."""
    mean_model = copy.deepcopy(checkpoints[0].model)
    states = [c.model.state_dict() for c in checkpoints]
    mean_model.load_state_dict(
        {k: torch.stack([s[k].float() for s in states]).mean(0).to(v.dtype) for k, v in states[0].items()}
    )
    return replace(checkpoints[0], model=mean_model)


def _make_update(
    model: TaskModel, tuning_optimizer: regime.TuningOptimizer, batch: list[Example], cfg: TuneConfig
) -> float:
    optimizer = tuning_optimizer.optimizer
    model.train()
    optimizer.zero_grad()
    sample = pack(batch)
    predicted = model.log_probabilities(sample)
    loss = model.loss(predicted, sample["target"], sample.get("shares"))
    if cfg.method == "r3f":
        noisy_predicted = model.log_probabilities(sample, noise=R3F_NOISE)
        loss = loss + _symmetric_kl(predicted, noisy_predicted) / _num_distributions(
            sample, predicted, model.task
        )
    if adversary := tuning_optimizer.adversary:
        loss = loss + adversary.loss(model)
    if not torch.isfinite(loss):
        raise UserError(
            f"the loss became {float(loss.detach())} in fine-tuning",
            fix=f"lower the learning rate, now {cfg.lr}",
        )
    loss.backward()
    optimizer.multiply_grads(1.0)
    try:
        optimizer.clip_grad_norm(cfg.clip)
    except NotFiniteError:
        raise UserError(
            "the gradients became infinite in fine-tuning", fix=f"lower the learning rate, now {cfg.lr}"
        ) from None
    tuning_optimizer.add_l2_start_gradient()
    optimizer.step()
    if adversary:
        adversary.step()
    return float(loss.detach())


def _symmetric_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Sum the divergences in both directions over all distributions of log-probabilities."""
    return F.kl_div(log_p, log_q, log_target=True, reduction="sum") + F.kl_div(
        log_q, log_p, log_target=True, reduction="sum"
    )


def _num_distributions(sample: dict[str, Any], log_probabilities: Tensor, task: Task) -> int:
    """Count the distributions in log-probabilities (M, K): one per chosen token, or per column and group."""
    if not task.pointers:
        return len(log_probabilities)
    return len(sample["id"].unique()) * log_probabilities.shape[1]


def _learning_rate(cfg: TuneConfig, step: int, total: int) -> float:
    warmup = max(1, int(cfg.warmup * total))
    return cfg.lr * min((step + 1) / warmup, max(0, total - step) / max(1, total - warmup))


def _epoch_batches(units: Sequence[list[Example]], cfg: TuneConfig, epoch: int) -> Iterator[list[Example]]:
    """Yield the batches of one epoch.

    Shuffled, then sorted by length within a hundred batches, then shuffled again.
    """
    generator = rng(cfg.seed, "tune", epoch)
    order = generator.permutation(len(units))
    lengths = np.array([sum(len(example["tokens"]) for example in units[i]) for i in order])
    pool = 100 * cfg.batch_rows
    chunks = [
        order[start : start + pool][np.argsort(lengths[start : start + pool], kind="stable")]
        for start in range(0, len(order), pool)
    ]
    batches = [
        chunk[i : i + cfg.batch_rows] for chunk in chunks for i in range(0, len(chunk), cfg.batch_rows)
    ]
    for index in generator.permutation(len(batches)):
        yield [example for i in batches[index] for example in units[i]]


def batches_by_tokens(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Group indices by length into batches of at most ``batch_tokens`` tokens, or one sequence."""
    batch: list[int] = []
    num_tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and num_tokens + lengths[index] > batch_tokens:
            yield batch
            batch, num_tokens = [], 0
        batch.append(index)
        num_tokens += lengths[index]
    if batch:
        yield batch
