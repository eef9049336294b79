"""Checkpoints: atomic, with a checksum, the last good one taken; and published models without pickled code."""

from __future__ import annotations

import io
import json
import logging
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from omegaconf import OmegaConf
from torch import Tensor

from corpora.binarize import NUM_SPECIALS
from corpora.vocab import vocab_digest
from xling.core import manifest
from xling.core.config import from_dict
from xling.core.errors import UserError
from xling.data.symbols import NUM_SENTINELS, Symbols
from xling.models.encoder import EncoderConfig, EncoderModel
from xling.models.seq2seq import Seq2SeqConfig, Seq2SeqModel, start_decoder

logger = logging.getLogger(__name__)
AnyModel = TypeVar("AnyModel", bound=EncoderModel)
ENCODER, SEQ2SEQ = "xling-encoder-1", "xling-seq2seq-1"
TIED = ("lm_head.weight", "decoder.head.weight")  # to the embeddings
SHAPES = {ENCODER: EncoderConfig, SEQ2SEQ: Seq2SeqConfig}
BY_TOKEN = ("encoder.tokens.weight", "lm_head.bias", "decoder.head.bias")  # a row for each token id


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
    weights = {k: v for k, v in model.state_dict().items() if not k.startswith("extras.") and k not in TIED}
    kind = SEQ2SEQ if isinstance(model, Seq2SeqModel) else ENCODER
    write_published(
        path, kind, {"shape": shape_of(model.cfg, kind), "langs": list(langs)}, weights, vocab_dir
    )


def shape_of(cfg: Any, kind: str = ENCODER) -> dict[str, Any]:
    """The configuration of a model as plain values."""
    plain = OmegaConf.to_container(cfg) if OmegaConf.is_config(cfg) else asdict(cfg)
    names = {f for f in SHAPES[kind].__dataclass_fields__ if not f.startswith("_")}
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


def read_published(path: Path, *kinds: str) -> dict[str, Any]:
    """The contents of a published model file of one of ``kinds``; no code in it is run.

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
        raise UserError(
            f"{path} is no checkpoint of ours: {str(error).splitlines()[0]}", " or ".join(kinds)
        ) from None
    if not isinstance(state, dict) or state.get("format") not in kinds:
        raise UserError(
            f"{path} is no checkpoint of ours",
            " or ".join(kinds),
            "make it with `xling pretrain` or `xling finetune`",
        )
    check_vocabulary(state["vocab_digest"], path.parent, path)
    return state


def load_model(
    directory: Path, dropout: float = 0.0, random_init: bool = False
) -> tuple[EncoderModel, list[str]]:
    """A published pre-trained encoder, or the encoder of a model with a decoder, in float32 and its languages.

    Args:
        directory: what `xling pretrain` published.
        dropout: probability for further training.
        random_init: keep the fresh weights of torch's generator instead of the trained ones: the control.

    Raises:
        UserError: no model there, a damaged file, or a vocabulary that is not the one it was trained with.
    """
    return _load(directory, EncoderModel, dropout, random_init)


def load_seq2seq(directory: Path, dropout: float = 0.0) -> tuple[Seq2SeqModel, Symbols]:
    """A published encoder-decoder in float32 and its symbols.

    Raises:
        UserError: as `load_model`, or the model there has no decoder.
    """
    model, langs = _load(directory, Seq2SeqModel, dropout, False)
    return model, Symbols.of_size(len(model.encoder.tokens.weight), langs)


def has_decoder(directory: Path) -> bool:
    """Whether the published model there is an encoder-decoder."""
    return bool(read_published(directory / "model.pt", *SHAPES)["format"] == SEQ2SEQ)


def _load(
    directory: Path, model_class: type[AnyModel], dropout: float, random_init: bool
) -> tuple[AnyModel, list[str]]:
    path = directory / "model.pt"
    kind = SEQ2SEQ if issubclass(model_class, Seq2SeqModel) else ENCODER
    state = read_published(path, *([SEQ2SEQ] if kind == SEQ2SEQ else SHAPES))
    names = SHAPES[kind].__dataclass_fields__
    settings = {k: str(v) for k, v in state["shape"].items() if k in names} | {"dropout": str(dropout)}
    shape = from_dict(SHAPES[kind], settings, str(path))
    vocab_size = state["weights"]["encoder.tokens.weight"].shape[0]
    model = model_class(shape, vocab_size, len(state["langs"]) if shape.lang_embeddings else 0)  # type: ignore[arg-type]
    if random_init:
        return model, state["langs"]
    weights = {k: v for k, v in state["weights"].items() if kind == SEQ2SEQ or not k.startswith("decoder.")}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert set(missing) <= set(TIED) and not unexpected, f"missing {missing}, unexpected {unexpected}"
    return model, state["langs"]


def start_from(
    model: EncoderModel, directory: Path, langs: list[str], data: Path, leave_embeddings: bool
) -> None:
    """Copy the weights of a published model into ``model``.

    Of two models with decoders everything is copied, with the tokens of the languages that both have; a decoder
    that meets an encoder's weights starts from them (`xling.models.seq2seq.start_decoder`).

    Args:
        model: of the same shape; its decoder may have more or fewer layers than the encoder it starts from.
        directory: what `xling pretrain` published.
        langs: languages of ``model``.
        data: directory with the vocabulary of ``model``.
        leave_embeddings: where the vocabularies differ, keep the model's own embeddings and output bias.

    Raises:
        UserError: no model there, another shape, other language embeddings, another vocabulary.
    """
    both = isinstance(model, Seq2SeqModel) and has_decoder(directory)
    old, old_langs = _load(directory, Seq2SeqModel if both else EncoderModel, 0.0, False)
    if vocab_digest(directory) != vocab_digest(data) and not leave_embeddings:
        check_vocabulary(vocab_digest(directory), data, directory)
    if model.encoder.langs is not None and old_langs != langs:
        raise UserError(
            f"init={directory} has language embeddings for {', '.join(old_langs)}",
            ", ".join(langs),
            "set langs=",
        )
    ours, theirs = model.state_dict(), old.state_dict()
    if not leave_embeddings:
        rows = _common_rows(model, langs, directory)
        for name in BY_TOKEN:
            if name in theirs and name in ours and theirs[name].shape[1:] == ours[name].shape[1:]:
                theirs[name] = (
                    ours[name].clone().index_copy_(0, rows[0], theirs[name][rows[1]].to(ours[name].dtype))
                )
    left = {*BY_TOKEN, *TIED} if leave_embeddings else set(TIED)
    for name in sorted(theirs.keys() - left):
        if name not in ours or ours[name].shape != theirs[name].shape:
            raise UserError(
                f"init={directory}: {name} is {tuple(theirs[name].shape)}",
                f"{tuple(ours[name].shape)}" if name in ours else "a model without it",
                "give the model.* settings of that run",
            )
    model.load_state_dict({k: v for k, v in theirs.items() if k not in left}, strict=False)
    if isinstance(model, Seq2SeqModel) and not both:
        start_decoder(model)


def _common_rows(model: EncoderModel, langs: list[str], directory: Path) -> tuple[Tensor, Tensor]:
    """Token ids of ``model`` and of a published one that mean the same."""
    with (directory / "dict.txt").open(encoding="utf-8") as lines:
        mask = NUM_SPECIALS + sum(1 for _ in lines)
    state = read_published(directory / "model.pt", *SHAPES)
    rows = [(i, i) for i in range(mask + 1)]
    if isinstance(model, Seq2SeqModel) and state["format"] == SEQ2SEQ:
        ours, theirs = Symbols(mask, tuple(langs)), Symbols(mask, tuple(state["langs"]))
        rows += [
            (ours.lang(ours.langs.index(lang)), theirs.lang(theirs.langs.index(lang)))
            for lang in ours.langs
            if lang in theirs.langs
        ]
        rows += [(ours.sentinel(i), theirs.sentinel(i)) for i in range(NUM_SENTINELS)]
    first, second = torch.tensor(rows).unbind(1)
    return first, second


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
