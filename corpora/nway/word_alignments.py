"""Word alignments between one language and every other one, from aligned rows: ``xling corpus links``.

The file is described in `xling.text.files.word_alignments`, which reads it. Scripts without spaces are divided into
likely words by a unigram language model of their characters (Kudo 2018, Subword regularization, section 3.2).
"""

import gzip
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice, zip_longest
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.core.settings import values
from xling.core.settings.values import COUNT, Lang, ranged
from xling.corpora.nway import sources as nway_sources
from xling.corpora.parallel.wordalign.aligner import AlignerSettings, align
from xling.text.files.word_alignments import FILE_NAME
from xling.text.word_segmentation import train_unigram_model
from xling.text.words.features import WINDOW_PREFIX, is_unspaced, split_tokens

STAGE = "corpus links"


@dataclass(frozen=True)
class LinksConfig:
    """Settings of ``xling corpus links``.

    Attributes:
        data: folder of the aligned text; its layout is in docs/hour.md.
        out: directory to publish.
        source: language whose words are aligned with those of the others.
        langs: the only other languages to read; all without it. The source ``own`` needs it.
        corpora: folders of ``xling corpus parallel`` that are read too; they need ``langs``.
        sources: names in `xling.corpora.nway.sources.SOURCES`, or ``own`` for one's own files.
        pairs: maximum number of texts of each language, the same from every source as far as they go.
        max_words: maximum words of a text; longer ones are dropped.
        aligner: settings of the word aligner.
    """

    data: Path
    out: Path
    source: Lang = "en"
    langs: tuple[Lang, ...] = ()
    corpora: tuple[Path, ...] = ()
    sources: tuple[str, ...] = ("bible", "seed", "mafand", "nli", "multi30k")
    pairs: int = ranged(1500, COUNT)
    max_words: int = ranged(40, COUNT)
    aligner: AlignerSettings = field(
        default_factory=lambda: AlignerSettings(sweeps=3, averaged_sweeps=2, symmetrise="intersection")
    )


def run(cfg: LinksConfig) -> manifest.Manifest:
    """Draw pairs of every language, align their words and publish the links.

    Raises:
        UserError: an unknown source, no text aligned with ``source``, settings out of range.
    """
    values.check(cfg)
    inputs = nway_sources.files_of(cfg.data, cfg.sources, cfg.out, cfg.corpora)
    if done := manifest.up_to_date(cfg.out, STAGE, cfg, inputs):
        return done
    texts: dict[str, dict[str, list[tuple[list[str], list[str]]]]] = {}
    wanted = (cfg.source, *cfg.langs) if cfg.langs else ()
    for rows in nway_sources.read(cfg.data, cfg.sources, wanted, cfg.out, cfg.corpora):
        for lang in rows.texts:
            if lang != cfg.source and cfg.source in rows.texts:
                pairs = list(_drawable_pairs(rows, lang, cfg))
                texts.setdefault(lang, {}).setdefault(rows.source, []).extend(pairs)
    if not texts:
        raise UserError(
            f"no text below {cfg.data} is aligned with {cfg.source!r}",
            "a folder of docs/hour.md that has it",
            "check data= and source=",
        )
    with (
        manifest.publish(cfg.out, STAGE, cfg, inputs) as publication,
        Progress(STAGE, len(texts), "langs") as progress,
    ):
        counts: dict[str, int] = {}
        with (
            (publication.path / FILE_NAME).open("wb") as raw,
            gzip.GzipFile("", "wb", 3, raw, mtime=0) as file,  # equal links give equal bytes
        ):
            for lang, by_source in sorted(texts.items()):
                pairs = _draw_evenly(by_source.values(), cfg.pairs)
                sources = [src for src, _ in pairs]
                targets = merged([tgt for _, tgt in pairs])
                links = align(sources, targets, cfg.aligner)
                for src, tgt, linked in zip(sources, targets, links, strict=True):
                    line = {"lang": lang, "src": src, "tgt": tgt, "links": sorted(linked)}
                    file.write(f"{json.dumps(line, ensure_ascii=False)}\n".encode())
                counts[lang] = len(pairs)
                progress.update(note=lang)
        publication.counts["pairs"] = counts
    return manifest.read(cfg.out)


def _draw_evenly(
    by_source: Collection[list[tuple[list[str], list[str]]]], num_pairs: int
) -> list[tuple[list[str], list[str]]]:
    """Take pairs from each source in turn, up to a number; a source that runs out leaves its share to the others."""
    turns = zip_longest(*by_source)
    return list(islice((pair for turn in turns for pair in turn if pair is not None), num_pairs))


def _drawable_pairs(
    rows: nway_sources.Rows, lang: str, cfg: LinksConfig
) -> Iterator[tuple[list[str], list[str]]]:
    """At most ``pairs`` pairs, in one order for all languages, so that they share the source's texts."""
    src_and_tgt, num_found = (rows.texts[cfg.source], rows.texts[lang]), 0
    for row in rng("links", rows.source, len(src_and_tgt[0])).permutation(len(src_and_tgt[0])):
        a, b = (side[row] for side in src_and_tgt)
        if a and b:
            src, tgt = words(a), words(b)
            if 1 < _num_chars(src) <= cfg.max_words and 1 < _num_chars(tgt) <= cfg.max_words:
                yield src, tgt
                num_found += 1
        if num_found == cfg.pairs:
            return


def _num_chars(text: list[str]) -> float:
    """Return a text's length in words; two characters count as one in scripts without spaces."""
    return sum(0.5 if is_unspaced(word) else 1 for word in text)


def words(text: str) -> list[str]:
    """Return the words and marks of a text in their case; for scripts without spaces the characters."""
    return [token[1] if token.startswith(WINDOW_PREFIX) else token for token in split_tokens(text)]


CHARACTERS_PER_PIECE = 10
MIN_PIECES, MAX_PIECES = 200, 6000


def merged(texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Join characters of scripts without spaces to words; other words are unchanged.

    Args:
        texts: of one language: words, and single characters where there are no spaces. Texts with too few such
            characters to learn words from stay as they are.
    """
    runs_of_texts = [[(is_bare, list(run)) for is_bare, run in groupby(text, is_unspaced)] for text in texts]
    runs = ["".join(run) for text in runs_of_texts for is_bare, run in text if is_bare]
    size = sum(map(len, runs)) // CHARACTERS_PER_PIECE
    if size < MIN_PIECES:
        return [list(text) for text in texts]
    cut = iter(train_unigram_model(runs, min(size, MAX_PIECES)).encode(runs, out_type=str))
    return [
        [word for is_bare, run in text for word in (next(cut) if is_bare else run)] for text in runs_of_texts
    ]
