"""NTREX: retrieval of translations between any two of its languages."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from xling.core.errors import UserError
from xling.eval.rows.readers import lines, parallel
from xling.eval.rows.suite import Example, Row

DOCUMENTS = ("doc_ids.txt", "DOCUMENT_IDS.tsv")
"""Names of the file with the document of every line: in the data folder, and in the official repository."""


def parallel_parts(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read two texts that are each split in parts, which may be cut at other lines.

    Raises:
        UserError: the texts differ in their number of lines.
    """
    sides: dict[str, list[tuple[Path, int, str]]] = {}
    for path in paths:
        name = path.name.partition(".part")[0]
        sides.setdefault(name, []).extend((path, number, text) for number, text in lines(path))
    counts = {name: len(side) for name, side in sides.items()}
    if len(set(counts.values())) > 1:
        lengths = " and ".join(f"{name} {count}" for name, count in counts.items())
        raise UserError(
            f"the parts below {paths[0].parent} differ in length: {lengths} lines",
            "as many lines in every language",
            "get the parts again",
        )
    for index, (own, other) in enumerate(zip(*sides.values(), strict=True)):
        path, number, text = own
        yield path, number, Example(str(index), {"text_a": text, "text_b": other[2]}, index)


def in_documents(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Return rows with their document, if the file of documents is beside the texts or above them."""
    listings = (folder / name for folder in paths[0].parents[:2] for name in DOCUMENTS)
    listing = next((path for path in listings if path.is_file()), None)
    names = [text for _, text in lines(listing)] if listing else []
    for path, number, row in parallel(paths) if len(paths) == 2 else parallel_parts(paths):
        if listing and row.label >= len(names):
            raise UserError(
                f"{listing} has only {len(names)} lines",
                f"one for each line of {path}",
                "get both files again",
            )
        document = {"document": names[row.label]} if listing else {}
        yield path, number, replace(row, fields={**row.fields, **document})
