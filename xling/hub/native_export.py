"""Export of an encoder that transformers computes, as a model of its own type with its own ids and tokenizer.

A pre-trained one gets back its output layer. A fine-tuned one becomes the class for its task, if that class has
our head.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer

from xling.core.errors import UserError
from xling.hub import express, tokenizer, transformers_wrapper
from xling.models.files import model_weights
from xling.models.files.model_folder import FOREIGN, TASK, TASK_FILE
from xling.models.network.transformers_wrapper import SETTINGS, ForeignModel
from xling.text import vocab
from xling.text.tokenizers import transformers_tokenizer as stored
from xling.transfer import tune

if TYPE_CHECKING:
    from jaxtyping import Float32, Shaped

Names = Mapping[str, str]
_TAG: Names = {"classifier": "classifier"}
_SPAN: Names = {"classifier": "qa_outputs"}
_TWO_LAYERS: Names = {"dense": "classifier.dense", "classifier": "classifier.out_proj"}
_POOLED: Names = {"dense": "pooler.dense", "classifier": "classifier"}
_TANH = {"pooler_hidden_act": "tanh", "pooler_dropout": 0.0}


@dataclass(frozen=True)
class Kind:
    """A type of transformers.

    Attributes:
        stem: begin of the names of its classes.
        prefix: begin of the names of the encoder's weights in a class with a head.
        heads: end of a class's name -> our layers of the head and theirs.
        more: settings with which a class computes our head.
    """

    stem: str
    prefix: str
    heads: Mapping[str, Names]
    more: Mapping[str, Any] | None = None


def _like_roberta(stem: str, prefix: str = "roberta.") -> Kind:
    choice = {"dense": f"{prefix}pooler.dense", "classifier": "classifier"}
    heads = {
        "ForTokenClassification": _TAG,
        "ForQuestionAnswering": _SPAN,
        "ForSequenceClassification": _TWO_LAYERS,
        "ForMultipleChoice": choice,
    }
    return Kind(stem, prefix, heads)


_WORDS: Mapping[str, Names] = {"ForTokenClassification": _TAG, "ForQuestionAnswering": _SPAN}
KINDS = {
    "roberta": _like_roberta("Roberta"),
    "camembert": _like_roberta("Camembert"),
    "xlm-roberta-xl": _like_roberta("XLMRobertaXL"),
    "mpnet": _like_roberta("MPNet", "mpnet."),
    "distilbert": Kind("DistilBert", "distilbert.", _WORDS),
    "electra": Kind("Electra", "electra.", _WORDS),
    "deberta": Kind("Deberta", "deberta.", {**_WORDS, "ForSequenceClassification": _POOLED}, _TANH),
    "deberta-v2": Kind(
        "DebertaV2",
        "deberta.",
        {**_WORDS, "ForSequenceClassification": _POOLED, "ForMultipleChoice": _POOLED},
        _TANH,
    ),
    # XLM's tokenizer joins a question and a passage otherwise than models here.
    "xlm": Kind("XLM", "transformer.", {"ForTokenClassification": _TAG}),
}


@dataclass(frozen=True)
class Original:
    """A model to be exported in its own type.

    Attributes:
        settings: config.json.
        weights: tensors by the names of transformers.
        shape: sizes under our names, for the card.
        is_task: it was fine-tuned.
    """

    settings: dict[str, Any]
    weights: dict[str, Float32[torch.Tensor, " ..."]]
    shape: Any
    is_task: bool


def read(directory: Path) -> Original | None:
    """Read a published model that transformers computes; None if ours computes it.

    Raises:
        UserError: there is no model, its type has no class with the head, or its import is of an older version.
    """
    if (directory / TASK_FILE).is_file():
        if SETTINGS not in model_weights.read_published(directory / TASK_FILE, TASK):
            return None
        return _of_task(directory)
    published = model_weights.read_published(directory / "model.pt", *model_weights.SHAPES, FOREIGN)
    if published["format"] != FOREIGN:
        return None
    if (kept := published.get(transformers_wrapper.KEPT)) is None:
        raise UserError(
            f"{directory} was imported by a version of xling that kept no output layer",
            fix="import the model again",
        )
    settings, weights = dict(published[SETTINGS]), published["weights"]
    own = (
        _named(weights, directory, kept[transformers_wrapper.PREFIX], kept[transformers_wrapper.UNREAD])
        | kept[transformers_wrapper.REST]
    )
    if not settings.get("architectures"):
        raise UserError(f"{directory}: its config.json names no class", fix="import the model again")
    shape = ForeignModel(settings, 1).cfg
    return Original(settings, own, shape, is_task=False)


def _of_task(directory: Path) -> Original:
    """Read a fine-tuned model."""
    model: Any = tune.load(directory).model
    settings, kind = dict(model.encoder.settings), KINDS[model.encoder.settings["model_type"]]
    end = express.HEADS.get(model.task.name, "").removeprefix("XLMRoberta")
    problem = ""
    if model.features != "cls":
        problem = f"the {model.features} features (fit.{'text' if model.task.one_text else 'pair'}_features)"
    elif end not in kind.heads:
        problem = f"a head for {model.task.name} as here"
    if problem:
        raise UserError(
            f"{directory} has {problem}, which {kind.stem}'s classes cannot express",
            ", ".join(f"{kind.stem}{name}" for name in kind.heads),
            "keep using this one with xling, or fine-tune another model",
        )
    state = model.state_dict()
    order = _order(directory)
    unread = torch.zeros(_rows(settings, order) - len(set(order)), state["encoder.tokens.weight"].shape[1])
    weights = _named(state, directory, kind.prefix, unread)
    for ours, theirs in kind.heads[end].items():
        weights |= {f"{theirs}.{part}": state[f"{ours}.{part}"].float() for part in ("weight", "bias")}
    settings |= {"architectures": [f"{kind.stem}{end}"], **(kind.more or {})}
    if kind.heads[end] is _POOLED:
        settings["pooler_hidden_size"] = model.encoder.cfg.dim
    if model.labels:
        settings["id2label"] = {str(number): name for number, name in enumerate(model.labels)}
        settings["label2id"] = {name: number for number, name in enumerate(model.labels)}
    return Original(settings, weights, model.encoder.cfg, is_task=True)


def _rows(settings: Mapping[str, Any], order: list[int]) -> int:
    """Return the rows of the embeddings by the settings, at least those that the tokenizer needs."""
    said = settings.get("vocab_size", settings.get("n_words", 0))
    return max(int(said), 1 + max(order))


def _order(directory: Path) -> list[int]:
    """Return the tokenizer's id for each of ours."""
    return [
        int(n)
        for n in json.loads((directory / vocab.TRANSFORMERS_TOKENIZER).read_text(encoding="utf-8"))["order"]
    ]


def _named(
    state: Mapping[str, Shaped[torch.Tensor, " ..."]],
    directory: Path,
    prefix: str,
    unread: Shaped[torch.Tensor, "rows dim"],
) -> dict[str, Float32[torch.Tensor, " ..."]]:
    """Return the weights of the encoder under the names of transformers, with the embeddings in the original order."""
    rows, order = state["encoder.tokens.weight"].float(), _order(directory)
    table = rows.new_empty(len(set(order)) + len(unread), rows.shape[1])
    free = torch.ones(len(table), dtype=torch.bool)
    free[order] = False
    table[free] = unread.float()
    for ours, theirs in reversed(
        list(enumerate(order))
    ):  # where two of ours are one of theirs, the first counts
        table[theirs] = rows[ours]
    weights = {}
    for name, tensor in state.items():
        inner = name.removeprefix("encoder.body.")
        if inner == name or "pooler" in inner:
            continue
        weights[f"{prefix}{inner}"] = (
            table if inner in transformers_wrapper.EMBEDDINGS else tensor.float().contiguous().clone()
        )
    return weights


def save_tokenizer(model: Original, directory: Path, out: Path) -> list[str]:
    """Write the tokenizer of the model with its own ids.

    Returns:
        The names of the tokens at begin and end of a text, then of padding, unknown and mask if it has them.
    """
    told = json.loads((directory / vocab.TRANSFORMERS_TOKENIZER).read_text(encoding="utf-8"))["tokenizer"]
    order = _order(directory)
    begin, pad, end, unknown, mask = *order[:4], order[-1]
    if stored.MOSES_KEY in told:
        return _save_xlm(told[stored.MOSES_KEY], model, (begin, pad, end, unknown, mask), out)
    fast = Tokenizer.from_str(json.dumps(told))
    fast.no_truncation()
    fast.no_padding()
    segments = int(model.settings.get("type_vocab_size") or 0) > 1
    ids = {"bos": begin, "cls": begin, "eos": end, "sep": end, "pad": pad}
    ids |= {name: number for name, number in (("unk", unknown), ("mask", mask)) if number != pad}
    names = {name: str(fast.id_to_token(number)) for name, number in ids.items()}
    if model.is_task:  # a pair has the form in which it was fine-tuned
        fast.post_processor = tokenizer.template((names["cls"], begin), (names["sep"], end), segments)
    tokenizer.save(fast, out, model.shape.max_positions, segments=segments, specials=names)
    return list(dict.fromkeys(names.values()))


def _save_xlm(told: Mapping[str, Any], model: Original, ids: tuple[int, ...], out: Path) -> list[str]:
    """Write the files of ``XLMTokenizer``."""
    named = {number: name for name, number in told["vocab"].items()}
    begin, pad, end, unknown, mask = (named[number] for number in ids)
    (out / "vocab.json").write_text(json.dumps(told["vocab"], ensure_ascii=False), encoding="utf-8")
    (out / "merges.txt").write_text(told["merges"], encoding="utf-8")
    specials = {"bos": begin, "sep": end, "cls": end, "pad": pad, "unk": unknown, "mask": mask}
    settings: dict[str, Any] = {
        **{f"{name}_token": token for name, token in specials.items()},
        "tokenizer_class": "XLMTokenizer",
        "do_lowercase_and_remove_accent": told["lower"],
        "model_max_length": model.shape.max_positions,
        **{name: model.settings[name] for name in ("lang2id", "id2lang") if model.settings.get(name)},
    }
    (out / "tokenizer_config.json").write_text(
        json.dumps(settings, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return [begin, end, pad, unknown, mask]


def card_settings(model: Original) -> dict[str, Any]:
    """Return the entries of config.json that the card reads, under the names that most types have."""
    table = next(t for n, t in model.weights.items() if n.endswith(transformers_wrapper.EMBEDDINGS))
    return {
        "architectures": model.settings["architectures"],
        "vocab_size": len(table),
        "num_hidden_layers": model.shape.layers,
        "hidden_size": model.shape.dim,
        "max_position_embeddings": model.shape.max_positions + 2,
    }
