"""One page a person reads after a run: the table, a picture of it, and what the numbers mean.

The HTML needs nothing but itself, is readable on a telephone and printed on paper.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eval import figure, render, results, tables
from eval.results import CONTROLS, Score
from eval.tables import Column, Values
from xling.core.errors import UserError
from xling.core.manifest import write_atomic

STYLE = """
:root { --ink: #1b1f24; --soft: #5b6470; --line: #d5dae0; --band: #f4f6f8; --main: #0b5cad; --base: #b4540a; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, "Noto Sans", sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.15rem; margin: 1.75rem 0 .5rem; }
.synthetic { background: #ffe9a8; color: #4d3800; border: 1px solid #c9a227; border-radius: .25rem;
  padding: 0 .4rem; font-size: .85rem; font-weight: 600; white-space: nowrap; }
.banner { background: #fff6d8; border-left: .3rem solid #c9a227; padding: .5rem .75rem; margin: .75rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .5rem; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top;
} thead th { font-weight: 600; vertical-align: bottom; } thead th[scope=colgroup] { text-align: left; } tbody
th, thead td { text-align: left; position: sticky; left: 0; background: #fff; font-weight: 500; } tr.summary
th, tr.summary td { background: var(--band); font-weight: 600; } td.first, th.first, th[scope=colgroup] {
border-left: 1px solid var(--line); } small { display: block; color: var(--soft); font-weight: 400; font-size:
.75rem; white-space: nowrap; } .notes { color: var(--soft); font-size: .85rem; padding-left: 1.1rem; } figure
{ margin: 1rem 0; max-width: 34rem; } figcaption { color: var(--soft); font-size: .85rem; } svg { width: 100%;
height: auto; display: block; } @media (max-width: 30rem) { body { padding: .6rem; } table { font-size: .8rem;
} th, td { padding: .2rem .3rem; } } @media print { body { max-width: none; padding: 0; font-size: 11pt; }
.scroll { overflow: visible; }
  table, figure { break-inside: avoid; } tbody th { position: static; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; } }
"""


@dataclass(frozen=True)
class ReportConfig:
    """Settings of ``xling report``.

    Args:
        scores: ``scores.json`` files of one or more runs.
        out: folder to write ``report.md`` and ``report.html`` into.
        title: heading of the page.
        note: a sentence under the heading, for example the command that made the run.
        allow_missing: take averages over the languages that have a score, and print which have not.
    """

    scores: tuple[Path, ...] = field(default=())
    out: Path = Path("report")
    title: str = "Cross-lingual transfer"
    note: str = ""
    allow_missing: bool = False


def run(cfg: ReportConfig) -> str:
    """Write the report of the given runs and return the Markdown.

    Raises:
        UserError: no scores given, or a file is not one of scores.
    """
    if not cfg.scores:
        raise UserError("no scores are given", "scores=RUN/scores.json[,RUN2/scores.json]")
    scores = results.merge([path / "scores.json" if path.is_dir() else path for path in cfg.scores])
    text, page = report(scores, cfg.title, cfg.note, cfg.allow_missing)
    write_atomic(cfg.out / "report.md", text)
    write_atomic(cfg.out / "report.html", page)
    return text + f"\nwritten: {cfg.out / 'report.md'}, {cfg.out / 'report.html'}"


def report(
    scores: Sequence[Score],
    title: str = "Cross-lingual transfer",
    note: str = "",
    allow_missing: bool = False,
) -> tuple[str, str]:
    """Scores as one Markdown text and one HTML page.

    Args:
        scores: results and their controls, of any number of suites and seeds.
        title: heading.
        note: a sentence under the heading.
        allow_missing: see `eval.tables.language_table`.
    """
    table = tables.language_table(scores, "Scores per language", allow_missing)
    findings = summary(scores)
    lead = []
    if table.synthetic:
        lead.append(
            f"{render.SYNTHETIC}: these rows come from a small grammar; they show that the path works, "
            "not how good a model is on real language."
        )
    bullets = "\n".join(f"- {finding}" for finding in findings)
    text = "\n\n".join(part for part in (f"# {title}", note, *lead, bullets, render.markdown(table)) if part)
    figures = "\n".join(figure.dots(suite, scores) for suite in dict.fromkeys(s.suite for s in scores))
    body = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{html.escape(note)}</p>" if note else "",
        *(f'<p class="banner">{html.escape(sentence)}</p>' for sentence in lead),
        "<ul>" + "".join(f"<li>{html.escape(f)}</li>" for f in findings) + "</ul>" if findings else "",
        render.html_table(table),
        figures,
        _signatures(scores),
    ]
    return text, page(title, "\n".join(body))


def page(title: str, body: str) -> str:
    """A whole HTML document around ``body``, with the style inside."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def summary(scores: Sequence[Score]) -> list[str]:
    """One sentence per system and suite: its average without the source beside the random control's."""
    table = tables.by_column(scores)
    sentences = []
    for column in tables.sorted_columns(table):
        langs = [x for x in tables.languages_of(table, column.suite) if x != column.source]
        if column.system in CONTROLS or not langs:
            continue
        mine = _complete_mean(table[column], langs)
        if mine is None:
            continue
        beside = []
        for control in (c for c in table if c.suite == column.suite and c.metric == column.metric):
            other = _complete_mean(table[control], langs)
            if control.system in CONTROLS and other is not None:
                beside.append(f"{control.system} {other:.1f}")
        against = f" (controls: {', '.join(beside)})" if beside else " (no control was run)"
        sentences.append(
            f"{column.suite}, {column.system}: {column.metric} {mine:.1f} on average over the {len(langs)} "
            f"languages other than {column.source or 'none'}{against}."
        )
    return sentences


def _complete_mean(values: Values, langs: Sequence[str]) -> float | None:
    cell = tables.average(values, Column("", "", "", "", "", ""), langs, tables._Holes(allow=False))
    return cell.value


def _signatures(scores: Sequence[Score]) -> str:
    rows = "".join(
        f"<tr><th scope=row>{html.escape(f'{s.suite} {s.lang} {s.system} seed {s.seed}')}</th>"
        f'<td style="text-align:left"><code>{html.escape(s.signature or "none")}</code></td></tr>'
        for s in scores
    )
    return (
        f"<details><summary>Signatures of the {len(scores)} scores</summary>"
        f'<div class="scroll"><table>{rows}</table></div></details>'
    )
