"""Suites: their definition, their registry, and the reading of their rows from a data folder.

A suite is an entry of ``eval/suites/table.yaml``; files in that folder read the rows of odd ones. A table
``<suite>.tsv`` in the folder may record files with their digests (lang, split, path below the data folder, number of
rows, SHA-256), which a file must have. Others are found by the suite's path pattern and enter the signature with their
own digest.
"""

import csv
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.core.output.command_result import tell
from xling.core.output.manifest import check_file
from xling.core.registry import Registry
from xling.eval.kinds.base import KINDS, Kind, is_texts, of_bioes
from xling.eval.kinds.base import Example as Example
from xling.eval.rows.layout import Layout as Layout
from xling.eval.rows.layout import Reader as Reader
from xling.eval.rows.layout import Row as Row
from xling.eval.rows.layout import line_of_label, own_remedy, second_file
from xling.eval.rows.wikiann import digest_without_marks, without_language_marks
from xling.text.document import loads
from xling.text.files import corpus_reader
from xling.text.files.compressed import MAX_CELL_BYTES


@dataclass(frozen=True)
class SuiteFile:
    """A file with a recorded digest; ``path`` is relative to the data folder, ``num_rows`` are examples.

    ``official`` is the digest of the same rows as their authors wrote them under the same name, if it is another.
    """

    lang: str
    split: str
    path: str
    num_rows: int
    sha256: str
    official: str = ""


@dataclass(frozen=True)
class Online:
    """Location of a suite on the Hugging Face Hub.

    Args:
        name: dataset name.
        config: configuration per language; ``{lang}`` and ``{code}`` are filled in.
        to_example: one record, with class numbers as names, and its index -> example.
        revision: git commit, since a branch moves.
        splits: our split name -> theirs, if they differ.
    """

    name: str
    config: str
    to_example: Callable[[Mapping[str, Any], int], Example]
    revision: str
    splits: Mapping[str, str] = field(default_factory=lambda: {"dev": "validation"})


@dataclass(frozen=True)
class Suite:
    """A test of cross-lingual transfer.

    Args:
        name: registry name.
        kind: name in `xling.eval.kinds.base.KINDS`: the shape of its rows.
        languages: the languages of the published suite; averages of published systems are over these.
        splits: split names it has.
        labels: closed set of class names, of entity types (with ``scheme``) or of tags; empty when open.
        scheme: ``IOB2`` when tags are spans, else "".
        reader: reads the rows of one language and split from its files.
        patterns: paths below the data folder with ``{lang}``, ``{code}``, ``{split}``, ``{src}``, ``{tgt}``; in order.
        codes: our language code -> the code in file names, where they differ.
        metrics: names in `xling.eval.metrics.METRICS`, the main one first; default: those of the kind.
        protocol: what a score means, printed under its table.
        train_from: suite whose training and dev rows are used by a suite without its own.
        translated_train: training rows other than English are machine translations of the English ones.
        synthetic: rows are generated; every table says so.
        extra: languages that are not part of the published average.
        pivot: set when there is one file per language: ``de`` pairs de with the pivot, ``de-fr`` de with fr.
        split_codes: our split name -> the one in file names, where they differ.
        keep: (example, split) -> whether the row is in the split, when one file holds several splits.
        of_language: (example, language) -> whether the row is read in it, when one file holds several languages.
        official: further layouts: those of official repositories, whose clones lie in the data folder as they are.
        test_sets: further test splits, named by ``test_set=``; default: ``test``, else the first that is present.
        has_answers: whether a file has the answers of its rows; some benchmarks publish their test rows without.
        placeholder: what stands in place of a text that is missing; tables say how many rows have it.
        reading: what rows depend on beside their files, part of their digest.
        remedy: what to do about missing rows, if it is not to put a file at one of the patterns.
        scores_dev: dev rows are scored where there are no test rows.
    """

    name: str
    kind: str
    languages: tuple[str, ...]
    splits: tuple[str, ...]
    reader: Reader
    patterns: tuple[str, ...]
    licence: str
    citation: str
    url: str
    protocol: str
    metrics: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    scheme: Literal["", "IOB2"] = ""
    codes: Mapping[str, str] = field(default_factory=dict)
    files: tuple[SuiteFile, ...] = ()
    train_from: str = ""
    translated_train: bool = False
    online: Online | None = None
    synthetic: bool = False
    extra: tuple[str, ...] = ()
    pivot: str = ""
    split_codes: Mapping[str, str] = field(default_factory=dict)
    keep: Callable[[Example, str], bool] | None = None
    of_language: Callable[[Example, str], bool] | None = None
    official: tuple[Layout, ...] = ()
    test_sets: tuple[str, ...] = ()
    has_answers: Callable[[Path], bool] | None = None
    placeholder: str = ""
    reading: str = ""
    remedy: str = ""
    scores_dev: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", self.metrics or self.shape.metrics)

    @property
    def metric(self) -> str:
        """Name of the metric that tables and comparisons use."""
        return self.metrics[0]

    @property
    def all_splits(self) -> tuple[str, ...]:
        """Splits and further test splits."""
        return (*self.splits, *self.test_sets)

    @property
    def shape(self) -> Kind:
        """Kind of the suite: the form of its rows and answers."""
        return KINDS[self.kind]

    @property
    def has_one_class(self) -> bool:
        """Whether the rows are single texts with a class."""
        return self.shape.analysed_as == "classes" and tuple(self.shape.texts) == ("text",)

    @property
    def task(self) -> str:
        """Name of the fine-tuning task, or ""; see `xling.eval.kinds.base.Kind`."""
        return self.shape.task

    @property
    def sizes(self) -> dict[tuple[str, str], int]:
        """Number of examples per recorded (lang, split)."""
        return {(f.lang, f.split): f.num_rows for f in self.files}

    def recorded(self, lang: str, split: str) -> list[SuiteFile]:
        """Return the files of a language and split whose digests are known, in reading order."""
        return [
            f for each in self._read_languages(lang) for f in self.files if (f.lang, f.split) == (each, split)
        ]

    def paths(self, lang: str, split: str, data: Path) -> tuple[Path, ...]:
        """Return the paths of a language and split; if files are missing, where they should be."""
        recorded = tuple(data / f.path for f in self.recorded(lang, split))
        complete = len(recorded) == len(self._read_languages(lang)) * len(self.patterns)
        if complete and all(p.is_file() for p in recorded):
            return recorded
        for layout in self._layouts(data):
            layout_paths = layout.files(self._read_languages(lang), split, data)
            if all(p.is_file() for p in layout_paths):
                return layout_paths
        expected = self._own_layout.files(self._read_languages(lang), split, data)
        rows = self._rows_file(lang, split, data)
        return (rows,) if rows.is_file() else recorded if complete else expected

    def _rows_file(self, lang: str, split: str, data: Path) -> Path:
        """Return the file in our own format, named by any code of the language."""
        codes = (lang,) if self.pairs else languages.spellings(lang)
        names = [data / ROWS / self.name / f"{code}.{split}.jsonl" for code in codes]
        return next((path for path in names if path.is_file()), names[0])

    def read(self, paths: tuple[Path, ...], data: Path) -> Iterator[Row]:
        """Yield the rows of files, read by the reader of the layout that they are in."""
        names = [path.relative_to(data).as_posix() for path in paths[:1] if path.is_relative_to(data)]
        for layout in self.official:
            if layout.reader and any(layout.matches(name) for name in names):
                return layout.reader(paths)
        return self.reader(paths)

    @property
    def _own_layout(self) -> Layout:
        """The layout of the suite's own patterns; where it has a code for a language, no other name counts."""
        return Layout(self.patterns, None, self.codes, self.split_codes, any_code=not self.pairs)

    def _layouts(self, data: Path) -> list[Layout]:
        """Return the layouts whose folders exist."""
        return [layout for layout in (self._own_layout, *self.official) if layout.folder_exists(data)]

    @property
    def pairs(self) -> bool:
        """Whether its languages are, or may be, pairs."""
        return bool(self.pivot) or self.shape.pairs_languages

    def _read_languages(self, lang: str) -> tuple[str, ...]:
        """Return the languages whose files are read together: one, or both sides of a pair."""
        if not self.pivot:
            return (lang,)
        source, _, target = lang.partition("-")
        return (source, target or self.pivot)

    def has(self, lang: str, split: str, data: Path) -> bool:
        """Return whether the files of a language and split are in the data folder, with their answers."""
        if self.of_language and lang not in (*self.languages, *self.extra):
            return self._rows_file(lang, split, data).is_file()
        return all(p.is_file() and self._is_answered(p, data) for p in self.paths(lang, split, data))

    def _is_answered(self, path: Path, data: Path) -> bool:
        return self.has_answers is None or self.is_own_format(path, data) or self.has_answers(path)

    def is_own_format(self, path: Path, data: Path) -> bool:
        """Return whether a file has rows in our own JSON format."""
        return data / ROWS in path.parents


ROWS = "rows"
"""Folder for rows in one format for every suite: ``rows/<suite>/<lang>.<split>.jsonl`` with id, fields, label."""

OWN_SUITES: dict[str, Suite] = {}
"""Suites of own files by name, which `xling.eval.rows.own` makes; they are found, but not listed."""


class SuiteRegistry(Registry[Suite]):
    """The published suites, and those of own files."""

    def __getitem__(self, name: str) -> Suite:
        return OWN_SUITES[name] if name in OWN_SUITES else super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        return name in OWN_SUITES or super().__contains__(name)


SUITES: Registry[Suite] = SuiteRegistry("suite", "xling.eval.suites", "suite")


def suites() -> Registry[Suite]:
    """Return the registry of all suites."""
    return SUITES


def recorded_files(module: str) -> tuple[SuiteFile, ...]:
    """Load the table of digests beside a suite's module, which is in a package; call it with ``__name__``."""
    package, _, name = module.rpartition(".")
    lines = (files(package) / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(lines, delimiter="\t"))
    return tuple(
        SuiteFile(r["lang"], r["split"], r["path"], int(r["num_rows"]), r["sha256"], r.get("official") or "")
        for r in rows
    )


def data_folder(data: str | Path | None = None) -> Path:
    """Return the folder given, or the one that XLING_DATA names.

    Raises:
        UserError: neither is given, or it is not a folder.
    """
    folder = str(data or os.environ.get("XLING_DATA", ""))
    if not folder:
        raise UserError(
            "no data folder is given",
            "data=FOLDER or the variable XLING_DATA",
            "see docs/eval.md for its layout",
        )
    if not Path(folder).is_dir():
        raise UserError(
            f"data folder {folder} does not exist", fix="give the folder that holds the suites' files"
        )
    return Path(folder)


def load(suite: Suite, lang: str, split: str, data: Path) -> list[Example]:
    """Return the rows of one language and split from the data folder, checked.

    Raises:
        UserError: language or split missing, digest differs, label outside the set, id twice, no rows.
    """
    paths = suite.paths(lang, split, data)
    for path in paths:
        if not path.is_file() or not suite.has(lang, split, data):
            raise _missing(suite, lang, split, data, path)
    if (own := suite._rows_file(lang, split, data)).is_file() and own not in paths:
        raise second_file(own, paths[0], f"the {split} rows of {suite.name} in {lang}")
    check_digests(suite, lang, split, data, paths)
    is_own_format = suite.is_own_format(paths[0], data)
    rows_read = check_rows(suite, read_rows(paths, suite.shape) if is_own_format else suite.read(paths, data))
    kept = (r for r in rows_read if is_own_format or suite.keep is None or suite.keep(r, split))
    kept_rows = [r for r in kept if is_own_format or suite.of_language is None or suite.of_language(r, lang)]
    if not kept_rows:
        raise UserError(f"{paths[0]} has no rows", f"the {split} rows of {suite.name} in {lang}")
    return without_language_marks(kept_rows, paths[0]) if "tokens" in suite.shape.fields else kept_rows


def read_rows(paths: tuple[Path, ...], kind: Kind) -> Iterator[Row]:
    """Yield rows in our own JSON format, one object per line, as `xling.eval.rows.fetch` or a user writes them.

    Raises:
        UserError: a line is not JSON in UTF-8, or a field or the label is not as the kind says.
    """
    for number, line in enumerate(corpus_reader.any_lines(paths[0], MAX_CELL_BYTES), 1):
        if line:
            try:
                record = loads(line)
                fields = {name: frozen(value) for name, value in record["fields"].items()}
                row = Example(record["id"], fields, frozen(record["label"]))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise UserError(
                    f"{paths[0]}:{number}: not a row: {error}",
                    '{"id": ..., "fields": {...}, "label": ...}',
                    "correct the line",
                ) from None
            if misfit := _misfit(row, kind):
                raise UserError(
                    f"{paths[0]}:{number}: {misfit[0]}", misfit[1], f"see the fields of {kind.name} rows"
                )
            yield paths[0], number, row


def row_line(row: Example) -> str:
    """Return a row as a line of our own JSON format."""
    return (
        json.dumps({"id": row.id, "fields": dict(row.fields), "label": row.label}, ensure_ascii=False) + "\n"
    )


def _misfit(row: Example, kind: Kind) -> tuple[str, str] | None:
    """Return which part of a row does not match its kind, and what would; None if all does."""
    row_id: Any = row.id
    if not isinstance(row_id, str):
        return f"id {row.id!r}", 'a text, for example "id": "1"'
    for name, field_type in kind.fields.items():
        value, is_list = row.fields.get(name), field_type is tuple
        if not (is_texts(value) if is_list else isinstance(value, str)):
            valid = "a list of texts" if is_list else "a text"
            if name not in row.fields:
                return f"field {name!r} is not there", f"{valid}; the fields are {', '.join(kind.fields)}"
            return f"field {name!r} is {row.fields[name]!r}"[:80], valid
    return kind.label_mismatch(row) if kind.is_label(row) else (f"label {row.label!r}"[:60], kind.label)


def frozen(value: Any) -> Any:
    """Convert lists to tuples, at any depth, as every reader does."""
    return tuple(map(frozen, value)) if isinstance(value, (list, tuple)) else value


def check_rows(suite: Suite, rows: Iterable[Row]) -> Iterator[Example]:
    """Pass rows on, refusing an id seen twice and a label outside the suite's set."""
    line_of_id: dict[str, int] = {}
    allowed, are_bioes = set(suite.labels), False
    for path, line, example in rows:
        if suite.scheme and is_texts(example.label):
            tags = of_bioes(example.label, allowed)
            if tags != tuple(example.label) and not are_bioes:
                are_bioes = True
                tell(
                    f"xling: {path} has tags of BIOES ({', '.join(sorted({*example.label} - {*tags}))}): read as IOB2"
                )
            example = replace(example, label=tags) if are_bioes else example
        if example.id in line_of_id:
            raise UserError(
                f"{path}:{line}: id {example.id!r} is there already in line {line_of_id[example.id]}",
                "one row per id",
                "delete one of the two rows",
            )
        line_of_id[example.id] = line
        for label in suite.shape.closed_labels(suite, example) if allowed else ():
            if label not in allowed:
                error = unknown("label", label, suite.labels)
                raise UserError(
                    f"{path}:{line_of_label(line, example, label)}: {error.given}", error.valid, error.fix
                )
        yield example


def data_digest(suite: Suite, lang: str, split: str, data: Path) -> str:
    """Return the SHA-256 of the digests of the files of a language and split, for signatures."""
    paths = suite.paths(lang, split, data)
    parts = [check_file(path) for path in paths]
    parts += [suite.reading] if suite.reading and not suite.is_own_format(paths[0], data) else []
    return parts[0] if len(parts) == 1 else hashlib.sha256("".join(parts).encode()).hexdigest()


def languages_at(suite: Suite, split: str, data: Path) -> list[str]:
    """Return the languages with files of a split in the data folder: the published ones first, then others."""
    langs = {f.lang for f in suite.files if f.split == split and suite.has(f.lang, split, data)}
    langs |= {lang for lang in (*suite.languages, *suite.extra) if suite.has(lang, split, data)}
    langs |= _found_languages(suite, split, data)
    langs.discard(suite.pivot)
    order = {lang: i for i, lang in enumerate((*suite.languages, *suite.extra))}
    return sorted(langs, key=lambda lang: (order.get(lang, len(order)), lang))


def _found_languages(suite: Suite, split: str, data: Path) -> set[str]:
    """Return languages whose files match a layout; a recorded file belongs to its language under any name."""
    language_of = {file.path: file.lang for file in suite.files}
    codes = [
        path.name.removesuffix(f".{split}.jsonl")
        for path in (data / ROWS / suite.name).glob(f"*.{split}.jsonl")
    ]
    langs = set(codes if suite.pairs else map(languages.canonical, codes))
    first_pattern = suite.patterns[0]
    own_layouts = [suite._own_layout] if "{lang}" in first_pattern or "{src}" not in first_pattern else []
    for layout in (*own_layouts, *suite.official):
        for name, code in layout.languages(split, data):
            # In our own file names such as en-sw.train.en the whole prefix is a pair.
            lang = language_of.get(name, code if suite.shape.pairs_languages else languages.canonical(code))
            if suite.has(lang, split, data):
                langs.add(lang)
    return langs


def scored_split(suite: Suite, lang: str, data: Path, test_set: str = "") -> str:
    """Return the split that is scored: test if available, else dev (tables say which).

    Args:
        lang: language or pair.
        test_set: one of the suite's several test sets; default: ``test``, else the first that is present.

    Raises:
        UserError: the language has neither, or the suite no such test set.
    """
    if test_set:
        check_test_set(suite, test_set)
        if suite.has(lang, test_set, data):
            return test_set
        raise _missing(suite, lang, test_set, data, suite.paths(lang, test_set, data)[0])
    for split in (*scorable_splits(suite), *(["dev"] if suite.scores_dev else [])):
        if split in suite.all_splits and suite.has(lang, split, data):
            return split
    split = "test" if "test" in suite.splits else suite.splits[-1]
    raise _missing(suite, lang, split, data, suite.paths(lang, split, data)[0])


def scorable_splits(suite: Suite) -> tuple[str, ...]:
    """Return the suite's test splits, the default one first."""
    return (*(["test"] if "test" in suite.splits else []), *suite.test_sets)


def check_test_set(suite: Suite, test_set: str) -> None:
    """Refuse a test set that the suite does not have (UserError)."""
    if test_set not in (known := scorable_splits(suite)):
        raise unknown(f"test set of {suite.name}", test_set, known)


def _missing(suite: Suite, lang: str, split: str, data: Path, path: Path) -> UserError:
    if split not in (known := suite.all_splits) and not suite.remedy:
        return unknown(f"split of {suite.name}", split, known)
    available = languages_at(suite, split, data)
    if suite.remedy:
        here = f"those in {' '.join(available)}" if available else ""
        return UserError(f"suite {suite.name!r} has no {split} rows in {lang!r}", here, suite.remedy)
    fix = f"put the file there, or choose among: {' '.join(available)}" if available else "put the file there"
    if suite.train_from and split == "train":
        fix += f"; {suite.name} trains on {suite.train_from}"
    problem = f"no file {path}"
    if path.is_file():
        problem, fix = (
            f"{path} has no answers",
            "put a file with answers there, or dev rows beside it to be scored",
        )
    return UserError(f"suite {suite.name!r} has no {split} rows in {lang!r}: {problem}", fix=fix)


def check_digests(suite: Suite, lang: str, split: str, data: Path, paths: tuple[Path, ...]) -> None:
    """Refuse a file at a recorded place that is not the recorded one (UserError)."""
    for known, path in zip(suite.recorded(lang, split), paths, strict=False):
        if data / known.path != path:
            continue
        actual = check_file(path)
        is_marked = "tokens" in suite.shape.fields and digest_without_marks(path) == known.sha256
        if actual not in (known.sha256, known.official) and not is_marked:
            role = "test" if suite.scores_dev and split == "dev" else split
            raise UserError(
                f"{path} has SHA-256 {actual[:16]}..., another file than the one recorded for {suite.name}",
                f"{known.sha256[:16]}...",
                f"restore the file; to score your own, {own_remedy(suite.shape.own_setting, path, lang, role)}",
            )
