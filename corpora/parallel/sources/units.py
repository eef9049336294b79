"""Files whose units hold a text in each of some languages, and pairs of files whose texts have the same keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from xling.core.errors import UserError
from xling.corpora.parallel.sources import PairSource, Row, SourceContext, drop_row, existing_path
from xling.corpora.parallel.sources.variants import check_languages, text_in_language
from xling.text.document import Ledger
from xling.text.files.compressed import MAX_CELL_BYTES

MAX_BYTES = 1 << 28
"""Of a file that is held in memory."""
Unit = tuple[str, Mapping[str, str] | None, str]
"""Name of a unit, its text by language code (None where it is damaged), and its document."""
UNFINISHED = "unfinished"
Texts = dict[str, str]
"""Key -> text of a file."""


def unit_source(
    scheme: str, rest: str, context: SourceContext, read: Callable[[Path, Ledger], Iterator[Unit]]
) -> list[PairSource]:
    """Return one source of the one file that a URI names."""
    path = existing_path(rest)
    return [
        PairSource(
            f"{scheme}:{rest}", (path,), lambda ledger: _rows(path, read(path, ledger), context, ledger)
        )
    ]


def _rows(path: Path, units: Iterable[Unit], context: SourceContext, ledger: Ledger) -> Iterator[Row]:
    codes, num_rows, num_units = set[str](), 0, 0
    for name, texts, doc in units:
        num_units += 1
        if texts is None or any(len(text) > MAX_CELL_BYTES for text in texts.values()):
            drop_row(ledger, "malformed", f"{path}/{name}", " | ".join((texts or {}).values())[:1000])
            continue
        codes.update(texts)
        src, tgt = (text_in_language(texts, lang) for lang in (context.src, context.tgt))
        if src and tgt:
            num_rows += 1
            yield src, tgt, doc
        else:
            drop_row(ledger, "missing_side", f"{path}/{name}", " | ".join(texts.values()))
    if not num_units:
        raise UserError(f"{path} holds no unit with text", fix="check the file and the scheme of source=")
    check_languages(path, codes, num_rows, context)


def two_files(scheme: str, rest: str) -> tuple[Path, Path]:
    """Return the two files that a URI names.

    Raises:
        UserError: not two, or one is missing.
    """
    given = rest.split("+")
    if len(given) != 2:
        raise UserError(f"source '{scheme}:{rest}' names {len(given)} files", f"two: {scheme}:SRC+TGT")
    return existing_path(given[0]), existing_path(given[1])


def joined_rows(
    files: tuple[Path, Path], read: Callable[[Path, Ledger], Texts], keys: str, ledger: Ledger
) -> Iterator[tuple[str, str, str]]:
    """Yield key and both texts of what two files have, in the order of the first; the others are dropped by name.

    Args:
        files: of the source and the target.
        read: key -> text of a file.
        keys: what the keys are, in the plural, for the message.
        ledger: takes what only one file has.

    Raises:
        UserError: the files have no key in common.
    """
    src, tgt = files
    src_texts, tgt_texts = read(src, ledger), read(tgt, ledger)
    if not src_texts.keys() & tgt_texts.keys():
        raise UserError(f"{src} and {tgt} share no {keys}", f"two files with the same {keys}")
    for key, text in src_texts.items():
        if key in tgt_texts:
            yield key, text, tgt_texts[key]
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
