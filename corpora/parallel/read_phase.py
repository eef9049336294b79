"""The phase ``read``: pairs of one source through the filters that see a batch at a time."""

import copy
import itertools
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from xling.core.commands import processes
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.parts import write_json
from xling.core.progress import Progress
from xling.corpora.card.counters import Counters
from xling.corpora.card.ledgers import COUNTERS, LEDGER, ledger_to_json
from xling.corpora.parallel.audit import audit
from xling.corpora.parallel.chain import Chain, count_entered
from xling.corpora.parallel.filters import Context
from xling.corpora.parallel.filters.langid import PairLangId
from xling.corpora.parallel.settings import Build
from xling.corpora.parallel.sources import READ_STAGE, PairSource, open_sources
from xling.text.document import Ledger
from xling.text.pairs import SIDES, near_duplicate_key

KEPT, REJECTS, KEYS = "kept.parquet", "rejects.parquet", "keys.parquet"
INPUTS, AUDIT = "inputs.json", "audit.json"
_SWAP_SAMPLE, _SWAP_SHARE = 400, 0.5


class TableFile:
    """Frames of one schema into one Parquet file, made when the first frame comes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: pq.ParquetWriter | None = None

    def add(self, table: pl.DataFrame) -> None:
        """Append the rows of ``table``; an empty one still defines the columns."""
        arrow = table.to_arrow(compat_level=pl.CompatLevel.oldest())
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.path, arrow.schema, compression="zstd", compression_level=3)
        if table.height:
            self._writer.write_table(arrow)

    def close(self) -> None:
        """Finish the file, if there is one."""
        if self._writer is not None:
            self._writer.close()


def inputs_of(build: Build, index: int) -> dict[str, str]:
    """Path -> SHA-256 of the files that part ``index`` reads now, sorted by path; downloads are fetched."""
    sources = open_sources([build.uris[index]], build.context)
    paths = {str(path) for source in sources for path in source.inputs}
    return {path: manifest.check_file(Path(path)) for path in sorted(paths)}


def run_read(build: Build, index: int) -> None:
    """Make part ``index``: kept pairs, keys for the corpus filters, rejects, ledger, counters, inputs.

    Raises:
        UserError: a source is missing, damaged or swapped; nothing of the part is left then.
    """
    chain, uri = build.chain, build.uris[index]
    sources = open_sources([uri], build.context)
    ledger, counters = Ledger(num_samples=build.cfg.num_samples), Counters()
    with build.workspace.write_part("read", index) as folder, Progress(f"read {uri}", unit="pairs") as bar:
        files = {name: TableFile(folder / name) for name in (KEPT, REJECTS, KEYS)}
        batches = _batches(sources, index, chain, ledger.num_samples, bar)
        for (pairs, of_reading), result in _filtered(batches, chain, ledger.num_samples):
            ledger.merge(of_reading)
            if pairs is None or result is None:
                continue
            kept, lost, of_filters = result
            count_entered(pairs, READ_STAGE, ledger)
            counters.count_read_pairs(pairs)
            ledger.merge(of_filters)
            if build.cfg.audit and not bar.done:
                write_json(folder / AUDIT, audit(chain, pairs, kept, build.cfg.seed))
            if kept.height and (scores := scores_of(kept, chain.context)) is not None:
                kept = kept.with_columns(scores.cast(pl.Float32).alias("score"))
            counters.drop_pairs(lost)
            files[KEPT].add(kept)
            files[REJECTS].add(lost)
            files[KEYS].add(keys_of(kept, chain))
            bar.update(pairs.height)
        for file in files.values():
            file.close()
        write_json(folder / LEDGER, ledger_to_json(ledger))
        write_json(folder / COUNTERS, counters.to_json())
        facts = [{"uri": source.uri, "licence": source.licence} for source in sources]
        write_json(folder / INPUTS, {"sources": facts, "digests": inputs_of(build, index)})


class _Batch(NamedTuple):
    """Pairs, and what reading them counted since the batch before; None where only losses followed."""

    pairs: pl.DataFrame | None
    ledger: Ledger


def _batches(
    sources: Sequence[PairSource], index: int, chain: Chain, num_samples: int, bar: Progress
) -> Iterator[_Batch]:
    """Yield the batches of all sources of part ``index``."""
    for number, source in enumerate(sources):
        ledger, is_first = Ledger(num_samples=num_samples), True
        for pairs in source.batches(ledger, number=index * 1000 + number):
            if is_first:
                refuse_swapped(pairs, source, chain)
            is_first = False
            bar.update(0, f"{pairs.height:,} pairs in the filters")
            yield _Batch(pairs, _taken(ledger))
        yield _Batch(None, ledger)


def _taken(ledger: Ledger) -> Ledger:
    """Return what a ledger has counted, and let it count from zero."""
    taken = copy.deepcopy(ledger)
    for counts in vars(ledger).values():
        if isinstance(counts, dict):
            counts.clear()
    return taken


_Filtered = tuple[pl.DataFrame, pl.DataFrame, Ledger]
"""Pairs that survive, pairs that do not, and the counts of the filters."""


def _filter(chain: Chain, num_samples: int, batch: _Batch) -> _Filtered | None:
    if batch.pairs is None:
        return None
    ledger = Ledger(num_samples=num_samples)
    return *chain.run_batch(batch.pairs, ledger), ledger


def _filtered(
    batches: Iterator[_Batch], chain: Chain, num_samples: int
) -> Iterator[tuple[_Batch, _Filtered | None]]:
    """Yield each batch and what the filters made of it, which learn from the first one; the others share the cores."""
    run = partial(_filter, chain, num_samples)
    num_filtered = 0
    for batch in batches:
        if (
            num_filtered == 1
            and batch.pairs is not None
            and processes.of_this_part() > 1
            and can_be_pickled(chain)
        ):
            yield from _shared(run, itertools.chain([batch], batches))
            return
        yield batch, run(batch)
        num_filtered += batch.pairs is not None


def _shared(
    run: Callable[[_Batch], _Filtered | None], batches: Iterable[_Batch]
) -> Iterator[tuple[_Batch, _Filtered | None]]:
    """Yield each batch and what processes made of it, in order."""
    pending: deque[_Batch] = deque()

    def noted() -> Iterator[_Batch]:
        for batch in batches:
            pending.append(batch)
            yield batch

    for result in processes.in_order(run, noted(), processes.of_this_part()):
        yield pending.popleft(), result


def can_be_pickled(chain: Chain) -> bool:
    """Return whether other processes can have a chain; a network of sentence vectors stays where it is."""
    if chain.context.vectors is not None:
        return False
    try:
        pickle.dumps(chain)
    except (AttributeError, TypeError, pickle.PicklingError):  # a filter of another package
        return False
    return True


def keys_of(kept: pl.DataFrame, chain: Chain) -> pl.DataFrame:
    """The keys of all corpus filters side by side, and what the split needs."""
    tables = [
        kept.select("doc", *(near_duplicate_key(side).hash(2).alias(f"split_{side}") for side in SIDES))
    ]
    for position, table in enumerate(chain.keys(kept)):
        tables.append(table.rename({name: f"{position}:{name}" for name in table.columns}))
    return pl.concat(tables, how="horizontal")


def refuse_swapped(batch: pl.DataFrame, source: PairSource, chain: Chain) -> None:
    """Stop when the first pairs of a source show that its sides are swapped.

    Raises:
        UserError: more than half of a sample is in each other's language.
    """
    sample = batch.head(_SWAP_SAMPLE)
    # A file with all of its sides swapped would vouch for itself.
    reasons = PairLangId(trust=False, adapt=False).judge(sample, chain.context)
    swapped = int((reasons == "swapped").sum())
    if swapped > _SWAP_SHARE * sample.height:
        src, tgt = chain.context.src.code, chain.context.tgt.code
        raise UserError(
            f"{source.uri}: the sides are swapped in {swapped} of the first {sample.height} pairs "
            f"({src} where {tgt} should be and the reverse)",
            f"{src} first, {tgt} second",
            f"give the files in the other order, or pair={tgt}-{src}",
        )


def scores_of(pairs: pl.DataFrame, context: Context) -> pl.Series | None:
    """Cosine of the sentence vectors of both sides, None without an encoder."""
    if context.embed is None:
        return None
    vectors = context.embed(pairs)
    norms = np.linalg.norm(vectors, axis=2).prod(axis=1)
    return pl.Series(vectors.prod(axis=1).sum(axis=1) / np.maximum(norms, 1e-9))
