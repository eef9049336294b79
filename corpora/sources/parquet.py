"""``parquet:GLOB``: Parquet files with a ``text`` column, for example a corpus that xling made."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from xling.corpora.common.parquet_rows import DAMAGE, read_rows
from xling.corpora.sources.jsonl import FIELDS, count_refused, from_row
from xling.corpora.sources.source import SOURCES, LocalFiles, Shard, SourceExample
from xling.text.document import Document, Ledger


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
        try:
            for number, row in enumerate(read_rows(self.context.local(shard), _fields)):
                name = f"{shard.name}/{number}"
                if row is None:
                    count_refused(name, shard.source, "damaged row group", ledger)
                elif kept := from_row(row, name, shard.source, ledger):
                    yield kept
        except DAMAGE as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            count_refused(shard.name, shard.source, "damaged Parquet file", ledger)


def _fields(names: Sequence[str]) -> list[str]:
    return [name for name in names if name in FIELDS] or list(names[:1])
