"""The page that ends ``xling language``: what was made, what it can be used for, and what would help most.

``xling language report FOLDER`` writes ``report.html``, ``report.md`` and ``again.sh`` of what ``xling language`` made.
"""

import html
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest, source_version
from xling.core.output.command_result import Answer
from xling.eval.report.stage import glossary
from xling.language import survey, verdicts
from xling.language.plan import JOINED
from xling.language.results import OWN_LABELS, Result, results_of
from xling.language.settings import ReportConfig
from xling.language.text_steps import MINED, SWITCHED
from xling.pages import page
from xling.pages.tabular import Table, html_table, to_markdown

STAGE = "language report"


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
    inputs += [
        place for name in (MINED, SWITCHED) if manifest.stage_of(place := cfg.folder / "corpora" / name)
    ]
    out = cfg.folder / "report"
    settings = {survey.CODE: source_version.digest()}
    if not manifest.up_to_date(out, STAGE, settings, inputs, replaceable=True):
        facts = json.loads(facts_file.read_text(encoding="utf-8"))
        sentences, tables = contents(cfg.folder, facts)
        with manifest.publish(out, STAGE, settings, inputs) as publication:
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
    """Return what the page says: sentences, the most important first, and tables.

    Raises:
        UserError: the rows of a test set are not there any more, or were changed.
    """
    lang, data, models = facts["lang"], Path(facts["data"]), facts["models"]
    results = results_of(folder / "scores", lang, data)
    own = results_of(folder / "scores" / OWN_LABELS, lang, data)
    less = {
        "translated text": results_of(folder / "less" / "text", lang, data),
        "labels": results_of(folder / "less" / "labels", lang, data),
    }
    kinds = {name: each["kind"] for name, each in facts["suites"].items()} | {"held_out": "retrieval"}
    sentences = [
        *verdicts.verdicts(results, kinds, models),
        *verdicts.what_helps(results, less),
        *verdicts.own_labels(results, own),
    ]
    if facts["lacking"]:
        sentences.append(f"Test sets that would say more: {', '.join(facts['lacking'])}.")
    for name, place in models.items():
        said = verdicts.NAMES.get(name, name)
        how = ", pooling='joined'" if name == JOINED else ""
        sentences.append(
            f"{said[0].upper()}{said[1:]} is {place}: xling.load({place!r}).encode([...], lang={lang!r}{how})."
        )
    for suite, place in facts.get("labellers", {}).items():
        sentences.append(f"Labels as in {suite} for texts in a file: xling predict {place} FILE lang={lang}.")
    sentences += _also_made(folder, f"{lang}-{facts['source']}")
    tables = [_score_table(results, own, kinds), verdicts.table_of_gains(results, models)]
    return sentences, [*(table for table in tables if table.rows), *survey.tables(facts)]


def _also_made(folder: Path, pair: str) -> Iterator[str]:
    """Say what lies below ``corpora`` beside clean text."""
    place = folder / "corpora" / pair
    if manifest.stage_of(place):
        yield f"{place} has {manifest.read(place).counts['pairs']:,} sentence pairs from OPUS."
    place = folder / "corpora" / MINED
    if manifest.stage_of(place):
        number = manifest.read(place).counts["pairs"]
        yield (
            f"{place} has {number:,} candidates for translations, found in running text by the static encoder. Nobody "
            "has read them: look at a sample, and raise mined.threshold= if it is bad."
        )
    place = folder / "corpora" / SWITCHED
    if manifest.stage_of(place):
        number = manifest.read(place).counts["sentences"]
        yield f"{place} has {number:,} sentences in which words of both languages alternate."


def _score_table(results: Sequence[Result], own: Sequence[Result], kinds: Mapping[str, str]) -> Table:
    named = [(each, each.system) for each in results] + [(each, f"{each.system}, own labels") for each in own]
    ordered = sorted(named, key=lambda each: (each[0].suite, each[0].is_control, -each[0].value))
    return Table(
        "scores",
        "Scores",
        (
            ("suite", ""),
            ("system", ""),
            ("score", ".1f"),
            ("from", ".1f"),
            ("to", ".1f"),
            ("metric", ""),
            ("kind", ""),
        ),
        tuple(
            (each.suite, name, each.value, each.low, each.high, each.metric, kinds.get(each.suite, ""))
            for each, name in ordered
        ),
        (
            "Score: the mean over the seeds. From and to: its 95 % interval over rows and seeds.",
            "Controls: random (untrained weights), majority (the most frequent label), ngram (character n-grams), "
            "dictionary (the same after a translation word by word).",
        ),
    )


def _item(text: str) -> str:
    """Return an item of the list, its first sentence in bold type if there are several."""
    first, end, rest = html.escape(text).partition(". ")
    return f"<li><strong>{first}.</strong> {rest}</li>" if end else f"<li>{first}</li>"


def _page(folder: Path, name: str, sentences: Sequence[str], tables: Sequence[Table]) -> str:
    items = "\n".join(map(_item, sentences))
    pages = [("details/report.html", "all scores and errors")]
    for file, of_what in (
        ("card.html", "the corpus"),
        ("audit/audit.html", "a sample to judge of the corpus"),
    ):
        codes = sorted(path.parent.name for path in (folder / "corpora").glob("*/card.html"))
        pages += [(f"corpora/{code}/{file}", f"{of_what} {code}") for code in codes]
    links = " ".join(
        f'<li><a href="../{html.escape(place, quote=True)}">{html.escape(text)}</a></li>'
        for place, text in pages
        if (folder / place).is_file()
    )
    body = f"<ul>{items}</ul>\n<p>More pages:</p><ul>{links}</ul>\n" + "\n".join(
        html_table(table) for table in tables
    )
    body = f"<h1>{html.escape(name)}: what was made</h1>\n{glossary(body)}\n{body}"
    return page.html_document(f"{name}: what was made", body)


def _again(folder: Path, facts: Mapping[str, Any]) -> str:
    """Return the command as a script, with the version and the digest of every input."""
    record = manifest.read(folder / "survey")
    words = [
        f"{key}={_value(value)}"
        for setting, given in record.config.items()
        for key, value in (
            ((f"{setting}.{name}", each) for name, each in given.items())
            if isinstance(given, Mapping)
            else ((setting, given),)
        )
        if value not in ("", [], None) and key not in ("out", survey.CODE)
    ]
    command = shlex.join(["xling", "language", *words, f"out={folder}"])
    digests = [f"# {digest} {path}" for path, digest in sorted(record.inputs.items())]
    return "\n".join([f"# {source_version.full_version()}", *digests, command, ""])


def _value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
