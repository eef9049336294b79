"""Files of other formats that were given as text: tables, markup, subtitles, lines with a name before them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

MIN_ROWS = 5
"""Of a table, and of other lines of one kind."""
_HEAD_LINES, _HEAD_CHARS = 1000, 1 << 20
_CALLED_TABLE = re.compile(r"\.(?:csv|tsv)(?:\.\w+)?$", re.IGNORECASE)
_MARKUP = (
    *("<?xml", "<mediawiki", "<!", "<htm", "<head", "<body", "<div", "<p>", "<doc ", '{"', "warc/1."),
    *("<srcset", "<refset", "<tstset", "<mteval", "<tmx", "<xliff"),
    *("\\documentclass", "\\id ", "[script info]", "webvtt", "[{", "insert into ", "-- mysql dump"),
)
# Lines of USFM, of subtitles, of lyrics, times, messages of a chat with their dates, JSON, and messages of programs.
_MARKED = re.compile(
    r'"[^"]*" ?[=:] ".*"[;,]?|msg(?:id|str) ".*|\[?\d+[/.]\d+[/.]\d+,? \d+:\d\d.*|'
    r"\\[a-z]+\d?\*?(?: .*)?|Dialogue: \d.*|\{\d+\}\{\d+\}.*|\[\d+:\d\d(?::\d\d)?(?:\.\d+)?\].*|[\d:.,]+ +--> .*"
)
_MIN_MARKED, _MIN_NAMED = 0.2, 0.9
_NAME = re.compile(r"(?=\S*\d)(?=\w+[-_.])[\w.-]{8,}\s")  # of a recording: ``1089-134686-0000``


def head_of(lines: Iterator[str]) -> list[str]:
    """Take the first lines, which show the format of a file."""
    head: list[str] = []
    num_chars = 0
    while len(head) < _HEAD_LINES and num_chars < _HEAD_CHARS and (line := next(lines, None)) is not None:
        head.append(line)
        num_chars += len(line)
    return head


def is_other_format(head: Sequence[str], name: str = "") -> bool:
    """Return whether the first lines of a file are a table, markup, subtitles or lines with a name before them.

    Args:
        head: the lines.
        name: of the file, which may be that of a table.
    """
    texts = list(filter(None, head))
    if _CALLED_TABLE.search(name) or "".join(map(str.strip, texts[:2])).lower().startswith(_MARKUP):
        return True
    tabs = Counter(line.strip().count("\t") for line in texts)
    least = max(MIN_ROWS, _MIN_MARKED * len(texts))
    if any(num_tabs and num >= max(MIN_ROWS, len(texts) / 2) for num_tabs, num in tabs.items()):
        return True
    names = {match[0] for line in texts if (match := _NAME.match(line))}
    is_named = len(names) >= max(MIN_ROWS, _MIN_NAMED * len(texts))
    return is_named or sum(1 for line in texts if _MARKED.fullmatch(line.strip())) >= least
