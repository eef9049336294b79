"""``xling export hf|fairseq``: a published model as a directory that others load without our code."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from xling.core import manifest
from xling.core.errors import UserError
from xling.hub import card, layouts, tokenizer
from xling.hub.config import ExportConfig
from xling.models import checkpoint
from xling.models.encoder import PAD, EncoderConfig
from xling.transfer import tune

BOS, EOS = 0, 2


def run_hf(cfg: ExportConfig) -> manifest.Manifest:
    """Write what `transformers` loads: config.json, model.safetensors, a fast tokenizer and the model card.

    A pre-trained model becomes an ``XLMRobertaForMaskedLM``; one fine-tuned on texts or pairs an
    ``XLMRobertaForSequenceClassification``, one on words an ``XLMRobertaForTokenClassification``.

    Raises:
        UserError: the model has a part that these classes have not, or there is no model.
    """
    inputs = [cfg.checkpoint, *cfg.scores]
    if done := manifest.up_to_date(cfg.out, "export hf", cfg, inputs):
        return done
    shape, state, facts = _read(cfg.checkpoint)
    weights = layouts.outwards(state, layouts.XLMR)
    settings = _config(shape, len(weights[f"{layouts.XLMR.tokens}.weight"])) | facts
    if "classifier.weight" in state:
        weights |= _classifier(state, tagging=not any(k.startswith("dense.") for k in state))
    fast = tokenizer.build(cfg.checkpoint / "spm.model")
    if fast.get_vocab_size() != settings["vocab_size"]:
        raise UserError(
            f"{cfg.checkpoint} has {settings['vocab_size']} embeddings and a vocabulary of "
            f"{fast.get_vocab_size()}",
            "a model with one row for each piece",
        )
    with manifest.publish(cfg.out, "export hf", cfg, inputs) as made:
        save_file(weights, made.path / "model.safetensors", metadata={"format": "pt"})
        (made.path / "config.json").write_text(json.dumps(settings, indent=1, ensure_ascii=False) + "\n")
        tokenizer.save(fast, made.path, shape.max_positions)
        shutil.copy(cfg.checkpoint / "spm.model", made.path / "sentencepiece.bpe.model")
        text = card.write(cfg.checkpoint, settings, cfg.scores)
        (made.path / "README.md").write_text(text, encoding="utf-8")
        made.counts |= {"class": settings["architectures"][0], "parameters": _count(weights)}
    return manifest.read(cfg.out)


def run_fairseq(cfg: ExportConfig) -> manifest.Manifest:
    """Write ``model.pt`` and ``dict.txt`` as stock fairseq's ``RobertaModel.from_pretrained`` reads them.

    Raises:
        UserError: the model has a part that RoBERTa has not, or there is no pre-trained model.
    """
    if done := manifest.up_to_date(cfg.out, "export fairseq", cfg, [cfg.checkpoint]):
        return done
    shape, state, _ = _read(cfg.checkpoint)
    if "classifier.weight" in state:
        raise UserError(f"{cfg.checkpoint} is fine-tuned", "a directory of `xling pretrain`", "export hf it")
    weights = layouts.outwards(state, layouts.FAIRSEQ)
    weights["encoder.lm_head.weight"] = weights[f"{layouts.FAIRSEQ.tokens}.weight"]
    with manifest.publish(cfg.out, "export fairseq", cfg, [cfg.checkpoint]) as made:
        torch.save(_fairseq_state(shape, weights), made.path / "model.pt")
        shutil.copy(cfg.checkpoint / "dict.txt", made.path / "dict.txt")
        shutil.copy(cfg.checkpoint / "spm.model", made.path / "sentencepiece.bpe.model")
        made.counts |= {"class": "RobertaModel", "parameters": _count(weights)}
    return manifest.read(cfg.out)


def _read(directory: Path) -> tuple[EncoderConfig, dict[str, Tensor], dict[str, Any]]:
    """Shape, weights and what config.json says of the task.

    Raises:
        UserError: no model, or one that XLM-R's classes cannot express.
    """
    facts: dict[str, Any]
    if (directory / tune.TASK_FILE).is_file():
        tuned = tune.load(directory)
        model, shape, state = tuned.model, tuned.model.encoder.cfg, tuned.model.state_dict()
        names = dict(enumerate(model.labels))
        facts = {
            "architectures": [
                "XLMRobertaForTokenClassification"
                if model.kind == "tag"
                else "XLMRobertaForSequenceClassification"
            ],
            "id2label": {str(k): v for k, v in names.items()},
            "label2id": {v: k for k, v in names.items()},
        }
        odd = ["the match features of pairs (fit.pair_features=match)"] if model.features != "cls" else []
    else:
        loaded, _ = checkpoint.load_model(directory)
        shape, state = loaded.cfg, loaded.state_dict()
        facts, odd = {"architectures": ["XLMRobertaForMaskedLM"]}, []
    if shape.pre_norm:
        odd.append("layer norms before the blocks (model.pre_norm)")
    if shape.lang_embeddings:
        odd.append("language embeddings (model.lang_embeddings)")
    if shape.lang_adapter or shape.task_adapter or shape.invertible:
        odd.append("adapters (model.lang_adapter, model.invertible, fit.task_adapter)")
    if odd:
        raise UserError(
            f"{directory} has {' and '.join(odd)}, which XLM-R's classes cannot express",
            "a model without",
            "train one without, or keep using it here",
        )
    return shape, state, facts


def _config(shape: EncoderConfig, vocab_size: int) -> dict[str, Any]:
    return {
        "model_type": "xlm-roberta",
        "vocab_size": vocab_size,
        "hidden_size": shape.dim,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.ffn_dim,
        "hidden_act": "gelu",
        "hidden_dropout_prob": shape.dropout or 0.1,
        "attention_probs_dropout_prob": shape.attention_dropout,
        "max_position_embeddings": shape.max_positions + layouts.XLMR.first_position,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "initializer_range": 0.02,
        "position_embedding_type": "absolute",
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def _classifier(state: dict[str, Tensor], tagging: bool) -> dict[str, Tensor]:
    """The head on top under the names of `transformers`."""
    names = {"classifier": "classifier"} if tagging else {"dense": "classifier.dense"}
    if not tagging:
        names["classifier"] = "classifier.out_proj"
    return {
        f"{there}.{kind}": state[f"{here}.{kind}"].detach().float().clone()
        for here, there in names.items()
        for kind in ("weight", "bias")
    }


def _fairseq_state(shape: EncoderConfig, weights: dict[str, Tensor]) -> dict[str, Any]:
    """A checkpoint of fairseq: its settings as the ``Namespace`` that released models have, no optimiser."""
    args = Namespace(
        arch="roberta",
        task="masked_lm",
        criterion="masked_lm",
        data=".",
        seed=1,
        tokens_per_sample=shape.max_positions,
        max_positions=shape.max_positions,
        sample_break_mode="none",
        encoder_layers=shape.layers,
        encoder_embed_dim=shape.dim,
        encoder_ffn_embed_dim=shape.ffn_dim,
        encoder_attention_heads=shape.heads,
        dropout=shape.dropout,
        attention_dropout=shape.attention_dropout,
        activation_dropout=0.0,
        activation_fn="gelu",
        pooler_activation_fn="tanh",
        pooler_dropout=0.0,
    )
    history = {
        "criterion_name": "MaskedLmLoss",
        "optimizer_name": "FairseqAdam",
        "lr_scheduler_state": {},
        "num_updates": 0,
    }
    return {
        "args": args,
        "model": weights,
        "optimizer_history": [history],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    }


def _count(weights: dict[str, Tensor]) -> int:
    return sum({t.data_ptr(): t.numel() for t in weights.values()}.values())
