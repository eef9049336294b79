"""Text extraction from HTML pages, with limits of depth, processor time and memory for each page.

A page of a few kilobytes can keep an extractor busy for hours: nested elements, many attributes of one
element, options of lists. So long pages are processed in a helper process, which can be ended at a limit
without harm.
"""

import atexit
import contextlib
import math
import os
import re
import resource
import struct
import subprocess
import sys
import time
import unicodedata
from collections import Counter
from html import unescape

from resiliparse.extract.html2text import extract_plain_text

from xling.corpora.common.raised import keep_raised_digits, without_note_marks

SMALL_CHARS = 1 << 15  # no page up to this length takes more than a second or two
MAX_SECONDS = 10  # of processor time
_MAX_MEMORY = 3 << 29
# Extraction time is quadratic in the depth: 40 ms at 1,000, minutes at 100,000. Browsers stop at 512.
_MAX_DEPTH = 1000
TOO_DEEP, TOO_MUCH = "page nested too deep", "page takes too long to read"
REASONS = {
    TOO_DEEP: f"more than {_MAX_DEPTH} elements stand inside each other",
    TOO_MUCH: f"extraction needs over {MAX_SECONDS} s or {_MAX_MEMORY >> 20} MiB",
}
_TAG = re.compile(r"<!--(?:-?>|.*?(?:--!?>|\Z))|<(/?)([a-zA-Z][a-zA-Z0-9]*)", re.DOTALL)
# Blocks that the extractor glues to what follows, or leaves out with the captions, tables and quotations in them.
_BLOCK = re.compile(r"<(/?)(?:summary|dialog|figure|figcaption)\b", re.IGNORECASE)
# The extractor takes one character of three bytes between two tags for an icon and leaves it out of the main content:
# a Chinese particle between two links, a dash, a full stop. A noncharacter stands beside it meanwhile.
_LONE = re.compile(r"(?<=>)\s*(?:[\u0800-\uffff]|&#?\w{2,10};)(?=\s*<)")
# A date inside of a sentence, which is left out like that of a byline; the name of a key or a button to press.
_IN_SENTENCE = re.compile(
    r"(?:(?<=[^\s<>])|(?<=[^\s<>]\s))<(time|label|button)\b[^<>]{0,300}>([^<>]{0,200})</\1\s*>(?=\s*[^\s<])",
    re.IGNORECASE,
)
_LICENCE = re.compile(r"<section\b[^<>]{0,200}\bpg-boilerplate\b.*?</section\s*>", re.DOTALL)
_BESIDE, _BULLETS = "\ufdd0", frozenset("•‣⁃‹›")
_UNNESTED_TAGS = (
    "area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|option|p|param|path|source|tbody|td|tfoot|th|thead|tr|"
    "track|wbr"
)
# Of XHTML, as in books: what follows would stand inside of the element, or be the title of the page.
_CLOSED = re.compile(rf"<(?!(?:{_UNNESTED_TAGS})\b)([a-zA-Z][\w:-]*+)([^<>]*+)(?<=/)>")
_UNNESTED_TAG_NAMES = frozenset(_UNNESTED_TAGS.split("|"))
# Main content or all, or whether the page was too deep; number of bytes that follow.
_ANSWER_HEADER = struct.Struct("<BQ")
_workers: dict[int, subprocess.Popen[bytes]] = {}


def text_of(html: str, main: bool) -> tuple[str, str]:
    """Return the text of a page and "", or "" and one of `REASONS`.

    Args:
        main: the main content alone, without navigation and footers.
    """
    if len(html) <= SMALL_CHARS:
        return _extract(html, main)
    # This process's helper process for reading pages; a forked process has its own.
    pid = os.getpid()
    if pid not in _workers:
        command = [
            sys.executable,
            "-c",
            f"from {__name__} import _serve_requests; _serve_requests({MAX_SECONDS})",
        ]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        _workers[pid] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
    worker = _workers[pid]
    assert worker.stdin, "a pipe was asked for"
    assert worker.stdout, "a pipe was asked for"
    data = html.encode("utf-8", "surrogatepass")
    try:
        worker.stdin.write(_ANSWER_HEADER.pack(main, len(data)) + data)
        worker.stdin.flush()
        is_deep, size = _ANSWER_HEADER.unpack(worker.stdout.read(_ANSWER_HEADER.size))
        text = worker.stdout.read(size)
        if len(text) < size:
            raise EOFError
    except (BrokenPipeError, EOFError, struct.error):
        _stop_worker(os.getpid())
        return "", TOO_MUCH
    return text.decode("utf-8", "surrogatepass"), TOO_DEEP if is_deep else ""


def _extract(html: str, main: bool) -> tuple[str, str]:
    if "w3.org/1999/xhtml" in html[:SMALL_CHARS]:
        html = _CLOSED.sub(r"<\1\2></\1>", html)
    if html.count("<") > _MAX_DEPTH and _nesting_depth(html) > _MAX_DEPTH:
        return "", TOO_DEEP
    html = _BLOCK.sub(r"<\1div", keep_raised_digits(without_note_marks(html)))
    if main and (not html.isascii() or "&" in html):
        html = _LONE.sub(_kept, html)
    if "<time" in html or "<label" in html or "<button" in html:
        html = _IN_SENTENCE.sub(r"\2", html)
    html = _LICENCE.sub("", html)
    text = extract_plain_text(html, main_content=main, alt_texts=False, list_bullets=False)
    return text.replace(_BESIDE, ""), ""


def _kept(match: re.Match[str]) -> str:
    char = unescape(match[0]).strip()
    is_text = len(char) == 1 and char >= "\u0800" and unicodedata.category(char)[0] in "LMNP"
    return f"{match[0]}{_BESIDE}" if is_text and char not in _BULLETS else match[0]


def _nesting_depth(html: str) -> int:
    """Return the nesting depth of elements that need an end tag; one that is never closed extends to the end."""
    max_depth = depth = 0
    is_open: Counter[str] = Counter()
    for tag in _TAG.finditer(html):
        end, name = tag.group(1), (tag.group(2) or "").lower()
        if not name or name in _UNNESTED_TAG_NAMES:
            continue
        if not end:
            is_open[name] += 1
            depth += 1
            max_depth = max(max_depth, depth)
        elif is_open[name]:  # an end tag without an open element has no effect
            is_open[name] -= 1
            depth -= 1
    return max_depth


def _stop_worker(pid: int) -> None:
    if (worker := _workers.pop(pid, None)) is not None:
        worker.kill()
        for pipe in (worker.stdin, worker.stdout):
            assert pipe, "a pipe was asked for"
            with contextlib.suppress(BrokenPipeError):  # for data that was not written yet
                pipe.close()
        worker.wait()


@atexit.register
def _stop_own_worker() -> None:
    _stop_worker(os.getpid())


def _lower_limit(limit: int, value: int) -> None:
    """Set a soft limit, within the hard one that the machine may have set."""
    hard = resource.getrlimit(limit)[1]
    resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _serve_requests(seconds: int) -> None:
    """Answer pages on standard input until it ends; the system kills this process at a limit."""
    _lower_limit(resource.RLIMIT_AS, _MAX_MEMORY)
    _lower_limit(resource.RLIMIT_CORE, 0)
    pages, answers = sys.stdin.buffer, sys.stdout.buffer
    while head := pages.read(_ANSWER_HEADER.size):
        _lower_limit(resource.RLIMIT_CPU, math.ceil(time.process_time()) + seconds)
        main, size = _ANSWER_HEADER.unpack(head)
        text, reason = _extract(pages.read(size).decode("utf-8", "surrogatepass"), bool(main))
        data = text.encode("utf-8", "surrogatepass")
        answers.write(_ANSWER_HEADER.pack(bool(reason), len(data)) + data)
        answers.flush()
