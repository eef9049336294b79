"""Words as the original files of WikiANN write them: ``en:Peter``, with the language before each word."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xling.core.output.command_result import tell
from xling.eval.kinds.base import Example

_MARK = re.compile(r"((?:[a-z]{2,3}(?:-[a-z]+)*|simple):)(?!//)")
"""A code of a Wikipedia and a colon, but not before an address."""


def without_language_marks(rows: Sequence[Example], path: Path) -> list[Example]:
    """Return rows with ``tokens`` as `without_marks` leaves them."""
    texts = without_marks([row.fields["tokens"] for row in rows], path)
    return [
        replace(row, fields={**row.fields, "tokens": tokens}) for row, tokens in zip(rows, texts, strict=True)
    ]


def without_marks(sentences: Sequence[Sequence[str]], path: Path) -> list[tuple[str, ...]]:
    """Remove the language from the words of sentences in which each word begins with the same one, and say so.

    A mark counts if it is before all words of a sentence of two words or more. Other sentences stay as they are.
    """
    marks = [_mark_of(tokens) for tokens in sentences]
    known = {mark for mark, tokens in zip(marks, sentences, strict=True) if mark and len(tokens) > 1}
    if known:
        num_marked = sum(mark in known for mark in marks)
        said = (
            f"in {num_marked:,} of {len(sentences):,} sentences each word begins with {' '.join(sorted(known))} "
            "as in WikiANN's original files; it is left out"
        )
        tell_once(f"xling: {path}: {said}", f"{path.resolve()}: {said}")
    return [
        tuple(token.removeprefix(mark) for token in tokens) if mark in known else tuple(tokens)
        for mark, tokens in zip(marks, sentences, strict=True)
    ]


def digest_without_marks(path: Path) -> str:
    """Return the SHA-256 of a file without the language that each of its lines begins with; "" if they do not."""
    content = path.read_bytes()
    first = re.match(_MARK.pattern.encode(), content)
    mark = re.escape(first[1]) if first else b"$."
    plain, count = re.subn(rb"^" + mark, b"", content, flags=re.MULTILINE)
    num_rows = sum(map(bool, map(bytes.strip, content.split(b"\n"))))
    return hashlib.sha256(plain).hexdigest() if count == num_rows else ""


def _mark_of(tokens: Sequence[str]) -> str:
    """Return the mark before every one of the words; "" if there is none."""
    match = _MARK.match(tokens[0]) if tokens else None
    return match[1] if match and all(token.startswith(match[1]) for token in tokens) else ""


_TOLD: set[str] = set()


def tell_once(text: str, subject: str = "") -> None:
    """Print a line, once in a process; of lines on the same subject, as a file under two spellings, the first."""
    if (subject or text) not in _TOLD:
        _TOLD.add(subject or text)
        tell(text)
