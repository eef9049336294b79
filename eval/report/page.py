"""An HTML page that needs nothing but itself, for a telephone, a screen and paper."""

from __future__ import annotations

import html

STYLE = """
:root { --ink: #1b1f24; --soft: #5b6470; --line: #d5dae0; --band: #f4f6f8; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, "Noto Sans", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; padding-top: .5rem; border-top: 2px solid var(--line); }
h3 { font-size: 1rem; margin: 1.25rem 0 .4rem; }
nav { font-size: .9rem; }
nav a { margin-right: .9rem; white-space: nowrap; }
a { color: #0b5cad; }
.synthetic { background: #ffe9a8; color: #4d3800; border: 1px solid #c9a227; border-radius: .25rem;
  padding: 0 .4rem; font-size: .85rem; font-weight: 600; white-space: nowrap; }
.banner { background: #fff6d8; border-left: .3rem solid #c9a227; padding: .5rem .75rem; margin: .75rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .5rem; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th.text, td.text { text-align: left; }
thead th { font-weight: 600; vertical-align: bottom; }
thead th[scope=colgroup] { text-align: left; }
tbody th, thead td { text-align: left; position: sticky; left: 0; background: #fff; font-weight: 500; }
tr.summary th, tr.summary td { background: var(--band); font-weight: 600; }
td.first, th.first, th[scope=colgroup] { border-left: 1px solid var(--line); }
td.num, th.num, td.text, th.text { white-space: nowrap; }
.scroll code { white-space: normal; }
small { display: block; color: var(--soft); font-weight: 400; font-size: .75rem; white-space: nowrap; }
.notes { color: var(--soft); font-size: .85rem; padding-left: 1.1rem; }
.figures { display: grid; gap: .5rem 1.5rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 20.5rem), 1fr)); }
figure { margin: .75rem 0; max-width: 27rem; min-width: 0; }
figure.wide { grid-column: 1 / -1; max-width: none; }
figcaption { color: var(--soft); font-size: .85rem; }
svg { width: 100%; height: auto; display: block; }
svg text { font-family: system-ui, "Noto Sans", sans-serif !important; }
pre { background: var(--band); padding: .6rem .75rem; font-size: .8rem; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: .4rem 0; }
code { overflow-wrap: anywhere; }
summary { cursor: pointer; font-weight: 500; }
@media (max-width: 30rem) {
  body { padding: .6rem; }
  table { font-size: .8rem; }
  th, td { padding: .2rem .3rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  .scroll { overflow: visible; }
  table { font-size: 7.5pt; }
  small { font-size: 6.5pt; }
  tr, figure, pre { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  tbody th { position: static; }
  nav { display: none; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""


def document(title: str, body: str) -> str:
    """A whole HTML document around ``body``, with the style inside."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )
