"""Belebele: multiple-choice questions on FLORES passages, in 122 language variants."""

from collections.abc import Mapping
from typing import Any

from xling.eval.rows.readers import json_lines
from xling.eval.rows.suite import SUITES, Example, Layout, Suite


def to_example(record: Mapping[str, Any], index: int) -> Example:
    """Parse a line of the official files; the four answers compete after passage and question."""
    choices = tuple(str(record[f"mc_answer{n}"]) for n in (1, 2, 3, 4))
    premise = f"{record['flores_passage']} {record['question']}"
    # Passages of one page are told apart by the part of FLORES that they are from, where it is said.
    passage = "/".join(str(record[name]) for name in ("link", "split") if name in record)
    fields = {"premise": premise, "question": "effect", "choices": choices, "document": passage}
    return Example(f"{passage}#{record['question_number']}", fields, int(record["correct_answer_num"]) - 1)


SUITES.add(
    "belebele",
    Suite(
        name="belebele",
        kind="choice",
        languages=(),
        splits=("test",),
        reader=json_lines(to_example),
        patterns=("Belebele/{code}.jsonl",),
        official=(Layout(("belebele/data/{code}.jsonl",)),),
        licence="CC BY-SA 4.0",
        citation="Bandarkar et al. 2024, The Belebele benchmark: A parallel reading comprehension dataset",
        url="https://github.com/facebookresearch/belebele",
        protocol="accuracy of one answer of four; intervals draw passages; no training rows here: trained on xcopa's",
        train_from="xcopa",
        is_parallel=True,
    ),
)
