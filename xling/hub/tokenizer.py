"""Fast tokenizers with our ids, built from the vocabulary of a model."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram

from xling.core.errors import UserError
from xling.data.symbols import Symbols
from xling.hub import charsmap
from xling.text import vocab
from xling.text.tokenizers import wordpiece

SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
MASK_TOKEN = "<mask>"
NUM_SPM_SPECIALS = 3
UNIGRAM_MODEL, BPE_MODEL = 1, 2
NORMAL_PIECE, UNKNOWN_PIECE, CONTROL_PIECE, BYTE_PIECE = 1, 2, 3, 6


def read_spm_model(path: Path) -> Any:
    """Read the SentencePiece model in a file, as its protocol buffer.

    Raises:
        UserError: the file does not exist, or is not such a model.
    """
    model = proto.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except Exception as error:
        raise UserError(
            f"{path} is not a SentencePiece model: {error}", fix="use the file of the run"
        ) from None
    if len(model.pieces) <= NUM_SPM_SPECIALS:
        raise UserError(
            f"{path} is not a SentencePiece model: it has only {len(model.pieces)} pieces",
            fix="use the file of the run",
        )
    return model


def build_unigram_model(pieces: Iterable[tuple[str, float]], byte_fallback: bool) -> Any:
    """Build a SentencePiece model with the specials ``<unk> <s> </s>`` and pieces with their scores.

    With ``byte_fallback`` a piece such as ``<0x0A>`` is a byte.
    """
    model = proto.ModelProto()
    for name, kind in (("<unk>", UNKNOWN_PIECE), ("<s>", CONTROL_PIECE), ("</s>", CONTROL_PIECE)):
        model.pieces.add(piece=name, score=0.0, type=kind)
    for piece, score in pieces:
        is_byte = byte_fallback and len(piece) == 6 and piece.startswith("<0x")
        model.pieces.add(piece=piece, score=score, type=BYTE_PIECE if is_byte else NORMAL_PIECE)
    model.trainer_spec.model_type, model.trainer_spec.vocab_size = UNIGRAM_MODEL, len(model.pieces)
    model.trainer_spec.byte_fallback, model.trainer_spec.pad_id = byte_fallback, -1
    return model


def build_byte_model() -> Any:
    """Build a SentencePiece model of the 256 bytes, whose specials are ``<unk> <s> </s>``: every text is its UTF-8."""
    # SentencePiece wants one other piece: these code points are no characters, so no text has them.
    pieces = [*(f"<0x{number:02X}>" for number in range(256)), "\ufdd0" * 8]
    model = build_unigram_model(((piece, 0.0) for piece in pieces), byte_fallback=True)
    normalizer_spec = model.normalizer_spec
    normalizer_spec.add_dummy_prefix = normalizer_spec.remove_extra_whitespaces = (
        normalizer_spec.escape_whitespaces
    ) = False
    return model


def build_for_model(directory: Path, symbols: Symbols | None = None, has_segments: bool = False) -> Tokenizer:
    """Build the fast tokenizer of a published model.

    Args:
        directory: directory with its vocabulary.
        symbols: symbols of a model with a decoder. Language tokens and sentinels follow ``<mask>``. A text
            ends in ``</s>`` and the language given as its pair: ``tokenizer(text, "[sw]")``; with ``lang_first``
            it begins with the language. It only ends in ``</s>`` if sources do not name their language.
        has_segments: whether the second text of a pair is a separate segment.

    Raises:
        UserError: as `build_from_spm`.
    """
    if (directory / vocab.WORDPIECE).is_file():
        if symbols is not None:
            raise UserError(f"{directory} has a decoder and a WordPiece vocabulary", "a SentencePiece one")
        return _build_wordpiece(directory / vocab.WORDPIECE, has_segments)
    tokenizer = build_from_spm(directory / vocab.SPM_MODEL, symbols.names() if symbols else (), has_segments)
    if symbols is not None:
        lang = symbols.names()[symbols.default]
        special_ids = [(name, tokenizer.token_to_id(name)) for name in ("</s>", lang)]
        single, pair = (f"$A </s> {lang}", "$A </s> $B")
        if symbols.lang_first:
            single, pair = f"{lang} $A </s>", "$B $A </s>"
        if not symbols.source_lang:
            single, pair = "$A </s>", "$A </s> $B </s>"
        tokenizer.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=special_ids
        )
    return tokenizer


def _build_wordpiece(path: Path, has_segments: bool) -> Tokenizer:
    """Build BERT's tokenizer with our ids and our form of a pair."""
    tokenizer = Tokenizer.from_file(str(path))
    cls, sep = ((name, tokenizer.token_to_id(name)) for name in (wordpiece.CLS, wordpiece.SEP))
    tokenizer.post_processor = pair_template(cls, sep, has_segments)
    names = (*wordpiece.SPECIALS, wordpiece.MASK)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    return tokenizer


def pair_template(
    begin: tuple[str, int | None], end: tuple[str, int | None], has_segments: bool
) -> processors.TemplateProcessing:
    """Build the template of a text and a pair with their specials, the second text as segment 1 or 0."""
    (begin_token, _), (end_token, _), segment = begin, end, int(has_segments)
    second = f"{end_token}:{segment} $B:{segment} {end_token}:{segment}"
    return processors.TemplateProcessing(
        single=f"{begin_token} $A {end_token}",
        pair=f"{begin_token} $A {end_token} {second}",
        special_tokens=[begin, end],
    )


def build_from_spm(path: Path, extra_specials: Sequence[str] = (), has_segments: bool = False) -> Tokenizer:
    """Build the fast tokenizer of the model in ``path``.

    The ids of `xling.text.vocab`, then ``<mask>`` and ``extra_specials``.

    Raises:
        UserError: the file is damaged, or the model is of a kind without a fast equivalent.
    """
    model = read_spm_model(path)
    trainer_spec, normalizer_spec = model.trainer_spec, model.normalizer_spec
    unsupported = [
        p.piece for p in model.pieces[NUM_SPM_SPECIALS:] if p.type not in (NORMAL_PIECE, BYTE_PIECE)
    ]
    if unsupported or trainer_spec.treat_whitespace_as_suffix or not normalizer_spec.escape_whitespaces:
        raise UserError(
            f"{path} has {'pieces like ' + unsupported[0] if unsupported else 'spaces after words'}",
            "a model as `xling vocab` trains it",
        )
    pieces = [(p.piece, p.score) for p in model.pieces[NUM_SPM_SPECIALS:]]
    tokens = [
        *((name, 0.0) for name in SPECIAL_TOKENS),
        *pieces,
        *((name, 0.0) for name in (MASK_TOKEN, *extra_specials)),
    ]
    is_bpe, byte_fallback = trainer_spec.model_type == BPE_MODEL, trainer_spec.byte_fallback
    tokenizer = Tokenizer(
        _build_bpe(tokens, len(pieces), byte_fallback) if is_bpe else Unigram(tokens, 3, byte_fallback)
    )
    tokenizer.normalizer = charsmap.build_normaliser(
        normalizer_spec.precompiled_charsmap,
        remove_extra_whitespaces=normalizer_spec.remove_extra_whitespaces,
    )
    prepend = "always" if normalizer_spec.add_dummy_prefix else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend)
    space_decoder = decoders.Metaspace("▁", prepend)
    tokenizer.decoder = (
        decoders.Sequence([decoders.ByteFallback(), space_decoder]) if byte_fallback else space_decoder
    )
    tokenizer.post_processor = pair_template(("<s>", 0), ("</s>", 2), has_segments)
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in SPECIAL_TOKENS]
    )
    tokenizer.add_special_tokens([AddedToken(MASK_TOKEN, special=True, normalized=False, lstrip=True)])
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in extra_specials]
    )
    return tokenizer


def _build_bpe(tokens: list[tuple[str, float]], num_pieces: int, byte_fallback: bool) -> BPE:
    """Return the merges implied by the pieces: every pair of pieces that forms another, the best pieces first.

    Source: SentencePiece's BPE joins the neighbours whose joint piece has the best score (bpe_model.cc).
    """
    scores = dict(tokens)
    ids = {piece: index for index, (piece, _) in enumerate(tokens)}
    merges = []
    for piece, score in tokens[len(SPECIAL_TOKENS) : len(SPECIAL_TOKENS) + num_pieces]:
        splits = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        merges += [(-score, ids[a], ids[b], a, b) for a, b in splits if a in scores and b in scores]
    merges.sort()
    return BPE(
        ids, [(a, b) for *_, a, b in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback
    )


def save_tokenizer(
    tokenizer: Tokenizer,
    directory: Path,
    max_length: int,
    extra_specials: Sequence[str] = (),
    has_segments: bool = False,
    specials: Mapping[str, str] | None = None,
) -> None:
    """Write ``tokenizer.json`` and the files that `transformers.AutoTokenizer` reads beside it.

    Args:
        tokenizer: return value of `build_for_model`.
        directory: where to write.
        max_length: tokens of one sequence, including specials.
        extra_specials: special tokens beside the usual ones.
        has_segments: whether the model reads the segment of a token.
        specials: name of each special (``bos``, ``cls`` and so on), where their ids are not ours.
    """
    tokenizer.save(str(directory / "tokenizer.json"))
    special_names = {f"{key}_token": name for key, name in (specials or _special_names(tokenizer)).items()}
    # Use the generic class: that of XLM-R replaces the normaliser and pre-tokeniser by its own.
    settings: dict[str, Any] = special_names | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", *(["token_type_ids"] if has_segments else []), "attention_mask"],
    }
    if extra_specials:
        settings["extra_special_tokens"] = list(extra_specials)
    for name, content in (("tokenizer_config.json", settings), ("special_tokens_map.json", special_names)):
        (directory / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _special_names(tokenizer: Tokenizer) -> dict[str, str]:
    bos, pad, eos, unk = (str(tokenizer.id_to_token(number)) for number in range(len(SPECIAL_TOKENS)))
    mask = wordpiece.MASK if bos == wordpiece.CLS else MASK_TOKEN
    return {"bos": bos, "cls": bos, "eos": eos, "sep": eos, "pad": pad, "unk": unk, "mask": mask}
