"""Embeddings of a new vocabulary from those of an old one: ``pretrain init=M data=OTHER_VOCABULARY embeddings=HOW``.

Sources: FVT is of Gee et al. 2022. FOCUS is of Dobler and de Melo 2023. WECHSEL is of Minixhofer et al. 2022, section
3, here with copied pieces as in OFA (Liu et al. 2024). Random rows are of Downey et al. 2023. Our choices:

- the one space of static vectors is that of a static encoder of all languages;
- mixed rows are as far from the mean of all rows as the old ones are, because a mean of many rows is shorter than each;
- pieces of other scripts than Latin are not copied by ``focus`` and ``wechsel``: an English vocabulary has letters of
  them that it hardly ever read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from xling.array_types import Bool, Float
from xling.core.errors import UserError
from xling.static import encoder_files
from xling.static.pieces import BYTE_PIECE, FIRST_PIECE_ID, WORD_START
from xling.text import vocab
from xling.text.tokenizers import wordpiece

NEIGHBOURS, TEMPERATURE, AT_ONCE = 10, 0.1, 512
"""Of WECHSEL: old pieces that a row is mixed from, divisor of their cosines; new pieces computed at a time."""


@dataclass(frozen=True)
class Vocabulary:
    """The pieces of a vocabulary.

    Attributes:
        names: the pieces as they are written, with the mark of a start of a word if they have one.
        processor: SentencePiece model or its equivalent.
    """

    names: list[str]
    processor: Any

    @classmethod
    def read(cls, folder: Path) -> Vocabulary:
        """Read a vocabulary; a WordPiece one gets SentencePiece's marks."""
        lines = (folder / vocab.DICTIONARY).read_text(encoding="utf-8").splitlines()
        names = [line.rpartition(" ")[0] for line in lines]
        if (folder / vocab.WORDPIECE).is_file():
            names = [wordpiece.marked(name) for name in names]
        return cls(names, vocab.load_processor(folder))

    @property
    def words(self) -> list[str]:
        """The pieces without marks; bytes are empty."""
        return [BYTE_PIECE.sub("", name).replace(WORD_START, "") for name in self.names]

    def key(self, name: str) -> str:
        """Return the spelling by which a piece is compared with those of this vocabulary."""
        word = name.replace(WORD_START, "")
        plain = str(self.processor.normalize(word)).replace(WORD_START, "").strip()
        return (WORD_START if name.startswith(WORD_START) else "") + (plain or word)


@torch.no_grad()
def start_rows(
    table: Float[Tensor, "new dim"],
    old_table: Float[Tensor, "old dim"],
    data: Path,
    old: Path,
    how: str,
    encoder: Path | None = None,
) -> dict[str, int]:
    """Replace the rows of a table over a new vocabulary by rows computed from an old one; return counts.

    Args:
        table: embeddings, (num_new, dim), changed in place: four symbols, the pieces, ``<mask>``, and what follows.
        old_table: embeddings over the old vocabulary, (num_old, dim).
        data: folder of the new vocabulary.
        old: folder of the old vocabulary.
        how: ``overlap`` copies equal pieces and gives the others the mean row, ``mean`` gives it to all. ``fvt`` takes
            the mean of the old pieces that spell the new one. ``focus`` and ``wechsel`` mix by the similarity of
            static vectors. ``random`` draws with the mean and the deviation of the old rows.
        encoder: static encoder of ``focus`` and ``wechsel``, None for the other ways.

    Raises:
        UserError: a vocabulary or the encoder is missing or damaged.
    """
    new, theirs = Vocabulary.read(data), Vocabulary.read(old)
    last, old_last = FIRST_PIECE_ID + len(new.names), FIRST_PIECE_ID + len(theirs.names)
    rows = old_table[FIRST_PIECE_ID:old_last].float()
    if how == "random":
        generator = torch.Generator().manual_seed(1)
        drawn = torch.randn(len(new.names), rows.shape[1], generator=generator)
        started, counts = rows.mean(0) + drawn * rows.std(0), {"drawn": len(new.names)}
    elif encoder is not None:
        started, counts = _mixed(new, theirs, rows, how, encoder)
    else:
        started, counts = _spelt(new, theirs, rows, how)
    table[FIRST_PIECE_ID:last] = started.to(table.dtype)
    table[:FIRST_PIECE_ID] = old_table[:FIRST_PIECE_ID].to(table.dtype)
    table[last] = old_table[old_last].to(table.dtype)
    return counts


def rows_to_keep(data: Path, old: Path) -> list[int]:
    """Return the rows of symbols and of ASCII pieces that another vocabulary has too.

    Raises:
        UserError: a vocabulary is missing or damaged, or none of its ASCII pieces is in ``data``.
    """
    new, theirs = Vocabulary.read(data), Vocabulary.read(old)
    known = set(theirs.names)
    kept = [
        row
        for row, name in enumerate(new.names, FIRST_PIECE_ID)
        if name in known and name.replace(WORD_START, "").isascii()
    ]
    if not kept:
        raise UserError(f"freeze_pieces={old} has no ASCII piece of {data}", "a vocabulary with pieces of it")
    return [*range(FIRST_PIECE_ID), *kept]


def keep_rows(table: torch.nn.Parameter, rows: Sequence[int]) -> None:
    """Give no gradient to rows of a table."""
    learns = torch.ones(len(table), 1)
    learns[torch.tensor(rows)] = 0
    table.register_hook(lambda grad: grad * learns.to(grad))


def _equal_pieces(new: Vocabulary, old: Vocabulary) -> dict[int, int]:
    """Return for new pieces the old piece of the same spelling, the start of a word being part of it."""
    of_key = {name: number for number, name in reversed(list(enumerate(old.names)))}
    keys = (of_key.get(old.key(name)) for name in new.names)
    return {number: match for number, match in enumerate(keys) if match is not None}


def _spelt(
    new: Vocabulary, old: Vocabulary, rows: Float[Tensor, "old dim"], how: str
) -> tuple[Float[Tensor, "new dim"], dict[str, int]]:
    """Return rows of ``overlap``, ``mean`` and ``fvt``."""
    started = rows.mean(0).repeat(len(new.names), 1)
    if how == "mean":
        return started, {"of_the_mean": len(new.names)}
    sources: dict[int, list[int]] = {n: [o] for n, o in _equal_pieces(new, old).items()}
    num_equal = len(sources)
    if how == "fvt":
        other = [number for number, word in enumerate(new.words) if word and number not in sources]
        spelt = old.processor.encode([new.words[number] for number in other])
        first = FIRST_PIECE_ID - 1  # SentencePiece's number of the first piece
        for number, ids in zip(other, spelt, strict=True):
            if known := [i - first for i in ids if i >= first]:
                sources[number] = known
    for number, numbers in sources.items():
        started[number] = rows[numbers].mean(0)
    counts = {"copied": num_equal, "mixed": len(sources) - num_equal}
    return started, counts | {"of_the_mean": len(new.names) - len(sources)}


def _mixed(
    new: Vocabulary, old: Vocabulary, rows: Float[Tensor, "old dim"], how: str, encoder: Path
) -> tuple[Float[Tensor, "new dim"], dict[str, int]]:
    """Return rows of ``focus`` and ``wechsel``: copied where pieces are equal, else mixed by static similarity."""
    equal = {n: o for n, o in _equal_pieces(new, old).items() if old.names[o].strip(WORD_START).isascii()}
    static = encoder_files.load_encoder(encoder).without_sketch()
    mine, theirs = (static.word_vectors(each.words) for each in (new, old))
    readable = (mine.norm(dim=1) > 0) & torch.tensor([bool(word) for word in new.words])
    usable = (theirs.norm(dim=1) > 0) & _of_words(old.names)
    if how == "focus":
        usable &= torch.zeros(len(usable), dtype=torch.bool).index_fill(
            0, torch.tensor([*equal.values()], dtype=torch.int64), True
        )
    kept = usable.nonzero().flatten()
    mine, theirs = _centred(mine), _centred(theirs)[kept]
    mix = mix_by_sparsemax if how == "focus" else mix_nearest
    started = rows.mean(0).repeat(len(new.names), 1)
    wanted = readable.nonzero().flatten() if len(kept) else kept
    for block in wanted.split(AT_ONCE):
        started[block] = mix(mine[block] @ theirs.T, rows[kept])
    # Each lies as far from the mean of the old rows as those do.
    mean = rows.mean(0)
    distance = (rows - mean).norm(dim=1).mean()
    started[wanted] = mean + F.normalize(started[wanted] - mean, dim=1) * distance
    copied = torch.tensor([*equal.keys()], dtype=torch.int64)
    started[copied] = rows[torch.tensor([*equal.values()], dtype=torch.int64)]
    mixed = len(set(wanted.tolist()) - equal.keys())
    return started, {
        "copied": len(equal),
        "mixed": mixed,
        "of_the_mean": len(new.names) - len(equal) - mixed,
    }


def _of_words(names: Sequence[str]) -> Bool[Tensor, " names"]:
    """Return which pieces are whole words or numbers in ASCII, whose rows have a meaning."""
    return torch.tensor([n.startswith(WORD_START) and n[1:].isascii() for n in names])


def _centred(vectors: Float[Tensor, "words dim"]) -> Float[Tensor, "words dim"]:
    """Return vectors of length 1 without their mean, of length 1 again; those of zeros stay."""
    known = vectors.norm(dim=1) > 0
    unit = F.normalize(vectors, dim=1)
    return F.normalize((unit - unit[known].mean(0)) * known[:, None], dim=1) if known.any() else unit


def mix_nearest(
    cosines: Float[Tensor, "new old"], rows: Float[Tensor, "old dim"]
) -> Float[Tensor, "new dim"]:
    """Return WECHSEL's rows (num_new, dim): the nearest old ones by the softmax of their cosines."""
    top = cosines.topk(min(NEIGHBOURS, cosines.shape[1]))
    weights = (top.values / TEMPERATURE).softmax(1)
    return F.embedding_bag(top.indices, rows, per_sample_weights=weights, mode="sum")


def mix_by_sparsemax(
    cosines: Float[Tensor, "new old"], rows: Float[Tensor, "old dim"]
) -> Float[Tensor, "new dim"]:
    """Return FOCUS's rows (num_new, dim): old ones by the sparsemax of their cosines."""
    return sparsemax(cosines) @ rows


def sparsemax(scores: Float[Tensor, "new old"]) -> Float[Tensor, "new old"]:
    """Return the point of the simplex nearest to each row (Martins and Astudillo 2016, algorithm 1)."""
    ordered = scores.sort(1, descending=True).values
    places = torch.arange(1, scores.shape[1] + 1)
    sums = ordered.cumsum(1) - 1
    size = (ordered * places > sums).sum(1, keepdim=True)
    threshold = sums.gather(1, size - 1) / size
    return (scores - threshold).clamp_min(0)
