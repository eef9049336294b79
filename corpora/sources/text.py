"""Source ``text:GLOB``: one paragraph per line, a blank line between documents."""

import itertools
import re
from collections.abc import Iterator

from xling.corpora.sources.source import (
    CUT_NOTE,
    MAX_DOC_CHARS,
    SOURCES,
    Context,
    LocalFiles,
    Shard,
    admit,
    decode,
    paragraphs,
    unwrapped,
)
from xling.text.document import LONE, Document, Ledger
from xling.text.files.around_text import body_lines
from xling.text.files.compressed import read_lines
from xling.text.files.other_formats import head_of, is_markdown, is_other_format
from xling.text.long_texts import LIST_LINES, cut_text, is_ended, is_list_of_sentences, split_line
from xling.text.wrapped_lines import join_sentences

LIST_NOTE = "file of isolated sentences, one a line: each line is a document"
SHORT_NOTE = "file whose blank lines are between short paragraphs: they end no document"
TABLE_NOTE = (
    "file of a table, mail or with markup, read whole: csv:FILE#COLUMN, jsonl:, html:, ... read the text"
)
TIMES_NOTE = "lines of subtitles with their number, times, notes or a repetition left out"
_MIN_CUES = 5
_SHORT_BLOCK = 300
_MAX_SHARE_ENDED, _MOSTLY = 0.6, 0.95
_DOC = re.compile(r"<doc\b.*>|</doc>")
_TIMES = re.compile(
    r"(?:\d+:)?\d+:\d\d[.,]\d+(?: +--> +|,)(?:\d+:)?\d+:\d\d[.,]\d+.*"
)  # a comma in SubViewer
# What WebVTT has besides cues, and the markup inside of a cue; that with times shows words as they are spoken.
_NO_CUE = re.compile(r"\ufeff?(?:WEBVTT|NOTE|STYLE|REGION)(?:\s.*)?")
_CUE_TIME = re.compile(r"<\d+:[\d:.]+>")
_CUE_TAG = re.compile(
    rf"</?(?:[cibuv]|lang|font)\b[^<>]*>|\{{\\[^{{}}]*\}}|{_CUE_TIME.pattern}", re.IGNORECASE
)


@SOURCES.register("text")
class Text(LocalFiles):
    """Text in CC-100's format, plain or compressed.

    A text without blank lines is cut where it is long, so that memory stays bounded and no such text is too long. If
    its lines are one sentence each, as in Common Voice, each is a document. Many short paragraphs with a blank line
    after each, as of verses or an interview, and lines that a program has broken are running text without blank lines.
    """

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a block of lines."""
        return read_text(self.context, shard, ledger)


def read_text(context: Context, shard: Shard, ledger: Ledger) -> Iterator[Document]:
    """Yield the documents of one file in CC-100's format, fetched first if it is remote."""
    lines = body_lines(decoded_lines(context, shard, ledger), ledger)
    head = head_of(lines)
    if sum(map(_is_times, head)) >= _MIN_CUES:
        lines = join_sentences(_without_times(itertools.chain(head, lines), ledger))
        head = head_of(lines)
    if any(map(_DOC.fullmatch, head)):  # of WikiExtractor and others: these lines alone end a document
        lines = ("" if _DOC.fullmatch(line) else line for line in itertools.chain(head, lines) if line)
        head = head_of(lines)
    texts = [line for line in head if line]
    if is_other_format(head, shard.location) or is_markdown(head):
        ledger.count_event(TABLE_NOTE)
    sizes = [sum(map(len, block)) for is_text, block in itertools.groupby(head, bool) if is_text]
    are_lines = len(sizes) >= _MOSTLY * len(texts)
    # Blocks of several lines that each end with a sentence are short documents, as CC-100's format has them.
    is_broken = are_lines or sum(map(is_ended, texts)) < _MAX_SHARE_ENDED * len(texts)
    is_short = len(sizes) >= LIST_LINES and sorted(sizes)[len(sizes) // 2] < _SHORT_BLOCK and is_broken
    num_borders = 0 if are_lines and is_short else len(head) - len(texts)
    all_lines: Iterator[str] = itertools.chain(head, lines)
    if (joined := unwrapped(head, all_lines, ledger)) is not None:
        all_lines = joined
    elif num_borders * LIST_LINES < len(texts) and is_list_of_sentences(texts):
        ledger.count_event(LIST_NOTE)
        return documents_of(all_lines, shard, ledger, LONE)
    elif is_short:
        ledger.count_event(SHORT_NOTE)
        all_lines = filter(None, all_lines)
    return documents_of(_blocks(all_lines, min(MAX_DOC_CHARS, context.max_chars), ledger), shard, ledger)


def announced_lines(lines: Iterator[str], ledger: Ledger) -> Iterator[str]:
    """Yield all lines; a file of another format is announced."""
    head = head_of(lines)
    if is_other_format(head) or is_markdown(head):
        ledger.count_event(TABLE_NOTE)
    return itertools.chain(head, lines)


def _is_times(line: str) -> bool:
    return ":" in line and _TIMES.fullmatch(line.strip()) is not None


def _without_times(lines: Iterator[str], ledger: Ledger) -> Iterator[str]:
    """Yield the text of subtitles (SubRip, WebVTT), without lines of times and names of cues, notes and tags."""
    is_vtt = is_note = is_rolling = False
    last, earlier, previous = "", "", None
    for line in itertools.chain(lines, [None]):
        if previous is None:
            is_vtt = line is not None and _NO_CUE.fullmatch(line) is not None
        else:
            is_first = not earlier
            is_note = bool(previous) and (
                (is_vtt and is_first and bool(_NO_CUE.fullmatch(previous))) or is_note
            )
            is_cue = line is not None and _is_times(line)
            is_name = is_cue and (previous.strip().isdigit() or (is_vtt and is_first and bool(previous)))
            is_note = is_note and not _is_times(previous)
            is_rolling = is_rolling or _CUE_TIME.search(previous) is not None
            text = _CUE_TAG.sub("", previous)
            # Captions that roll show each line again.
            if is_note or is_name or _is_times(previous) or (is_rolling and text and text == last):
                ledger.count_event(TIMES_NOTE)
            else:
                last = text or last
                yield text
        earlier, previous = previous or "", line


def decoded_lines(context: Context, shard: Shard, ledger: Ledger) -> Iterator[str]:
    """Yield the lines of one file; those that look blank are empty, and so is one between two pages (form feed)."""
    for number, row in enumerate(read_lines(context.local(shard), ledger, lang=context.one_lang)):
        yield from split_line(decode(row, ledger).removeprefix("" if number else "\ufeff"))


def _blocks(lines: Iterator[str], max_chars: int, ledger: Ledger) -> Iterator[str]:
    """Yield the lines between blank ones, long blocks in pieces of at most ``max_chars`` characters."""
    block: list[str] = []
    size, is_cut = 0, False
    for line in itertools.chain(lines, [""]):
        if line:
            block.append(line)
            size += len(line) + 1
        if block and (not line or size > 2 * max_chars):
            pieces = cut_text("\n".join(block), max_chars)
            # Of a text that goes on the last piece is cut later, with what follows.
            rest = pieces.pop() if line and len(pieces) > 1 else ""
            if is_cut or len(pieces) > 1 or rest:
                ledger.count_event(CUT_NOTE, len(pieces))
            yield from pieces
            block, size, is_cut = [rest] if rest else [], len(rest), bool(rest)


def documents_of(texts: Iterator[str], shard: Shard, ledger: Ledger, form: str = "") -> Iterator[Document]:
    """Yield a document for each text that is not empty."""
    for number, text in enumerate(filter(None, texts)):
        text = paragraphs(text.removeprefix("\ufeff"))
        if doc := admit(Document(f"{shard.name}/{number}", text, source=shard.source, form=form), ledger):
            yield doc
