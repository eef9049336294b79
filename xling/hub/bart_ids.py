"""Vocabularies of BART's family in transformers: the pieces, and the id of each of them, of languages and of specials.

mBART, mBART-50 and NLLB have SentencePiece's pieces in their order, then languages and ``<mask>``. M2M-100 has a
list of pieces in another order and no ``<mask>``. BART has a byte-level vocabulary and no languages: each
language starts as a copy of ``<s>``, which BART's texts begin with. NLLB saved by transformers 5 has merges
instead of a SentencePiece model. Merges are kept as they are (`xling.text.tokenizers.transformers_tokenizer`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from xling.core import languages
from xling.core.errors import UserError
from xling.hub import files, mbart, tokenizer, transformers_wrapper
from xling.hub.source import read_json
from xling.models.generate.decode import BOS, UNK

if TYPE_CHECKING:
    from jaxtyping import Int

CC50 = (
    *mbart.CC25, "af_ZA", "az_AZ", "bn_IN", "fa_IR", "he_IL", "hr_HR", "id_ID", "ka_GE", "km_KH", "mk_MK", "ml_IN",
    "mn_MN", "mr_IN", "pl_PL", "ps_AF", "pt_XX", "sv_SE", "sw_KE", "ta_IN", "te_IN", "th_TH", "tl_XX", "uk_UA", "ur_PK",
    "xh_ZA", "gl_ES", "sl_SI",
)  # fmt: skip
"""The language tokens of mBART-50, in their order (Tang et al. 2020)."""
M2M = (
    "af", "am", "ar", "ast", "az", "ba", "be", "bg", "bn", "br", "bs", "ca", "ceb", "cs", "cy", "da", "de", "el",
    "en", "es", "et", "fa", "ff", "fi", "fr", "fy", "ga", "gd", "gl", "gu", "ha", "he", "hi", "hr", "ht", "hu",
    "hy", "id", "ig", "ilo", "is", "it", "ja", "jv", "ka", "kk", "km", "kn", "ko", "lb", "lg", "ln", "lo", "lt",
    "lv", "mg", "mk", "ml", "mn", "mr", "ms", "my", "ne", "nl", "no", "ns", "oc", "or", "pa", "pl", "ps", "pt",
    "ro", "ru", "sd", "si", "sk", "sl", "so", "sq", "sr", "ss", "su", "sv", "sw", "ta", "th", "tl", "tn", "tr",
    "uk", "ur", "uz", "vi", "wo", "xh", "yi", "yo", "zh", "zu",
)  # fmt: skip
WMT21 = ("en", "ha", "is", "ja", "cs", "ru", "zh", "de")
"""The language tokens of M2M-100 (Fan et al. 2020) and of its successors for WMT21, in their order."""
VOCAB = "vocab.json"
UNUSED = 128  # most rows that a matrix may have after the last token


class Ids(NamedTuple):
    """The meaning of a model's ids.

    Attributes:
        order: their id for each of our ids, int64 (V,).
        langs: languages that have a token.
    """

    vocabulary: files.Vocabulary
    order: Int[Tensor, " vocab"]
    langs: list[str]


def ids_of(
    folder: Path, kind: str, rows: int, langs: Sequence[str], names: Sequence[str] = mbart.CC25
) -> Ids:
    """Return the vocabulary of a directory and the meaning of its ids.

    Args:
        folder: the directory.
        kind: type of the model in transformers: ``mbart``, ``m2m_100`` or ``bart``.
        rows: rows of its embeddings.
        langs: languages in the order of their tokens, if the directory does not name them. For BART the
            languages that get a token, English if empty.
        names: languages of a model that does not name them.

    Raises:
        UserError: the vocabulary is missing, damaged or of another model, or a token is not understood.
    """
    if kind == "m2m_100" and (folder / VOCAB).is_file():
        return _m2m(folder, rows, langs)
    if _merges(folder) and (kind == "bart" or not _has_sentencepiece(folder)):
        return _with_merges(folder, rows, langs, kind)
    pieces = files.sentencepiece(folder)
    listed = files.tokens_of(folder)
    if listed:
        pieces = _without(pieces, names) if not _has_sentencepiece(folder) else pieces
        if not len(listed) <= rows < len(listed) + UNUSED or kind != "m2m_100":
            files.check_rows(rows, len(listed), folder)
        first = len(tokenizer.SPECIALS)
        files.compare(listed[first : first + len(pieces.pieces)], pieces.pieces, folder / "tokenizer.json")
    else:
        listed = _listed(pieces.pieces, rows, langs or names, folder)
    return Ids(pieces, *mbart.our_order(listed, len(pieces.pieces), folder))


def _has_sentencepiece(folder: Path) -> bool:
    return any((folder / name).is_file() for name in files.SPM_NAMES)


def _merges(folder: Path) -> bool:
    """Return whether the tokenizer joins pieces by merges."""
    if not (folder / "tokenizer.json").is_file():
        return (folder / "merges.txt").is_file()
    kind = (read_json(folder / "tokenizer.json").get("model") or {}).get("type")
    return kind == "BPE"


def _without(vocabulary: files.Vocabulary, names: Collection[str]) -> files.Vocabulary:
    """Return a vocabulary rebuilt from ``tokenizer.json`` without languages and ``<mask>`` among its pieces."""
    model = vocabulary.spm
    drop = {*names, tokenizer.MASK}
    for number in reversed(range(tokenizer.NUM_SPM_SPECIALS, len(model.pieces))):
        if model.pieces[number].piece in drop:
            del model.pieces[number]
    model.trainer_spec.vocab_size = len(model.pieces)
    return files.vocabulary_of(model)


def _listed(pieces: list[str], rows: int, names: Sequence[str], folder: Path) -> list[str]:
    """List the meaning of each id of a model without ``tokenizer.json``: pieces, languages and ``<mask>``."""
    head = [*tokenizer.SPECIALS, *pieces]
    if rows != len(head) + len(names) + 1:
        raise UserError(
            f"{folder} has {rows - len(head) - 1} tokens after its pieces, for {len(names)} languages",
            "as many languages as tokens",
            "give its tokenizer.json, or langs= in the order of the tokens",
        )
    return [*head, *names, tokenizer.MASK]


def _m2m(folder: Path, rows: int, langs: Sequence[str]) -> Ids:
    """Return the ids of M2M-100: ``vocab.json`` numbers the pieces, the languages follow."""
    vocabulary, known = files.sentencepiece(folder), read_json(folder / VOCAB)
    if [known.get(name) for name in tokenizer.SPECIALS] != [*range(len(tokenizer.SPECIALS))]:
        raise UserError(
            f"{folder / VOCAB} does not begin with {' '.join(tokenizer.SPECIALS)}", "M2M-100's list"
        )
    names = list(langs) or _named_languages(folder)
    codes = [languages.get(name).code for name in names]
    if not len(known) + len(codes) <= rows < len(known) + len(codes) + UNUSED:
        raise UserError(
            f"{folder} has {rows} embeddings for {len(known)} pieces and {len(codes)} languages",
            "weights and tokenizer of one model",
            "give langs= in the order of the tokens",
        )
    # A piece that is not in the list is unknown to the model.
    pieces = [known.get(piece, UNK) for piece in vocabulary.pieces]
    order = [*range(len(tokenizer.SPECIALS)), *pieces, UNK, *range(len(known), len(known) + len(codes))]
    return Ids(vocabulary, torch.tensor(order), codes)


def _named_languages(folder: Path) -> list[str]:
    """Return the languages of M2M-100 in the order of their tokens."""
    path = folder / "tokenizer_config.json"
    settings = read_json(path) if path.is_file() else {}
    return list(WMT21 if settings.get("language_codes") == "wmt21" else M2M)


def _with_merges(folder: Path, rows: int, langs: Sequence[str], kind: str) -> Ids:
    """Return the ids of BART, and of NLLB without a SentencePiece model."""
    tokens = transformers_wrapper.tokens_of(folder)
    if max(tokens.order) >= rows:
        raise UserError(
            f"{folder} has {rows} embeddings, and its tokenizer the id {max(tokens.order)}",
            "weights and tokenizer of one model",
        )
    if kind == "bart":
        codes = list(langs) or ["en"]
        own = [BOS] * len(codes)
    else:
        named = _languages_among(tokens, folder)
        codes, own = list(named), list(named.values())
        kept = [n for n, number in enumerate(tokens.order) if number not in set(own)]
        names = dict(zip(tokens.order[4:-1], tokens.names, strict=True))
        order = [tokens.order[n] for n in kept]
        tokens = transformers_wrapper.Tokens(tokens.text, order, [names[number] for number in order[4:-1]])
    vocabulary = files.Vocabulary(
        tokens.names, lambda out: transformers_wrapper.write_vocabulary(tokens, out)
    )
    return Ids(vocabulary, torch.tensor([*tokens.order, *own]), codes)


def _languages_among(tokens: transformers_wrapper.Tokens, folder: Path) -> dict[str, int]:
    """Return the languages that have a token, and its id, in the order of the ids.

    Raises:
        UserError: there are none.
    """
    settings = read_json(folder / "tokenizer.json")
    ids = {token["id"] for token in settings.get("added_tokens", []) if token.get("special")}
    known: dict[str, int] = {}
    for number, name in sorted(zip(tokens.order[4:-1], tokens.names, strict=True)):
        if number in ids:
            known[languages.get(name.strip("_[]")).code] = number
    if not known:
        raise UserError(
            f"{folder} has no language tokens", "a translation model", "give its sentencepiece.bpe.model"
        )
    return known


def reading(config: Mapping[str, Any], folder: Path) -> bool:
    """Return whether a model reads ``[lang] text </s>`` and its decoder ``</s> [lang] text``: all but mBART (cc25)."""
    told = folder / "tokenizer_config.json"
    names = (
        config.get("tokenizer_class"),
        read_json(told).get("tokenizer_class") if told.is_file() else "",
    )
    return config.get("decoder_start_token_id") == 2 or any("MBart50" in str(name) for name in names)
