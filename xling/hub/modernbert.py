"""ModernBERT and mmBERT as our encoder, and ours as theirs: the same parts under other names.

Source: Warner et al. 2024; Marone et al. 2025; ``ModernBertConfig`` of transformers, whose older files spell the bases
of rotary positions and the kinds of layers in another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from xling.core.errors import UserError
from xling.hub import files, layouts
from xling.models import windows
from xling.models.encoder import EncoderConfig

if TYPE_CHECKING:
    from jaxtyping import Float32, Shaped

TYPE = "modernbert"
FIXED = {
    "norm_bias": False, "attention_bias": False, "mlp_bias": False, "decoder_bias": True, "classifier_bias": False,
    "classifier_activation": "gelu", "tie_word_embeddings": True,
}  # fmt: skip
ACTIVATIONS = {"gelu": "geglu", "silu": "swiglu"}
FULL, SLIDING = "full_attention", "sliding_attention"
THETAS = {FULL: ("global_rope_theta", 160_000.0), SLIDING: ("local_rope_theta", 10_000.0)}
SHAPE: dict[str, Any] = {
    "pre_norm": True, "norm": "unshifted", "biases": False, "positions": "rope", "first_norm": False,
    "head_biases": False,
}  # fmt: skip
"""What every model of this type has, by the names of our settings."""
SPOKEN = frozenset({
    "layers", "dim", "heads", "ffn_dim", "ffn", "max_positions", "norm_eps", "attention", "local_theta", "global_theta",
})  # fmt: skip
_PARTS = {
    "qkv": "attn.Wqkv", "out": "attn.Wo", "attn_norm": "attn_norm", "up": "mlp.Wi", "down": "mlp.Wo",
    "ffn_norm": "mlp_norm",
}  # fmt: skip
TOKENS = "model.embeddings.tok_embeddings.weight"
HEAD = {"dense.weight": "head.dense.weight", "head_norm.weight": "head.norm.weight"} | {
    f"classifier.{kind}": f"classifier.{kind}" for kind in ("weight", "bias")
}
"""Our names of the weights of a classifier, each with theirs."""
TASK = "xling_task"
KINDS = {
    "ModernBertForSequenceClassification": "classify",
    "ModernBertForTokenClassification": "tag",
    "ModernBertForQuestionAnswering": "span",
}
"""The task of a class, where ``config.json`` does not say ours under `TASK`."""
CLASSES = {
    "XLMRobertaForMaskedLM": "ModernBertForMaskedLM",
    "XLMRobertaForSequenceClassification": "ModernBertForSequenceClassification",
    "XLMRobertaForTokenClassification": "ModernBertForTokenClassification",
    "XLMRobertaForQuestionAnswering": "ModernBertForQuestionAnswering",
}


def names(layers: int) -> dict[str, str]:
    """Our names of the weights of an encoder and its LM head, each with theirs."""
    made = {
        "encoder.tokens.weight": TOKENS,
        "encoder.norm.weight": "model.embeddings.norm.weight",
        "encoder.final_norm.weight": "model.final_norm.weight",
        "lm_head.dense.weight": "head.dense.weight",
        "lm_head.norm.weight": "head.norm.weight",
        "lm_head.bias": "decoder.bias",
    }
    for index in range(layers):
        for ours, theirs in _PARTS.items():
            if (index, ours) != (0, "attn_norm"):
                made[f"encoder.layers.{index}.{ours}.weight"] = f"model.layers.{index}.{theirs}.weight"
    return made


def unfit(shape: Any) -> list[str]:
    """What a model has that ModernBERT has not, by the names of our settings."""
    odd = layouts.unusual(shape, SPOKEN, SHAPE)
    return odd + ([] if shape.ffn in ACTIVATIONS.values() else [f"model.ffn={shape.ffn}"])


def shape_of(config: Mapping[str, Any], folder: Path) -> EncoderConfig:
    """The shape that a ``config.json`` tells, in either spelling.

    Raises:
        UserError: a part that our models have not.
    """
    files.refuse_odd(config, FIXED, files.SIZES.values(), folder)
    if (activation := config.get("hidden_activation", "gelu")) not in ACTIVATIONS:
        raise UserError(f"{folder}/config.json: hidden_activation={activation!r}", ", ".join(ACTIVATIONS))
    thetas = {kind: _theta(config, kind, folder) for kind in THETAS}
    return EncoderConfig(
        **files.sizes(config),
        norm_eps=float(config.get("norm_eps", 1e-5)),
        ffn=ACTIVATIONS[activation],  # type: ignore[arg-type]
        attention=_attention(config, folder),
        global_theta=thetas[FULL],
        local_theta=thetas[SLIDING],
        init="megatron",
        **SHAPE,
    )


def _theta(config: Mapping[str, Any], kind: str, folder: Path) -> float:
    old, usual = THETAS[kind]
    told = (config.get("rope_parameters") or {}).get(kind) or {}
    scaling = config.get("rope_scaling") or {}
    types = {told.get("rope_type", "default"), scaling.get("rope_type", scaling.get("type", "default"))}
    if types != {"default"}:
        raise UserError(
            f"{folder}/config.json: rotary positions of type {max(types - {'default'})}", "default"
        )
    found = told.get("rope_theta", config.get(old))
    return usual if found is None else float(found)


def _attention(config: Mapping[str, Any], folder: Path) -> str:
    """Our spelling of the kinds of layers, which must be global at every K-th layer from the first."""
    layers, width = config["num_hidden_layers"], int(config.get("local_attention", 128))
    kinds = config.get("layer_types")
    if kinds is None:
        every = int(config.get("global_attn_every_n_layers") or 3)
        kinds = [SLIDING if i % every else FULL for i in range(layers)]
    if SLIDING not in kinds:
        return windows.GLOBAL
    full = [i for i, kind in enumerate(kinds) if kind == FULL]
    every = full[1] if len(full) > 1 else layers
    made = f"local:{width}/global:{every}"
    if [FULL if window == 0 else SLIDING for window in windows.of(made, layers)] != list(kinds):
        raise UserError(
            f"{folder}/config.json: layer_types={', '.join(kinds)}",
            f"{FULL} at every K-th layer from the first",
        )
    return made


def inwards(
    state: Mapping[str, Shaped[Tensor, " ..."]], shape: EncoderConfig, what: str
) -> dict[str, Float32[Tensor, " ..."]]:
    """Their weights under our names, float32; a model without an LM head gets the identity, which is not trained.

    Raises:
        UserError: a weight is missing.
    """
    if TOKENS not in state and TOKENS.removeprefix("model.") in state:
        state = {
            name if name.startswith(("head.", "decoder.")) else f"model.{name}": t
            for name, t in state.items()
        }
    tied = state.get("decoder.weight", state.get(TOKENS))
    if TOKENS in state and tied is not None and not tied.equal(state[TOKENS]):
        raise UserError(f"{what} has an LM head with a matrix of its own", "one tied to the embeddings")
    made = {}
    for ours, theirs in names(shape.layers).items():
        if theirs in state:
            made[ours] = state[theirs].detach().float()
        elif not ours.startswith("lm_head."):
            raise UserError(
                f"{what} has no weight {theirs}", "all weights of a ModernBERT", "copy the whole of it"
            )
    # The head of a classifier is no LM head: only with the output's bias is it one.
    if "lm_head.bias" not in made:
        none = layouts.no_head(made["encoder.tokens.weight"])
        made |= {name: none[name] for name in names(0) if name.startswith("lm_head.")}
    return made


def task_of(config: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Our task and the labels of a classifier, None of a language model."""
    kind = KINDS.get(str((config.get("architectures") or [""])[0]))
    if kind is None:
        return None
    names_of = config.get("id2label") or {}
    labels = [] if kind == "span" else [names_of[key] for key in sorted(names_of, key=int)]
    return str(config.get(TASK, kind)), labels


def head_of(state: Mapping[str, Shaped[Tensor, " ..."]], what: str) -> dict[str, Float32[Tensor, " ..."]]:
    """The weights of a classifier under our names.

    Raises:
        UserError: one is missing.
    """
    if missing := [theirs for theirs in HEAD.values() if theirs not in state]:
        raise UserError(
            f"{what} has no weight {missing[0]}", "all weights of its class", "copy the whole of it"
        )
    return {ours: state[theirs].detach().float() for ours, theirs in HEAD.items()}


def outwards(
    state: Mapping[str, Shaped[Tensor, " ..."]], shape: EncoderConfig
) -> dict[str, Float32[Tensor, " ..."]]:
    """Our weights under their names, float32, with the LM head or the classifier that there is."""
    both = names(shape.layers) | HEAD
    return layouts.plain({theirs: state[ours] for ours, theirs in both.items() if ours in state})


def hf_config(shape: EncoderConfig, vocab_size: int, pad: int, bos: int, eos: int) -> dict[str, Any]:
    """The ``config.json`` in both spellings, which older and newer transformers read alike."""
    kinds = [SLIDING if window else FULL for window in windows.of(shape.attention, shape.layers)]
    window, _, every = shape.attention.removeprefix("local:").partition("/global:")
    activations = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    thetas = {FULL: shape.global_theta, SLIDING: shape.local_theta}
    return {
        "model_type": TYPE,
        "vocab_size": vocab_size,
        **{theirs: getattr(shape, ours) for ours, theirs in files.SIZES.items()},
        "hidden_activation": activations[shape.ffn],
        "norm_eps": shape.norm_eps,
        "layer_types": kinds,
        "local_attention": int(window) if every else 128,
        "global_attn_every_n_layers": int(every or 1),
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": t} for kind, t in thetas.items()},
        "global_rope_theta": shape.global_theta,
        "local_rope_theta": shape.local_theta,
        "attention_dropout": shape.attention_dropout,
        "embedding_dropout": shape.dropout,
        "mlp_dropout": shape.dropout,
        "initializer_range": 0.02,
        **FIXED,
        "pad_token_id": pad,
        "bos_token_id": bos,
        "cls_token_id": bos,
        "eos_token_id": eos,
        "sep_token_id": eos,
        "dtype": "float32",
    }
