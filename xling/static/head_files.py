"""Files of a fitted head beside a copy of its encoder: ``task.json`` and ``task.safetensors``.

A head is a dataclass, perhaps of others. Its tensors have the dotted names of their fields; ``task.json`` has all else:
the task, the labels, the digests of the other files, and the head's fields.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

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
from xling.static.tagger import IntentAndSlotHeads, Tagger, TrainedTagger
from xling.static.vectors import StaticEncoder

FORMAT, FACTS_FILE = "xling-static-task-1", "task.json"
CLASS = "class"
_CLASSES: dict[str, Any] = {
    each.__name__: each for each in (Classifier, NeighbourClassifier, TrainedTagger, IntentAndSlotHeads)
}


def save_task(folder: Path, ckpt: Path, task: str, labels: Sequence[str], head: Any) -> None:
    """Write the head of a task, its labels and a copy of its encoder, ``ckpt``, into ``folder``."""
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        shutil.copyfile(ckpt / name, folder / name)
    tensors: dict[str, Tensor] = {}
    facts = {"format": FORMAT, "task": task, "labels": labels, "head": _facts_of(head, "head", tensors)}
    save_file(tensors, folder / STATIC_TASK_FILE)
    text = json.dumps(facts | {"digests": _digests(folder)}, indent=1)
    (folder / FACTS_FILE).write_text(f"{text}\n", encoding="utf-8")


def read_task(folder: Path, encoder: StaticEncoder) -> tuple[str, tuple[str, ...], Any]:
    """Return the task of a folder, its labels and its head over its encoder.

    Raises:
        UserError: a file is missing or damaged, or they are of different models.
    """
    try:
        facts = json.loads((folder / FACTS_FILE).read_text(encoding="utf-8"))
        if facts["format"] != FORMAT or facts["digests"] != _digests(folder):
            raise ValueError("its files are of another format, or not of one model")
        tensors = load_file(folder / STATIC_TASK_FILE)
        if not all(torch.isfinite(tensor).all() for tensor in tensors.values()):
            raise ValueError("its head has values that are not finite (NaN or infinite)")
        return str(facts["task"]), tuple(facts["labels"]), _head_of(facts["head"], "head", tensors, encoder)
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RuntimeError,
        SafetensorError,
    ) as error:
        raise UserError(
            f"{folder} is not a fine-tuned static encoder: {type(error).__name__} {error}",
            "an output of xling finetune",
            "copy it again, or run xling finetune again",
        ) from None


def _digests(folder: Path) -> dict[str, str]:
    return {name: digests.of_file(folder / name) for name in (CONFIG_FILE, WEIGHTS_FILE, STATIC_TASK_FILE)}


def _facts_of(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Return what JSON holds of a part of a head, and add its tensors."""
    if isinstance(value, Tensor):
        tensors[name] = value.contiguous()
    elif isinstance(value, nn.Module):
        tensors.update({f"{name}.{key}": weight for key, weight in value.state_dict().items()})
    elif isinstance(value, TagLexicon):
        tensors[name] = torch.from_numpy(value.counts)
        return {"labels": value.labels, "spellings": list(value.row_of_key)}
    elif isinstance(value, StaticEncoder):
        return {"sketch": bool(value.cfg.sketch)}
    elif is_dataclass(value):
        parts = {
            f.name: _facts_of(getattr(value, f.name), f"{name}.{f.name}", tensors) for f in fields(value)
        }
        return {CLASS: type(value).__name__, **parts}
    else:
        return value
    return None


def _head_of(
    facts: Mapping[str, Any], name: str, tensors: Mapping[str, Tensor], encoder: StaticEncoder
) -> Any:
    """Return a head from what `_facts_of` returned and added."""
    cls, values = _CLASSES[facts[CLASS]], dict[str, Any]()
    for field in (each.name for each in fields(cls)):
        value, place = facts[field], f"{name}.{field}"
        if field == "encoder":
            value = encoder if value["sketch"] else encoder.without_sketch()
        elif field == "lexicon":
            value = TagLexicon(value["labels"])
            value.restore(facts[field]["spellings"], tensors[place].numpy())
        elif field == "net":
            weights = {
                k.removeprefix(f"{place}."): v for k, v in tensors.items() if k.startswith(f"{place}.")
            }
            value = _fresh_net(values, weights)
            value.load_state_dict(weights)
            value.requires_grad_(False)
        elif isinstance(value, dict):
            value = _head_of(value, place, tensors, encoder)
        elif value is None:
            value = tensors[place]
        elif isinstance(value, list):
            value = tuple(tuple(each) if isinstance(each, list) else each for each in value)
        values[field] = value
    return cls(**values)


def _fresh_net(values: Mapping[str, Any], weights: Mapping[str, Tensor]) -> nn.Module:
    """Return the network of a head, whose other fields come before it."""
    if "lexicon" in values:
        lexicon, encoder = values["lexicon"], values["encoder"]
        return Tagger(encoder.dim + encoder.cfg.sketch, lexicon.dim, lexicon.labels)
    num_features, num_labels = len(values["mean"]), len(values["labels"])
    is_linear = "weight" in weights
    return nn.Linear(num_features, num_labels) if is_linear else hidden_network(num_features, num_labels)
