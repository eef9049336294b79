"""Fast tokenizers with our ids, built from the vocabulary of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"
NUM_SPM_SPECIALS = 3
UNIGRAM, BPE_TYPE = 1, 2
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def read_model(path: Path) -> Any:
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


def byte_model() -> Any:
    """Build a SentencePiece model of the 256 bytes, whose specials are ``<unk> <s> </s>``: every text is its UTF-8."""
    model = proto.ModelProto()
    for name, kind in (("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)):
        model.pieces.add(piece=name, score=0.0, type=kind)
    for number in range(256):
        model.pieces.add(piece=f"<0x{number:02X}>", score=0.0, type=BYTE)
    # SentencePiece wants one other piece: these code points are no characters, so no text has them.
    model.pieces.add(piece="\ufdd0" * 8, score=0.0, type=NORMAL)
    spec, rules = model.trainer_spec, model.normalizer_spec
    spec.model_type, spec.vocab_size, spec.byte_fallback, spec.pad_id = UNIGRAM, len(model.pieces), True, -1
    rules.add_dummy_prefix = rules.remove_extra_whitespaces = rules.escape_whitespaces = False
    return model


def of_model(directory: Path, symbols: Symbols | None = None, segments: bool = False) -> Tokenizer:
    """Build the fast tokenizer of a published model.

    Args:
        directory: directory with its vocabulary.
        symbols: symbols of a model with a decoder. Language tokens and sentinels follow ``<mask>``. A text
            ends in ``</s>`` and the language given as its pair: ``tokenizer(text, "[sw]")``; with ``lang_first``
            it begins with the language. It only ends in ``</s>`` if sources do not name their language.
        segments: whether the second text of a pair is a separate segment.

    Raises:
        UserError: as `build`.
    """
    if (directory / vocab.WORDPIECE).is_file():
        if symbols is not None:
            raise UserError(f"{directory} has a decoder and a WordPiece vocabulary", "a SentencePiece one")
        return _wordpiece(directory / vocab.WORDPIECE, segments)
    fast = build(directory / vocab.SPM_MODEL, symbols.names() if symbols else (), segments)
    if symbols is not None:
        lang = symbols.names()[symbols.default]
        known = [(name, fast.token_to_id(name)) for name in ("</s>", lang)]
        single, pair = (f"$A </s> {lang}", "$A </s> $B")
        if symbols.lang_first:
            single, pair = f"{lang} $A </s>", "$B $A </s>"
        if not symbols.source_lang:
            single, pair = "$A </s>", "$A </s> $B </s>"
        fast.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=known)
    return fast


def _wordpiece(path: Path, segments: bool) -> Tokenizer:
    """Build BERT's tokenizer with our ids and our form of a pair."""
    fast = Tokenizer.from_file(str(path))
    cls, sep = ((name, fast.token_to_id(name)) for name in (wordpiece.CLS, wordpiece.SEP))
    fast.post_processor = template(cls, sep, segments)
    names = (*wordpiece.SPECIALS, wordpiece.MASK)
    fast.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    return fast


def template(
    begin: tuple[str, int | None], end: tuple[str, int | None], segments: bool
) -> processors.TemplateProcessing:
    """Build the template of a text and a pair with their specials, the second text as segment 1 or 0."""
    (first, _), (last, _), segment = begin, end, int(segments)
    second = f"{last}:{segment} $B:{segment} {last}:{segment}"
    return processors.TemplateProcessing(
        single=f"{first} $A {last}", pair=f"{first} $A {last} {second}", special_tokens=[begin, end]
    )


def build(path: Path, more: Sequence[str] = (), segments: bool = False) -> Tokenizer:
    """Build the fast tokenizer of the model in ``path``.

    The ids of `xling.text.vocab`, then ``<mask>`` and ``more``.

    Raises:
        UserError: the file is damaged, or the model is of a kind without a fast equivalent.
    """
    model = read_model(path)
    trained, rules = model.trainer_spec, model.normalizer_spec
    odd = [p.piece for p in model.pieces[NUM_SPM_SPECIALS:] if p.type not in (NORMAL, BYTE)]
    if odd or trained.treat_whitespace_as_suffix or not rules.escape_whitespaces:
        raise UserError(
            f"{path} has {'pieces like ' + odd[0] if odd else 'spaces after words'}",
            "a model as `xling vocab` trains it",
        )
    pieces = [(p.piece, p.score) for p in model.pieces[NUM_SPM_SPECIALS:]]
    tokens = [*((name, 0.0) for name in SPECIALS), *pieces, *((name, 0.0) for name in (MASK, *more))]
    bpe, in_bytes = trained.model_type == BPE_TYPE, trained.byte_fallback
    fast = Tokenizer(_bpe(tokens, len(pieces), in_bytes) if bpe else Unigram(tokens, 3, in_bytes))
    fast.normalizer = charsmap.normaliser(
        rules.precompiled_charsmap, remove_extra_whitespaces=rules.remove_extra_whitespaces
    )
    prepend = "always" if rules.add_dummy_prefix else "never"
    fast.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend)
    spaces = decoders.Metaspace("▁", prepend)
    fast.decoder = decoders.Sequence([decoders.ByteFallback(), spaces]) if in_bytes else spaces
    fast.post_processor = template(("<s>", 0), ("</s>", 2), segments)
    fast.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIALS])
    fast.add_special_tokens([AddedToken(MASK, special=True, normalized=False, lstrip=True)])
    fast.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in more])
    return fast


def _bpe(tokens: list[tuple[str, float]], num_pieces: int, in_bytes: bool) -> BPE:
    """Return the merges implied by the pieces: every pair of pieces that forms another, the best pieces first.

    Source: SentencePiece's BPE joins the neighbours whose joint piece has the best score (bpe_model.cc).
    """
    scores = dict(tokens)
    ids = {piece: index for index, (piece, _) in enumerate(tokens)}
    merges = []
    for piece, score in tokens[len(SPECIALS) : len(SPECIALS) + num_pieces]:
        halves = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        merges += [(-score, ids[a], ids[b], a, b) for a, b in halves if a in scores and b in scores]
    merges.sort()
    return BPE(ids, [(a, b) for *_, a, b in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=in_bytes)


def save(
    fast: Tokenizer,
    directory: Path,
    max_length: int,
    more: Sequence[str] = (),
    segments: bool = False,
    specials: Mapping[str, str] | None = None,
) -> None:
    """Write ``tokenizer.json`` and the files that `transformers.AutoTokenizer` reads beside it.

    Args:
        fast: return value of `of_model`.
        directory: where to write.
        max_length: tokens of one sequence, including specials.
        more: special tokens beside the usual ones.
        segments: whether the model reads the segment of a token.
        specials: name of each special (``bos``, ``cls`` and so on), where their ids are not ours.
    """
    fast.save(str(directory / "tokenizer.json"))
    special = {f"{key}_token": name for key, name in (specials or _specials(fast)).items()}
    # Use the generic class: that of XLM-R replaces the normaliser and pre-tokeniser by its own.
    settings: dict[str, Any] = special | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"],
    }
    if more:
        settings["extra_special_tokens"] = list(more)
    for name, content in (("tokenizer_config.json", settings), ("special_tokens_map.json", special)):
        (directory / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _specials(fast: Tokenizer) -> dict[str, str]:
    """Return the name of each special of a tokenizer with our ids."""
    bos, pad, eos, unk = (str(fast.id_to_token(number)) for number in range(len(SPECIALS)))
    mask = wordpiece.MASK if bos == wordpiece.CLS else MASK
    return {"bos": bos, "cls": bos, "eos": eos, "sep": eos, "pad": pad, "unk": unk, "mask": mask}
