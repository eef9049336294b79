"""Tags go over to another language through aligned texts, for a tagger that is a Transformer."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from static_helpers import Shape

from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.eval.rows.suite import Example
from xling.eval.systems import FitConfig
from xling.text import vocab as vocabulary
from xling.text.files.word_alignments import FILE_NAME
from xling.transfer.backend import EncoderBackend
from xling.transfer.encode import IGNORED, UnlabelledRow
from xling.transfer.projection import TEXTS_PER_ROW, project_rows
from xling.transfer.task import TASKS

WORDS = ("woman", "sees", "boat", "house", "finds", "teacher")
LABELS = ("NOUN", "VERB", "X")
SUITE = Shape("s", "tag", LABELS)
FIT = FitConfig(lr=4e-3, epochs=15, batch_rows=10, max_length=64, precision="fp32")


def tag(word: str) -> str:
    return LABELS[WORDS.index(word) % 3]


def sentences(num: int, seed: int) -> list[tuple[str, ...]]:
    return [
        tuple(WORDS[i] for i in row)
        for row in rng("words", seed).integers(len(WORDS), size=(num, 5)).tolist()
    ]


def other(words: tuple[str, ...]) -> tuple[str, ...]:
    """The other language: a letter twice for each word, in reverse order."""
    return tuple("abcdef"[WORDS.index(word)] * 2 for word in reversed(words))


def tag_of_other(word: str) -> str:
    return tag(WORDS["abcdef".index(word[0])])


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("links")
    with gzip.open(folder / FILE_NAME, "wt", encoding="utf-8") as file:
        for number, words in enumerate(sentences(120, 2)):
            aligned = [[i, 4 - i] for i in range(5) if i != number % 5]
            file.write(json.dumps({"lang": "de", "src": words, "tgt": other(words), "links": aligned}) + "\n")
    return folder


def test_a_tagger_learns_another_language_from_projected_tags(model: Path, links: Path) -> None:
    train = [
        Example(str(i), {"tokens": words}, tuple(map(tag, words)))
        for i, words in enumerate(sentences(120, 1))
    ]
    asked = [Example(str(i), {"tokens": other(words)}, None) for i, words in enumerate(sentences(20, 3))]
    gold = [tag_of_other(word) for row in asked for word in row.fields["tokens"]]
    right = {}
    for folder in (None, links):
        backend = EncoderBackend(model, "pretrained")
        tuned = backend.fit(SUITE, train, [], "en", FitConfig(**{**FIT.__dict__, "project": folder}))
        found = [each for answer in backend.predict(tuned[-1], SUITE, asked, "de") for each in answer]
        right[folder] = sum(a == b for a, b in zip(found, gold, strict=True)) / len(gold)
        if folder is None:
            first = tuned[-1]
    assert right[links] > 0.8 > 0.6 > right[None]

    rows = project_rows(first, links, num_rows=15, lang="en", seed=1)
    assert len(rows) == 15 * TEXTS_PER_ROW
    assert all(row.label.count(IGNORED) == 1 for row in rows)
    found = [
        (each, tag_of_other(word))
        for row in rows
        for word, each in zip(row.fields["tokens"], row.label, strict=True)
    ]
    assert sum(each in (IGNORED, wanted) for each, wanted in found) > 0.9 * len(found)
    with pytest.raises(UserError, match=r"no links at .*run it, or leave out project="):
        backend.fit(SUITE, train, [], "en", FitConfig(project=links / "none", epochs=1))
    with pytest.raises(UserError, match=r"fit\.project= and fit\.switch= together"):
        FitConfig(project=links, switch={"de": "words.tsv"})


def test_a_word_to_ignore_is_read_and_not_chosen_while_a_missing_tag_shows(vocab: Path) -> None:
    processor = vocabulary.load_processor(vocab)

    def encoded(*tags: object) -> tuple[list[int], list[int], list[int]]:
        (window,) = TASKS["tag"].encode(processor, UnlabelledRow({"tokens": WORDS[:3]}, tags), LABELS, 64)
        return tuple(window[name].tolist() for name in ("tokens", "chosen", "target"))

    tokens, chosen, _ = encoded("X", "X", "X")
    assert encoded("X", IGNORED, "NOUN") == (tokens, [chosen[0], chosen[2]], [2, 0])
    assert encoded("X", None, "NOUN") == (tokens, chosen, [2, -1, 0])
