"""Vocabulary extension: ``xling import --extend-vocab`` adds the pieces of another SentencePiece model to a model.

Old pieces keep their rows, and rows of new pieces are computed from them. Text of the old languages may be
segmented differently if a new piece fits better. Source: FVT is Gee et al. 2022, "Fast Vocabulary Transfer
for Language Model Compression".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sentencepiece as spm
import torch
from torch import Tensor

from xling.core.errors import UserError
from xling.hub import files, tokenizer
from xling.models.files.model_weights import BY_TOKEN

if TYPE_CHECKING:
    from jaxtyping import Shaped

SPACE = "\u2581"
FIRST = len(tokenizer.SPECIALS)
Source = tuple[int, ...]
"""Ids whose rows are averaged for a new piece; empty for the mean of all pieces."""


def extended(
    vocabulary: files.Vocabulary, more: Path, init: str, what: Path
) -> tuple[files.Vocabulary, list[Source], dict[str, int]]:
    """Return the vocabulary with the pieces of ``more`` appended.

    Args:
        vocabulary: vocabulary of the model.
        more: a SentencePiece model, or a directory with ``spm.model``.
        init: ``mean``, ``fvt`` or ``overlap``; see `xling.hub.settings.ImportConfig`.
        what: name of the model, for messages.

    Returns:
        The new vocabulary; for each new piece the source of its row; counts for the manifest.

    Raises:
        UserError: one of the two is not a unigram SentencePiece model, or no piece is new.
    """
    path = more / "spm.model" if more.is_dir() else more
    if vocabulary.spm is None:
        raise UserError(
            f"{what} has a WordPiece vocabulary", "a SentencePiece one, which pieces can be added to"
        )
    if not path.is_file():
        raise UserError(f"no SentencePiece model at {path}", "spm.model, or a directory of `xling vocab`")
    model, other = type(vocabulary.spm)(), tokenizer.read_model(path)
    model.CopyFrom(vocabulary.spm)
    for name, proto in ((what, model), (path, other)):
        if proto.trainer_spec.model_type != tokenizer.UNIGRAM:
            raise UserError(f"{name} is not a unigram model", "model=unigram, whose pieces are independent")
    old, cutter = set(vocabulary.pieces), _cutter(model)
    candidates = [p for p in other.pieces if p.type == tokenizer.NORMAL and p.piece not in old]
    fresh = [p for p in candidates if str(cutter.normalize(p.piece.replace(SPACE, " "))) == p.piece]
    if not fresh:
        raise UserError(f"{path} has no piece that {what} lacks", "a vocabulary of another language")
    for piece in fresh:
        copied = model.pieces.add()
        copied.piece, copied.score = piece.piece, piece.score
    model.trainer_spec.vocab_size = len(model.pieces)
    pieces = [*vocabulary.pieces, *(p.piece for p in fresh)]

    def write(out: Path) -> None:
        (out / "spm.model").write_bytes(model.SerializeToString())
        files.write_dictionary(out, pieces)

    sources = _sources([p.piece for p in fresh], vocabulary.pieces, cutter, init)
    counts = {
        "pieces_added": len(fresh),
        "pieces_unwritable": len(candidates) - len(fresh),
        "rows_of_the_mean": sum(not source for source in sources),
    }
    return files.Vocabulary(pieces, write, model), sources, counts


def grow(
    weights: dict[str, Shaped[Tensor, " ..."]], num_pieces: int, sources: Sequence[Source]
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Append a row for each new piece after those of the ``num_pieces`` old ones."""
    end, grown = FIRST + num_pieces, dict(weights)
    for name in BY_TOKEN:
        if name in weights:
            rows = weights[name]
            mean = rows[FIRST:end].mean(0)
            new = torch.stack([rows[list(source)].mean(0) if source else mean for source in sources])
            grown[name] = torch.cat([rows[:end], new, rows[end:]])
    return grown


def _sources(fresh: Sequence[str], old: Sequence[str], cutter: Any, init: str) -> list[Source]:
    if init == "fvt":
        cut = ([i + 1 for i in cutter.encode(piece.replace(SPACE, " ")) if i > 0] for piece in fresh)
        return [tuple(ids) for ids in cut]
    if init == "mean":
        return [()] * len(fresh)
    same: dict[str, list[int]] = defaultdict(list)
    for number, piece in enumerate(old):
        if letters := piece.replace(SPACE, "").casefold():
            same[letters].append(number)

    def nearest(piece: str) -> Source:
        bare, starts = piece.replace(SPACE, ""), piece.startswith(SPACE)
        alike = same.get(bare.casefold(), [])
        best = max(
            alike,
            key=lambda i: (old[i].replace(SPACE, "") == bare, old[i].startswith(SPACE) == starts, -i),
            default=None,
        )
        return () if best is None else (FIRST + best,)

    return [nearest(piece) for piece in fresh]


def _cutter(model: Any) -> Any:
    """Return a model's processor that takes text unchanged, without adding a space before it."""
    copy = type(model).FromString(model.SerializeToString())
    copy.normalizer_spec.add_dummy_prefix = False
    copy.normalizer_spec.remove_extra_whitespaces = False
    return spm.SentencePieceProcessor(model_proto=copy.SerializeToString())
