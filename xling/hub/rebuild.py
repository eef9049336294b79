"""Reconstruction of a SentencePiece model from ``tokenizer.json``, the only file that transformers 5 and PEFT write."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2 as proto

from xling.core.errors import UserError
from xling.hub import charsmap, tokenizer

_SPACES = {c: " " for c in map(chr, range(sys.maxunicode + 1)) if c.isspace() and c != " "}


def sentencepiece(settings: Mapping[str, Any], path: Path) -> Any:
    """Build the unigram model, a protocol buffer, from the pieces, scores and normaliser of a ``tokenizer.json``.

    Args:
        settings: content of the file.
        path: path of the file, for messages.

    Raises:
        UserError: it is not a unigram model with XLM-R's specials, or SentencePiece lacks one of its steps.
    """
    told = settings.get("model") or {}
    vocabulary = told.get("vocab")
    listed: list[Any] = vocabulary if isinstance(vocabulary, list) else []
    specials = tuple(row[0] for row in listed[: len(tokenizer.SPECIALS)])
    if told.get("type", "Unigram") != "Unigram" or specials != tokenizer.SPECIALS:
        raise UserError(
            f"{path} is a {told.get('type')} that starts with {' '.join(map(str, specials)) or 'other ids'}",
            f"a Unigram that starts with {' '.join(tokenizer.SPECIALS)}",
            "give the SentencePiece model beside it",
        )
    added = {token["content"] for token in settings.get("added_tokens", [])}
    pieces = [(str(piece), float(score)) for piece, score in listed[len(specials) :] if piece not in added]
    in_bytes = bool(told.get("byte_fallback"))
    model = proto.ModelProto()
    for name, kind in (("<unk>", tokenizer.UNKNOWN), ("<s>", tokenizer.CONTROL), ("</s>", tokenizer.CONTROL)):
        model.pieces.add(piece=name, score=0.0, type=kind)
    for piece, score in pieces:
        is_byte = in_bytes and len(piece) == 6 and piece.startswith("<0x")
        model.pieces.add(piece=piece, score=score, type=tokenizer.BYTE if is_byte else tokenizer.NORMAL)
    trained, rules = model.trainer_spec, model.normalizer_spec
    trained.model_type, trained.vocab_size = tokenizer.UNIGRAM, len(model.pieces)
    trained.byte_fallback, trained.pad_id = in_bytes, -1
    _normalise(rules, settings, path)
    return model


def _normalise(rules: Any, settings: Mapping[str, Any], path: Path) -> None:
    """Set the normalisation rules of a SentencePiece model as ``tokenizer.json`` has them."""
    steps = list(_steps(settings.get("normalizer"), "normalizers"))
    cuts = list(_steps(settings.get("pre_tokenizer"), "pretokenizers"))
    known = {"Precompiled", "Replace", "NFKC", "Metaspace", "WhitespaceSplit"}
    if odd := [step["type"] for step in (*steps, *cuts) if step["type"] not in known]:
        raise UserError(
            f"{path}: SentencePiece has no step {odd[0]}",
            ", ".join(sorted(known)),
            "give the SentencePiece model beside it",
        )
    # Our exports put other tables around the original one, which follows NFKC; see `charsmap.normaliser`.
    kinds = [step["type"] for step in steps]
    start = kinds.index("NFKC") if "NFKC" in kinds else 0
    tables = [step["precompiled_charsmap"] for step in steps[start:] if step["type"] == "Precompiled"]
    blob = base64.b64decode(tables[0]) if tables else b""
    splits = any(step["type"] == "WhitespaceSplit" for step in cuts)
    if splits and not blob:
        blob = charsmap.write(_SPACES)
    meta = next((step for step in cuts if step["type"] == "Metaspace"), {})
    rules.precompiled_charsmap = blob
    rules.add_dummy_prefix = meta.get("prepend_scheme", "always") != "never"
    rules.remove_extra_whitespaces = splits or any(" {2,}" in str(step.get("pattern")) for step in steps)
    rules.escape_whitespaces = True


def _steps(step: Any, inner: str) -> Iterator[Mapping[str, Any]]:
    """Yield a step of a tokenizer, or the steps of a sequence, however nested."""
    if isinstance(step, Mapping) and step.get("type") == "Sequence":
        for each in step.get(inner) or ():
            yield from _steps(each, inner)
    elif isinstance(step, Mapping):
        yield step
