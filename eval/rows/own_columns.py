"""Columns of files that users bring: which of them a row needs, and under which names files have them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.settings.values import code_of

LABEL, TAG = "label", "tag"
_NAMES: Mapping[str, str] = {
    "token": "token tokens word words form",
    "tag": "tag tags ner ner_tags pos pos_tags upos label labels",
    "text": "text sentence content document doc body tweet review headline utterance comment message",
    LABEL: "label labels class category topic sentiment intent target gold gold_label y",
    "text_a": "text_a text1 sentence1 sentence_a premise question1 query source src source_text src_text",
    "text_b": "text_b text2 sentence2 sentence_b hypothesis question2 translation tgt target passage "
    "target_text tgt_text reference",
    "context": "context passage paragraph",
    "question": "question query",
}
"""Column -> the names under which files have it."""


_OF_SIDE = re.compile(
    r"^(?:sentence|text|translation|source|target|src|tgt)[_ .-]|[_ .-](?:sentence|text|translation)s?$", re.I
)
"""What stands before or after a language in the name of a column: ``sentence_eng_Latn``, ``English text``."""


@dataclass(frozen=True)
class Reading:
    """How a file is read.

    Attributes:
        wanted: columns that a row needs, see `xling.eval.kinds.base.Kind.own_columns`.
        columns: column -> its name in the header, or its number from 1.
        header: whether the first line names the columns; None finds out.
    """

    wanted: tuple[str, ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    header: bool | None = None

    @property
    def has_words(self) -> bool:
        """Return whether rows are sentences of words."""
        return "token" in self.wanted

    @property
    def is_labelled(self) -> bool:
        """Return whether rows need a label."""
        return LABEL in self.wanted or TAG in self.wanted

    @property
    def has_sides(self) -> bool:
        """Return whether rows are a text and its translation, which may be two files."""
        return self.wanted == ("text_a", "text_b")


@dataclass(frozen=True)
class OwnRow:
    """One row: the line of each of its words, or one line; the cells by column; tokens and tags are tuples."""

    lines: tuple[int, ...]
    cells: Mapping[str, Any]


@dataclass(frozen=True)
class OwnTable:
    """The rows of a file, and in words how it was read."""

    rows: list[OwnRow]
    facts: str


def columns_by_name(
    path: Path,
    names: Sequence[str],
    reading: Reading,
    langs: Sequence[str],
    numbers: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the name of each wanted column that can be told: as given, as usually named, or the only one left."""
    name_of: dict[str, str] = {}
    for column, name in reading.columns.items():
        matches = [each for each in names if each == name] or [e for e in names if e.lower() == name.lower()]
        if column in (numbers or {}):
            name_of[column] = names[column_number(path, column, name, len(names))]
        elif not matches:
            raise UserError(
                f"{path}:1: columns.{column}={name}: no such column",
                ", ".join(names) or "none",
                "correct the name; all own files have the same names of columns",
            )
        else:
            name_of[column] = matches[0]
    missing = [c for c in reading.wanted if c not in name_of]
    free = [name for name in names if name not in name_of.values()]
    name_of |= guessed_columns(free, missing, langs)
    missing = [c for c in missing if c not in name_of]
    free = [name for name in free if name not in name_of.values()]
    if len(missing) == len(free) == 1:  # of two that are left, either may be the label
        name_of[missing[0]] = free[0]
    return {c: name_of[c] for c in reading.wanted if c in name_of}


def guessed_columns(names: Sequence[str], columns: Sequence[str], langs: Sequence[str]) -> dict[str, str]:
    """Return the column names among ``names`` that usually stand for columns, or that are the two languages."""
    sides = [[name for name in names if name and code_of(_OF_SIDE.sub("", name)) == lang] for lang in langs]
    if len(sides) == 2 and all(len(side) == 1 for side in sides):
        return {"text_a": sides[0][0], "text_b": sides[1][0]}
    name_of: dict[str, str] = {}
    by_lower = {name.lower(): name for name in names}
    for column in columns:
        usual = (by_lower[each] for each in _NAMES[column].split() if each in by_lower)
        if name := next((each for each in usual if each not in name_of.values()), ""):
            name_of[column] = name
    return name_of


def column_number(path: Path, column: str, number: str, width: int) -> int:
    """Return the place from 0 of a column that is given by its number."""
    if not number.isdigit() or not 1 <= int(number) <= width:
        raise UserError(
            f"{path}: columns.{column}={number}", f"1 to {width}, or a name of a header", "correct it"
        )
    return int(number) - 1


def no_column(path: Path, column: str, names: Sequence[str]) -> UserError:
    """Return the error for a column that cannot be told among those of a file."""
    return UserError(
        f"{path}: which column is the {column}?",
        ", ".join(names),
        f"columns.{column}= with a name or a number",
    )


_LANGUAGE_NAMES = ("lang", "language", "lang_code", "language_code", "locale")
_SPLIT_NAMES = ("split", "set", "subset", "partition", "fold")
_SPLITS = frozenset(["train", "training", "dev", "valid", "validation", "val", "test", "testing"])


def check_unread(path: Path, cells: Mapping[str, Sequence[Any]]) -> str:
    """Return in words what columns that are not read say of the language or the split of all rows, or "".

    Args:
        cells: the cells of each column that is not read, by its name.

    Raises:
        UserError: they say that rows are of several languages or splits.
    """
    told = ""
    for name, column in cells.items():
        values = sorted({cell.strip() for cell in column if isinstance(cell, str) and cell.strip()})
        is_lang = name.lower() in _LANGUAGE_NAMES
        if not is_lang and not (name.lower() in _SPLIT_NAMES and {v.lower() for v in values} <= _SPLITS):
            continue
        told += f"; {name} is {values[0]} in all rows" if len(values) == 1 else ""
        if len(values) > 1:
            what, example = ("language", "test.sw=FILE") if is_lang else ("split", "train=FILE test=FILE")
            raise UserError(
                f"{path}: column {name!r} has rows of {len(values)} {what}s: {', '.join(values[:8])}",
                f"a file for each {what}, as in {example}",
                "write the rows of each into a file of its own, or leave the column out",
            )
    return told


def named_columns(columns: Mapping[str, str]) -> str:
    """Return in words which column is which."""
    return ", ".join(f"{column} is {name}" for column, name in columns.items())


def unread_columns(names: Sequence[str]) -> str:
    """Return in words which columns are not read, or ""."""
    return f"; not read: {', '.join(name or 'one without a name' for name in names)}" if names else ""
