"""The data card of a corpus: its content, its origin, what was dropped and why; Markdown and HTML.

Both are made only from ``stats.json``, so that the same corpus has the same card. They contain no time of
day.
"""

import html
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.package_tables import load_table
from xling.corpora.card.counters import BINS_PER_DECADE, Counters, SourceCounters
from xling.corpora.card.ledgers import chars_of_stages, ledger_from_json
from xling.corpora.card.losses import tokenised_note
from xling.corpora.stages.filters import RULES, STATISTICS
from xling.pages import charts, page, tabular
from xling.pages.tabular import Table
from xling.text.document import READ, Ledger

HTML_FILE, MARKDOWN_FILE = "card.html", "card.md"
_CORPUS = "corpus"
_SAMPLE_CHARS = 400
_SAMPLE_LINES = 8
_MAX_LANGS = 11
_OTHER_LANGS = "other"
_DOCUMENT_SHARES = (0.99, 0.95, 0.9, 0.75)
_LIMIT_HEAD = ["limit", "of", "now", "meet it", *(f"{share:.0%} at" for share in _DOCUMENT_SHARES)]
_BUCKET_ENDS = (("head", "head"), ("middle", "tail"))
_TEXTS = load_table(__package__, "texts.yaml")
_SECTION_TEXTS: dict[str, str] = _TEXTS["sections"]
STAGE_TEXTS: dict[str, str] = _TEXTS["stages"]
"""Stage -> what it does or drops, in a few words."""


@dataclass(frozen=True)
class DroppedDocuments:
    """One reason for dropping text, with the amount that was dropped."""

    stage: str
    reason: str
    meaning: str
    documents: int
    characters: int
    partial: bool
    samples: list[tuple[str, str]]


class CardData:
    """Facts for the card, computed from ``stats.json``."""

    def __init__(self, stats: dict[str, Any]) -> None:
        self.stats = stats
        self.language = languages.get(stats["lang"])
        self.ledger: Ledger = ledger_from_json(stats["ledger"])
        self.chars = chars_of_stages(stats)
        self.counters = Counters.of_stats(stats)
        self.cutoffs: dict[str, float] = stats.get("cutoffs", {})
        partial = {tuple(pair) for pair in stats["partial"]}
        order = {name: i for i, name in enumerate(stats["stages"])}
        self.losses = [
            DroppedDocuments(
                stage,
                reason,
                stats["reasons"].get(f"{stage}\t{reason}", ""),
                count,
                self.ledger.dropped_chars[stage, reason],
                (stage, reason) in partial,
                self.ledger.samples.get((stage, reason), []),
            )
            for (stage, reason), count in sorted(
                self.ledger.dropped.items(), key=lambda item: (order.get(item[0][0], 99), -item[1])
            )
        ]

    @property
    def unit(self) -> str:
        """Unit of the counts: ``documents`` or ``pairs``."""
        return str(self.stats.get("unit", "documents"))

    def head(self, names: Sequence[str]) -> list[str]:
        """Return the column names with their units."""
        return [name.replace("documents", self.unit) for name in names]

    @property
    def title(self) -> str:
        """The name of the corpus."""
        return str(self.stats.get("title") or f"{self.language.name} ({self.language.code})")

    def summary_tiles(self) -> list[tuple[str, str]]:
        """Return the key numbers, each with its name."""
        num_seen, chars = self.ledger.seen, self.chars
        share = 100 * chars[_CORPUS] / max(chars["read"], 1)
        return [
            (f"{num_seen[_CORPUS]:,}", self.unit[:-1] if num_seen[_CORPUS] == 1 else self.unit),
            (f"{chars[_CORPUS]:,}", "characters"),
            (f"{share:.1f} %", f"of the {chars['read']:,} characters read"),
            (f"{chars[_CORPUS] / max(num_seen[_CORPUS], 1):,.0f}", f"characters a {self.unit[:-1]}"),
        ]

    def steps(self) -> list[charts.FunnelStep]:
        """Return the funnel in characters, stage by stage."""
        reached = [name for name in self.stats["stages"] if self.ledger.seen[name] or name == _CORPUS]
        chars = self.chars
        return [
            charts.FunnelStep(
                _words(name), chars[name], min(chars[name], chars[following]), name, STAGE_TEXTS.get(name, "")
            )
            for name, following in itertools.pairwise(reached)
        ]

    def source_rows(self) -> list[list[str]]:
        """Return one row per source: URI, capture dates, documents read and kept, characters kept, licence."""
        rows = []
        for source in self.stats["sources"]:
            uri, none = source["uri"], SourceCounters()
            read_counts, kept_counts = self.counters.sources.get(uri, none), self.counters.kept.get(uri, none)
            dates = " to ".join(sorted({read_counts.first_date, read_counts.last_date})) or "not stated"
            numbers = (read_counts.num_docs, kept_counts.num_docs, kept_counts.num_chars)
            rows.append([uri, dates, *(f"{number:,}" for number in numbers), source["licence"]])
        return rows

    def loss_rows(self) -> list[list[str]]:
        """Return one row per reason: stage, reason, meaning, documents, whether only parts of them, characters."""
        return [
            [
                _words(loss.stage),
                _words(loss.reason),
                loss.meaning,
                f"{loss.documents:,}",
                "in part" if loss.partial else "",
                f"{loss.characters:,}",
            ]
            for loss in self.losses
        ]

    def confusion(self) -> tuple[list[str], list[str], dict[tuple[str, str], int]]:
        """Return the most frequent declared and identified languages, and their counts."""
        counts: dict[tuple[str, str], int] = {}
        for key, count in self.counters.confusion.items():
            declared, _, identified = key.partition("\t")
            counts[declared or "not declared", identified or "none"] = count
        rows, columns = _most_frequent(counts, 0), _most_frequent(counts, 1)
        merged: dict[tuple[str, str], int] = {}
        for (declared, identified), count in counts.items():
            pair = (
                declared if declared in rows else _OTHER_LANGS,
                identified if identified in columns else _OTHER_LANGS,
            )
            merged[pair] = merged.get(pair, 0) + count
        more = [
            [_OTHER_LANGS] if any(pair[side] == _OTHER_LANGS for pair in merged) else [] for side in (0, 1)
        ]
        return rows + more[0], columns + more[1], merged

    def limit_rows(self) -> list[list[str]]:
        """One row a limit of the filters: what meets it, and where it would have to be for others to meet it."""
        rows = []
        num_docs = max((values.total() for values in self.counters.statistics.values()), default=0)
        for _, statistic, name, side in RULES:
            values = self.counters.statistics.get(statistic)
            if not values or name not in self.stats.get("limits", {}):
                continue
            limit, num_without = self.stats["limits"][name], num_docs - values.total()
            sorted_values = sorted(values.elements(), reverse=side == "least")
            sign = 1 if side == "least" else -1
            # A document that has no such value, such as a mean word in Chinese, meets every limit.
            num_met = num_without + sum(
                n for value, n in values.items() if sign * value >= sign * round(100 * limit)
            )
            others = (
                _value_at(sorted_values, math.ceil(share * num_docs) - num_without)
                for share in _DOCUMENT_SHARES
            )
            rows.append(
                [name, STATISTICS[statistic], f"{limit:g}", f"{100 * num_met / num_docs:.1f} %", *others]
            )
        return rows

    def trust_rows(self) -> list[list[str]]:
        """Return what may be expected of the language's identification: one row, none without rates."""
        if not (trust := self.stats.get("identification")):
            return []
        wrong = ", ".join(
            f"{lang} ({100 * share:.0f} %)" for lang, share in trust["taken_from"] if share >= 0.01
        )
        limits, recall = (
            [f"{trust['prior']:.3g}", f"{trust['threshold']:g}"],
            f"{100 * trust['recall']:.1f} %",
        )
        return [[*limits, trust["says"], recall, f"{trust['texts']:,}", wrong]]

    def summary(self) -> str:
        """Return the corpus in one sentence."""
        uris = ", ".join(source["uri"] for source in self.stats["sources"])
        worst = max(self.losses, key=lambda loss: loss.characters, default=None)
        why = ""
        if worst and worst.characters:
            share = 100 * worst.characters / max(self.chars[READ], 1)
            why = (
                f" Most characters were lost to {_words(worst.stage)} ({_words(worst.reason)}): "
                f"{worst.characters:,}, {share:.1f} % of what was read."
            )
        what = self.stats.get("title") or f"Text in {self.language.name}"
        note = tokenised_note(self.ledger.notes, self.ledger.seen[READ], "detokenisation").strip()
        return f"{what} from {uris}.{why}{f' {note}.' if note else ''}"


def _value_at(sorted_values: list[int], num: int) -> str:
    """Return the limit that the first ``num`` of some values in hundredths meet."""
    return f"{sorted_values[min(num, len(sorted_values)) - 1] / 100:g}" if num > 0 else "any"


def write(folder: Path, stats: dict[str, Any]) -> None:
    """Write ``card.md`` and the self-contained ``card.html`` into ``folder``."""
    card = CardData(stats)
    (folder / MARKDOWN_FILE).write_text(tabular.show_controls(_markdown(card)), encoding="utf-8")
    text = page.html_document(f"Corpus card: {card.title}", "\n".join(_html_page(card)), narrow=True)
    (folder / HTML_FILE).write_text(text, encoding="utf-8")


_SOURCE_HEAD = ["source", "captured", "documents read", "kept", "characters kept", "licence"]
_LOSS_HEAD = ["stage", "reason", "meaning", "documents", "extent", "characters"]
_AUDIT_HEAD = ["noise", "pairs", "dropped", "95 %"]
READ_HEAD = ["of", "share", "texts read", "estimate", "95 %", "note"]
AGREEMENT_HEAD = ["question", "texts", "same", "alpha"]
_TRUST_HEAD = [
    "share of the crawl",
    "threshold",
    "expected precision",
    "recall",
    "held-out texts",
    "wrong ones are likely",
]
_REPAIR_HEAD = ["damage", "texts", "before", "after"]
_INPUT_HEAD = ["input", "bytes", "sha256"]


def _html_page(card: CardData) -> Iterable[str]:
    yield f"<h1>{html.escape(card.title)}</h1>"
    yield f'<p class="lead">{html.escape(card.summary())}</p>'
    summary_tiles = (
        f'<div class="tile"><b>{number}</b><span>{name}</span></div>' for number, name in card.summary_tiles()
    )
    yield f'<div class="tiles">{"".join(summary_tiles)}</div>'
    yield "<h2>Sources</h2>"
    yield as_html(_sources(card))
    yield f"<h2>What survived</h2><p>{_SECTION_TEXTS['funnel']}</p>"
    yield charts.funnel(card.steps())
    yield as_html(_losses(card)) if card.losses else "<p>Nothing was dropped.</p>"
    if notes := sorted(card.ledger.notes.items(), key=lambda item: (-item[1], item[0])):
        rows = [[_words(name), f"{count:,}"] for name, count in notes]
        kinds = f"{len(rows)} kind{'' if len(rows) == 1 else 's'} of event"
        head = f"<summary>Noted, nothing dropped: {kinds}</summary>"
        yield f"<details>{head}{as_html(table(['event', 'count'], rows, numbers=(1,)))}</details>"
    yield from _html_plots(card)
    sections = _optional_tables(card)
    for name in ("identification", "read_by_people", "agreement", "repairs", "audit", "limits"):
        if name in sections:
            title, rows_of_section = sections[name]
            yield (f"<h2>{title}</h2>" if name != "agreement" else "") + f"<p>{_SECTION_TEXTS[name]}</p>"
            yield as_html(rows_of_section)
    yield f"<h2>Kept: a few {card.unit}</h2>"
    yield from (_quote(name, text) for _, name, text in card.counters.samples)
    if card.losses:
        yield "<h2>Dropped: samples of every reason</h2>"
    for loss in card.losses:
        told = f"{html.escape(_words(loss.reason))} · {_loss_text(loss, card.unit)}"
        head = f"<b>{html.escape(_words(loss.stage))}</b> · {told}"
        quotes = "".join(_quote(name, text, is_dropped=True) for name, text in loss.samples)
        is_open = " open" if loss is card.losses[0] else ""
        meaning = f'<p class="quiet">{html.escape(loss.meaning)}</p>' if loss.meaning else ""
        yield f"<details{is_open}><summary>{head}</summary>{meaning}{quotes}</details>"
    yield "<h2>How it was made</h2>"
    yield f"<pre>{html.escape(_settings(card))}</pre>"
    yield f"<details><summary>Inputs and their digests</summary>{as_html(_inputs(card))}</details>"


def _html_plots(card: CardData) -> Iterable[str]:
    histograms = card.counters.histograms
    key = (
        '<p class="quiet"><span class="key kept"></span>kept &nbsp; <span class="key lost"></span>dropped</p>'
    )
    for name, title, unit, marks in (
        ("length", "Lengths", "characters", None),
        ("perplexity", "Perplexity", "perplexity", card.cutoffs),
    ):
        kept = histograms.get(f"{name} kept", Counter())
        dropped = histograms.get(f"{name} dropped", Counter())
        if kept:
            text = _SECTION_TEXTS["lengths" if name == "length" else name].replace("document", card.unit[:-1])
            yield f"<h2>{title}</h2><p>{text}</p>{key}{charts.histogram(kept, dropped, unit, marks, BINS_PER_DECADE)}"
    if note := card.stats["lm_note"]:
        yield f'<p class="quiet">{html.escape(note)}</p>'
    if card.counters.confusion:
        yield f"<h2>Languages</h2><p>{_SECTION_TEXTS['confusion']}</p>"
        yield charts.confusion_matrix(*card.confusion())


def _markdown(card: CardData) -> str:
    """Return the card as Markdown; bars of block characters stand for the charts."""
    lines = [f"# Corpus card: {_one_line(card.title)}", "", _one_line(card.summary()), ""]
    lines += [f"- **{number}** {name}" for number, name in card.summary_tiles()]
    lines += ["", "## Sources", "", *as_markdown(_sources(card))]
    lines += ["", "## What survived", "", _SECTION_TEXTS["funnel"], "", "```"]
    num_entered = max((step.num_entered for step in card.steps()), default=1) or 1
    for step in card.steps():
        full = round(40 * step.num_left / num_entered)
        is_dropped = round(40 * step.num_entered / num_entered) - full
        lines.append(
            f"{step.name:<20} {'█' * full}{'░' * is_dropped:<{40 - full}} {100 * step.num_left / num_entered:5.1f} %"
        )
    lines += ["```", "", *(as_markdown(_losses(card)) if card.losses else ["Nothing was dropped."])]
    if card.ledger.notes:
        lines += ["", "Noted, nothing dropped:", ""]
        lines += [
            f"- {_one_line(_words(name))}: {count:,}" for name, count in sorted(card.ledger.notes.items())
        ]
    if card.stats["lm_note"]:
        lines += ["", card.stats["lm_note"]]
    if card.cutoffs:
        lines += ["", *(f"- {name} ends at perplexity {card.cutoffs[at]:.1f}" for name, at in _BUCKET_ENDS)]
    if card.counters.buckets:
        lines += [
            "",
            *(f"- {name}: {count:,} documents" for name, count in sorted(card.counters.buckets.items())),
        ]
    if card.counters.confusion:
        rows, columns, counts = card.confusion()
        cells = [[row, *(f"{counts.get((row, c), 0):,}" for c in columns)] for row in rows]
        confusion_table = table(["declared", *columns], cells, range(1, 1 + len(columns)))
        lines += ["", "## Languages", "", _SECTION_TEXTS["confusion"], "", *as_markdown(confusion_table)]
    for name, (title, rows_of_section) in _optional_tables(card).items():
        lines += ["", f"## {title}", "", _SECTION_TEXTS[name], "", *as_markdown(rows_of_section)]
    lines += ["", f"## Kept: a few {card.unit}", ""]
    for _, name, text in card.counters.samples:
        lines += [_code(name), "", *_md_quote(text), ""]
    lines += ["## Dropped: samples of every reason", ""] if card.losses else []
    for loss in card.losses:
        reason = _one_line(_words(loss.reason))
        lines += [f"### {_words(loss.stage)}: {reason} ({_loss_text(loss, card.unit)})", ""]
        for name, text in loss.samples[:2]:
            lines += [_code(name), "", *_md_quote(text), ""]
    lines += ["## How it was made", "", "```json", _settings(card), "```", ""]
    lines += [*as_markdown(_inputs(card)), ""]
    return "\n".join(lines)


def _optional_tables(card: CardData) -> dict[str, tuple[str, Table]]:
    """Return title and table of the sections that only some corpora have rows for, by the name of their text."""
    sections: tuple[tuple[str, str, Sequence[str], Any, Sequence[int]], ...] = (
        (
            "limits",
            "What another limit would keep",
            _LIMIT_HEAD,
            card.limit_rows(),
            range(2, len(_LIMIT_HEAD)),
        ),
        ("identification", "How sure the language is", _TRUST_HEAD, card.trust_rows(), (0, 1, 3, 4)),
        ("read_by_people", "What readers found", READ_HEAD, card.stats.get("read_by_people"), (2, 3, 4)),
        ("agreement", "How far readers agree", AGREEMENT_HEAD, card.stats.get("agreement"), (1, 2, 3)),
        ("repairs", "What was repaired", _REPAIR_HEAD, card.stats.get("repairs"), (1,)),
        ("audit", "What the filters see", _AUDIT_HEAD, card.stats.get("audit"), (1, 2, 3)),
    )
    return {
        name: (title, table(head, rows, numbers)) for name, title, head, rows, numbers in sections if rows
    }


def _settings(card: CardData) -> str:
    return json.dumps(card.stats["config"], ensure_ascii=False, indent=1).replace("<", "\\u003c")


def _sources(card: CardData) -> Table:
    return table(card.head(_SOURCE_HEAD), card.source_rows(), numbers=(2, 3, 4))


def _losses(card: CardData) -> Table:
    return table(card.head(_LOSS_HEAD), card.loss_rows(), numbers=(3, 5))


def _inputs(card: CardData) -> Table:
    rows = (
        [name, f"{item['bytes']:,}" if "bytes" in item else "", item.get("sha256", "")]
        for name, item in sorted(card.stats["inputs"].items())
    )
    return table(_INPUT_HEAD, rows, numbers=(1,))


def _loss_text(loss: DroppedDocuments, unit: str) -> str:
    many = unit[:-1] if loss.documents == 1 else unit
    return f"{loss.documents:,} {many}" + (", in part" if loss.partial else "")


def _most_frequent(counts: dict[tuple[str, str], int], side: int) -> list[str]:
    totals: dict[str, int] = {}
    for pair, count in counts.items():
        totals[pair[side]] = totals.get(pair[side], 0) + count
    return sorted(totals, key=lambda name: (-totals[name], name))[:_MAX_LANGS]


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> Table:
    """Return a table with text cells; the columns ``numbers`` hold numbers."""
    columns = tuple((name, "," if place in numbers else "") for place, name in enumerate(head))
    return Table("", "", columns, tuple(map(tuple, rows)))


def as_html(card_table: Table) -> str:
    """Return a table without a heading, whose long names break after underscores."""
    return tabular.html_table(card_table, heading=False, break_underscores=True)


def as_markdown(card_table: Table) -> list[str]:
    """Return the lines of a table whose texts are escaped for Markdown."""
    return tabular.markdown_rows(card_table, _plain_text)


def _quote(name: str, text: str, is_dropped: bool = False) -> str:
    css = ' class="lost"' if is_dropped else ""
    quoted, cited = html.escape(_shorten(text)), html.escape(name)
    return f'<blockquote{css} dir="auto">{quoted}<cite>{cited}</cite></blockquote>'


def _shorten(text: str) -> str:
    """Return the beginning of a text: a few hundred characters and a few lines."""
    start = "\n".join(text.split("\n")[:_SAMPLE_LINES])[:_SAMPLE_CHARS].rstrip()
    return start if len(start) == len(text) else start + " …"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _md_quote(text: str) -> list[str]:
    return [f"> {_plain_text(line)}  " for line in _shorten(text).split("\n")]


def _plain_text(text: str) -> str:
    """Escape text for Markdown."""
    return "".join(f"\\{c}" if c in "\\`*_#<>[]|" else c for c in text.replace("\n", " "))


def _one_line(text: str) -> str:
    """Return text that ends no line and opens no HTML element."""
    return tabular.escape_html_tags(tabular.show_controls(text, keep="\t"))


def _code(name: str) -> str:
    """Return a name as Markdown code; backticks in the name do not end the code."""
    return f"`{tabular.escape_html_tags(tabular.show_controls(name, keep='')).replace('`', chr(39))}`"
