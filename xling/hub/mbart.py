"""Conversion of encoder-decoders to mBART of stock fairseq and back; `xling.hub.bart` does so for transformers.

Stock fairseq builds its dictionary from pieces, languages and ``<mask>``: rows are put into that order, and
sentinels are dropped. Source: Liu et al. 2020; ``mbart_large`` in fairseq/models/bart/model.py.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xling.array_types import Int, Shaped
from xling.core import languages
from xling.core.errors import UserError
from xling.data.symbols import Symbols
from xling.hub import files, layouts, tokenizer
from xling.models.network.seq2seq import Seq2SeqConfig

MBART25_LANGS = (
    "ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT", "ja_XX", "kk_KZ",
    "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK", "tr_TR", "vi_VN", "zh_CN",
)  # fmt: skip
"""The language tokens of mbart.cc25, in their order (fairseq, examples/mbart)."""
FAIRSEQ_VERSION = 3.0
"""Version with which fairseq marks encoders and decoders with a norm after their layers."""
FAIRSEQ_SETTINGS = {
    "encoder_normalize_before": True,
    "decoder_normalize_before": True,
    "layernorm_embedding": True,
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "activation_fn": "gelu",
    "share_all_embeddings": True,
}
"""Settings that a checkpoint of stock fairseq must have to be an mBART."""
_SENTINEL = re.compile(r"<extra_id_(\d+)>")


def to_fairseq_weights(
    state: Mapping[str, Shaped[Tensor, " ..."]], symbols: Symbols
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Rename our weights for fairseq's ``BARTModel``, ids in its order."""
    rows = torch.tensor([*range(symbols.mask), *map(symbols.lang, range(len(symbols.langs))), symbols.mask])
    tokens = state["encoder.tokens.weight"][rows]
    weights: dict[str, Tensor] = {}
    for side, layout in layouts.MBART.items():
        weights |= {f"{layout.tokens}.weight": tokens} | layouts.trunk_to_layout(state, side, layout)
    weights["decoder.output_projection.weight"] = tokens
    # fairseq removes the norms after the layers from models without a version.
    weights |= {f"{side}.version": torch.tensor([FAIRSEQ_VERSION]) for side in layouts.MBART}
    return {name: tensor.detach().float() for name, tensor in weights.items()}


def to_fairseq_args(shape: Seq2SeqConfig, langs: Sequence[str]) -> Namespace:
    """Build the settings of stock fairseq's task ``multilingual_denoising`` and architecture ``mbart_large``."""
    side_settings = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("embed_dim", shape.dim),
            ("ffn_embed_dim", shape.ffn_dim),
            ("attention_heads", shape.heads),
            ("normalize_before", True),
            ("learned_pos", True),
        )
    }
    return Namespace(
        **side_settings,
        arch="mbart_large",
        task="multilingual_denoising",
        criterion="cross_entropy",
        data=".",
        seed=1,
        langs=",".join(langs),
        add_lang_token=True,
        train_subset="train",  # fairseq's own defaults point to settings that do not exist
        valid_subset="valid",
        encoder_layers=shape.layers,
        decoder_layers=shape.decoder_layers or shape.layers,
        max_source_positions=shape.max_positions,
        max_target_positions=shape.max_positions,
        tokens_per_sample=shape.max_positions,
        dropout=shape.dropout,
        attention_dropout=shape.attention_dropout,
        activation_dropout=0.0,
        activation_fn="gelu",
        no_scale_embedding=not shape.scale_embeddings,
        layernorm_embedding=True,
        share_all_embeddings=True,
        share_decoder_input_output_embed=True,
    )


def read_fairseq(
    args: Mapping[str, Any],
    state: Mapping[str, Shaped[Tensor, " ..."]],
    vocabulary: files.ImportedVocabulary,
    path: Path,
) -> tuple[Seq2SeqConfig, dict[str, Shaped[Tensor, " ..."]], list[str]]:
    """Return shape, weights and languages of stock fairseq's mBART in our format.

    Raises:
        UserError: as `read_hf`.
    """
    for name, value in FAIRSEQ_SETTINGS.items():
        if args.get(name, value) != value:
            raise UserError(f"{path}: {name}={args[name]!r}", f"{value!r}, as in mBART")
    if "langs" not in args or not args["langs"]:
        raise UserError(
            f"{path} does not name its languages", "`langs` among its settings, as mBART has them"
        )
    if any(float(state.get(f"{side}.version", torch.ones(1))[0]) < FAIRSEQ_VERSION for side in layouts.MBART):
        raise UserError(
            f"{path} has no norms after its layers, by its version",
            f"version {FAIRSEQ_VERSION:.0f}, as mBART",
        )
    tables = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
    tokens = files.shared_embeddings([state[f"{n}.weight"] for n in tables if f"{n}.weight" in state], path)
    langs = str(args["langs"]).split(",")
    token_of_id = [
        *tokenizer.SPECIAL_TOKENS,
        *vocabulary.pieces,
        *(f"[{lang}]" for lang in langs),
        tokenizer.MASK_TOKEN,
    ]
    files.check_rows(len(tokens), len(token_of_id), path)
    order, langs_known = order_of_ids(token_of_id, len(vocabulary.pieces), path)
    weights = to_our_weights(state, tokens, order, layouts.MBART, str(path))
    shape = Seq2SeqConfig(
        layers=layouts.count_layers(weights),
        decoder_layers=layouts.count_layers(weights, "decoder"),
        dim=tokens.shape[1],
        heads=int(args["encoder_attention_heads"]),
        ffn_dim=len(weights["encoder.layers.0.up.weight"]),
        max_positions=len(weights["encoder.positions.weight"]),
        scale_embeddings=not args.get("no_scale_embedding", False),
        unbiased_head=True,
        pre_norm=True,
        plain_head=True,
    )
    if int(args.get("decoder_attention_heads", shape.heads)) != shape.heads:
        raise UserError(
            f"{path} has {args['decoder_attention_heads']} heads in its decoder",
            f"{shape.heads}, as in its encoder",
            "xling has no such models: choose another",
        )
    return shape, weights, langs_known


def order_of_ids(
    token_of_id: Sequence[str], num_pieces: int, model_name: Path
) -> tuple[Int[Tensor, " vocab"], list[str]]:
    """Return the id in mBART's vocabulary of each of our ids, int64 (V,), and the languages.

    Args:
        token_of_id: meaning of each of their ids; the four specials and the pieces come first.

    Raises:
        UserError: a token after the pieces is not a language, ``<mask>`` or sentinel, or one is missing.
    """
    end_of_pieces = len(tokenizer.SPECIAL_TOKENS) + num_pieces
    mask_ids, id_of_lang, sentinels = [], {}, {}
    for number, name in enumerate(token_of_id[end_of_pieces:], end_of_pieces):
        if name == tokenizer.MASK_TOKEN:
            mask_ids.append(number)
        elif match := _SENTINEL.fullmatch(name):
            sentinels[int(match[1])] = number
        else:
            code = languages.get(name.strip("[]")).code if name else ""
            if not code or code in id_of_lang:
                raise UserError(
                    f"{model_name}: id {number} is {name!r}", "a different language for each token"
                )
            id_of_lang[code] = number
    if len(mask_ids) != 1 or not id_of_lang or sorted(sentinels) != list(range(len(sentinels))):
        raise UserError(
            f"{model_name} has {len(mask_ids)} <mask>, {len(id_of_lang)} languages and "
            f"{len(sentinels)} sentinels after its pieces",
            "one <mask>, and a token for each language",
        )
    order = [
        *range(end_of_pieces),
        *mask_ids,
        *id_of_lang.values(),
        *(sentinels[i] for i in range(len(sentinels))),
    ]
    return torch.tensor(order), list(id_of_lang)


def to_our_weights(
    state: Mapping[str, Shaped[Tensor, " ..."]],
    tokens: Shaped[Tensor, "rows dim"],
    order: Int[Tensor, " vocab"],
    sides: Mapping[str, layouts.Layout],
    model_name: str,
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Rename the weights of both ``sides`` to our names, rows in the ``order`` of our ids.

    Raises:
        UserError: one is missing; ``model_name`` names the checkpoint.
    """
    weights = {"encoder.tokens.weight": tokens[order].float()}
    for side, layout in sides.items():
        weights |= layouts.trunk_from_layout(
            state, layouts.make_take_weight(state, layout, model_name), side, layout
        )
    return weights | layouts.identity_head(weights["encoder.tokens.weight"])
