"""Readers of the file formats that suites come in; each yields (file, line number, example)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from eval.suite import Example, Reader, Row
from xling.core.errors import UserError


def lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Numbered lines of a UTF-8 file, plain or gzip, without their ``\n``; only ``\n`` ends a line.

    Raises:
        UserError: a line is not UTF-8.
    """
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as handle:
        for number, raw in enumerate(handle, 1):
            try:
                yield number, raw.decode("utf-8").rstrip("\n").removesuffix("\r")
            except UnicodeDecodeError as error:
                raise UserError(f"{path}:{number}: not UTF-8 ({error.reason})", fix="convert it") from None


def table(
    text: Mapping[str, str], label: str, id_column: str = "", names: Mapping[str, str] | None = None
) -> Reader:
    """A reader of tab-separated tables with a header line.

    Args:
        text: field of the example -> column.
        label: column of the class name.
        id_column: column of the id; without one, the id is the row number from 0.
        names: written label -> class name, where they differ.
    """

    def read(paths: tuple[Path, ...]) -> Iterator[Row]:
        (path,) = paths
        rows = lines(path)
        header = next(rows, (1, ""))[1].split("\t")
        for column in (*text.values(), label, *([id_column] if id_column else [])):
            if column not in header:
                raise UserError(f"{path}:1: no column {column!r}", f"a header with it; found {header}")
        for number, line in rows:
            cells = line.split("\t")
            if len(cells) != len(header):
                raise UserError(f"{path}:{number}: {len(cells)} columns", f"{len(header)} as in the header")
            row = dict(zip(header, cells, strict=True))
            fields = {name: row[column] for name, column in text.items()}
            name = row[label] if names is None else names.get(row[label], row[label])
            yield path, number, Example(row[id_column] if id_column else str(number - 2), fields, name)

    return read


def columns(
    form: int = 0, tag: int = -1, separator: str | None = "\t", rename: Mapping[str, str] | None = None
) -> Reader:
    """A reader of one token a line with a blank line after each sentence.

    The id is the number of the sentence, from 0. Lines that start with ``-DOCSTART-`` and comment lines
    before a sentence (``# `` without a tag) are passed over.

    Args:
        form: column of the token.
        tag: column of the tag.
        separator: between columns; None is any white space.
        rename: tag -> tag, for tags outside the suite's set.
    """
    renamed = rename or {}

    def read(paths: tuple[Path, ...]) -> Iterator[Row]:
        (path,) = paths
        tokens: list[str] = []
        tags: list[str] = []
        start, sentence, number = 1, 0, 0
        for number, line in lines(path):
            if not line.strip() or line.startswith("-DOCSTART-"):
                if tokens:
                    yield path, start, Example(str(sentence), {"tokens": tuple(tokens)}, tuple(tags))
                    sentence += 1
                tokens, tags, start = [], [], number + 1
                continue
            cells = line.split(separator)
            if not tokens and line.startswith("#") and len(cells) < 2:
                continue
            if len(cells) < 2 or not -len(cells) <= form < len(cells) > tag:
                wanted = "a token and a tag"
                raise UserError(f"{path}:{number}: {line[:40]!r} has {len(cells)} columns", wanted)
            tokens.append(cells[form])
            tags.append(renamed.get(cells[tag], cells[tag]))
        if tokens:
            yield path, start, Example(str(sentence), {"tokens": tuple(tokens)}, tuple(tags))

    return read


def parallel(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Two line-aligned files; row ``i`` of one is the translation of row ``i`` of the other."""
    left, right = paths
    texts = [[text for _, text in lines(path)] for path in paths]
    if len(texts[0]) != len(texts[1]):
        raise UserError(
            f"{left}:{min(map(len, texts)) + 1}: {left.name} has {len(texts[0])} lines and {right.name} "
            f"{len(texts[1])}",
            "two line-aligned files",
        )
    for index, (a, b) in enumerate(zip(*texts, strict=True)):
        yield left, index + 1, Example(str(index), {"text_a": a, "text_b": b}, index)


def translation(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Two line-aligned files, the source and its reference translation."""
    for path, number, row in parallel(paths):
        yield path, number, Example(row.id, {"text": row.fields["text_a"]}, row.fields["text_b"])


def squad(paths: tuple[Path, ...]) -> Iterator[Row]:
    """A SQuAD 1.1 JSON file; answers whose text is not at their start are an error.

    The line number of a question is the place of its id in the file.
    """
    (path,) = paths
    text = "\n".join(line for _, line in lines(path))
    document = parse_json(path, 1, text)
    position = 0
    for paragraph in (p for article in document["data"] for p in article["paragraphs"]):
        context = paragraph["context"]
        for qa in paragraph["qas"]:
            position = max(text.find(f'"{qa["id"]}"', position), 0)
            number = text.count("\n", 0, position) + 1
            answers = tuple((a["text"], int(a["answer_start"])) for a in qa["answers"])
            for answer, start in answers:
                if context[start : start + len(answer)] != answer:
                    raise UserError(
                        f"{path}:{number}: question {qa['id']}: answer {answer!r} is not at character "
                        f"{start}",
                        "answer_start counted in characters of the context",
                    )
            yield path, number, Example(qa["id"], {"context": context, "question": qa["question"]}, answers)


def json_lines(to_example: Callable[[Mapping[str, Any], int], Example]) -> Reader:
    """A reader of one JSON object a line."""

    def read(paths: tuple[Path, ...]) -> Iterator[Row]:
        (path,) = paths
        for number, line in lines(path):
            record = parse_json(path, number, line)
            try:
                yield path, number, to_example(record, number - 1)
            except KeyError as error:
                raise UserError(f"{path}:{number}: no key {error}", f"found {sorted(record)}") from None

    return read


def parse_json(path: Path, number: int, text: str) -> Any:
    """A JSON value, or an error that names the file and line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{number + error.lineno - 1}: not JSON: {error.msg}") from None
