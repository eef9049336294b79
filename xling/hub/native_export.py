"""Export of an encoder with its own ids and tokenizer, and in its own type where transformers computes it.

A pre-trained one gets back its output layer. A fine-tuned one becomes the class for its task, if that class has
our head.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from xling.array_types import Float32, Shaped
from xling.core.errors import UserError
from xling.hub import configs, layouts, tokenizer, transformers_wrapper, unsupported_parts
from xling.models.files import model_weights
from xling.models.files.model_folder import FOREIGN, TASK, TASK_FILE
from xling.models.network.transformers_wrapper import SETTINGS_KEY, TransformersModel
from xling.text import vocab
from xling.text.tokenizers import transformers_tokenizer as stored
from xling.transfer import tune

LayerNames = Mapping[str, str]
_TAG_HEAD: LayerNames = {"classifier": "classifier"}
_SPAN_HEAD: LayerNames = {"classifier": "qa_outputs"}
_TWO_LAYER_HEAD: LayerNames = {"dense": "classifier.dense", "classifier": "classifier.out_proj"}
_POOLED_HEAD: LayerNames = {"dense": "pooler.dense", "classifier": "classifier"}
_TANH_POOLER = {"pooler_hidden_act": "tanh", "pooler_dropout": 0.0}
_BY_TOKEN = (f"{layouts.XLMR.tokens}.weight", "tok_embeddings.weight", layouts.XLMR.bias, "decoder.bias")
_XLMR_POSITIONS = f"{layouts.XLMR.positions}.weight"
_NEVER_WRITTEN = -1e4  # logit


@dataclass(frozen=True)
class TransformersType:
    """A type of transformers.

    Attributes:
        class_prefix: begin of the names of its classes.
        weight_prefix: begin of the names of the encoder's weights in a class with a head.
        heads: end of a class's name -> our layers of the head and theirs.
        head_settings: settings with which a class computes our head.
    """

    class_prefix: str
    weight_prefix: str
    heads: Mapping[str, LayerNames]
    head_settings: Mapping[str, Any] | None = None


def _roberta_type(stem: str, prefix: str = "roberta.") -> TransformersType:
    choice_head = {"dense": f"{prefix}pooler.dense", "classifier": "classifier"}
    heads = {
        "ForTokenClassification": _TAG_HEAD,
        "ForQuestionAnswering": _SPAN_HEAD,
        "ForSequenceClassification": _TWO_LAYER_HEAD,
        "ForMultipleChoice": choice_head,
    }
    return TransformersType(stem, prefix, heads)


_WORD_HEADS: Mapping[str, LayerNames] = {
    "ForTokenClassification": _TAG_HEAD,
    "ForQuestionAnswering": _SPAN_HEAD,
}
TRANSFORMERS_TYPES = {
    "roberta": _roberta_type("Roberta"),
    "camembert": _roberta_type("Camembert"),
    "xlm-roberta-xl": _roberta_type("XLMRobertaXL"),
    "mpnet": _roberta_type("MPNet", "mpnet."),
    "distilbert": TransformersType("DistilBert", "distilbert.", _WORD_HEADS),
    "electra": TransformersType("Electra", "electra.", _WORD_HEADS),
    "deberta": TransformersType(
        "Deberta", "deberta.", {**_WORD_HEADS, "ForSequenceClassification": _POOLED_HEAD}, _TANH_POOLER
    ),
    "deberta-v2": TransformersType(
        "DebertaV2",
        "deberta.",
        {**_WORD_HEADS, "ForSequenceClassification": _POOLED_HEAD, "ForMultipleChoice": _POOLED_HEAD},
        _TANH_POOLER,
    ),
    # XLM's tokenizer joins a question and a passage otherwise than models here.
    "xlm": TransformersType("XLM", "transformer.", {"ForTokenClassification": _TAG_HEAD}),
}


@dataclass(frozen=True)
class NativeModel:
    """A model to be exported in its own type.

    Attributes:
        settings: config.json.
        weights: tensors by the names of transformers.
        shape: sizes under our names, for the card.
        has_our_pairs: a text and a pair are put together as models here read them.
    """

    settings: dict[str, Any]
    weights: dict[str, Float32[torch.Tensor, " ..."]]
    shape: Any
    has_our_pairs: bool


def with_own_ids(
    directory: Path,
    settings: Mapping[str, Any],
    weights: Mapping[str, Float32[torch.Tensor, " ..."]],
    shape: Any,
) -> NativeModel:
    """Return an encoder of ours with the ids of the tokenizer that was imported with it.

    A row that no token of the tokenizer has is zero, and its bias says that it is never written.

    Args:
        directory: published model with that tokenizer.
        settings: config.json of a class of transformers.
        weights: tensors by the names of that class, rows and positions in our order.
        shape: shape of the encoder.
    """
    _, order = _read_stored(directory)
    begin, pad, end = order[:3]
    restored = dict(weights)
    for name, tensor in weights.items():
        if name.endswith(_BY_TOKEN):
            restored[name] = tensor.new_full(
                (1 + max(order), *tensor.shape[1:]), _NEVER_WRITTEN if tensor.dim() == 1 else 0.0
            )
            # Where two of ours are one of theirs, the first counts.
            for ours, theirs in reversed(list(enumerate(order))):
                restored[name][theirs] = tensor[ours]
    ids = {"vocab_size": 1 + max(order), "pad_token_id": pad}
    ids |= {"bos_token_id": begin, "cls_token_id": begin, "eos_token_id": end, "sep_token_id": end}
    if (
        positions := restored.get(_XLMR_POSITIONS)
    ) is not None:  # they count from the row behind the padding's
        used = positions[layouts.XLMR.first_position :]
        restored[_XLMR_POSITIONS] = torch.cat([used.new_zeros(pad + 1, used.shape[1]), used])
        ids["max_position_embeddings"] = len(restored[_XLMR_POSITIONS])
    return NativeModel({**settings, **ids}, restored, shape, has_our_pairs=True)


def read_native_model(directory: Path) -> NativeModel | None:
    """Read a published model that transformers computes; None if ours computes it.

    Raises:
        UserError: there is no model, its type has no class with the head, or its import is of an older version.
    """
    if (directory / TASK_FILE).is_file():
        if SETTINGS_KEY not in model_weights.read_published(directory / TASK_FILE, TASK):
            return None
        return _read_task_model(directory)
    published = model_weights.read_published(directory / "model.pt", *model_weights.SHAPES, FOREIGN)
    if published["format"] != FOREIGN:
        return None
    if (export_data := published.get(transformers_wrapper.EXPORT_KEY)) is None:
        raise UserError(
            f"{directory} was imported by a version of xling that kept no output layer",
            fix="import the model again",
        )
    settings, weights = dict(published[SETTINGS_KEY]), published["weights"]
    native_weights = (
        _to_native_names(
            weights,
            directory,
            export_data[transformers_wrapper.PREFIX_KEY],
            export_data[transformers_wrapper.UNUSED_ROWS_KEY],
        )
        | export_data[transformers_wrapper.REST_KEY]
    )
    if not settings.get("architectures"):
        raise UserError(f"{directory}: its config.json names no class", fix="import the model again")
    shape = TransformersModel(settings, 1).cfg
    return NativeModel(settings, native_weights, shape, has_our_pairs=False)


def _read_task_model(directory: Path) -> NativeModel:
    model: Any = tune.load_tuned(directory).model
    settings: dict[str, Any] = dict(model.encoder.settings)
    transformers_type = TRANSFORMERS_TYPES[settings["model_type"]]
    class_suffix = unsupported_parts.HEAD_CLASSES.get(model.task.name, "").removeprefix("XLMRoberta")
    problems = unsupported_parts.unsupported_head_parts(model.task.name, model.features, model.layers)
    if not problems and class_suffix not in transformers_type.heads:
        problems = [f"a head for {model.task.name} as here"]
    if problems:
        raise UserError(
            f"{directory} has {problems[0]}, which {transformers_type.class_prefix}'s classes cannot express",
            ", ".join(f"{transformers_type.class_prefix}{name}" for name in transformers_type.heads),
            "keep using this one with xling, or fine-tune another model",
        )
    state = model.state_dict()
    _, order = _read_stored(directory)
    vocab_size = settings.get("vocab_size", settings.get("n_words", 0))
    num_rows = max(int(vocab_size), 1 + max(order))  # at least those that the tokenizer needs
    unused_rows = torch.zeros(num_rows - len(set(order)), state["encoder.tokens.weight"].shape[1])
    weights = _to_native_names(state, directory, transformers_type.weight_prefix, unused_rows)
    for ours, theirs in transformers_type.heads[class_suffix].items():
        weights |= {f"{theirs}.{part}": state[f"{ours}.{part}"].float() for part in ("weight", "bias")}
    settings |= {
        "architectures": [f"{transformers_type.class_prefix}{class_suffix}"],
        **(transformers_type.head_settings or {}),
    }
    if transformers_type.heads[class_suffix] is _POOLED_HEAD:
        settings["pooler_hidden_size"] = model.encoder.cfg.dim
    settings |= configs.label_settings(model.labels)
    return NativeModel(settings, weights, model.encoder.cfg, has_our_pairs=True)


def _read_stored(directory: Path) -> tuple[dict[str, Any], list[int]]:
    """Return the tokenizer of a model as it is stored, and its id for each of ours."""
    content = json.loads((directory / vocab.TRANSFORMERS_TOKENIZER).read_text(encoding="utf-8"))
    return content["tokenizer"], [int(number) for number in content["order"]]


def _to_native_names(
    state: Mapping[str, Shaped[torch.Tensor, " ..."]],
    directory: Path,
    prefix: str,
    unused_rows: Shaped[torch.Tensor, "rows dim"],
) -> dict[str, Float32[torch.Tensor, " ..."]]:
    """Return the weights of the encoder under the names of transformers, with the embeddings in the original order."""
    our_rows, (_, order) = state["encoder.tokens.weight"].float(), _read_stored(directory)
    table = our_rows.new_empty(len(set(order)) + len(unused_rows), our_rows.shape[1])
    is_unused = torch.ones(len(table), dtype=torch.bool)
    is_unused[order] = False
    table[is_unused] = unused_rows.float()
    for ours, theirs in reversed(
        list(enumerate(order))
    ):  # where two of ours are one of theirs, the first counts
        table[theirs] = our_rows[ours]
    weights = {}
    for name, tensor in state.items():
        body_name = name.removeprefix("encoder.body.")
        if body_name == name or "pooler" in body_name:
            continue
        weights[f"{prefix}{body_name}"] = (
            table
            if body_name in transformers_wrapper.EMBEDDING_NAMES
            else tensor.float().contiguous().clone()
        )
    return weights


def save_tokenizer(model: NativeModel, directory: Path, out: Path) -> list[str]:
    """Write the tokenizer of the model with its own ids.

    Returns:
        The names of the tokens at begin and end of a text, then of padding, unknown and mask if it has them.
    """
    stored_tokenizer, order = _read_stored(directory)
    begin, pad, end, unknown, mask = *order[:4], order[-1]
    if stored.MOSES_KEY in stored_tokenizer:
        return _save_xlm_tokenizer(
            stored_tokenizer[stored.MOSES_KEY], model, (begin, pad, end, unknown, mask), out
        )
    fast_tokenizer = Tokenizer.from_str(json.dumps(stored_tokenizer))
    fast_tokenizer.no_truncation()
    fast_tokenizer.no_padding()
    has_segments = int(model.settings.get("type_vocab_size") or 0) > 1
    ids = {"bos": begin, "cls": begin, "eos": end, "sep": end, "pad": pad}
    ids |= {name: number for name, number in (("unk", unknown), ("mask", mask)) if number != pad}
    names = {name: str(fast_tokenizer.id_to_token(number)) for name, number in ids.items()}
    if model.has_our_pairs:
        fast_tokenizer.post_processor = tokenizer.pair_template(
            (names["cls"], begin), (names["sep"], end), has_segments
        )
    tokenizer.save_tokenizer(
        fast_tokenizer, out, model.shape.max_positions, has_segments=has_segments, specials=names
    )
    return list(dict.fromkeys(names.values()))


def _save_xlm_tokenizer(
    settings_stored: Mapping[str, Any], model: NativeModel, ids: tuple[int, ...], out: Path
) -> list[str]:
    name_of_id = {number: name for name, number in settings_stored["vocab"].items()}
    begin, pad, end, unknown, mask = (name_of_id[number] for number in ids)
    (out / "vocab.json").write_text(
        json.dumps(settings_stored["vocab"], ensure_ascii=False), encoding="utf-8"
    )
    (out / "merges.txt").write_text(settings_stored["merges"], encoding="utf-8")
    specials = {"bos": begin, "sep": end, "cls": end, "pad": pad, "unk": unknown, "mask": mask}
    settings: dict[str, Any] = {
        **{f"{name}_token": token for name, token in specials.items()},
        "tokenizer_class": "XLMTokenizer",
        "do_lowercase_and_remove_accent": settings_stored["lower"],
        "model_max_length": model.shape.max_positions,
        **{name: model.settings[name] for name in ("lang2id", "id2lang") if model.settings.get(name)},
    }
    configs.write_json(out / "tokenizer_config.json", settings)
    return [begin, end, pad, unknown, mask]


def card_settings(model: NativeModel) -> dict[str, Any]:
    """Return the entries of config.json that the card reads, under the names that most types have."""
    table = next(t for n, t in model.weights.items() if n.endswith(transformers_wrapper.EMBEDDING_NAMES))
    return {
        "architectures": model.settings["architectures"],
        "vocab_size": len(table),
        "num_hidden_layers": model.shape.layers,
        "hidden_size": model.shape.dim,
        "max_position_embeddings": model.shape.max_positions + 2,
    }
