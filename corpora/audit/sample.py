"""A stratified sample of a corpus: kept texts by source, dropped ones by reason, and the languages of a crawl.

A text is drawn by a random number of its row, so a larger sample of the same seed holds the smaller one.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.core.output import manifest
from xling.core.output.parts import read_json
from xling.core.sampling import rng
from xling.corpora.card.publication import STATS
from xling.corpora.common.shards import corpus_shards
from xling.pages.tabular import show_controls
from xling.text.pairs import SIDES

KEPT, DROPPED, ROUTED = "kept", "dropped", "routed"
OVERVIEW, ROUTED_FOLDER, REJECTS = "overview", "routed", "rejects"
UNJUDGED = ("paragraph_dedup", "near_dedup", "contamination", "duplicates", "split")
"""Stages that drop a text because of another one: nobody sees in the text alone whether they are right."""
SKIPPED = "… ({:,} characters skipped) …"
_MAX_SOURCES, _OTHERS = 8, "other sources"
_PIECES = 3


@dataclass(frozen=True)
class Stratum:
    """Texts of which some are drawn.

    Attributes:
        name: unique in its sample.
        kind: `KEPT`, `DROPPED` or `ROUTED`.
        lang: code of the language of the corpus, two joined by ``-`` for pairs; "" for texts of a crawl that were
            dropped before they had a language.
        stage, reason, meaning: what dropped them; empty for others.
        source: URI that kept ones were read from.
    """

    name: str
    kind: str
    lang: str
    size: int
    stage: str = ""
    reason: str = ""
    meaning: str = ""
    source: str = ""


@dataclass
class Sample:
    """Texts to be read.

    Attributes:
        corpus: digest of the corpus that they were drawn from.
        texts: ``id``, ``stratum``, ``texts`` (one, or both sides of a pair) and ``url`` each, in the order of
            reading: one of each stratum, then the second of each.
        only_counted: ``stage/reason`` -> dropped texts that the corpus does not hold.
        unjudged: ``stage/reason`` -> dropped texts of stages in `UNJUDGED`.
    """

    corpus: str
    strata: list[Stratum] = field(default_factory=list)
    texts: list[dict[str, Any]] = field(default_factory=list)
    only_counted: dict[str, int] = field(default_factory=dict)
    unjudged: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-ready values without the texts themselves: what the answers are weighed with."""
        return {
            "corpus": self.corpus,
            "strata": [asdict(stratum) for stratum in self.strata],
            "texts": {text["id"]: text["stratum"] for text in self.texts},
            "only_counted": self.only_counted,
            "unjudged": self.unjudged,
        }


@dataclass(frozen=True)
class Draw:
    """How texts are drawn: as the settings of the command say."""

    num_texts: int
    max_chars: int
    seed: int
    stages: tuple[str, ...] = ()


def is_crawl(folder: Path) -> bool:
    """Return whether a folder holds the corpora of one crawl, each in its own folder."""
    return (folder / OVERVIEW / STATS).is_file()


def corpora_of(folder: Path) -> dict[str, Path]:
    """Return language (or pair) -> folder of each corpus of ``folder``: itself, or those of a crawl.

    Raises:
        UserError: there is no corpus.
    """
    if is_crawl(folder):
        folders = sorted(
            path.parent for path in folder.glob(f"*/{STATS}") if (path.parent / "shards").is_dir()
        )
    else:
        corpus_shards(folder)
        folders = [folder]
    corpora = {}
    for path in folders:
        manifest.check_as_published(path)
        stats = read_json(path / STATS)
        corpora[str(stats.get("pair") or stats["lang"])] = path
    return corpora


def digest_of(folder: Path) -> str:
    """Return what tells one corpus from another: 16 hexadecimal digits.

    Raises:
        UserError: a file was changed since the corpus was published.
    """
    return manifest.content_digest(folder / OVERVIEW if is_crawl(folder) else folder)[:16]


def draw(folder: Path, cfg: Draw, langs: Sequence[str] = ()) -> Sample:
    """Draw a sample of a corpus, or of all corpora of a crawl.

    Args:
        langs: of a crawl, the languages whose kept and dropped texts are drawn; empty draws what was kept and routed
            of all of them.

    Raises:
        UserError: no corpus, an unknown stage or language.
    """
    corpora, crawl = corpora_of(folder), is_crawl(folder)
    sample = Sample(digest_of(folder))
    index = read_json(folder / ROUTED_FOLDER / "index.json") if crawl else {}
    there = sorted({*corpora, *index})
    chosen = [languages.get(code).code for code in langs]
    for code in chosen:
        if code not in there:
            raise UserError(f"langs={','.join(langs)}: no text in {code}", ", ".join(there))
    chosen = chosen or there
    by_stratum: dict[str, list[dict[str, Any]]] = {}
    for lang, path in corpora.items():
        if lang in chosen or not crawl:
            kinds = (KEPT, DROPPED) if langs or not crawl else (KEPT,)
            by_stratum |= _draw_corpus(sample, lang, path, cfg, kinds, f"{lang}/" if crawl else "")
    if crawl:
        routed = [lang for lang in index if lang in chosen and lang not in corpora]
        by_stratum |= _draw_routed(sample, folder / ROUTED_FOLDER, routed, cfg, bool(langs))
    stages = {stratum.stage or stratum.kind for stratum in sample.strata}
    for name in cfg.stages:
        if name not in stages:
            raise unknown("stage in stages", name, sorted(stages | {*map(_stage, sample.only_counted)}))
    turns = itertools.zip_longest(*by_stratum.values())
    sample.texts = [
        text for turn in itertools.islice(turns, cfg.num_texts) for text in turn if text is not None
    ]
    return sample


def _stage(key: str) -> str:
    return key.partition("/")[0]


def _draw_corpus(
    sample: Sample, lang: str, folder: Path, cfg: Draw, kinds: Sequence[str], prefix: str
) -> dict[str, list[dict[str, Any]]]:
    """Add the strata of one corpus to the sample; stratum -> texts."""
    stats, drawn = read_json(folder / STATS), dict[str, list[dict[str, Any]]]()
    columns = SIDES if stats.get("kind") == "parallel" else ("text",)
    wanted = set(cfg.stages)
    if KEPT in kinds and (not wanted or KEPT in wanted):
        kept = (stats.get("counters") or stats["tally"])["kept"]
        top = sorted(kept, key=lambda uri: (-kept[uri]["num_docs"], uri))[:_MAX_SOURCES]
        source = pl.when(pl.col("source").is_in(top)).then("source").otherwise(pl.lit(_OTHERS))
        for (uri,), size, texts in _draw_files(
            corpus_shards(folder), [source], columns, cfg, f"{prefix}kept"
        ):
            stratum = Stratum(f"{prefix}kept {uri}", KEPT, lang, size, source=uri)
            sample.strata.append(stratum)
            drawn[stratum.name] = [text | {"stratum": stratum.name} for text in texts]
    if DROPPED in kinds:
        files = sorted((folder / REJECTS).glob("*.parquet"))
        left_out = set(UNJUDGED) - wanted
        drawn |= _draw_rejects(sample, lang, files, columns, stats, cfg, prefix, left_out)
    return drawn


def _draw_rejects(
    sample: Sample,
    lang: str,
    files: list[Path],
    columns: Sequence[str],
    stats: dict[str, Any],
    cfg: Draw,
    prefix: str,
    left_out: set[str],
) -> dict[str, list[dict[str, Any]]]:
    """Add the strata of what was dropped: one for each stage and reason."""
    drawn, counted = {}, {key.replace("\t", "/"): n for key, n in stats["ledger"]["dropped"].items()}
    group = [pl.col("stage"), pl.col("reason")]
    for (stage, reason), size, texts in _draw_files(files, group, columns, cfg, f"{prefix}dropped"):
        key = f"{stage}/{reason}"
        missing = counted.pop(key, size) - size
        if missing > 0:
            counted[key] = missing
        if cfg.stages and stage not in cfg.stages:
            continue
        if stage in left_out:
            sample.unjudged[prefix + key] = size
            continue
        meaning = stats.get("reasons", {}).get(f"{stage}\t{reason}", "")
        stratum = Stratum(f"{prefix}dropped {key}", DROPPED, lang, size, stage, reason, meaning)
        sample.strata.append(stratum)
        drawn[stratum.name] = [text | {"stratum": stratum.name} for text in texts]
    sample.only_counted |= {prefix + key: n for key, n in counted.items() if n}
    return drawn


def _draw_routed(
    sample: Sample, folder: Path, langs: list[str], cfg: Draw, asked: bool
) -> dict[str, list[dict[str, Any]]]:
    """Add a stratum for each language that texts were routed to and that no corpus was built of, and the losses."""
    drawn = {}
    parts = sorted((folder / "parts").glob("*.parquet"))
    if langs and (not cfg.stages or ROUTED in cfg.stages):
        column = pl.col("lang")
        for (lang,), size, texts in _draw_files(parts, [column], ("text",), cfg, ROUTED, column.is_in(langs)):
            stratum = Stratum(f"routed {lang}", ROUTED, lang, size)
            sample.strata.append(stratum)
            drawn[stratum.name] = [text | {"stratum": stratum.name} for text in texts]
    if asked:
        return drawn
    files = sorted((folder / REJECTS).glob("*.parquet"))
    left_out = set(UNJUDGED) - set(cfg.stages)
    stats = read_json(folder / STATS)
    return drawn | _draw_rejects(sample, "", files, ("text",), stats, cfg, "before routing: ", left_out)


def _draw_files(
    files: Sequence[Path],
    group: list[pl.Expr],
    columns: Sequence[str],
    cfg: Draw,
    name: str,
    condition: pl.Expr | None = None,
) -> Iterator[tuple[tuple[str, ...], int, list[dict[str, Any]]]]:
    """Yield each group of the rows of some files, the most frequent first: its key, its size and texts of it."""
    keys = [f"key{i}" for i in range(len(group))]
    sizes, chosen = pl.DataFrame(), pl.DataFrame()
    for number, path in enumerate(files):
        frame = pl.scan_parquet(path).with_row_index("row")
        rows = frame.filter(condition) if condition is not None else frame
        table = rows.select("row", *(e.alias(k) for e, k in zip(group, keys, strict=True))).collect()
        draws = rng(cfg.seed, "audit", name, path.name).random(table.height)
        table = table.with_columns(pl.lit(number).alias("file"), pl.Series("draw", draws))
        sizes = _joined(sizes, table.group_by(keys).len())
        chosen = _joined(chosen, table).sort("draw").group_by(keys, maintain_order=True).head(cfg.num_texts)
    if not files:
        return
    total = (
        sizes.group_by(keys)
        .agg(pl.col("len").sum())
        .sort(["len", *keys], descending=[True, *[False] * len(keys)])
    )
    texts = _texts(files, chosen, columns, cfg, name)
    for *key, size in total.rows():
        picked = chosen.filter(*(pl.col(k) == value for k, value in zip(keys, key, strict=True))).sort("draw")
        yield tuple(key), size, [texts[place] for place in picked.select("file", "row").rows()]


def _joined(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([one, other], how="diagonal") if one.width else other


def _texts(
    files: Sequence[Path], chosen: pl.DataFrame, columns: Sequence[str], cfg: Draw, name: str
) -> dict[tuple[int, int], dict[str, Any]]:
    """Return (number of the file, row) -> a text for the page."""
    texts = {}
    for number, path in enumerate(files):
        rows = chosen.filter(pl.col("file") == number)["row"]
        frame = pl.scan_parquet(path).with_row_index("row").filter(pl.col("row").is_in(rows.implode()))
        has_url = "url" in frame.collect_schema().names()
        for row in frame.select("row", *columns, *(["url"] if has_url else [])).collect().to_dicts():
            texts[number, row["row"]] = {
                "id": f"{name}/{path.stem}/{row['row']}",
                "texts": [shorten(row[column] or "", cfg.max_chars) for column in columns],
                "url": show_controls(row.get("url") or "", keep=""),
            }
    return texts


def shorten(text: str, max_chars: int) -> str:
    """Return start, middle and end of a long text, with signs of what is left out; controls are made visible."""
    if len(text) > max_chars:
        size = max_chars // _PIECES
        middle = (len(text) - size) // 2
        gaps = middle - size, len(text) - middle - 2 * size
        pieces = text[:size], text[middle : middle + size], text[len(text) - size :]
        text = f"{pieces[0]}\n{SKIPPED.format(gaps[0])}\n{pieces[1]}\n{SKIPPED.format(gaps[1])}\n{pieces[2]}"
    return show_controls(text)
