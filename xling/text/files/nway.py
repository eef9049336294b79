"""Reader of aligned texts in many languages as word ids: the files that ``xling corpus nway`` writes.

- ``words.txt``: one lower-cased word per line.
- ``hashes.npy`` and ``hash_ends.npy``: the features of each word, see `xling.text.words.features`.
- ``words.<n>.npy`` and ``ends.<n>.npy``: the texts of one set of aligned files.
- ``rows.json``: their sources and languages.
- ``frequency.npy``: the largest share of a word in the text of one language.
- ``texts.<n>.<lang>.json.gz``: the texts themselves, of the languages of ``keep_texts``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xling.array_types import Float32, Int64, UInt32
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.text.words.features import FEATURES_VERSION

STAGE = "corpus nway"


@dataclass
class RowSet:
    """Aligned texts as word ids: one column per language.

    Attributes:
        source: name of the source, which has a share of the training.
        langs: languages of the columns.
        ends: int64 (num_langs, num_rows + 1), offsets of the rows of each column in ``words``.
        words: uint32, all columns concatenated.
    """

    source: str
    langs: tuple[str, ...]
    ends: Int64[np.ndarray, "langs offsets"]
    words: UInt32[np.ndarray, " words"]

    def text(self, column: int, row: int) -> UInt32[np.ndarray, " words"]:
        """Return the word ids of one text, uint32; empty if the language lacks the row."""
        words: UInt32[np.ndarray, " words"] = self.words[self.ends[column, row] : self.ends[column, row + 1]]
        return words


def check_output(folder: Path) -> None:
    """Raise UserError where a folder is not a finished output of this stage and version."""
    published = manifest.verify(folder)
    if published.stage != STAGE:
        raise UserError(f"{folder} was made by {published.stage!r}", f"an output of xling {STAGE}")
    if (version := published.config.get("features", 1)) != FEATURES_VERSION:
        raise UserError(
            f"{folder} has version {version} of the word features",
            f"version {FEATURES_VERSION}",
            f"run xling {STAGE} again with another out=",
        )


def open_rows(
    folder: Path,
) -> tuple[
    list[RowSet],
    UInt32[np.ndarray, " features"],
    Int64[np.ndarray, " ends"],
    Float32[np.ndarray, " words"],
]:
    """Open the published rows of aligned text.

    Row sets, hashes (uint32), offsets of each word's hashes (int64), frequencies (float32).

    Raises:
        UserError: ``folder`` is not a finished output of this stage.
    """
    check_output(folder)
    set_descriptions = json.loads((folder / "rows.json").read_text(encoding="utf-8"))
    sets = [
        RowSet(
            each["source"],
            tuple(each["langs"]),
            np.load(folder / f"ends.{i}.npy", mmap_mode="r"),
            np.load(folder / f"words.{i}.npy", mmap_mode="r"),
        )
        for i, each in enumerate(set_descriptions)
    ]
    hashes, hash_ends = np.load(folder / "hashes.npy"), np.load(folder / "hash_ends.npy")
    return sets, hashes, hash_ends, np.load(folder / "frequency.npy")


def read_words(folder: Path) -> list[str]:
    """Return the words of published rows, in the order of their ids."""
    return (folder / "words.txt").read_text(encoding="utf-8").split("\n")[:-1]


def write_texts(folder: Path, number: int, lang: str, texts: Sequence[str | None]) -> None:
    """Keep the texts of one language of a set of rows; a row without one has None."""
    content = json.dumps(list(texts), ensure_ascii=False).encode()
    (folder / f"texts.{number}.{lang}.json.gz").write_bytes(gzip.compress(content, 5, mtime=0))


def kept_texts(folder: Path, langs: Sequence[str]) -> list[list[str]]:
    """Return one text of every row of every set, in the first of some languages that has it; "" where none has one."""
    texts_of_sets = []
    for number, row_set in enumerate(json.loads((folder / "rows.json").read_text(encoding="utf-8"))):
        columns = [
            json.loads(gzip.decompress(path.read_bytes()))
            for lang in langs
            if lang in row_set["langs"] and (path := folder / f"texts.{number}.{lang}.json.gz").is_file()
        ]
        num_rows = np.load(folder / f"ends.{number}.npy", mmap_mode="r").shape[1] - 1
        rows = zip(*columns, strict=True) if columns else [()] * num_rows
        texts_of_sets.append([next((text for text in row if text), "") for row in rows])
    return texts_of_sets
