"""``parquet:GLOB[#COLUMN]``: Parquet files with a ``text`` or the named column, such as a corpus that xling made."""

from collections.abc import Iterator, Sequence

from xling.core.errors import UserError
from xling.corpora.sources.jsonl import FIELDS, TEXT_FIELDS, count_refused, from_row
from xling.corpora.sources.source import SOURCES, LocalFiles, Shard
from xling.text.document import Document, Ledger
from xling.text.files.compressed import raise_if_of_machine
from xling.text.files.parquet_rows import DAMAGE, read_rows


@SOURCES.register("parquet")
class Parquet(LocalFiles):
    """Rows of Parquet files, read in batches; the fields are those of `xling.corpora.sources.jsonl`."""

    endings = (".parquet",)
    has_fields = has_rows = True

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a row."""
        try:
            for number, row in enumerate(read_rows(self.context.local(shard), self._fields)):
                name = f"{shard.name}/{number}"
                if row is None:
                    count_refused(name, shard.source, "damaged row group", ledger)
                elif kept := from_row(self._absent or row, name, shard.source, ledger, self.field):
                    yield kept
        except DAMAGE as error:
            raise_if_of_machine(error)
            count_refused(shard.name, shard.source, "damaged Parquet file", ledger)

    def _fields(self, names: Sequence[str]) -> list[str]:
        if self.field and self.field not in names:
            raise UserError(
                f"{self.uri}: no column {self.field!r}",
                f"columns {', '.join(names)}"[:300],
                "correct the name after #",
            )
        wanted = [name for name in names if name in FIELDS or name == self.field]
        has_text = any(name in (self.field, *TEXT_FIELDS) for name in names)
        self._absent = {} if has_text else dict.fromkeys(names)  # for the message
        return wanted or list(names[:1])
