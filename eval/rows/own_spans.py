"""Spans by characters in a text, as annotation programs export them: their words and tags.

doccano: ``{"text": ..., "label": [[0, 5, "PER"]]}`` or ``"entities": [{"start_offset": 0, ...}]``; Prodigy and spaCy:
``"spans"`` and ``"ents"`` with ``start``, ``end`` and ``label``; Label Studio: ``annotations``, or JSON-MIN.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.eval.rows.own_columns import TAG, guessed_columns
from xling.text.words.units import UNSPACED_CLASS

_TEXTS = ("text", "data", "sentence", "content")
_NO_SPANS = ("tokens", "relations", "predictions", "Comments", "comments", "cats")
_UNSPACED = re.compile(f"[{UNSPACED_CLASS}]")
Span = tuple[int, int, str, str]
"""Begin and end in code points, the type, and the text between the two, or "" if the record does not have it."""


def words_of(text: str) -> list[str]:
    """Split a text at blanks, and punctuation off both ends of a word.

    Example:
        >>> words_of("Amina (Nairobi) said: no.")
        ['Amina', '(', 'Nairobi', ')', 'said', ':', 'no', '.']
    """
    words: list[str] = []
    for part in text.split():
        start, end = 0, len(part)
        while start < end and unicodedata.category(part[start])[0] == "P":
            start += 1
        while end > start and unicodedata.category(part[end - 1])[0] == "P":
            end -= 1
        words += [*part[:start], *([part[start:end]] if start < end else []), *part[end:]]
    return words


def has_spans(record: Mapping[str, Any]) -> bool:
    """Return whether a record has a text and its spans, and no words with tags."""
    by_name = guessed_columns(list(record), ("token", TAG), ())
    tags = record.get(by_name.get(TAG, "")) if "token" in by_name else None
    has_tags = isinstance(tags, list) and all(isinstance(tag, (str, int)) for tag in tags)
    return not has_tags and _text_and_spans(record)[1] is not None


def is_accepted(record: Mapping[str, Any]) -> bool:
    """Return whether Prodigy's answer is accept, and an annotation of Label Studio was not called off."""
    annotations = record.get("annotations")
    called_off = [isinstance(e, dict) and bool(e.get("was_cancelled")) for e in annotations or [0]]
    return record.get("answer", "accept") == "accept" and not all(called_off)


def spans_within_words(records: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Return how many spans begin or end within a word, and the number of all.

    Most do where a program counts bytes, or names the last character of a span in place of the one behind it. Scripts
    that are written without blanks are not counted.
    """
    num_within = num_spans = 0
    for record in records:
        text, spans = _text_and_spans(record)
        for begin, end, *_ in spans or ():
            pairs = (text[max(0, place - 1) : place + 1] if place else "" for place in (begin, end))
            num_within += any(
                len(pair) == 2 and pair.isalpha() and not _UNSPACED.search(pair) for pair in pairs
            )
            num_spans += 1
    return num_within, num_spans


def words_of_spans(path: Path, number: int, record: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the words of a text, cut at the ends of spans, and their tags in IOB2.

    Raises:
        UserError: no text or spans, several annotations, a span outside of the text or in another one.
    """
    text, spans = _text_and_spans(record)
    problem, last = "no text with a list of spans" if spans is None else "", 0
    tagged: list[tuple[str, str]] = []
    for begin, end, name, named in [*sorted(spans or ()), (len(text), len(text), "", "")]:
        if begin < last or end > len(text) or (name and not text[begin:end].strip()):
            problem = f"the span {begin} to {end} ({name}) lies in another, or not in {len(text)} characters"
        elif named and named.split() != text[begin:end].split():
            problem = f"the span {begin} to {end} is {text[begin:end]!r}, and should be {named!r}"
        tagged += [(word, "O") for word in words_of(text[last:begin])]
        tagged += [(w, f"{'I' if n else 'B'}-{name}") for n, w in enumerate(words_of(text[begin:end]))]
        last = end
    if problem:
        raise UserError(f"{path}:{number}: {problem}", "one text, and spans of it that do not overlap")
    return {"tokens": [word for word, _ in tagged], "tags": [tag for _, tag in tagged]}


def _text_and_spans(record: Mapping[str, Any]) -> tuple[str, list[Span] | None]:
    """Return the text of a record and its spans; None without spans, or with two annotations."""
    data = record.get("data")
    inner = {**record, **(data if isinstance(data, dict) else {})}
    text = next((inner[name] for name in _TEXTS if isinstance(inner.get(name), str)), "")
    annotations = inner.get("annotations")
    if isinstance(annotations, list) and all(isinstance(e, dict) and "result" in e for e in annotations):
        annotations = [each for each in annotations if not each.get("was_cancelled")]
        inner["annotations"] = len(annotations) == 1 and [
            e["value"] for e in annotations[0]["result"] if "start" in e.get("value", ())
        ]
    by_field = [_spans(value) for name, value in inner.items() if name not in _NO_SPANS]
    return text, max((each for each in by_field if each is not None), key=len, default=None) if text else None


def _spans(value: Any) -> list[Span] | None:
    """Return the spans in a field; None if it has something else."""
    spans: list[Span] = []
    for each in value if isinstance(value, list) else [None]:
        parts = each
        if isinstance(each, dict):
            names = each.get("labels", each.get("label", each.get("type")))
            name = names[0] if isinstance(names, list) and len(names) == 1 else names
            ends = (each.get(side, each.get(f"{side}_offset")) for side in ("start", "end"))
            parts = [*ends, name, str(each.get("text", ""))]
        if not isinstance(parts, list) or [type(part) for part in parts[:3]] != [int, int, str]:
            return None
        begin, end, name, named = (*parts, "")[:4]
        spans.append((begin, end, name, named))
    return spans
