"""Vectors of pieces that start from the words of a static encoder: ``pretrain init_pieces=ENCODER``.

A static encoder gives words of equal meaning in many languages close vectors, after minutes of training. A model whose
pieces start there does not have to learn these meanings from its own text. Sources: WECHSEL, Minixhofer et al. 2022,
and FOCUS, Dobler and de Melo 2023, both of which start from static vectors as well but mix rows of an old table.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from xling.array_types import Float
from xling.core.errors import UserError
from xling.static import encoder_files
from xling.text import vocab

FIRST_PIECE_ID = 4
"""Id of the first piece; the symbols of fairseq come before."""
WORD_START, CONTINUATION = "\u2581", "##"
BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")


def initialise_pieces(table: Float[Tensor, "pieces dim"], encoder: Path, data: Path) -> int:
    """Replace the rows of pieces that the static encoder can read; return how many.

    All rows get the same length. The encoder gives frequent words a low weight, but a masked LM, which predicts
    pieces with the same rows, learns much less from short ones (``docs/results.d/pretrain.md``). The rows are
    centred, because the mean of all words says nothing about one, and have the same mean square as those that they
    replace. A static encoder with more dimensions than the model gives its principal components. One with fewer
    leaves the rest of each row as it is. Bytes and the lone space keep their rows.

    Args:
        table: embeddings of the model, (num_pieces, dim), changed in place.
        encoder: output of ``xling pretrain static``.
        data: binarised directory with the vocabulary.

    Raises:
        UserError: ``encoder`` is not a static encoder, or can read none of the pieces.
    """
    lines = (data / vocab.DICTIONARY).read_text(encoding="utf-8").splitlines()
    pieces = [line.rpartition(" ")[0] for line in lines]
    words = [BYTE_PIECE.sub("", name).removeprefix(CONTINUATION).replace(WORD_START, "") for name in pieces]
    static_encoder = encoder_files.load_encoder(encoder)
    vectors = static_encoder.word_vectors(words)
    ids = vectors.norm(dim=1).nonzero().flatten()
    if not len(ids):
        raise UserError(
            f"init_pieces={encoder} can read none of the {len(words)} pieces of {data}",
            "a vocabulary whose pieces are words that the encoder knows",
        )
    rows = F.normalize(vectors[ids], dim=1)
    rows -= rows.mean(0)
    width = min(rows.shape[1], table.shape[1], len(rows))
    if rows.shape[1] > width:
        rows = rows @ torch.linalg.svd(rows, full_matrices=False).Vh[:width].T
    rows = F.normalize(rows, dim=1)
    with torch.no_grad():
        old_rows = table[FIRST_PIECE_ID + ids, :width]
        scale = old_rows.float().square().mean().sqrt() / rows.square().mean().sqrt().clamp_min(1e-12)
        table[FIRST_PIECE_ID + ids, :width] = (rows * scale).to(table.dtype)
    return len(ids)
