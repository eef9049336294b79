"""XStoryCloze: which of two endings a story has, in eleven languages."""

from collections.abc import Iterator
from pathlib import Path

from xling.eval.readers import table
from xling.eval.suite import SUITES, Example, Row, Suite

_ENDINGS = ("RandomFifthSentenceQuiz1", "RandomFifthSentenceQuiz2")
_CELLS = table(
    {name: name for name in (*(f"InputSentence{n}" for n in (1, 2, 3, 4)), *_ENDINGS)},
    "AnswerRightEnding",
    "InputStoryid",
)


def stories(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read four sentences and two endings per line, as in the official files."""
    for path, number, row in _CELLS(paths):
        premise = " ".join(row.fields[f"InputSentence{n}"] for n in (1, 2, 3, 4))
        choices = tuple(row.fields[name] for name in _ENDINGS)
        fields = {"premise": premise, "question": "effect", "choices": choices}
        yield path, number, Example(row.id, fields, int(row.label) - 1)


SUITES.add(
    "xstorycloze",
    Suite(
        name="xstorycloze",
        kind="choice",
        languages=("ru", "zh", "es", "ar", "hi", "id", "te", "sw", "eu", "my"),
        extra=("en",),
        splits=("train", "test"),
        reader=stories,
        patterns=("xstorycloze/spring2016.val.{lang}.tsv.split_20_80_{split}.tsv",),
        split_codes={"test": "eval"},
        licence="CC BY-SA 4.0",
        citation="Lin et al. 2022, Few-shot learning with multilingual generative language models",
        url="https://huggingface.co/datasets/juletxara/xstory_cloze",
        protocol="accuracy of the right one of two endings; a fifth of the rows is for training, the rest is scored",
        is_parallel=True,
    ),
)
