"""Mewsli-X: which of a million entities a name in a news article means, by their descriptions in 50 languages."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.eval.rows.readers import lines, parse_json
from xling.eval.rows.suite import Example, Row


def mentions(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read the names in the articles of all languages, then every entity with its description.

    Raises:
        UserError: a line is not of the form, or has no text of its article yet.
    """
    for path, read in zip(paths, (_of_article, _entity), strict=True):
        for number, line in lines(path):
            record = parse_json(path, number, line)
            try:
                rows = list(read(record))
            except (KeyError, TypeError, IndexError) as error:
                problem = f"{path}:{number}: {type(error).__name__} {error}"
                raise UserError(
                    f"{problem}: not a line of Mewsli-X",
                    "files as get-mewsli-x.sh of its repository writes them",
                    "make them again with that script",
                ) from None
            for row in rows:
                if not row.fields["text"]:
                    raise UserError(
                        f"{path}:{number}: {row.id} has no text", fix="fill in the texts: get-mewsli-x.sh"
                    )
                yield path, number, row


def _of_article(record: Mapping[str, Any]) -> Iterator[Example]:
    """Yield a name, then its sentence with the name in braces, for each of an article."""
    article = record["context"]
    for mention in record["mentions"]:
        span = mention["mention_span"]
        start, end, text = span["start"], span["end"], article["text"]
        # A name that crosses the bounds of sentences, which the published files do not have, stands alone.
        begin, stop = next(
            (
                (s["start"], s["end"])
                for s in article["sentence_spans"]
                if s["start"] <= start and end <= s["end"]
            ),
            (start, end),
        )
        sentence = f"{text[begin:start]} {{ {span['text']} }} {text[end:stop]}"
        fields = {
            "text": " ".join(f"{span['text']}: {sentence}".split()) if text else "",
            "side": "src",
            "lang": article["language"],
            "document": article["document_id"],
        }
        yield Example(mention["example_id"], fields, (mention["entity_id"],))


def _entity(record: Mapping[str, Any]) -> Iterator[Example]:
    """Yield the sentences that describe an entity."""
    sentences = (record["description"][s["start"] : s["end"]] for s in record["sentence_spans"])
    fields = {
        "text": " ".join(" ".join(sentences).split()),
        "side": "tgt",
        "lang": record["description_language"],
    }
    yield Example(record["entity_id"], fields, ())


def is_of_language(row: Example, lang: str) -> bool:
    """Return whether a row belongs to a language: its own names, and every entity."""
    return row.fields["side"] == "tgt" or row.fields["lang"] == lang
