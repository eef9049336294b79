"""Replacement of a fine-tuned model's embeddings or language adapters by those of another language: ``xling swap``.

Embeddings and vocabulary: the last of the four steps of Artetxe et al. 2020, section 2. A body is pre-trained
in L1. With the body frozen (``freeze=body init=``), embeddings of L2 are learned over their own vocabulary. The
body is fine-tuned in L1 with its embeddings frozen (``fit.freeze_embeddings``). Here the L2 embeddings replace
them.

Adapters: MAD-X (Pfeiffer et al. 2020), section 3.2. With a frozen body, adapters of L1 and of L2 are learned,
then a task adapter on top of those of L1 (``fit.task_adapter``). Here those of L2 replace those of L1.
"""

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
from xling.text.files.shards import vocab_digest
from xling.transfer import checks, tune
from xling.transfer.settings import SwapConfig

STAGE = "swap"
BFLOAT16_ROUNDING = 2**-7  # relative error of a weight that was rounded to bfloat16


def run(cfg: SwapConfig) -> manifest.Manifest:
    """Put another language adapter into a model and publish the result.

    Raises:
        UserError: a model is missing, the widths differ, or there are language embeddings, which would not
            fit; or the adapters have another shape or were learned in another body or over another
            vocabulary.
    """
    checks.check_swap(cfg)
    task, out = Path(cfg.task), Path(cfg.out)
    sources = [Path(name) for name in (cfg.embeddings, cfg.adapters) if name]
    inputs = list(dict.fromkeys([task, *sources]))
    if published := manifest.up_to_date(out, STAGE, cfg, inputs):
        return published
    tuned = tune.load_tuned(task)
    if tuned.model.encoder.langs is not None:
        raise UserError(f"{task} has language embeddings", "a model without model.lang_embeddings")
    vocabulary, langs = task, model_weights.read_published(task / TASK_FILE, TASK)["langs"]
    if cfg.embeddings:
        vocabulary = Path(cfg.embeddings)
        langs = _replace_embeddings(tuned.model.encoder, vocabulary, task)
        tuned = replace(tuned, processor=vocab.load_processor(vocabulary), lang=0, langs=tuple(langs))
    if cfg.adapters:
        langs = _replace_adapters(tuned.model.encoder, Path(cfg.adapters), vocabulary, task)
    with manifest.publish(out, STAGE, cfg, inputs) as publication:
        tune.save_tuned(tuned, publication.path, vocabulary, langs)
        publication.counts |= {"langs": langs, "vocabulary": tuned.model.encoder.tokens.num_embeddings}
    return manifest.read(out)


def _replace_embeddings(encoder: Encoder, source: Path, task: Path) -> list[str]:
    source_model, langs = model_weights.load_model(source)
    weight = source_model.encoder.tokens.weight.detach()
    if weight.shape[1] != encoder.cfg.dim:
        raise UserError(
            f"{source} has embeddings of {weight.shape[1]} numbers", f"{encoder.cfg.dim} as in {task}"
        )
    encoder.tokens = nn.Embedding.from_pretrained(weight.clone(), padding_idx=encoder.tokens.padding_idx)
    return langs


def _replace_adapters(encoder: Encoder, source: Path, vocabulary: Path, task: Path) -> list[str]:
    """Move the language adapters of ``source`` into ``encoder``, if both were trained with the same body."""
    source_model, langs = model_weights.load_model(source)
    source_encoder, task_encoder = source_model.encoder, encoder
    expected, present = (
        {k: v.shape for k, v in _adapter_weights(e).items()} for e in (task_encoder, source_encoder)
    )
    if not expected:
        raise UserError(
            f"{task} has no language adapter", fix="fine-tune a checkpoint with model.lang_adapter"
        )
    if expected != present:
        raise UserError(
            f"{source} has {_describe_shape(source_encoder.cfg)}",
            f"{_describe_shape(task_encoder.cfg)} as in {task}",
            "train both alike",
        )
    if vocab_digest(source) != vocab_digest(vocabulary):
        raise UserError(
            f"the adapters of {source} were learned over another vocabulary than that of {vocabulary}",
            fix=f"use its embeddings as well: embeddings={source}",
        )
    task_weights, source_weights = (e.state_dict() for e in (task_encoder, source_encoder))
    body_names = {
        name for name in task_weights.keys() & source_weights.keys() if not adapters.is_adapter(name)
    }
    differing = [
        name
        for name in sorted(body_names)
        if task_weights[name].shape != source_weights[name].shape
        or not torch.allclose(task_weights[name], source_weights[name], BFLOAT16_ROUNDING, 0)
    ]
    if differing:
        raise UserError(
            f"{source} has adapters that were trained with other frozen weights than {task}: {differing[0]} differs",
            "adapters that were trained with the same frozen weights",
            "use freeze=body init= of one checkpoint for both, and fit.task_adapter for the task",
        )
    adapters.move_language_adapters(source_encoder, task_encoder)
    return langs


def _adapter_weights(encoder: Encoder) -> dict[str, Any]:
    task = f".adapters.{adapters.TASK_ADAPTER}."
    return {k: v for k, v in encoder.state_dict().items() if adapters.is_adapter(k) and task not in k}


def _describe_shape(cfg: Any) -> str:
    width = f"language adapters of width {cfg.lang_adapter}" if cfg.lang_adapter else "no language adapter"
    return f"{cfg.layers} layers of {cfg.dim}, {width}, {'an' if cfg.invertible else 'no'} invertible one"
