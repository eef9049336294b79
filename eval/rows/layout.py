"""File layouts of suites below a data folder: our own, and the unchanged ones of official repositories."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.eval.kinds.base import Example

Row = tuple[Path, int, Example]
"""Where a reader found an example: file, line number from 1, example."""

Reader = Callable[[tuple[Path, ...]], Iterator[Row]]

_WILD = re.compile(r"[*?]")
_PART = re.compile(r"\{(\w+)\}|([*?])")
_NAMES = {
    "split": r"\w+",
    "lang": "[A-Za-z_-]+",
    "code": "[A-Za-z_-]+",
    "src": "[A-Za-z_]+",
    "tgt": "[A-Za-z_]+",
}


class LineOfWords(int):
    """Line number of the first word of a row that has a line for each of its words; ``of_words`` has them all."""

    of_words: tuple[int, ...]

    def __new__(cls, of_words: Iterable[int]) -> LineOfWords:  # noqa: D102
        numbers = tuple(of_words)
        line = super().__new__(cls, numbers[0])
        line.of_words = numbers
        return line


def line_of_label(line: int, row: Example, label: str) -> int:
    """Return the line of the word that has a label, or that of the row."""
    for number, tag in zip(getattr(line, "of_words", ()), row.label, strict=False):
        if label in (tag, tag[2:]):
            return int(number)
    return int(line)


def own_remedy(setting: str, path: Path, lang: str, split: str) -> str:
    """Return how rows of one's own are scored that lie at the place of a published file.

    Args:
        setting: the one that names own files of this kind, or "".
    """
    if not setting:
        return f"move it away and write its rows as rows/SUITE/{lang}.{split}.jsonl, see docs/eval.md"
    role = split if split in ("train", "dev") else "test"
    return f"name it in place of the suite: {setting}={path} {role}.{lang}={path}, see docs/guides/own_test_set.md"


@dataclass(frozen=True)
class Layout:
    """A naming scheme of the files of a suite.

    Args:
        patterns: paths below the data folder with ``{lang}``, ``{code}``, ``{split}`` and, for a pair,
            ``{src}`` and ``{tgt}``; ``*`` and ``?`` match any text in a name. Parallel files in order.
        reader: reader of their format; default: the suite's.
        codes: our language code -> the code in file names, if they differ.
        split_codes: our split name -> the one in file names, if they differ.
        any_code: try every code of a language, for both sides of a pair too.
        part: text in the names that counts up from 1 in the files of one text that is split in parts, or "".
    """

    patterns: tuple[str, ...]
    reader: Reader | None = None
    codes: Mapping[str, str] = field(default_factory=dict)
    split_codes: Mapping[str, str] = field(default_factory=dict)
    any_code: bool = True
    part: str = ""

    def folder_exists(self, data: Path) -> bool:
        """Return whether the folder of the layout exists, which is a quick first check."""
        top = self.patterns[0].partition("/")[0]
        return "{" in top or (any(data.glob(top)) if _WILD.search(top) else (data / top).is_dir())

    def files(self, langs: Sequence[str], split: str, data: Path) -> tuple[Path, ...]:
        """Return the files of languages that are read together or, if they are missing, where they should be."""
        return tuple(path for lang in langs for path in self._of_language(lang, split, data))

    def matches(self, name: str) -> bool:
        """Return whether a path below the data folder belongs to the layout, by its first pattern."""
        return re.fullmatch(_expression(self.patterns[0]) + r"(\.gz)?", name) is not None

    def _of_language(self, lang: str, split: str, data: Path) -> list[Path]:
        expected: list[Path] = []
        for names in self._spellings(lang):
            of_patterns = [self._path(pattern, lang, names, split, data) for pattern in self.patterns]
            paths = [
                path for path_of_pattern in of_patterns for path in self._with_later_parts(path_of_pattern)
            ]
            if all(path.is_file() for path in paths):
                return paths
            expected = expected or paths
        return expected

    def _with_later_parts(self, path: Path) -> Iterator[Path]:
        """Yield a file, and the parts of its text after it."""
        yield path
        number = 2
        while self.part:
            next_part = path.with_name(path.name.replace(f"{self.part}1", f"{self.part}{number}"))
            if next_part == path or not next_part.is_file():
                return
            yield next_part
            number += 1

    def _spellings(self, lang: str) -> Iterator[Mapping[str, str]]:
        """Yield names of a language, or of the two of a pair, as used in file names; ours first."""
        yield {}
        if not self.any_code or lang in self.codes:
            return
        sides = lang.split("-") if "{src}" in self.patterns[0] else [lang]
        for names in itertools.islice(itertools.product(*map(languages.spellings, sides)), 1, None):
            yield dict(zip(sides, names, strict=True))

    def _path(self, pattern: str, lang: str, names: Mapping[str, str], split: str, data: Path) -> Path:
        src, _, tgt = lang.partition("-")
        values = {
            "lang": names.get(lang, lang),
            "code": names.get(lang, self.codes.get(lang, lang)),
            "split": self.split_codes.get(split, split),
            "src": names.get(src, self.codes.get(src, src)),
            "tgt": names.get(tgt, self.codes.get(tgt, tgt)),
        }
        name = pattern.format_map(values)
        if _WILD.search(name):
            paths = sorted(data.glob(name)) or sorted(data.glob(f"{name}.gz"))
            return paths[0] if paths else data / name
        path = data / name
        packed = path.with_name(path.name + ".gz")
        return packed if packed.is_file() and not path.is_file() else path

    def languages(self, split: str, data: Path) -> Iterator[tuple[str, str]]:
        """Yield path below the data folder and language of every file that the first pattern matches, also packed."""
        pattern = self.patterns[0].replace("{split}", self.split_codes.get(split, split))
        if not _PART.search(pattern) or not self.folder_exists(data):
            return
        expression = re.compile(_expression(pattern) + r"(\.gz)?")
        by_code = {code: lang for lang, code in self.codes.items()}
        for glob in (_PART.sub(lambda part: part[2] or "*", pattern) + end for end in ("", ".gz")):
            for path in data.glob(glob):
                name = path.relative_to(data).as_posix()
                if match := expression.fullmatch(name):
                    names = match.groupdict()
                    single = names.get("lang") or names.get("code")
                    sides = [single] if single else [names.get("src"), names.get("tgt")]
                    langs = [by_code.get(code, languages.canonical(code)) for code in sides if code]
                    if len(langs) == len(sides):
                        yield name, "-".join(langs) if not single else by_code.get(single, single)


def _expression(pattern: str) -> str:
    """Convert a pattern to a regular expression with a named group for each placeholder."""
    seen: set[str] = set()

    def group_of(part: re.Match[str]) -> str:
        name = part[1]
        if not name:
            return "[^/]*" if part[2] == "*" else "[^/]"
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return f"(?P<{name}>{_NAMES[name]})"

    ends = [0]
    text = ""
    for part in _PART.finditer(pattern):
        text += re.escape(pattern[ends[-1] : part.start()]) + group_of(part)
        ends.append(part.end())
    return text + re.escape(pattern[ends[-1] :])


def second_file(own: Path, published: Path, rows: str) -> UserError:
    """Return the error for rows in our own format beside published ones, of which one would be passed over."""
    return UserError(
        f"{own} and {published} both have {rows}", "one of them", "move the other out of the data folder"
    )
