"""Own labelled files as a suite: how they are read, and the suite that is made of them.

``xling eval tags=FILES`` and its like name files in place of a suite (`xling.eval.rows.own_files`). Labels and columns
are read from the files and printed. The suite is a `xling.eval.rows.suite.Suite` like the published ones, so controls,
intervals and reports are the same. A run keeps its definition in ``own.yaml``, by which later commands find them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from unicodedata import normalize

import yaml

from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.core.output import digests, manifest
from xling.core.output.manifest import write_atomic
from xling.core.settings.config import from_dict, read_yaml, to_dict
from xling.eval.kinds.base import KINDS, Example
from xling.eval.rows import own_formats
from xling.eval.rows.layout import LineOfWords, Row
from xling.eval.rows.own_columns import LABEL, TAG, OwnRow, OwnTable, Reading
from xling.eval.rows.own_files import (
    GUIDE,
    KIND_OF,
    OwnFiles,
    beside_yaml,
    is_language,
    of_kind,
    reading_of,
    resolved,
    settings_given,
)
from xling.eval.rows.suite import OWN_SUITES, Suite, data_folder, suites
from xling.eval.rows.tag_schemes import iob2_of, marks_of, scheme_of
from xling.eval.rows.wikiann import tell_once

DEFINITION = "own.yaml"
MAX_NAMED = 60
"""Labels that a line names."""
MAX_SHOWN_CHARS = 60  # of a label, where a text was taken for one
NO_GOLD = "-"
_HIDDEN = "-1"
_NUMBER = re.compile(r"-?\d+(\.\d*)?")
_FRACTION = re.compile(r"-?\d+\.\d*")
AnyConfig = TypeVar("AnyConfig", bound=OwnFiles)


@dataclass(frozen=True)
class OwnSuite(Suite):
    """A suite of own files: ``own`` has the files by language and split, ``reading`` how they are read.

    ``marks`` says how their tags mark spans, see `xling.eval.rows.tag_schemes.marks_of`.
    """

    own: Mapping[tuple[str, str], tuple[Path, ...]] = field(default_factory=dict)
    marks: str = ""

    def paths(self, lang: str, split: str, data: Path) -> tuple[Path, ...]:
        """Return the files of a language and split."""
        return self.own.get((lang, split), (Path(f"{split}={lang}"),))

    def is_own_format(self, path: Path, data: Path) -> bool:
        """Return False: own files are read as they are, wherever they lie."""
        return False

    @property
    def pairs(self) -> bool:
        """Whether its languages are pairs."""
        return any("-" in lang for lang, _ in self.own)


def with_own_suite(
    cfg: AnyConfig, suite_setting: str, split: str, known_labels: Sequence[str] = ()
) -> AnyConfig:
    """Return the settings of a command with the suite of its own files in place, which is registered and described.

    Args:
        cfg: settings; without own files they are returned as they are.
        split: the split of a file whose name tells none.
        known_labels: labels of the model, where there are no training rows.

    Raises:
        UserError: a setting without files, files of two kinds, files beside a suite, or what `define` raises.
    """
    given = settings_given(cfg)
    if not given:
        return cfg
    named = getattr(cfg, suite_setting)
    own = beside_yaml(OwnFiles(**{f.name: getattr(cfg, f.name) for f in fields(OwnFiles)}))
    words = (named,) if isinstance(named, str) else tuple(named)
    has_kind = any(getattr(own, kind) for kind in KIND_OF)
    if len(words) == 1 and words[0] in KIND_OF and not has_kind:  # xling eval tags train=FILE test.sw=FILE
        own, named = of_kind(own, words[0]), named[:0]
    names = [own.name, *(f"my_{kind}" for kind in KIND_OF if getattr(own, kind))]
    if named and not set(named if isinstance(named, tuple) else (named,)).issubset(names):
        shown = named if isinstance(named, str) else ",".join(named)
        if files := [word for word in words if Path(word).exists()]:
            kind = next((word for word in words if word in KIND_OF), "")
            raise UserError(
                f"{' '.join(words)}: what has each row of {files[0]}?",
                ", ".join(f"{each}=FILES" for each in KIND_OF),
                f"{kind or 'classes'}={','.join(files)}" + ("" if kind else ", or another of these"),
            )
        valid = f"a suite or own files, whose kind is one of {', '.join(KIND_OF)}"
        raise UserError(f"{suite_setting}={shown} and {given[0]}=", valid, "leave one of them out")
    source = str(getattr(cfg, "source", "en"))
    suite = define(own, languages.canonical(source), split, tuple(known_labels))
    OWN_SUITES[suite.name] = suite
    langs = {lang for lang, its_split in suite.own if its_split == "train"}
    changed: dict[str, Any] = {suite_setting: suite.name if isinstance(named, str) else (suite.name,)}
    if langs and languages.canonical(source) not in langs:
        if len(langs) > 1:
            raise UserError(
                f"source={source}", ", ".join(sorted(langs)), "name the language of the training rows"
            )
        (changed["source"],) = langs
        tell_once(f"source={changed['source']}: the language of the training rows")
    return replace(cfg, **changed)


def data_of(data: str | Path | None, names: Iterable[str]) -> Path:
    """Return `data_folder`, or the current folder where all suites are of own files and none is given."""
    return Path.cwd() if not data and all(name in OWN_SUITES for name in names) else data_folder(data)


def labels_of_model(folder: Path) -> tuple[str, ...]:
    """Return the labels that a model of ``xling finetune`` has learned; none for another folder."""
    path = folder / manifest.FILE_NAME
    if str(folder) == "." or not path.is_file():
        return ()
    manifest_of_model = manifest.read(folder)
    if manifest_of_model.stage != "finetune":
        return ()
    if "labels" in manifest_of_model.counts:
        return tuple(manifest_of_model.counts["labels"])
    name = manifest_of_model.config.get("suite", "")
    return suites()[name].labels if name in suites() else ()


def define(own: OwnFiles, source: str, split: str, known_labels: tuple[str, ...] = ()) -> OwnSuite:
    """Return the suite of own files, and print how each was read and the labels in it.

    Args:
        source: language of rows whose file does not tell it.
        split: split of rows whose file does not tell it.
        known_labels: labels of the model that is scored, in place of those of training rows.

    Raises:
        UserError: no files or those of two kinds, a file that cannot be read, a label that is not in ``labels``.
    """
    kinds = [name for name in KIND_OF if getattr(own, name)]
    if len(kinds) != 1:
        given = " and ".join(f"{name}=" for name in kinds or settings_given(own))
        raise UserError(given, f"one of {', '.join(f'{name}=FILES' for name in KIND_OF)}", f"see {GUIDE}")
    files = resolved(own, kinds[0], source, split)
    if split == "test" and not any(its in ("dev", "test") for _, its in files):
        raise UserError(
            f"{', '.join(str(path) for paths in files.values() for path in paths)}: training rows, and none to score",
            "test.LANG=FILES or dev=FILES beside them",
            "name other files than those of train=",
        )
    stats = [(path, digests.identity(path)) for paths in files.values() for path in paths]
    suite, told = _defined(
        json.dumps(to_dict(own), sort_keys=True), kinds[0], tuple(files.items()), tuple(stats), known_labels
    )
    tell_once(told)
    return suite


@lru_cache(maxsize=64)
def _defined(
    settings: str, kind_setting: str, files: tuple[Any, ...], stats: Any, known_labels: tuple[str, ...]
) -> tuple[OwnSuite, str]:
    own = from_dict(OwnFiles, json.loads(settings))
    kind = KIND_OF[kind_setting]
    reading = reading_of(own, kind)
    has_tags = TAG in reading.wanted
    name = own.name or f"my_{kind_setting}"
    if name in suites() and name not in OWN_SUITES:
        raise UserError(f"name={name} is a published suite", "another name", f"name=my_{name}")
    tables = {key: _tables(paths, reading, key[0]) for key, paths in files}
    of_paths = {path: table.rows for by_path in tables.values() for path, table in by_path.items()}
    scheme = "" if not has_tags else own.scheme if own.scheme != "auto" else scheme_of(of_paths)
    counts = {key: _label_counts(by_path, scheme) for key, by_path in tables.items()}
    train = sum((count for (_, split), count in counts.items() if split == "train"), Counter[str]())
    labels = own.labels or (known_labels if not train else ()) or tuple(sorted(set().union(*counts.values())))
    for by_path in tables.values():
        _check_labels(
            by_path, scheme, labels, f"the model's: {', '.join(labels)}" if known_labels and not train else ""
        )
    _check_learned(tables, counts, train)
    told = [
        _file_line(path, key, table) for key, by_path in tables.items() for path, table in by_path.items()
    ]
    told += _label_lines(counts, train, labels, scheme) if labels else []
    told += _overlap_lines(tables) + (_repeated_lines(tables) if KINDS[kind].compares_words else [])
    langs = {split: [lang for lang, its in tables if its == split] for split in ("train", "dev", "test")}
    scored = langs["test"] or langs["dev"] or langs["train"]
    how = {"columns": own.columns, "header": own.header, "scheme": scheme, "labels": labels}
    suite = OwnSuite(
        name=name,
        kind=kind,
        languages=tuple(dict.fromkeys(scored)),
        extra=tuple(dict.fromkeys(lang for lang, _ in tables if lang not in scored)),
        splits=tuple(split for split in ("train", "dev", "test") if langs[split]),
        reader=_Reader(kind, reading, scheme, {paths: _sides(lang) for (lang, _), paths in files}),
        patterns=tuple(dict.fromkeys(str(path) for path in of_paths)),
        licence="that of your files",
        citation="your own files",
        url=GUIDE,
        protocol=f"own files, {KINDS[kind].label}" + (f"; {scheme} tags" if scheme else ""),
        metrics=("tag_accuracy",) if scheme == "plain" else (),  # seqeval's F1 takes MD and CD for one tag
        labels=tuple(labels),
        scheme="IOB2" if scheme not in ("", "plain") else "",
        marks=marks_of(
            (tag for rows in of_paths.values() for row in rows for tag in row.cells.get(TAG, ())), scheme
        ),
        own={
            key: tuple(by_path) if not reading.has_sides else dict(files)[key]
            for key, by_path in tables.items()
        },
        reading=json.dumps(how, sort_keys=True),
        scores_dev=False,
        remedy=f"name your files: train=FILES dev=FILES test.LANG=FILES, see {GUIDE}",
    )
    return suite, "\n".join(told)


def _tables(paths: Sequence[Path], reading: Reading, lang: str) -> dict[Path, OwnTable]:
    """Return the table of each file; two files of two texts are one table."""
    if reading.has_sides and len(paths) > 2:
        raise UserError(
            f"{', '.join(map(str, paths))}: {len(paths)} files of {lang}", "one table, or two files"
        )
    if reading.has_sides:
        return {paths[0]: own_formats.read_table(paths, reading, _sides(lang))}
    return {path: own_formats.read_table([path], reading) for path in paths}


def _sides(lang: str) -> tuple[str, ...]:
    """Return the two languages of a pair, else none."""
    return tuple(lang.split("-")) if "-" in lang else ()


@dataclass(frozen=True)
class _Reader:
    """Reader of the rows of own files; ids are numbers from 0."""

    kind: str
    reading: Reading
    scheme: str
    sides: Mapping[tuple[Path, ...], tuple[str, ...]]

    def __call__(self, paths: tuple[Path, ...]) -> Iterator[Row]:
        parts = [paths] if self.reading.has_sides else [(path,) for path in paths]
        number = 0
        for part in parts:
            for row in own_formats.read_table(part, self.reading, self.sides.get(paths, ())).rows:
                line = LineOfWords(row.lines) if len(row.lines) > 1 else row.lines[0]
                cells = dict(row.cells)
                if TAG in cells:
                    cells[TAG] = iob2_of(cells[TAG], self.scheme)
                yield part[0], line, Example(str(number), *KINDS[self.kind].row_of_cells(cells, number))
                number += 1


def _parts(row: OwnRow, scheme: str) -> list[str]:
    """Return the labels in a row: its class, its tags, or the types of its spans."""
    if TAG not in row.cells:
        return [row.cells[LABEL]] if LABEL in row.cells else []
    tags = iob2_of(row.cells[TAG], scheme)
    return list(tags) if scheme == "plain" else [tag[2:] for tag in tags if tag.startswith("B-")]


def _label_counts(tables: Mapping[Path, OwnTable], scheme: str) -> Counter[str]:
    return Counter(part for table in tables.values() for row in table.rows for part in _parts(row, scheme))


def _check_labels(tables: Mapping[Path, OwnTable], scheme: str, labels: Sequence[str], valid: str) -> None:
    for path, table in tables.items():
        for row in table.rows:
            for part in set(_parts(row, scheme)).difference(labels):
                tags = row.cells.get(TAG, ())
                line = next(
                    (n for n, tag in zip(row.lines, tags, strict=False) if tag[2:] == part or tag == part),
                    row.lines[0],
                )
                error = unknown("label", part, labels)
                raise UserError(f"{path}:{line}: {error.given}", valid or error.valid, error.fix)


def _check_learned(
    tables: Mapping[tuple[str, str], Mapping[Path, OwnTable]],
    counts: Mapping[tuple[str, str], Counter[str]],
    train: Counter[str],
) -> None:
    """Raise UserError if files to be scored have labels, and the training rows none of them."""
    for key, count in counts.items():
        if train and count and key[1] != "train" and not train.keys() & count.keys():
            raise UserError(
                f"{', '.join(map(str, tables[key]))}: no label of it is in the training rows: "
                f"{', '.join(sorted(count)[:5])}",
                ", ".join(sorted(train)[:MAX_NAMED]),
                "write labels alike in all files, in the same case",
            )


# What is printed.


def _file_line(path: Path, key: tuple[str, str], table: OwnTable) -> str:
    lang, split = key
    names = " and ".join(languages.get(side).name if is_language(side) else side for side in lang.split("-"))
    what = "sentences" if TAG in table.rows[0].cells else "rows"
    return f"{path}: {split} rows in {lang} ({names}): {len(table.rows)} {what}; {table.facts}"


def _label_lines(
    counts: Mapping[tuple[str, str], Counter[str]], train: Counter[str], labels: Sequence[str], scheme: str
) -> list[str]:
    """Return the labels with their counts, those that the training rows lack, and those that differ by case alone."""
    total = sum(counts.values(), Counter[str]())
    named = ", ".join(f"{_shown(label)} ({total[label]})" for label in labels[:MAX_NAMED])
    more = f" and {len(labels) - MAX_NAMED} more" if len(labels) > MAX_NAMED else ""
    lines = [f"{len(labels)} labels: {named}{more}" + (f"; {scheme} tags" if scheme else "")]
    if NO_GOLD in labels:
        lines.append(
            f"{total[NO_GOLD]} rows have the label {NO_GOLD}: in SNLI and MNLI they have none; leave them out"
        )
    if _HIDDEN in labels and all(map(str.isdigit, {*labels} - {_HIDDEN})):
        lines.append(
            f"{total[_HIDDEN]} rows have the label {_HIDDEN}: many data sets hide labels by it; leave them out"
        )
    if len(labels) == 1:
        lines.append("all rows have one label: nothing can be learned from them, and every answer is right")
    if any(_FRACTION.fullmatch(label) for label in labels):
        lines.append("labels are numbers: each is a class of its own, not a value on a scale")
    if train and (unlearned := [label for label in labels if not train[label]]):
        lines.append(f"not in the training rows, so never answered: {', '.join(unlearned[:MAX_NAMED])}")
    plain = {
        label: " ".join(_UNSEEN.sub("", normalize("NFKC", label.replace("_", " "))).casefold().split())
        for label in labels
    }
    if alike := [label for label in labels if [*plain.values()].count(plain[label]) > 1]:
        lines.append(f"labels that differ by case, blanks or the form of accents alone: {', '.join(alike)}")
    return lines + _doubtful_lines(labels, total)


def _shown(label: str) -> str:
    return label if len(label) <= MAX_SHOWN_CHARS else f"{label[:MAX_SHOWN_CHARS]}..."


_MISSING = frozenset(["na", "nan", "null", "none", "n/a", "unknown", "?"])
"""What programs write in lower case for a label that is missing."""
_LISTED = re.compile(r"[,;|]\s*")
_LIST = re.compile(r"\[.*\]|\{.*\}")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
"""Characters without a form of their own, such as the space of no width."""


def _doubtful_lines(labels: Sequence[str], total: Mapping[str, int]) -> list[str]:
    """Return what labels seem to be that they are not taken for: equal numbers, missing ones, several at once."""
    values: dict[float, list[str]] = {}
    for label in filter(_NUMBER.fullmatch, labels):
        values.setdefault(float(label), []).append(label)
    lines = [f"labels that are the same number: {', '.join(e)}" for e in values.values() if len(e) > 1]
    lines += [
        f"{total[label]} rows have the label {label!r}, a class like any other; leave them out if it is missing there"
        for label in labels
        if label.lower() in _MISSING
    ]
    if lists := list(filter(_LIST.fullmatch, labels)):
        lines.append(f"labels that are written as lists, each a class of its own: {', '.join(lists[:9])}")
    if several := [e for e in labels if len(parts := _LISTED.split(e)) > 1 and {*parts} & {*labels}]:
        lines.append(f"labels with several others in them, each a class of its own: {', '.join(several[:9])}")
    return lines


_LEARNED_FROM = [("train", "training"), ("dev", "dev")]


def _overlap_lines(tables: Mapping[tuple[str, str], Mapping[Path, OwnTable]]) -> list[str]:
    """Return how many rows to be scored or chosen by are training rows, too, and how many scored are dev rows."""

    def texts(row: OwnRow) -> tuple[Any, ...]:
        return tuple(cell for column, cell in row.cells.items() if column not in (LABEL, TAG))

    known: dict[str, set[tuple[Any, ...]]] = {"train": set(), "dev": set(), "test": set()}
    for (_, split), by_path in tables.items():
        known[split] |= {texts(row) for table in by_path.values() for row in table.rows}
    lines = []
    for (lang, split), by_path in tables.items():
        rows = [row for table in by_path.values() for row in table.rows]
        for earlier, name in {"dev": [("train", "training")], "test": _LEARNED_FROM}.get(split, []):
            if shared := sum(texts(row) in known[earlier] for row in rows):
                lines.append(f"{shared} of {len(rows)} {split} rows in {lang} stand in the {name} rows, too")
    return lines


def _repeated_lines(tables: Mapping[tuple[str, str], Mapping[Path, OwnTable]]) -> list[str]:
    """Return how many rows to be found have the text of another row, of which one alone counts as right."""
    lines = []
    for (lang, split), by_path in tables.items():
        texts = Counter(row.cells["text_b"] for table in by_path.values() for row in table.rows)
        if repeated := sum(count for count in texts.values() if count > 1):
            lines.append(
                f"{repeated} of {texts.total()} {split} rows in {lang} have a translation that stands in another row, "
                "too: of equal texts one alone counts as found"
            )
    return lines


# The definition that a run keeps.


def write_definition(folder: Path, suite: OwnSuite) -> None:
    """Write ``own.yaml`` into the folder of a run: the files with their whole paths, and how they are read."""
    how = json.loads(suite.reading)
    setting = next(name for name, kind in KIND_OF.items() if kind == suite.kind)
    by_split: dict[str, dict[str, list[str]]] = {}
    for (lang, split), paths in suite.own.items():
        by_split.setdefault(split, {})[lang] = [str(path.absolute()) for path in paths]
    kept = {name: value for name, value in how.items() if value}
    definition = {"name": suite.name, setting: [], **by_split, **kept}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / DEFINITION, yaml.safe_dump(definition, allow_unicode=True, sort_keys=False))


_OF_RUNS: dict[str, OwnSuite] = {}
"""Definition in a run -> its suite."""


def register_suite_of(run: Path) -> None:
    """Register the suite of the ``own.yaml`` in the folder of a run, if there is one."""
    path = run / DEFINITION
    if not path.is_file():
        return
    values = read_yaml(path)
    definition = f"{path.absolute()} {json.dumps(values, sort_keys=True)}"
    if definition not in _OF_RUNS:
        setting = next(name for name in KIND_OF if name in values)
        own = beside_yaml(from_dict(OwnFiles, {setting: [str(path)]}))
        files = resolved(own, setting, "en", "test")
        stats = tuple((each, digests.identity(each)) for paths in files.values() for each in paths)
        settings = json.dumps(to_dict(own), sort_keys=True)
        _OF_RUNS[definition], _ = _defined(settings, setting, tuple(files.items()), stats, ())
    suite = _OF_RUNS[definition]
    OWN_SUITES[suite.name] = suite
