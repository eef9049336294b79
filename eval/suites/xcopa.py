"""XCOPA: choice of the more plausible cause or effect."""

from collections.abc import Mapping
from typing import Any

from xling.eval.rows.readers import json_lines
from xling.eval.rows.suite import SUITES, Example, Layout, Online, Suite, recorded_files


def to_example(record: Mapping[str, Any], index: int) -> Example:
    """Parse a line of XCOPA's files."""
    choices = (record["choice1"], record["choice2"])
    fields = {"premise": record["premise"], "question": record["question"], "choices": choices}
    return Example(str(record["idx"]), fields, int(record["label"]))


SUITES.add(
    "xcopa",
    Suite(
        name="xcopa",
        kind="choice",
        languages=("et", "ht", "id", "it", "qu", "sw", "ta", "th", "tr", "vi", "zh"),
        splits=("train", "dev", "test"),
        reader=json_lines(to_example),
        patterns=("xcopa/{split}.{lang}.jsonl",),
        split_codes={"dev": "val"},
        official=(Layout(("xcopa/data/{lang}/{split}.{lang}.jsonl",), split_codes={"dev": "val"}),),
        files=recorded_files(__name__),
        online=Online(
            "cambridgeltl/xcopa", "{lang}", to_example, revision="042f78955ba48e6404616762fa6e05e839c3907a"
        ),
        metrics=("choice_accuracy",),
        licence="CC BY 4.0",
        is_parallel=True,
        citation="Ponti et al. 2020, XCOPA: A multilingual dataset for causal commonsense reasoning",
        url="https://github.com/cambridgeltl/xcopa",
        protocol=(
            "accuracy of the more plausible of two choices; training rows are English COPA in the same format"
        ),
    ),
)
