"""Encoders of transformers that have no equal here, as checkpoints to fine-tune, evaluate and mine with.

Ids are put into our order; the weights of layers stay under their own names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from xling.core.errors import UserError
from xling.hub import files
from xling.models import checkpoint
from xling.models.foreign import FOREIGN, INSTALL, SETTINGS, ForeignModel
from xling.text import foreign, vocab

if TYPE_CHECKING:
    from jaxtyping import Shaped

TYPES = (
    "roberta", "distilbert", "electra", "deberta", "deberta-v2", "camembert", "xlm-roberta-xl", "mpnet",
)  # fmt: skip
FAMILIES = ("roberta.", "distilbert.", "electra.", "deberta.", "mpnet.", "model.")
EMBEDDINGS = "embeddings.word_embeddings.weight"


@dataclass(frozen=True)
class Tokens:
    """The tokenizer of a model, and their id of each of our ids."""

    text: str
    order: list[int]
    names: list[str]


def tokens_of(folder: Path) -> Tokens:
    """The tokenizer of a directory, made by transformers.

    Raises:
        UserError: there is none that `tokenizers` can express, or it lacks a special.
    """
    try:
        from transformers import AutoTokenizer

        made = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        backend = made.backend_tokenizer
    except ImportError:
        raise UserError(f"transformers is not installed, and {folder} is read by it", fix=INSTALL) from None
    except Exception as error:  # whatever the class of the tokenizer raises
        problem = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"{folder} has no tokenizer that can be read here: {problem[0]}", "tokenizer.json"
        ) from None
    begin = made.cls_token_id if made.cls_token_id is not None else made.bos_token_id
    end = made.sep_token_id if made.sep_token_id is not None else made.eos_token_id
    if begin is None or end is None or made.pad_token_id is None:
        raise UserError(f"{folder}: its tokenizer names no begin, end or padding", "an encoder's tokenizer")
    pad = made.pad_token_id
    unknown = pad if made.unk_token_id is None else made.unk_token_id
    mask = pad if made.mask_token_id is None else made.mask_token_id
    named = {number: name for name, number in backend.get_vocab(with_added_tokens=True).items()}
    pieces = [n for n in sorted(named) if n not in {begin, pad, end, unknown, mask}]
    names = [named[n] if named[n].split() == [named[n]] else f"piece:{n}" for n in pieces]
    return Tokens(backend.to_str(), [begin, pad, end, unknown, *pieces, mask], names)


def write_vocabulary(found: Tokens, out: Path) -> None:
    """Write the files of the vocabulary into ``out``."""
    foreign.write(out / vocab.FOREIGN, found.text, found.order)
    files.write_dictionary(out, found.names)


def weights_of(
    state: Mapping[str, Shaped[Tensor, " ..."]], settings: Mapping[str, Any], found: Tokens, what: Path
) -> ForeignModel:
    """The encoder with the tensors of a file and its embeddings in our order.

    Raises:
        UserError: a tensor is missing, or has another shape than the settings say.
    """
    prefix = next((p for p in FAMILIES if any(n.startswith(p) for n in state)), "")
    inner = {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}
    if EMBEDDINGS not in inner:
        raise UserError(f"{what} has no weight {EMBEDDINGS}", "the weights of an encoder")
    table = inner.pop(EMBEDDINGS).float()
    if max(found.order) >= len(table):
        raise UserError(
            f"{what} has {len(table)} embeddings, and its tokenizer the id {max(found.order)}",
            "weights and tokenizer of one model",
        )
    with torch.device("meta"):  # sizes alone: a configuration that lies asks for no memory
        sizes = ForeignModel(settings, len(found.order)).encoder.body.state_dict()
    for name, tensor in inner.items():
        if name in sizes and sizes[name].shape != tensor.shape:
            raise UserError(
                f"{what}: {name} is {tuple(tensor.shape)}", f"{tuple(sizes[name].shape)} by its configuration"
            )
    model = ForeignModel(settings, len(found.order))
    body = model.encoder.body
    missing, _ = body.load_state_dict({n: t.float() for n, t in inner.items()}, strict=False)
    lost = [n for n in missing if n != EMBEDDINGS and "pooler" not in n and "position_ids" not in n]
    if lost:
        raise UserError(f"{what} has no weight {prefix}{lost[0]}", "the whole of a model")
    with torch.no_grad():
        model.encoder.tokens.weight.copy_(table[found.order])
    return model


def save(model: ForeignModel, langs: list[str], settings: Mapping[str, Any], out: Path) -> None:
    """Write ``model.pt`` beside the vocabulary."""
    facts = {SETTINGS: dict(settings), "shape": checkpoint.shape_of(model.cfg), "langs": langs}
    checkpoint.write_published(out / "model.pt", FOREIGN, facts, model.state_dict(), out)
