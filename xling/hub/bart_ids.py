"""Vocabularies of BART's family in transformers: the pieces, and the id of each of them, of languages and of specials.

mBART, mBART-50 and NLLB have SentencePiece's pieces in their order, then languages and ``<mask>``. M2M-100 has a
list of pieces in another order and no ``<mask>``. BART has a byte-level vocabulary and no languages: each
language starts as a copy of ``<s>``, which BART's texts begin with. NLLB saved by transformers 5 has merges
instead of a SentencePiece model. Merges are kept as they are (`xling.text.tokenizers.transformers_tokenizer`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from xling.array_types import Int
from xling.core import languages
from xling.core.errors import UserError
from xling.hub import files, mbart, tokenizer, transformers_wrapper
from xling.hub.source import read_json, read_optional_json
from xling.models.generate.decode import BOS, UNK

MBART50_LANGS = (
    *mbart.MBART25_LANGS,
    "af_ZA", "az_AZ", "bn_IN", "fa_IR", "he_IL", "hr_HR", "id_ID", "ka_GE", "km_KH", "mk_MK", "ml_IN",
    "mn_MN", "mr_IN", "pl_PL", "ps_AF", "pt_XX", "sv_SE", "sw_KE", "ta_IN", "te_IN", "th_TH", "tl_XX", "uk_UA", "ur_PK",
    "xh_ZA", "gl_ES", "sl_SI",
)  # fmt: skip
"""The language tokens of mBART-50, in their order (Tang et al. 2020)."""
M2M_LANGS = (
    "af", "am", "ar", "ast", "az", "ba", "be", "bg", "bn", "br", "bs", "ca", "ceb", "cs", "cy", "da", "de", "el",
    "en", "es", "et", "fa", "ff", "fi", "fr", "fy", "ga", "gd", "gl", "gu", "ha", "he", "hi", "hr", "ht", "hu",
    "hy", "id", "ig", "ilo", "is", "it", "ja", "jv", "ka", "kk", "km", "kn", "ko", "lb", "lg", "ln", "lo", "lt",
    "lv", "mg", "mk", "ml", "mn", "mr", "ms", "my", "ne", "nl", "no", "ns", "oc", "or", "pa", "pl", "ps", "pt",
    "ro", "ru", "sd", "si", "sk", "sl", "so", "sq", "sr", "ss", "su", "sv", "sw", "ta", "th", "tl", "tn", "tr",
    "uk", "ur", "uz", "vi", "wo", "xh", "yi", "yo", "zh", "zu",
)  # fmt: skip
WMT21_LANGS = ("en", "ha", "is", "ja", "cs", "ru", "zh", "de")
"""The language tokens of M2M-100 (Fan et al. 2020) and of its successors for WMT21, in their order."""
VOCAB_FILE = "vocab.json"
MAX_UNUSED_ROWS = 128  # most rows that a matrix may have after the last token


class IdMapping(NamedTuple):
    """The meaning of a model's ids.

    Attributes:
        order: their id for each of our ids, int64 (V,).
        langs: languages that have a token.
        source_lang: whether sources of a T5 end with it.
    """

    vocabulary: files.ImportedVocabulary
    order: Int[Tensor, " vocab"]
    langs: list[str]
    source_lang: bool = False


def read_id_mapping(
    folder: Path,
    model_type: str,
    num_rows: int,
    langs: Sequence[str],
    default_langs: Sequence[str] = mbart.MBART25_LANGS,
) -> IdMapping:
    """Return the vocabulary of a directory and the meaning of its ids.

    Args:
        folder: the directory.
        model_type: type of the model in transformers: ``mbart``, ``m2m_100`` or ``bart``.
        num_rows: rows of its embeddings.
        langs: languages in the order of their tokens, if the directory does not name them. For BART the
            languages that get a token, English if empty.
        default_langs: languages of a model that does not name them.

    Raises:
        UserError: the vocabulary is missing, damaged or of another model, or a token is not understood.
    """
    if model_type == "m2m_100" and (folder / VOCAB_FILE).is_file():
        return _read_m2m(folder, num_rows, langs)
    if _has_merges(folder) and (model_type == "bart" or not files.spm_paths(folder)):
        return _read_with_merges(folder, num_rows, langs, model_type)
    pieces = files.read_sentencepiece(folder)
    token_of_id = files.read_tokens(folder)
    if token_of_id:
        pieces = _remove_pieces(pieces, default_langs) if not files.spm_paths(folder) else pieces
        if not len(token_of_id) <= num_rows < len(token_of_id) + MAX_UNUSED_ROWS or model_type != "m2m_100":
            files.check_rows(num_rows, len(token_of_id), folder)
        files.check_tokenizer(folder, pieces.pieces)
    else:
        token_of_id = _token_of_each_id(pieces.pieces, num_rows, langs or default_langs, folder)
    return IdMapping(pieces, *mbart.order_of_ids(token_of_id, len(pieces.pieces), folder))


def _has_merges(folder: Path) -> bool:
    if not (folder / "tokenizer.json").is_file():
        return (folder / "merges.txt").is_file()
    model_type = (read_json(folder / "tokenizer.json").get("model") or {}).get("type")
    return model_type == "BPE"


def _remove_pieces(vocabulary: files.ImportedVocabulary, names: Collection[str]) -> files.ImportedVocabulary:
    """Return a vocabulary rebuilt from ``tokenizer.json`` without languages and ``<mask>`` among its pieces."""
    model = vocabulary.spm
    dropped = {*names, tokenizer.MASK_TOKEN}
    for number in reversed(range(tokenizer.NUM_SPM_SPECIALS, len(model.pieces))):
        if model.pieces[number].piece in dropped:
            del model.pieces[number]
    model.trainer_spec.vocab_size = len(model.pieces)
    return files.vocabulary_from_spm(model)


def _token_of_each_id(pieces: list[str], num_rows: int, names: Sequence[str], folder: Path) -> list[str]:
    """List the meaning of each id of a model without ``tokenizer.json``: pieces, languages and ``<mask>``."""
    first_tokens = [*tokenizer.SPECIAL_TOKENS, *pieces]
    if num_rows != len(first_tokens) + len(names) + 1:
        raise UserError(
            f"{folder} has {num_rows - len(first_tokens) - 1} tokens after its pieces, for {len(names)} languages",
            "as many languages as tokens",
            "give its tokenizer.json, or langs= in the order of the tokens",
        )
    return [*first_tokens, *names, tokenizer.MASK_TOKEN]


def _read_m2m(folder: Path, num_rows: int, langs: Sequence[str]) -> IdMapping:
    """Return the ids of M2M-100: ``vocab.json`` numbers the pieces, the languages follow."""
    vocabulary, ids_of_pieces = files.read_sentencepiece(folder), read_json(folder / VOCAB_FILE)
    if [ids_of_pieces.get(name) for name in tokenizer.SPECIAL_TOKENS] != [
        *range(len(tokenizer.SPECIAL_TOKENS))
    ]:
        raise UserError(
            f"{folder / VOCAB_FILE} does not begin with {' '.join(tokenizer.SPECIAL_TOKENS)}",
            "M2M-100's list",
        )
    of_wmt21 = read_optional_json(folder / "tokenizer_config.json").get("language_codes") == "wmt21"
    lang_tokens = langs or (WMT21_LANGS if of_wmt21 else M2M_LANGS)
    codes = [languages.get(name).code for name in lang_tokens]
    if not len(ids_of_pieces) + len(codes) <= num_rows < len(ids_of_pieces) + len(codes) + MAX_UNUSED_ROWS:
        raise UserError(
            f"{folder} has {num_rows} embeddings for {len(ids_of_pieces)} pieces and {len(codes)} languages",
            "weights and tokenizer of one model",
            "give langs= in the order of the tokens",
        )
    # A piece that is not in the list is unknown to the model.
    pieces = [ids_of_pieces.get(piece, UNK) for piece in vocabulary.pieces]
    order = [
        *range(len(tokenizer.SPECIAL_TOKENS)),
        *pieces,
        UNK,
        *range(len(ids_of_pieces), len(ids_of_pieces) + len(codes)),
    ]
    return IdMapping(vocabulary, torch.tensor(order), codes)


def _read_with_merges(folder: Path, num_rows: int, langs: Sequence[str], model_type: str) -> IdMapping:
    """Return the ids of BART, and of NLLB without a SentencePiece model."""
    tokens = transformers_wrapper.load_tokenizer(folder, is_encoders=False)
    files.check_largest_id(tokens.order, num_rows, folder)
    if model_type == "bart":
        codes = list(langs) or ["en"]
        lang_ids = [BOS] * len(codes)
    else:
        id_of_lang = _find_lang_tokens(tokens, folder)
        codes, lang_ids = list(id_of_lang), list(id_of_lang.values())
        piece_indices = [n for n, number in enumerate(tokens.order) if number not in set(lang_ids)]
        names = dict(zip(tokens.order[4:-1], tokens.names, strict=True))
        order = [tokens.order[n] for n in piece_indices]
        tokens = transformers_wrapper.OrderedTokenizer(
            tokens.text, order, [names[number] for number in order[4:-1]]
        )
    vocabulary = files.ImportedVocabulary(
        tokens.names, lambda out: transformers_wrapper.write_vocabulary(tokens, out)
    )
    return IdMapping(vocabulary, torch.tensor([*tokens.order, *lang_ids]), codes)


def _find_lang_tokens(tokens: transformers_wrapper.OrderedTokenizer, folder: Path) -> dict[str, int]:
    """Return the languages that have a token, and its id, in the order of the ids.

    Raises:
        UserError: there are none.
    """
    settings = read_json(folder / "tokenizer.json")
    special_ids = {token["id"] for token in settings.get("added_tokens", []) if token.get("special")}
    id_of_lang: dict[str, int] = {}
    for number, name in sorted(zip(tokens.order[4:-1], tokens.names, strict=True)):
        if number in special_ids:
            id_of_lang[languages.get(name.strip("_[]")).code] = number
    if not id_of_lang:
        raise UserError(
            f"{folder} has no language tokens", "a translation model", "give its sentencepiece.bpe.model"
        )
    return id_of_lang


def reads_lang_first(config: Mapping[str, Any], folder: Path) -> bool:
    """Return whether a model reads ``[lang] text </s>`` and its decoder ``</s> [lang] text``: all but mBART (cc25).

    Raises:
        UserError: an NLLB was fine-tuned on ``text </s> [lang]``.
    """
    settings = (config, read_optional_json(folder / "tokenizer_config.json"))
    if settings[1].get("legacy_behaviour"):
        raise UserError(
            f"{folder}/tokenizer_config.json: legacy_behaviour=true, by which the language stands behind a source",
            "legacy_behaviour=false, as NLLB was trained",
            "xling has no such models: fine-tune NLLB without it",
        )
    classes = " ".join(str(each.get("tokenizer_class")) for each in settings)
    if "MBart50" in classes or "MBartTokenizer" in classes:
        return "MBart50" in classes  # whatever its decoder starts with
    template = (read_optional_json(folder / "tokenizer.json").get("post_processor") or {}).get("single", [])
    has_lang_behind = template and "SpecialToken" in template[-1] and "</s>" not in str(template[-1])
    return config.get("decoder_start_token_id") == 2 and not has_lang_behind
