"""Report of one or several runs as one page, with its tables in other formats: ``xling report``.

The HTML is self-contained; its script sorts, filters and copies tables, and it is readable without the
script. All content comes from the outputs of stages: manifests, logs, scores and predictions; nothing is
trained or predicted.
"""

import html
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.package_tables import load_table
from xling.eval.report import artifacts, browse, comparison, sections, why
from xling.eval.report.artifacts import Run
from xling.eval.report.dot_plot import dots
from xling.eval.report.overall import number_of, overall, sort_findings
from xling.eval.report.sections import Section
from xling.eval.scores.score_file import CONTROLS, Score
from xling.eval.tables import render, score_table
from xling.eval.tables.columns import (
    Column,
    ScoresBySeed,
    averaged_languages,
    by_column,
    sorted_columns,
    without_source,
)
from xling.eval.tables.published import PUBLISHED_FILE, published_scores
from xling.eval.tables.score_table import ScoreTable
from xling.pages import figure, page, tabular

STAGE = "report"
NUM_SHOWN_FINDINGS = 7
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
        note: a sentence under the title.
        overall: every system on every suite; None without scores.
        findings: the result in sentences, most important first.
        tables: score tables, one per suite.
        pictures: score plots, one per suite.
        sections: the other sections, in order.
        scores: the scores behind the tables.
    """

    title: str
    note: str
    warnings: list[str]
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
    inputs = [path for run in runs for path in _inputs(run)] + ([PUBLISHED_FILE] if cfg.published else [])
    settings = replace(cfg, out=Path())
    if not manifest.up_to_date(cfg.out, STAGE, settings, inputs, replaceable=True):
        report = build(runs, cfg)
        with manifest.publish(cfg.out, STAGE, settings, inputs) as out:
            for name, text in files(report).items():
                (out.path / name).write_text(text, encoding="utf-8")
            out.counts["scores"] = len(report.scores)
    written_files = [f"{cfg.out / name}" for name in ("report.html", "report.md", "report.tex")]
    scores = artifacts.merged_scores(runs)[0]
    # The title, the overview and a table for each suite.
    num_parts = 2 + len({score.suite for score in scores})
    text = "\n## ".join((cfg.out / "report.md").read_text(encoding="utf-8").split("\n## ")[:num_parts])
    summary_data = {
        "written": sorted(str(p) for p in cfg.out.iterdir()),
        "scores": [asdict(s) for s in scores],
    }
    return Answer(
        f"{text.rstrip()}\n\nwritten: {', '.join(written_files)}, and its tables as CSV beside them",
        summary_data,
    )


def _inputs(run: Run) -> list[Path]:
    """Return the inputs of a run's report, with text under a separate name so that nothing counts twice."""
    if run.folder.is_file():
        return [run.folder]
    # A manifest stands for what lies beside it: a report reads neither the weights nor the text of its ancestors.
    manifests = [item.path / manifest.FILE_NAME for item in run.artifacts]
    return manifests + sorted(run.folder.rglob(f"*.partial/{artifacts.LOG_FILE}"))


def build(runs: Sequence[Run], cfg: ReportConfig) -> Report:
    """Build the report of runs; ``cfg`` has title, note, data and ``allow_missing``."""
    scores, notes = artifacts.merged_scores(runs)
    interval_of = artifacts.interval_of_averages(runs)
    data = cfg.data or next(filter(None, map(comparison.data_folder_of, runs)), None)
    scores_shown = [*scores, *(published_scores(scores, data) if cfg.published else [])]
    score_tables = [
        score_table.language_table(
            [s for s in scores_shown if s.suite == suite], suite, cfg.allow_missing, interval_of=interval_of
        )
        for suite in dict.fromkeys(s.suite for s in scores)
    ]
    langs_of_suites: dict[str, set[str]] = {}
    for score in scores:
        langs_of_suites.setdefault(score.suite, set()).add(score.lang)
    warnings = []
    if any(score.synthetic for score in scores):
        warnings.append(
            f"{render.SYNTHETIC}: these rows come from a small grammar; they show that the path works, "
            "not how good a model is on real language."
        )
    systems = comparison.systems_of(runs, cfg.data)
    tests, notes_on_tests = comparison.test_systems(systems)
    all_sections = [
        browse.rows(systems, cfg.rows),
        sections.transfer(scores),
        sections.intervals(scores),
        sections.significance(tests, notes_on_tests),
        why.section(runs),
        sections.training(runs),
        sections.corpus(runs),
        sections.commands_to_reproduce(runs),
    ]
    return Report(
        title=cfg.title,
        note=cfg.note,
        warnings=[*warnings, *notes, *comparison.notes_on_rows(runs, cfg.data)],
        overall=overall(scores, interval_of, tests, comparison.rank_groups(systems)) if scores else None,
        findings=summary(scores),
        tables=score_tables,
        pictures=[
            sections.mark_suite(suite, dots(suite, scores))
            for suite, langs in langs_of_suites.items()
            if len(langs) <= sections.MAX_ROWS_OPEN
        ],
        sections=[section for section in all_sections if section],
        scores=scores,
    )


def files(report: Report) -> dict[str, str]:
    """Return the report's files: file name -> content."""
    every_table = [s for section in report.sections for s in (*section.tables, *section.details)]
    every_table += [report.overall] if report.overall else []
    every_table += [_signatures(report.scores)] if report.scores else []
    tables = {f"scores_{t.title}.csv".replace(" ", "_"): render.comma_separated(t) for t in report.tables}
    tables |= {f"{s.name}.csv": tabular.to_csv(s) for s in every_table}
    page = html_page(report, tables)
    return {
        "report.html": page,
        "report.md": markdown_report(report),
        "report.tex": latex_report(report),
        **tables,
    }


def markdown_report(report: Report) -> str:
    """Return the report as Markdown, without pictures."""
    overall_table = tabular.to_markdown(report.overall).rstrip() if report.overall else ""
    texts = [
        f"# {report.title}",
        report.note,
        *report.warnings,
        overall_table,
        "\n".join(f"- {f}" for f in report.findings),
    ]
    parts = [tabular.escape_html_tags(text) for text in texts]
    parts += [render.markdown_table(table).rstrip() for table in report.tables]
    for section in report.sections:
        texts = [f"## {section.title}", section.lead]
        texts += [f"#{tabular.to_markdown(s)}".rstrip() for s in (*section.tables, *section.details)]
        parts += [tabular.escape_html_tags(text) for text in texts]
        parts += [_commands_markdown(name, lines) for name, lines in section.commands.items()]
    signatures = [
        tabular.escape_html_tags(f"- {name}: `{text}`") for name, text in _signatures(report.scores).rows
    ]
    parts.append("## Signatures\n\n" + "\n".join(signatures))
    return tabular.show_controls("\n\n".join(part for part in parts if part) + "\n")


def _commands_markdown(name: str, lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    title = tabular.escape_html_tags(tabular.escape_markdown(name))
    return f"### {title}\n\n{fence}sh\n{text}\n{fence}"


def latex_report(report: Report) -> str:
    """Return every table as LaTeX, for a document with the packages booktabs and longtable."""
    every_table = [s for section in report.sections for s in (*section.tables, *section.details)]
    first = [tabular.to_latex(report.overall)] if report.overall else []
    return "\n".join([*first, *map(render.latex_table, report.tables), *map(tabular.to_latex, every_table)])


def html_page(report: Report, csv_names: Iterable[str]) -> str:
    """Return the whole report as one page, with links to the files ``csv_names`` it."""
    names = [*(["Scores"] if report.tables else []), *(c.title for c in report.sections)]
    links = " ".join(f'<a href="#{_anchor(name)}">{html.escape(name)}</a>' for name in names)
    other_findings = report.findings[NUM_SHOWN_FINDINGS:]
    body = [
        f"<h1>{html.escape(report.title)}</h1>",
        f"<p>{html.escape(report.note)}</p>" if report.note else "",
        *(f'<p class="banner">{html.escape(sentence)}</p>' for sentence in report.warnings),
        _overall_html(report.overall) if report.overall else "",
        _list_html(report.findings[:NUM_SHOWN_FINDINGS]),
        _details_html(f"{number_of(len(other_findings), 'more finding')}", _list_html(other_findings))
        if other_findings
        else "",
        _file_links(csv_names),
        f"<nav aria-label=Chapters>{links}</nav>",
        page.filter_bar() if report.scores else "",
    ]
    if report.tables:
        body += [
            f'<h2 id="{_anchor("Scores")}">{html.escape("Scores")}</h2>',
            *map(_suite_html, report.tables),
            figure.arrange_figures(report.pictures),
        ]
    body += [_section_html(section) for section in report.sections]
    if report.scores:
        caption = f"Signatures of {number_of(len(report.scores), 'score')}"
        signed = tabular.html_table(_signatures(report.scores), heading=False, max_rows=MOST_SIGNATURES)
        body.append(_details_html(caption, signed))
    body.insert(1, glossary("\n".join(body)))
    body = ["<main>", *filter(None, body), "</main>", _script(report.scores)]
    return page.html_document(report.title, "\n".join(body))


def _overall_html(table: tabular.Table) -> str:
    marks = {name: name.partition(" ")[0] for name, _ in table.columns[1:]}
    return tabular.html_table(table, script_marks=marks)


def _script(scores: Sequence[Score]) -> str:
    """Return the script for sorting and filtering, with family and script of every language."""
    sides = {side for score in scores for side in (score.lang, *score.lang.split("-"))}
    family_and_script = {}
    for side in sorted(sides):
        try:
            language = languages.get_variant(side)[0]
        except UserError:
            continue
        family_and_script[side] = (language.family, language.script)
    return page.page_script(family_and_script) if scores else ""


def _list_html(findings: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(f)}</li>" for f in findings) + "</ul>" if findings else ""


def _file_links(names: Iterable[str]) -> str:
    """Return links to the other files of the report, which lie in the same folder."""
    links = " ".join(
        f'<a href="{html.escape(quote(name))}">{html.escape(name)}</a>'
        for name in ("report.md", "report.tex", *names)
    )
    return _details_html("The same as files", f'<p class="files">{links}</p>')


def _suite_html(table: ScoreTable) -> str:
    content = render.html_with_heading("h3", table)
    if len(table.lines) > sections.MAX_ROWS_OPEN:
        content = _details_html(f"{table.title}, {len(table.lines)} rows", content)
    return f'<section data-suite="{html.escape(table.title)}">{content}</section>'


def _section_html(section: Section) -> str:
    parts = [
        f'<h2 id="{_anchor(section.title)}">{html.escape(section.title)}</h2>',
        f"<p>{html.escape(section.lead)}</p>" if section.lead else "",
    ]
    parts += [tabular.html_table(s) for s in section.tables]
    parts.append(figure.arrange_figures(section.figures))
    if section.folded_figures:
        title = f"{number_of(len(section.folded_figures), 'more curve')}: speed, gradients, learning rate"
        parts.append(_details_html(title, figure.arrange_figures(section.folded_figures)))
    parts += [
        _details_html(s.title, tabular.html_table(s, heading=False, max_rows=MOST_ROWS))
        for s in section.details
    ]
    for name, lines in section.commands.items():
        command_text = "\n\n".join(_shell_lines(line) for line in lines)
        content, is_open = f"<pre>{html.escape(command_text)}</pre>", len(section.commands) == 1
        parts.append(_details_html(f"Commands of {name}", content, is_open))
    return "\n".join(filter(None, parts))


def _shell_lines(line: str) -> str:
    """Format a command over several lines of a shell, of about 100 characters."""
    if line.startswith("#"):
        return line
    lines = [""]
    for word in map(shlex.quote, shlex.split(line)):
        if lines[-1] and len(lines[-1]) + len(word) >= 100:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return " \\\n    ".join(lines)


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _details_html(title: str, content: str, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{html.escape(title)}</summary>{content}</details>"


def summary(scores: Sequence[Score]) -> list[str]:
    """Return one sentence per system and suite.

    Its average without the source beside the controls', largest lead first.
    """
    table = by_column(scores)
    controls = [column for column in table if column.system in CONTROLS]
    sentences: list[tuple[float, float, str]] = []
    for column in sorted_columns(table):
        langs = without_source(column, averaged_languages(table, column))
        if column.system in CONTROLS or not langs:
            continue
        mean = _complete_mean(table[column], langs)
        if mean is None:
            continue
        control_texts, leads = [], []
        for control in (c for c in controls if c.suite == column.suite and c.metric == column.metric):
            control_mean = _complete_mean(table[control], langs)
            if control_mean is not None:
                control_texts.append(f"{control.system} {control_mean:.1f}")
                leads.append(mean - control_mean)
        control_note = (
            f" (controls: {', '.join(control_texts)})" if control_texts else " (no control was run)"
        )
        langs_text = (
            f"the {number_of(len(langs), 'language')} other than {column.source}"
            if column.source
            else number_of(len(langs), "pair" if all("-" in x for x in langs) else "language")
        )
        sentence = f"{column.suite}, {column.system}: {column.metric} {mean:.1f} on average"
        sentence += f" over {langs_text}{control_note}."
        sentences.append((min(leads, key=abs, default=0.0), mean, sentence))
    return sort_findings(sentences)


def _complete_mean(values: ScoresBySeed, langs: Sequence[str]) -> float | None:
    cell = score_table.average(
        values, Column("", "", "", "", "", ""), langs, score_table.MissingScores(allowed=False)
    )
    return cell.value


def _signatures(scores: Sequence[Score]) -> tabular.Table:
    rows = tuple(
        (f"{s.suite} {s.lang} {s.metric} {s.system} seed {s.seed}", s.signature or "none") for s in scores
    )
    return tabular.Table("signatures", "Signatures", (("score", ""), ("signature", "")), rows)


# Words that a report uses, explained before they are used: those that the page has.

_TABLE = load_table(__package__, "terms.yaml")
TERMS: dict[str, tuple[str, str]] = {term: (words, meaning) for term, (words, meaning) in _TABLE.items()}
"""Term -> the words on a page that mean it, as an expression, and its meaning."""


def glossary(page: str) -> str:
    """Return a folded list of the terms that occur in the HTML of a page; empty where none does."""
    text = re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    used = [
        f"<dt>{html.escape(term)}</dt><dd>{html.escape(meaning)}</dd>"
        for term, (words, meaning) in TERMS.items()
        if re.search(rf"(?<!\w)(?:{words})(?!\w)", text, re.I)
    ]
    return f"<details><summary>Words used here</summary><dl>{''.join(used)}</dl></details>" if used else ""
