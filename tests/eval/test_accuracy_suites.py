"""Suites scored by accuracy: files in their layout go through our reader and metric to the recorded official numbers.

The numbers of Belebele, AfriXNLI, XStoryCloze and XWinograd are ``acc`` of EleutherAI/lm-evaluation-harness at 4e7e0d4,
run on the same rows with `likelihood` in place of a model. Belebele's authors ask for accuracy and publish no script.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xling.eval.metrics import METRICS, evaluate
from xling.eval.rows.suite import Example, load, suites

ROWS = 90


def likelihood(row: int, choice: int) -> float:
    """What the stand-in of a model answers for an alternative of a row."""
    return -((row * row * 31 + choice * choice * 57 + row * choice * 13 + 7 * row + 11 * choice) % 97) - (
        0.01 * choice
    )


def answer(row: int, choices: int) -> int:
    return max(range(choices), key=lambda choice: likelihood(row, choice))


def right(row: int, choices: int) -> int:
    return (row * row + 3 * row) % 11 % choices


def belebele(row: int) -> str:
    record = {f"mc_answer{n}": f"answer {n} of {row}" for n in (1, 2, 3, 4)}
    record |= {"link": f"https://a.b/{row // 2}", "question_number": str(row % 2 + 1)}
    record |= {"flores_passage": f"Passage {row // 2}.", "question": f"Question {row}?"}
    return json.dumps({**record, "correct_answer_num": str(right(row, 4) + 1), "dialect": "swh_Latn"})


def xwinograd(row: int) -> str:
    sentence = f"The cup {row} hit it as _ was hard."
    record = {"sentence": sentence, "option1": "the cup", "option2": "the bag"}
    return json.dumps({**record, "answer": str(right(row, 2) + 1)})


def xstorycloze(row: int) -> str:
    sentences = [f"Sentence {n} of {row}." for n in (1, 2, 3, 4)]
    return "\t".join([f"s-{row}", *sentences, f"One {row}.", f"Two {row}.", str(right(row, 2) + 1)])


def afrixnli(row: int) -> str:
    return f"premise {row}\thypothesis {row}\t{right(row, 3)}"


STORY = "story_id\t1\t2\t3\t4\tsentence_quiz1\tsentence_quiz2\tanswer_right_ending\n"
CASES: dict[str, tuple[str, str, str, Callable[[int], str], int, float]] = {
    # language, file, header, line, alternatives, the harness's acc
    "belebele": ("sw", "belebele/data/swh_Latn.jsonl", "", belebele, 4, 0.3),
    "afrixnli": ("sw", "afrixnli/data/swa/test.tsv", "premise\thypothesis\tlabel\n", afrixnli, 3, 0.37777777777777777),
    "xstorycloze": (
        "sw", "xstorycloze/spring2016.val.sw.tsv.split_20_80_eval.tsv", STORY, xstorycloze, 2, 0.4888888888888889,
    ),
    "xwinograd": ("ja", "xwinograd/test/jp.jsonl", "", xwinograd, 2, 0.4888888888888889),
}  # fmt: skip


def read(name: str, data: Path) -> list[Example]:
    lang, file, header, line, *_ = CASES[name]
    path = data / file
    path.parent.mkdir(parents=True)
    path.write_text(header + "".join(line(row) + "\n" for row in range(ROWS)))
    return load(suites()[name], lang, "test", data)


@pytest.mark.parametrize("name", CASES)
def test_answers_score_as_by_the_harness(name: str, tmp_path: Path) -> None:
    suite, (lang, *_, choices, acc) = suites()[name], CASES[name]
    rows = read(name, tmp_path)
    given: list[Any] = [answer(row, choices) for row in range(ROWS)]
    if suite.labels:
        given = [suite.labels[place] for place in given]
    assert len(rows) == ROWS
    assert evaluate(METRICS[suite.metric], rows, given, lang)[0] == 100 * acc


def test_masakhapos_is_scored_as_by_its_script(tmp_path: Path) -> None:
    """``accuracy`` and ``f1`` of train_pos.py of masakhane-io/masakhane-pos at a42273e, which are seqeval's."""
    suite = suites()["masakhapos"]
    tags = list(suite.labels)
    gold = [[tags[(i * i + 5 * j + 3) % 17] for j in range(i % 9 + 1)] for i in range(60)]
    given = [
        [tag if (i * 3 + j * j) % 5 else tags[(i + j) % 17] for j, tag in enumerate(row)]
        for i, row in enumerate(gold)
    ]
    path = tmp_path / "masakhane-pos/data/swa/test.txt"
    path.parent.mkdir(parents=True)
    path.write_text("".join("".join(f"neno{j} {tag}\n" for j, tag in enumerate(row)) + "\n" for row in gold))
    rows = load(suite, "sw", "test", tmp_path)
    scores = [evaluate(METRICS[metric], rows, given, "sw")[0] for metric in ("tag_accuracy", "tag_f1")]
    assert scores == [100 * 0.7938144329896907, 100 * 0.7832167832167832]
