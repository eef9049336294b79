"""Sentence pairs of one language with every other one, from aligned rows: ``xling corpus pairs``.

The layout is described in `xling.text.files.pair_folder`; `xling vocab` and `xling binarize` read it with ``rows=``.
The pairs of a language are in a fixed random order.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import tell
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.core.settings import values
from xling.core.settings.values import COUNT, COUNT_OR_NONE, Lang, ranged
from xling.corpora.nway import sources as nway_sources
from xling.text.files.pair_folder import SOURCE_FILE

STAGE = "corpus pairs"


@dataclass(frozen=True)
class PairsConfig:
    """Settings of ``xling corpus pairs``.

    Attributes:
        data: folder of the aligned text; its layout is in docs/hour.md.
        out: directory to publish.
        source: language of one side of every pair.
        langs: the other languages; empty for all that have at least ``least`` pairs. The source ``own`` needs it.
        corpora: folders of ``xling corpus parallel`` that are read too; they need ``langs``.
        sources: names in `xling.corpora.nway.sources.SOURCES`, or ``own`` for one's own files.
        limit: maximum number of pairs of a language from one source, drawn at random; 0 for all.
        least: minimum number of pairs of a language; those with fewer are left out and counted.
        max_chars: maximum characters of a side; longer pairs are dropped and counted.
    """

    data: Path
    out: Path
    source: Lang = "en"
    langs: tuple[Lang, ...] = ()
    corpora: tuple[Path, ...] = ()
    sources: tuple[str, ...] = (
        "bible", "seed", "multi30k", "mafand", "nli", "indian", "stories", "udhr", "para_extra", "po",
    )  # fmt: skip
    limit: int = ranged(20_000, COUNT_OR_NONE)
    least: int = ranged(1000, COUNT)
    max_chars: int = ranged(400, COUNT)


def run(cfg: PairsConfig) -> manifest.Manifest:
    """Collect the pairs of every language and publish them.

    Raises:
        UserError: an unknown source, a language without pairs, settings out of range.
    """
    values.check(cfg)
    inputs = nway_sources.files_of(cfg.data, cfg.sources, cfg.out, cfg.corpora)
    if done := manifest.up_to_date(cfg.out, STAGE, cfg, inputs):
        return done
    pairs, dropped = _collect(cfg)
    few = (
        {}
        if cfg.langs
        else {lang: len(kept_pairs) for lang, kept_pairs in pairs.items() if len(kept_pairs) < cfg.least}
    )
    unlisted = {lang: len(pairs.pop(lang)) for lang in sorted(pairs.keys() - languages.LANGUAGES.keys())}
    if unlisted:
        tell(
            "xling: left out, since no list of languages has the code: "
            + ", ".join(f"{lang} ({count:,} pairs)" for lang, count in unlisted.items())
            + "; to keep one, name its files by another usual code, or by qaa"
        )
    kept = {lang: kept_pairs for lang, kept_pairs in sorted(pairs.items()) if lang not in few}
    if missing := [lang for lang in cfg.langs or [cfg.source] * (not kept) if lang not in kept]:
        raise UserError(
            f"no pairs of {cfg.source} with {', '.join(missing)} below {cfg.data}",
            ", ".join(sorted(pairs)) or "a folder of docs/hour.md that has it",
            "check data=, source= and langs=",
        )
    with manifest.publish(cfg.out, STAGE, cfg, inputs) as publication:
        sources = dict.fromkeys(src for kept_pairs in kept.values() for src, _ in kept_pairs)
        text = "".join(f"{src}\n" for src in sources)
        (publication.path / SOURCE_FILE).write_text(text, encoding="utf-8")
        for lang, kept_pairs in kept.items():
            folder = publication.path / f"{cfg.source}-{lang}"
            folder.mkdir()
            order = rng("corpus pairs", lang).permutation(len(kept_pairs)).tolist()
            for side, name in enumerate((cfg.source, lang)):
                text = "".join(f"{kept_pairs[row][side]}\n" for row in order)
                (folder / f"train.{name}").write_text(text, encoding="utf-8")
        publication.counts |= {
            "pairs": {lang: len(kept_pairs) for lang, kept_pairs in kept.items()},
            "langs_with_too_few_pairs": few,
            "langs_without_a_code": unlisted,
            "dropped": dict(dropped),
        }
    return manifest.read(cfg.out)


def _collect(cfg: PairsConfig) -> tuple[dict[str, list[tuple[str, str]]], Counter[str]]:
    """Return the pairs of every language, and how many were dropped for which reason."""
    by_source: dict[tuple[str, str], dict[tuple[str, str], None]] = {}
    dropped: Counter[str] = Counter()
    wanted = (cfg.source, *cfg.langs) if cfg.langs else ()
    with Progress(STAGE, unit="rows") as progress:
        for rows in nway_sources.read(cfg.data, cfg.sources, wanted, cfg.out, cfg.corpora):
            own = rows.texts.get(cfg.source)
            for lang in rows.texts if own is not None else ():
                if lang == cfg.source or (cfg.langs and lang not in cfg.langs):
                    continue
                kept_pairs = by_source.setdefault((lang, rows.source), {})
                for sides in zip(own or (), rows.texts[lang], strict=True):
                    src, tgt = (" ".join((side or "").split()) for side in sides)
                    if not src or not tgt:
                        continue
                    if max(len(src), len(tgt)) > cfg.max_chars:
                        dropped["too long"] += 1
                    elif (src, tgt) in kept_pairs:
                        dropped["repeated"] += 1
                    else:
                        kept_pairs[src, tgt] = None
            progress.update(len(next(iter(rows.texts.values()))), rows.source)
    pairs: dict[str, list[tuple[str, str]]] = {}
    for (lang, source), kept_pairs in by_source.items():
        listed = list(kept_pairs)
        if cfg.limit and len(listed) > cfg.limit:
            drawn = rng("corpus pairs", lang, source).permutation(len(listed))[: cfg.limit]
            dropped["over the limit"] += len(listed) - cfg.limit
            listed = [listed[row] for row in sorted(drawn.tolist())]
        pairs.setdefault(lang, []).extend(listed)
    return pairs, dropped
