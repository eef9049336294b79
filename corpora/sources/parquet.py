"""``parquet:GLOB``: Parquet files with a ``text`` column, for example a corpus that xling made."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from xling.corpora.sources.jsonl import from_row
from xling.corpora.sources.source import SOURCES, LocalFiles, Shard, SourceExample
from xling.text.document import Document, Ledger

_BATCH_ROWS = 512


@SOURCES.register("parquet")
class Parquet(LocalFiles):
    """Rows of Parquet files, read in batches; the fields are those of `xling.corpora.sources.jsonl`."""

    endings = (".parquet",)

    @classmethod
    def example(cls) -> SourceExample:
        """Return an example table of two rows."""
        texts = ("Habari za leo", "Mji mkuu")
        file = io.BytesIO()
        pq.write_table(pa.table({"text": texts}), file)
        return SourceExample("{folder}/a.parquet", texts, {"a.parquet": file.getvalue()})

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a row."""
        number = 0
        try:
            for batch in pq.ParquetFile(self.context.local(shard)).iter_batches(_BATCH_ROWS):
                for row in batch.to_pylist():
                    if kept := from_row(row, f"{shard.name}/{number}", shard.source, ledger):
                        yield kept
                    number += 1
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            ledger.count_event("damaged Parquet file, rest not read")
