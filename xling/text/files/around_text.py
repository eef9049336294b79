"""Lines around a text that are none of it: the front matter of a blog's page, the licence of Project Gutenberg."""

import itertools
import re
from collections.abc import Iterator

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


def own_lines(lines: Iterator[str], ledger: Ledger | None = None) -> Iterator[str]:
    """Yield the lines of a file without those around its text, which are counted."""
    ledger = ledger or Ledger()
    head = head_of(lines)
    if num_front := _num_front(head):
        ledger.count_event(FRONT_NOTE, num_front)
    starts = [n for n, line in enumerate(head) if (match := _BORDER.match(line)) and match[1] == "START"]
    is_inside, num_open = not starts, 0
    for line in itertools.chain(head[num_front:], lines):
        border = _BORDER.match(line) if line.startswith("***") else None
        if border:
            is_inside, num_open = border[1] == "START", _MAX_BORDER_LINES
        if border or num_open or not is_inside:
            # A long title goes on in the next line.
            num_open = 0 if line.rstrip().endswith("***") or not line else max(0, num_open - 1)
            ledger.count_event(LICENCE_NOTE)
        else:
            yield line


def own_text(text: str, ledger: Ledger) -> str:
    """Return a text without what stands around it."""
    if not (
        text.startswith(tuple(_FRONT_ENDS))
        or "OF THE PROJECT GUTENBERG E" in text
        or "OF THIS PROJECT G" in text
    ):
        return text
    return "\n".join(own_lines(iter(text.replace("\r\n", "\n").split("\n")), ledger))


def _num_front(head: list[str]) -> int:
    """Return the number of lines of front matter in YAML or TOML that a text begins with."""
    ends = _FRONT_ENDS.get(head[0].removeprefix("\ufeff").rstrip(), ()) if head else ()
    last = next((n for n, line in enumerate(head[1:_MAX_FRONT_LINES], 1) if line.rstrip() in ends), 0)
    is_front = all(map(_FRONT.fullmatch, head[1:last])) and any(map(_FRONT_KEY.match, head[1:last]))
    return last + 1 if last and is_front else 0
