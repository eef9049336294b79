"""Conversion of encoder-decoders to BART's family in transformers and back: BART, mBART, mBART-50, M2M-100 and NLLB.

They are one model with few differences:

- mBART has learnt positions, a norm of the embeddings, and norms before the blocks,
- M2M-100 and NLLB have fixed positions, ReLU, and no norm of the embeddings,
- BART has norms after the blocks.

transformers keeps our order of ids: pieces, ``<mask>``, languages, sentinels; rows of foreign models are put
into it. Source: Lewis et al. 2020; Liu et al. 2020; Tang et al. 2020; Fan et al. 2020; NLLB Team 2022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from xling.array_types import Shaped
from xling.core.errors import UserError
from xling.data.symbols import Symbols
from xling.hub import bart_ids, configs, files, layouts, mbart, unsupported_parts
from xling.models.generate.decode import BOS, EOS
from xling.models.network.encoder import PAD
from xling.models.network.seq2seq import Seq2SeqConfig

_MBART50_TOKENIZER = "MBart50Tokenizer"
_EQUAL_SETTINGS = (
    ("encoder_attention_heads", "decoder_attention_heads"),
    ("encoder_ffn_dim", "decoder_ffn_dim"),
)


@dataclass(frozen=True)
class BartFamily:
    """A class of transformers of BART's family, and what its configuration and weights are called.

    Attributes:
        name: start of the class's name.
        sides: names of the weights.
        shape: the settings of our models that differ from mBART's defaults.
        biased: whether the output has a bias.
    """

    name: str
    sides: Mapping[str, layouts.Layout]
    shape: Mapping[str, Any] = field(default_factory=dict)
    biased: bool = True


BART_FAMILIES = {
    "mbart": BartFamily(
        "MBart",
        layouts.MBART,
    ),
    "m2m_100": BartFamily(
        "M2M100",
        layouts.bart_layouts(has_norm=False, has_positions=False),
        unsupported_parts.BART_SETTINGS["m2m_100"],
        biased=False,
    ),
    "bart": BartFamily(
        "Bart",
        layouts.bart_layouts(has_final_norm=False),
        unsupported_parts.BART_SETTINGS["bart"],
    ),
}  # fmt: skip
"""By the type of the model in transformers."""


def has_bias(shape: Seq2SeqConfig, state: Mapping[str, Shaped[Tensor, " ..."]]) -> bool:
    """Return whether a model has a bias at its output that its class lacks."""
    class_lacks_bias = (
        unsupported_parts.is_t5(shape) or not BART_FAMILIES[unsupported_parts.bart_type(shape)].biased
    )
    bias = state.get("decoder.head.bias")
    return class_lacks_bias and bias is not None and bool(bias.any())


def to_hf_weights(
    shape: Seq2SeqConfig, state: Mapping[str, Shaped[Tensor, " ..."]]
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Rename our weights for the class of the model, ids in our order."""
    family, tokens = BART_FAMILIES[unsupported_parts.bart_type(shape)], state["encoder.tokens.weight"]
    weights = {"model.shared.weight": tokens}
    for side, layout in family.sides.items():
        weights |= {
            f"model.{name}": tensor for name, tensor in layouts.trunk_to_layout(state, side, layout).items()
        }
    if family.biased:
        bias = state.get("decoder.head.bias", tokens.new_zeros(len(tokens)))
        weights["final_logits_bias"] = bias[None]
    return layouts.copy_float32(weights)


def to_hf_config(shape: Seq2SeqConfig, symbols: Symbols) -> dict[str, Any]:
    """Build the ``config.json`` of the class of the model."""
    model_type = unsupported_parts.bart_type(shape)
    # CTranslate2 reads the parts of mBART here, and takes from the tokenizer's name which token a decoder starts with.
    tokenizer_setting = (
        {"tokenizer_class": _MBART50_TOKENIZER} if model_type == "mbart" and shape.lang_first else {}
    )
    return {
        **configs.REQUIRED_SETTINGS[model_type],
        **tokenizer_setting,
        "architectures": [f"{BART_FAMILIES[model_type].name}ForConditionalGeneration"],
        "model_type": model_type,
        "vocab_size": symbols.size,
        "d_model": shape.dim,
        "encoder_layers": shape.layers,
        "decoder_layers": shape.decoder_layers or shape.layers,
        "encoder_attention_heads": shape.heads,
        "decoder_attention_heads": shape.heads,
        "encoder_ffn_dim": shape.ffn_dim,
        "decoder_ffn_dim": shape.ffn_dim,
        "max_position_embeddings": shape.max_positions,
        "dropout": shape.dropout or 0.1,
        "attention_dropout": shape.attention_dropout,
        "activation_dropout": 0.0,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "scale_embedding": shape.scale_embeddings,
        "init_std": 0.02,
        "is_encoder_decoder": True,
        "tie_word_embeddings": True,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": symbols.prompt(symbols.default)[0],
        "dtype": "float32",
    }


def read_hf(
    config: Mapping[str, Any], state: Mapping[str, Shaped[Tensor, " ..."]], folder: Path, langs: Sequence[str]
) -> tuple[Seq2SeqConfig, dict[str, Shaped[Tensor, " ..."]], bart_ids.IdMapping]:
    """Return shape, weights and ids of a model of BART's family in our format.

    Args:
        langs: see `xling.hub.bart_ids.read_id_mapping`.

    Raises:
        UserError: the model has a part that ours lack, a weight is missing, or tokens are not understood.
    """
    model_type = str(config["model_type"])
    family = BART_FAMILIES[model_type]
    configs.check_config(config, model_type, folder)
    for ours, theirs in _EQUAL_SETTINGS:
        if config[ours] != config[theirs]:
            raise UserError(
                f"{folder}/config.json: {ours}={config[ours]}, {theirs}={config[theirs]}",
                "equal numbers",
                "xling has no such models: choose another",
            )
    state = {name.removeprefix("model."): tensor for name, tensor in state.items()}
    tables = ("shared", "encoder.embed_tokens", "decoder.embed_tokens", "lm_head")
    embeddings = [state[f"{name}.weight"] for name in tables if f"{name}.weight" in state]
    tokens = files.shared_embeddings(embeddings, folder)
    lang_first = bart_ids.reads_lang_first(config, folder)
    default_langs = bart_ids.MBART50_LANGS if lang_first else mbart.MBART25_LANGS
    id_mapping = bart_ids.read_id_mapping(folder, model_type, len(tokens), langs, default_langs)
    bias = state.get("final_logits_bias")
    has_bias = bias is not None and bool(bias.any())
    weights = mbart.to_our_weights(state, tokens, id_mapping.order, family.sides, str(folder))
    if bias is not None and has_bias:
        weights["decoder.head.bias"] = bias.flatten().float()[id_mapping.order]
    shape: dict[str, Any] = {
        "layers": config["encoder_layers"],
        "decoder_layers": config["decoder_layers"],
        "dim": config["d_model"],
        "heads": config["encoder_attention_heads"],
        "ffn_dim": config["encoder_ffn_dim"],
        "max_positions": config["max_position_embeddings"],
        "scale_embeddings": bool(config.get("scale_embedding", model_type == "m2m_100")),
        "unbiased_head": not has_bias,
        "pre_norm": True,
        "plain_head": True,
        "lang_first": lang_first,
    }
    return Seq2SeqConfig(**shape | dict(family.shape)), weights, id_mapping
