"""``xling align``: word alignments and a phrase table of a parallel corpus.

Phases: ``direction`` (map over chunks and the two directions) and ``publish``, which joins the directions. With
``workers=2`` both directions run at once.
"""

import gzip
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from xling.core.commands.runner import Phase
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.output.parts import Workspace
from xling.core.settings.values import Pair
from xling.corpora.parallel.clean import judge
from xling.corpora.parallel.language_pair import OfPair
from xling.corpora.parallel.sources.moses import file_rows
from xling.corpora.parallel.wordalign import phrases, simalign
from xling.corpora.parallel.wordalign.aligner import (
    AlignerSettings,
    Sentences,
    align_direction,
    symmetrise_links,
)
from xling.corpora.parallel.wordalign.model1 import Ints
from xling.corpora.parallel.wordalign.symmetrise import Link, format_pharaoh
from xling.text.encoders import encoder_of
from xling.text.files import corpus_reader
from xling.text.pairs import split_words

STAGE_NAME = "align"
LINKS_FILE, PHRASES_FILE, WORDS_PREFIX, RAW_TEXT_PREFIX = "links.txt", "phrases.tsv.gz", "words", "text"
SCORES_FILE, JUDGE_FILE = "scores.txt", "judge.npz"
MAX_CHARS = 100_000
"""Longest line that is aligned, in characters."""


@dataclass(frozen=True)
class AlignConfig(OfPair):
    """Settings of ``xling align``: what is aligned, and how.

    Attributes:
        pair: the languages, for example ``en-sw``.
        corpus: directory of ``xling corpus parallel``; its training split is aligned.
        src: instead of ``corpus``, a text file of the source side.
        tgt: and one of the target side.
        out: directory to publish; ``runs/align/PAIR`` when empty.
        method: ``own``, or ``embedding``, SimAlign's itermax on ``checkpoint``.
        aligner: settings of the embedded aligner.
        checkpoint: encoder directory of ``xling pretrain`` for ``method=embedding``.
        layer: layer of its word vectors, -1 the last.
        max_words: longest phrase of the phrase table, in words.
        min_count: rarer phrase pairs are left out.
    """

    FOLDER = "runs/align"

    pair: Pair
    corpus: str = ""
    src: str = ""
    tgt: str = ""
    out: str = ""
    method: Literal["own", "embedding"] = "own"
    aligner: AlignerSettings = field(default_factory=AlignerSettings)
    checkpoint: str = ""
    layer: int = -1
    max_words: int = 4
    min_count: int = 2

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: an unknown language, not exactly one input, no checkpoint where one is needed.
        """
        super().__post_init__()
        if bool(self.corpus) == bool(self.src and self.tgt):
            raise UserError(
                "no text to align is named, or it is named twice",
                "corpus=DIRECTORY, or src=FILE tgt=FILE",
                "give one of the two",
            )
        if self.method == "embedding" and not self.checkpoint:
            raise UserError(
                "method=embedding without checkpoint=",
                "checkpoint=DIRECTORY of an encoder",
                "pre-train one with `xling pretrain`, or take method=own",
            )

    @property
    def files(self) -> tuple[Path, Path]:
        """The text files of source and target."""
        if self.corpus:
            manifest.read(Path(self.corpus))
            return tuple(Path(self.corpus) / f"train.{lang}" for lang in self.langs)  # type: ignore[return-value]
        return Path(self.src), Path(self.tgt)

    def workspace(self) -> Workspace:
        """The intermediate parts, keyed by the settings and the input."""
        return Workspace.for_output(
            self.directory, [self.content(), [manifest.digest(path) for path in self.files]]
        )

    def is_published(self) -> bool:
        """Whether these settings and files have been aligned already."""
        return manifest.up_to_date(self.directory, STAGE_NAME, self.content(), self.files) is not None


def phases(cfg: AlignConfig) -> Sequence[Phase]:
    """``direction`` for the embedded aligner, then ``publish``."""
    if cfg.method != "own" or cfg.is_published():
        return (Phase("publish"),)
    manifest.check_is_ours(cfg.directory, STAGE_NAME)
    num_pairs = sum(1 for _ in corpus_reader.read_lines(cfg.files[0]))
    num_chunks = -(-num_pairs // cfg.aligner.chunk_pairs)
    return (Phase("direction", 2 * num_chunks), Phase("publish"))


def run_part(cfg: AlignConfig, phase: str, index: int) -> Answer | None:
    """Align one chunk in one direction, or publish.

    Returns:
        A summary from ``publish``, else nothing.
    """
    if phase == "publish":
        return _publish(cfg)
    if not cfg.workspace().part(phase, index).is_dir():
        chunk, is_backward = divmod(index, 2)
        start = chunk * cfg.aligner.chunk_pairs
        sides = [side[start : start + cfg.aligner.chunk_pairs] for side in read_words(cfg)]
        direction = "forward"
        if is_backward:
            sides.reverse()
            direction = "backward"
        links = align_direction(sides[0], sides[1], cfg.aligner, direction, start)
        with cfg.workspace().write_part(phase, index) as folder:
            np.save(folder / "links.npy", np.concatenate([*links, np.empty(0, np.int32)]))
            np.save(folder / "lengths.npy", np.array([len(row) for row in links], np.int64))
    return None


def read_words(cfg: AlignConfig) -> list[Sentences]:
    """Return the words of both sides, as `xling.text.pairs.split_words` cuts them.

    Raises:
        UserError: a line is too long to be a sentence.
    """
    rows = [(split_words(src), split_words(tgt)) for src, tgt in _read_pairs(cfg)]
    return [[row[0] for row in rows], [row[1] for row in rows]]


def _read_pairs(cfg: AlignConfig) -> Iterator[tuple[str, str]]:
    for number, (src, tgt, _) in enumerate(file_rows(*cfg.files), 1):
        for path, text in zip(cfg.files, (src, tgt), strict=True):
            if len(text) > MAX_CHARS:
                raise UserError(
                    f"{path} line {number}: {len(text):,} characters",
                    f"sentences of at most {MAX_CHARS:,} characters",
                    "clean the pairs first: xling corpus parallel",
                )
        yield src, tgt


def _align_with_encoder(cfg: AlignConfig, src: Sentences, tgt: Sentences) -> list[set[Link]]:
    if cfg.method == "embedding":
        encoder = encoder_of(cfg.checkpoint)
        left, right = (
            encoder.word_vectors(side, lang, cfg.layer)
            for side, lang in zip((src, tgt), cfg.langs, strict=True)
        )
        return [simalign.itermax(simalign.cosine(a, b)) for a, b in zip(left, right, strict=True)]
    links: list[set[Link]] = []
    for chunk in range(-(-len(src) // cfg.aligner.chunk_pairs)):
        directions = [_load_direction(cfg.workspace().part("direction", 2 * chunk + side)) for side in (0, 1)]
        links += symmetrise_links(directions[0], directions[1], cfg.aligner.symmetrise)
    return links


def _load_direction(part: Path) -> list[Ints]:
    if not part.is_dir():
        raise UserError(f"{part} is missing", fix="run the phase direction first")
    flat, lengths = np.load(part / "links.npy"), np.load(part / "lengths.npy")
    return np.split(flat, np.cumsum(lengths)[:-1])


def _publish(cfg: AlignConfig) -> Answer:
    out = cfg.directory
    if cfg.is_published():
        return _make_answer(out, "up to date, nothing to do")
    src, tgt = read_words(cfg)
    links = _align_with_encoder(cfg, src, tgt)
    phrase_table = phrases.phrase_table(zip(src, tgt, links, strict=True), cfg.max_words, cfg.min_count)
    with manifest.publish(out, STAGE_NAME, cfg.content(), cfg.files) as artifact:
        text = "".join(format_pharaoh(row) + "\n" for row in links)
        (artifact.path / LINKS_FILE).write_text(text, encoding="utf-8")
        for side, lang in zip((src, tgt), cfg.langs, strict=True):
            tokens = "".join(" ".join(sentence) + "\n" for sentence in side)
            (artifact.path / f"{WORDS_PREFIX}.{lang}").write_text(tokens, encoding="utf-8")
        write_phrases(artifact.path / PHRASES_FILE, phrase_table)
        for path, lang in zip(cfg.files, cfg.langs, strict=True):
            raw = "".join(line + "\n" for line in corpus_reader.read_lines(path))
            (artifact.path / f"{RAW_TEXT_PREFIX}.{lang}").write_text(raw, encoding="utf-8")
        # For each pair the belief that its sides say the same, and the tables that give it; none for very few.
        pairs = pl.DataFrame(list(_read_pairs(cfg)), {"src": pl.String, "tgt": pl.String}, orient="row")
        if trained := judge.train(pairs):
            trained.save(artifact.path / JUDGE_FILE)
            believed = "".join(f"{belief:.4f}\n" for belief in judge.clean_probability(trained.odds(pairs)))
            (artifact.path / SCORES_FILE).write_text(believed, encoding="utf-8")
        artifact.counts |= {
            "pairs": len(links),
            "pairs_without_links": sum(not row for row in links),
            "links": sum(map(len, links)),
            "phrase_pairs": len(phrase_table),
        }
    shutil.rmtree(cfg.workspace().root.parent, ignore_errors=True)
    return _make_answer(out)


def _make_answer(out: Path, text: str = "") -> Answer:
    counts = manifest.read(out).counts
    return Answer(f"{out}: {text or manifest.summary(counts)}", {"out": str(out), **counts})


def write_phrases(path: Path, phrase_table: Sequence[phrases.Phrase]) -> None:
    """A table with columns src, tgt, p(tgt|src), p(src|tgt), count; equal tables give equal bytes."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        packed.write(b"src\ttgt\ttgt_given_src\tsrc_given_tgt\tcount\n")
        for p in phrase_table:
            packed.write(
                f"{p.src}\t{p.tgt}\t{p.tgt_given_src:.6g}\t{p.src_given_tgt:.6g}\t{p.count}\n".encode()
            )
