"""Conversion of T5 and mT5 to our encoder-decoder, and of our models of that shape to mT5.

Rows are put into our order. T5 has no ``<s>``, no ``<mask>`` and no language tokens: these start as copies of
its ``<pad>``, which its decoder reads first and never writes. So ``[sw]`` at the decoder's start equals T5's
own start until training distinguishes the languages. Rows after its last token, which pad its matrix, are
dropped.

T5 does not divide attention scores by the square root of a head's width: its query matrices are multiplied by
that root instead. T5 1.0 divides the states before its output by the square root of the width: that goes into
the last norm.

Source: Raffel et al. 2020; Shazeer 2020 (T5 1.1); Xue et al. 2021 (mT5).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xling.array_types import Int, Shaped
from xling.core.errors import UserError
from xling.data.symbols import NUM_SENTINELS, Symbols
from xling.hub import bart_ids, configs, files, layouts, mbart, tokenizer, unsupported_parts
from xling.hub.source import read_json, read_optional_json
from xling.models.generate.decode import EOS
from xling.models.network.encoder import PAD, is_gated
from xling.models.network.positions import MAX_DISTANCE, NUM_BUCKETS
from xling.models.network.seq2seq import Seq2SeqConfig

ROW_MULTIPLE = 128
"""The number of rows of T5's matrices is a multiple of this; those after the last token are unused."""
T5_SPECIALS = ("<pad>", "</s>", "<unk>")
OUR_FFN_NAMES: dict[str, Any] = {"relu": "relu", "gated-gelu": "gated_gelu", "gelu": "gelu"}
"""Their feed-forward blocks -> our names."""
SETTINGS_FILE = "tokenizer_config.json"
T5_TYPES = ("t5", "mt5", "umt5")
_SENTINEL = re.compile(r"\u2581?<extra_id_(\d+)>")


def to_hf_config(shape: Seq2SeqConfig, symbols: Symbols) -> dict[str, Any]:
    """Build the ``config.json`` of ``MT5ForConditionalGeneration`` or ``UMT5ForConditionalGeneration``."""
    model_type = "umt5" if shape.layer_biases else "mt5"
    return {
        "architectures": [f"{model_type.upper()}ForConditionalGeneration"],
        "model_type": model_type,
        "vocab_size": symbols.size,
        "d_model": shape.dim,
        "d_kv": _head_dim(shape),
        "d_ff": shape.ffn_dim,
        "num_layers": shape.layers,
        "num_decoder_layers": shape.decoder_layers or shape.layers,
        "num_heads": shape.heads,
        "n_positions": shape.max_positions,
        "relative_attention_num_buckets": NUM_BUCKETS,
        "relative_attention_max_distance": MAX_DISTANCE,
        "dropout_rate": shape.dropout or 0.1,
        "layer_norm_epsilon": shape.norm_eps,
        "feed_forward_proj": {ours: theirs for theirs, ours in OUR_FFN_NAMES.items()}[shape.ffn],
        "is_encoder_decoder": True,
        # The file contains both matrices, tied or not: older versions of transformers scale the states of
        # tied ones. umT5's are always tied and scaled.
        "tie_word_embeddings": shape.layer_biases,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": symbols.lang(symbols.default),
        "dtype": "float32",
    }


def to_hf_weights(
    shape: Seq2SeqConfig, state: Mapping[str, Shaped[Tensor, " ..."]]
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Rename our weights for ``MT5ForConditionalGeneration`` or umT5's class, ids in our order."""
    weights = {
        "shared.weight": state["encoder.tokens.weight"],
        "lm_head.weight": state["decoder.head.weight"],
    }
    state = _scale_queries(state, shape, 1 / math.sqrt(_head_dim(shape)))
    for side, layout in layouts.t5_layouts(is_gated(shape.ffn), shape.layer_biases).items():
        weights |= layouts.trunk_to_layout(state, side, layout)
    if shape.layer_biases:
        norm_name = "decoder.final_layer_norm.weight"
        weights[norm_name] = weights[norm_name] * math.sqrt(shape.dim)
    return layouts.copy_float32(weights)


def read_hf(
    config: Mapping[str, Any], state: Mapping[str, Shaped[Tensor, " ..."]], folder: Path, langs: Sequence[str]
) -> tuple[Seq2SeqConfig, dict[str, Shaped[Tensor, " ..."]], bart_ids.IdMapping]:
    """Return shape, weights and ids of a ``T5ForConditionalGeneration``, or of mT5's or umT5's class.

    Args:
        langs: languages that get a token; empty for a model that `xling export` wrote, which has tokens.

    Raises:
        UserError: the model has a part that ours lack, a weight or the languages are missing, or the
            vocabulary is missing or differs.
    """
    configs.check_config(config, str(config["model_type"]), folder)
    ffn = str(config.get("feed_forward_proj", "relu" if config["model_type"] == "t5" else "gated-gelu"))
    if ffn not in OUR_FFN_NAMES:
        raise UserError(f"{folder}/config.json: feed_forward_proj={ffn!r}", ", ".join(OUR_FFN_NAMES))
    activation = "gelu_new" if ffn == "gated-gelu" else ffn
    configs.check_settings(
        config, {"dense_act_fn": activation, "is_gated_act": is_gated(OUR_FFN_NAMES[ffn])}, (), folder
    )
    tables = ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
    tokens = files.shared_embeddings([state[f"{n}.weight"] for n in tables if f"{n}.weight" in state], folder)
    id_mapping = read_id_mapping(folder, len(tokens), langs)
    output_matrix = state.get("lm_head.weight", tokens).float()
    if output_matrix.shape != tokens.shape:
        raise UserError(
            f"{folder} has an output of {len(output_matrix)} ids", f"{len(tokens)}, as its embeddings have"
        )
    shape = Seq2SeqConfig(
        layers=config["num_layers"],
        decoder_layers=config.get("num_decoder_layers") or config["num_layers"],
        dim=config["d_model"],
        heads=config["num_heads"],
        head_dim=config["d_kv"],
        ffn_dim=config["d_ff"],
        ffn=OUR_FFN_NAMES[ffn],
        norm_eps=float(config.get("layer_norm_epsilon", 1e-6)),
        max_positions=int(config.get("n_positions", 1024)),
        unbiased_head=True,
        untied_head=not torch.equal(output_matrix, tokens),
        source_lang=id_mapping.source_lang,
        layer_biases=config["model_type"] == "umt5",
        **unsupported_parts.T5_SETTINGS,
    )
    weights = to_our_weights({**state, "shared.weight": tokens}, shape, id_mapping.order, folder)
    if _scales_output(config):
        weights["decoder.final_norm.weight"] = weights["decoder.final_norm.weight"] * shape.dim**-0.5
    return shape, weights, id_mapping


def to_our_weights(
    state: Mapping[str, Shaped[Tensor, " ..."]],
    shape: Seq2SeqConfig,
    order: Int[Tensor, " vocab"],
    folder: Path,
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Rename the weights of T5 to our names, rows in the ``order`` of our ids.

    Raises:
        UserError: one is missing.
    """
    sides = layouts.t5_layouts(is_gated(shape.ffn), shape.layer_biases)
    weights = mbart.to_our_weights(state, state["shared.weight"], order, sides, str(folder))
    if shape.untied_head:
        weights["decoder.head.weight"] = state["lm_head.weight"][order].float()
    return _scale_queries(weights, shape, math.sqrt(_head_dim(shape)))


def read_id_mapping(folder: Path, num_rows: int, langs: Sequence[str]) -> bart_ids.IdMapping:
    """Return the vocabulary of a directory and the meaning of its ids: T5's own, or that of `xling export`.

    Raises:
        UserError: as `read_hf`.
    """
    tokens = files.read_tokens(folder)
    if tuple(tokens[: len(tokenizer.SPECIAL_TOKENS)]) == tokenizer.SPECIAL_TOKENS:
        vocabulary = files.read_sentencepiece(folder)
        files.check_rows(num_rows, len(tokens), folder)
        files.check_tokenizer(folder, vocabulary.pieces)
        order, known_langs = mbart.order_of_ids(tokens, len(vocabulary.pieces), folder)
        template = (read_json(folder / "tokenizer.json").get("post_processor") or {}).get("single", [])
        return bart_ids.IdMapping(
            vocabulary, order, known_langs, bool(template) and "</s>" not in str(template[-1])
        )
    if not langs:
        raise UserError(
            f"{folder} has no language tokens, and no language is given",
            "langs=CODE,CODE: each becomes a token that the decoder can start with",
            "name all languages that the model will write",
        )
    # ByT5's tokenizer needs no file but its settings.
    is_byt5 = read_optional_json(folder / SETTINGS_FILE).get("tokenizer_class") == "ByT5Tokenizer"
    read = _byte_vocabulary if is_byt5 else read_vocabulary
    vocabulary, specials, sentinels = read(folder, num_rows)
    order = order_of_ids(len(vocabulary.pieces), len(langs), sentinels, specials)
    return bart_ids.IdMapping(vocabulary, order, [*langs])


def _byte_vocabulary(folder: Path, num_rows: int) -> tuple[files.ImportedVocabulary, list[str], list[int]]:
    """Return ByT5's vocabulary as a SentencePiece model of the 256 bytes, its specials, and the ids of its sentinels.

    ByT5 has no sentinels of its own: it uses the last bytes, which start ours. Source: Xue et al. 2022, section 3.2.

    Raises:
        UserError: the model has fewer rows than bytes.
    """
    model, last_byte_id = tokenizer.build_byte_model(), len(T5_SPECIALS) + 255
    if num_rows <= last_byte_id + 1:  # the row after the bytes is that of the piece which no text has
        raise UserError(f"{folder} has {num_rows} embeddings", f"{last_byte_id + 2} or more, as ByT5")
    return (
        files.vocabulary_from_spm(model),
        [*T5_SPECIALS],
        [last_byte_id - number for number in range(NUM_SENTINELS)],
    )


def read_vocabulary(folder: Path, num_rows: int) -> tuple[files.ImportedVocabulary, list[str], list[int]]:
    """Return the vocabulary of a directory, its first specials, and the ids of its sentinels, ``<extra_id_0>`` first.

    mT5 has its sentinels among the pieces of its SentencePiece model, T5 after them, both in descending
    order.

    Raises:
        UserError: there is no SentencePiece model, or it is not T5's or not for a model with ``num_rows``
            embeddings.
    """
    path = files.find_spm_path(folder)
    model = tokenizer.read_spm_model(path)
    names = [p.piece for p in model.pieces]
    specials = [*itertools.takewhile(lambda name: name in (*T5_SPECIALS, "<s>"), names)]
    if not {*T5_SPECIALS} <= {*specials}:
        raise UserError(f"{path} begins with {' '.join(names[:3])}", f"{' '.join(T5_SPECIALS)}, as T5's")
    sentinels = {
        int(hit[1]): number for number, name in enumerate(names) if (hit := _SENTINEL.fullmatch(name))
    }
    end_of_pieces = min(sentinels.values(), default=len(names))
    if not sentinels:
        num_extra = int(read_optional_json(folder / SETTINGS_FILE).get("extra_ids", NUM_SENTINELS))
        sentinels = {number: len(names) + num_extra - 1 - number for number in range(num_extra)}
    num_ids = max(len(names), 1 + max(sentinels.values(), default=0))
    if sorted(sentinels) != list(range(len(sentinels))) or end_of_pieces + len(sentinels) != num_ids:
        raise UserError(
            f"{path} has {len(sentinels)} sentinels among its pieces", "<extra_id_0> and on, at its end"
        )
    if not num_ids <= num_rows < num_ids + ROW_MULTIPLE:
        files.check_rows(num_rows, num_ids, folder)
    pieces = names[len(specials) : end_of_pieces]
    if tokens := files.read_tokens(folder):
        files.check_same_pieces(tokens[len(specials) : end_of_pieces], pieces, folder / "tokenizer.json")
    _with_our_specials(model, len(specials), end_of_pieces)
    return files.vocabulary_from_spm(model), specials, [sentinels[i] for i in range(len(sentinels))]


def order_of_ids(
    num_pieces: int, num_langs: int, sentinels: Sequence[int], specials: Sequence[str] = T5_SPECIALS
) -> Int[Tensor, " vocab"]:
    """Return the id in T5's vocabulary of each of our ids, int64 (V,).

    Args:
        num_pieces: number of pieces.
        num_langs: number of languages.
        sentinels: ids of their sentinels.
        specials: their first tokens in order; umT5 has ``<s>`` among them.
    """
    pad, eos, unk = (specials.index(name) for name in T5_SPECIALS)
    pieces = range(len(specials), len(specials) + num_pieces)
    return torch.tensor([pad, pad, eos, unk, *pieces, pad, *[pad] * num_langs, *sentinels])


def _with_our_specials(model: Any, num_specials: int, end_of_pieces: int) -> None:
    """Convert T5's SentencePiece model to one with our specials and without sentinels."""
    piece_types = type(model.pieces[0])
    del model.pieces[end_of_pieces:]
    del model.pieces[len(T5_SPECIALS) : num_specials]
    for number, (name, kind) in enumerate(
        (("<unk>", piece_types.UNKNOWN), ("<s>", piece_types.CONTROL), ("</s>", piece_types.CONTROL))
    ):
        model.pieces[number].piece, model.pieces[number].type = name, kind
    trainer_spec = model.trainer_spec
    trainer_spec.unk_id, trainer_spec.bos_id, trainer_spec.eos_id, trainer_spec.pad_id = 0, 1, 2, -1
    trainer_spec.unk_piece, trainer_spec.bos_piece, trainer_spec.eos_piece = "<unk>", "<s>", "</s>"
    trainer_spec.vocab_size = len(model.pieces)


def _scales_output(config: Mapping[str, Any]) -> bool:
    """Return whether the output is divided by the square root of the width.

    In T5 1.0, which omits the setting for ties, and in umT5 with a tied output.
    """
    if config["model_type"] == "mt5":
        return False
    return bool(config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True)))


def _head_dim(shape: Seq2SeqConfig) -> int:
    return shape.head_dim or shape.dim // shape.heads


def _scale_queries(state: Mapping[str, Tensor], shape: Seq2SeqConfig, factor: float) -> dict[str, Tensor]:
    scaled_weights, query_width = dict(state), shape.heads * _head_dim(shape)
    for name, weight in state.items():
        if name.endswith(".qkv.weight"):
            scaled_weights[name] = torch.cat([weight[:query_width] * factor, weight[query_width:]])
        elif name.endswith(".cross_query.weight"):
            scaled_weights[name] = weight * factor
    return scaled_weights
