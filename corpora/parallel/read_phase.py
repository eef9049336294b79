"""The phase ``read``: pairs of one source through the filters that see a batch at a time."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq

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
        for number, source in enumerate(sources):
            for position, batch in enumerate(source.batches(ledger, number=index * 1000 + number)):
                if position == 0:
                    refuse_swapped(batch, source, chain)
                count_entered(batch, READ_STAGE, ledger)
                counters.count_read_pairs(batch)
                bar.update(0, f"{batch.height:,} pairs in the filters")
                kept, lost = chain.run_batch(batch, ledger)
                if build.cfg.audit and number == 0 and position == 0:
                    write_json(folder / AUDIT, audit(chain, batch, kept, build.cfg.seed))
                if kept.height and (scores := scores_of(kept, chain.context)) is not None:
                    kept = kept.with_columns(scores.cast(pl.Float32).alias("score"))
                counters.drop_pairs(lost)
                files[KEPT].add(kept)
                files[REJECTS].add(lost)
                files[KEYS].add(keys_of(kept, chain))
                bar.update(batch.height)
        for file in files.values():
            file.close()
        write_json(folder / LEDGER, ledger_to_json(ledger))
        write_json(folder / COUNTERS, counters.to_json())
        facts = [{"uri": source.uri, "licence": source.licence} for source in sources]
        write_json(folder / INPUTS, {"sources": facts, "digests": inputs_of(build, index)})


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
