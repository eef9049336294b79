"""Checkpoints: atomic, with a checksum, the last good one taken; and published models without pickled code."""

from __future__ import annotations

import io
import json
import logging
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from corpora.vocab import vocab_digest
from xling.core import manifest
from xling.core.config import from_dict
from xling.core.errors import UserError
from xling.models.encoder import EncoderConfig, EncoderModel

logger = logging.getLogger(__name__)
ENCODER = "xling-encoder-1"


def save(trainer: Any, directory: Path, epoch_itr: Any, run_key: dict[str, Any], keep: int) -> None:
    """Write the trainer's whole state as ``update-<n>.pt`` with its SHA-256 beside it, and drop old ones.

    The checksum is written last: a file without one is not a checkpoint.
    """
    trainer.consolidate_optimizer()  # fairseq sets up a field there that state_dict reads
    state = trainer.state_dict()
    state["extra_state"] |= {
        "train_iterator": epoch_itr.state_dict(),
        "run_key": json.dumps(run_key, sort_keys=True),
    }
    path = directory / f"update-{trainer.get_num_updates():08d}.pt"
    buffer = io.BytesIO()
    torch.save(state, buffer)
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as handle:
        handle.write(buffer.getbuffer())
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path)
    manifest.write_atomic(path.with_suffix(".sha256"), manifest.sha256(path) + "\n")
    for old in sorted(directory.glob("update-*.sha256"))[:-keep]:
        old.unlink()
        old.with_suffix(".pt").unlink(missing_ok=True)


def resume(trainer: Any, directory: Path, run_key: dict[str, Any]) -> Any:
    """Load the newest good checkpoint, if any, and return the training iterator where it stood.

    Raises:
        UserError: the checkpoint was made with other settings or data.
    """
    for mark in sorted(directory.glob("update-*.sha256"), reverse=True):
        path = mark.with_suffix(".pt")
        if not path.is_file() or manifest.sha256(path) != mark.read_text().strip():
            logger.warning("%s is damaged; taking the checkpoint before it", path)
            continue
        # Mapped, not read: another shape of the model must not reach fairseq, which stops with a traceback.
        extra = torch.load(path, map_location="cpu", weights_only=True, mmap=True)["extra_state"]
        if extra["run_key"] != json.dumps(run_key, sort_keys=True):
            raise UserError(
                f"{path} was made with other settings or data",
                fix=f"give the old settings again, choose another out=, or delete {directory}",
            )
        position = trainer.load_checkpoint(str(path))["train_iterator"]
        epoch_itr = trainer.get_train_iterator(position["epoch"], load_dataset=True)
        epoch_itr.load_state_dict(position)
        trainer.lr_step(epoch_itr.epoch)
        return epoch_itr
    epoch_itr = trainer.get_train_iterator(1, load_dataset=True)
    trainer.lr_step(epoch_itr.epoch)
    return epoch_itr


def save_model(path: Path, model: EncoderModel, langs: list[str], vocab_dir: Path) -> None:
    """Write float32 weights with shape, languages and the vocabulary's digest; tensors and plain values only."""
    weights = {k: v for k, v in model.state_dict().items() if k.startswith(("encoder.", "lm_head."))}
    weights.pop("lm_head.weight", None)  # tied to the embeddings
    write_published(path, ENCODER, {"shape": shape_of(model.cfg), "langs": list(langs)}, weights, vocab_dir)


def shape_of(cfg: Any) -> dict[str, Any]:
    """The encoder's configuration as plain values."""
    plain = OmegaConf.to_container(cfg) if OmegaConf.is_config(cfg) else asdict(cfg)
    names = {f for f in EncoderConfig.__dataclass_fields__ if not f.startswith("_")}
    return {k: v for k, v in dict(plain).items() if k in names}  # type: ignore[arg-type]


def write_published(
    path: Path, kind: str, facts: dict[str, Any], weights: dict[str, Tensor], vocab_dir: Path
) -> None:
    """Write what `read_published` reads: ``kind``, plain ``facts``, float32 ``weights``, the vocabulary's digest."""
    state = {
        "format": kind,
        **facts,
        "vocab_digest": vocab_digest(vocab_dir),
        "weights": {k: v.detach().float().cpu() for k, v in weights.items()},
    }
    torch.save(state, path)


def read_published(path: Path, kind: str) -> dict[str, Any]:
    """The contents of a published model file; no code in it is run.

    Raises:
        UserError: no such file, a damaged or foreign one, or a vocabulary beside it that it was not trained with.
    """
    if not path.is_file():
        raise UserError(
            f"no checkpoint at {path.parent}", f"a directory with {path.name}", "run `xling pretrain` first"
        )
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(f"{path} is no checkpoint of ours: {str(error).splitlines()[0]}", kind) from None
    if not isinstance(state, dict) or state.get("format") != kind:
        raise UserError(
            f"{path} is no checkpoint of ours", kind, "make it with `xling pretrain` or `xling finetune`"
        )
    check_vocabulary(state["vocab_digest"], path.parent, path)
    return state


def load_model(
    directory: Path, dropout: float = 0.0, random_init: bool = False
) -> tuple[EncoderModel, list[str]]:
    """A published pre-trained model in float32 and its languages.

    Args:
        directory: what `xling pretrain` published.
        dropout: probability for further training.
        random_init: keep the fresh weights of torch's generator instead of the trained ones: the control.

    Raises:
        UserError: no model there, a damaged file, or a vocabulary that is not the one it was trained with.
    """
    path = directory / "model.pt"
    state = read_published(path, ENCODER)
    settings = {k: str(v) for k, v in state["shape"].items()} | {"dropout": str(dropout)}
    shape = from_dict(EncoderConfig, settings, str(path))
    vocab_size = state["weights"]["encoder.tokens.weight"].shape[0]
    model = EncoderModel(shape, vocab_size, len(state["langs"]) if shape.lang_embeddings else 0)
    if random_init:
        return model, state["langs"]
    missing, unexpected = model.load_state_dict(state["weights"], strict=False)
    assert set(missing) <= {"lm_head.weight"} and not unexpected, (
        f"missing {missing}, unexpected {unexpected}"
    )
    return model, state["langs"]


def start_from(
    model: EncoderModel, directory: Path, langs: list[str], data: Path, leave_embeddings: bool
) -> None:
    """Copy the weights of a published model into ``model``.

    Args:
        model: of the same shape.
        directory: what `xling pretrain` published.
        langs: languages of ``model``.
        data: directory with the vocabulary of ``model``.
        leave_embeddings: where the vocabularies differ, keep the model's own embeddings and output bias.

    Raises:
        UserError: no model there, another shape, other language embeddings, another vocabulary.
    """
    old, old_langs = load_model(directory)
    if vocab_digest(directory) != vocab_digest(data) and not leave_embeddings:
        check_vocabulary(vocab_digest(directory), data, directory)
    if model.encoder.langs is not None and old_langs != langs:
        raise UserError(
            f"init={directory} has language embeddings for {', '.join(old_langs)}",
            ", ".join(langs),
            "set langs=",
        )
    ours, theirs = model.state_dict(), old.state_dict()
    left = {"encoder.tokens.weight", "lm_head.weight", "lm_head.bias"} if leave_embeddings else set()
    for name in sorted(theirs.keys() - left):
        if name not in ours or ours[name].shape != theirs[name].shape:
            raise UserError(
                f"init={directory}: {name} is {tuple(theirs[name].shape)}",
                f"{tuple(ours[name].shape)}" if name in ours else "a model without it",
                "give the model.* settings of that run",
            )
    model.load_state_dict({k: v for k, v in theirs.items() if k not in left}, strict=False)


def check_vocabulary(expected: str, vocab_dir: Path, what: Path) -> None:
    """Refuse weights and a vocabulary that do not belong together.

    Raises:
        UserError: the digests differ.
    """
    found = vocab_digest(vocab_dir)
    if found != expected:
        raise UserError(
            f"{what} was trained with vocabulary {expected[:12]}, but {vocab_dir} holds {found[:12]}",
            "weights and vocabulary of one run",
            "give the vocabulary that the checkpoint was trained with",
        )
