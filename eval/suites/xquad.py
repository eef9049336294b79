"""XQuAD: span answers to questions, parallel in every language."""

from collections.abc import Mapping
from typing import Any

from xling.eval.rows.readers import squad
from xling.eval.rows.suite import SUITES, Example, Online, Suite, recorded_files

NAME = "xquad"


def to_example(record: Mapping[str, Any], index: int) -> Example:
    """Convert a record of the Hub, which does not number its paragraphs."""
    answers = record["answers"]
    label = tuple(zip(answers["text"], answers["answer_start"], strict=True))
    return Example(record["id"], {"context": record["context"], "question": record["question"]}, label)


SUITES.add(
    NAME,
    Suite(
        name=NAME,
        kind="span",
        languages=("en", "ar", "de", "el", "es", "hi", "ru", "th", "tr", "vi", "zh"),
        extra=("ro",),
        splits=("test",),
        reader=squad,
        patterns=("xquad/xquad.{lang}.json",),
        files=recorded_files(__name__),
        online=Online(
            "google/xquad",
            "xquad.{lang}",
            to_example,
            revision="51adfef1c1287aab1d2d91b5bead9bcfb9c68583",
            splits={"test": "validation"},
        ),
        metrics=("squad_f1", "squad_em"),
        licence="CC BY-SA 4.0",
        is_parallel=True,
        citation="Artetxe et al. 2020, On the cross-lingual transferability of monolingual representations",
        url="https://github.com/deepmind/xquad",
        protocol="token F1 and exact match by SQuAD 1.1's rules in every language; trained on squad",
        train_from="squad",
    ),
)
