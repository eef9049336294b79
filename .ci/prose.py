"""Check that documents, docstrings, comments and messages are in plain words.

The rules, each with its limit:

- sentences: at most 35 words, and a median of at most 18 in every file,
- phrases: none of `PHRASES`; each comes with the words to use instead,
- docstrings: the first line names the thing or says what it does (`OPENINGS`),
- errors: a `UserError` says what is valid or how to fix it,
- names: no variable is called ``found`` or ``made`` (`NAMES`).

Run ``python .ci/prose.py`` for all files, or ``python .ci/prose.py --show FILE ...`` for some.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MARKDOWN = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/**/*.md")
CODE = ("xling/*.py", "xling/*/**/*.py", "corpora/**/*.py", "eval/**/*.py", "slurm/**/*.py", ".ci/*.py")
LONGEST = 35  # words in a sentence
MEDIAN = 18  # words in the middle sentence of a file
ENOUGH = 5  # sentences in a file whose median counts

PHRASES = {
    r"that (is|are|was|were) none\b": "name what is missing",
    r"that (has|have|had) none\b": "without ...",
    r"what is no\b": "an unknown ..., an invalid ...",
    r"(?<!there )(?<!there, )\bis no (?!(longer|more|less|different|better|worse|way)\b)[a-z]": "is not a ...",
    r"(told|said) in (a|one) line": "a one-line error",
    r"\b(stands?|stood|standing) where\b": "name the place",
    r"\bto be had\b": "available",
    r"\bnone can be had\b": "not available",
    r"\bat hand\b": "available, present",
    r"\b(anew|afresh)\b": "again",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bwholly\b": "completely",
    r"\b(thereof|therein|wherein|whither|whence|hitherto|thereby|henceforth|heretofore)\b": "shorter words",
    r"\bsees to it\b": "ensures",
}
OPENINGS = re.compile(r"^(What|Of|Told|As|So that|That|Where|Such|Without|Cause|Its?)\b")
NAMES = ("found", "made")
SHORT_FORMS = re.compile(r"\b(e\.g|i\.e|cf|vs|al|Fig|Eq|approx|resp|etc|No|St|Dr|v)\.(?=\s)")


class Fault(NamedTuple):
    """A line of a file, from 1, and the rule with what breaks it."""

    line: int
    text: str


class Passage(NamedTuple):
    """A piece of prose and its first line; sentences of headings and table cells do not count."""

    line: int
    text: str
    counts: bool = True


def plain(text: str) -> str:
    """Replace inline code by one word and links by their text."""
    text = re.sub(r"<!--.*?-->", " ", text)
    text = re.sub(r"``[^`]+``|`[^`]+`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\s+", " ", text.replace("**", "").replace("__", "")).strip()


def sentences(text: str) -> list[str]:
    """Split plain text after ``.``, ``!`` and ``?``, except in short forms such as "e.g."."""
    whole = SHORT_FORMS.sub(lambda match: match[0].replace(".", ""), text)
    return [*filter(str.strip, re.split(r"(?<=[.!?])[)\"']*\s+(?=[A-Z0-9(\"'`À-ÞΑ-ΩА-Я])", whole))]


def words(sentence: str) -> int:
    """Count what stands between spaces and holds a letter or a digit."""
    return sum(any(map(str.isalnum, word)) for word in sentence.split())


def joined(rows: Iterable[tuple[int, str, bool]]) -> Iterator[Passage]:
    """Join lines into passages; a row is a line's number, its text, and whether it begins a passage."""
    start, lines = 0, list[str]()
    for number, text, begins in (*rows, (0, "", True)):
        if lines and (begins or not text):
            yield Passage(start, " ".join(lines))
            lines = []
        if text:
            start = start if lines else number
            lines.append(text)


def markdown_passages(text: str) -> Iterator[Passage]:
    """Yield paragraphs, list items, headings and table rows of a document; code blocks are left out."""
    rows, fence = list[tuple[int, str, bool]](), ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip().lstrip(">").strip()
        opening = re.match(r"(```+|~~~+)", bare)
        if fence or opening:
            if opening and (not fence or bare.startswith(fence)):
                fence = "" if fence else opening[1]
            bare = ""
        elif bare.startswith(("|", "#", "<", "!!!", "???", "---", "===", "::: ")):
            yield Passage(number, bare, counts=False)
            bare = ""
        item = re.match(r"([-*+]|\d+[.)])\s+", bare)
        rows.append((number, bare[item.end() :] if item else bare, bool(item)))
    yield from joined(rows)


def code_passages(text: str) -> Iterator[Passage]:
    """Yield paragraphs of all docstrings and comments of a module, and its other texts for their phrases."""
    docstrings = set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield Passage(node.lineno, node.value, counts=False)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            body = ast.get_docstring(node)
            if body and isinstance(first, ast.Expr):
                docstrings.add(id(first.value))
                yield from joined(_rows_of_docstring(body, first.lineno))
    yield from joined(_rows_of_comments(text))


def _rows_of_docstring(body: str, line: int) -> Iterator[tuple[int, str, bool]]:
    in_code = in_table = False
    indent = -1  # of the line that ends in "::", whose block is not prose either
    for number, raw in enumerate(body.splitlines(), line):
        bare, own = raw.strip(), len(raw) - len(raw.lstrip())
        in_table = bool(bare) and (in_table or bare.startswith("==="))
        if bare and own <= indent:
            indent = -1
        in_code = bool(bare) and (bare.startswith(">>>") or in_code or in_table or indent >= 0)
        if bare.endswith("::"):
            indent = own
        section = re.match(r"(Args|Attributes|Returns|Raises|Yields|Example|Examples|Note|Settings):$", bare)
        entry = re.match(r"([-*]\s+|\*{0,2}[\w., `*|]+(\([^)]*\))?:\s)", bare)
        is_prose = not section and not in_code
        yield number, bare[entry.end() if entry else 0 :] if is_prose else "", bool(entry)


def _rows_of_comments(text: str) -> Iterator[tuple[int, str, bool]]:
    previous = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        body = token.string.lstrip("#! ")
        if token.type == tokenize.COMMENT and not re.match(r"(type:|noqa|mypy:|ruff:|pragma|pyright)", body):
            alone = not token.line[: token.start[1]].strip()
            yield token.start[0], body, token.start[0] != previous + 1 or not alone
            previous = token.start[0]


def faults_of_prose(passages: Iterable[Passage]) -> Iterator[Fault]:
    """Yield the faults in sentences and phrases."""
    lengths = []
    for passage in passages:
        text = plain(passage.text)
        for pattern, instead in PHRASES.items():
            for match in re.finditer(pattern, text, re.IGNORECASE):
                yield Fault(passage.line, f'phrase "{match[0]}": {instead}')
        if not passage.counts:
            continue
        for sentence in sentences(text):
            lengths.append(words(sentence))
            if lengths[-1] > LONGEST:
                yield Fault(passage.line, f'{lengths[-1]} words (at most {LONGEST}): "{sentence[:60]}..."')
    if len(lengths) >= ENOUGH and statistics.median(lengths) > MEDIAN:
        yield Fault(1, f"median sentence of {statistics.median(lengths):g} words (at most {MEDIAN})")


def faults_of_code(text: str) -> Iterator[Fault]:
    """Yield what is wrong with names, errors and the first lines of docstrings."""
    for node in ast.walk(ast.parse(text)):
        told, name = "", getattr(node, "arg", getattr(node, "id", ""))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if match := OPENINGS.match(ast.get_docstring(node) or ""):
                told = f'docstring opens with "{match[0]}": name the thing or what it does'
        elif isinstance(node, ast.arg) or isinstance(getattr(node, "ctx", None), ast.Store):
            told = f'variable "{name}": say what it holds' if name in NAMES else ""
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "UserError":
            is_bare = len(node.args) + len(node.keywords) < 2
            told = "UserError with one text: add what is valid, or fix=" if is_bare else ""
        if told:
            yield Fault(getattr(node, "lineno", 1), told)


def main(arguments: list[str] | None = None) -> int:
    """Run the check and return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--show", nargs="+", metavar="FILE", help="check these files only")
    wanted = {Path(name).resolve() for name in parser.parse_args(arguments).show or ()}
    # Folders that are links are left out, and so is this file, which holds what it looks for.
    every = {path for pattern in (*MARKDOWN, *CODE) for path in ROOT.glob(pattern) if path.resolve() == path}
    files, failures = (wanted & every if wanted else every) - {Path(__file__).resolve()}, 0
    for path in sorted(files):
        text = path.read_text(encoding="utf-8")
        is_code = path.suffix == ".py"
        faults = [*faults_of_prose(code_passages(text) if is_code else markdown_passages(text))]
        faults += faults_of_code(text) if is_code else []
        failures += len(faults)
        for fault in sorted(faults):
            print(f"{path.relative_to(ROOT)}:{fault.line}: {fault.text}")
    print(f"{len(files)} files, {failures} faults")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
