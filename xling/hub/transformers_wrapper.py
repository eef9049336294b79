"""Import of encoders of transformers without an equivalent here, for fine-tuning, evaluation and mining.

Ids are put into our order; the weights of layers keep their own names.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from xling.core.commands import extras
from xling.core.errors import UserError
from xling.hub import files, source
from xling.models.files import model_weights
from xling.models.files.model_folder import FOREIGN
from xling.models.network.transformers_wrapper import SETTINGS, ForeignModel
from xling.text import vocab
from xling.text.tokenizers import transformers_tokenizer

if TYPE_CHECKING:
    from jaxtyping import Shaped

TYPES = source.COMPUTED
FAMILIES = ("roberta.", "distilbert.", "electra.", "deberta.", "mpnet.", "model.", "transformer.")
EMBEDDINGS = ("embeddings.word_embeddings.weight", "embeddings.weight")  # the second in XLM
KEPT, REST, UNREAD, PREFIX = "kept", "rest", "unread", "prefix"
"""Keys of what a model file holds for the export alone."""


@dataclass(frozen=True)
class Tokens:
    """The tokenizer of a model, and its id for each of our ids."""

    text: str
    order: list[int]
    names: list[str]


def tokens_of(folder: Path) -> Tokens:
    """Load the tokenizer of a directory with transformers.

    Raises:
        UserError: `tokenizers` cannot express it, or it lacks a special.
    """
    try:
        from transformers import AutoTokenizer, XLMTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        if isinstance(tokenizer, XLMTokenizer):
            return _tokens_of_xlm(tokenizer)
        backend = tokenizer.backend_tokenizer
    except ImportError as error:
        package = "sacremoses" if "sacremoses" in str(error) else "transformers"
        raise extras.missing_package_error(package, str(folder), "hub") from None
    except Exception as error:  # tokenizer classes raise all kinds of errors
        problem = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"{folder} has no tokenizer that can be read here: {problem[0]}", "tokenizer.json"
        ) from None
    begin = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    end = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    if begin is None or end is None or tokenizer.pad_token_id is None:
        raise UserError(
            f"{folder}: its tokenizer lacks a begin, end or padding token", "an encoder's tokenizer"
        )
    pad = tokenizer.pad_token_id
    unknown = pad if tokenizer.unk_token_id is None else tokenizer.unk_token_id
    mask = pad if tokenizer.mask_token_id is None else tokenizer.mask_token_id
    return in_our_order(backend, begin, pad, end, unknown, mask)


def in_our_order(backend: Tokenizer, begin: int, pad: int, end: int, unknown: int, mask: int) -> Tokens:
    """Return a tokenizer of the package tokenizers, given the ids of its specials."""
    named = {number: name for name, number in backend.get_vocab(with_added_tokens=True).items()}
    return _ordered(backend.to_str(), named, [begin, pad, end, unknown], mask)


def _tokens_of_xlm(tokenizer: Any) -> Tokens:
    """Return the tokenizer of XLM; a text begins with ``<s>`` and ends with ``</s>``."""
    with tempfile.TemporaryDirectory() as folder:
        merges = Path(tokenizer.save_vocabulary(folder)[1]).read_text(encoding="utf-8")
    settings = {
        "vocab": tokenizer.encoder,
        "merges": merges,
        "lower": tokenizer.do_lowercase_and_remove_accent,
    }
    named = {number: name for name, number in tokenizer.get_vocab().items()}
    first = [tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.sep_token_id, tokenizer.unk_token_id]
    return _ordered(
        json.dumps({transformers_tokenizer.MOSES_KEY: settings}), named, first, tokenizer.mask_token_id
    )


def _ordered(text: str, named: Mapping[int, str], first: list[int], mask: int) -> Tokens:
    """Put the ids of a tokenizer into our order: ``first``, the pieces, ``mask``."""
    pieces = [n for n in sorted(named) if n not in {*first, mask}]
    # A line of dict.txt is a name without white space and a count.
    names = [named[n] if named[n].split() == [named[n]] else f"piece:{n}" for n in pieces]
    return Tokens(text, [*first, *pieces, mask], names)


def write_vocabulary(tokens: Tokens, out: Path) -> None:
    """Write the files of the vocabulary into ``out``."""
    transformers_tokenizer.write_tokenizer(out / vocab.TRANSFORMERS_TOKENIZER, tokens.text, tokens.order)
    files.write_dictionary(out, tokens.names)


def weights_of(
    state: Mapping[str, Shaped[Tensor, " ..."]], settings: Mapping[str, Any], tokens: Tokens, what: Path
) -> tuple[ForeignModel, dict[str, Any]]:
    """Build the encoder from the tensors of a file, with its embeddings in our order.

    Returns:
        The model, and what only an export needs: the prefix of the encoder's names, the tensors outside the
        encoder (``rest``, such as the output layer), and the rows of the embeddings that no token has.

    Raises:
        UserError: a tensor is missing, or has another shape than the settings say.
    """
    places = [(p, name) for name in EMBEDDINGS for p in (*FAMILIES, "") if f"{p}{name}" in state]
    if not places:
        raise UserError(f"{what} has no weight {EMBEDDINGS[0]}", "the weights of an encoder")
    prefix, embeddings = places[0]
    inner = {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}
    table = inner.pop(embeddings).float()
    if max(tokens.order) >= len(table):
        raise UserError(
            f"{what} has {len(table)} embeddings, and its tokenizer the id {max(tokens.order)}",
            "weights and tokenizer of one model",
        )
    with torch.device("meta"):  # only sizes: a wrong configuration must not allocate memory
        sizes = ForeignModel(settings, len(tokens.order)).encoder.body.state_dict()
    for name, tensor in inner.items():
        if name in sizes and sizes[name].shape != tensor.shape:
            raise UserError(
                f"{what}: {name} is {tuple(tensor.shape)}", f"{tuple(sizes[name].shape)} by its configuration"
            )
    model = ForeignModel(settings, len(tokens.order))
    body = model.encoder.body
    kept = _kept(state, prefix, table, tokens.order, settings)
    missing, _ = body.load_state_dict({n: t.float() for n, t in inner.items()}, strict=False)
    lost = [n for n in missing if n != embeddings and "pooler" not in n and "position_ids" not in n]
    if lost:
        raise UserError(f"{what} has no weight {prefix}{lost[0]}", "a complete model")
    with torch.no_grad():
        model.encoder.tokens.weight.copy_(table[tokens.order])
    return model, kept


def _kept(
    state: Mapping[str, Tensor], prefix: str, table: Tensor, order: list[int], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what only an export needs; see `weights_of`."""
    tied = settings.get("tie_word_embeddings", True)
    rest = {
        name: tensor.float()
        for name, tensor in state.items()
        if prefix
        and (not name.startswith(prefix) or "pooler" in name)
        and not (tied and tensor.shape == table.shape and torch.equal(tensor.float(), table))
    }
    unread = torch.ones(len(table), dtype=torch.bool)
    unread[order] = False
    return {PREFIX: prefix, REST: rest, UNREAD: table[unread]}


def save(
    model: ForeignModel, kept: dict[str, Any], langs: list[str], settings: Mapping[str, Any], out: Path
) -> None:
    """Write ``model.pt`` beside the vocabulary."""
    facts = {SETTINGS: dict(settings), "shape": model_weights.shape_of(model.cfg), "langs": langs, KEPT: kept}
    model_weights.write_published(out / "model.pt", FOREIGN, facts, model.state_dict(), out)
