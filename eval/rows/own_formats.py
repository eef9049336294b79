"""Readers of files that users bring: columns of words and tags, tables, JSON lines, line-aligned texts.

A file is recognised by its content: JSON lines by ``{``, tags by blank lines between sentences, a table by the
delimiter that gives every line the same number of cells. What was recognised is returned in words, so that it can be
printed. What cannot be told apart is an error that names file and line.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.eval.rows.own_columns import (
    LABEL,
    TAG,
    OwnRow,
    OwnTable,
    Reading,
    check_unread,
    column_number,
    columns_by_name,
    guessed_columns,
    named_columns,
    no_column,
    unread_columns,
)
from xling.eval.rows.own_inline import check_lengths, has_lists, rows_of_lists, sentences_by_line
from xling.eval.rows.own_markup import (
    ENDINGS,
    SEGMENT,
    is_wmt_test_set,
    read_markup,
    refuse_other_format,
)
from xling.eval.rows.own_spans import has_spans, is_accepted, spans_within_words, words_of_spans
from xling.eval.rows.own_tables import delimited_rows
from xling.eval.rows.readers import lines, parse_json
from xling.eval.rows.tag_schemes import span_types
from xling.text.files.delimited import unquoted_words

_WORD_FILES = (".conll", ".conllu", ".bio", ".iob")
CONLLU_WIDTH = 10
_RANGE = re.compile(r"\d+[-.]\d+")
"""Number of a range of words or of an empty node in CoNLL-U."""
_BLANKS = re.compile("[ \t]+")  # not every white space: a no-break space is part of a word
_MARKS = {
    "sub-words (@@)": re.compile(r"\w@@( |$)"),
    "sub-words (\u2581)": re.compile("(^| )\u2581"),
    "no text (NULL)": re.compile(r"^(\\N|NULL|<NA>|NaN)$"),
    "escapes (&quot;)": re.compile("&(amp|lt|gt|quot|apos|#39|#91|#93|#124);"),
}
"""What BPE, SentencePiece, databases and Moses leave in a text or in its place."""
_EXCELS_LINE = re.compile("sep=[,;\t|]", re.IGNORECASE)
"""First line by which Excel names a delimiter."""
_SENTENCE_NAMES = (
    "sentence",
    "sent",
    "sid",
    "sentence #",
    "sentence id",
    "sentence number",
    "sent id",
    "sentence idx",
)
"""Names of a column that numbers the sentences, with blanks for the underscores and hyphens in them."""
MAX_SENTENCE_WORDS = 500
"""Words of a file without blank lines from which it cannot be one sentence."""


def read_table(paths: Sequence[Path], reading: Reading, langs: Sequence[str] = ()) -> OwnTable:
    """Read a file, or two line-aligned ones.

    Args:
        paths: one file, or the two sides of pairs of texts.
        reading: what is looked for.
        langs: the languages of the two sides, which may be the names of columns.

    Raises:
        UserError: naming file and line.
    """
    if len(paths) == 2:
        return _aligned(paths)
    path = paths[0]
    if len(langs) == 2 and path.suffix.lower() in ENDINGS:
        return read_markup(path, langs)
    numbered = [
        (number, line.removeprefix("\ufeff") if number == 1 else line) for number, line in lines(path)
    ]
    if numbered and _EXCELS_LINE.fullmatch(numbered[0][1].strip()):
        del numbered[0]
    filled = [(number, line) for number, line in numbered if line.strip()]
    if not filled:
        raise UserError(
            f"{path} has no rows", fix="give a file with rows, laid out as docs/guides/own_test_set.md says"
        )
    if len(langs) == 2 and is_wmt_test_set(line for _, line in filled[:3]):
        return read_markup(path, langs)
    refuse_other_format(path, filled[0][1])
    if filled[0][1].lstrip().startswith("{"):
        table = _json_rows(path, filled, reading, langs)
    elif filled[0][1].lstrip().startswith("[") and path.suffix == ".json":
        raise UserError(
            f"{path} is one JSON list",
            "one JSON object a line",
            f"convert it: jq -c '.[]' {path} > rows.jsonl",
        )
    elif _is_json_list(filled[0][1]):
        raise UserError(
            f"{path}:{filled[0][0]}: a JSON list: {filled[0][1][:40]!r}",
            "one JSON object a line, or a table",
            "write {'text': ..., 'label': ...}; for spaCy's entities {'text': ..., 'spans': [{'start': 0, 'end': 3, "
            "'label': 'PER'}]}",
        )
    elif reading.has_words and has_lists(filled):
        table = rows_of_lists(path, delimited_rows(path, numbered, reading, langs))
    elif reading.has_words and (reading.is_labelled or not _is_running_text(path, numbered)):
        table = _tagged(path, numbered, reading)
    else:
        table = delimited_rows(path, numbered, reading, langs)
    for row in table.rows:
        for column, cell in row.cells.items():
            if not cell or not all(each.strip() for each in ([cell] if isinstance(cell, str) else cell)):
                raise UserError(
                    f"{path}:{row.lines[0]}: {column} is empty",
                    "a row with all of its cells",
                    "fill or delete it",
                )
    return replace(table, facts=table.facts + _marks_of_programs(table.rows))


def _marks_of_programs(rows: Sequence[OwnRow]) -> str:
    """Return in words how many rows have texts that were cut into sub-words or escaped, else ""."""
    texts = [[cell for c, cell in row.cells.items() if isinstance(cell, str) and c != LABEL] for row in rows]
    counts = {what: sum(any(map(mark.search, cells)) for cells in texts) for what, mark in _MARKS.items()}
    return "".join(f"; {count} with {what}, read as they are" for what, count in counts.items() if count)


def _is_json_list(line: str) -> bool:
    """Return whether a line is a list of several values, as programs write rows without names."""
    try:
        values = json.loads(line) if line.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        return False
    return isinstance(values, list) and len(values) > 1 and isinstance(values[0], str)


def _aligned(paths: Sequence[Path]) -> OwnTable:
    sides = [[line.removeprefix("\ufeff") for _, line in lines(path)] for path in paths]
    for path, texts in zip(paths, sides, strict=True):
        _check_plain(path, texts)
    if len(sides[0]) != len(sides[1]):
        shorter = min(map(len, sides))
        raise UserError(
            f"{paths[1]}:{shorter + 1}: {len(sides[1])} lines, and {paths[0]} has {len(sides[0])}",
            "line-aligned files: line i of one is the translation of line i of the other",
        )
    rows = []
    for number, (text_a, text_b) in enumerate(zip(*sides, strict=True), 1):
        for path, text in zip(paths, (text_a, text_b), strict=True):
            if not text.strip():
                raise UserError(
                    f"{path}:{number}: an empty line", "a text on every line", "delete it on both sides"
                )
        rows.append(OwnRow((number,), {"text_a": text_a, "text_b": text_b}))
    if not rows:
        raise UserError(f"{paths[0]} has no rows", fix="give files with a text a line")
    return OwnTable(rows, f"line-aligned with {paths[1].name}{_marks_of_programs(rows)}")


def _check_plain(path: Path, texts: Sequence[str]) -> None:
    """Raise UserError if one of two line-aligned files holds tables, JSON or markup in place of a text a line."""
    filled = [text for text in texts if text.strip()]
    if filled and (all("\t" in text for text in filled) or all(text.startswith('{"') for text in filled)):
        what, fix = "rows of a table", "join tables of one pair into one file: cat A B > C"
    elif any(map(SEGMENT.match, texts)):
        what, fix = (
            "markup",
            "take the texts out of it: sed -n 's/.*<seg[^>]*> *\\(.*\\) *<\\/seg>.*/\\1/p' FILE",
        )
    else:
        return
    raise UserError(f"{path} has {what}, and is one of two line-aligned files", "a text on every line", fix)


# JSON lines.


def _json_rows(
    path: Path, filled: Sequence[tuple[int, str]], reading: Reading, langs: Sequence[str]
) -> OwnTable:
    records = [(number, _flat(parse_json(path, number, line))) for number, line in filled]
    for number, record in records:
        if not isinstance(record, dict):
            raise UserError(f"{path}:{number}: not a JSON object", '{"text": ..., "label": ...} on each line')
    facts, unread, num_records = "", list(map(str, records[0][1])), len(records)
    accepted = [each for each in records if not reading.is_labelled or is_accepted(each[1])]
    if TAG in reading.wanted and not reading.columns and has_spans((accepted or records)[0][1]):
        facts, unread = ", words of a text and its spans, split at blanks, punctuation and ends of spans", []
        num_within, num_spans = spans_within_words(record for _, record in accepted)
        if num_within:
            facts += f", {num_within} of {num_spans} spans begin or end within a word"
        records = [(number, words_of_spans(path, number, record)) for number, record in accepted]
    names = list(map(str, records[0][1])) if records else []
    keys = columns_by_name(path, names, reading, langs)
    if "answer" not in keys.values() and len(accepted) < num_records:
        if not accepted:
            raise UserError(f"{path}: no row has the answer accept", fix="give a file with accepted rows")
        facts += f", {num_records - len(accepted)} rows that were not accepted left out"
        kept = {number for number, _ in accepted}
        records = [each for each in records if each[0] in kept]
    if missing := [column for column in reading.wanted if column not in keys]:
        raise no_column(path, missing[0], names)
    rows: list[OwnRow] = []
    for number, record in records:
        cells = {}
        for column, key in keys.items():
            if key not in record:
                raise UserError(
                    f"{path}:{number}: no {key!r}",
                    f"the fields of the first line; this one has {', '.join(record)}",
                )
            cells[column] = _json_cell(path, number, key, record[key], column)
        check_lengths(path, number, cells)
        rows.append(OwnRow((number,), cells))
    unread = [key for key in unread if key not in keys.values()]
    told = check_unread(path, {key: [record.get(key) for _, record in records] for key in unread})
    return OwnTable(rows, f"JSON lines, {named_columns(keys)}{facts}{unread_columns(unread)}{told}")


def _flat(record: Any) -> Any:
    """Return a record with the fields of a nested ``translation`` or ``fields`` beside its own."""
    for name in ("translation", "fields"):
        if isinstance(record, dict) and isinstance(record.get(name), dict):
            record = {**{key: value for key, value in record.items() if key != name}, **record[name]}
    return record


def _json_cell(path: Path, number: int, key: str, value: Any, column: str) -> Any:
    """Return a text, or a tuple of texts for words and tags; numbers become their digits."""
    if column == LABEL and isinstance(value, list) and len(value) == 1:  # as doccano writes one class
        (value,) = value
    if column in ("token", "tag"):
        if not isinstance(value, list):
            raise UserError(
                f"{path}:{number}: {key} is {value!r}"[:100], "a list, with an item for every word"
            )
        return tuple(_json_cell(path, number, key, item, "") for item in value)
    if isinstance(value, str):
        return value.strip() if column == LABEL else value
    if isinstance(value, (bool, int, float)):
        return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)
    fix = "write a row a line; in pandas FRAME.to_json(FILE, orient='records', lines=True)"
    raise UserError(f"{path}:{number}: {key} is {value!r}"[:100], "a text or a number", fix if value else "")


# Words and tags in columns.


def _is_running_text(path: Path, numbered: Sequence[tuple[int, str]]) -> bool:
    """Return whether a file without tags has a text a line, and no word a line."""
    filled = [line for _, line in numbered if line.strip()]
    if path.suffix in _WORD_FILES or any("\t" in line or line.startswith("-DOCSTART-") for line in filled):
        return False
    widths = {len(_cells(line, False)) for line in filled}
    return len(widths) > 1 or (len(filled) == len(numbered) and widths != {1})


def _check_sentences(path: Path, rows: Sequence[OwnRow]) -> None:
    """Raise UserError for one endless sentence, or for whole texts in place of words and tags."""
    if len(rows) == 1 and len(rows[0].lines) > MAX_SENTENCE_WORDS:
        raise UserError(
            f"{path}: one sentence of {len(rows[0].lines)} words",
            "a blank line after each sentence",
            "put blank lines in, or name a column that numbers the sentences: sentence_id word tag",
        )
    cells = [cell for row in rows for column in row.cells.values() for cell in column]
    if 4 * sum(cell.count(" ") > 2 for cell in cells) > len(cells):
        raise UserError(
            f"{path}: most lines hold whole texts",
            "a word and its tag on each line",
            "a class for each text is classes=, two texts pairs=; columns.tag=NUMBER names another column",
        )


def _tagged(path: Path, numbered: Sequence[tuple[int, str]], reading: Reading) -> OwnTable:
    """Read a word a line with blank lines between sentences."""
    if reading.header:
        raise UserError("header=true", "header= for tables", "leave it out: names of columns are recognised")
    numbered, delimiter = _by_tabs(numbered)
    content = [(n, line) for n, line in numbered if line.strip() and not line.startswith("-DOCSTART-")]
    is_conllu = path.suffix == ".conllu" or any(line.startswith("# sent_id") for _, line in content)
    word_lines = [line for _, line in content if not line.startswith("#")]
    by_tabs = is_conllu or 2 * sum("\t" in line for line in word_lines) > len(word_lines)
    names = _cells(word_lines[0], by_tabs) if word_lines else []
    by_name = guessed_columns(names, ("token", "tag"), ())
    if len(names) > 1 and {*reading.wanted} <= by_name.keys():  # the first line names the columns
        numbered = [(n, line) for n, line in numbered if n != content[0][0]]
        word_lines = word_lines[1:]
    else:
        names = []
    common = Counter(len(_cells(line, by_tabs)) for line in word_lines).most_common(1)
    width = common[0][0] if common else 0
    if reading.is_labelled and (table := sentences_by_line(path, numbered)):
        return table
    is_conllu &= width == CONLLU_WIDTH
    default, note = {column: str(names.index(name) + 1) for column, name in by_name.items() if names}, ""
    if not names:
        is_conllu |= by_tabs and width == CONLLU_WIDTH and _has_heads(word_lines)
        default, note = _usual_columns(path, numbered, width, by_tabs, is_conllu, reading)
    given = {c: str(names.index(n) + 1) if n in names else n for c, n in reading.columns.items()}
    place = {
        column: column_number(path, column, {**default, **given}[column], width) for column in reading.wanted
    }
    if reading.is_labelled and (width < 2 or place["token"] == place["tag"]):
        raise UserError(
            f"{path}:{content[0][0] if content else 1}: {width} columns"
            + (" of white space" if not by_tabs else ""),
            "a word and its tag on each line, a blank line after each sentence",
            "put white space in place of commas" if word_lines and "," in word_lines[0] else "",
        )
    plain_names = [name.strip().lower().replace("_", " ").replace("-", " ") for name in names]
    sentence_id = next((i for i, name in enumerate(plain_names) if name in _SENTENCE_NAMES), -1)
    rows, passed = _sentences(path, numbered, width, by_tabs, place, is_conllu, sentence_id)
    _check_sentences(path, rows)
    rows, num_quoted = (rows, 0) if is_conllu else _without_quotes(rows)
    facts = [
        f"{width} columns by {delimiter or ('tabs' if by_tabs else 'blanks')}",
        *(f"{c} is {i + 1}{f' {names[i]!r}' if names else ''}" for c, i in place.items()),
        *filter(None, [note]),
        *(
            [f"column {sentence_id + 1} {names[sentence_id]!r} numbers the sentences"]
            if sentence_id >= 0
            else []
        ),
    ]
    facts += [f"{count} {what} passed over" for what, count in passed.items()]
    facts += [f"{num_quoted} words in quotes, as in CSV, read without them"] if num_quoted else []
    return OwnTable(rows, ", ".join(facts))


def _by_tabs(numbered: Sequence[tuple[int, str]]) -> tuple[list[tuple[int, str]], str]:
    """Return lines with tabs in place of commas or semicolons between cells, and the delimiter's name or ""."""
    content = [line for _, line in numbered if line.strip() and not line.startswith("-DOCSTART-")]
    for delimiter, name in ((",", "commas"), (";", "semicolons")):
        if content and all(delimiter in line and "\t" not in line for line in content):
            cells = {n: next(csv.reader([line], delimiter=delimiter), []) for n, line in numbered}
            if len({len(row) for row in cells.values() if len(row) > 1}) == 1:
                return [(n, "\t".join(cell.strip() for cell in row)) for n, row in cells.items()], name
    return list(numbered), ""


def _usual_columns(
    path: Path,
    numbered: Sequence[tuple[int, str]],
    width: int,
    by_tabs: bool,
    is_conllu: bool,
    reading: Reading,
) -> tuple[dict[str, str], str]:
    """Return the numbers of the columns of words and tags in a file that does not name them, and a note or "".

    Raises:
        UserError: the first column cannot have the words.
    """
    if is_conllu:
        return {"token": "2", "tag": "4"}, "as CoNLL-U"
    sentences: list[list[str]] = [[]]
    whole: list[list[str]] = []
    for _, line in numbered:
        if not line.strip() or line.startswith("-DOCSTART-"):
            sentences.append([])
        elif sentences[-1] or not line.startswith("#"):
            sentences[-1].append(_cells(line, by_tabs)[0])
            whole.append(_cells(line, by_tabs))
    longer = [cells for cells in sentences if len(cells) > 1]
    columns = [*zip(*(cells for cells in whole if len(cells) == width), strict=True)]
    tag, note = _tag_column(path, columns, reading) if reading.is_labelled and columns else (width, "")
    if tag == 1 and width == 2:
        return {"token": "2", "tag": "1"}, note
    if width <= reading.is_labelled + 1 or not longer:
        return {"token": "1", "tag": str(tag)}, note
    for start in (0, 1):
        if all(cells == [str(start + i) for i in range(len(cells))] for cells in sentences):
            numbers = "column 1 numbers the words"
            return {"token": "2", "tag": str(tag)}, f"{numbers}, {note}" if note else numbers
    if "token" not in reading.columns and all(len(set(cells)) == 1 for cells in longer):
        raise UserError(
            f"{path}: which column is the token? The first one is the same in all of a sentence: {longer[0][0]!r}",
            f"1 to {width}",
            "columns.token= with its number",
        )
    return {"token": "1", "tag": str(tag)}, note


def _tag_column(path: Path, columns: Sequence[Sequence[str]], reading: Reading) -> tuple[int, str]:
    """Return the number of the column of the tags, and a note or "".

    It is the last one with anything in it. If another one alone marks spans, as ``B-PER`` does, it is that one.

    Raises:
        UserError: several have marks of spans, of the same types or of which none is the last.
    """
    last = max((n for n, cells in enumerate(columns, 1) if any(map(str.strip, cells))), default=len(columns))
    types_of_column = ((n, span_types(cells)) for n, cells in enumerate(columns, 1))
    types = {n: names for n, names in types_of_column if names}
    if TAG in reading.columns or not types:
        return last, ""
    if {*columns[last - 1]} <= {"O"}:
        return last, ", ".join(f"column {n} marks spans, and the last one has O alone" for n in types)
    alike = [n for n in types if n != last and not types[n].isdisjoint(types.get(last, types[n]))]
    if last in types and not alike:
        return last, ", ".join(f"column {n} marks spans, too" for n in types if n != last)
    if len(alike) > 1 or last in types or (alike == [1] and len(columns) > 2):
        numbers = " and ".join(map(str, sorted({*alike, *types})))
        raise UserError(
            f"{path}: which column is the tag? Marks of spans, as B-{min(types[alike[0]])}, stand in {numbers}",
            f"1 to {len(columns)}",
            "columns.tag= with its number, and columns.token= if the words are not in column 1",
        )
    return alike[0], f"the only column that marks spans; the last one has {columns[last - 1][0]!r}"


def _has_heads(word_lines: Sequence[str]) -> bool:
    """Return whether lines of ten cells have numbers where CoNLL-U and CoNLL-X have the word's and its head's."""
    cells = [line.split("\t") for line in word_lines]
    return all(
        _RANGE.fullmatch(each[0]) or (each[0].isdigit() and each[6:7] and each[6].isdigit()) for each in cells
    )


def _sentences(
    path: Path,
    numbered: Sequence[tuple[int, str]],
    width: int,
    by_tabs: bool,
    place: Mapping[str, int],
    is_conllu: bool,
    sentence_id: int,
) -> tuple[list[OwnRow], Counter[str]]:
    """Return the sentences, and the number of lines that are no words, by what they are.

    ``sentence_id`` is the place of a column that numbers the sentences, or has something on their first lines; or -1.
    """
    rows: list[OwnRow] = []
    words: list[tuple[int, list[str]]] = []
    passed: Counter[str] = Counter()
    open_sentence = ""
    for number, line in [*numbered, (0, "")]:
        is_outside = not line.strip() or line.startswith("-DOCSTART-")
        cells = _cells(line, by_tabs)
        begins = 0 <= sentence_id < len(cells) and cells[sentence_id].strip() not in ("", open_sentence)
        if words and (is_outside or begins):
            columns = {c: tuple(word[i] for _, word in words) for c, i in place.items()}
            rows.append(OwnRow(tuple(n for n, _ in words), columns))
            words = []
        open_sentence = cells[sentence_id].strip() if begins else open_sentence
        if is_outside:
            passed["-DOCSTART- lines"] += bool(line.strip())
            continue
        if not words and line.startswith("#") and (len(cells) != width or "=" in line):
            passed["comments"] += 1
            continue
        if len(cells) != width:
            raise UserError(
                f"{path}:{number}: {len(cells)} columns: {line[:40]!r}",
                f"{width}, as on most lines",
                "correct the line",
            )
        if is_conllu and not cells[0].isdigit():
            passed["ranges and empty nodes"] += 1
            continue
        if empty := [c for c, i in place.items() if not cells[i].strip()]:
            raise UserError(f"{path}:{number}: {' and '.join(empty)} is empty", "a word and its tag")
        words.append((number, [cell.strip(" ") for cell in cells]))
    return rows, +passed


def _without_quotes(rows: Sequence[OwnRow]) -> tuple[list[OwnRow], int]:
    """Return the sentences without the quotes that CSV puts around words with quotes, and the number of such words."""
    unquoted = unquoted_words(word for row in rows for word in row.cells["token"])
    if not unquoted:
        return list(rows), 0
    bare = [tuple(unquoted.get(word, word) for word in row.cells["token"]) for row in rows]
    changed = [
        replace(row, cells={**row.cells, "token": words}) for row, words in zip(rows, bare, strict=True)
    ]
    return changed, sum(word in unquoted for row in rows for word in row.cells["token"])


def _cells(line: str, by_tabs: bool) -> list[str]:
    return line.split("\t") if by_tabs else _BLANKS.split(line.strip(" \t"))
