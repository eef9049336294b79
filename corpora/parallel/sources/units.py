"""Files whose units hold a text in each of some languages, and pairs of files whose texts have the same keys."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from xling.core.errors import UserError
from xling.corpora.parallel.sources import PairReader, PairSource, Row, SourceContext, drop_row, existing_path
from xling.corpora.parallel.sources.variants import check_languages, text_in_language
from xling.text.document import Ledger
from xling.text.files.compressed import MAX_CELL_BYTES

MAX_BYTES = 1 << 28
"""Of a file that is held in memory."""
Unit = tuple[str, Mapping[str, str] | None, str]
"""Name of a unit, its text by language code (None where it is damaged), and its document."""
UNFINISHED = "unfinished"
NO_LANGUAGE_NOTE = "units with a text of which the file says no language, taken for the other one of the pair"
Texts = dict[str, str]
"""Key -> text of a file."""


class UnitFile(PairReader):
    """Base of sources of one file with units in some languages.

    Attributes:
        scheme: of the URI.
    """

    scheme: ClassVar[str]

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of the one file that a URI names."""
        path = existing_path(rest)
        rows = lambda ledger: _rows(path, cls.units(path, ledger), context, ledger)  # noqa: E731 - binds the path
        return [PairSource(f"{cls.scheme}:{rest}", (path,), rows)]

    @staticmethod
    def units(path: Path, ledger: Ledger) -> Iterator[Unit]:
        """Yield the units of a file.

        Raises:
            UserError: it is damaged.
        """
        raise NotImplementedError


def _rows(path: Path, units: Iterable[Unit], context: SourceContext, ledger: Ledger) -> Iterator[Row]:
    codes, num_rows, num_units = set[str](), 0, 0
    for name, texts, doc in units:
        num_units += 1
        if texts is None or any(len(text) > MAX_CELL_BYTES for text in texts.values()):
            drop_row(ledger, "malformed", f"{path}/{name}", " | ".join((texts or {}).values())[:1000])
            continue
        codes.update(texts)
        src, tgt = (text_in_language(texts, lang, ledger) for lang in (context.src, context.tgt))
        if len(texts) == 2 and "" in texts and (src is None) != (tgt is None):
            src, tgt = (texts[""] if side is None else side for side in (src, tgt))
            ledger.count_event(NO_LANGUAGE_NOTE)
        if src and tgt:
            num_rows += 1
            yield src, tgt, doc
        else:
            drop_row(ledger, "missing_side", f"{path}/{name}", " | ".join(texts.values()))
    if not num_units:
        raise UserError(f"{path} holds no unit with text", fix="check the file and the scheme of source=")
    check_languages(path, codes, num_rows, context)


class TwoFiles(PairReader):
    """Base of sources of two files, whose texts with the same key are pairs.

    Attributes:
        scheme: of the URI.
        keys: what the keys are, in the plural, for messages.
    """

    scheme: ClassVar[str]
    keys: ClassVar[str]

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of two files.

        Raises:
            UserError: the URI does not name two, or one is missing.
        """
        given, uri = rest.split("+"), f"{cls.scheme}:{rest}"
        if len(given) != 2:
            raise UserError(f"source {uri!r} names {len(given)} files", f"two: {cls.scheme}:SRC+TGT")
        src, tgt = map(existing_path, given)
        return [PairSource(uri, (src, tgt), lambda ledger: cls.rows(src, tgt, ledger))]

    @staticmethod
    def texts(path: Path, ledger: Ledger) -> Texts:
        """Return key -> text of a file.

        Raises:
            UserError: it is damaged, or holds no text.
        """
        raise NotImplementedError

    @staticmethod
    def document_of(key: str) -> str:
        """Return the document that a key belongs to, "" where it tells none."""
        return ""

    @classmethod
    def rows(cls, src: Path, tgt: Path, ledger: Ledger) -> Iterator[Row]:
        """Yield what both files have, in the order of the source; what only one has is dropped by name.

        Raises:
            UserError: the files have no key in common.
        """
        src_texts, tgt_texts = cls.texts(src, ledger), cls.texts(tgt, ledger)
        if not src_texts.keys() & tgt_texts.keys():
            raise UserError(f"{src} and {tgt} share no {cls.keys}", f"two files with the same {cls.keys}")
        for key, text in src_texts.items():
            if key in tgt_texts:
                yield text, tgt_texts[key], cls.document_of(key)
            else:
                drop_row(ledger, "missing_side", f"{src}/{key}", text)
        for key, text in tgt_texts.items():
            if key not in src_texts:
                drop_row(ledger, "missing_side", f"{tgt}/{key}", text)


def read_small(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the bytes of a file that is held in memory.

    Raises:
        UserError: it is too large.
    """
    with path.open("rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UserError(f"{path} has over {max_bytes:,} bytes", fix="cut the file in two")
    return data
