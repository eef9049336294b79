"""Files of other formats that were given as text: tables, markup, subtitles, lines with a name before them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

MIN_ROWS = 5
"""Of a table, and of other lines of one kind."""
_HEAD_LINES, _HEAD_CHARS = 1000, 1 << 20
_CALLED_OTHER = re.compile(
    r"\.(?:csv|tsv|ya?ml|toml|ini|tex|eml|mbox|log)(?:\.(?:gz|xz|zst|bz2))?$", re.IGNORECASE
)
_MARKUP = (
    *("<?xml", "<mediawiki", "<!", "<htm", "<head", "<body", "<div", "<p>", "<doc ", '{"', "warc/1."),
    *("<srcset", "<refset", "<tstset", "<mteval", "<tmx", "<xliff"),
    *("\\documentclass", "\\id ", "[script info]", "webvtt", "[{", "insert into ", "-- mysql dump"),
    *('file type = "ootextfile', "<annotation_document", "<alto", "<rss", "<feed", "%pdf-", "{\\rtf"),
)
# Lines of USFM, of subtitles, of lyrics, times alone or before what is said, messages of a chat with their dates, JSON,
# messages of programs, logs.
_MARKED = re.compile(
    r'"[^"]*" ?[=:] ".*"[;,]?|msg(?:id|str) ".*|\[?\d+[/.-]\d+[/.-]\d+(?:,? |T)\d+:\d\d.*|'
    r"\\[a-z]+\d?\*?(?: .*)?|Dialogue: \d.*|\{\d+\}\{\d+\}.*|\[\d+:\d\d(?::\d\d)?(?:\.\d+)?\].*|[\d:.,]+ +--> .*|"
    r"[a-zA-Z][\w.-]*=\S.*|[\d:]+\.\d+,[\d:]+\.\d+|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d .*|\d+:\d\d <.*|"
    r"(?:\d+:)?\d+:\d\d|\[?\d+:\d\d:\d\d(?:[.,]\d+)?\]? .*"
)
_NUMBERED = re.compile(
    r"[\[(]?\d{1,7}(?::\d{1,3})?[\]).:]?\s+\S.*|(?:[1-4] ?)?[^\W\d_]+\.? \d{1,3}[:.]\d{1,3}\s+\S.*"  # or a verse
)
_MARKDOWN = re.compile(r"#{1,6} \S.*|```.*|\|.*\||.*\]\((?:https?:|[#/.]).*")
_MAIL = re.compile(
    "(?:Received|Return-Path|Delivered-To|Message-I[Dd]|MIME-Version|Content-(?:Type|Transfer-Encoding)|In-Reply-To|"
    "Subject|Newsgroups|Organization|Lines|X-[A-Z][\\w-]+): "
)
_MIN_HEADERS, _FIRST_LINES = 3, 40
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
    """Return whether the first lines of a file are a table, markup, mail, subtitles or lines with a name before them.

    Args:
        head: the lines.
        name: of the file, which may be that of a table or another format.
    """
    texts = list(filter(None, head))
    if _CALLED_OTHER.search(name) or "".join(map(str.strip, texts[:2])).lower().startswith(_MARKUP):
        return True
    if sum(1 for line in texts[:_FIRST_LINES] if _MAIL.match(line)) >= _MIN_HEADERS:
        return True
    tabs = Counter(line.strip().count("\t") for line in texts)
    if any(num_tabs and num >= max(MIN_ROWS, len(texts) / 2) for num_tabs, num in tabs.items()):
        return True
    names = {match[0] for line in texts if (match := _NAME.match(line))}
    is_named = len(names) >= max(MIN_ROWS, _MIN_NAMED * len(texts))
    return is_named or _are_many(texts, _MARKED)


def is_markdown(head: Sequence[str]) -> bool:
    """Return whether the first lines of a file have marks of Markdown, or nearly each a number before it."""
    texts = list(filter(None, head))
    return _are_many(texts, _MARKDOWN) or _are_many(texts, _NUMBERED, _MIN_NAMED)


def _are_many(texts: Sequence[str], pattern: re.Pattern[str], min_share: float = _MIN_MARKED) -> bool:
    num = sum(1 for line in texts if pattern.fullmatch(line.strip()))
    return num >= max(MIN_ROWS, min_share * len(texts))
