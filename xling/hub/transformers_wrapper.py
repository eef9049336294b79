"""Import of encoders of transformers without an equivalent here, for fine-tuning, evaluation and mining.

Ids are put into our order; the weights of layers keep their own names.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from xling.array_types import Shaped
from xling.core.commands import inputs
from xling.core.errors import UserError
from xling.core.output.command_result import tell
from xling.hub import files
from xling.models.files import model_weights
from xling.models.files.model_folder import FOREIGN
from xling.models.network.transformers_wrapper import SETTINGS_KEY, TransformersModel
from xling.text import vocab
from xling.text.tokenizers import transformers_tokenizer

WEIGHT_PREFIXES = ("roberta.", "distilbert.", "electra.", "deberta.", "mpnet.", "model.", "transformer.")
EMBEDDING_NAMES = ("embeddings.word_embeddings.weight", "embeddings.weight")  # the second in XLM
COUNT_FROM_PADDING = ("roberta", "camembert", "xlm-roberta-xl", "mpnet")
"""Types whose positions count the tokens that are not padding."""
EXPORT_KEY, REST_KEY, UNUSED_ROWS_KEY, PREFIX_KEY = "kept", "rest", "unread", "prefix"
"""Keys of what a model file holds for the export alone."""


@dataclass(frozen=True)
class OrderedTokenizer:
    """The tokenizer of a model, and its id for each of our ids."""

    text: str
    order: list[int]
    names: list[str]


def load_tokenizer(folder: Path, is_encoders: bool = True) -> OrderedTokenizer:
    """Load the tokenizer of a directory with transformers.

    Args:
        folder: the directory.
        is_encoders: whether a text begins and ends with what its template writes, whatever the settings call it. The
            template of a translation model writes a language.

    Raises:
        UserError: `tokenizers` cannot express it, or it lacks a special.
    """
    try:
        from transformers import AutoTokenizer, XLMTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        if isinstance(tokenizer, XLMTokenizer):
            return _order_xlm_tokenizer(tokenizer)
        backend = tokenizer.backend_tokenizer
    except ImportError as error:
        package = "sacremoses" if "sacremoses" in str(error) else "transformers"
        raise inputs.missing_package_error(package, str(folder), "hub") from None
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
    placed = backend.encode("a", add_special_tokens=is_encoders)
    places = [place for place, is_read in enumerate(placed.attention_mask) if is_read]  # without padding
    if places and placed.special_tokens_mask[places[0]]:
        begin = placed.ids[places[0]]
    if places and placed.special_tokens_mask[places[-1]]:
        end = placed.ids[places[-1]]
    if is_encoders and sum(placed.special_tokens_mask[place] for place in places) < 2:
        around = " and ".join(tokenizer.convert_ids_to_tokens([begin, end]))
        tell(f"xling: {folder}: {around} are put around a text here; its tokenizer puts less there by itself")
    if getattr(backend.model, "dropout", None):
        tell(
            f"xling: {folder}: its tokenizer leaves out merges by chance (BPE dropout); here texts have all of them"
        )
    pad = tokenizer.pad_token_id
    unknown = pad if tokenizer.unk_token_id is None else tokenizer.unk_token_id
    mask = pad if tokenizer.mask_token_id is None else tokenizer.mask_token_id
    return order_tokenizer(backend, begin, pad, end, unknown, mask)


def order_tokenizer(
    tokenizer: Tokenizer, begin: int, pad: int, end: int, unknown: int, mask: int
) -> OrderedTokenizer:
    """Return a tokenizer of the package tokenizers, given the ids of its specials."""
    name_of_id = {number: name for name, number in tokenizer.get_vocab(with_added_tokens=True).items()}
    return _put_in_our_order(tokenizer.to_str(), name_of_id, [begin, pad, end, unknown], mask)


def _order_xlm_tokenizer(tokenizer: Any) -> OrderedTokenizer:
    """Return the tokenizer of XLM; a text begins with ``<s>`` and ends with ``</s>``."""
    with tempfile.TemporaryDirectory() as folder:
        merges = Path(tokenizer.save_vocabulary(folder)[1]).read_text(encoding="utf-8")
    settings = {
        "vocab": tokenizer.encoder,
        "merges": merges,
        "lower": tokenizer.do_lowercase_and_remove_accent,
    }
    name_of_id = {number: name for name, number in tokenizer.get_vocab().items()}
    special_ids = [
        tokenizer.bos_token_id,
        tokenizer.pad_token_id,
        tokenizer.sep_token_id,
        tokenizer.unk_token_id,
    ]
    return _put_in_our_order(
        json.dumps({transformers_tokenizer.MOSES_KEY: settings}),
        name_of_id,
        special_ids,
        tokenizer.mask_token_id,
    )


def _put_in_our_order(
    text: str, name_of_id: Mapping[int, str], special_ids: list[int], mask: int
) -> OrderedTokenizer:
    """Put the ids of a tokenizer into our order: ``special_ids``, the pieces, ``mask``."""
    pieces = [n for n in sorted(name_of_id) if n not in {*special_ids, mask}]
    # A line of dict.txt is a name without white space and a count.
    names = [name_of_id[n] if name_of_id[n].split() == [name_of_id[n]] else f"piece:{n}" for n in pieces]
    return OrderedTokenizer(text, [*special_ids, *pieces, mask], names)


def write_vocabulary(tokenizer: OrderedTokenizer, out: Path) -> None:
    """Write the files of the vocabulary into ``out``."""
    transformers_tokenizer.write_tokenizer(
        out / vocab.TRANSFORMERS_TOKENIZER, tokenizer.text, tokenizer.order
    )
    files.write_dictionary(out, tokenizer.names)


def build_wrapper(
    state: Mapping[str, Shaped[Tensor, " ..."]],
    settings: Mapping[str, Any],
    tokenizer: OrderedTokenizer,
    model_name: Path,
) -> tuple[TransformersModel, dict[str, Any]]:
    """Build the encoder from the tensors of a file, with its embeddings in our order.

    Returns:
        The model, and what only an export needs: the prefix of the encoder's names, the tensors outside the
        encoder (``rest``, such as the output layer), and the rows of the embeddings that no token has.

    Raises:
        UserError: a tensor is missing, or has another shape than the settings say.
    """
    padding = 1 if settings.get("model_type") == "mpnet" else settings.get("pad_token_id", 1)
    if settings.get("model_type") in COUNT_FROM_PADDING:
        files.check_padding(padding, tokenizer.order[1], model_name)
    candidates = [
        (p, name) for name in EMBEDDING_NAMES for p in (*WEIGHT_PREFIXES, "") if f"{p}{name}" in state
    ]
    if not candidates:
        raise UserError(f"{model_name} has no weight {EMBEDDING_NAMES[0]}", "the weights of an encoder")
    prefix, embeddings = candidates[0]
    body_weights = {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}
    embeddings_table = body_weights.pop(embeddings).float()
    files.check_largest_id(tokenizer.order, len(embeddings_table), model_name)
    with torch.device("meta"):  # only sizes: a wrong configuration must not allocate memory
        expected = TransformersModel(settings, len(tokenizer.order)).encoder.body.state_dict()
    for name, tensor in body_weights.items():
        if name in expected and expected[name].shape != tensor.shape:
            raise UserError(
                f"{model_name}: {name} is {tuple(tensor.shape)}",
                f"{tuple(expected[name].shape)} by its configuration",
            )
    model = TransformersModel(settings, len(tokenizer.order))
    body = model.encoder.body
    export_data = _export_data(state, prefix, embeddings_table, tokenizer.order, settings)
    missing, _ = body.load_state_dict({n: t.float() for n, t in body_weights.items()}, strict=False)
    missing_weights = [
        n for n in missing if n != embeddings and "pooler" not in n and "position_ids" not in n
    ]
    if missing_weights:
        raise UserError(f"{model_name} has no weight {prefix}{missing_weights[0]}", "a complete model")
    with torch.no_grad():
        model.encoder.tokens.weight.copy_(embeddings_table[tokenizer.order])
    return model, export_data


def _export_data(
    state: Mapping[str, Tensor],
    prefix: str,
    embeddings_table: Tensor,
    order: list[int],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what only an export needs; see `build_wrapper`."""
    is_tied = settings.get("tie_word_embeddings", True)
    other_weights = {
        name: tensor.float()
        for name, tensor in state.items()
        if prefix
        and (not name.startswith(prefix) or "pooler" in name)
        and not (
            is_tied
            and tensor.shape == embeddings_table.shape
            and torch.equal(tensor.float(), embeddings_table)
        )
    }
    is_unused = torch.ones(len(embeddings_table), dtype=torch.bool)
    is_unused[order] = False
    return {PREFIX_KEY: prefix, REST_KEY: other_weights, UNUSED_ROWS_KEY: embeddings_table[is_unused]}


def save_wrapper(
    model: TransformersModel,
    export_data: dict[str, Any],
    langs: list[str],
    settings: Mapping[str, Any],
    out: Path,
) -> None:
    """Write ``model.pt`` beside the vocabulary."""
    properties = {
        SETTINGS_KEY: dict(settings),
        "shape": model_weights.shape_of(model.cfg),
        "langs": langs,
        EXPORT_KEY: export_data,
    }
    model_weights.write_published(out / "model.pt", FOREIGN, properties, model.state_dict(), out)
