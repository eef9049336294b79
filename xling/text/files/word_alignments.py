"""Pairs of texts with word alignments: reads the file ``links.jsonl.gz`` that ``xling corpus links`` writes.

Each line is one pair: ``lang``, the words of both texts (``src``, ``tgt``, case kept) and ``links``, pairs of
word indices.
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

from xling.core.errors import UserError

FILE_NAME = "links.jsonl.gz"


@dataclass(frozen=True)
class AlignedPair:
    """A pair of texts: their words, and the aligned pairs of word indices."""

    lang: str
    src: tuple[str, ...]
    tgt: tuple[str, ...]
    links: tuple[tuple[int, int], ...]


def read_word_alignments(folder: Path) -> list[AlignedPair]:
    """Read the pairs of an output of ``xling corpus links``.

    Raises:
        UserError: the output does not exist.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        raise UserError(
            f"no links at {path}", "an output of xling corpus links", "run it, or leave out project="
        )
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [
        AlignedPair(x["lang"], tuple(x["src"]), tuple(x["tgt"]), tuple((i, j) for i, j in x["links"]))
        for x in lines
    ]
