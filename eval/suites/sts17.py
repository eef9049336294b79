"""STS17: how alike two sentences of one or two languages are, in the eleven pairs of its extended version."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.eval.rows.readers import json_lines, lines
from xling.eval.rows.suite import SUITES, Example, Layout, Row, Suite


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


SUITES.add(
    "sts17",
    Suite(
        name="sts17",
        kind="similarity",
        languages=(
            "ar-ar",
            "en-ar",
            "en-de",
            "en-en",
            "en-tr",
            "es-en",
            "es-es",
            "fr-en",
            "it-en",
            "ko-ko",
            "nl-en",
        ),
        splits=("test",),
        reader=rated_lines,
        patterns=("STS2017-extended/STS.{lang}.txt",),
        official=(
            Layout(
                ("sts17-crosslingual-sts/test/{lang}.jsonl",), reader=json_lines(rated_pair), any_code=False
            ),
        ),
        licence="that of SemEval's data; the pairs with de, fr, it and nl by Reimers and Gurevych 2020",
        citation="Cer et al. 2017, SemEval-2017 Task 1: Semantic textual similarity",
        url="https://huggingface.co/datasets/mteb/sts17-crosslingual-sts",
        protocol="correlation of cosines of sentence vectors with ratings: Spearman as at MTEB, Pearson as at SemEval",
    ),
)
