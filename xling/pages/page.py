"""An HTML page that needs nothing but itself, for a telephone, a screen by day and by night, and paper."""

from __future__ import annotations

import html

from xling.pages.tabular import show_controls

PAGE_STYLE = """
:root { --ink: #1b1f24; --quiet: #5b6470; --line: #d5dae0; --ground: #fff; --panel: #f4f6f8; --link: #0b5cad;
  --kept: #0072b2; --lost: #e69f00; --lost-ground: #fbe7bf; --mark: #d55e00; --shade: #0003; color-scheme: light; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e8eaee; --quiet: #9aa3b2; --line: #323945;
  --ground: #14181f; --panel: #1c222c; --link: #7fb8f0; --kept: #56b4e9; --lost: #e69f00; --lost-ground: #4a3a14;
  --mark: #f0a070; --shade: #fff3; color-scheme: dark; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1rem 1rem 3rem; max-width: 72rem; color: var(--ink); background: var(--ground);
  font: 16px/1.5 system-ui, "Segoe UI", "Noto Sans", sans-serif; overflow-wrap: break-word; }
body.narrow { max-width: 54rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; padding-top: .5rem; border-top: 2px solid var(--line); }
h3 { font-size: 1rem; margin: 1.25rem 0 .4rem; }
.narrow p { margin: .4rem 0 .9rem; max-width: 68ch; }
nav { font-size: .9rem; }
nav a, .files a { margin-right: .9rem; white-space: nowrap; display: inline-block; padding: .15rem 0;
  min-height: 24px; }
a { color: var(--link); }
[hidden] { display: none !important; }
:focus-visible { outline: 3px solid var(--mark); outline-offset: 1px; }
button, select, input { font: inherit; min-height: 24px; color: inherit; background: var(--panel);
  border: 1px solid var(--quiet); border-radius: .3rem; padding: .1rem .45rem; max-width: 100%; }
button { cursor: pointer; }
button.sort { background: none; border: 0; padding: 0; font-weight: inherit; text-align: inherit; color: var(--link); }
[aria-sort=ascending] .sort::after { content: " ↑"; } [aria-sort=descending] .sort::after { content: " ↓"; }
.tools { font-size: .8rem; margin: .3rem 0; color: var(--quiet); }
#filter { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; background: var(--panel);
  border-radius: .5rem; padding: .5rem .75rem; margin: .75rem 0; font-size: .9rem; }
#filter p { margin: 0; flex-basis: 100%; }
.lead, .quiet { color: var(--quiet); }
.synthetic { background: #ffe9a8; color: #4d3800; border: 1px solid #c9a227; border-radius: .25rem;
  padding: 0 .4rem; font-size: .85rem; font-weight: 600; white-space: nowrap; }
.banner { background: #fff6d8; color: #4d3800; margin: .75rem 0;
  border-left: .3rem solid #c9a227; padding: .5rem .75rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: .75rem; margin: 1.5rem 0; }
.tile { background: var(--panel); border-radius: .5rem; padding: .8rem 1rem; }
.tile b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums; line-height: 1.25; }
.tile span { color: var(--quiet); font-size: .9rem; }
/* A shadow at the edge behind which more is, and in words what to do. */
.scroll { overflow-x: auto; background: linear-gradient(to left, var(--ground) 1rem, transparent) 100% 0 / 3rem 100%
  no-repeat local, linear-gradient(to left, var(--shade), transparent) 100% 0 / 1.25rem 100% no-repeat scroll; }
.scroll[data-more]::before { content: attr(data-more); position: sticky; left: 0; display: block; width: max-content;
  max-width: 90vw; font-size: .75rem; color: var(--quiet); }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .5rem; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th.text, td.text { text-align: left; }
thead th { font-weight: 600; vertical-align: bottom; }
thead th[scope=colgroup] { text-align: left; }
tbody th, thead td { text-align: left; position: sticky; left: 0; background: var(--ground); font-weight: 500; }
tr.summary th, tr.summary td { background: var(--panel); font-weight: 600; }
td.first, th.first, th[scope=colgroup] { border-left: 1px solid var(--line); }
td.num, th.num, td.text, th.text { white-space: nowrap; }
.narrow table { width: 100%; margin: .6rem 0 1.1rem; }
.narrow td.text, .narrow th.text { white-space: normal; overflow-wrap: anywhere; min-width: 9ch; }
.scroll code { white-space: normal; }
small { display: block; color: var(--quiet); font-weight: 400; font-size: .75rem; white-space: nowrap; }
.notes { color: var(--quiet); font-size: .85rem; padding-left: 1.1rem; }
.figures { display: grid; gap: .5rem 1.5rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 20.5rem), 1fr)); }
figure { margin: .75rem 0; max-width: 27rem; min-width: 0; }
figure.fill_row { grid-column: 1 / -1; max-width: none; }
figcaption { color: var(--quiet); font-size: .85rem; }
svg { width: 100%; height: auto; display: block; }
svg text { font-family: system-ui, "Noto Sans", sans-serif !important; }
svg.chart { font-size: 13px; margin: .5rem 0 .25rem; } .chart text { fill: var(--ink); }
.chart .quiet { fill: var(--quiet); font-size: 12px; } .chart .number { font-variant-numeric: tabular-nums; }
.chart .on-dark { fill: var(--ground); } .chart .kept { fill: var(--kept); } .chart .lost { fill: url(#hatch); }
.chart .lost-ground { fill: var(--lost-ground); } .chart .lost-line { stroke: var(--lost); stroke-width: 3; }
.chart .axis { stroke: var(--quiet); }
.chart .mark { stroke: var(--mark); stroke-width: 1.5; stroke-dasharray: 4 3; }
figure svg:not(.chart) text { fill: var(--ink); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; font-size: .9rem; }
dt { font-weight: 600; } dd { margin: 0; }
.bars { list-style: none; padding: 0; margin: .6rem 0 1rem; }
.bars li { display: grid; grid-template-columns: 11rem 1fr 4.2rem 4.6rem; column-gap: .6rem; align-items: center;
  padding: .15rem 0; font-variant-numeric: tabular-nums; }
.bars small { white-space: normal; line-height: 1.25; }
.bars .track { display: flex; height: 1.3rem; } .bars i { flex: none; min-width: 1px; }
.bars .number, .bars .quiet { text-align: right; font-size: .85rem; }
.bars .kept { background: var(--kept); }
.bars .lost, .key.lost { background: repeating-linear-gradient(45deg, var(--lost) 0 3px, var(--lost-ground) 3px 6px); }
.key { display: inline-block; width: 12px; height: 12px; border-radius: 3px; vertical-align: -1px; margin-right: 5px; }
.key.kept { background: var(--kept); }
blockquote { margin: .5rem 0 .9rem; padding: .6rem .9rem; border-left: 3px solid var(--kept); background: var(--panel);
  border-radius: 0 .5rem .5rem 0; white-space: pre-line; font-size: .95rem; overflow-wrap: anywhere; }
blockquote.lost { border-left-color: var(--lost); }
blockquote:dir(rtl) { border-left: 0; border-right: 3px solid var(--kept); border-radius: .5rem 0 0 .5rem; }
blockquote.lost:dir(rtl) { border-right-color: var(--lost); }
cite { display: block; font-style: normal; font-size: .75rem; color: var(--quiet); direction: ltr; }
pre { background: var(--panel); border-radius: .5rem; padding: .6rem .75rem; font-size: .8rem; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: .4rem 0; }
code { overflow-wrap: anywhere; }
summary { cursor: pointer; font-weight: 500; }
.narrow details { border-top: 1px solid var(--line); padding: .5rem 0; }
/* On a telephone, a row of a table for reading is a block, its cells below each other, each with its name. */
@media screen and (max-width: 44rem) {
  svg.fit text, svg.fit .quiet { font-size: 24px; }
  .bars li { grid-template-columns: 1fr 4rem 4.4rem; } .bars .track { grid-row: 2; grid-column: 1 / -1; }
  dl { grid-template-columns: 1fr; } dd { margin: 0 0 .4rem; }
  .stack, .stack tbody, .stack tr, .stack tbody th { display: block; width: auto; }
  .stack thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  .stack tr { border-bottom: 1px solid var(--line); padding: .3rem 0; }
  .stack tbody th { border: 0; position: static; white-space: normal; overflow-wrap: anywhere; }
  .stack td, .narrow .stack td.text { display: flex; justify-content: space-between; gap: 1rem; border: 0;
    text-align: right; }
  .stack td::before { content: attr(data-label); flex: none; color: var(--quiet); }
  .stack td:empty { display: none; }
}
@media (max-width: 30rem) {
  body { padding: .6rem; }
  table { font-size: .8rem; }
  th, td { padding: .2rem .3rem; }
}
@media print {
  body, body.narrow { max-width: none; padding: 0; font-size: 10pt; }
  .scroll { overflow: visible; background: none; } .scroll::before { display: none !important; }
  svg.chart { max-width: 100%; }
  table { font-size: 7.5pt; }
  small { font-size: 6.5pt; }
  tr, figure, pre { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  tbody th { position: static; }
  nav, .tools, #filter { display: none; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""


_SCROLL_SCRIPT = """(() => {
const look = () => document.querySelectorAll(".scroll").forEach(box => {
  if (box.scrollWidth <= box.clientWidth + 1) delete box.dataset.more;
  else box.dataset.more = "more to the right: swipe, or use the arrow keys \u2192"; });
for (const [what, where] of [["load", window], ["resize", window], ["toggle", document]])
  where.addEventListener(what, look, true);
look(); })();"""
"""Marks what is wider than the screen; without it the shadow alone says so."""


def html_document(title: str, body: str, narrow: bool = False) -> str:
    """Return a complete HTML document around ``body``, including styles; a ``narrow`` one is for reading text."""
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
