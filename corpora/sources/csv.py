"""Sources ``csv:GLOB[#COLUMN]`` and ``tsv:GLOB[#COLUMN]``: a document in one cell of each row, plain or compressed."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.common import columns
from xling.corpora.sources.jsonl import TEXT_FIELDS, count_refused
from xling.corpora.sources.source import SOURCES, LocalFiles, Shard, admit, decode, running_text
from xling.text.document import Document, Ledger
from xling.text.files.compressed import read_lines


class Delimited(LocalFiles):
    """Tables; the column is named or numbered after ``#``, called ``text`` or by the language, or the only one."""

    has_fields = has_rows = True
    delimiter: ClassVar[str]

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a row; the names of the columns are none.

        Raises:
            UserError: it is not clear which column holds the text.
        """
        raw_lines = read_lines(self.context.local(shard), ledger, lang=self.context.one_lang)
        lines = (decode(line, ledger).removeprefix("\ufeff") for line in raw_lines)
        yield from self.documents(lines, shard, ledger)

    def documents(self, lines: Iterator[str], shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield the documents of a table, given by its lines; errors as those of `read`."""
        uri = f"{self.uri.partition(':')[0]}:{shard.location}"
        names = [self.field] if self.field else []
        for number, row in enumerate(columns.open_rows(lines, uri, self.delimiter, names, self._guess, ())):
            name = f"{shard.name}/{number}"
            if row.cells is None:
                count_refused(name, shard.source, "malformed row", ledger)
                continue
            text = running_text(row.cells[0], ledger)
            if doc := admit(Document(name, text, source=shard.source), ledger):
                yield doc

    def _guess(self, header: Sequence[str]) -> list[int]:
        """Return the position of the text, by the usual names first."""
        lowered = [name.strip().lower() for name in header]
        if named := [lowered.index(name) for name in TEXT_FIELDS if name in lowered]:
            return named[:1]
        lang = languages.get(self.context.lang)
        try:
            place = columns.find_language(header, lang, (lang.code, lang.iso639_3), ("sentence",))
        except UserError as error:
            raise UserError(f"{self.uri}: {error.given}", error.valid, error.fix) from None
        return [place] if place >= 0 else []


@SOURCES.register("csv")
class Csv(Delimited):
    """Cells between commas, semicolons, tabs or bars, whichever a file has."""

    endings = (".csv",)
    delimiter = ""


@SOURCES.register("tsv")
class Tsv(Delimited):
    """Cells between tabs."""

    endings = (".tsv",)
    delimiter = "\t"
