"""Aligned text in one's own files, the source ``own`` of ``xling corpus nway``: which file is in which language.

Three forms are read below the data folder, in any depth, plain or compressed:

- line-aligned text, whose files or folders are named by language: ``news.sw`` beside ``news.en``, ``sw/a.txt`` beside
  ``en/a.txt``, ``sw.txt`` beside ``en.txt``; of as many languages as there are,
- tables and translation memories with a column for each language (``.tsv``, ``.csv``, ``.jsonl``, ``.parquet``,
  ``.tmx``), or without names of columns and named by two languages (``sw-en.tsv``),
- folders of ``xling corpus parallel`` and ``xling binarize``.

Files of a dev or test split are not read, so that they can be scored. A file without a counterpart is told.
"""

import itertools
import json
import operator
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote

import pyarrow.parquet as pq

from xling.core import languages
from xling.core.errors import UserError
from xling.core.language_tags import fit
from xling.core.languages import Language
from xling.core.output import manifest
from xling.core.output.command_result import tell
from xling.corpora.common import columns
from xling.corpora.common.json_rows import read_values
from xling.corpora.parallel.sources import PAIR_SOURCES, READ_STAGE, SourceContext, codes_of
from xling.text import vocab
from xling.text.document import Ledger
from xling.text.files import corpus_reader, shards
from xling.text.files.delimited import DELIMITERS, split_row
from xling.text.files.globs import plain_name

NAME = "own"
TABLES = (".tsv", ".csv", ".jsonl", ".parquet", ".tmx")
_READ_STAGES = ("corpus parallel", "binarize")
_BESIDE_PAIRS = ("rejects", "shards")
"""Folders of `xling corpus parallel` beside the line-aligned files: what was dropped, and the same pairs again."""
SCORED = re.compile(r"(^|[._/-])(dev|devtest|test|valid|validation)([._/-]|$)")
_MAX_NAMED = 5
MAX_HELD_OUT = 2000
"""Rows that are held out: more would cost training rows and make the intervals hardly smaller."""

Sides = dict[str, list[str | None]]


def files_of(data: Path, output: Path | None = None) -> list[Path]:
    """Return the files that may hold aligned text.

    Hidden ones and those of a dev or test split are left out, and so is what xling has made below the folder, but for
    sentence pairs and shards.

    Args:
        data: a folder, or one table, which is read whatever its name.
        output: what is being written; what stands beside it is of the same pipeline.
    """
    if data.is_file():
        return [data]
    ours = {path.parent.resolve() for path in data.rglob(manifest.FILE_NAME)}
    left_out = {folder for folder in ours if manifest.stage_of(folder) not in _READ_STAGES}
    left_out |= {folder / part for folder in ours for part in _BESIDE_PAIRS}
    if output is not None:
        parent = output.resolve().parent
        left_out.add(parent if data.resolve() in parent.parents else output.resolve())
    return [
        path
        for path in sorted(data.rglob("*"))
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(data).parts)
        and not SCORED.search(str(path.relative_to(data)))
        and left_out.isdisjoint(path.resolve().parents)
    ]


def rows(data: Path, codes: Sequence[str], output: Path | None = None) -> Iterator[Sides]:
    """Yield the aligned texts of each set of files, by language.

    Args:
        codes: the languages, by any usual code.
        output: as for `files_of`.

    Raises:
        UserError: fewer than two languages, or aligned files that differ in length.
    """
    langs = list(dict.fromkeys(languages.get(code) for code in codes))
    if len(langs) < 2:
        raise UserError(
            f"langs={','.join(codes)}: own files need two languages or more", "langs=sw,en", "name both"
        )
    shard_folders = [path.parent for path in data.rglob(manifest.FILE_NAME) if _is_binarized(path.parent)]
    for folder in shard_folders:
        yield from _rows_of_shards(folder, langs)
    aligned: dict[str, dict[str, Path]] = {}
    alone: list[Path] = []
    for path in files_of(data, output):
        if any(folder in path.parents for folder in shard_folders):
            continue
        if format_of(path) in TABLES:
            yield from _rows_of_table(path, langs)
        elif named := _language_and_stem(path.relative_to(data), langs):
            lang, stem = named
            if (other := aligned.setdefault(stem, {}).setdefault(lang.code, path)) != path:
                raise UserError(f"{other} and {path} are both {lang.name}", "one file", "rename one of them")
        elif (kind := format_of(path).removeprefix(".")) in PAIR_SOURCES:
            pair, source = f"{langs[0].code}-{langs[1].code}", quote(f"{kind}:{path}")
            reader = f"xling corpus parallel pair={pair} source={source} out=PAIRS"
            tell(f"corpus nway: {path} is not read; {reader} reads such files, then data=PAIRS")
    for by_lang in aligned.values():
        if len(by_lang) < 2:
            alone += by_lang.values()
            continue
        sides: Sides = {
            code: [line.strip() or None for line in corpus_reader.read_lines(path)]
            for code, path in by_lang.items()
        }
        if len({len(texts) for texts in sides.values()}) > 1:
            sizes = " but ".join(f"{by_lang[code]} has {len(texts):,} lines" for code, texts in sides.items())
            raise UserError(
                sizes,
                "line-aligned files: line 7 of one translates line 7 of the others",
                "align them first: xling corpus bitext pairs sentences of documents",
            )
        yield sides
    if alone:
        more = f" and {len(alone) - _MAX_NAMED} more" if len(alone) > _MAX_NAMED else ""
        names = ", ".join(str(path.relative_to(data)) for path in alone[:_MAX_NAMED])
        tell(f"corpus nway: not read, for no file of the same name is in another language: {names}{more}")


def format_of(path: Path) -> str:
    """Return the ending of a file's name in small letters, without one of compression."""
    return Path(plain_name(path.name)).suffix.lower()


def _language_and_stem(path: Path, langs: Sequence[Language]) -> tuple[Language, str] | None:
    """Return the language of a text file and what its name has in common with its counterparts, or None."""
    plain = plain_name(path.name)
    name = plain.removesuffix(".txt")
    for head, separator, code in _ends(name):
        # Of other files than plain text the ending itself is the code: news.sw, but not news-sw.html.
        if (name != plain or separator == ".") and (lang := _language(code, langs)):
            return lang, str(path.parent / f"{head}{separator}*")
    for place, part in enumerate(path.parts[:-1] if name != plain else ()):
        if lang := _language(part, langs):
            return lang, "/".join([*path.parts[:place], "*", *path.parts[place + 1 : -1], name])
    return None


def _ends(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield the ways to cut a code off the end of a name; all of it last, as ``swh_Latn`` is."""
    for separator in (".", "-", "_"):
        if separator in name:
            yield name.rpartition(separator)
    yield "", "", name


def _language(code: str, langs: Sequence[Language]) -> Language | None:
    return max((lang for lang in langs if fit(code, lang)), key=lambda lang: fit(code, lang), default=None)


def _rows_of_table(path: Path, langs: Sequence[Language]) -> Iterator[Sides]:
    """Yield the pairs of a table: of each language in its columns with the first one there."""
    kind = format_of(path).removeprefix(".")
    parts = re.split(r"[._-]", plain_name(path.name).removesuffix(f".{kind}"))
    in_name = list(dict.fromkeys(lang for part in parts if (lang := _language(part, langs))))
    named = langs if kind == "tmx" else _in_columns(path, kind, langs)
    if len(named) < 2:
        named = in_name if len(in_name) == 2 else []
    if not named:
        codes = [lang.code for lang in langs]
        tell(
            f"corpus nway: {path} is not read: neither columns nor name say two of the languages "
            f"{', '.join(codes)}; for pairs, write {codes[0]} and {codes[1]} above the columns of text"
        )
    for other in named[1:]:
        ledger = Ledger()
        (source,) = PAIR_SOURCES[kind].open(str(path), SourceContext(named[0], other))
        try:
            pairs = [(src.strip() or None, tgt.strip() or None) for src, tgt, _ in source.rows(ledger)]
        except UserError as error:
            if kind != "tmx" or len(langs) == 2:
                raise _for_folder(error, named[0].code, other.code) from None
            tell(f"corpus nway: {error.given}")
            continue
        dropped = {reason: n for (stage, reason), n in ledger.dropped.items() if stage == READ_STAGE}
        if dropped:
            told = ", ".join(f"{number:,} {reason}" for reason, number in dropped.items())
            tell(f"corpus nway: {path}, {source.uri.partition(':')[0]} rows left out: {told}")
        if pairs:
            yield {named[0].code: [src for src, _ in pairs], other.code: [tgt for _, tgt in pairs]}


def _for_folder(error: UserError, src: str, tgt: str) -> UserError:
    """Return a question for columns with what answers it here, where no URI with columns can be given."""
    if "#" not in error.fix:
        return error
    return UserError(
        error.given,
        f"columns that are called {src} and {tgt}",
        f"write these two names into the first row; or {error.fix} in the setting source= of "
        f"xling corpus parallel pair={src}-{tgt} out=PAIRS, then data=PAIRS",
    )


def _in_columns(path: Path, kind: str, langs: Sequence[Language]) -> list[Language]:
    """Return the languages that name a column of a table, in the order given."""
    if kind == "parquet":
        headers = [list(pq.read_schema(path).names)]
    else:
        first = next(corpus_reader.read_lines(path, keep_bad=True))
        record = next(iter(read_values(first, Ledger())), None) if kind == "jsonl" else None
        inner = record.get("translation", record) if isinstance(record, dict) else None
        headers = [list(inner)] if isinstance(inner, dict) else []
        if kind in ("tsv", "csv"):
            headers = [split_row(first, each)[0] for each in ("\t" if kind == "tsv" else DELIMITERS)]
    named = [[lang for lang in langs if _has_column(header, lang)] for header in headers]
    return max(named, key=len, default=[])


def _has_column(header: Sequence[str], lang: Language) -> bool:
    return columns.find_language(header, lang, codes_of(lang), ()) >= 0


def _is_binarized(folder: Path) -> bool:
    return manifest.stage_of(folder) == "binarize"


def _rows_of_shards(folder: Path, langs: Sequence[Language]) -> Iterator[Sides]:
    """Yield the training pairs of a folder of ``xling binarize`` as text."""
    codes = {lang.code for lang in langs}
    processor = vocab.load_processor(folder)
    for pair in shards.list_pairs(folder):
        sides = pair.split("-")
        if not codes.issuperset(sides):
            continue
        opened = {side: shards.open_shard(folder / pair / f"train.{pair}.{side}") for side in sides}
        yield {side: [*_texts(shard, processor.decode)] for side, shard in opened.items()}


def _texts(shard: shards.Shard, decode: Callable[[list[int]], str]) -> Iterator[str | None]:
    """Yield the text of each item; ids of fairseq are one above those of the vocabulary, and </s> ends an item."""
    for start, size in zip(shard.starts().tolist(), shard.sizes.tolist(), strict=True):
        ids = shard.tokens[start : start + size - 1].tolist()
        yield decode([max(each - 1, 0) for each in ids]).strip() or None


def split_held_out(
    sides: Mapping[str, list[str | None]], share: float, held_before: Sequence[Sides]
) -> tuple[Sides, Sides]:
    """Split aligned texts into those to train on and those to score.

    A row is chosen by the digest of its text in the first of its languages in alphabetical order, so that a text that
    occurs again goes the same way.

    Args:
        sides: aligned texts by language.
        held_before: what was held out of other sets.
    """
    before = {text for held in held_before if held for text in held[min(held)]}
    keys = sides[min(sides)]
    hashes = [_hash(key) if key else 1.0 for key in keys]
    num_wanted = sum(each < share for each in hashes)
    # A smaller share of later sets takes no text that an earlier one has left in training.
    share *= min(1.0, max(0, MAX_HELD_OUT - len(before)) / max(num_wanted, 1))
    is_held = [each < share or key in before for key, each in zip(keys, hashes, strict=True)]
    kept = {code: [*itertools.compress(texts, map(operator.not_, is_held))] for code, texts in sides.items()}
    return kept, {code: [*itertools.compress(texts, is_held)] for code, texts in sides.items()}


def draw_rows(sides: Sides, share: float) -> Sides:
    """Return a share of aligned rows; the rows of a smaller share are among those of a larger one."""
    is_drawn = [_hash(str(number)) < share for number in range(len(sides[min(sides)]))]
    return {code: [*itertools.compress(texts, is_drawn)] for code, texts in sides.items()}


def _hash(text: str) -> float:
    """Return a number from 0 to 1 that depends on the text alone."""
    return zlib.crc32(text.encode("utf-8", "replace")) / (1 << 32)


def write_held_out(folder: Path, held: Sequence[Sides]) -> dict[str, int]:
    """Write the texts of each language beside those of the first one, and return their numbers by pair.

    Each text is there once, since the nearest of two equal ones is a matter of chance.
    """
    folder.mkdir()
    pivot = next((lang for sides in held for lang in ("en", *sides) if lang in sides), "")
    counts: dict[str, int] = {}
    for lang in dict.fromkeys(code for sides in held for code in sides if code != pivot):
        pairs = [
            pair
            for sides in held
            if lang in sides and pivot in sides
            for pair in zip(sides[lang], sides[pivot], strict=True)
        ]
        unique = {
            tgt: (src, tgt) for src, tgt in {src: (src, tgt) for src, tgt in pairs if src and tgt}.values()
        }
        if unique:
            lines = [json.dumps({lang: src, pivot: tgt}, ensure_ascii=False) for src, tgt in unique.values()]
            (folder / f"{lang}-{pivot}.test.jsonl").write_text(
                "".join(f"{line}\n" for line in lines), encoding="utf-8"
            )
            counts[f"{lang}-{pivot}"] = len(lines)
    return counts
