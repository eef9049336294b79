"""Files of fitted heads beside a copy of their encoder: ``task.json`` and ``task.safetensors``.

``task.json`` has the task, the digests of encoder and weights, and for each head what is no tensor. A task of intents
and slots has two heads, the others have one. The names of a head's weights begin with that of the head.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from xling.core.commands.inputs import STATIC_TASK_FILE
from xling.core.errors import UserError
from xling.core.output import digests
from xling.static.encoder_files import CONFIG_FILE, WEIGHTS_FILE
from xling.static.heads import Classifier, NeighbourClassifier, hidden_network
from xling.static.tag_lexicon import TagLexicon
from xling.static.tagger import Tagger, TrainedTagger
from xling.static.vectors import StaticEncoder

FORMAT, FACTS_FILE = "xling-static-task-1", "task.json"
NET = "net."
"""Prefix of the weights of a network beside the other tensors of a head."""

FittedHead: TypeAlias = Classifier | NeighbourClassifier | TrainedTagger


def save_task(folder: Path, ckpt: Path, task: str, heads: Mapping[str, FittedHead]) -> None:
    """Write heads and a copy of their encoder, ``ckpt``, into ``folder``."""
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        shutil.copyfile(ckpt / name, folder / name)
    tensors = {
        f"{name}.{key}": tensor.contiguous()
        for name, head in heads.items()
        for key, tensor in _tensors_of(head).items()
    }
    save_file(tensors, folder / STATIC_TASK_FILE)
    facts = {
        "format": FORMAT,
        "task": task,
        "digests": _digests(folder),
        "heads": {name: _facts_of(head) for name, head in heads.items()},
    }
    (folder / FACTS_FILE).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def read_task(folder: Path, encoder: StaticEncoder) -> tuple[str, dict[str, FittedHead]]:
    """Return the task of a folder and its heads by name, over its encoder.

    Raises:
        UserError: a file is missing or damaged, or they are of different models.
    """
    try:
        facts = json.loads((folder / FACTS_FILE).read_text(encoding="utf-8"))
        if facts["format"] != FORMAT:
            raise ValueError(f"format {facts['format']}")
        if facts["digests"] != _digests(folder):
            raise ValueError("its encoder or its weights are not those that its head was saved with")
        tensors = load_file(folder / STATIC_TASK_FILE)
        if not all(torch.isfinite(tensor).all() for tensor in tensors.values()):
            raise ValueError("its head has values that are not finite (NaN or infinite)")
        heads = {}
        for name, own in facts["heads"].items():
            prefix = f"{name}."
            weights = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            heads[name] = _head_of(own, weights, encoder)
        return str(facts["task"]), heads
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError, SafetensorError
    ) as error:  # fmt: skip
        raise UserError(
            f"{folder} is not a fine-tuned static encoder: {type(error).__name__} {error}",
            "an output of xling finetune",
            "copy it again, or run xling finetune again",
        ) from None


def _digests(folder: Path) -> dict[str, str]:
    return {name: digests.of_file(folder / name) for name in (CONFIG_FILE, WEIGHTS_FILE, STATIC_TASK_FILE)}


def _tensors_of(head: FittedHead) -> dict[str, Tensor]:
    if isinstance(head, NeighbourClassifier):
        return _tensors_of(head.classifier)
    net = {f"{NET}{key}": weight for key, weight in head.net.state_dict().items()}
    if isinstance(head, TrainedTagger):
        return net | {"counts": torch.from_numpy(head.lexicon.counts)}
    return net | {"mean": head.mean, "scale": head.scale}


def _facts_of(head: FittedHead) -> dict[str, Any]:
    if isinstance(head, TrainedTagger):
        return {
            "labels": head.net.labels,
            "is_iob2": head.is_iob2,
            "sketch": bool(head.encoder.cfg.sketch),
            "spellings": head.lexicon.spellings,
        }
    if isinstance(head, Classifier):
        return {"labels": head.labels}
    # Texts whose votes do not count are not kept.
    texts = {"texts": head.texts, "classes": head.classes, "shares": head.shares} if head.weight else {}
    return {"labels": head.labels, "weight": head.weight, **texts}


def _head_of(facts: Mapping[str, Any], tensors: Mapping[str, Tensor], encoder: StaticEncoder) -> FittedHead:
    """Return a head from what `_facts_of` and `_tensors_of` return."""
    labels = tuple(facts["labels"])
    weights = {key.removeprefix(NET): tensor for key, tensor in tensors.items() if key.startswith(NET)}
    if "spellings" in facts:
        encoder = encoder if facts["sketch"] else encoder.without_sketch()
        lexicon = TagLexicon.of_counts(labels, facts["spellings"], tensors["counts"].numpy())
        tagger = Tagger(encoder.dim + encoder.cfg.sketch, lexicon.dim, labels)
        tagger.load_state_dict(weights)
        return TrainedTagger(encoder, lexicon, tagger.requires_grad_(False), bool(facts["is_iob2"]))
    num_features = len(tensors["mean"])
    net = (
        nn.Linear(num_features, len(labels))
        if "weight" in weights
        else hidden_network(num_features, len(labels))
    )
    net.load_state_dict(weights)
    classifier = Classifier(labels, tensors["mean"], tensors["scale"], net.requires_grad_(False))
    if "weight" not in facts:
        return classifier
    shares = tuple(map(tuple, facts.get("shares", ())))
    texts, classes = tuple(facts.get("texts", ())), tuple(facts.get("classes", ()))
    if len(texts) != len(classes) or not {*classes} <= {*labels}:
        raise ValueError("its labelled texts and their classes do not go together")
    return NeighbourClassifier(encoder, classifier, texts, classes, float(facts["weight"]), shares)
