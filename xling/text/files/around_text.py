"""Removes what stands before and after the body of a text.

That is front matter (YAML or TOML at the head of a Markdown file), and the header and licence of Project Gutenberg.
"""

import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from xling.core.output.command_result import tell
from xling.text.document import Ledger
from xling.text.files.other_formats import head_of

FRONT_NOTE = "lines of front matter (title:, date: ...) before a text, left out"
LICENCE_NOTE = "lines of Project Gutenberg's header and licence, left out"
_MAX_FRONT_LINES = 100
_FRONT_ENDS = {"---": ("---", "..."), "+++": ("+++",)}
_FRONT = re.compile(r"\s*|#.*|\s*-\s.*|\s+\S.*|\[[\w.]+\]|[\w .-]+\s*[:=].*|[\]})]+,?")
_FRONT_KEY = re.compile(
    r"(?:title|layout|date|author|id|slug|tags|description|permalink|draft|lang|categories|license|sidebar_\w+)\s*[:=]"
)
_BORDER = re.compile(r"\*{3}\s*(START|END) OF (?:THE|THIS) PROJECT GUTENBERG E.*")
_MAX_BORDER_LINES = 3


def body_lines(lines: Iterator[str], ledger: Ledger | None = None, path: str | Path = "") -> Iterator[str]:
    """Yield the lines of a file's body; count the others in ``ledger``, or without one in a message on ``path``."""
    counted = Ledger() if ledger is None else ledger
    head = head_of(lines)
    if num_front := _num_front(head):
        counted.count_event(FRONT_NOTE, num_front)
    starts = [n for n, line in enumerate(head) if (match := _BORDER.match(line)) and match[1] == "START"]
    is_inside, num_open = not starts, 0
    for line in itertools.chain(head[num_front:], lines):
        border = _BORDER.match(line) if line.startswith("***") else None
        if border:
            is_inside, num_open = border[1] == "START", _MAX_BORDER_LINES
        if border or num_open or not is_inside:
            # A long title goes on in the next line.
            num_open = 0 if line.rstrip().endswith("***") or not line else max(0, num_open - 1)
            counted.count_event(LICENCE_NOTE)
        else:
            yield line
    if ledger is None:
        for note, num in counted.notes.items():
            _tell_once(f"xling: {path}: {num} {note}")


@cache
def _tell_once(message: str) -> None:
    """Print a message, once in a process, since a vocabulary reads its text several times."""
    tell(message)


def body_text(text: str, ledger: Ledger) -> str:
    """Return the body of a text."""
    if not (
        text.startswith(tuple(_FRONT_ENDS))
        or "OF THE PROJECT GUTENBERG E" in text
        or "OF THIS PROJECT G" in text
    ):
        return text
    return "\n".join(body_lines(iter(text.replace("\r\n", "\n").split("\n")), ledger))


def _num_front(head: list[str]) -> int:
    """Return the number of lines of front matter in YAML or TOML that a text begins with."""
    ends = _FRONT_ENDS.get(head[0].removeprefix("\ufeff").rstrip(), ()) if head else ()
    last = next((n for n, line in enumerate(head[1:_MAX_FRONT_LINES], 1) if line.rstrip() in ends), 0)
    is_front = all(map(_FRONT.fullmatch, head[1:last])) and any(map(_FRONT_KEY.match, head[1:last]))
    return last + 1 if last and is_front else 0
