"""Fine-tuning of an encoder on labelled rows, and prediction: classes, tags, intents with slots, answers, choices.

It uses AdamW, linear warm-up and decay, and batches by length without padding, on the GPU if there is one. The
evaluation, not this module, chooses the checkpoint among the epochs.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from xling.array_types import Float32
from xling.core import languages, signals
from xling.core.errors import UserError
from xling.core.output.command_result import tell
from xling.core.progress import Progress
from xling.core.settings.config import from_dict
from xling.data.packing import Example, pack, to_device
from xling.models.files import model_folder, model_weights
from xling.models.files.model_folder import TASK, TASK_FILE
from xling.models.network.encoder import Encoder, EncoderConfig, working_dtype
from xling.models.network.transformers_wrapper import SETTINGS_KEY, TransformersEncoder
from xling.models.optim.adamw import NotFiniteError
from xling.models.shape import GONE
from xling.text import vocab
from xling.transfer import neighbours, regime
from xling.transfer.adversary import Adversary
from xling.transfer.code_switch import RowSwitcher
from xling.transfer.encode import LabelledRow
from xling.transfer.heads import TaskModel
from xling.transfer.neighbours import NeighbourHead
from xling.transfer.saved import SavedStates
from xling.transfer.schedule import batches_of_each, epoch_batches, epoch_of, learning_rate
from xling.transfer.settings import LAST, TuneConfig, check_tuning_settings
from xling.transfer.strategy import STRATEGIES, Start, Strategy
from xling.transfer.task import TASKS, ScoredWindows

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

    ROWS_AT_ONCE: ClassVar[int] = 512

    model: TaskModel
    processor: Any
    max_length: int
    lang: int = 0
    langs: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        """The name of its task."""
        return self.model.task.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it chooses from."""
        return tuple(self.model.labels)

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
        scores = reader.outputs([example for _, example in windows], batch_tokens)
        if isinstance(head := self.model.classifier, NeighbourHead):
            scores = list(head.answer(np.concatenate(scores))[:, None]) if scores else []
        windows_of_row: list[list[tuple[Example, np.ndarray]]] = [[] for _ in rows]
        for (row_index, example), window_scores in zip(windows, scores, strict=True):
            windows_of_row[row_index].append((example, window_scores))
        return list(windows_of_row)

    def outputs(
        self, windows: Sequence[Example], batch_tokens: int = 8192
    ) -> list[Float32[np.ndarray, "_ outputs"]]:
        """Return what the model gives at the chosen tokens of each window, float32 (chosen, outputs)."""
        scores: list[np.ndarray] = [np.empty(0)] * len(windows)
        self.model.eval()
        with torch.inference_mode():
            for batch in batches_by_tokens([len(window["tokens"]) for window in windows], batch_tokens):
                sample = pack([windows[i] | {"id": np.array([i])} for i in batch])
                logits = self.model(to_device(sample, self.model.device)).float().cpu().numpy()
                ends = np.cumsum(sample["num_chosen"])
                for index, window_scores in zip(
                    sample["id"].tolist(), np.split(logits, ends[:-1]), strict=True
                ):
                    scores[index] = window_scores
        return scores


class TaskRows(NamedTuple):
    """Task, labels and rows of one head.

    Attributes:
        task: name in `xling.transfer.task.TASKS`.
        labels: closed list of labels.
        rows: training rows.
    """

    task: str
    labels: Sequence[str]
    rows: Sequence[LabelledRow]


def fine_tune_jointly(
    ckpt: Path, tasks: Sequence[TaskRows], cfg: TuneConfig, alpha: float = 1.0, lang: str = "en",
    title: str = "fine-tune", on_update: OnUpdate | None = None, saved_states: SavedStates | None = None,
) -> list[list[TunedModel]]:  # fmt: skip
    """Fine-tune a published body under a head for each task; return one model a task for each epoch, with one encoder.

    Args:
        ckpt: directory of `xling pretrain`, or of `xling finetune`, whose body is kept under new heads.
        alpha: exponent of the sampling of tasks by their rows, see `xling.transfer.schedule`.
        lang: language of the rows, for models with language embeddings.
        on_update: called after every update, and of a resumed run for those before, with its number, epoch and loss.
        saved_states: where the state is saved, so that a killed run can resume.

    Raises:
        Stopped: it was asked to stop, and has saved.
        UserError: no checkpoint, no training rows, an unknown label, a loss that is not finite, or
            dictionaries that `Switcher` rejects.
    """
    check_tuning_settings(cfg)
    torch.manual_seed(cfg.seed)
    published, langs = model_weights.load_body(ckpt, cfg.dropout, cfg.random_init)
    encoder: Any = published.encoder
    if isinstance(encoder, TransformersEncoder):
        regime.check_no_layer_settings(cfg, ckpt)
    encoder = regime.add_task_adapter(encoder, cfg.task_adapter)
    max_length = min(cfg.max_length, published.encoder.cfg.max_positions)
    lang_index = model_weights.language_index(published, langs, lang, ckpt)
    processor = vocab.load_processor(ckpt)
    parts: list[_Part] = []
    for each in tasks:
        features = cfg.text_features if TASKS[each.task].one_text else cfg.pair_features
        model = TaskModel(
            encoder, each.task, each.labels, cfg.dropout, features, cfg.label_smoothing, cfg.layers
        )
        model = model.to("cuda" if torch.cuda.is_available() else "cpu", working_dtype(cfg.precision))
        regime.check_head(cfg, model)
        tuned = TunedModel(model, processor, max_length, lang_index, tuple(langs))
        switcher = (
            RowSwitcher(model.task, lang, cfg.switch, cfg.switch_rate, each.rows, cfg.seed)
            if cfg.switch
            else None
        )
        # Switched rows may be longer or shorter: the number of updates per epoch is that of the rows as they are.
        parts.append(_Part(tuned, each.rows, _training_units(tuned, each.rows, title), switcher))
    if neighbours.fit([part.tuned for part in parts], [part.rows for part in parts], cfg.seed):
        return [[part.tuned for part in parts]]
    if cfg.freeze_embeddings:
        encoder.tokens.requires_grad_(False)
    for part in parts:
        regime.freeze_lowest(part.tuned.model, cfg.freeze_layers)
        if cfg.freeze == "encoder":
            part.tuned.model.fix_encoder()
    training = _Training(parts, cfg, alpha, title, on_update, saved_states)
    models = [part.tuned.model for part in parts]
    if cfg.adversary:
        training.optimizer.adversary = Adversary(cfg, models[0], ckpt, langs)
    training.strategy = STRATEGIES[cfg.method](
        Start(ckpt, lang, cfg, models, training.optimizer.encoder_masters)
    )
    return _train(training)


@dataclass
class _Part:
    """One task of a training: its model, rows and training units, and what replaces words of the rows."""

    tuned: TunedModel
    rows: Sequence[LabelledRow]
    units: list[list[Example]]
    switcher: RowSwitcher | None


class _Training:
    """The state of a fine-tuning: models over one encoder, the optimiser, what has been told."""

    strategy: Strategy

    def __init__(
        self, parts: Sequence[_Part], cfg: TuneConfig, alpha: float, title: str,
        on_update: OnUpdate | None, saved_states: SavedStates | None,
    ) -> None:  # fmt: skip
        self.parts, self.cfg, self.title = parts, cfg, title
        self.on_update, self.saved_states = on_update, saved_states
        self.models = torch.nn.ModuleList(part.tuned.model for part in parts)
        self.optimizer = regime.TuningOptimizer([part.tuned.model for part in parts], cfg)
        self.counts = batches_of_each([len(part.units) for part in parts], cfg.batch_rows, alpha)
        self.epoch_models: list[list[TunedModel]] = []
        self.past_updates: list[tuple[int, int, float]] = []

    def batches(self, epoch: int) -> Iterator[tuple[int, list[Example]]]:
        """Yield (task, batch) of an epoch."""
        if len(self.parts) > 1:
            passes = [
                lambda number, units=part.units: list(epoch_batches(units, self.cfg, number))
                for part in self.parts
            ]
            yield from epoch_of(passes, self.counts, self.cfg.seed, epoch)
            return
        (part,) = self.parts
        if part.switcher:
            part.units = _training_units(part.tuned, part.switcher(part.rows, epoch), self.title)
        yield from ((0, batch) for batch in epoch_batches(part.units, self.cfg, epoch))

    def end_epoch(self, weights: dict[str, Any] | None = None) -> None:
        """Keep a copy of the models, or the models of these weights."""
        models: Any = copy.deepcopy(self.models).requires_grad_(False).eval()
        if weights is not None:
            models.load_state_dict(weights)
        self.epoch_models.append([replace(p.tuned, model=m) for p, m in zip(self.parts, models, strict=True)])

    def save(self, epoch: int, step: int) -> None:
        """Write the state after ``step`` updates of ``epoch``, if states are saved."""
        if self.saved_states:
            optimizer = self.optimizer.optimizer.state_dict()
            state = {"epoch": epoch, "step": step, "model": self.models.state_dict(), "optimizer": optimizer}
            state["strategy"] = self.strategy.state()
            if self.optimizer.adversary:
                state["adversary"] = self.optimizer.adversary.state_dict()
            self.saved_states.save(len(self.past_updates), {**state, "told": self.past_updates})

    def restore(self) -> int:
        """Restore the models of completed epochs and the reported updates; return the updates made of this epoch."""
        if self.saved_states is None or (saved := self.saved_states.load()) is None:
            return 0
        state, weights = saved
        for each in weights:
            self.end_epoch(each)
        self.models.load_state_dict(state["model"])
        self.optimizer.optimizer.load_state_dict(state["optimizer"])
        self.strategy.restore(state["strategy"])
        if self.optimizer.adversary:
            self.optimizer.adversary.load_state_dict(state["adversary"])
        self.past_updates = [tuple(event) for event in state["told"]]
        step: int = state["step"]
        return step


def _train(training: _Training) -> list[list[TunedModel]]:
    """Make all updates, from the saved state if there is one; return the models of every epoch."""
    cfg, saved_states, on_update = training.cfg, training.saved_states, training.on_update
    per_epoch = sum(training.counts)
    updates_to_skip = training.restore()
    if on_update:
        for event in training.past_updates:
            on_update(*event)
    with (
        signals.resumable() if saved_states else contextlib.nullcontext(),
        signals.watched(),
        Progress(training.title, per_epoch * cfg.epochs, "updates") as progress,
    ):
        progress.update(len(training.past_updates))
        for epoch in range(len(training.epoch_models), cfg.epochs):
            for step, (task, batch) in enumerate(training.batches(epoch)):
                if step < updates_to_skip:
                    continue
                training.optimizer.optimizer.set_lr(
                    learning_rate(cfg.lr, cfg.warmup, epoch * per_epoch + step, per_epoch * cfg.epochs)
                )
                training.optimizer.unfreeze(epoch + step / per_epoch)
                loss = _make_update(training, training.parts[task].tuned.model, batch)
                progress.update(1, f"loss {loss:.3f}")
                training.past_updates.append((progress.done, epoch, loss))
                if on_update:
                    on_update(*training.past_updates[-1])
                should_stop = bool(saved_states and signals.stop_requested())
                if saved_states and (should_stop or saved_states.is_due()):
                    training.save(epoch, step + 1)
                    signals.beat(progress.done, per_epoch * cfg.epochs, "updates", saved=progress.done)
                if should_stop:
                    raise signals.Stopped
            updates_to_skip = 0
            training.end_epoch()
            if saved_states:
                saved_states.save_epoch(epoch, training.models.state_dict())
                training.save(epoch + 1, 0)
    return training.epoch_models


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
    save_heads({"": tuned}, directory, ckpt, langs)


def save_heads(
    heads: Mapping[str, TunedModel], directory: Path, ckpt: Path, langs: list[str], joined: bool = False
) -> None:
    """Write models over one encoder by name, as `save_tuned`; one alone has no name in the file.

    Args:
        joined: the model answers together with a head over a static encoder, in `model_folder.JOINED_FOLDER`.
    """
    if ckpt != directory:
        vocab.copy_vocabulary(ckpt, directory)
    first = next(iter(heads.values()))
    encoder: Any = first.model.encoder
    properties = {"shape": model_weights.shape_of(encoder.cfg), "langs": langs, "lang": first.lang}
    if joined:
        properties[model_folder.JOINED] = True
    if isinstance(encoder, TransformersEncoder):
        properties[SETTINGS_KEY] = encoder.settings
    weights = first.model.state_dict()
    if len(heads) == 1:
        properties |= _properties_of_head(first)
    else:
        properties["heads"] = {name: _properties_of_head(tuned) for name, tuned in heads.items()}
        weights = {key: weight for key, weight in weights.items() if key.startswith("encoder.")}
        for name, tuned in heads.items():
            own = {
                k: weight for k, weight in tuned.model.state_dict().items() if not k.startswith("encoder.")
            }
            weights |= {f"heads.{name}.{key}": weight for key, weight in own.items()}
    model_weights.write_published(directory / TASK_FILE, TASK, properties, weights, directory)


def _properties_of_head(tuned: TunedModel) -> dict[str, Any]:
    model = tuned.model
    return {
        "kind": model.task.name,
        "labels": list(model.labels),
        "features": model.features,
        "layers": model.layers,
        "max_length": tuned.max_length,
    }


def load_tuned(directory: Path, lang: str = "", head: str = "") -> TunedModel:
    """Load a fine-tuned model written by `save_tuned`, in float32.

    Args:
        directory: output of `xling finetune`.
        lang: language of the rows it will read; default: the language it was fine-tuned on (English in files
            that do not record it).
        head: name of the head, of a model that has several.

    Raises:
        UserError: as `xling.models.files.model_weights.read_published`, or as `model_folder.choose_head`.
    """
    path = directory / TASK_FILE
    state = model_weights.read_published(path, TASK)
    own = model_folder.choose_head(state, directory, head)
    settings = {k: str(v) for k, v in state["shape"].items() if k not in GONE}
    shape = from_dict(EncoderConfig, settings, str(path))
    langs = state["langs"]
    vocab_size = state["weights"]["encoder.tokens.weight"].shape[0]
    encoder: Any = (
        TransformersEncoder(state[SETTINGS_KEY], vocab_size)
        if SETTINGS_KEY in state
        else Encoder(shape, vocab_size, len(langs) if shape.lang_embeddings else 0)
    )
    layers = own.get("layers", LAST)  # models of before read the last one
    model = TaskModel(encoder, own["kind"], own["labels"], 0.0, own["features"], layers=layers)
    weights = {name.removeprefix(f"heads.{head}."): weight for name, weight in state["weights"].items()}
    model.load_state_dict({name: weight for name, weight in weights.items() if not name.startswith("heads.")})
    tuned_lang = state.get("lang", langs.index("en") if "en" in langs else 0)
    name = languages.find(lang, langs)
    lang_index = tuned_lang if name is None else langs.index(name)
    model.requires_grad_(False).eval()
    return TunedModel(model, vocab.load_processor(directory), own["max_length"], lang_index, tuple(langs))


def average_models(checkpoints: Sequence[TunedModel]) -> TunedModel:
    """Average the weights of the given models."""
    mean_model = copy.deepcopy(checkpoints[0].model)
    mean_model.load_state_dict(model_weights.mean_of([c.model.state_dict() for c in checkpoints]))
    return replace(checkpoints[0], model=mean_model)


def _make_update(training: _Training, model: TaskModel, batch: list[Example]) -> float:
    cfg, optimizer, strategy = training.cfg, training.optimizer.optimizer, training.strategy
    model.train()
    optimizer.zero_grad()
    sample = to_device(pack(batch), model.device)
    logits = model(sample)
    predicted = model.normalised(logits, sample)
    loss = model.loss(predicted, sample["target"], sample.get("shares"))
    if (added := strategy.added_loss(model, sample, logits, predicted)) is not None:
        loss = loss + added
    if adversary := training.optimizer.adversary:
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
    strategy.add_gradients()
    strategy.before_step()
    optimizer.step()
    if adversary:
        adversary.step()
    return float(loss.detach())


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
