"""The page that ends ``xling language``: what was made, what it can be used for, and what would help most.

``xling language report FOLDER`` writes ``report.html``, ``report.md`` and ``again.sh`` of what ``xling language`` made.
"""

from __future__ import annotations

import html
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.output.source_version import full_version
from xling.eval.scores.score_file import CONTROLS, Score, read_scores
from xling.language import survey
from xling.language.settings import ReportConfig
from xling.pages import page
from xling.pages.tabular import Table, html_table, to_markdown

STAGE = "language report"
USES: Mapping[str, str] = {
    "classify": "sort texts by subject",
    "pair": "tell whether one sentence follows from another",
    "tag": "find names or parts of speech",
    "intent_slots": "understand short requests",
    "retrieval": "find the translation of a sentence",
}
"""Kind of a suite -> what a good score is good for."""
OWN_LABELS = "own labels"


@dataclass(frozen=True)
class Result:
    """The score of a system on a suite, over seeds.

    Attributes:
        value: mean over the seeds.
        low: lowest end of the 95 % intervals of the seeds.
        high: highest end.
    """

    suite: str
    system: str
    value: float
    low: float
    high: float


def run(cfg: ReportConfig) -> Answer:
    """Write the page of a folder.

    Raises:
        UserError: the folder holds no survey.
    """
    facts_file = cfg.folder / "survey" / "survey.json"
    if not facts_file.is_file():
        raise UserError(
            f"{cfg.folder} holds no survey",
            "a folder of xling language",
            "xling language lang=CODE data=FOLDER",
        )
    inputs = [facts_file, *(path.parent for path in sorted(cfg.folder.glob("**/tables/manifest.json")))]
    out = cfg.folder / "report"
    if not manifest.up_to_date(out, STAGE, {}, inputs, replaceable=True):
        facts = json.loads(facts_file.read_text(encoding="utf-8"))
        sentences, tables = contents(cfg.folder, facts)
        with manifest.publish(out, STAGE, {}, inputs) as publication:
            name = languages.get(facts["lang"]).name
            text = f"# {name}: what was made\n\n" + "\n".join(f"- {each}" for each in sentences) + "\n\n"
            (publication.path / "report.md").write_text(
                text + "\n".join(map(to_markdown, tables)), encoding="utf-8"
            )
            (publication.path / "report.html").write_text(
                _page(cfg.folder, name, sentences, tables), encoding="utf-8"
            )
            (publication.path / "again.sh").write_text(_again(cfg.folder, facts), encoding="utf-8")
            publication.counts["sentences"] = len(sentences)
    text = (out / "report.md").read_text(encoding="utf-8")
    return Answer(f"{text.rstrip()}\n\nwritten: {out / 'report.html'}", {"report": str(out / "report.html")})


def contents(folder: Path, facts: Mapping[str, Any]) -> tuple[list[str], list[Table]]:
    """Return what the page says: sentences, the most important first, and tables."""
    results = results_of(folder / "scores", facts["lang"])
    own = [
        Result(each.suite, OWN_LABELS, each.value, each.low, each.high)
        for each in results_of(folder / "scores" / "own_labels", facts["lang"])
    ]
    kinds = {name: each["kind"] for name, each in facts["suites"].items()} | {"held_out": "retrieval"}
    sentences = [
        *_verdicts(results, kinds, facts),
        *_what_helps(folder, results, facts),
        *_own_labels(results, own),
    ]
    for name, place in facts["models"].items():
        sentences.append(
            f"The model {name} is {place}: xling.load({place!r}).encode([...], lang={facts['lang']!r})."
        )
    return sentences, [*([_score_table([*results, *own], kinds)] if results else []), *survey.tables(facts)]


def results_of(folder: Path, lang: str) -> list[Result]:
    """Return the scores of the main metric below a folder, over seeds; of labels of the source language alone."""
    by_name: dict[tuple[str, str], list[Score]] = {}
    metric: dict[str, str] = {}
    for path in sorted(folder.glob("**/scores.json")):
        if "own_labels" in path.relative_to(folder).parts:
            continue
        for score in read_scores(path):
            if lang in score.lang.split("-") and score.metric == metric.setdefault(score.suite, score.metric):
                by_name.setdefault((score.suite, score.system), []).append(score)
    return [_over_seeds(suite, system, scores) for (suite, system), scores in by_name.items()]


def _over_seeds(suite: str, system: str, scores: Sequence[Score]) -> Result:
    lows = [score.value if score.low is None else score.low for score in scores]
    highs = [score.value if score.high is None else score.high for score in scores]
    return Result(suite, system, sum(score.value for score in scores) / len(scores), min(lows), max(highs))


def _verdicts(results: Sequence[Result], kinds: Mapping[str, str], facts: Mapping[str, Any]) -> Iterable[str]:
    if not results:
        yield "Nothing was scored: there is no model, or no test set of the language is there."
    for suite in dict.fromkeys(each.suite for each in results):
        of_suite = [each for each in results if each.suite == suite]
        controls = [each for each in of_suite if each.system in CONTROLS]
        models = [each for each in of_suite if each.system in facts["models"]]
        if not models:
            continue
        best = max(models, key=lambda each: each.value)
        others = [each for each in models if each is not best]
        said = f"{suite}: {best.system} has {best.value:.1f} ({best.low:.1f} to {best.high:.1f})"
        if others:
            said += f", {', '.join(f'{each.system} {each.value:.1f}' for each in others)}"
        control = max(controls, key=lambda each: each.value, default=None)
        use = USES.get(kinds.get(suite, ""), "solve its task")
        if control is None:
            yield f"{said}. No control stands beside it."
        elif best.low > control.high:
            yield (
                f"{said}; the best control, {control.system}, {control.value:.1f}. "
                f"It can be used to {use}, at this rate of errors."
            )
        elif best.value > control.value:
            yield (
                f"{said}; the best control, {control.system}, {control.value:.1f}, and the intervals overlap. "
                f"It is not shown that the model helps to {use}."
            )
        else:
            yield f"{said}; the control {control.system} has {control.value:.1f}. Do not use the model to {use} yet."


def _what_helps(folder: Path, results: Sequence[Result], facts: Mapping[str, Any]) -> Iterable[str]:
    """Say what the last quarter of the text and of the labels was worth to the static encoder."""
    full = {each.suite: each for each in results if each.system == "static"}
    gains: list[tuple[float, str]] = []
    for what, place in (("translated text", "text"), ("labels", "labels")):
        less = {each.suite: each for each in results_of(folder / "less" / place, facts["lang"])}
        differences = {suite: full[suite].value - less[suite].value for suite in less if suite in full}
        if differences:
            mean = sum(differences.values()) / len(differences)
            each = ", ".join(f"{suite} {gain:+.1f}" for suite, gain in differences.items())
            gains.append((mean, f"{what} {mean:+.1f} points ({each})"))
    if gains:
        ranked = [text for _, text in sorted(gains, reverse=True)]
        first = ranked[0].partition(" points")[0].rpartition(" ")[0]
        yield (
            f"What the last quarter brought, measured by leaving it out: {'; '.join(ranked)}. "
            + (
                f"So more {first} would help most."
                if max(gains)[0] > 0
                else "So more of the same is not shown to help."
            )
        )
    if facts["lacking"]:
        yield f"Test sets that would say more: {', '.join(facts['lacking'])}."


def _own_labels(results: Sequence[Result], own: Sequence[Result]) -> Iterable[str]:
    full = {each.suite: each for each in results if each.system == "static"}
    for each in own:
        if each.suite in full:
            yield (
                f"{each.suite} with labels of the language itself: {each.value:.1f}; with those of the source language "
                f"{full[each.suite].value:.1f}."
            )


def _score_table(results: Sequence[Result], kinds: Mapping[str, str]) -> Table:
    ordered = sorted(results, key=lambda each: (each.suite, each.system in CONTROLS, -each.value))
    return Table(
        "scores",
        "Scores",
        (
            ("suite", ""),
            ("kind", ""),
            ("system", ""),
            ("score", ".1f"),
            ("lowest", ".1f"),
            ("highest", ".1f"),
        ),
        tuple(
            (each.suite, kinds.get(each.suite, ""), each.system, each.value, each.low, each.high)
            for each in ordered
        ),
        (
            "Score: the mean over the seeds. Lowest and highest: the ends of the seeds' 95 % intervals.",
            "Controls: random (untrained weights), majority (the most frequent label), ngram (character n-grams), "
            "dictionary (the same after a translation word by word).",
        ),
    )


def _page(folder: Path, name: str, sentences: Sequence[str], tables: Sequence[Table]) -> str:
    items = "\n".join(f"<li>{html.escape(each)}</li>" for each in sentences)
    pages = [("details/report.html", "all scores and errors")]
    pages += [
        (f"corpora/{path.parent.name}/card.html", f"the corpus {path.parent.name}")
        for path in sorted((folder / "corpora").glob("*/card.html"))
    ]
    links = " ".join(
        f'<li><a href="../{html.escape(place, quote=True)}">{html.escape(text)}</a></li>'
        for place, text in pages
        if (folder / place).is_file()
    )
    body = (
        f"<h1>{html.escape(name)}: what was made</h1>\n<ul>{items}</ul>\n<p>More pages:</p><ul>{links}</ul>\n"
        + "\n".join(html_table(table) for table in tables)
    )
    return page.html_document(f"{name}: what was made", body)


def _again(folder: Path, facts: Mapping[str, Any]) -> str:
    """Return the command as a script, with the version and the digest of every input."""
    record = manifest.read(folder / "survey")
    words = [
        f"{key}={_value(value)}"
        for key, value in record.config.items()
        if value not in ("", [], None) and key != "out"
    ]
    command = shlex.join(["xling", "language", *words, f"out={folder}"])
    digests = [f"# {digest} {path}" for path, digest in sorted(record.inputs.items())]
    return "\n".join([f"# {full_version()}", *digests, command, ""])


def _value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
