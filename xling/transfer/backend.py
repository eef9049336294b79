"""Adapter of our models as systems under test: fine-tune, predict and embed for `xling.eval.run.evaluation`."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xling.array_types import Float, Float32
from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.core.output import manifest
from xling.core.output.command_result import tell
from xling.core.registry import load
from xling.data.packing import pack, sequence
from xling.data.symbols import Symbols
from xling.models.files import model_folder, model_weights
from xling.models.files.model_folder import FOREIGN, SEQ2SEQ, TASK, TASK_FILE, is_joined
from xling.models.generate.settings import Search
from xling.models.network.blocks import sequence_lengths
from xling.models.network.encoder import EncoderModel, working_dtype
from xling.models.network.int8 import quantise
from xling.static.encoder_files import is_static_encoder
from xling.text import vocab
from xling.transfer import tune
from xling.transfer.checks import check_random_control, features_of
from xling.transfer.encode import BOS, EOS, LabelledRow, encode_pieces
from xling.transfer.generation.decoder_system import TextGenerator, search_settings
from xling.transfer.generation.text_to_text import TextToText, as_texts
from xling.transfer.likelihood import MaskedLM
from xling.transfer.projection import project_rows
from xling.transfer.saved import SavedStates
from xling.transfer.sentence import SentenceHead, read_head, read_settings
from xling.transfer.settings import TuneConfig
from xling.transfer.static_system import StaticBackend
from xling.transfer.task import TASKS, Task, TaskShape, check_tuned_for
from xling.transfer.tasks.tag import Tag

POOLINGS = ("mean", "cls", "max", JOINED := "joined")
BATCH_TOKENS = 8192
JOINED_MODULE = "xling.transfer.joined"
STATIC_SHARE = 0.7
"""Share of the static encoder in a cosine, chosen on 500 texts of PUD in nine languages (docs/results.d/evening.md)."""
OWN_VECTORS = -1, "mean"
"""Layer and pooling with which a model of sentence-transformers makes its vectors as it declares."""


class EncoderBackend:
    """A published encoder, or the same shape with fresh weights; its decoder, if it has one, writes texts.

    Args:
        ckpt: directory of `xling pretrain`.
        name: name in tables.
        random_init: use fresh weights, as a control.
        search: settings of text generation.
        precision: precision of the weights for sentence vectors.
        int8: predict and embed in 8-bit integers; see `xling.models.network.int8`.
        on_update: see `xling.transfer.tune.fine_tune`.
        saved_states: see `xling.transfer.tune.fine_tune`; generation does not use it.
        trains_on: whether a fine-tuned model is trained on, its body under a new head, in place of answering.

    Raises:
        UserError: ``ckpt`` does not exist, or it is fine-tuned and the control is requested.
    """

    def __init__(
        self,
        ckpt: Path,
        name: str,
        random_init: bool = False,
        search: Search | None = None,
        precision: str = "fp32",
        int8: bool = False,
        on_update: Callable[[int, int, float], None] | None = None,
        saved_states: SavedStates | None = None,
        trains_on: bool = False,
    ) -> None:
        self.ckpt, self.name, self.random_init = ckpt, name, random_init
        self.precision, self.int8 = precision, int8
        self.digest = manifest.digest(ckpt)
        # A model of `xling finetune` is not trained again: its answers do not depend on the seed.
        self.seeded = trains_on or not (ckpt / TASK_FILE).is_file()
        if random_init:
            check_random_control(ckpt)
        self._on_update, self._saved_states = on_update, saved_states
        made_with = [f"pieces {vocab.IMPORTED_PIECES}"] if vocab.has_imported_tokenizer(ckpt) else []
        for each in [*made_with, *["int8"] * int8]:
            self.digest = hashlib.sha256(f"{self.digest} {each}".encode()).hexdigest()
        self._int8_copy: tuple[tune.TunedModel, tune.TunedModel] | None = None
        self._generator = TextGenerator(ckpt, search or Search(), random_init)
        self._text_to_text: TextToText | None = None
        self.control_seed = 1  # of the weights that sentence vectors of the control come from
        self._embedder: tuple[EncoderModel, list[str], Any, SentenceHead | None] | None = None

    def fit(
        self, suite: TaskShape, train: Sequence[LabelledRow], dev: Sequence[LabelledRow], lang: str, cfg: Any
    ) -> list[Any]:
        """Fine-tune one model per epoch; ``cfg`` has the fields of `xling.transfer.settings.TuneConfig` that it sets.

        Raises:
            UserError: the model is fine-tuned for another kind of task or other labels.
        """
        title = f"{suite.name}, {self.name}, seed {cfg.seed}"
        task = _task_of(suite)
        if task.writes:
            return list(self._generator.fit(title, train, lang, cfg))
        if cfg.text_to_text:
            self._text_to_text = TextToText(self._generator, lang, task.closed_labels(suite, train))
            rows = as_texts(suite, task, train)
            self._text_to_text.check_names()
            return list(self._generator.fit(title, rows, lang, cfg))
        if not self.seeded:  # it is not trained again
            closed_labels = task.closed_labels(suite, [])
            own = tune.load_tuned(self.ckpt, head=self._head_of(suite, closed_labels))
            check_tuned_for(self.ckpt, own.model.task.name, own.labels, suite)
            return [own]
        return [tuned for (tuned,) in self.fit_jointly([suite], [train], lang, cfg, title=title)]

    def fit_jointly(
        self,
        suites: Sequence[TaskShape],
        trains: Sequence[Sequence[LabelledRow]],
        lang: str,
        cfg: Any,
        alpha: float = 1.0,
        title: str = "fine-tune",
    ) -> list[list[tune.TunedModel]]:
        """Fine-tune one body under a head for each suite; see `xling.transfer.tune.fine_tune_jointly`.

        Returns:
            For each epoch a model for each suite.
        """
        if cfg.text_to_text:
            raise UserError("fit.text_to_text=true with a head for each suite", "xling eval with it")
        tune_settings = {f.name for f in fields(TuneConfig)}
        values = {f.name: getattr(cfg, f.name) for f in fields(cfg) if f.name in tune_settings}
        settings = TuneConfig(**values, random_init=self.random_init)
        tasks = [
            tune.TaskRows(suite.task, _task_of(suite).closed_labels(suite, train), train)
            for suite, train in zip(suites, trains, strict=True)
        ]
        if cfg.project:
            tasks = [self._with_projected(each, settings, cfg.project, lang, title) for each in tasks]
        return tune.fine_tune_jointly(
            self.ckpt, tasks, settings, alpha, lang, title, self._on_update, self._saved_states
        )

    def _with_projected(
        self, task: tune.TaskRows, settings: TuneConfig, links: Path, lang: str, title: str
    ) -> tune.TaskRows:
        """Return the rows of a task, for tags with rows of other languages; see `xling.transfer.projection`."""
        if not isinstance(TASKS[task.task], Tag):
            return task
        ((tagger,),) = tune.fine_tune_jointly(
            self.ckpt, [task], settings, lang=lang, title=f"{title}, first tagger"
        )[-1:]
        added = project_rows(tagger, links, len(task.rows), lang, settings.seed)
        return task._replace(rows=[*task.rows, *added])

    def save(
        self, heads: Mapping[str, tune.TunedModel], suite: Any, train: Any, out: Path, joined: bool = False
    ) -> None:
        """Write fine-tuned models over one encoder, by suite, for `load_tuned`."""
        tune.save_heads(heads, out, self.ckpt, list(next(iter(heads.values())).langs), joined)

    def _head_of(self, suite: TaskShape, closed_labels: Sequence[str]) -> str:
        """Return the head of a suite: that of its name, or the only one of its task and labels; "" if there is one.

        Raises:
            UserError: there are several heads, and none or several of them fit.
        """
        heads = model_weights.read_published(self.ckpt / TASK_FILE, TASK).get("heads", {})
        if not heads or suite.name in heads:
            return suite.name if heads else ""
        fitting = [
            name
            for name, head in heads.items()
            if head["kind"] == suite.task
            and tuple(head["labels"][: len(closed_labels)]) == tuple(closed_labels)
        ]
        if len(fitting) != 1:
            raise UserError(
                f"{self.ckpt} has heads for {', '.join(heads)}; {len(fitting)} of them fit {suite.name}",
                "a suite that the model was fine-tuned on, or one whose task and labels one head alone has",
                f"leave {suite.name} out, or give another checkpoint",
            )
        return fitting[0]

    def average(self, checkpoints: Sequence[Any]) -> Any:
        """Average the weights of checkpoints."""
        is_generation = isinstance(checkpoints[0], dict)
        return model_weights.mean_of(checkpoints) if is_generation else tune.average_models(checkpoints)

    def predict(self, checkpoint: Any, suite: TaskShape, rows: Sequence[LabelledRow], lang: str) -> list[Any]:
        """Return one answer per row, in the form of the suite's labels; for spans the text.

        Raises:
            UserError: the answers are generated texts, and the model has no decoder.
        """
        task = _task_of(suite)
        if task.compares:
            return list(self._masked_lm.choose_likelier(rows, lang))
        if task.writes:
            return list(self._generator.predict(checkpoint, task, rows, lang))
        if self._text_to_text and isinstance(checkpoint, dict):
            return list(self._text_to_text.predict(checkpoint, suite, task, rows, lang))
        return self.in_int8(checkpoint).predict(rows, lang=lang)

    def probabilities(
        self, checkpoint: tune.TunedModel, suite: TaskShape, rows: Sequence[LabelledRow], lang: str
    ) -> Float32[np.ndarray, "rows labels"]:
        """Return the probability of each label for rows with one class, (rows, labels)."""
        logits = [parts[0][1][0] for parts in checkpoint.scores(rows, lang=lang)]
        return torch.from_numpy(np.stack(logits)).softmax(1).numpy()

    @cached_property
    def _masked_lm(self) -> MaskedLM:
        """Return the encoder with its LM head, as it was published.

        Raises:
            UserError: it has none, or is fine-tuned.
        """
        if not self.seeded:
            raise UserError(
                f"{self.ckpt} is fine-tuned and can fill no masks",
                "a pre-trained encoder with its LM head",
                "give the checkpoint that it was fine-tuned from",
            )
        masked_lm = MaskedLM(self.ckpt, self.random_init)
        if self.int8:
            quantise(masked_lm.model.encoder)
        return masked_lm

    def in_int8(self, tuned: tune.TunedModel) -> tune.TunedModel:
        """Return a copy of a model whose encoder is in int8, if ``int8`` says so; the most recent copy is cached."""
        if not self.int8:
            return tuned
        if self._int8_copy is None or self._int8_copy[0] is not tuned:
            int8_model = copy.deepcopy(tuned.model).float().cpu()
            quantise(int8_model.encoder)
            self._int8_copy = tuned, replace(tuned, model=int8_model)
        return self._int8_copy[1]

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float32[np.ndarray, "texts dim"]:
        """Compute sentence vectors, float32 (num_texts, dim).

        Args:
            texts: any number; a text longer than the model's positions is cut.
            lang: language of the texts, for models with language embeddings.
            layer: number of layers, 0 for the input embeddings, -1 for the last.
            pooling: ``mean`` or ``max`` over the sub-words without specials (see `text_ends`), or ``cls``, the state of
                ``<s>``. The vectors of the last layer are as a model of sentence-transformers declares them instead of
                ``mean``; see `vector_name`.
                ``joined``: the mean beside the vectors of the static encoder of ``model.features``.

        Raises:
            UserError: a layer that the model does not have, an unknown pooling, or ``joined`` without features.
        """
        if pooling not in POOLINGS:
            raise unknown("pooling", pooling, POOLINGS)
        if pooling == JOINED:
            static = self._static_features.embed(texts, lang, -1, "mean")
            return join_vectors(self.embed(texts, lang, layer, "mean"), static)
        model, langs, processor, head = self._load_embedder()
        check_layer(model, layer)
        own = head if (layer, pooling) == OWN_VECTORS else None
        max_tokens, num_prompt = model.encoder.cfg.max_positions, 0
        if own:
            texts = [own.prepare(text) for text in texts]
            max_tokens = min(max_tokens, own.settings.max_length or max_tokens)
            num_prompt = 1 + len(processor.encode(own.prepare("")))
        lang_index = model_weights.language_index(model, langs, lang, self.ckpt)
        before, behind = text_ends(self.ckpt, lang) if pooling != "cls" else ([BOS], [EOS])
        room = max_tokens - len(before) - len(behind)
        sequences = [[*before, *encode_pieces(processor, text)[:room], *behind] for text in texts]
        vectors: list[np.ndarray] = [np.empty(0)] * len(texts)
        with torch.inference_mode():
            for index, states in each_states(model, sequences, lang_index, layer):
                inner = states[len(before) : len(states) - len(behind)]
                vectors[index] = (own(states, num_prompt) if own else _pool(states, inner, pooling)).numpy()
        width = own.width if own else model.cfg.dim
        return np.stack(vectors) if vectors else np.zeros((0, width), dtype=np.float32)

    @cached_property
    def _static_features(self) -> StaticBackend:
        """Return the static encoder of ``model.features``; errors are those of `features_of`."""
        return StaticBackend(features_of(self.ckpt, "pooling=joined"), self.name, self.random_init)

    def _load_embedder(self) -> tuple[EncoderModel, list[str], Any, SentenceHead | None]:
        """Return the encoder, its languages, its tokenizer, and how it makes sentence vectors if it says so."""
        if self._embedder is None:
            torch.manual_seed(self.control_seed)
            model, langs = model_weights.load_body(self.ckpt, random_init=self.random_init)
            if self.int8:
                quantise(model.encoder)
            head = read_head(self.ckpt, model.cfg.dim, self.random_init)
            if head and not self.random_init:
                tell(
                    f"xling: sentence vectors of {self.ckpt} are as it declares them, {head.settings.name}, without "
                    f"layer= and pooling=; layer={len(model.encoder.layers)} gives the plain mean"
                )
            model = model.to(working_dtype(self.precision)).eval()
            self._embedder = model, langs, vocab.load_processor(self.ckpt), head
        return self._embedder

    def vector_name(self, layer: int, pooling: str) -> str:
        """Return how sentence vectors are pooled, for signatures: ``pooling``, or what the model itself declares."""
        own = read_settings(self.ckpt) if (layer, pooling) == OWN_VECTORS else None
        if pooling in ("mean", "max") and has_sources(self.ckpt):
            return f"{pooling} of sources"
        return own.name if own else pooling


def join_vectors(
    vectors: Float[np.ndarray, "texts dim"], static: Float[np.ndarray, "texts static_dim"]
) -> Float32[np.ndarray, "texts both"]:
    """Return vectors whose cosines are means of the cosines of two, weighted by `STATIC_SHARE`."""
    shares = ((1 - STATIC_SHARE, vectors), (STATIC_SHARE, static))
    joined = [
        np.sqrt(share) * each / np.linalg.norm(each, axis=1, keepdims=True).clip(1e-6)
        for share, each in shares
    ]
    return np.concatenate(joined, 1).astype(np.float32)


def check_layer(model: EncoderModel, layer: int) -> None:
    """Raise UserError for a layer that a model does not have; -1 is the last, 0 the input embeddings."""
    num_layers = len(model.encoder.layers)
    if not isinstance(layer, int) or not -1 <= layer <= num_layers:
        raise UserError(f"layer={layer}", f"-1 to {num_layers}", f"the model has {num_layers} layers")


def each_states(
    model: EncoderModel, sequences: Sequence[list[int]], lang: int, layer: int
) -> Iterator[tuple[int, Float32[torch.Tensor, "_ dim"]]]:
    """Yield the number of each sequence and its states after a layer, float32 (length, D), as batches give them."""
    for batch in tune.batches_by_tokens([len(each) for each in sequences], BATCH_TOKENS):
        sample = pack([sequence(sequences[i], lang, id=np.array([i])) for i in batch])
        hidden = model.encoder(**sample["net_input"], layer=None if layer == -1 else layer).float()
        lengths = sequence_lengths(sample["net_input"]["runs"])
        yield from zip(sample["id"].tolist(), hidden.split(lengths), strict=True)


def text_ends(ckpt: Path, lang: str) -> tuple[list[int], list[int]]:
    """Return the specials before and behind a text: ``<s>`` and ``</s>``, or those of the sources of its decoder.

    T5 reads ``x </s>``, mBART ``x </s> [lang]``, M2M-100 ``[lang] x </s>``. A text in a language without a token is
    read without one, and a line says so.
    """
    if not has_sources(ckpt):
        return [BOS], [EOS]
    content = model_folder.read(ckpt, SEQ2SEQ)
    shape, langs = model_folder.shape_of(content), tuple(content["langs"])
    symbols = Symbols(model_weights.mask_of(ckpt), langs, 0, shape.source_lang, shape.lang_first)
    name = languages.find(lang, langs)
    if name is None and symbols.source_lang:
        tell(f"xling: {ckpt} has no token for {lang}: its texts are read without one")
        return [], [EOS]
    ends = symbols.with_lang(np.array([EOS]), langs.index(name) if name else 0).tolist()
    return ends[: ends.index(EOS)], ends[ends.index(EOS) :]


def has_sources(ckpt: Path) -> bool:
    """Return whether the encoder of a published model was trained on sources of a decoder, which have no ``<s>``."""
    path = ckpt / model_folder.MODEL_FILE
    return path.is_file() and bool(model_folder.read(ckpt, *model_folder.OURS, FOREIGN)["format"] == SEQ2SEQ)


def _pool(states: torch.Tensor, inner: torch.Tensor, pooling: str) -> torch.Tensor:
    """Pool (length, D) -> (D,); the specials at both ends only count for ``cls``, unless there is nothing else."""
    if pooling == "cls":
        return states[0]
    inner = inner if len(inner) else states
    return inner.mean(0) if pooling == "mean" else inner.max(0).values


def _task_of(suite: TaskShape) -> Task:
    """Return the task that a model is fine-tuned on for a suite.

    Raises:
        UserError: its rows are answered without fine-tuning.
    """
    if not suite.task:
        raise UserError(
            f"nothing can be fine-tuned on the rows of {suite.name}",
            f"suites of these tasks: {', '.join(TASKS)}",
            "see xling eval list",
        )
    return TASKS[suite.task]


def trained_system(
    checkpoint: Path, on_update: tune.OnUpdate, saved_states: SavedStates, joined: bool = False
) -> Any:
    """Return the system that `xling finetune` trains."""
    if is_static_encoder(checkpoint):
        return StaticBackend(checkpoint, "pretrained", trains_on=True)
    encoder = EncoderBackend(
        checkpoint, "pretrained", False, None, "fp32", False, on_update, saved_states, True
    )
    return _join(encoder, "joined=true") if joined else encoder


def load_tuned(checkpoint: Path, head: str = "") -> Any:
    """Return a model of `xling finetune`, which labels texts; errors as those of `tune.load_tuned`."""
    if is_joined(checkpoint):
        return load(f"{JOINED_MODULE}:ready_system")(checkpoint, "tuned").tuned()
    return (
        StaticBackend(checkpoint, "tuned").tuned()
        if is_static_encoder(checkpoint)
        else tune.load_tuned(checkpoint, head=head)
    )


def pretrained_system(cfg: Any) -> Any:
    """Create the system ``pretrained`` of an evaluation."""
    if cfg.checkpoint and is_joined(Path(cfg.checkpoint)):
        return load(f"{JOINED_MODULE}:ready_system")(Path(cfg.checkpoint), "pretrained")
    return _backend(cfg, "pretrained", random_init=False)


def joined_system(cfg: Any) -> Any:
    """Create the system ``joined`` of an evaluation; errors are those of `features_of`."""
    return _join(_backend(cfg, JOINED, random_init=False), "systems=joined")


def _join(encoder: Any, setting: str) -> Any:
    """Return an encoder with ``model.features`` and the static encoder of its features as one system."""
    static = StaticBackend(features_of(encoder.ckpt, setting), encoder.name)
    return load(f"{JOINED_MODULE}:JoinedBackend")(encoder, static)


def random_control(cfg: Any) -> EncoderBackend | StaticBackend:
    """Create the control ``random``: the same shape and vocabulary with fresh weights."""
    return _backend(cfg, "random", random_init=True)


def _backend(cfg: Any, name: str, random_init: bool) -> EncoderBackend | StaticBackend:
    if cfg.checkpoint is None:
        raise UserError("no checkpoint is given", "a directory made by `xling pretrain`", "checkpoint=DIR")
    if is_static_encoder(path := Path(cfg.checkpoint)):
        return StaticBackend(path, name, random_init)
    if cfg.int8 and cfg.precision != "fp32":
        raise UserError(f"int8=true and precision={cfg.precision}", "one of them", "leave out precision=")
    search = search_settings(cfg.search)
    return EncoderBackend(path, name, random_init, search, cfg.precision, cfg.int8)
