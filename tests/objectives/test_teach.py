"""Teaching: what the words of a text are, what is linked, and a student that comes to the teacher in two languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from xling.objectives import teach
from xling.static import word_links
from xling.static.word_links import WordLinks


def test_the_teacher_reads_the_words_in_its_own_pieces_and_is_cut_at_its_length() -> None:
    class Letters:
        def encode(self, words: list[str]) -> list[list[int]]:
            return [[0 if letter == "?" else ord(letter) for letter in word] for word in words]

    reader = teach.Reader([], Path("nowhere"))
    reader.__dict__.update(_processor=Letters(), _longest=6)
    tokens, word_of = reader.teacher_tokens(["ab", "?", "cde"])
    assert tokens.tolist() == [0, 98, 99, 3, 100, 2]
    assert word_of.tolist() == [-1, 0, 0, 1, 2, -1]


def test_words_are_linked_where_each_is_the_nearest_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = {
        "a": [1, 0, 0],
        "b": [0, 1, 0],
        "A": [0.9, 0.1, 0],
        "B": [0, 1, 0.1],
        "x": [-1, -1, 1],
        "": [0, 0, 0],
    }

    class Space:
        table = torch.zeros(1, 3)

        def without_sketch(self) -> Space:
            return self

        def word_vectors(self, words: list[str]) -> torch.Tensor:
            return torch.tensor([vectors[word] for word in words], dtype=torch.float32)

    monkeypatch.setattr(word_links.encoder_files, "load_encoder", lambda _: Space())
    links = WordLinks(Path("encoder"), 0.3)
    assert links.between(["a", "b", "x"], ["B", "A", ""]).tolist() == [[0, 1], [1, 0]]
    assert links.between(["x"], ["A"]).tolist() == []
    assert links.between([], ["A"]).shape == (0, 2)
    # Of two equal words the nearer one is taken.
    assert links.between(["b", "", "", "b"], ["", "", "B"]).tolist() == [[3, 2]]


def test_errors_of_words_are_shares_of_the_variance() -> None:
    packed = {"chosen": torch.tensor([0, 1, 2, 3]), "target": torch.tensor([0, 0, 1, 2])}
    teacher = torch.tensor([[1.0, 1.0], [3.0, 3.0], [0.0, 0.0], [4.0, 4.0]])
    sample: dict[str, Any] = {
        "student": packed,
        "teacher": packed,
        "num_words": (3, 3),
        "links": torch.tensor([[0, 0, 0], [1, 1, 0], [2, 2, 2]]),
        "target_langs": torch.zeros(3, dtype=torch.int64),
    }
    # The words of the teacher are 2, 0 and 4: their mean is 2, their variance 8 / 3.
    assert teach.word_errors(teacher, teacher, sample).tolist() == [0, 0, 0]
    errors = teach.word_errors(torch.full((4, 2), 2.0), teacher, sample)
    torch.testing.assert_close(errors, torch.tensor([0.5 * 4 * 3 / 8, 0.0, 4 * 3 / 8]))
    sample["links"] = torch.zeros(0, 3, dtype=torch.int64)
    assert teach.word_errors(teacher, teacher, sample).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["teacher="], "no teacher to learn from"),
        (["source=th", "pairs=en-ar"], "no pair has it"),
        (["sentence=0", "words=0"], "one of the two above 0"),
        (["sides=source"], "both, target"),
        (["links=nowhere"], "an output of xling pretrain static"),
    ],
)
def test_settings_that_do_not_fit(
    words: list[str], said: str, refused: Any, bitext: Path, tmp_path: Path
) -> None:
    refused(said, bitext, "teach", tmp_path / "out", *(f"objectives.teach.{word}" for word in words))


def test_both_sides_come_to_the_teacher(build: Any, bitext: Path) -> None:
    settings = [
        "model.dropout=0",
        "train.lr=5e-3",
        "train.warmup=1",
        "train.updates=1000",
        "objectives.teach.words=0",
    ]
    trainer, task = build("teach", *settings)
    task.load_dataset("train")
    dataset = task.dataset("train")
    sample = dataset.collater([dataset[i] for i in range(4)])
    assert sample["student"]["nsentences"] == 2 * sample["teacher"]["nsentences"] == 8
    assert sample["target_langs"].tolist()[::2] == [task.langs.index("en")] * 4
    trainer.lr_step(1)
    for _ in range(60):
        trainer.train_step([sample])
    rows = task.objectives["teach"].loss(trainer.get_model().eval(), sample).rows
    assert rows.max() < 0.3


def test_the_target_alone_is_taught(build: Any, bitext: Path) -> None:
    _, task = build("teach", "objectives.teach.sides=target", "objectives.teach.words=0")
    task.load_dataset("train")
    dataset = task.dataset("train")
    sample = dataset.collater([dataset[i] for i in range(4)])
    assert sample["student"]["nsentences"] == sample["teacher"]["nsentences"] == 4
    assert task.langs.index("en") not in sample["target_langs"].tolist()
