"""Replacement of a fine-tuned model's embeddings or language adapters by those of another language: ``xling swap``.

Embeddings and vocabulary: the last of the four steps of Artetxe et al. 2020, section 2. A body is pre-trained
in L1. With the body frozen (``freeze=body init=``), embeddings of L2 are learned over their own vocabulary. The
body is fine-tuned in L1 with its embeddings frozen (``fit.freeze_embeddings``). Here the L2 embeddings replace
them.

Adapters: MAD-X (Pfeiffer et al. 2020), section 3.2. With a frozen body, adapters of L1 and of L2 are learned,
then a task adapter on top of those of L1 (``fit.task_adapter``). Here those of L2 replace those of L1.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.models.files import model_weights
from xling.models.files.model_folder import TASK, TASK_FILE
from xling.models.network import adapters
from xling.models.network.encoder import Encoder
from xling.text import vocab
from xling.text.vocab import vocab_digest
from xling.transfer import checks, tune
from xling.transfer.settings import SwapConfig

STAGE = "swap"
ROUNDING = 2**-7  # relative error of a weight that was rounded to bfloat16


def run(cfg: SwapConfig) -> manifest.Manifest:
    """Put another language adapter into a model and publish the result.

    Raises:
        UserError: a model is missing, the widths differ, or there are language embeddings, which would not
            fit; or the adapters have another shape or were learned in another body or over another
            vocabulary.
    """
    checks.swap(cfg)
    task, out = Path(cfg.task), Path(cfg.out)
    sources = [Path(name) for name in (cfg.embeddings, cfg.adapters) if name]
    inputs = list(dict.fromkeys([task, *sources]))
    if done := manifest.up_to_date(out, STAGE, cfg, inputs):
        return done
    tuned = tune.load(task)
    if tuned.model.encoder.langs is not None:
        raise UserError(f"{task} has language embeddings", "a model without model.lang_embeddings")
    vocabulary, langs = task, model_weights.read_published(task / TASK_FILE, TASK)["langs"]
    if cfg.embeddings:
        vocabulary = Path(cfg.embeddings)
        langs = _take_embeddings(tuned.model.encoder, vocabulary, task)
        tuned = replace(tuned, processor=vocab.load_processor(vocabulary), lang=0, langs=tuple(langs))
    if cfg.adapters:
        langs = _take_adapters(tuned.model.encoder, Path(cfg.adapters), vocabulary, task)
    with manifest.publish(out, STAGE, cfg, inputs) as publication:
        tune.save(tuned, publication.path, vocabulary, langs)
        publication.counts |= {"langs": langs, "vocabulary": tuned.model.encoder.tokens.num_embeddings}
    return manifest.read(out)


def _take_embeddings(encoder: Encoder, source: Path, task: Path) -> list[str]:
    other, langs = model_weights.load_model(source)
    weight = other.encoder.tokens.weight.detach()
    if weight.shape[1] != encoder.cfg.dim:
        raise UserError(
            f"{source} has embeddings of {weight.shape[1]} numbers", f"{encoder.cfg.dim} as in {task}"
        )
    encoder.tokens = nn.Embedding.from_pretrained(weight.clone(), padding_idx=encoder.tokens.padding_idx)
    return langs


def _take_adapters(encoder: Encoder, source: Path, vocabulary: Path, task: Path) -> list[str]:
    """Move the language adapters of ``source`` into ``encoder``, if both were trained with the same body."""
    other, langs = model_weights.load_model(source)
    theirs, ours = other.encoder, encoder
    wanted, present = ({k: v.shape for k, v in _adapters_of(e).items()} for e in (ours, theirs))
    if not wanted:
        raise UserError(
            f"{task} has no language adapter", fix="fine-tune a checkpoint with model.lang_adapter"
        )
    if wanted != present:
        raise UserError(
            f"{source} has {_said(theirs.cfg)}", f"{_said(ours.cfg)} as in {task}", "train both alike"
        )
    if vocab_digest(source) != vocab_digest(vocabulary):
        raise UserError(
            f"the adapters of {source} were learned over another vocabulary than that of {vocabulary}",
            fix=f"use its embeddings as well: embeddings={source}",
        )
    own, their = (e.state_dict() for e in (ours, theirs))
    body = {name for name in own.keys() & their.keys() if not adapters.is_adapter(name)}
    differing = [
        name
        for name in sorted(body)
        if own[name].shape != their[name].shape or not torch.allclose(own[name], their[name], ROUNDING, 0)
    ]
    if differing:
        raise UserError(
            f"{source} has adapters that were trained with other frozen weights than {task}: {differing[0]} differs",
            "adapters that were trained with the same frozen weights",
            "use freeze=body init= of one checkpoint for both, and fit.task_adapter for the task",
        )
    adapters.move(theirs, ours)
    return langs


def _adapters_of(encoder: Encoder) -> dict[str, Any]:
    """Return the weights of the language adapters, including invertible ones."""
    task = f".adapters.{adapters.TASK}."
    return {k: v for k, v in encoder.state_dict().items() if adapters.is_adapter(k) and task not in k}


def _said(cfg: Any) -> str:
    width = f"language adapters of width {cfg.lang_adapter}" if cfg.lang_adapter else "no language adapter"
    return f"{cfg.layers} layers of {cfg.dim}, {width}, {'an' if cfg.invertible else 'no'} invertible one"
