"""An HTML page that needs nothing but itself, for a telephone, a screen by day and by night, and paper."""

import html
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files

from xling.pages.tabular import show_controls

PAGE_STYLE = "\n" + (files("xling.pages") / "page.css").read_text(encoding="utf-8")
_SCROLL_SCRIPT = (files("xling.pages") / "scroll.js").read_text(encoding="utf-8").rstrip()
"""Marks what is wider than the screen; without it the shadow alone says so."""
_TABLES_SCRIPT = (files("xling.pages") / "tables.js").read_text(encoding="utf-8")


def html_document(title: str, body: str, narrow: bool = False) -> str:
    """Return a complete HTML document around ``body``, including styles; a ``narrow`` one is for reading text."""
    if "<main>" not in body:
        body = f"<main>\n{body}\n</main>"
    body = _with_levels(_with_distinct_names(body))
    # A page with a script of its own gets no second one.
    before, end, after = body.rpartition("</script>")
    body = (
        f"{before}\n{_SCROLL_SCRIPT}{end}{after}"
        if end
        else f"{body}\n<script data-for=scroll>{_SCROLL_SCRIPT}</script>"
    )
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{PAGE_STYLE}</style></head>\n"
        f"<body{' class=narrow' if narrow else ''}>\n{body}\n"
        "</body></html>\n"
    )
    return show_controls(text)


def _with_distinct_names(body: str) -> str:
    """Number the boxes of one name, so that they are told apart where they are listed."""
    num_of: Counter[str] = Counter()

    def distinct(box: re.Match[str]) -> str:
        num_of[box[2]] += 1
        return f'{box[1]}{box[2]}{f" {num_of[box[2]]}" if num_of[box[2]] > 1 else ""}"'

    return re.sub(r'(role="region" tabindex="0" aria-label=")([^"]*)"', distinct, body)


def _with_levels(body: str) -> str:
    """Raise headings so that none is more than one level below the one that it belongs to."""
    above: list[int] = []

    def raised(tag: re.Match[str]) -> str:
        if not tag[1]:
            while above and above[-1] >= int(tag[2]):
                above.pop()
            above.append(int(tag[2]))
        return f"<{tag[1]}h{len(above)}"

    return re.sub(r"<(/?)h([1-6])\b", raised, body)


def page_script(langs: Mapping[str, Sequence[str]]) -> str:
    """Return the script elements for the end of a page whose tables are in ``main``: sorting, filtering and copying.

    The page is readable without it. It asks for nothing else, and what it adds is a button, a list or a field of the
    browser's own, so that the keyboard alone is enough.

    Args:
        langs: language -> family and script, which the page is filtered by.
    """
    langs_json = json.dumps(langs, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="langs">{langs_json}</script>\n<script>\n{_TABLES_SCRIPT}</script>'


def filter_bar() -> str:
    """Return the element for the script's lists; empty and hidden without it."""
    return '<section id="filter" aria-label="Filter" hidden></section>'
