"""``docx:FILE[#SRC+TGT]``: tables of a Word document, a pair a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.packed_xml import docx_blocks
from xling.corpora.parallel.sources import (
    EXAMPLE_ROWS,
    PAIR_SOURCES,
    PairReader,
    PairSource,
    PairSourceExample,
    SourceContext,
)
from xling.corpora.parallel.sources.grids import Grid, grid_rows, named_columns
from xling.corpora.sources.docx import packed


@PAIR_SOURCES.register("docx")
class Docx(PairReader):
    """All tables of one file."""

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of one file."""
        path, names = named_columns("docx", rest)
        return [
            PairSource(
                f"docx:{rest}",
                (path,),
                lambda ledger: grid_rows(_tables(path), f"docx:{path}", names, context, ledger),
            )
        ]

    @classmethod
    def example(cls) -> PairSourceExample:
        """Return a small example input: a table of two rows below the codes of the languages."""
        rows = "".join(
            f"<w:tr>{''.join(f'<w:tc><w:p><w:r><w:t>{cell}</w:t></w:r></w:p></w:tc>' for cell in row[:2])}</w:tr>"
            for row in (("en", "sw"), *EXAMPLE_ROWS)
        )
        space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
        xml = f"<w:document {space}><w:body><w:tbl>{rows}</w:tbl></w:body></w:document>"
        return PairSourceExample(
            "{folder}/a.docx", EXAMPLE_ROWS, {"a.docx": packed({"word/document.xml": xml})}
        )


def _tables(path: Path) -> Iterator[Grid]:
    return (block for block in docx_blocks(path) if not isinstance(block, str))
