"""Scores of language identification on labelled text, and its rates of confusion: ``xling corpus langid-eval``."""

import csv
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.settings import values
from xling.core.settings.values import COUNT_OR_NONE, SHARE, Lang, ranged
from xling.corpora.common import columns
from xling.corpora.langid.identify import UNLISTED, without_scheme
from xling.corpora.langid.rates import FILE_NAME, Rates, Trust, model_name
from xling.corpora.langid.rates import load as load_rates
from xling.corpora.stages.langid import LangId
from xling.text.document import Document
from xling.text.files import corpus_reader

STAGE = "corpus langid-eval"
TABLE, TRUST_TABLE = "scores.tsv", "precision.tsv"
CHARS = 100
"""Characters of a text by default: a sentence or two, less than most pages have."""
_AT_ONCE = 128
_TEXT, _TAG = "text", "tag"
_SHOWN = 20


@dataclass(frozen=True)
class LangidEvalConfig:
    """Settings of ``xling corpus langid-eval``.

    Attributes:
        text: language -> files, globs or corpora of held-out text. Give the languages that are taken for each other,
            and those that the crawl is full of.
        labelled: tables in CommonLID's layout, ``.tsv`` or compressed: columns ``text`` and ``tag``.
        out: directory to publish; ``settings.langid.rates=OUT/rates.json`` uses it.
        model: ``fasttext:FILE`` (GlotLID, OpenLID, ...) or a model of ``xling corpus langid-train``; empty for the
            built-in ensemble.
        labels: label of the fastText model, or tag of a table -> code, where the table of languages lacks it.
        chars: lines of ``text`` are joined until they have so many characters; rows of tables are taken as they are.
        max_texts: of each language, 0 for all.
        prior: language -> share of the crawl; the table then says which precision may be expected of each.
        precision: share that is wanted.
        threshold: the lowest threshold of a language in ``prior``.
    """

    text: dict[Lang, tuple[str, ...]] = field(default_factory=dict)
    labelled: tuple[str, ...] = ()
    out: str = "runs/langid-eval"
    model: Path | None = None
    labels: dict[str, str] = field(default_factory=dict)
    chars: int = ranged(CHARS, COUNT_OR_NONE)
    max_texts: int = ranged(0, COUNT_OR_NONE)
    prior: dict[Lang, float] = field(default_factory=dict)
    precision: float = 0.9
    threshold: float = ranged(0.5, SHARE)

    def __post_init__(self) -> None:
        """Reject values that are out of range.

        Raises:
            UserError: no text, a number out of range, or an unknown language.
        """
        object.__setattr__(self, "model", without_scheme(self.model))
        if not self.text and not self.labelled:
            raise UserError("no text to judge", "text.LANG=FILES for several languages, or labelled=FILE.tsv")
        values.check(self)
        for code in self.text:
            languages.get(code)
        LangId(prior=self.prior, precision=self.precision)


def run(cfg: LangidEvalConfig) -> Answer:
    """Identify the texts, and publish scores and rates.

    Raises:
        UserError: unreadable files, or no text.
    """
    files = {code: corpus_reader.resolve_files(paths) for code, paths in cfg.text.items()}
    tables = corpus_reader.resolve_files(cfg.labelled)
    given = [*itertools.chain.from_iterable(files.values()), *tables, *([cfg.model] if cfg.model else [])]
    out = Path(cfg.out)
    if manifest.up_to_date(out, STAGE, cfg, given) is None:
        unlisted, left_out = Counter[str](), Counter[str]()
        with manifest.publish(out, STAGE, cfg, given) as publication:
            texts = itertools.chain(
                *(_texts_of(languages.get(code).base, paths, cfg.chars) for code, paths in files.items()),
                *(_rows_of(path, cfg, unlisted, left_out) for path in tables),
            )
            stage = LangId(threshold=0.0, min_script_share=0.0, model=cfg.model, labels=cfg.labels)
            rates = Rates.count(
                model_name(cfg.model), cfg.chars, answers(stage, _first(texts, cfg.max_texts))
            )
            if not rates.texts:
                raise UserError("no text in the files", "text.LANG=FILES or labelled=FILE.tsv with text")
            rates.save(publication.path / FILE_NAME)
            _write(publication.path, rates, cfg)
            publication.counts |= {"texts": rates.texts, "unlisted_tags": dict(sorted(unlisted.items()))}
            publication.counts |= {"left_out": dict(sorted(left_out.items()))}
    return _summary(out, cfg, manifest.read(out))


def _texts_of(lang: str, paths: Iterable[Path], chars: int) -> Iterator[tuple[str, str]]:
    """Yield the language with texts of so many characters; what is left of a document belongs to its last text."""
    for lines in corpus_reader.read_documents(map(str, paths)):
        yield from ((lang, text) for text in joined(lines, chars))


def joined(lines: Iterable[str], chars: int) -> Iterator[str]:
    """Yield lines joined into texts of at least ``chars`` characters; what is left belongs to the last one."""
    texts: list[list[str]] = [[]]
    length = 0
    for line in lines:
        if texts[-1] and length >= chars:
            texts.append([])
            length = 0
        texts[-1].append(line)
        length += len(line)
    if len(texts) > 1 and length < chars:
        rest = texts.pop()
        texts[-1] += rest
    return map("\n".join, filter(None, texts))


def _rows_of(
    path: Path, cfg: LangidEvalConfig, unlisted: Counter[str], left_out: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Yield tag and text of the rows of a table; a tag that the table of languages lacks stays as it is."""
    lines = corpus_reader.read_lines(path)
    for row in columns.open_rows(lines, str(path), "\t", [_TEXT, _TAG], lambda _: [], (0, 1)):
        text, tag = (cell.strip() for cell in row.cells or ("", ""))
        if not text or not tag:
            left_out["malformed" if row.cells is None else f"without a {_TAG if text else _TEXT}"] += 1
            continue
        try:
            code = languages.get(cfg.labels.get(tag, tag)).base
        except UserError:
            code = tag
            unlisted[tag] += 1
        yield code, text


def _first(texts: Iterable[tuple[str, str]], most: int) -> Iterator[tuple[str, str]]:
    """Yield the first texts of each language."""
    numbers: Counter[str] = Counter()
    for lang, text in texts:
        numbers[lang] += 1
        if text.strip() and (not most or numbers[lang] <= most):
            yield lang, text


def answers(stage: LangId, texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, float]]:
    """Yield the language of each text, the one found, and its score, as a build identifies documents."""
    texts = iter(texts)
    while block := list(itertools.islice(texts, _AT_ONCE)):
        docs = [Document(str(number), text) for number, (_, text) in enumerate(block)]
        for (lang, _), doc, _ in zip(block, docs, stage.edits(docs), strict=True):
            yield lang, doc.lang.partition("_")[0], doc.meta["lang_score"]


def _trusts(rates: Rates, cfg: LangidEvalConfig) -> list[Trust]:
    bases = dict.fromkeys(languages.get(code).base for code in cfg.prior)
    return [rates.trust(base, cfg.prior, cfg.threshold, cfg.precision) for base in bases]


def _write(folder: Path, rates: Rates, cfg: LangidEvalConfig) -> None:
    with (folder / TABLE).open("w", encoding="utf-8", newline="") as handle:
        table = csv.writer(handle, delimiter="\t", lineterminator="\n")
        table.writerow(["lang", "texts", "recall", "precision", "f1", "taken for"])
        for lang, *numbers in rates.table():
            taken = sorted(
                ((row[0], name) for name, row in rates.rows[lang].items() if name != lang), reverse=True
            )
            others = ", ".join(f"{name or 'none'} {number}" for number, name in taken[:3] if number)
            table.writerow([lang, numbers[0], *(f"{number:.4f}" for number in numbers[1:]), others])
    with (folder / TRUST_TABLE).open("w", encoding="utf-8", newline="") as handle:
        table = csv.writer(handle, delimiter="\t", lineterminator="\n")
        table.writerow(["lang", "prior", "threshold", "recall", "expected precision", "wrong texts are"])
        for trust in _trusts(rates, cfg):
            wrong = ", ".join(f"{name} {100 * share:.0f} %" for name, share in trust.taken_from)
            limits = [f"{trust.prior:g}", f"{trust.threshold:g}"]
            row = [trust.lang, *limits, f"{trust.recall:.4f}", str(trust), wrong]
            table.writerow(row)


def _summary(out: Path, cfg: LangidEvalConfig, published: manifest.Manifest) -> Answer:
    rates = load_rates(out / FILE_NAME)
    rows = list(rates.table())
    macro = sum(row[-1] for row in rows) / len(rows)
    lines = [f"{sum(rates.texts.values()):,} texts in {len(rows)} languages, macro-F1 {100 * macro:.1f}"]
    weak = sorted(rows, key=lambda row: (row[-1], row[0]))
    lines += [
        f"  {lang}: F1 {100 * f1:.1f}, recall {100 * recall:.1f}"
        for lang, _, recall, _, f1 in weak[:5]
        if f1 < 0.9
    ]
    trusts = _trusts(rates, cfg)
    lines += [
        f"  {trust.lang} at {trust.prior:g} of the crawl: threshold {trust.threshold:g}, expected precision {trust}"
        for trust in trusts[:_SHOWN]
    ]
    if unlisted := published.counts["unlisted_tags"]:
        names = ", ".join(f"{name} ({number:,})" for name, number in list(unlisted.items())[:_SHOWN])
        lines.append(
            f"  tags that are no language of ours, kept as they are: {names}; settings: labels.TAG=CODE"
        )
    if left_out := published.counts["left_out"]:
        lines.append(
            f"  rows left out: {', '.join(f'{why} ({number:,})' for why, number in left_out.items())}"
        )
    if any(UNLISTED in row for row in rates.rows.values()):
        lines.append(f"  {UNLISTED}: the model's languages that the table of languages lacks")
    lines.append(
        f"in {out}: {TABLE}, {TRUST_TABLE}; settings.langid.rates={out / FILE_NAME} uses {FILE_NAME}"
    )
    values = {"macro_f1": macro, "texts": rates.texts, "trust": [trust.to_json() for trust in trusts]}
    return Answer("\n".join(lines), {"out": str(out), **values})
