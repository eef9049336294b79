"""Text of an HTML page as ``extract=`` asks: main content, all visible text, or the running text where that is short.

An extractor of main content goes by the page's elements, and on some pages these say little. Of 110 saved pages 42 had
under 300 characters of main content; one of them had 16,000 characters of news outside of it. ``auto`` reads such pages
as WET text is read: it judges all visible lines. Of these it takes paragraphs alone, so that menus stay out.
"""

from xling.corpora.sources.source import Context, paragraphs
from xling.corpora.sources.webpage import text_of
from xling.corpora.stages.filters import is_ended
from xling.corpora.stages.lines import Lines
from xling.text.document import Document, Ledger
from xling.text.words.sentence_ends import split_sentences

RESCUED_NOTE = "pages with too little main content, of which the paragraphs outside of it were read too"
# Of UTF-8: 120 letters of English, 60 of Russian, 40 of Chinese. Headlines, addresses and captions are shorter.
_MIN_PARAGRAPH_BYTES = 120
_LINES = Lines(sources=("",), min_chars=1)


def page_text(html: str, context: Context, ledger: Ledger) -> tuple[str, str]:
    """Return the text of a page, a paragraph a line, and "", or "" and a reason of `webpage.REASONS`.

    Args:
        context: ``extract`` and ``min_main``.
        ledger: counts the pages whose main content was too short and whose other paragraphs were not.
    """
    text, reason = text_of(html, context.extract != "all")
    main = paragraphs(text)
    if context.extract != "auto" or reason or len(main) >= context.min_main:
        return main, reason
    running = _running_text(paragraphs(text_of(html, False)[0]))
    if len(running) < context.min_main:
        return main, ""
    ledger.count_event(RESCUED_NOTE)
    return running, ""


def _running_text(text: str) -> str:
    """Return the paragraphs of a text that the stage ``lines`` takes for running text, each once."""
    if not text:
        return ""
    verdict = next(_LINES.edits([Document("", text)]))
    if verdict.reason:
        return ""
    lines = (verdict.text if verdict.text is not None else text).split("\n")
    return "\n".join(dict.fromkeys(filter(_is_paragraph, lines)))


def _is_paragraph(line: str) -> bool:
    """Return whether a line is long, and ends a sentence or is of several: its end may be cut off, or have no mark."""
    return len(line.encode("utf-8", "surrogatepass")) >= _MIN_PARAGRAPH_BYTES and (
        is_ended(line) or len(split_sentences(line)) > 1
    )
