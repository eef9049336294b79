"""FarsTail: natural language inference in Persian."""

import csv
from collections.abc import Iterator
from pathlib import Path

from xling.core.errors import UserError
from xling.eval.readers import lines
from xling.eval.suite import SUITES, Example, Row, Suite
from xling.eval.suites.indonli import FIRST_LETTERS
from xling.eval.suites.xnli import LABELS


def rows(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read quoted tab-separated cells, as in the official repository; labels are e, n and c."""
    (path,) = paths
    reader = csv.reader((line for _, line in lines(path)), delimiter="\t")
    if next(reader, []) != ["premise", "hypothesis", "label"]:
        raise UserError(
            f"{path}:1: the header is missing or another one",
            "premise, hypothesis and label with tabs between",
        )
    for index, cells in enumerate(reader):
        number = reader.line_num
        if len(cells) != 3:
            raise UserError(f"{path}:{number}: {len(cells)} columns", "premise, hypothesis and label")
        label = FIRST_LETTERS.get(cells[2], cells[2])
        yield path, number, Example(str(index), {"text_a": cells[0], "text_b": cells[1]}, label)


SUITES.add(
    "farstail",
    Suite(
        name="farstail",
        kind="pair",
        languages=("fa",),
        splits=("train", "dev", "test"),
        labels=LABELS,
        reader=rows,
        patterns=("FarsTail/data/{split}-word.csv",),
        split_codes={"train": "Train", "dev": "Val", "test": "Test"},
        licence="Apache-2.0",
        citation="Amirkhani et al. 2023, FarsTail: a Persian natural language inference dataset",
        url="https://github.com/dml-qom/FarsTail",
        protocol="accuracy; native Persian pairs from exam questions; trained on xnli",
        train_from="xnli",
    ),
)
