"""Vocabulary extension: ``xling import --extend-vocab`` adds the pieces of another SentencePiece model to a model.

Old pieces keep their rows, and rows of new pieces are computed from them. Text of the old languages may be
segmented differently if a new piece fits better. Source: FVT is Gee et al. 2022, "Fast Vocabulary Transfer
for Language Model Compression".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece as spm
import torch
from torch import Tensor

from xling.array_types import Shaped
from xling.core.errors import UserError
from xling.hub import files, tokenizer
from xling.models.files.model_weights import BY_TOKEN

WORD_START = "\u2581"
NUM_SPECIALS = len(tokenizer.SPECIAL_TOKENS)
SourceRows = tuple[int, ...]
"""Ids whose rows are averaged for a new piece; empty for the mean of all pieces."""


def extend_vocabulary(
    vocabulary: files.ImportedVocabulary, added_path: Path, init: str, model_name: Path
) -> tuple[files.ImportedVocabulary, list[SourceRows], dict[str, int]]:
    """Return the vocabulary with the pieces of ``added_path`` appended.

    Args:
        added_path: a SentencePiece model, or a directory with ``spm.model``.
        init: ``mean``, ``fvt`` or ``overlap``; see `xling.hub.settings.ImportConfig`.

    Returns:
        The new vocabulary; for each new piece the source of its row; counts for the manifest.

    Raises:
        UserError: one of the two is not a unigram SentencePiece model, or no piece is new.
    """
    path = added_path / "spm.model" if added_path.is_dir() else added_path
    if vocabulary.spm is None:
        raise UserError(
            f"{model_name} has a vocabulary of another kind", "SentencePiece's, which pieces can be added to"
        )
    if not path.is_file():
        raise UserError(f"no SentencePiece model at {path}", "spm.model, or a directory of `xling vocab`")
    model, added_model = type(vocabulary.spm)(), tokenizer.read_spm_model(path)
    model.CopyFrom(vocabulary.spm)
    for name, proto in ((model_name, model), (path, added_model)):
        if proto.trainer_spec.model_type != tokenizer.UNIGRAM_MODEL:
            raise UserError(f"{name} is not a unigram model", "model=unigram, whose pieces are independent")
    old_pieces, processor = set(vocabulary.pieces), _plain_processor(model)
    candidates = [
        p for p in added_model.pieces if p.type == tokenizer.NORMAL_PIECE and p.piece not in old_pieces
    ]
    new_pieces = [
        p for p in candidates if str(processor.normalize(p.piece.replace(WORD_START, " "))) == p.piece
    ]
    if not new_pieces:
        raise UserError(f"{path} has no piece that {model_name} lacks", "a vocabulary of another language")
    for piece in new_pieces:
        copied = model.pieces.add()
        copied.piece, copied.score = piece.piece, piece.score
    model.trainer_spec.vocab_size = len(model.pieces)
    sources = _source_rows([p.piece for p in new_pieces], vocabulary.pieces, processor, init)
    counts = {
        "pieces_added": len(new_pieces),
        "pieces_unwritable": len(candidates) - len(new_pieces),
        "rows_of_the_mean": sum(not source for source in sources),
    }
    return files.vocabulary_from_spm(model), sources, counts


def append_rows(
    weights: dict[str, Shaped[Tensor, " ..."]], num_pieces: int, sources: Sequence[SourceRows]
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Append a row for each new piece after those of the ``num_pieces`` old ones."""
    end_of_pieces, extended = NUM_SPECIALS + num_pieces, dict(weights)
    for name in BY_TOKEN:
        if name in weights:
            rows = weights[name]
            mean = rows[NUM_SPECIALS:end_of_pieces].mean(0)
            new_rows = torch.stack([rows[list(source)].mean(0) if source else mean for source in sources])
            extended[name] = torch.cat([rows[:end_of_pieces], new_rows, rows[end_of_pieces:]])
    return extended


def _source_rows(
    new_pieces: Sequence[str], old_pieces: Sequence[str], processor: Any, init: str
) -> list[SourceRows]:
    if init == "fvt":
        segmented = (
            [i + 1 for i in processor.encode(piece.replace(WORD_START, " ")) if i > 0] for piece in new_pieces
        )
        return [tuple(ids) for ids in segmented]
    if init == "mean":
        return [()] * len(new_pieces)
    numbers_of_letters: dict[str, list[int]] = defaultdict(list)
    for number, piece in enumerate(old_pieces):
        if letters := piece.replace(WORD_START, "").casefold():
            numbers_of_letters[letters].append(number)

    def nearest(piece: str) -> SourceRows:
        letters, starts_word = piece.replace(WORD_START, ""), piece.startswith(WORD_START)
        same_letters = numbers_of_letters.get(letters.casefold(), [])
        closest = max(
            same_letters,
            key=lambda i: (
                old_pieces[i].replace(WORD_START, "") == letters,
                old_pieces[i].startswith(WORD_START) == starts_word,
                -i,
            ),
            default=None,
        )
        return () if closest is None else (NUM_SPECIALS + closest,)

    return [nearest(piece) for piece in new_pieces]


def _plain_processor(model: Any) -> Any:
    """Return a model's processor that takes text unchanged, without adding a space before it."""
    copy = type(model).FromString(model.SerializeToString())
    copy.normalizer_spec.add_dummy_prefix = False
    copy.normalizer_spec.remove_extra_whitespaces = False
    return spm.SentencePieceProcessor(model_proto=copy.SerializeToString())
