"""Aligned text of many languages as word ids, with hashed features of each word: ``xling corpus nway``.

The files are described in `xling.text.files.nway`, which reads them.
"""

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.progress import Progress
from xling.core.settings import values
from xling.core.settings.values import COUNT, Lang, Range, ranged
from xling.corpora.nway import own_files
from xling.corpora.nway import sources as nway_sources
from xling.text.files.nway import STAGE, RowSet, write_texts
from xling.text.words.features import FEATURES_VERSION, hash_features, split_tokens
from xling.text.words.han import simplify

MIN_TEXT_CHARS = 1000
"""Words below which a text counts as so long in frequencies, so that no word of a short one is frequent."""


@dataclass(frozen=True)
class NwayConfig:
    """Settings of ``xling corpus nway``.

    Attributes:
        data: folder of the aligned text; its layout is in docs/hour.md. For ``own`` also a table.
        out: directory to publish.
        sources: names in `xling.corpora.nway.sources.SOURCES`; those whose folders are missing are skipped.
            ``ntrex`` and ``tatoeba`` are not among the defaults, because suites score them. ``own`` reads one's own
            files, see `xling.corpora.nway.own_files`.
        langs: the only languages to read; all without it. ``own`` needs it.
        corpora: folders of ``xling corpus parallel`` that are read too; they need ``langs``.
        share: share of the rows that is read, to measure what the rest is worth.
        held_out: share of the rows that is not in the output but in its folder ``held_out``, a JSON lines file for each
            language with the first one, to be scored; at most 2,000 texts.
        min_count: minimum occurrences of a word; rarer ones are removed from the rows.
        max_words: maximum words of a text; longer ones are dropped.
        keep_texts: languages whose texts are kept as they are, for the ``teacher`` of ``xling pretrain static``.
        features: version of the word features, `xling.text.words.features.FEATURES_VERSION`; no other value is valid.
    """

    data: Path
    out: Path
    sources: tuple[str, ...] = (
        "bible", "seed", "multi30k", "mafand", "nli", "indian", "bli", "stories", "udhr", "para_extra",
        "po",
    )  # fmt: skip
    langs: tuple[Lang, ...] = ()
    corpora: tuple[Path, ...] = ()
    share: float = ranged(1.0, Range(above=0, most=1, words="a share above 0 and up to 1, for example 0.5"))
    held_out: float = ranged(
        0.0, Range(least=0, below=1, words="a share from 0 to below 1, for example 0.01")
    )
    min_count: int = ranged(2, COUNT)
    max_words: int = ranged(400, COUNT)
    keep_texts: tuple[Lang, ...] = ()
    features: int = FEATURES_VERSION


def run(cfg: NwayConfig) -> manifest.Manifest:
    """Read aligned text of many languages, number its words and publish the rows.

    Raises:
        UserError: an unknown source, no aligned text below ``data``, settings out of range.
    """
    values.check(cfg)
    if cfg.features != FEATURES_VERSION:
        raise UserError(f"features={cfg.features}", f"only {FEATURES_VERSION}", "leave it out")
    is_own = own_files.NAME in cfg.sources and own_files.format_of(cfg.data) in own_files.TABLES
    if not cfg.data.is_dir() and not (cfg.data.is_file() and is_own):
        raise UserError(
            f"data={cfg.data} is not a folder",
            f"a folder of aligned text, or own pairs in a file that ends in {', '.join(own_files.TABLES)}",
            f"give data={cfg.data.parent}; see docs/guides/own_files.md",
        )
    inputs = nway_sources.files_of(cfg.data, cfg.sources, cfg.out, cfg.corpora)
    if done := manifest.up_to_date(cfg.out, STAGE, cfg, inputs):
        return done
    word_ids: dict[str, int] = {}
    row_sets, kept_texts, scored = _read_rows(cfg, word_ids)
    if not any(len(row_set.words) for row_set in row_sets):
        raise UserError(
            f"no aligned text below {cfg.data}" + f" in {', '.join(cfg.langs)}" * bool(cfg.langs),
            "translated text, as docs/guides/own_files.md or docs/hour.md lays it out",
            "check data= and langs=; unaligned documents become pairs with xling corpus bitext",
        )
    if cfg.held_out and not any(texts for sides in scored for texts in sides.values()):
        raise UserError(
            f"held_out={cfg.held_out} holds out none of the rows of {cfg.data}",
            "a share that leaves some rows to score",
            "give more text, or a larger share, for example held_out=0.1",
        )
    counts = sum(
        (np.bincount(row_set.words, minlength=len(word_ids)) for row_set in row_sets),
        np.zeros(len(word_ids), np.int64),
    )
    is_kept = counts >= cfg.min_count
    words = [word for word, keep in zip(word_ids, is_kept, strict=True) if keep]
    new_number = np.where(is_kept, np.cumsum(is_kept) - 1, -1)
    with manifest.publish(cfg.out, STAGE, cfg, inputs) as publication:
        row_sets = [_renumber_words(row_set, new_number) for row_set in row_sets]
        _write(publication.path, words, row_sets)
        for number, kept in enumerate(kept_texts):
            for lang, texts in kept.items():
                write_texts(publication.path, number, lang, texts)
        if cfg.held_out:
            publication.counts["held_out"] = own_files.write_held_out(publication.path / "held_out", scored)
        publication.counts |= {"words": len(words), "rare_words": int((~is_kept).sum())}
        publication.counts["rows"] = _counts_of_sources(row_sets)
    return manifest.read(cfg.out)


def _with_progress(cfg: NwayConfig) -> Iterator[nway_sources.Rows]:
    with Progress("corpus nway", unit="rows") as progress:
        for rows in nway_sources.read(cfg.data, cfg.sources, cfg.langs, cfg.out, cfg.corpora):
            yield rows
            progress.update(len(next(iter(rows.texts.values()))), rows.source)


def _read_rows(
    cfg: NwayConfig, word_ids: dict[str, int]
) -> tuple[list[RowSet], list[own_files.Sides], list[own_files.Sides]]:
    """Return the rows of each source, their texts in the languages of ``keep_texts``, and the rows held out."""
    row_sets: list[RowSet] = []
    kept_texts: list[own_files.Sides] = []
    scored: list[own_files.Sides] = []
    for rows in _with_progress(cfg):
        learned, held = own_files.split_held_out(rows.texts, cfg.held_out, scored)
        learned = own_files.draw_rows(learned, cfg.share)
        row_sets.append(_number_words(nway_sources.Rows(rows.source, learned), word_ids, cfg.max_words))
        kept_texts.append({lang: learned[lang] for lang in cfg.keep_texts if lang in learned})
        scored.append(held)
    missing = [lang for lang in cfg.keep_texts if not any(lang in kept for kept in kept_texts)]
    if missing and row_sets:
        raise UserError(
            f"keep_texts={','.join(cfg.keep_texts)}, and no text below {cfg.data} is in {', '.join(missing)}",
            "languages of the aligned text",
        )
    return row_sets, kept_texts, scored


def _number_words(rows: nway_sources.Rows, ids: dict[str, int], max_words: int) -> RowSet:
    """Return the word ids of every text; new words are added to ``ids``."""
    words, ends = array("I"), []
    for texts in rows.texts.values():
        column = [len(words)]
        for text in texts:
            text_words = split_tokens(simplify(text.lower())) if text else []
            if len(text_words) <= max_words:
                words.extend([ids.setdefault(word, len(ids)) for word in text_words])
            column.append(len(words))
        ends.append(column)
    return RowSet(rows.source, tuple(rows.texts), np.array(ends), np.frombuffer(words, dtype=np.uint32))


def _renumber_words(rows: RowSet, new_number: np.ndarray) -> RowSet:
    """Return the rows without the words whose ``new_number`` is negative."""
    new = new_number[rows.words]
    before = np.concatenate([[0], np.cumsum(new >= 0)])
    return RowSet(rows.source, rows.langs, before[rows.ends], new[new >= 0].astype(np.uint32))


def _write(folder: Path, words: Sequence[str], row_sets: Sequence[RowSet]) -> None:
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    hashes, ends = array("I"), array("q", [0])
    for word in words:
        hashes.frombytes(hash_features(word).tobytes())
        ends.append(len(hashes))
    np.save(folder / "hashes.npy", np.frombuffer(hashes, dtype=np.uint32))
    np.save(folder / "hash_ends.npy", np.frombuffer(ends, dtype=np.int64))
    names = [{"source": rows.source, "langs": rows.langs} for rows in row_sets]
    (folder / "rows.json").write_text(json.dumps(names), encoding="utf-8")
    frequency = np.zeros(len(words), np.float32)
    for i, rows in enumerate(row_sets):
        np.save(folder / f"ends.{i}.npy", rows.ends)
        np.save(folder / f"words.{i}.npy", rows.words)
        for column in rows.ends:
            text = rows.words[column[0] : column[-1]]
            share = np.bincount(text, minlength=len(words)) / max(MIN_TEXT_CHARS, len(text))
            frequency = np.maximum(frequency, share.astype(np.float32))
    np.save(folder / "frequency.npy", frequency)


def _counts_of_sources(row_sets: Sequence[RowSet]) -> dict[str, dict[str, int]]:
    """Return texts by source and language."""
    by_source: dict[str, dict[str, int]] = {}
    for rows in row_sets:
        here = by_source.setdefault(rows.source, {})
        for lang, column in zip(rows.langs, rows.ends, strict=True):
            here[lang] = here.get(lang, 0) + int((np.diff(column) > 0).sum())
    return by_source
