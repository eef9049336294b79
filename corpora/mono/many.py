"""Corpora of many languages from one pass over the input: ``xling corpus mono lang=sw,eu`` and ``lang=all``.

Phases: ``plan``; ``route`` (map over parts) reads, repairs and identifies; ``publish_routed`` publishes the routed
documents; ``plans`` lists the parts of each language. Then come the phases of one language, each for all
languages at once, so that an array holds the parts of all. ``overview`` publishes the table of languages. The
routed documents are kept, so that another language can be built without reading the input again.
"""

import contextlib
import html
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.commands.runner import Phase
from xling.core.errors import UserError
from xling.core.output import manifest, sealed
from xling.core.output.command_result import Answer
from xling.core.output.manifest import publish
from xling.core.output.parts import Workspace, read_json, write_json
from xling.corpora.card import data_card
from xling.corpora.card.counters import Counters
from xling.corpora.card.ledgers import ledger_from_json, ledger_to_json
from xling.corpora.card.publication import STATS, damage_lines
from xling.corpora.common.finished import NothingLeftError
from xling.corpora.langid.rates import NOT_MEASURED
from xling.corpora.mono import one, route
from xling.corpora.mono.build import PLAN, Build, read_plan, resolve
from xling.corpora.mono.parts import partial_reasons
from xling.corpora.mono.plan import is_current, save_new_plan
from xling.corpora.mono.settings import ALL
from xling.corpora.mono.trust import trust_of
from xling.corpora.sources.routed import INDEX_FILE, PLAN_FILE
from xling.corpora.stages.filters import is_ended
from xling.pages import charts, page
from xling.pages.tabular import show_controls
from xling.text.document import READ, STORED, Ledger

_PARTS, _EMPTY = "packed.json", "empty"
_ORDER = ("read", "dedup", "filter", "against", "near", "shingle", "fit", "score", "cut", "finish", "publish")


def phases(build: Build) -> Sequence[Phase]:
    """Return the phases known so far."""
    workspace = build.workspace
    if not workspace.root.is_dir() and is_published(build):
        return (Phase("plan"), Phase("overview"))
    known = [Phase("plan")]
    if build.plan.parts:
        known += [Phase("route", len(build.plan.parts)), Phase("publish_routed")]
    if not workspace.root.is_dir():
        return known
    known.append(Phase("plans"))
    if (workspace.root / _PARTS).is_file():
        known += [
            Phase(name, len(_parts_of(workspace, name))) for name in _ORDER if _parts_of(workspace, name)
        ]
        known.append(Phase("overview"))
    return known


def run_part(build: Build, phase: str, index: int) -> Answer | None:
    """Run one part of one phase of any language; a part that is there already is left as it is."""
    if phase == "plan":
        try:
            _run_plan(build)
        except UserError:
            build.workspace.delete()
            with contextlib.suppress(OSError):  # it holds routed documents
                build.root.rmdir()
            raise
    elif phase == "route":
        if not build.workspace.part("route", index).is_dir() and not route.is_routed(build):
            route.run_route(build, index)
    elif phase == "publish_routed":
        if not route.is_routed(build):
            route.publish_routed(build)
            shutil.rmtree(build.workspace.root / "route")
    elif phase == "plans":
        _plan_langs(build)
    elif phase == "overview":
        return _run_overview(build)
    else:
        lang, part = _parts_of(build.workspace, phase)[index]
        try:
            one.run_part(resolve(build.cfg.for_lang(lang)), phase, part)
        except NothingLeftError as error:
            sealed.write_json(build.workspace.root / _EMPTY / f"{lang}.json", ledger_to_json(error.ledger))
    return None


def _run_plan(build: Build) -> None:
    if is_published(build):
        return
    root = build.workspace.root
    root.mkdir(parents=True, exist_ok=True)
    if build.plan.parts and is_current(build.plan, build):
        return
    if build.plan.parts:
        shutil.rmtree(root)  # parts of other input
        root.mkdir()
    if not (route.is_routed(build) and is_current(read_plan(build.root / route.FOLDER / PLAN), build)):
        save_new_plan(build, [route.router(build)])


def _plan_langs(build: Build) -> None:
    """Plan each language, and write down which parts each phase has."""
    index = read_json(build.root / route.FOLDER / INDEX_FILE)
    langs = sorted(index) if build.cfg.lang == ALL else [lang for lang in build.langs if lang in index]
    parts: dict[str, list[tuple[str, int]]] = {}
    for lang in langs:
        planned = one.ensure_plan(resolve(build.cfg.for_lang(lang)), aloud=False)
        for phase in one.phases(planned)[1:]:
            parts.setdefault(phase.name, []).extend((lang, part) for part in range(phase.num_parts))
    sealed.write_json(build.workspace.root / _PARTS, parts)


def _parts_of(workspace: Workspace, phase: str) -> list[tuple[str, int]]:
    """Return language and part for each part of a phase."""
    path = workspace.root / _PARTS
    return _read_parts(path, path.stat().st_mtime_ns).get(phase, [])


@lru_cache(maxsize=1)
def _read_parts(path: Path, mtime_ns: int) -> dict[str, list[tuple[str, int]]]:
    """Return the parts of each phase; the file's ``mtime_ns`` is another where it was written again."""
    fix = f"delete {path.parent} and run the same command again"
    parts: dict[str, list[tuple[str, int]]] = sealed.read_json(path, fix)
    return parts


def _run_overview(build: Build) -> Answer:
    root = build.workspace.root
    if not root.is_dir():
        return overview_summary(build.out)
    langs = [lang for lang, _ in _parts_of(build.workspace, "publish")]
    ledgers: dict[str, Any] = {}
    for lang in langs:
        empty = root / _EMPTY / f"{lang}.json"
        ledgers[lang] = (
            sealed.read_json(empty) if empty.is_file() else read_json(build.root / lang / STATS)["ledger"]
        )
    missing = [lang for lang in build.langs if lang not in langs]
    answer = publish_overview(build, ledgers, missing)
    if not build.cfg.keep_work:
        for lang in langs:
            shutil.rmtree(resolve(build.cfg.for_lang(lang)).workspace.root.parent, ignore_errors=True)
        shutil.rmtree(root.parent, ignore_errors=True)
    return answer


# Overview of a crawl in many languages, as a page and a table: the corpus of each language, and the losses.

STAGE_NAME = "corpus overview"
_HEAD = [
    "language",
    "code",
    "documents",
    "kept",
    "characters",
    "kept",
    "share",
    "expected precision",
    "most was lost to",
]
_NUMBERS = (2, 3, 4, 5, 6)
_MAX_CELLS = 16
_TEXTS = {
    "lead": "From one reading of {} bytes with {:,} documents.",
    "table": "Found: what language identification gave each language. Kept: what its own stages left of that; "
    "the hatched end is what they dropped. Expected precision: texts in the language, from its share of the crawl "
    "and rates of confusion (settings.langid.rates).",
    "confusion": "Rows: the language that the source declares. Columns: the language found in the text.",
    "lost": "What was dropped before documents had a language.",
}


def is_published(build: Build) -> bool:
    """Return whether this crawl was built with these settings from these files, in all its languages."""
    if manifest.up_to_date(build.out, STAGE_NAME, build.content, replaceable=True) is None:
        return False
    return route.is_routed(build) and is_current(read_plan(build.root / route.FOLDER / PLAN_FILE), build)


def publish_overview(build: Build, ledgers: dict[str, dict[str, Any]], missing_langs: list[str]) -> Answer:
    """Publish the overview page of a crawl: one row a language, with links to their cards.

    Args:
        ledgers: language -> JSON of its ledger, of languages of which nothing is left, too.
        missing_langs: languages in the settings that no document is in.
    """
    routed = read_json(build.root / route.FOLDER / route.STATS)
    index = read_json(build.root / route.FOLDER / INDEX_FILE)
    rows = [_row(build, lang, index[lang], ledger_from_json(ledger)) for lang, ledger in ledgers.items()]
    rows += [_row(build, lang, {}, Ledger()) for lang in missing_langs]
    rows.sort(key=lambda row: (-row["kept_characters"], -row["found_characters"], row["lang"]))
    with publish(build.out, STAGE_NAME, build.content) as publication:
        write_json(publication.path / STATS, {"languages": rows, "routed": routed, "config": build.content})
        _write(build.root, publication.path, rows, routed)
        publication.counts |= {row["lang"]: row["kept_documents"] for row in rows}
    return overview_summary(build.out)


def overview_summary(out: Path) -> Answer:
    """Return one line per language of a published overview."""
    stats = read_json(out / STATS)
    rows = stats["languages"]
    lines = [
        f"{row['lang']}: {row['kept_documents']:,} of {row['found_documents']:,} documents, "
        f"{row['kept_characters']:,} of {row['found_characters']:,} characters"
        + (f", expected precision {_says(row)}" if row["identification"] else "")
        + (
            f", mostly dropped: {row['worst']}"
            if row["kept_characters"] * 2 < row["found_characters"]
            else ""
        )
        for row in rows
    ]
    lines += damage_lines(stats["routed"]["ledger"])
    text = "\n".join([*lines, f"in {out.parent}\n  overview: {out / data_card.HTML_FILE}"])
    return Answer(text, {"out": str(out.parent), "languages": rows})


def _row(build: Build, lang: str, parts: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
    trust = trust_of(resolve(build.cfg.for_lang(lang))) if parts else None
    partial = partial_reasons()
    whole_documents = {key: n for key, n in ledger.dropped.items() if key not in partial}
    main_reason = max(whole_documents, key=lambda key: (whole_documents[key], key), default=None)
    return {
        "lang": lang,
        "name": languages.get(lang).name,
        "found_documents": sum(part["documents"] for part in parts.values()),
        "found_characters": sum(part["characters"] for part in parts.values()),
        "kept_documents": ledger.seen["corpus"],
        "kept_characters": ledger.seen_chars["corpus"],
        "identification": trust.to_json() if trust else {},
        "worst": f"{main_reason[1].replace('_', ' ')} ({whole_documents[main_reason]:,})"
        if main_reason
        else "",
    }


def _cells(row: dict[str, Any]) -> list[str]:
    share = 100 * row["kept_characters"] / max(1, row["found_characters"])
    numbers = (
        row[name] for name in ("found_documents", "kept_documents", "found_characters", "kept_characters")
    )
    counts = [f"{n:,}" for n in numbers]
    return [row["name"], row["lang"], *counts, f"{share:.1f} %", _says(row), row["worst"]]


def _says(row: dict[str, Any]) -> str:
    """Return the expected precision of a language."""
    return str(row["identification"].get("says", NOT_MEASURED))


def _sample_sentence(root: Path, lang: str) -> str:
    """Return a sample sentence of a corpus: that of the card whose length is nearest to 120 characters, as a ratio."""
    samples = Counters.of_stats(read_json(root / lang / STATS)).samples
    lines = [line for *_, text in samples for line in text.split("\n")]
    lines = [line for line in lines if is_ended(line)] or lines
    line = min(lines, key=lambda line: (max(len(line), 120) / max(1, min(len(line), 120)), line), default="")
    return line if len(line) <= 300 and is_ended(line) else f"{line[:300]} …"


def _tiles(rows: list[dict[str, Any]]) -> str:
    num_found, num_kept = (sum(row[f"{name}_characters"] for row in rows) for name in ("found", "kept"))
    documents = sum(row["kept_documents"] for row in rows)
    tiles = (
        (f"{sum(bool(row['kept_documents']) for row in rows):,}", "languages with a corpus"),
        (f"{documents:,}", "documents"),
        (f"{num_kept:,}", "characters"),
        (f"{100 * num_kept / max(1, num_found):.1f} %", f"of the {num_found:,} characters found"),
    )
    body = "".join(f'<div class="tile"><b>{number}</b><span>{name}</span></div>' for number, name in tiles)
    return f'<div class="tiles">{body}</div>'


def _linked(table: str, rows: list[dict[str, Any]]) -> str:
    """Return the table of languages with each name as a link to the card of its corpus."""
    for row in rows:
        name = html.escape(row["name"])
        table = table.replace(
            f">{name}</th>", f'><a href="../{row["lang"]}/{data_card.HTML_FILE}">{name}</a></th>', 1
        )
    return table


def _quotes(sentences: dict[str, str], rows: list[dict[str, Any]]) -> str:
    names = {row["lang"]: html.escape(row["name"]) for row in rows}
    return "".join(
        f'<blockquote dir="auto" lang="{lang}">{html.escape(sentence)}<cite>{names[lang]}</cite></blockquote>'
        for lang, sentence in sentences.items()
    )


def _body(
    rows: list[dict[str, Any]], routed: dict[str, Any], sentences: dict[str, str], lead: str, losses: str
) -> Iterator[str]:
    nonempty = [row for row in rows if row["kept_documents"]]
    empty = [row for row in rows if not row["kept_documents"]]
    steps = [
        charts.FunnelStep(row["name"], row["found_characters"], row["kept_characters"], row["lang"])
        for row in nonempty[:_MAX_CELLS]
    ]
    yield f'<h1>Corpora of one crawl</h1><p class="lead">{html.escape(lead)}</p>{_tiles(rows)}'
    yield f"<h2>Languages</h2><p>{_TEXTS['table']}</p>{charts.funnel(steps, shares_of_own=True) if steps else ''}"
    yield _linked(
        data_card.as_html(data_card.table(_HEAD, map(_cells, nonempty), numbers=_NUMBERS)), nonempty
    )
    if empty:
        note = f"{len(empty)} languages of which nothing is left: {', '.join(row['name'] for row in empty)}"
        table = data_card.as_html(data_card.table(_HEAD, map(_cells, empty), numbers=_NUMBERS))
        yield f"<details><summary>{html.escape(note)}</summary>{table}</details>"
    yield f"<h2>A line of each</h2>{_quotes(sentences, rows)}"
    # The most frequent declared and identified languages; the others together.
    pairs = Counter({tuple(key.split("\t")): n for key, n in Counters.of_stats(routed).confusion.items()})
    sides: list[list[str]] = []
    for side in (0, 1):
        frequencies: Counter[str] = Counter()
        for pair, n in pairs.items():
            frequencies[pair[side] or "none"] += n
        sides.append([name for name, _ in frequencies.most_common(_MAX_CELLS)])
    counts: Counter[tuple[str, str]] = Counter()
    for pair, n in pairs.items():
        declared, identified = (
            name if (name := pair[side] or "none") in sides[side] else "other" for side in (0, 1)
        )
        counts[declared, identified] += n
    other = [["other"] if any(pair[side] == "other" for pair in counts) else [] for side in (0, 1)]
    matrix = charts.confusion_matrix(sides[0] + other[0], sides[1] + other[1], dict(counts))
    yield f"<h2>Declared and found</h2><p>{_TEXTS['confusion']}</p>{matrix}"
    yield f"<h2>Dropped on the way</h2><p>{_TEXTS['lost']}</p>{losses}"
    sources = [[source["uri"], source["licence"]] for source in routed["sources"]]
    yield f"<h2>Sources</h2>{data_card.as_html(data_card.table(['source', 'licence'], sources))}"


def _write(root: Path, folder: Path, rows: list[dict[str, Any]], routed: dict[str, Any]) -> None:
    ledger = ledger_from_json(routed["ledger"])
    size = charts.short_number(ledger.num_bytes[STORED, "in"])
    lead = _TEXTS["lead"].format(size, ledger.seen[READ])
    loss_rows = [
        [stage, reason.replace("_", " "), f"{n:,}", f"{ledger.dropped_chars[stage, reason]:,}"]
        for (stage, reason), n in ledger.dropped.most_common()
    ]
    losses = data_card.table(["stage", "reason", "documents", "characters"], loss_rows, numbers=(2, 3))
    sentences = {row["lang"]: _sample_sentence(root, row["lang"]) for row in rows if row["kept_documents"]}
    body = _body(rows, routed, sentences, lead, data_card.as_html(losses))
    text = page.html_document("Corpora of one crawl", "\n".join(body), narrow=True)
    (folder / data_card.HTML_FILE).write_text(text, encoding="utf-8")
    table = data_card.as_markdown(data_card.table(_HEAD, map(_cells, rows), numbers=_NUMBERS))
    markdown = ["# Corpora of one crawl", "", lead, "", _TEXTS["table"], "", *table]
    markdown += ["", _TEXTS["lost"], "", *data_card.as_markdown(losses), ""]
    (folder / data_card.MARKDOWN_FILE).write_text(show_controls("\n".join(markdown)), encoding="utf-8")
