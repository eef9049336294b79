"""Belebele: multiple-choice questions on FLORES passages, in 122 language variants."""

from collections.abc import Mapping
from typing import Any

from xling.eval.rows.suite import Example


def to_example(record: Mapping[str, Any], index: int) -> Example:
    """Parse a line of the official files; the four answers compete after passage and question."""
    choices = tuple(str(record[f"mc_answer{n}"]) for n in (1, 2, 3, 4))
    premise = f"{record['flores_passage']} {record['question']}"
    # Passages of one page are told apart by the part of FLORES that they are from, where it is said.
    passage = "/".join(str(record[name]) for name in ("link", "split") if name in record)
    fields = {"premise": premise, "question": "effect", "choices": choices, "document": passage}
    return Example(f"{passage}#{record['question_number']}", fields, int(record["correct_answer_num"]) - 1)
