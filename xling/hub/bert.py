"""Import of BERT and mBERT as our encoder.

The same blocks, with norms of 1e-12, segments and a WordPiece vocabulary. Some have the tokenizer of another model
(multilingual MiniLM and E5 that of XLM-R), which is kept as it is.

Rows are put into our order: ``[CLS] [PAD] [SEP] [UNK]`` are 0 to 3, the pieces follow unchanged, ``[MASK]``
is last. The pooler and next-sentence prediction are dropped. Source: Devlin et al. 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xling.array_types import Int, Shaped
from xling.core.errors import UserError
from xling.core.output.command_result import tell
from xling.hub import configs, files, layouts, transformers_wrapper
from xling.hub.source import read_json, read_optional_json
from xling.models.network.encoder import EncoderConfig
from xling.text.tokenizers import wordpiece
from xling.text.vocab import WORDPIECE

MOST_PADDING = 128  # rows by which programs round a matrix up
_PREFIXES = ("bert.", "cls.")
_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer")
"""Tokenizers of transformers that do what BERT's does; BertJapaneseTokenizer does not."""


def read_bert(
    config: Mapping[str, Any], state: Mapping[str, Shaped[Tensor, " ..."]], folder: Path
) -> tuple[EncoderConfig, dict[str, Shaped[Tensor, " ..."]], files.ImportedVocabulary]:
    """Return shape, weights and vocabulary of a BERT in our format.

    Args:
        state: the tensors of a ``BertModel``, ``BertForMaskedLM`` or ``BertForPreTraining``.
        folder: with ``tokenizer.json`` or ``vocab.txt``.

    Raises:
        UserError: the model has a part that ours lack, a weight is missing, or the vocabulary is missing or
            differs.
    """
    configs.check_config(config, "bert", folder)
    if not any(name.startswith(_PREFIXES) for name in state):
        state = {f"bert.{name}": tensor for name, tensor in state.items()}
    # Old files name the two parts of a norm as TensorFlow does.
    state = {
        name.replace(".gamma", ".weight").replace(".beta", ".bias"): tensor for name, tensor in state.items()
    }
    output, tokens = (
        state.get(f"{name}.weight") for name in ("cls.predictions.decoder", layouts.BERT.tokens)
    )
    files.check_tied(output, tokens, folder)
    weights = layouts.from_layout(state, layouts.BERT, str(folder))
    num_rows = len(weights["encoder.tokens.weight"])
    vocabulary, order = read_vocabulary(folder, num_rows)
    if unused := num_rows - len(order):
        tell(
            f"xling: {folder}: {unused} of {num_rows} rows of its embeddings belong to no token of its tokenizer"
        )
    for name in ("encoder.tokens.weight", "lm_head.bias"):
        weights[name] = weights[name][order]
    shape = EncoderConfig(
        **files.read_sizes(config),
        norm_eps=float(config.get("layer_norm_eps", 1e-12)),
        segment_embeddings=layouts.SEGMENT_EMBEDDINGS in weights,
    )
    return shape, weights, vocabulary


def read_vocabulary(folder: Path, num_rows: int) -> tuple[files.ImportedVocabulary, Int[Tensor, " vocab"]]:
    """Return the WordPiece vocabulary of a directory, and its id for each of our ids, int64 (V,).

    Raises:
        UserError: there is none, or its ids are not those of the model's ``num_rows``.
    """
    if has_other_tokenizer(folder):
        return _read_other_tokenizer(folder, num_rows)
    tokenizer_tokens, path = files.read_tokens(folder), folder / "vocab.txt"
    tokens = tokenizer_tokens if tokenizer_tokens and not path.is_file() else _read_pieces(path)
    if tokenizer_tokens and tokenizer_tokens != tokens:
        raise UserError(
            f"{folder}: tokenizer.json and vocab.txt differ", "the same pieces", "give the files of one model"
        )
    specials = (*wordpiece.SPECIALS, wordpiece.MASK)
    if missing := [name for name in specials if name not in tokens]:
        raise UserError(
            f"{folder}: its vocabulary has no {', '.join(missing)}",
            "BERT's special pieces in the vocabulary",
            "give the vocabulary of this model",
        )
    if not 0 <= num_rows - len(tokens) < MOST_PADDING or len(set(tokens)) != len(tokens):
        raise UserError(
            f"{folder} has {num_rows} embeddings, and its vocabulary {len(set(tokens))} different pieces",
            "weights and vocabulary of one model",
            "give the vocabulary that the weights were trained with",
        )
    ids = {name: number for number, name in enumerate(tokens)}
    pieces = [name for name in tokens if name not in specials]
    if bad_pieces := [piece for piece in pieces if not piece or piece.split() != [piece]]:
        raise UserError(
            f"{folder}: piece {bad_pieces[0]!r} of the vocabulary is empty or has a space",
            "pieces without spaces",
            "check that vocab.txt has one piece per line",
        )
    lowercase, strip_accents, split_chinese = _read_normaliser(folder, pieces)
    tokenizer = wordpiece.build_tokenizer(pieces, lowercase, strip_accents, split_chinese)

    def write(out: Path) -> None:
        tokenizer.save(str(out / WORDPIECE))
        files.write_dictionary(out, pieces)

    order = [ids[name] for name in (*wordpiece.SPECIALS, *pieces, wordpiece.MASK)]
    return files.ImportedVocabulary(pieces, write), torch.tensor(order)


def has_other_tokenizer(folder: Path) -> bool:
    """Return whether the tokenizer does other things than BERT's, or has tokens that stand beside its pieces."""
    path = folder / "tokenizer.json"
    config = read_optional_json(folder / "tokenizer_config.json")
    if files.added_tokens(folder) - {*wordpiece.SPECIALS, wordpiece.MASK}:
        return True
    if not path.is_file():
        return not _has_berts_class(config) or any((folder / name).is_file() for name in files.SPM_NAMES)
    settings = read_json(path)
    model, normaliser, splitting = (
        settings.get(key) or {} for key in ("model", "normalizer", "pre_tokenizer")
    )
    plain = {
        "continuing_subword_prefix": wordpiece.CONTINUATION,
        "max_input_chars_per_word": wordpiece.MAX_WORD_CHARS,
        "unk_token": wordpiece.UNK,
        "type": "WordPiece",
    }
    return not (
        all(model.get(key, value) == value for key, value in plain.items())
        and normaliser.get("type") == "BertNormalizer"
        and normaliser.get("clean_text", True)
        and splitting.get("type") == "BertPreTokenizer"
        and not _contradictions(folder, config, normaliser)
    )


def _contradictions(folder: Path, config: Mapping[str, Any], normaliser: Mapping[str, Any]) -> list[str]:
    """Return the settings that ``tokenizer_config.json`` gives otherwise than ``tokenizer.json``, and tell of them."""
    names = {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "tokenize_chinese_chars": "handle_chinese_chars",
    }
    given = {
        name: config[name] for name in names if config.get(name) is not None and _has_berts_class(config)
    }
    other = [f"{name}={value}" for name, value in given.items() if value != normaliser.get(names[name])]
    if other:
        tell(
            f"xling: {folder}: tokenizer_config.json says {', '.join(other)}, and tokenizer.json says otherwise; the "
            "first is read, as transformers does"
        )
    return other


def _has_berts_class(config: Mapping[str, Any]) -> bool:
    return str(config.get("tokenizer_class", _CLASSES[0])).removesuffix("Fast") in _CLASSES


def _read_other_tokenizer(
    folder: Path, num_rows: int
) -> tuple[files.ImportedVocabulary, Int[Tensor, " vocab"]]:
    tokens = transformers_wrapper.load_tokenizer(folder)
    files.check_largest_id(tokens.order, num_rows, folder)
    write = partial(transformers_wrapper.write_vocabulary, tokens)
    return files.ImportedVocabulary(tokens.names, write), torch.tensor(tokens.order)


def _read_normaliser(folder: Path, pieces: list[str]) -> tuple[bool, bool | None, bool]:
    """Return whether text is lower-cased, loses its accents, and has its Chinese characters separated.

    The values come from ``tokenizer.json``, else from ``tokenizer_config.json``. If neither has them, a
    vocabulary with capitals means text that was not lower-cased.
    """
    path, config = folder / "tokenizer.json", read_optional_json(folder / "tokenizer_config.json")
    if path.is_file():
        normaliser = read_json(path)["normalizer"]
        if not normaliser["lowercase"] and _has_berts_class(config) and "do_lower_case" not in config:
            tell(
                f"xling: {folder}: texts keep their case, as tokenizer.json says; transformers lower-cases them where "
                "tokenizer_config.json has no do_lower_case"
            )
        return (
            bool(normaliser["lowercase"]),
            normaliser.get("strip_accents"),
            bool(normaliser["handle_chinese_chars"]),
        )
    has_capitals = any(piece != piece.lower() and not piece.startswith("[") for piece in pieces)
    lowercase = bool(config.get("do_lower_case", not has_capitals))
    if "do_lower_case" not in config and not lowercase:
        tell(
            f"xling: {folder}: texts keep their case, as vocab.txt has capitals; transformers lower-cases them where "
            "tokenizer_config.json has no do_lower_case"
        )
    return lowercase, config.get("strip_accents"), bool(config.get("tokenize_chinese_chars", True))


def _read_pieces(path: Path) -> list[str]:
    if not path.is_file():
        raise UserError(f"no vocabulary in {path.parent}", "tokenizer.json or vocab.txt")
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
