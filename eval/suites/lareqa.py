"""LAReQA: the sentences that answer a question, among those of eleven languages at once (XQuAD-R)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.eval.rows.readers import parse_json
from xling.eval.rows.suite import Example, Row
from xling.text.files import corpus_reader


def pool(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read the questions of the first file and the sentences of all others.

    A sentence answers the questions whose answers start in it, or in an equal one of its paragraph, in any language.

    Raises:
        UserError: a file is not of the form.
    """
    questions, *sources = paths
    answers: dict[str, list[str]] = {}
    candidates: list[Row] = []
    for path in sources:
        for number, paragraph in enumerate(_paragraphs(path), 1):
            texts = _sentences(paragraph)
            sentence_ids = [f"{path.stem}_{number}_{i}" for i in range(len(texts))]
            for name, text in zip(sentence_ids, texts, strict=True):
                candidates.append(
                    (path, 1, Example(name, {"text": text, "side": "tgt", "lang": path.stem}, ()))
                )
            for question in paragraph["qas"]:
                sentence = _answer_sentence(paragraph, question)
                answering = (
                    []
                    if sentence is None
                    else [n for n, t in zip(sentence_ids, texts, strict=True) if t == texts[sentence]]
                )
                answers.setdefault(question["id"], []).extend(answering)
    for number, paragraph in enumerate(_paragraphs(questions), 1):
        for question in paragraph["qas"]:
            # A question whose answer lies in no sentence is not asked, as in XTREME-R's code.
            if _answer_sentence(paragraph, question) is not None:
                fields = {
                    "text": question["question"],
                    "side": "src",
                    "lang": questions.stem,
                    "document": f"paragraph {number}",
                }
                yield questions, 1, Example(question["id"], fields, tuple(answers.get(question["id"], ())))
    yield from candidates


def _paragraphs(path: Path) -> list[Mapping[str, Any]]:
    record = parse_json(path, 1, corpus_reader.json_text(path))
    try:
        paragraphs = [paragraph for article in record["data"] for paragraph in article["paragraphs"]]
        for paragraph in paragraphs:
            _sentences(paragraph)
            for question in paragraph["qas"]:
                question["id"], question["question"], _answer_sentence(paragraph, question)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise UserError(
            f"{path}: {type(error).__name__} {error}", "SQuAD's JSON with sentence_breaks in every paragraph"
        ) from None
    return paragraphs


def _sentences(paragraph: Mapping[str, Any]) -> list[str]:
    return [str(paragraph["context"][start:end]) for start, end in paragraph["sentence_breaks"]]


def _answer_sentence(paragraph: Mapping[str, Any], question: Mapping[str, Any]) -> int | None:
    """Return the number of the sentence in which the answer starts."""
    start = question["answers"][0]["answer_start"]
    sentences = (i for i, (begin, end) in enumerate(paragraph["sentence_breaks"]) if begin <= start < end)
    return next(sentences, None)
