"""Adapter of models with a decoder as systems under test: they translate, or learn from a suite to write texts.

A generation suite is learned in the source language and answered in every other, with the token of the
language at the decoder's start (Chi et al. 2020, XNLG, section 4). An ``answer`` beside the text is put
before it, separated by ``</s>``: when a source is too long, the text is cut and not the answer.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xling.array_types import Int
from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.core.output import manifest
from xling.core.progress import Progress
from xling.models.files import model_weights
from xling.models.generate.decode import EOS
from xling.models.generate.settings import Search
from xling.transfer.encode import LabelledRow
from xling.transfer.generation import finetune
from xling.transfer.settings import FitConfig
from xling.transfer.task import Task
from xling.transfer.translation.translate import Translator

Weights = dict[str, Tensor]


class TextGenerator:
    """The text-generating part of a system.

    Args:
        ckpt: directory with a model that has a decoder.
        search: search settings.
        random_init: use fresh weights, as a control.
    """

    def __init__(self, ckpt: Path, search: Search, random_init: bool = False) -> None:
        self.ckpt, self.search, self.random_init = ckpt, search, random_init
        self._translator: Translator | None = None
        self._has_published_weights = True

    def fit(self, name: str, train: Sequence[LabelledRow], lang: str, cfg: Any) -> list[Weights]:
        """Return the weights after each epoch; a model of ``xling finetune generate`` is not trained again.

        Args:
            name: name of suite and system, for the progress bar.
            train: training rows.
            lang: their language.
            cfg: with the settings ``seed``, ``lr``, ``epochs``, ``batch_rows``, ``max_length``,
                ``freeze`` and ``precision``.

        Raises:
            UserError: no decoder, no rows, a language that the model was not trained on, or a loss that is
                not finite.
        """
        if manifest.read(self.ckpt).stage == finetune.STAGE and not self.random_init:
            return [copy.deepcopy(self._published().model.state_dict())]
        translator = self._load(cfg.seed, cfg.precision)
        self._translator, self._has_published_weights = translator, False
        translator.max_pieces = min(translator.max_pieces, cfg.max_length - 2)
        examples = [
            finetune.make_example(translator, encode_source(translator, row), row.label, lang)
            for row in train
        ]
        fit_settings = FitConfig(lr=cfg.lr, epochs=cfg.epochs, batch_rows=cfg.batch_rows)
        epoch_weights: list[Weights] = []

        def keep() -> None:
            epoch_weights.append(copy.deepcopy(translator.model.state_dict()))

        finetune.fine_tune(translator, examples, fit_settings, cfg.freeze, cfg.seed, name, keep)
        return epoch_weights

    def predict(
        self,
        weights: Weights | None,
        task: Task,
        rows: Sequence[LabelledRow],
        lang: str,
        written: str = "",
    ) -> list[str]:
        """Write one text for each row.

        Args:
            weights: weights from `fit`; None for the model unchanged.
            task: task with generated texts.
            rows: with a ``text``, and optionally an ``answer``.
            lang: language of the texts, or the pair ``src-tgt``.
            written: language of the output, if it is another than ``lang``.

        Raises:
            UserError: no decoder, or a language that the model was not trained on.
        """
        if weights is None or self._translator is None:
            translator = self._published()
        else:
            translator = self._translator
        if weights is not None:
            translator.model.load_state_dict(weights)
            self._has_published_weights = False
        src, tgt = split_pair(lang) if task.translates else (lang, written or lang)
        for code in (src, tgt):
            translator.lang_index(code)
        if task.translates:
            sources = [translator.split_text(row.fields["text"]) for row in rows]
        else:
            sources = [
                [source] if len(source) else [] for row in rows for source in [encode_source(translator, row)]
            ]
        with Progress(f"write {lang}", len(rows), "rows") as progress:
            return translator.translate_parts(sources, src, tgt, lambda num, _: progress.update(num))

    @property
    def translator(self) -> Translator:
        """The model that was trained last, or as it was published."""
        return self._translator or self._published()

    def _published(self) -> Translator:
        """Load the model with the weights it was published with, or with fresh ones for the control."""
        if self._translator is None or not self._has_published_weights:
            self._translator, self._has_published_weights = self._load(), True
        return self._translator

    def _load(self, seed: int = 1, precision: str = "auto") -> Translator:
        check_decoder(self.ckpt)
        torch.manual_seed(seed)
        return Translator(self.ckpt, self.search, precision=precision, random_init=self.random_init)


def check_decoder(ckpt: Path) -> None:
    """Reject a model without a decoder.

    Raises:
        UserError: it has no decoder.
    """
    if not (ckpt / "model.pt").is_file() or not model_weights.has_decoder(ckpt):
        raise UserError(
            f"{ckpt} is an encoder, which cannot write texts",
            "a model with a decoder: of `xling finetune mt`, or pre-trained with dae, mbart, mass, ...",
            "name other suites, or give such a checkpoint",
        )


def search_settings(settings: Any) -> Search:
    """Return the search settings of an evaluation."""
    return Search(**{f.name: getattr(settings, f.name) for f in fields(settings)})


def load_translator(ckpt: Path, settings: Any) -> Translator:
    """Load a model that translates, with the search settings of an evaluation.

    Raises:
        UserError: it has no decoder.
    """
    check_decoder(ckpt)
    return Translator(ckpt, search_settings(settings), precision="auto")


def encode_source(translator: Translator, row: LabelledRow) -> Int[np.ndarray, " length"]:
    """Return the pieces of a row's source, int64 (length,), cut to the model's maximum."""
    text = translator.truncated_pieces(row.fields["text"])
    answer = row.fields.get("answer", "")
    if not answer:
        return text
    answer_pieces = translator.truncated_pieces(answer)[: translator.max_pieces // 2]
    return np.concatenate([answer_pieces, [EOS], text])[: translator.max_pieces]
