"""Graded reviews: a suite in one file."""

from xling.eval.kinds.base import Example
from xling.eval.rows.readers import json_lines
from xling.eval.rows.suite import SUITES, Suite

SUITES.add(
    "reviews",
    Suite(
        name="reviews",
        kind="grade",
        languages=("en", "sw"),
        splits=("train", "test"),
        reader=json_lines(
            lambda record, index: Example(str(index), {"text": record["review"]}, record["stars"])
        ),
        patterns=("reviews/{lang}.{split}.jsonl",),
        licence="MIT",
        citation="a trial",
        url="tests/extending",
        protocol="closeness of the grade",
    ),
)
