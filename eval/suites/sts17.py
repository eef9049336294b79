"""STS17: how alike two sentences of one or two languages are, in the pairs of STS17 and STS22."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.eval.rows.readers import lines
from xling.eval.rows.suite import Example, Row


def rated_pair(record: Mapping[str, Any], index: int) -> Example:
    """Make a row of a line of MTEB's copies: two sentences, their mean rating, and the language if it is there."""
    fields = {"text_a": str(record["sentence1"]), "text_b": str(record["sentence2"])}
    fields |= {"lang": str(record["lang"])} if record.get("lang") else {}
    return Example(str(record.get("id", index)), fields, float(record["score"]))


def rated_lines(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read two sentences and their rating per line, with tabs between and no header.

    Raises:
        UserError: a line of another shape.
    """
    (path,) = paths
    for number, line in lines(path):
        cells = line.strip().split("\t")
        try:
            text_a, text_b, score = cells
            row = Example(str(number - 1), {"text_a": text_a, "text_b": text_b}, float(score))
        except ValueError:
            wanted = "two sentences and a number with tabs between"
            raise UserError(f"{path}:{number}: {line[:60]!r}", wanted) from None
        yield path, number, row


def is_of_language(row: Example, lang: str) -> bool:
    """Return whether a row is of a language; only STS22's file of all languages says it, with ``de`` for ``de-de``."""
    first, _, second = lang.partition("-")
    return row.fields.get("lang", lang) in (lang, first if first == second else None)
