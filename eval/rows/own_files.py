"""Settings that name own labelled files in place of a suite, and which rows each of the files holds."""

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.core.settings.config import from_dict, read_yaml
from xling.core.settings.values import code_of, code_of_side
from xling.eval.kinds.base import KINDS
from xling.eval.rows.own_columns import TAG, Reading
from xling.eval.rows.own_markup import ENDINGS
from xling.eval.rows.readers import lines
from xling.eval.rows.wikiann import tell_once

KIND_OF = {shape.own_setting: shape.name for shape in KINDS.values() if shape.own_setting}
"""Setting that names the files -> kind of their rows."""
SPLITS = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("dev", "valid", "validation", "val", "development", "testa"), "dev"),
    **dict.fromkeys(("test", "testing", "testb", "devtest"), "test"),
}
"""Word in a file's name -> the split of its rows."""
GUIDE = "docs/guides/own_test_set.md"
_FORMATS = ("tsv", "tab", "csv", "txt", "json", "jsonl", "ndjson", "conll", "conllu", "bio", "iob", "gz",
            "tmx", "xlf", "xliff", "xml")  # fmt: skip
_WORD = re.compile("[A-Za-z]{2,3}[-_](?:[A-Z][a-z]{3}|[A-Z]{2})(?![A-Za-z])|[^-_ ()]+")
"""A part of a file's name: a code with a script or a region, or what stands between hyphens, underscores and blanks."""
_TREEBANK = "ud"
"""Word behind the language in names of Universal Dependencies: ``fr_gsd-ud-test.conllu``."""
_NO_LANGUAGES = ("src", "tok")
"""Words of such names that are codes of languages, too: source and tokenised, not Sardinian and Toki Pona."""
_MAX_CODE = 3  # letters of the longest plain code; what is longer is a name, or says its script or region
Files = tuple[str, ...] | dict[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class OwnFiles:
    """Settings that name own labelled files in place of a suite.

    Attributes:
        tags: own files with a tag for each word, as columns or JSON lines: files, globs, a folder, or one YAML file
            with these settings. Names such as ``sw.test.conll`` say language and split.
        classes: own files with a class for each text: TSV, CSV or JSON lines.
        pairs: own files with a class for each pair of texts.
        retrieval: own files of texts and translations: a table, TMX, XLIFF, XML of WMT, or two line-aligned files.
        mt: own files to translate, with references, as for ``retrieval``.
        train: own files to train on; ``train.sw=FILES`` names their language, which is ``source`` otherwise.
        dev: own files to choose the epoch on, as ``train``.
        test: own files to score: ``test.sw=FILES``.
        columns: columns of own files, as ``columns.label=topic`` or ``columns.tag=4`` (numbers from 1): token, tag,
            text, label, text_a, text_b.
        header: whether the first line of a table names its columns; auto finds out.
        scheme: how the tags of own files mark spans: ``BIO`` (IOB1 and IOB2), ``BIOES``, ``IO``, ``plain`` for tags
            that are no spans, such as parts of speech; auto finds out.
        labels: closed list of the labels of own files; default: those that are in them.
        name: name of the own suite in tables; default: ``my_tags`` and the like.
    """

    tags: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    retrieval: tuple[str, ...] = ()
    mt: tuple[str, ...] = ()
    train: Files = ()
    dev: Files = ()
    test: Files = ()
    columns: dict[str, str] = field(default_factory=dict)
    header: Literal["auto", "true", "false"] = "auto"
    scheme: Literal["auto", "BIO", "BIOES", "IO", "plain"] = "auto"
    labels: tuple[str, ...] = ()
    name: str = ""

    @classmethod
    def completed(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return settings with an empty suite where own files stand for it."""
        suite = next((f.name for f in fields(cls) if f.name in ("suites", "suite")), "")
        has_files = any(data.get(name) for name in _FILES)
        return {**data, suite: ""} if suite and has_files and suite not in data else data


def settings_given(cfg: OwnFiles) -> list[str]:
    """Return the names of the settings of own files that are not at their defaults."""
    return [f.name for f in fields(OwnFiles) if getattr(cfg, f.name) != getattr(OwnFiles(), f.name)]


def beside_yaml(own: OwnFiles) -> OwnFiles:
    """Return the settings in the YAML file that stands in place of files; its paths start at its folder."""
    for kind in KIND_OF:
        files = getattr(own, kind)
        if len(files) == 1 and files[0].endswith((".yaml", ".yml")):
            path = Path(files[0])
            values = read_yaml(path)
            if twice := [name for name in settings_given(own) if name in values and name != kind]:
                raise UserError(f"{twice[0]}= is in {path} too", "one place", "leave one of the two out")
            beside = from_dict(OwnFiles, {**values, kind: values.get(kind, ())}, str(path))
            changes: dict[str, Any] = {kind: ()}
            for name in settings_given(beside):
                value = getattr(beside, name)
                changes[name] = _below(path.parent, value) if name in _FILES else value
            own = of_kind(replace(own, **changes), kind)
    return own


def of_kind(own: OwnFiles, kind: str) -> OwnFiles:
    """Return settings whose files are of a kind, if ``train``, ``dev`` and ``test`` alone name files."""
    if any(getattr(own, each) for each in KIND_OF):
        return own
    by_lang = [_by_language(getattr(own, name)) for name in ("train", "dev", "test")]
    changes: dict[str, Any] = {
        kind: tuple(file for each in by_lang for files in each.values() for file in files)
    }
    return replace(own, **changes)


_FILES = (*KIND_OF, "train", "dev", "test")


def _below(folder: Path, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _below(folder, files) for name, files in value.items()}
    return tuple(str(folder / file) for file in value)


def _by_language(files: Files) -> dict[str, tuple[str, ...]]:
    return dict(files) if isinstance(files, Mapping) else {"": files} if files else {}


# Which rows a file holds.


def resolved(
    own: OwnFiles, kind_setting: str, source: str, split: str
) -> dict[tuple[str, str], tuple[Path, ...]]:
    """Return the files by language and split: as the settings say, else as their names say."""
    has_sides = reading_of(own, KIND_OF[kind_setting]).has_sides
    files_of_rows: dict[tuple[str, str], list[Path]] = {}
    placed: set[Path] = set()
    for each in ("train", "dev", "test"):
        for code, patterns in _by_language(getattr(own, each)).items():
            for path in _expanded(patterns, each):
                lang = code_of_side(code) if code else _language_of(path, has_sides, source, each)
                files_of_rows.setdefault((lang, each), []).append(path)
                placed.add(path.resolve())
    for path in _expanded(getattr(own, kind_setting), kind_setting):
        if path.resolve() not in placed:
            its_split = _split_of(path, split)
            lang = _language_of(path, has_sides, source, its_split)
            files_of_rows.setdefault((lang, its_split), []).append(path)
    if has_sides:
        files_of_rows = _joined_sides(files_of_rows)
    return {key: tuple(dict.fromkeys(paths)) for key, paths in files_of_rows.items()}


def _joined_sides(files_of_rows: Mapping[tuple[str, str], list[Path]]) -> dict[tuple[str, str], list[Path]]:
    """Return the files by pair of languages: those with one text a line belong together, two by two."""
    joined: dict[tuple[str, str], list[Path]] = {}
    sides: dict[str, list[tuple[str, Path]]] = {}
    for (lang, split), paths in files_of_rows.items():
        for path in paths:
            if "-" in lang:
                joined.setdefault((lang, split), []).append(path)
            elif _is_two_columns(path):
                raise UserError(
                    f"{path}: the languages of its two columns",
                    "a pair",
                    "test.sw-en=FILE, or sw-en in the name",
                )
            else:
                sides.setdefault(split, []).append((lang, path))
    for split, of_split in sides.items():
        if len(of_split) != 2 or of_split[0][0] == of_split[1][0]:
            names = ", ".join(f"{path} ({lang})" for lang, path in of_split)
            raise UserError(
                f"{names}: texts of one language",
                "two files, one in each language",
                "test.sw-en=FILE,FILE names them",
            )
        (source, source_path), (target, target_path) = of_split
        joined.setdefault((f"{source}-{target}", split), []).extend((source_path, target_path))
    return joined


def _is_two_columns(path: Path) -> bool:
    first = next((line for _, line in lines(path)), "")
    is_table = path.suffix.lower() in (".tsv", ".csv", *ENDINGS, ".xml")
    return is_table or "\t" in first or first.lstrip("\ufeff").startswith("{")


def _expanded(patterns: Sequence[str], setting: str) -> Iterator[Path]:
    """Yield the files of paths, globs and folders.

    Raises:
        UserError: there is none.
    """
    for pattern in patterns:
        path = Path(pattern)
        if path.is_file():
            yield path
            continue
        inside = sorted(path.iterdir()) if path.is_dir() else map(Path, sorted(glob.glob(pattern)))  # noqa: PTH207 - also absolute patterns
        matches = [each for each in inside if each.is_file() and not each.name.startswith(".")]
        matches = [each for each in matches if each.suffix not in (".yaml", ".yml", ".md")]
        if not matches:
            raise UserError(f"{setting}={pattern}: there is no such file", fix="check the path")
        yield from matches


def _words_of(path: Path) -> list[list[str]]:
    """Return the parts of a name between dots, each as its words: ``sw_test.tsv`` gives ``[[sw, test]]``."""
    parts = [part for part in path.name.split(".") if part and part.lower() not in _FORMATS]
    return [[part] if is_language(part) else _WORD.findall(part) for part in parts]


def _split_of(path: Path, default: str) -> str:
    words = [SPLITS[word.lower()] for words in _words_of(path) for word in words if word.lower() in SPLITS]
    return words[-1] if words else default


def _language_of(path: Path, has_sides: bool, source: str, split: str) -> str:
    """Return the language or the pair that a name tells, else the source.

    A code counts as a part between dots, at its end, or beside a word for a split: ``my_topics.tsv`` is not in Burmese.
    A name, or a code with a script or a region, counts everywhere.

    Raises:
        UserError: the name has several.
    """
    parts = _words_of(path)
    langs: list[str] = []
    for words in parts:
        is_told = len(words) == 1 or all(is_language(word) for word in words)
        for number, word in enumerate(words):
            beside = words[max(0, number - 1) : number + 2]
            is_last = number == len(words) - 1
            is_treebank = number == 0 and _TREEBANK in words[1:]
            is_sure = is_told or is_last or is_treebank or len(word) > _MAX_CODE
            if is_language(word) and (is_sure or any(each.lower() in SPLITS for each in beside)):
                langs.append(code_of(word))
    if has_sides and len(langs) == 3 and langs[2] in langs[:2]:
        return langs[2]
    if has_sides and len(langs) == 2:
        return "-".join(langs)
    if len(set(langs)) > 1:
        raise UserError(
            f"{path}: {' or '.join(dict.fromkeys(langs))}?",
            "one language in the name",
            "test.LANG=FILE, train.LANG=FILE",
        )
    if not langs and not has_sides:
        name = languages.get(source).name if is_language(source) else source
        tell_once(
            f"{path}: no language in its name, so it is read as {name}: {split}.LANG=FILE tells another"
        )
    return langs[0] if langs else source


def is_language(word: str) -> bool:
    """Return whether a word of a file's name is the code of a language, or its name."""
    if word.lower() in (*SPLITS, *_NO_LANGUAGES) or not word.replace("_", "").replace("-", "").isalpha():
        return False
    try:
        languages.get(code_of(word))
    except UserError:
        return False
    return True


def reading_of(own: OwnFiles, kind: str) -> Reading:
    """Return how the files of the settings are read.

    Raises:
        UserError: a column that rows of this kind do not have.
    """
    wanted = KINDS[kind].own_columns
    for column in own.columns:
        if column not in wanted:
            error = unknown("column", column, wanted)
            raise UserError(f"columns.{column}: {error.given}", error.valid, error.fix)
    if own.scheme != "auto" and TAG not in wanted:
        raise UserError(f"scheme={own.scheme}", "tags=FILES beside it", "leave out scheme=")
    return Reading(wanted, own.columns, {"auto": None, "true": True, "false": False}[own.header])
