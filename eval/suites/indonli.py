"""IndoNLI: native Indonesian natural language inference."""

from collections.abc import Mapping
from typing import Any

from xling.eval.rows.readers import json_lines, table, with_repeated_ids
from xling.eval.rows.suite import SUITES, Example, Layout, Suite, recorded_files

LABELS = ("entailment", "neutral", "contradiction")
FIRST_LETTERS = {label[0]: label for label in LABELS}


def _pair(record: Mapping[str, Any], index: int) -> Example:
    texts = {"text_a": record["premise"], "text_b": record["hypothesis"]}
    return Example(str(record["pair_id"]), texts, FIRST_LETTERS.get(record["label"], record["label"]))


SUITES.add(
    "indonli",
    Suite(
        name="indonli",
        kind="pair",
        languages=("id",),
        splits=("train", "dev"),
        labels=LABELS,
        reader=table(
            {"text_a": "premise", "text_b": "hypothesis"},
            "label",
            names={"contradictory": "contradiction"},
        ),
        patterns=("nli/indonli.{split}.{lang}.tsv",),
        official=(
            # Three ids of the official files stand for two rows each.
            Layout(
                ("indonli/data/indonli/{split}.jsonl",),
                reader=with_repeated_ids(json_lines(_pair)),
                split_codes={"dev": "val"},
            ),
        ),
        test_sets=("test_lay", "test_expert"),
        files=recorded_files(__name__),
        metrics=("accuracy",),
        licence="CC BY-SA (premises) or IndoSum terms; annotations: none stated",
        citation="Mahendra et al. 2021, IndoNLI: A natural language inference dataset for Indonesian",
        url="https://github.com/ir-nlp-csui/indonli",
        protocol=(
            "accuracy; native Indonesian pairs, not a translation of XNLI; trained on xnli; of its two test sets one "
            "is by lay people, one by experts (test_set=test_lay, test_set=test_expert)"
        ),
        train_from="xnli",
    ),
)
