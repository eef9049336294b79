"""``xling mine``: translations in two monolingual corpora, found by the margin of their sentence vectors.

A pair is judged by its cosine against the mean cosine of both sides with their k nearest neighbours, so that a
sentence that is near to everything does not win. Phases, with a barrier between them:

- ``read`` (a part a side) keeps each sentence once.
- ``vectors`` (map over shards of both sides) writes them as fp16, from files or a checkpoint.
- ``train`` trains one index, and ``index`` (map) codes every shard with it; neither if the search is exact.
- ``search`` (map) finds the neighbours of each shard among the other side, with exact cosines.
- ``publish`` computes margins and writes the pairs.

Every part is complete or absent, so that a killed run goes on and ends in the same bytes. Memory is bounded by the
settings ``block`` and ``shard``, some 30 bytes a line, and the codes of one side.

Source: Artetxe and Schwenk 2019 (margin-based mining).
"""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from xling.core.commands.runner import Phase
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.output.parts import Workspace, run_unless_published
from xling.core.progress import Progress
from xling.core.settings import values
from xling.core.settings.values import COUNT, COUNT_OR_NONE, Pair, ranged
from xling.corpora.card.losses import half_note
from xling.corpora.mining import margin, rows, search, sentences
from xling.corpora.mining.rows import VectorRows
from xling.corpora.mining.sentences import Sentences
from xling.corpora.parallel.language_pair import OfPair
from xling.text.encoders import encoder_of

STAGE_NAME = "mine"
PAIRS_FILE = "pairs.tsv"
_VECTORS_FILE, _TRAINED_FILE, _CODES_FILE, _COSINES_FILE, _IDS_FILE, _MEANS_FILE = (
    "vectors.npy", "trained.faiss", "codes.faiss", "cosines.npy", "ids.npy", "means.npy",
)  # fmt: skip
_SENTENCES_AT_ONCE = 16_384

# Above so many comparisons `index=auto` uses the trained index, on a side with this many vectors.
_EXACT_COMPARISONS = 4_000_000_000
_MIN_CODED = 65_536


@dataclass(frozen=True)
class MineConfig(OfPair):
    """Two texts, their vectors and what to accept as a translation.

    Attributes:
        pair: the languages, for example ``en-sw``.
        src: text of the first language, a sentence a line.
        tgt: text of the second language.
        src_vectors: ``.npy`` of numbers (num_lines, dim) for ``src``; empty when ``checkpoint`` makes them.
        tgt_vectors: the same for ``tgt``.
        checkpoint: encoder directory of ``xling pretrain``.
        layer: layer of its sentence vectors, -1 the last.
        pooling: ``mean``, ``max`` or ``cls``.
        out: directory to publish; ``runs/mine/PAIR`` when empty.
        neighbours: k of the margin.
        margin: ``ratio``, ``distance`` or ``absolute``, which is the cosine itself.
        retrieval: ``forward``: the best target of each source; ``backward``: the reverse; ``intersection``: pairs
            that both choose; ``max``: the best of both, each sentence used once.
        threshold: lowest margin kept.
        index: ``exact``, ``clusters`` (a trained index, approximate) or ``auto``: exact while it takes about a minute.
        candidates: of the trained index for each sentence, scored again exactly; at least ``neighbours``.
        probes: cells of the trained index that are searched for each sentence; 0 chooses.
        shard: sentences of one part, which is what a killed run loses at most.
        block: vectors of one block in memory.
        device: where faiss searches: ``cpu``, or ``gpu``, all that it sees.
        threads: threads of faiss; 0 takes all.
    """

    FOLDER = "runs/mine"
    NOT_CONTENT = frozenset({"out", "threads"})

    pair: Pair
    src: str
    tgt: str
    src_vectors: str = ""
    tgt_vectors: str = ""
    checkpoint: str = ""
    layer: int = -1
    pooling: str = "mean"
    out: str = ""
    neighbours: int = ranged(4, COUNT)
    margin: Literal["ratio", "distance", "absolute"] = "ratio"
    retrieval: Literal["forward", "backward", "intersection", "max"] = "max"
    threshold: float = 1.04
    index: Literal["auto", "exact", "clusters"] = "auto"
    candidates: int = 32
    probes: int = ranged(0, COUNT_OR_NONE)
    shard: int = ranged(1_000_000, COUNT)
    block: int = ranged(search.BLOCK_ROWS, COUNT)
    device: Literal["cpu", "gpu"] = "cpu"
    threads: int = ranged(0, COUNT_OR_NONE)

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: an unknown language, a number out of range, no vectors or too many.
        """
        super().__post_init__()
        given = bool(self.src_vectors) + bool(self.tgt_vectors)
        if given == 1 or (given == 2) == bool(self.checkpoint):
            raise UserError(
                "the source of the vectors is missing or given twice",
                "checkpoint=, or src_vectors= and tgt_vectors=",
            )
        values.check(self)
        if self.candidates < self.neighbours:
            raise UserError(f"candidates={self.candidates}", f"a whole number from {self.neighbours}")
        if math.isnan(self.threshold):
            raise UserError(f"threshold={self.threshold}", "a number")

    @property
    def texts(self) -> tuple[Path, Path]:
        """The text files of source and target."""
        return Path(self.src), Path(self.tgt)

    @property
    def vector_files(self) -> tuple[Path, ...]:
        """The two files of vectors; none with a checkpoint."""
        return () if self.checkpoint else (Path(self.src_vectors), Path(self.tgt_vectors))

    @property
    def inputs(self) -> list[Path]:
        """Return the paths of all inputs: texts, vectors, checkpoint."""
        return [*self.texts, *(self.vector_files or [Path(self.checkpoint)])]

    def workspace(self) -> Workspace:
        """Return the intermediate parts, keyed by the settings and by the digests of the inputs.

        Raises:
            UserError: an input is missing.
        """
        return Workspace.for_output(
            self.directory, [self.content(), [[manifest.digest(path)] for path in self.inputs]]
        )

    def is_published(self) -> bool:
        """Return whether these settings and files have been mined already."""
        return manifest.up_to_date(self.directory, STAGE_NAME, self.content(), self.inputs) is not None


def phases(cfg: MineConfig) -> Sequence[Phase]:
    """Return the phases known so far: ``read``, and when the sentences are counted those that follow from them."""
    if cfg.is_published():
        return (Phase("publish"),)
    check_inputs(cfg)
    sides = [Sentences(cfg.workspace().part("read", side)) for side in (0, 1)]
    if not all(side.folder.is_dir() for side in sides):
        return (Phase("read", 2),)
    plan = MiningPlan(cfg, len(sides[0]), len(sides[1]))
    return (
        Phase("read", 2),
        *([Phase("vectors", plan.num_shards)] if plan.num_shards else []),
        *([Phase("train"), Phase("index", plan.num_shards)] if plan.trains_index else []),
        *([Phase("search", plan.num_shards)] if plan.num_shards else []),
        Phase("publish"),
    )


def check_inputs(cfg: MineConfig) -> None:
    """Check what can be known before anything is read.

    Raises:
        UserError: a file is missing or holds no vectors, or their widths differ.
    """
    cfg.workspace()
    widths = [rows.shape_of(path)[1] for path in cfg.vector_files]
    if len(set(widths)) > 1:
        raise UserError(
            f"vectors of width {widths[0]} and {widths[1]}", "one width", "make both with one encoder"
        )


@dataclass(frozen=True)
class MiningPlan:
    """How many shards the sides have and how each is searched.

    Attributes:
        num_src: sentences of the first language, each once.
        num_tgt: of the second.
    """

    cfg: MineConfig
    num_src: int
    num_tgt: int

    @property
    def counts(self) -> tuple[int, int]:
        """Return the number of sentences of each side."""
        return self.num_src, self.num_tgt

    def shards(self, side: int) -> range:
        """Return the numbers of the parts of a side: those of the first side come first; none if a side is empty."""
        first, second = (-(-count // self.cfg.shard) if min(self.counts) else 0 for count in self.counts)
        return range(first, first + second) if side else range(first)

    @property
    def num_shards(self) -> int:
        """Return the number of shards of both sides together."""
        return len(self.shards(0)) + len(self.shards(1))

    def span(self, part: int) -> tuple[int, int, int]:
        """Return the side of a part, and the numbers of its first sentence and of the one after its last."""
        side = int(part in self.shards(1))
        start = (part - self.shards(side).start) * self.cfg.shard
        return side, start, min(start + self.cfg.shard, self.counts[side])

    def is_coded(self, side: int) -> bool:
        """Return whether the sentences of a side are found by the trained index."""
        if self.cfg.index == "auto":
            return self.num_src * self.num_tgt > _EXACT_COMPARISONS and self.counts[side] >= _MIN_CODED
        return self.cfg.index == "clusters" and self.counts[side] >= search.MIN_TRAINED

    @property
    def trains_index(self) -> bool:
        """Whether there is an index to train."""
        return bool(self.num_shards) and (self.is_coded(0) or self.is_coded(1))

    def vectors(self, parts: Sequence[int]) -> VectorRows:
        """Return the vectors of some parts."""
        return VectorRows([self.cfg.workspace().part("vectors", part) / _VECTORS_FILE for part in parts])


def run_part(cfg: MineConfig, phase: str, index: int) -> Answer | None:
    """Run one part of one phase; a part that is there already is left as it is.

    Returns:
        A summary from ``publish``, else nothing.

    Raises:
        UserError: vectors and lines differ in number, or a vector is not finite.
    """
    return run_unless_published(
        lambda: _run_part(cfg, phase, index),
        cfg.workspace,
        cfg.is_published,
        lambda: _make_answer(cfg.directory) if phase == "publish" else None,
    )


def _run_part(cfg: MineConfig, phase: str, index: int) -> Answer | None:
    if phase == "publish":
        if cfg.is_published():
            return _make_answer(cfg.directory, "up to date, nothing to do")
    elif cfg.workspace().part(phase, index).is_dir():
        return None
    if phase == "read":
        _read_side(cfg, index)
        return None
    folders = [cfg.workspace().part("read", side) for side in (0, 1)]
    if not all(folder.is_dir() for folder in folders):
        if cfg.is_published():  # by another process
            return None
        raise UserError(f"no sentences for {cfg.directory}", fix="run the phase read first")
    plan = MiningPlan(cfg, len(Sentences(folders[0])), len(Sentences(folders[1])))
    if phase == "publish":
        return _publish(plan)
    {"vectors": _write_vectors, "train": _train_index, "index": _index, "search": _search_part}[phase](
        plan, index
    )
    return None


def _read_side(cfg: MineConfig, side: int) -> None:
    search.check_device(cfg.device)  # here and not in `phases`, which a node without a GPU may ask
    with cfg.workspace().write_part("read", side) as folder:
        side_sentences = sentences.store_sentences(cfg.texts[side], folder)
        for path in cfg.vector_files[side : side + 1]:
            num_rows, width = rows.shape_of(path)
            if num_rows != side_sentences.num_lines:
                raise UserError(
                    f"{path} has shape {(num_rows, width)} for {side_sentences.num_lines:,} lines of "
                    f"{cfg.texts[side]}",
                    "a vector a line",
                    "make the vectors from this text",
                )


def _write_vectors(plan: MiningPlan, index: int) -> None:
    cfg = plan.cfg
    side, start, stop = plan.span(index)
    texts = Sentences(cfg.workspace().part("read", side))
    with cfg.workspace().write_part("vectors", index) as folder:
        if cfg.vector_files:
            rows.write_given_rows(cfg.vector_files[side], texts.lines(start, stop), folder / _VECTORS_FILE)
        else:
            encoder = encoder_of(cfg.checkpoint)
            pieces = (
                encoder.embed(
                    texts.take(range(at, min(at + _SENTENCES_AT_ONCE, stop))),
                    cfg.langs[side], cfg.layer, cfg.pooling,
                )
                for at in range(start, stop, _SENTENCES_AT_ONCE)
            )  # fmt: skip
            rows.write_embedded_rows(pieces, stop - start, folder / _VECTORS_FILE)


def _train_index(plan: MiningPlan, index: int) -> None:
    import faiss

    with (
        plan.cfg.workspace().write_part("train", index) as folder,
        search.thread_pool(plan.cfg.threads, plan.cfg.device),
    ):
        sides = [plan.vectors(plan.shards(side)) for side in (0, 1)]
        faiss.write_index(search.train_index(sides, plan.cfg.device), str(folder / _TRAINED_FILE))


def _index(plan: MiningPlan, index: int) -> None:
    with (
        plan.cfg.workspace().write_part("index", index) as folder,
        search.thread_pool(plan.cfg.threads, plan.cfg.device),
    ):
        if plan.is_coded(plan.span(index)[0]):
            trained = plan.cfg.workspace().part("train", 0) / _TRAINED_FILE
            search.add_codes(trained, plan.vectors([index]), folder / _CODES_FILE)


def _search_part(plan: MiningPlan, index: int) -> None:
    """Find the neighbours of one shard among the sentences of the other side."""
    cfg, (side, *_) = plan.cfg, plan.span(index)
    other_shards = plan.shards(1 - side)
    queries, keys = plan.vectors([index]), plan.vectors(other_shards)
    k = min(cfg.neighbours, len(keys))
    index_path = None
    if plan.is_coded(1 - side):
        codes = [cfg.workspace().part("index", part) / _CODES_FILE for part in other_shards]
        index_path = search.SearchIndex(codes, keys, cfg.candidates, cfg.probes, cfg.device)
    cosines, ids = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    with (
        cfg.workspace().write_part("search", index) as folder,
        search.thread_pool(cfg.threads, cfg.device) as pool,
        Progress(f"mine: search {index}", len(queries), "sentences") as progress,
    ):
        for start, block in queries.blocks(cfg.block):
            at = slice(start, start + len(block))
            if index_path:
                cosines[at], ids[at] = index_path.nearest(block, k, pool)
            else:
                cosines[at], ids[at] = search.exact_nearest(block, keys, k, cfg.block, cfg.device)
            progress.update(len(block))
        np.save(folder / _COSINES_FILE, cosines)
        np.save(folder / _IDS_FILE, ids)
        np.save(folder / _MEANS_FILE, margin.mean_cosine(cosines, ids))


def _publish(plan: MiningPlan) -> Answer:
    cfg, out = plan.cfg, plan.cfg.directory
    texts = [Sentences(cfg.workspace().part("read", side)) for side in (0, 1)]
    chosen_pairs = _chosen_pairs(plan)
    with manifest.publish(out, STAGE_NAME, cfg.content(), cfg.inputs) as artifact:
        with (artifact.path / PAIRS_FILE).open("w", encoding="utf-8") as file:
            for start in range(0, len(chosen_pairs.src), _SENTENCES_AT_ONCE):
                src, tgt, scores = (field[start : start + _SENTENCES_AT_ONCE] for field in chosen_pairs)
                for score, left, right in zip(scores, texts[0].take(src), texts[1].take(tgt), strict=True):
                    file.write(f"{score:.5f}\t{left}\t{right}\n")
        used = chosen_pairs.tgt if cfg.retrieval == "backward" else chosen_pairs.src
        artifact.counts |= {
            "pairs": len(chosen_pairs.src),
            "without_pair": plan.counts[cfg.retrieval == "backward"] - len(np.unique(used)),
            "src_sentences": len(texts[0]),
            "tgt_sentences": len(texts[1]),
            "src_repeated": texts[0].num_lines - len(texts[0]),
            "tgt_repeated": texts[1].num_lines - len(texts[1]),
            "search": "a trained index" if plan.trains_index else "exact",
            "phases": cfg.workspace().resource_use(),
        }
    shutil.rmtree(cfg.workspace().root.parent, ignore_errors=True)
    return _make_answer(out)


def _chosen_pairs(plan: MiningPlan) -> margin.Pairs:
    cfg = plan.cfg
    search_folders = [[cfg.workspace().part("search", part) for part in plan.shards(side)] for side in (0, 1)]
    if missing := [part.name for side in search_folders for part in side if not part.is_dir()]:
        raise UserError(
            f"{cfg.directory}: parts {missing} are not searched", fix="run the phase search first"
        )
    if not plan.num_shards:
        nothing = np.zeros(0, np.int64)
        return margin.Pairs(nothing, nothing, np.zeros(0, np.float32))
    means = [np.concatenate([np.load(part / _MEANS_FILE) for part in side]) for side in search_folders]
    sides = []
    for side in (0, 1):
        pieces = []
        for part, number in zip(search_folders[side], plan.shards(side), strict=True):
            _, start, stop = plan.span(number)
            cosines, ids = np.load(part / _COSINES_FILE), np.load(part / _IDS_FILE)
            pieces.append(margin.best(cosines, ids, means[side][start:stop], means[1 - side], cfg.margin))
        sides.append(margin.BestNeighbours(*(np.concatenate(field) for field in zip(*pieces, strict=True))))
    return margin.choose_pairs(sides[0], sides[1], cfg.retrieval, cfg.threshold)


def _make_answer(out: Path, text: str = "") -> Answer:
    counts = manifest.read(out).counts
    shown = {key: value for key, value in counts.items() if key != "phases"}
    note = half_note(
        min(counts["src_sentences"], counts["tgt_sentences"]),
        counts["pairs"],
        "sentences",
        f"{counts['without_pair']:,} without a neighbour over the threshold",
        "threshold=, retrieval=",
    )
    return Answer(f"{out}: {text or manifest.summary(shown)}{note}", {"out": str(out), **counts})
