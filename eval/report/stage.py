"""Report of one or several runs as one page, with its tables in other formats: ``xling report``.

The HTML is self-contained; its script sorts, filters and copies tables, and it is readable without the
script. All content comes from the outputs of stages: manifests, logs, scores and predictions; nothing is
trained or predicted.
"""

from __future__ import annotations

import html
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.answer import Answer
from xling.eval.report import artifacts, browse, comparison, frontier, ranks, sections, why
from xling.eval.report.artifacts import Run
from xling.eval.report.dots import dots
from xling.eval.report.overall import by_weight, counted, overall
from xling.eval.report.sections import Section
from xling.eval.scores.score_file import CONTROLS, Score
from xling.eval.tables import render, score_table
from xling.eval.tables.published import FILE, beside
from xling.eval.tables.score_table import Column, ScoreTable, Values
from xling.pages import figure, page, script, tabular

STAGE = "report"
WEIGHTIEST = 7
"""Findings that the page shows unfolded."""
MOST_ROWS, MOST_SIGNATURES = 300, 200
"""Rows of a table that the page shows, and signatures; the files beside it have all."""


@dataclass(frozen=True)
class ReportConfig:
    """Settings of ``xling report``.

    Args:
        runs: folders of runs (of a pipeline, a model, an evaluation), files of scores, or NAME=PATH to name
            one (``runs=NAME=PATH,NAME=PATH`` on the command line).
        out: directory to publish: ``report.html``, ``report.md``, ``report.tex``, and one CSV file per table.
        title: heading of the page.
        note: a sentence under the heading.
        data: folder of the suites' files, to compare systems row by row; default: where the runs were scored.
        allow_missing: average over the languages that have a score, and list the missing ones.
        rows: number of rows with errors shown per suite, with the answers of two systems; 0 for none.
        published: add published results, with a note on their comparability.
    """

    runs: tuple[str, ...] = field(default=())
    out: Path = Path("report")
    title: str = "Cross-lingual transfer"
    note: str = ""
    data: Path | None = None
    allow_missing: bool = False
    rows: int = 60
    published: bool = False


@dataclass(frozen=True)
class Report:
    """The content of a report, independent of the format.

    Attributes:
        title: heading.
        note: a sentence under it.
        leads: warnings.
        overall: every system on every suite; None without scores.
        findings: the result in sentences, most important first.
        tables: score tables, one per suite.
        pictures: score plots, one per suite.
        sections: the other sections, in order.
        scores: the scores behind the tables.
    """

    title: str
    note: str
    leads: list[str]
    overall: tabular.Table | None
    findings: list[str]
    tables: list[ScoreTable]
    pictures: list[str]
    sections: list[Section]
    scores: list[Score]


def run(cfg: ReportConfig) -> Answer:
    """Write the report of the given runs and return its scores as Markdown.

    Raises:
        UserError: no run is given, or one holds nothing that a stage has made.
    """
    if not cfg.runs:
        raise UserError("no run is given", "xling report RUN..., folders that xling has written")
    runs = artifacts.open_runs(cfg.runs)
    inputs = [path for run in runs for path in _inputs(run)] + ([FILE] if cfg.published else [])
    settings = replace(cfg, out=Path())
    if not manifest.up_to_date(cfg.out, STAGE, settings, inputs, replaceable=True):
        report = build(runs, cfg)
        with manifest.publish(cfg.out, STAGE, settings, inputs) as out:
            for name, text in files(report).items():
                (out.path / name).write_text(text, encoding="utf-8")
            out.counts["scores"] = len(report.scores)
    written = [f"{cfg.out / name}" for name in ("report.html", "report.md", "report.tex")]
    text = (cfg.out / "report.md").read_text(encoding="utf-8").split("\n## Transfer\n")[0]
    facts = {
        "written": sorted(str(p) for p in cfg.out.iterdir()),
        "scores": [asdict(s) for s in artifacts.merged_scores(runs)[0]],
    }
    return Answer(
        f"{text.rstrip()}\n\nwritten: {', '.join(written)}, and its tables as CSV beside them", facts
    )


def _inputs(run: Run) -> list[Path]:
    """Return the inputs of a run's report, with text under a separate name so that nothing counts twice."""
    if run.folder.is_file():
        return [run.folder]
    return [item.path for item in run.artifacts] + sorted(run.folder.rglob(f"*.partial/{artifacts.LOG}"))


def build(runs: Sequence[Run], cfg: ReportConfig) -> Report:
    """Build the report of runs; ``cfg`` has title, note, data and ``allow_missing``."""
    scores, notes = artifacts.merged_scores(runs)
    ends = artifacts.ends_of(runs)
    data = cfg.data or next(filter(None, map(comparison.data_of, runs)), None)
    shown = [*scores, *(beside(scores, data) if cfg.published else [])]
    score_tables = [
        score_table.language_table(
            [s for s in shown if s.suite == suite], suite, cfg.allow_missing, ends=ends
        )
        for suite in dict.fromkeys(s.suite for s in scores)
    ]
    spoken: dict[str, set[str]] = {}
    for score in scores:
        spoken.setdefault(score.suite, set()).add(score.lang)
    leads = []
    if any(score.synthetic for score in scores):
        leads.append(
            f"{render.SYNTHETIC}: these rows come from a small grammar; they show that the path works, "
            "not how good a model is on real language."
        )
    systems = comparison.systems_of(runs, cfg.data)
    tests, untested = comparison.tests(systems)
    every = [
        frontier.section(runs, scores),
        browse.rows(systems, cfg.rows),
        sections.transfer(scores),
        sections.intervals(scores),
        sections.significance(tests, untested),
        why.section(runs),
        sections.training(runs),
        sections.corpus(runs),
        sections.reproduction(runs),
    ]
    return Report(
        title=cfg.title,
        note=cfg.note,
        leads=[*leads, *notes],
        overall=overall(scores, ends, tests, ranks.groups(systems)) if scores else None,
        findings=summary(scores),
        tables=score_tables,
        pictures=[
            sections.of_suite(suite, dots(suite, scores))
            for suite, langs in spoken.items()
            if len(langs) <= sections.MANY
        ],
        sections=[section for section in every if section],
        scores=scores,
    )


def files(report: Report) -> dict[str, str]:
    """Return the report's files: file name -> content."""
    tables = _csv_files(report)
    page = html_page(report, tables)
    return {"report.html": page, "report.md": markdown(report), "report.tex": latex(report), **tables}


def _csv_files(report: Report) -> dict[str, str]:
    every_table = [s for section in report.sections for s in (*section.tables, *section.details)]
    every_table += [report.overall] if report.overall else []
    every_table += [_signatures(report.scores)] if report.scores else []
    content_of = {f"scores_{t.title}.csv".replace(" ", "_"): render.comma_separated(t) for t in report.tables}
    content_of |= {f"{s.name}.csv": tabular.to_csv(s) for s in every_table}
    return content_of


def markdown(report: Report) -> str:
    """Return the report as Markdown, without pictures."""
    first = tabular.to_markdown(report.overall).rstrip() if report.overall else ""
    told = [
        f"# {report.title}",
        report.note,
        *report.leads,
        first,
        "\n".join(f"- {f}" for f in report.findings),
    ]
    parts = [tabular.escape_html_tags(text) for text in told]
    parts += [render.markdown(table).rstrip() for table in report.tables]
    for section in report.sections:
        told = [f"## {section.title}", section.lead]
        told += [f"#{tabular.to_markdown(s)}".rstrip() for s in (*section.tables, *section.details)]
        parts += [tabular.escape_html_tags(text) for text in told]
        parts += [f"### {name}\n\n```sh\n" + "\n".join(c) + "\n```" for name, c in section.commands.items()]
    signed = [
        tabular.escape_html_tags(f"- {name}: `{text}`") for name, text in _signatures(report.scores).rows
    ]
    parts.append("## Signatures\n\n" + "\n".join(signed))
    return "\n\n".join(part for part in parts if part) + "\n"


def latex(report: Report) -> str:
    """Return every table as LaTeX, for a document with the packages booktabs and longtable."""
    every_table = [s for section in report.sections for s in (*section.tables, *section.details)]
    first = [tabular.to_latex(report.overall)] if report.overall else []
    return "\n".join([*first, *map(render.latex, report.tables), *map(tabular.to_latex, every_table)])


def html_page(report: Report, beside: Iterable[str]) -> str:
    """Return the whole report as one page, with links to the files ``beside`` it."""
    names = [*(["Scores"] if report.tables else []), *(c.title for c in report.sections)]
    links = " ".join(f'<a href="#{_anchor(name)}">{html.escape(name)}</a>' for name in names)
    rest = report.findings[WEIGHTIEST:]
    body = [
        f"<h1>{html.escape(report.title)}</h1>",
        f"<p>{html.escape(report.note)}</p>" if report.note else "",
        *(f'<p class="banner">{html.escape(sentence)}</p>' for sentence in report.leads),
        _overall(report.overall) if report.overall else "",
        _list(report.findings[:WEIGHTIEST]),
        _folded(f"{counted(len(rest), 'more finding')}", _list(rest)) if rest else "",
        _beside(beside),
        f"<nav aria-label=Chapters>{links}</nav>",
        script.filter_bar() if report.scores else "",
    ]
    if report.tables:
        body += [
            _heading("Scores"),
            *map(_score_table, report.tables),
            figure.arrange_figures(report.pictures),
        ]
    body += [_section(section) for section in report.sections]
    if report.scores:
        said = f"Signatures of {counted(len(report.scores), 'score')}"
        signed = tabular.html_table(_signatures(report.scores), heading=False, max_rows=MOST_SIGNATURES)
        body.append(_folded(said, signed))
    body = ["<main>", *filter(None, body), "</main>", _script(report.scores)]
    return page.html_document(report.title, "\n".join(body))


def _overall(table: tabular.Table) -> str:
    marks = {name: name.partition(" ")[0] for name, _ in table.columns[1:]}
    return tabular.html_table(table, script_marks=marks)


def _script(scores: Sequence[Score]) -> str:
    """Return the script for sorting and filtering, with family and script of every language."""
    sides = {side for score in scores for side in (score.lang, *score.lang.split("-"))}
    known = {}
    for side in sorted(sides):
        try:
            language = languages.get_variant(side)[0]
        except UserError:
            continue
        known[side] = (language.family, language.script)
    return script.page_script(known) if scores else ""


def _list(findings: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(f)}</li>" for f in findings) + "</ul>" if findings else ""


def _beside(names: Iterable[str]) -> str:
    """Return links to the other files of the report, which lie in the same folder."""
    links = " ".join(
        f'<a href="{html.escape(quote(name))}">{html.escape(name)}</a>'
        for name in ("report.md", "report.tex", *names)
    )
    return _folded("The same as files", f'<p class="files">{links}</p>')


def _score_table(table: ScoreTable) -> str:
    return f'<section data-suite="{html.escape(table.title)}">{_folded_if_long(table)}</section>'


def _folded_if_long(table: ScoreTable) -> str:
    if len(table.lines) <= sections.MANY:
        return render.html_under("h3", table)
    return _folded(f"{table.title}, {len(table.lines)} rows", render.html_under("h3", table))


def _section(section: Section) -> str:
    parts = [_heading(section.title), f"<p>{html.escape(section.lead)}</p>" if section.lead else ""]
    parts += [tabular.html_table(s) for s in section.tables]
    parts.append(figure.arrange_figures(section.figures))
    parts += [
        _folded(s.title, tabular.html_table(s, heading=False, max_rows=MOST_ROWS)) for s in section.details
    ]
    for name, lines in section.commands.items():
        shown = "\n\n".join(_broken(line) for line in lines)
        parts.append(
            _folded(
                f"Commands of {name}", f"<pre>{html.escape(shown)}</pre>", is_open=len(section.commands) == 1
            )
        )
    return "\n".join(filter(None, parts))


def _broken(line: str) -> str:
    """Format a command over several lines of a shell."""
    return line if line.startswith("#") else " \\\n    ".join(_wrapped(line))


def _wrapped(line: str, width: int = 100) -> list[str]:
    lines = [""]
    for word in map(shlex.quote, shlex.split(line)):
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _heading(title: str) -> str:
    return f'<h2 id="{_anchor(title)}">{html.escape(title)}</h2>'


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _folded(title: str, inside: str, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{html.escape(title)}</summary>{inside}</details>"


def summary(scores: Sequence[Score]) -> list[str]:
    """Return one sentence per system and suite.

    Its average without the source beside the controls', largest lead first.
    """
    table = score_table.by_column(scores)
    sentences: list[tuple[float, float, str]] = []
    for column in score_table.sorted_columns(table):
        langs = score_table.transferred(column, score_table.averaged_of(table, column))
        if column.system in CONTROLS or not langs:
            continue
        mine = _complete_mean(table[column], langs)
        if mine is None:
            continue
        beside, margins = [], []
        for control in (c for c in table if c.suite == column.suite and c.metric == column.metric):
            other = _complete_mean(table[control], langs)
            if control.system in CONTROLS and other is not None:
                beside.append(f"{control.system} {other:.1f}")
                margins.append(mine - other)
        against = f" (controls: {', '.join(beside)})" if beside else " (no control was run)"
        over = (
            f"the {counted(len(langs), 'language')} other than {column.source}"
            if column.source
            else counted(len(langs), "pair" if all("-" in x for x in langs) else "language")
        )
        said = f"{column.suite}, {column.system}: {column.metric} {mine:.1f} on average over {over}{against}."
        sentences.append((min(margins, key=abs, default=0.0), mine, said))
    return by_weight(sentences)


def _complete_mean(values: Values, langs: Sequence[str]) -> float | None:
    cell = score_table.average(values, Column("", "", "", "", "", ""), langs, score_table._Holes(allow=False))
    return cell.value


def _signatures(scores: Sequence[Score]) -> tabular.Table:
    rows = tuple(
        (f"{s.suite} {s.lang} {s.metric} {s.system} seed {s.seed}", s.signature or "none") for s in scores
    )
    return tabular.Table("signatures", "Signatures", (("score", ""), ("signature", "")), rows)
