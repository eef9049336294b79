"""Reconstruction of a SentencePiece model from ``tokenizer.json``, the only file that transformers 5 and PEFT write."""

import base64
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.hub import charsmap, tokenizer

_SPACE_REPLACEMENTS = {c: " " for c in map(chr, range(sys.maxunicode + 1)) if c.isspace() and c != " "}


def rebuild_sentencepiece(settings: Mapping[str, Any], path: Path) -> Any:
    """Build the unigram model, a protocol buffer, from the pieces, scores and normaliser of a ``tokenizer.json``.

    Raises:
        UserError: it is not a unigram model with XLM-R's specials, or SentencePiece lacks one of its steps.
    """
    model_settings = settings.get("model") or {}
    vocabulary = model_settings.get("vocab")
    pieces_with_scores: list[Any] = vocabulary if isinstance(vocabulary, list) else []
    specials = tuple(row[0] for row in pieces_with_scores[: len(tokenizer.SPECIAL_TOKENS)])
    if model_settings.get("type", "Unigram") != "Unigram" or specials != tokenizer.SPECIAL_TOKENS:
        raise UserError(
            f"{path} is a {model_settings.get('type')} that starts with {' '.join(map(str, specials)) or 'other ids'}",
            f"a Unigram that starts with {' '.join(tokenizer.SPECIAL_TOKENS)}",
            "give the SentencePiece model beside it",
        )
    added = {token["content"] for token in settings.get("added_tokens", [])}
    others = pieces_with_scores[len(specials) :]
    pieces = [(str(piece), float(score)) for piece, score in others if piece not in added]
    if amid := [name for name, _ in others[: len(pieces)] if name in added]:
        raise UserError(f"{path} has {amid[0]!r} amid its pieces", "added tokens behind the pieces")
    model = tokenizer.build_unigram_model(pieces, bool(model_settings.get("byte_fallback")))
    _set_normalisation(model.normalizer_spec, settings, path)
    return model


def _set_normalisation(normalizer_spec: Any, settings: Mapping[str, Any], path: Path) -> None:
    """Set the normalisation rules of a SentencePiece model as ``tokenizer.json`` has them."""
    normalizer_steps = list(_flatten_steps(settings.get("normalizer"), "normalizers"))
    pre_tokenizer_steps = list(_flatten_steps(settings.get("pre_tokenizer"), "pretokenizers"))
    supported = {"Precompiled", "Replace", "NFKC", "Metaspace", "WhitespaceSplit"}
    if unsupported := [
        step["type"] for step in (*normalizer_steps, *pre_tokenizer_steps) if step["type"] not in supported
    ]:
        raise UserError(
            f"{path}: SentencePiece has no step {unsupported[0]}",
            ", ".join(sorted(supported)),
            "give the SentencePiece model beside it",
        )
    # Our exports put other tables around the original one, which follows NFKC; see `charsmap.normaliser`.
    step_types = [step["type"] for step in normalizer_steps]
    start = step_types.index("NFKC") if "NFKC" in step_types else 0
    tables = [
        step["precompiled_charsmap"] for step in normalizer_steps[start:] if step["type"] == "Precompiled"
    ]
    charsmap_table = base64.b64decode(tables[0]) if tables else b""
    splits_at_spaces = any(step["type"] == "WhitespaceSplit" for step in pre_tokenizer_steps)
    if splits_at_spaces and not charsmap_table:
        charsmap_table = charsmap.build_charsmap(_SPACE_REPLACEMENTS)
    metaspace = next((step for step in pre_tokenizer_steps if step["type"] == "Metaspace"), {})
    normalizer_spec.precompiled_charsmap = charsmap_table
    normalizer_spec.add_dummy_prefix = metaspace.get("prepend_scheme", "always") != "never"
    normalizer_spec.remove_extra_whitespaces = splits_at_spaces or any(
        " {2,}" in str(step.get("pattern")) for step in normalizer_steps
    )
    normalizer_spec.escape_whitespaces = True


def _flatten_steps(step: Any, list_key: str) -> Iterator[Mapping[str, Any]]:
    """Yield a step of a tokenizer, or the steps of a sequence, however nested."""
    if isinstance(step, Mapping) and step.get("type") == "Sequence":
        for each in step.get(list_key) or ():
            yield from _flatten_steps(each, list_key)
    elif isinstance(step, Mapping):
        yield step
