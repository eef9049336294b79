"""Conversion of encoder-decoders to mBART, in transformers and in stock fairseq, and of mBART to our format.

transformers keeps our order of ids: pieces, ``<mask>``, languages, sentinels. Stock fairseq builds its
dictionary from pieces, languages and ``<mask>``: rows are put into that order, and sentinels are dropped.
Both use the same weight names. Source: Liu et al. 2020; ``mbart_large`` in fairseq/models/bart/model.py.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from xling.core import languages
from xling.core.errors import UserError
from xling.data.symbols import Symbols
from xling.hub import files, layouts, tokenizer
from xling.models.encoder import PAD
from xling.models.generate import BOS, EOS
from xling.models.seq2seq import Seq2SeqConfig

if TYPE_CHECKING:
    from jaxtyping import Int, Shaped

CC25 = (
    "ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT", "ja_XX", "kk_KZ",
    "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK", "tr_TR", "vi_VN", "zh_CN",
)  # fmt: skip
"""The language tokens of mbart.cc25, in their order (fairseq, examples/mbart)."""
VERSION = 3.0
"""Version with which fairseq marks encoders and decoders with a norm after their layers."""
_SENTINEL = re.compile(r"<extra_id_(\d+)>")
_WANTED = {
    "activation_function": "gelu",
    "is_encoder_decoder": True,
    "tie_word_embeddings": True,
    "add_final_layer_norm": True,
    "normalize_before": True,
    "normalize_embedding": True,
    "static_position_embeddings": False,
}
_SIZES = (
    "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads",
    "encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings",
)  # fmt: skip
_SAME = (("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim"))


def oddities(shape: Seq2SeqConfig) -> list[str]:
    """List the parts of the shape that mBART lacks, or that it lacks itself."""
    odd = []
    if not shape.pre_norm:
        odd.append("layer norms after the blocks (model.pre_norm=false)")
    if not shape.plain_head:
        odd.append("a dense layer before the output (model.plain_head=false)")
    if shape.lang_embeddings:
        odd.append("language embeddings (model.lang_embeddings)")
    if shape.norm_eps != 1e-5:
        odd.append(f"layer norms with model.norm_eps={shape.norm_eps}")
    if shape.untied_head:
        odd.append("a separate output matrix (model.untied_head)")
    return odd + layouts.unusual(shape)


def hf_weights(state: Mapping[str, Shaped[Tensor, " ..."]]) -> dict[str, Shaped[Tensor, " ..."]]:
    """Rename our weights for ``MBartForConditionalGeneration``, ids in our order."""
    tokens = state["encoder.tokens.weight"]
    renamed = {"model.shared.weight": tokens}
    for side, layout in layouts.MBART.items():
        renamed |= {f"model.{name}": tensor for name, tensor in layouts.trunk(state, side, layout).items()}
    bias = state.get("decoder.head.bias", tokens.new_zeros(len(tokens)))
    return layouts.plain(renamed | {"final_logits_bias": bias[None]})


def hf_config(shape: Seq2SeqConfig, symbols: Symbols) -> dict[str, Any]:
    """Build the ``config.json`` of ``MBartForConditionalGeneration``."""
    return {
        "architectures": ["MBartForConditionalGeneration"],
        "model_type": "mbart",
        "vocab_size": symbols.size,
        "d_model": shape.dim,
        "encoder_layers": shape.layers,
        "decoder_layers": shape.decoder_layers or shape.layers,
        "encoder_attention_heads": shape.heads,
        "decoder_attention_heads": shape.heads,
        "encoder_ffn_dim": shape.ffn_dim,
        "decoder_ffn_dim": shape.ffn_dim,
        "max_position_embeddings": shape.max_positions,
        "activation_function": "gelu",
        "dropout": shape.dropout or 0.1,
        "attention_dropout": shape.attention_dropout,
        "activation_dropout": 0.0,
        "scale_embedding": shape.scale_embeddings,
        "init_std": 0.02,
        "is_encoder_decoder": True,
        "tie_word_embeddings": True,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": symbols.lang(symbols.default),
        "dtype": "float32",
    }


def fairseq_weights(
    state: Mapping[str, Shaped[Tensor, " ..."]], symbols: Symbols
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Rename our weights for fairseq's ``BARTModel``, ids in its order."""
    rows = torch.tensor([*range(symbols.mask), *map(symbols.lang, range(len(symbols.langs))), symbols.mask])
    tokens = state["encoder.tokens.weight"][rows]
    renamed: dict[str, Tensor] = {}
    for side, layout in layouts.MBART.items():
        renamed |= {f"{layout.tokens}.weight": tokens} | layouts.trunk(state, side, layout)
    renamed["decoder.output_projection.weight"] = tokens
    # fairseq removes the norms after the layers from models without a version.
    renamed |= {f"{side}.version": torch.tensor([VERSION]) for side in layouts.MBART}
    return {name: tensor.detach().float() for name, tensor in renamed.items()}


def fairseq_args(shape: Seq2SeqConfig, langs: Sequence[str]) -> Namespace:
    """Build the settings of stock fairseq's task ``multilingual_denoising`` and architecture ``mbart_large``."""
    sides = {
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
        **sides,
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


def read_hf(
    config: Mapping[str, Any], state: Mapping[str, Shaped[Tensor, " ..."]], vocabulary: files.Vocabulary, folder: Path,
    langs: Sequence[str],
) -> tuple[Seq2SeqConfig, dict[str, Shaped[Tensor, " ..."]], list[str]]:  # fmt: skip
    """Return shape, weights and languages of an ``MBartForConditionalGeneration`` in our format.

    Args:
        config: its ``config.json``.
        state: its tensors.
        vocabulary: its pieces.
        folder: its directory, for messages, ``tokenizer.json`` and ``tokenizer_config.json``.
        langs: its languages in the order of their tokens, if the directory does not name them; empty for
            those it names, or mbart.cc25's.

    Raises:
        UserError: the model has a part that ours lack, a weight is missing, or tokens are not understood.
    """
    files.refuse_odd(config, _WANTED, _SIZES, folder)
    for ours, theirs in _SAME:
        if config[ours] != config[theirs]:
            raise UserError(
                f"{folder}/config.json: {ours}={config[ours]}, {theirs}={config[theirs]}", "equal ones"
            )
    _refuse_mbart50(config, folder)
    state = {name.removeprefix("model."): tensor for name, tensor in state.items()}
    tables = ("shared", "encoder.embed_tokens", "decoder.embed_tokens", "lm_head")
    embeddings = [state[f"{name}.weight"] for name in tables if f"{name}.weight" in state]
    tokens = files.one_table(embeddings, folder)
    listed = _listed(files.tokens_of(folder), len(tokens), vocabulary, folder, langs)
    order, known = our_order(listed, len(vocabulary.pieces), folder)
    bias = state.get("final_logits_bias")
    biased = bias is not None and bool(bias.any())
    weights = _weights(state, tokens, order, str(folder))
    if bias is not None and biased:
        weights["decoder.head.bias"] = bias.flatten().float()[order]
    shape = Seq2SeqConfig(
        layers=config["encoder_layers"],
        decoder_layers=config["decoder_layers"],
        dim=config["d_model"],
        heads=config["encoder_attention_heads"],
        ffn_dim=config["encoder_ffn_dim"],
        max_positions=config["max_position_embeddings"],
        scale_embeddings=bool(config.get("scale_embedding", False)),
        unbiased_head=not biased,
        pre_norm=True,
        plain_head=True,
    )
    return shape, weights, known


def read_fairseq(
    args: Mapping[str, Any],
    state: Mapping[str, Shaped[Tensor, " ..."]],
    vocabulary: files.Vocabulary,
    path: Path,
) -> tuple[Seq2SeqConfig, dict[str, Shaped[Tensor, " ..."]], list[str]]:
    """Return shape, weights and languages of stock fairseq's mBART in our format.

    Args:
        args: settings of its model and task.
        state: its tensors.
        vocabulary: its pieces.
        path: path of its file, for messages.

    Raises:
        UserError: as `read_hf`.
    """
    wanted = {
        "encoder_normalize_before": True,
        "decoder_normalize_before": True,
        "layernorm_embedding": True,
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "activation_fn": "gelu",
        "share_all_embeddings": True,
    }
    for name, value in wanted.items():
        if args.get(name, value) != value:
            raise UserError(f"{path}: {name}={args[name]!r}", f"{value!r}, as in mBART")
    if "langs" not in args or not args["langs"]:
        raise UserError(
            f"{path} does not name its languages", "`langs` among its settings, as mBART has them"
        )
    if any(float(state.get(f"{side}.version", torch.ones(1))[0]) < VERSION for side in layouts.MBART):
        raise UserError(
            f"{path} has no norms after its layers, by its version", f"version {VERSION:.0f}, as mBART"
        )
    tables = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
    tokens = files.one_table([state[f"{n}.weight"] for n in tables if f"{n}.weight" in state], path)
    langs = str(args["langs"]).split(",")
    listed = [*tokenizer.SPECIALS, *vocabulary.pieces, *(f"[{lang}]" for lang in langs), tokenizer.MASK]
    files.check_rows(len(tokens), len(listed), path)
    order, known = our_order(listed, len(vocabulary.pieces), path)
    weights = _weights(state, tokens, order, str(path))
    shape = Seq2SeqConfig(
        layers=layouts.num_layers(weights),
        decoder_layers=layouts.num_layers(weights, "decoder"),
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
        raise UserError(f"{path} has other heads in the decoder", f"{shape.heads} as in the encoder")
    return shape, weights, known


def our_order(listed: Sequence[str], num_pieces: int, what: Path) -> tuple[Int[Tensor, " vocab"], list[str]]:
    """Return the id in mBART's vocabulary of each of our ids, int64 (V,), and the languages.

    Args:
        listed: meaning of each of their ids; the four specials and the pieces come first.
        num_pieces: number of pieces.
        what: name of the model, for messages.

    Raises:
        UserError: a token after the pieces is not a language, ``<mask>`` or sentinel, or one is missing.
    """
    first = len(tokenizer.SPECIALS) + num_pieces
    mask, langs, sentinels = [], {}, {}
    for number, name in enumerate(listed[first:], first):
        if name == tokenizer.MASK:
            mask.append(number)
        elif match := _SENTINEL.fullmatch(name):
            sentinels[int(match[1])] = number
        else:
            code = languages.get(name.strip("[]")).code if name else ""
            if not code or code in langs:
                raise UserError(f"{what}: id {number} is {name!r}", "a different language for each token")
            langs[code] = number
    if len(mask) != 1 or not langs or sorted(sentinels) != list(range(len(sentinels))):
        raise UserError(
            f"{what} has {len(mask)} <mask>, {len(langs)} languages and {len(sentinels)} sentinels after its pieces",
            "one <mask>, and a token for each language",
        )
    order = [*range(first), *mask, *langs.values(), *(sentinels[i] for i in range(len(sentinels)))]
    return torch.tensor(order), list(langs)


def _refuse_mbart50(config: Mapping[str, Any], folder: Path) -> None:
    told = folder / "tokenizer_config.json"
    names = [
        config.get("tokenizer_class"),
        files.read_json(told).get("tokenizer_class") if told.is_file() else None,
    ]
    if config.get("decoder_start_token_id") == EOS or any("MBart50" in str(name) for name in names):
        raise UserError(
            f"{folder} is mBART-50, which reads `[lang] text </s>` and starts to write at </s>",
            "mBART (cc25), which reads `text </s> [lang]` and starts at the language, as models here do",
            "choose a model of that kind",
        )


def _listed(
    tokens: list[str], rows: int, vocabulary: files.Vocabulary, folder: Path, langs: Sequence[str]
) -> list[str]:
    """List the meaning of each id: from ``tokenizer.json``, else pieces, languages and ``<mask>``."""
    if tokens:
        files.check_rows(rows, len(tokens), folder)
        first = len(tokenizer.SPECIALS)
        files.compare(
            tokens[first : first + len(vocabulary.pieces)], vocabulary.pieces, folder / "tokenizer.json"
        )
        return tokens
    head = [*tokenizer.SPECIALS, *vocabulary.pieces]
    names = langs or CC25
    if rows != len(head) + len(names) + 1:
        raise UserError(
            f"{folder} has {rows - len(head) - 1} tokens after its pieces, for {len(names)} languages",
            "as many languages as tokens",
            "give its tokenizer.json, or langs= in the order of the tokens",
        )
    return [*head, *names, tokenizer.MASK]


def _weights(state: Mapping[str, Tensor], tokens: Tensor, order: Tensor, what: str) -> dict[str, Tensor]:
    renamed = {"encoder.tokens.weight": tokens[order].float()}
    for side, layout in layouts.MBART.items():
        renamed |= layouts.read_trunk(state, layouts.taker(state, layout, what), side, layout)
    return renamed | layouts.no_head(renamed["encoder.tokens.weight"])
