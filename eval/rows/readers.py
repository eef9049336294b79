"""Readers of the file formats that suites come in; each yields (file, line number, example)."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.output.command_result import tell
from xling.eval.rows.layout import LineOfWords
from xling.eval.rows.suite import Example, Reader, Row, frozen
from xling.text.document import loads
from xling.text.files import corpus_reader
from xling.text.files.compressed import MAX_CELL_BYTES
from xling.text.files.delimited import has_doubled_quotes, has_quotes, unquoted_words


def lines(path: Path, max_bytes: int = MAX_CELL_BYTES) -> Iterator[tuple[int, str]]:
    r"""Yield numbered lines of a UTF-8 file, plain or compressed, without their ``\n`` and the byte order mark.

    Raises:
        UserError: a line is not UTF-8 or has more than ``max_bytes`` bytes, or the file is damaged.
    """
    return enumerate(corpus_reader.any_lines(path, max_bytes), 1)


def cells_of(path: Path, quoted: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line number and the cells of each row of a tab-separated table.

    A table that the module `csv` or pandas wrote has cells in quotes with doubled quotes inside. Its form says so:
    see `xling.text.files.delimited.has_quotes`.

    Args:
        path: UTF-8 file, plain or gzip.
        quoted: its cells may stand in quotes, whatever its form; tabs and line breaks inside alone do not tell.

    Raises:
        UserError: a cell is too large, as when its closing quote is missing.
    """
    if not quoted and not _is_quoted(path):
        yield from ((number, line.split("\t")) for number, line in lines(path))
        return
    rows = csv.reader((line + "\n" for _, line in lines(path)), delimiter="\t")
    start = 1
    try:
        for cells in rows:
            yield start, cells or [""]
            start = rows.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}:{rows.line_num}: {error}", "cells in quotes that are closed") from None


def _is_quoted(path: Path) -> bool:
    texts = [line for _, line in lines(path)]
    if not any('"' in line for line in texts):
        return False
    is_quoted = has_quotes(texts, "\t")
    alike = 0 if is_quoted else sum(map(has_doubled_quotes, (c for line in texts for c in line.split("\t"))))
    if alike:
        tell(
            f"xling: {path}: {alike} cells have the quotes of CSV, but the file is not CSV: read as they stand"
        )
    return is_quoted


def table(
    text: Mapping[str, str],
    label: str,
    id_column: str = "",
    names: Mapping[str, str] | None = None,
    quoted: bool = False,
) -> Reader:
    """Return a reader of tab-separated tables with a header line.

    Args:
        text: field of the example -> column.
        label: column of the class name.
        id_column: column of the id; without one, the id is the row number from 0.
        names: written label -> class name, where they differ.
        quoted: cells may stand in quotes, whatever the form of the file; see `cells_of`.
    """

    def read(paths: tuple[Path, ...]) -> Iterator[Row]:
        (path,) = paths
        rows = cells_of(path, quoted)
        header = next(rows, (1, [""]))[1]
        for column in (*text.values(), label, *([id_column] if id_column else [])):
            if column not in header:
                raise UserError(
                    f"{path}:1: no column {column!r}", f"a header with it; this one has {', '.join(header)}"
                )
        for index, (number, cells) in enumerate(rows):
            if len(cells) != len(header):
                raise UserError(f"{path}:{number}: {len(cells)} columns", f"{len(header)} as in the header")
            row = dict(zip(header, cells, strict=True))
            fields = {name: row[column] for name, column in text.items()}
            name = row[label] if names is None else names.get(row[label], row[label])
            yield path, number, Example(row[id_column] if id_column else str(index), fields, name)

    return read


def from_columns(
    text: Mapping[str, str | Sequence[str]],
    label: str,
    id_column: str = "",
    names: Mapping[str, str] | None = None,
) -> Callable[[Mapping[str, Any], int], Example]:
    """Return a function that makes a row of a record and its number.

    Args:
        text: field of the row -> column of the record, or those of a list of texts.
        label: column of the label.
        id_column: column of the id; without one, the id is the number.
        names: written label -> class name, where they differ.
    """

    def to_example(record: Mapping[str, Any], index: int) -> Example:
        fields = {
            name: frozen(record[column] if isinstance(column, str) else [record[each] for each in column])
            for name, column in text.items()
        }
        answer = frozen(record[label])
        row_id = record[id_column] if id_column else index
        return Example(str(row_id), fields, answer if names is None else names.get(answer, answer))

    return to_example


def columns(
    token: int = 0,
    tag: int = -1,
    separator: str | None = "\t",
    rename: Mapping[str, str] | None = None,
    iob1: bool = False,
    short_ends: bool = False,
) -> Reader:
    """Return a reader of one token per line with a blank line after each sentence.

    The id is the number of the sentence, from 0. Lines that start with ``-DOCSTART-`` and comment lines
    before a sentence (``# `` without a tag) are passed over.

    Args:
        token: column of the token.
        tag: column of the tag.
        separator: between columns; None is any white space.
        rename: tag -> tag, for tags outside the suite's set.
        iob1: a span starts with ``I-`` in the file; it is turned into IOB2.
        short_ends: a line of one character ends the sentence too, as in Masakhane's own readers; it is a tag
            that has lost its token.
    """
    min_columns = max(2, token + 1, -token, tag + 1, -tag)

    def converted(tags: list[str]) -> tuple[str, ...]:
        plain = [rename.get(t, t) for t in tags] if rename else tags
        return iob2(plain) if iob1 else tuple(plain)

    def read(paths: tuple[Path, ...]) -> Iterator[Row]:
        (path,) = paths
        tokens, tags, numbers = [], [], []  # type: ignore[var-annotated]
        sentence = 0
        all_cells = (line.split(separator) for _, line in lines(path) if '""' in line)
        unquoted = unquoted_words(cells[token] for cells in all_cells if len(cells) >= min_columns)

        def sentence_row() -> Row:
            fields = {"tokens": tuple(unquoted.get(word, word) for word in tokens)}
            return path, LineOfWords(numbers), Example(str(sentence), fields, converted(tags))

        for number, line in lines(path):
            is_end = not line or line.isspace() or (short_ends and len(line.strip()) < 2)
            if is_end or line.startswith("-DOCSTART-"):
                if tokens:
                    yield sentence_row()
                    sentence += 1
                tokens, tags, numbers = [], [], []
                continue
            cells = line.split(separator)
            if len(cells) < min_columns:
                if not tokens and line.startswith("#") and len(cells) < 2:
                    continue
                wanted = "a token and a tag"
                raise UserError(f"{path}:{number}: {line[:40]!r} has {len(cells)} columns", wanted)
            tokens.append(cells[token])
            tags.append(cells[tag])
            numbers.append(number)
        if tokens:
            yield sentence_row()

    return read


def conllu(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read CoNLL-U, the format of Universal Dependencies: words and their UPOS.

    Ranges (``1-2``) and empty nodes (``1.1``) are not words; the id is ``sent_id``, or the number of the sentence.
    """
    (path,) = paths
    words: list[list[str]] = []
    numbers: list[int] = []
    name, count = "", 0
    for number, line in chain(lines(path), [(0, "")]):
        if line.startswith("# sent_id ="):
            name = line.partition("=")[2].strip()
        elif line and not line.startswith("#"):
            cells = line.split("\t")
            if len(cells) != 10:
                raise UserError(f"{path}:{number}: {len(cells)} columns", "the ten of CoNLL-U")
            if cells[0].isdigit():
                words.append(cells)
                numbers.append(number)
        elif not line and words:
            tokens, tags = (tuple(word[column] for word in words) for column in (1, 3))
            yield path, LineOfWords(numbers), Example(name or str(count), {"tokens": tokens}, tags)
            words, numbers, name, count = [], [], "", count + 1


def iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Convert IOB1 tags, where ``B-`` only separates two spans of one type, to IOB2, where it begins every span."""
    previous, converted = "O", []
    for tag in tags:
        begins = tag.startswith("I-") and (previous == "O" or previous[2:] != tag[2:])
        converted.append(f"B-{tag[2:]}" if begins else tag)
        previous = tag
    return tuple(converted)


def utterances(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read xSID's CoNLL format: ``# id``, ``# intent``, then number, form, intent and slot per line."""
    (path,) = paths
    comments: dict[str, str] = {}
    words: list[list[str]] = []
    start, count = 1, 0
    for number, line in chain(lines(path), [(0, "")]):
        if line.startswith("# "):
            key, equals, value = line[2:].partition(" = ")
            start = number if key == "intent" or not comments else start
            comments |= {key: value} if equals else {}
        elif line:
            words.append(line.split("\t"))
            if len(words[-1]) != 4:
                raise UserError(f"{path}:{number}: {len(words[-1])} columns", "number, form, intent, slot")
        elif words:
            count += 1
            if "intent" not in comments:
                raise UserError(f"{path}:{start}: utterance without an intent", "a line # intent = NAME")
            label = (comments["intent"], tuple(w[3] for w in words))
            yield (
                path,
                start,
                Example(comments.get("id", str(count)), {"tokens": tuple(w[1] for w in words)}, label),
            )
            comments, words = {}, []


def _start(cells: Sequence[str]) -> str:
    return repr("\t".join(cells)[:40])


def dictionary(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read word pairs, one per line; the translations of a word are collected, and its id is the word."""
    (path,) = paths
    translations: dict[str, list[str]] = {}
    first_line: dict[str, int] = {}
    for number, cells in cells_of(path):
        if len(cells) != 2 or not all(cells):
            raise UserError(f"{path}:{number}: {_start(cells)}", "two words with a tab between")
        source, target = cells
        translations.setdefault(source, []).append(target)
        first_line.setdefault(source, number)
    for source, targets in translations.items():
        yield path, first_line[source], Example(source, {"word": source}, tuple(targets))


def comparable(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read BUCC's files: source sentences, target sentences and the pairs of ids that are translations."""
    source, target, gold = paths
    targets_of: dict[str, list[str]] = {}
    for number, line in lines(gold):
        source_id, tab, target_id = line.partition("\t")
        if not tab:
            raise UserError(f"{gold}:{number}: {line[:40]!r}", "two ids with a tab between")
        targets_of.setdefault(source_id, []).append(target_id)
    for path, side in ((source, "src"), (target, "tgt")):
        for number, (name, *texts) in cells_of(path):
            if not texts:
                raise UserError(f"{path}:{number}: {name[:40]!r}", "an id and a sentence with a tab between")
            fields = {"text": "\t".join(texts), "side": side}
            yield path, number, Example(name, fields, tuple(targets_of.get(name, ())))


def labelled_lines(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read a class name and a text per line, tab-separated without a header, MLDoc's format."""
    (path,) = paths
    for number, (label, *texts) in cells_of(path):
        if not texts:
            raise UserError(f"{path}:{number}: {label[:40]!r}", "a label and a text with a tab between")
        yield path, number, Example(str(number - 1), {"text": "\t".join(texts)}, label)


def ends_with(labels: Sequence[str]) -> Callable[[Path], bool]:
    """Return a function that says whether a table's first line ends with one of the labels.

    XGLUE's published test files have no column of classes.
    """

    def has_answers(path: Path) -> bool:
        _, first = next(lines(path), (1, ""))
        return first.rpartition("\t")[2].strip() in labels

    return has_answers


def headless(text_a: Sequence[str], text_b: Sequence[str], more: int = 0) -> Reader:
    """Make a reader of XGLUE's tables: tab-separated, no header, the class name in the last column.

    Lines in a row with the same first text share a query, whose number is their ``document``.

    Args:
        text_a: names of the columns of the first text, joined by a space.
        text_b: those of the second.
        more: columns that may stand before them, which are not read.
    """
    column_names = (*text_a, *text_b, "class")

    def read(paths: tuple[Path, ...]) -> Iterator[Row]:
        (path,) = paths
        query, previous = -1, None
        for number, cells in cells_of(path):
            if not len(column_names) <= len(cells) <= len(column_names) + more:
                raise UserError(
                    f"{path}:{number}: {len(cells)} columns",
                    f"{len(column_names)}: {', '.join(column_names)}",
                )
            query, previous = query + (cells[0] != previous), cells[0]
            *texts, label = cells[-len(column_names) :]
            fields = {
                "text_a": " ".join(texts[: len(text_a)]),
                "text_b": " ".join(texts[len(text_a) :]),
                "document": str(query),
            }
            yield path, number, Example(str(number - 1), fields, label.strip())

    return read


def squad_of_hub(record: Mapping[str, Any], index: int) -> Example:
    """Convert a record of XQuAD on the Hub, which does not number its paragraphs."""
    answers = record["answers"]
    label = tuple(zip(answers["text"], answers["answer_start"], strict=True))
    return Example(record["id"], {"context": record["context"], "question": record["question"]}, label)


def aligned(row_of: Callable[[Sequence[str], int], Example]) -> Reader:
    """Return a reader of any number of line-aligned files."""

    def read(paths: tuple[Path, ...]) -> Iterator[Row]:
        texts = [[text for _, text in lines(path)] for path in paths]
        for path, rows in zip(paths[1:], texts[1:], strict=True):
            if len(rows) != len(texts[0]):
                raise UserError(
                    f"{path}:{min(len(rows), len(texts[0])) + 1}: {path.name} has {len(rows)} lines and "
                    f"{paths[0].name} {len(texts[0])}",
                    "line-aligned files",
                )
        for index, row in enumerate(zip(*texts, strict=True)):
            yield paths[0], index + 1, row_of(row, index)

    return read


parallel = aligned(lambda row, index: Example(str(index), {"text_a": row[0], "text_b": row[1]}, index))
"""Row ``i`` of one file is the translation of row ``i`` of the other."""


def aligned_texts(fields: Sequence[str]) -> Reader:
    """Return a reader of line-aligned files, one for each field of a row and the last one for its label."""
    return aligned(lambda row, index: Example(str(index), dict(zip(fields, row, strict=False)), row[-1]))


translation = aligned_texts(("text",))
"""A source text and its reference."""


def squad(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read a SQuAD 1.1 JSON file; a missing answer, or one whose text is not at its offset, is an error.

    The line number of a question is the place of its id in the file.
    """
    try:
        yield from _squad(paths[0])
    except KeyError as error:
        raise UserError(f"{paths[0]}: no key {error}", _SQUAD) from None
    except (TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{paths[0]} does not have the layout of SQuAD: {error}", _SQUAD) from None


_SQUAD = "SQuAD 1.1's JSON, in which every question has an answer"


def _squad(path: Path) -> Iterator[Row]:
    text = corpus_reader.json_text(path)
    document = parse_json(path, 1, text)
    position, line_number = 0, 1
    paragraphs = [p for article in document["data"] for p in article["paragraphs"]]
    for index, paragraph in enumerate(paragraphs):
        context = paragraph["context"]
        for qa in paragraph["qas"]:
            offset = text.find(f'"{qa["id"]}"', position)
            if offset > position:
                line_number += text.count("\n", position, offset)
                position = offset
            answers = tuple((a["text"], int(a["answer_start"])) for a in qa["answers"])
            if not answers:
                raise UserError(f"{path}:{line_number}: question {qa['id']} has no answer", _SQUAD)
            for answer, start in answers:
                if context[start : start + len(answer)] != answer:
                    raise UserError(
                        f"{path}:{line_number}: question {qa['id']}: answer {answer!r} is not at character "
                        f"{start}",
                        "answer_start counted in characters of the context",
                    )
            fields = {"context": context, "question": qa["question"], "paragraph": index}
            yield path, line_number, Example(qa["id"], fields, answers)


def json_lines(to_example: Callable[[Mapping[str, Any], int], Example]) -> Reader:
    """Return a reader of one JSON object per line."""

    def read(paths: tuple[Path, ...]) -> Iterator[Row]:
        (path,) = paths
        for number, line in lines(path):
            record = parse_json(path, number, line)
            try:
                yield path, number, to_example(record, number - 1)
            except KeyError as error:
                raise UserError(
                    f"{path}:{number}: no key {error} among {', '.join(sorted(record))}",
                    "the keys of the official file",
                    "get the file again",
                ) from None
            except (TypeError, ValueError, AttributeError) as error:
                raise UserError(
                    f"{path}:{number}: a value has the wrong type: {error}",
                    "rows as in the official file",
                    "get the file again",
                ) from None

    return read


def with_repeated_ids(reader: Reader) -> Reader:
    """Return a reader of an official file whose ids are not all different: later rows of one become ``ID#2``."""

    def read(paths: tuple[Path, ...]) -> Iterator[Row]:
        seen: Counter[str] = Counter()
        for path, number, row in reader(paths):
            seen[row.id] += 1
            yield path, number, row if seen[row.id] == 1 else replace(row, id=f"{row.id}#{seen[row.id]}")

    return read


def parse_json(path: Path, number: int, text: str) -> Any:
    """Parse a JSON value, or raise an error that names the file and line; half of a character becomes U+FFFD."""
    try:
        return loads(text)
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}:{number + error.lineno - 1}: not JSON: {error.msg}",
            fix="correct the line, or get the file again",
        ) from None
    except RecursionError:
        raise UserError(f"{path}:{number}: the JSON is nested too deeply", fix="get the file again") from None
