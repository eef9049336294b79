"""Documents of two languages: read, cut into sentences, and paired by name, by address or by what they hold in common.

Source: Resnik and Smith 2003 (STRAND: addresses that differ in the language alone).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Float32
from xling.core import languages
from xling.core.errors import UserError
from xling.text.files import corpus_reader
from xling.text.files.around_text import body_lines
from xling.text.files.globs import matching_files
from xling.text.files.other_formats import head_of
from xling.text.files.parquet_rows import text_rows
from xling.text.words.sentence_ends import find_abbreviations, split_sentences

NAMES = ("url", "u", "id", "name", "doc")
TEXT_FIELDS = ("text", "content", "raw_content")
MIN_MARGIN = 1.2
"""Cosine of two documents against the mean with their nearest ones, from which they are taken for translations."""

_NEIGHBOURS = 4
_SEPARATORS = re.compile(r"[/._\-?=&:#]+")


@dataclass(frozen=True)
class DocumentText:
    """A document to align: its name and its sentences.

    Attributes:
        name: its address, its id or the path of its file below the folder that was given.
        sentences: in order, each without line breaks.
    """

    name: str
    sentences: tuple[str, ...]


def read(paths: Sequence[str], split: bool) -> list[DocumentText]:
    """The documents of files, globs and folders.

    A text file is one document. JSON lines and Parquet hold one a row, in ``text``, with ``url`` or ``id``.

    Args:
        split: cut lines into sentences; else a line is one.

    Raises:
        UserError: nothing is there, a file cannot be read, or a row has no text.
    """
    gathered = [(name, lines) for path, root in _files(paths) for name, lines in _documents(path, root)]
    short = find_abbreviations(line for _, lines in gathered for line in lines) if split else frozenset()
    texts = []
    for name, lines in gathered:
        parts = (part for line in lines for part in (split_sentences(line, short) if split else [line]))
        if whole := tuple(" ".join(part.split()) for part in parts if part.strip()):
            texts.append(DocumentText(name, whole))
    if not texts:
        raise UserError(f"no text in {', '.join(paths)}", "documents with text in them", "check the files")
    return texts


def _files(paths: Sequence[str]) -> Iterator[tuple[Path, Path]]:
    """Every file, and the folder below which its name counts."""
    for folder_or_file in paths:
        path = Path(folder_or_file)
        if path.is_dir() and not list(path.glob("shards/*.parquet")):
            files_inside = matching_files(f"{path}/**/*")
            if not files_inside:
                raise UserError(
                    f"{folder_or_file} is an empty folder", "a folder of documents", "check the path"
                )
            yield from ((file, path) for file in files_inside)
        else:
            yield from ((file, file.parent) for file in corpus_reader.resolve_files([folder_or_file]))


def _documents(path: Path, root: Path) -> Iterator[tuple[str, list[str]]]:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    name = str(path.relative_to(root))
    if ".jsonl" in suffixes or ".json" in suffixes:
        for number, line in enumerate(corpus_reader.read_lines(path), 1):
            if line.strip():
                yield _read_record(line, f"{path} line {number}", f"{name}/{number}")
    elif suffixes[-1:] == [".parquet"]:
        for number, (text, names) in enumerate(text_rows(path, TEXT_FIELDS, NAMES)):
            yield next(map(str, filter(None, names)), f"{name}/{number}"), (text or "").split("\n")
    else:
        lines = list(body_lines(corpus_reader.read_lines(path), path=path))
        corpus_reader.refuse_other_formats(head_of(iter(lines)), path)
        yield name, lines


def _read_record(line: str, where: str, name: str) -> tuple[str, list[str]]:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: {str(error)[:80]}", "a JSON object a line", "correct the line") from None
    text = (
        next((row[key] for key in TEXT_FIELDS if isinstance(row.get(key), str)), None)
        if isinstance(row, dict)
        else None
    )
    if text is None:
        raise UserError(
            f"{where} has none of {', '.join(TEXT_FIELDS)}", 'lines such as {"url": ..., "text": ...}'
        )
    paths = next((str(row[key]) for key in NAMES if row.get(key)), name)
    return paths, text.split("\n")


def pairs_by_name(
    src: Sequence[DocumentText], tgt: Sequence[DocumentText], langs: tuple[str, str]
) -> list[tuple[int, int]]:
    """Documents whose names differ in the language alone, by their numbers; names that are not unique pair nothing."""
    sides = [_name_keys(side, lang) for side, lang in zip((src, tgt), langs, strict=True)]
    return [(i, sides[1][key]) for key, i in sides[0].items() if key in sides[1]]


def _name_keys(texts: Sequence[DocumentText], lang: str) -> dict[tuple[str, ...], int]:
    spellings = {code.lower().replace("_", "-") for code in languages.spellings(lang)}
    spellings |= {languages.get(lang).name.lower(), languages.get(lang).base}
    texts_of_keys: dict[tuple[str, ...], list[int]] = {}
    for number, text in enumerate(texts):
        parts = _SEPARATORS.split(text.name.lower())
        texts_of_keys.setdefault(tuple(part for part in parts if part and part not in spellings), []).append(
            number
        )
    return {key: numbers[0] for key, numbers in texts_of_keys.items() if len(numbers) == 1}


def pairs_by_vectors(src: Any, tgt: Any) -> list[tuple[int, int, float]]:
    """Documents that are each other's best by the margin of their vectors: (source, target, margin).

    Args:
        src: vectors of length 1, (documents, dim), dense or sparse.
        tgt: likewise.
    """
    if not src.shape[0] or not tgt.shape[0]:
        return []
    cosines = src @ tgt.T
    cosines = np.asarray(cosines.toarray() if hasattr(cosines, "toarray") else cosines, dtype=np.float32)
    if cosines.shape == (1, 1):
        return [(0, 0, float(cosines[0, 0]))]
    neighbour_means = (_mean_of_nearest(cosines)[:, None] + _mean_of_nearest(cosines.T)[None]) / 2
    margins = cosines / np.maximum(neighbour_means, 1e-6)
    forward, backward = margins.argmax(axis=1), margins.argmax(axis=0)
    return [
        (i, int(j), float(margins[i, j]))
        for i, j in enumerate(forward)
        if backward[j] == i and margins[i, j] >= MIN_MARGIN
    ]


def _mean_of_nearest(cosines: Float32[np.ndarray, "rows columns"]) -> Float32[np.ndarray, " rows"]:
    count = min(_NEIGHBOURS, cosines.shape[1])
    return np.partition(cosines, -count, axis=1)[:, -count:].mean(axis=1)
