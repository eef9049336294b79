"""File layouts of suites below a data folder: our own, and the unchanged ones of official repositories."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xling.core import languages
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

    def is_there(self, data: Path) -> bool:
        """Return whether the folder of the layout exists, which is a quick first check."""
        top = self.patterns[0].partition("/")[0]
        return "{" in top or (any(data.glob(top)) if _WILD.search(top) else (data / top).is_dir())

    def files(self, parts: Sequence[str], split: str, data: Path) -> tuple[Path, ...]:
        """Return the files of languages that are read together or, if they are missing, where they should be."""
        return tuple(path for part in parts for path in self._of_part(part, split, data))

    def fits(self, name: str) -> bool:
        """Return whether a path below the data folder belongs to the layout, by its first pattern."""
        return re.fullmatch(_expression(self.patterns[0]) + r"(\.gz)?", name) is not None

    def _of_part(self, part: str, split: str, data: Path) -> list[Path]:
        first: list[Path] = []
        for names in self._spellings(part):
            placed = [self._place(pattern, part, names, split, data) for pattern in self.patterns]
            paths = [path for first_part in placed for path in self._parts_of(first_part)]
            if all(path.is_file() for path in paths):
                return paths
            first = first or paths
        return first

    def _parts_of(self, path: Path) -> Iterator[Path]:
        """Yield a file, and the parts of its text after it."""
        yield path
        number = 2
        while self.part:
            later = path.with_name(path.name.replace(f"{self.part}1", f"{self.part}{number}"))
            if later == path or not later.is_file():
                return
            yield later
            number += 1

    def _spellings(self, part: str) -> Iterator[Mapping[str, str]]:
        """Yield names of a language, or of the two of a pair, as used in file names; ours first."""
        yield {}
        if not self.any_code or part in self.codes:
            return
        sides = part.split("-") if "{src}" in self.patterns[0] else [part]
        for names in itertools.islice(itertools.product(*map(languages.spellings, sides)), 1, None):
            yield dict(zip(sides, names, strict=True))

    def _place(self, pattern: str, part: str, names: Mapping[str, str], split: str, data: Path) -> Path:
        src, _, tgt = part.partition("-")
        values = {
            "lang": names.get(part, part),
            "code": names.get(part, self.codes.get(part, part)),
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
        """Yield path below the data folder and language of every file that the first pattern fits, also packed."""
        pattern = self.patterns[0].replace("{split}", self.split_codes.get(split, split))
        if not _PART.search(pattern) or not self.is_there(data):
            return
        form = re.compile(_expression(pattern) + r"(\.gz)?")
        by_code = {code: lang for lang, code in self.codes.items()}
        for glob in (_PART.sub(lambda part: part[2] or "*", pattern) + end for end in ("", ".gz")):
            for path in data.glob(glob):
                name = path.relative_to(data).as_posix()
                if match := form.fullmatch(name):
                    names = match.groupdict()
                    one = names.get("lang") or names.get("code")
                    sides = [one] if one else [names.get("src"), names.get("tgt")]
                    known = [by_code.get(code, languages.canonical(code)) for code in sides if code]
                    if len(known) == len(sides):
                        yield name, "-".join(known) if not one else by_code.get(one, one)


def _expression(pattern: str) -> str:
    """Convert a pattern to a regular expression with a named group for each placeholder."""
    seen: set[str] = set()

    def written(part: re.Match[str]) -> str:
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
        text += re.escape(pattern[ends[-1] : part.start()]) + written(part)
        ends.append(part.end())
    return text + re.escape(pattern[ends[-1] :])
