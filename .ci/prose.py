"""Check that documents, docstrings, comments and messages are in plain words.

The rules, each with its limit:

- sentences: at most 35 words, and a median of at most 18 in every file,
- phrases: none of `PHRASES`; each comes with the words to use instead,
- docstrings: the first line names the thing or says what it does (`OPENINGS`),
- errors: a `UserError` says what is valid or how to fix it,
- names: no variable is called ``found`` or ``made`` (`NAMES`),
- spelling: codespell,
- links: a relative link leads to a file, and its anchor to a heading.

Run ``python .ci/prose.py`` for all files, or ``python .ci/prose.py --show FILE ...`` for some. ``--sample SEED``
prints 200 random first lines of docstrings, for a reader to judge whether each says alone what the thing does.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import statistics
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SPELLING = ROOT / ".ci" / "spelling.txt"
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
    r"\bleads? nowhere\b": "name what is missing",
    r"\bto be had\b": "available",
    r"\bnone can be had\b": "not available",
    r"\bat hand\b": "available, present",
    r"\b(anew|afresh)\b": "again",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bwholly\b": "completely",
    r"\b(thereof|therein|wherein|whither|whence|hitherto|thereby|henceforth|heretofore)\b": "shorter words",
    r"\bsees to it\b": "ensures",
    r"\bcomes? to naught\b": "fails",
}
OPENINGS = re.compile(r"^(What|Of|Told|As|So that|That|Where|Such|Without|Cause|Its?)\b")
NAMES = ("found", "made")
SHORT_FORMS = re.compile(r"\b(e\.g|i\.e|cf|vs|al|Fig|Eq|approx|resp|etc|No|St|Dr|v)\.$")


class Fault(NamedTuple):
    """One breach of a rule.

    Attributes:
        line: line of the file, from 1.
        text: the rule and what breaks it.
    """

    line: int
    text: str


class Passage(NamedTuple):
    """A piece of prose that ends with its last sentence.

    Attributes:
        line: line of the file where it starts, from 1.
        text: its words, without markup.
        counts: whether its sentences have a length to check; headings and table cells do not.
    """

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
    pieces: list[str] = []
    start = 0
    for match in re.finditer(r"[.!?][)\"']*\s+(?=[A-Z0-9(\"'`À-ÞΑ-ΩА-Я])", text):
        if SHORT_FORMS.search(text[start : match.start() + 1]):
            continue
        pieces.append(text[start : match.end()])
        start = match.end()
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()]


def words(sentence: str) -> int:
    """Count what stands between spaces and holds a letter or a digit."""
    return sum(any(map(str.isalnum, word)) for word in sentence.split())


def markdown_passages(text: str) -> Iterator[Passage]:
    """Yield paragraphs, list items, headings and table rows of a document; code blocks are left out."""
    start, lines = 0, list[str]()
    fence = ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip().lstrip(">").strip()
        opening = re.match(r"(```+|~~~+)", bare)
        if fence or opening:
            if lines:
                yield Passage(start, " ".join(lines))
                lines = []
            if opening and (not fence or bare.startswith(fence)):
                fence = "" if fence else opening[1]
            continue
        item = re.match(r"([-*+]|\d+[.)])\s+", bare)
        alone = not bare or bare.startswith(("|", "#", "<", "!!!", "???", "---", "===", "::: "))
        if (alone or item) and lines:
            yield Passage(start, " ".join(lines))
            lines = []
        if alone:
            if bare:
                yield Passage(number, bare, counts=False)
            continue
        if not lines:
            start = number
        lines.append(bare[item.end() :] if item else bare)


def docstring_passages(text: str) -> Iterator[Passage]:
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
                yield from _of_docstring(body, first.lineno)
    yield from _comments(text)


def _of_docstring(body: str, line: int) -> Iterator[Passage]:
    start, lines = 0, list[str]()
    in_code = False
    indent = -1  # of the line that ends in "::", whose block is not prose either
    in_table = False
    for number, raw in enumerate([*body.splitlines(), ""], line):
        bare = raw.strip()
        in_table = bool(bare) and (in_table or bare.startswith("==="))
        if bare and len(raw) - len(raw.lstrip()) <= indent:
            indent = -1
        in_code = (
            bare.startswith(">>>") or (in_code and bool(bare)) or in_table or (indent >= 0 and bool(bare))
        )
        if bare.endswith("::"):
            indent = len(raw) - len(raw.lstrip())
        section = re.match(r"(Args|Attributes|Returns|Raises|Yields|Example|Examples|Note|Settings):$", bare)
        entry = re.match(r"([-*]\s+|\*{0,2}[\w., `*|]+(\([^)]*\))?:\s)", bare)
        if (not bare or section or entry or in_code) and lines:
            yield Passage(start, " ".join(lines))
            lines = []
        if not bare or section or in_code:
            continue
        if not lines:
            start = number
        lines.append(bare[entry.end() :] if entry and not lines else bare)


def _comments(text: str) -> Iterator[Passage]:
    start, previous, lines = 0, -1, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        body = token.string.lstrip("#! ")
        if re.match(r"(type:|noqa|mypy:|ruff:|pragma|pyright)", body):
            continue
        alone = not token.line[: token.start[1]].strip()
        if lines and (token.start[0] != previous + 1 or not alone):
            yield Passage(start, " ".join(lines))
            lines = []
        if not lines:
            start = token.start[0]
        lines.append(body)
        previous = token.start[0]
    if lines:
        yield Passage(start, " ".join(lines))


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


def faults_of_openings(text: str) -> Iterator[Fault]:
    """Yield the docstrings whose first line cannot be understood alone."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            body = ast.get_docstring(node)
            if body and (match := OPENINGS.match(body)):
                yield Fault(
                    node.body[0].lineno, f'docstring opens with "{match[0]}": name the thing or what it does'
                )


def first_lines() -> list[str]:
    """List ``first line [file:name]`` of every docstring of the packages, in a fixed order."""
    lines = []
    for path in KINDS[1].files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if body := ast.get_docstring(node):
                name = f"{path.relative_to(ROOT)}:{getattr(node, 'name', 'module')}"
                lines.append(f"{body.partition(chr(10))[0]}  [{name}]")
    return lines


def faults_of_names(text: str) -> Iterator[Fault]:
    """Yield the variables that are called `NAMES`."""
    for node in ast.walk(ast.parse(text)):
        name = node.arg if isinstance(node, ast.arg) else ""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        if name in NAMES:
            yield Fault(getattr(node, "lineno", 1), f'variable "{name}": say what it holds')


def faults_of_errors(text: str) -> Iterator[Fault]:
    """Yield the user errors that say neither what is valid nor how to fix it."""
    for node in ast.walk(ast.parse(text)):
        is_error = (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "UserError"
        )
        if is_error and len(node.args) + len(node.keywords) < 2:
            yield Fault(node.lineno, "UserError with one text: add what is valid, or fix=")


def anchors(text: str) -> set[str]:
    """Collect the anchors that GitHub and MkDocs make of a document's headings."""
    names = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    fence = False
    for line in text.splitlines():
        fence ^= line.lstrip().startswith("```")
        if not fence and (match := re.match(r"#+\s+(.*?)(?:\s*\{#([\w-]+)\})?\s*$", line)):
            heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).replace("`", "").replace("*", "")
            names.add(match[2] or re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-"))
    return names


def faults_of_links(path: Path, text: str) -> Iterator[Fault]:
    """Yield the relative links of a document that lead to no file or no heading."""
    body = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL)
    body = re.sub(r"`[^`\n]*`", "", body)
    for match in re.finditer(r"\]\(([^)\s]+)\)", body):
        target, _, anchor = match[1].partition("#")
        line = body[: match.start()].count("\n") + 1
        if re.match(r"[a-z]+:", match[1]):
            continue
        file = (path.parent / target).resolve() if target else path
        if not file.exists():
            yield Fault(line, f"link to {match[1]}: there is no such file")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield Fault(line, f"link to {match[1]}: there is no such heading")


def misspellings(files: list[Path]) -> dict[Path, list[Fault]]:
    """Ask codespell about many files at once."""
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words", str(SPELLING), "--"]
    answer = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)
    if answer.returncode not in (0, 65):
        raise SystemExit(f"codespell: {answer.stderr.strip() or answer.stdout.strip()}; fix: make install")
    faults: dict[Path, list[Fault]] = {}
    for match in re.finditer(r"^(.+?):(\d+): (.+)$", answer.stdout, re.MULTILINE):
        faults.setdefault(Path(match[1]), []).append(Fault(int(match[2]), f"spelling: {match[3]}"))
    return faults


def faults_of_document(path: Path) -> list[Fault]:
    """Collect the faults of a Markdown file, spelling aside."""
    text = path.read_text(encoding="utf-8")
    return [*faults_of_prose(markdown_passages(text)), *faults_of_links(path, text)]


def faults_of_docstrings(path: Path) -> list[Fault]:
    """Collect the faults in docstrings and comments of a Python file, spelling aside."""
    text = path.read_text(encoding="utf-8")
    return [*faults_of_prose(docstring_passages(text)), *faults_of_openings(text)]


def faults_of_variables(path: Path) -> list[Fault]:
    """Collect the badly named variables and the bare errors of a Python file."""
    text = path.read_text(encoding="utf-8")
    return [*faults_of_names(text), *faults_of_errors(text)]


class Kind(NamedTuple):
    """A check and the files that it reads.

    Attributes:
        name: what is checked, for the summary.
        patterns: the files, as globs from the root.
        check: faults of one file.
        spelled: whether codespell reads the files.
    """

    name: str
    patterns: tuple[str, ...]
    check: Callable[[Path], list[Fault]]
    spelled: bool

    def files(self) -> list[Path]:
        """List the files that exist, each once; folders that are links are left out."""
        paths = {path for pattern in self.patterns for path in ROOT.glob(pattern) if path.is_file()}
        return sorted(path for path in paths if path.resolve() == path and path != Path(__file__).resolve())

    def faults(self, files: list[Path]) -> dict[str, list[Fault]]:
        """Check files; those without faults are left out."""
        spelling = misspellings(files) if self.spelled and files else {}
        every = {path: self.check(path) + spelling.get(path, []) for path in files}
        return {path.relative_to(ROOT).as_posix(): sorted(some) for path, some in every.items() if some}


KINDS = (
    Kind("docs", MARKDOWN, faults_of_document, spelled=True),
    Kind("docstrings", CODE, faults_of_docstrings, spelled=True),
    Kind("names and errors", CODE, faults_of_variables, spelled=False),
)


def main(arguments: list[str] | None = None) -> int:
    """Run the check and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--show", nargs="+", metavar="FILE", help="check these files only")
    parser.add_argument(
        "--sample", type=int, metavar="SEED", help="print 200 first lines of docstrings and stop"
    )
    options = parser.parse_args(arguments)
    if options.sample is not None:
        print(*random.Random(options.sample).sample(first_lines(), 200), sep="\n")
        return 0
    wanted = {Path(name).resolve() for name in options.show or ()}
    failures = 0
    for kind in KINDS:
        files = [path for path in kind.files() if not wanted or path in wanted]
        faults = kind.faults(files)
        for name, some in faults.items():
            failures += len(some)
            print(*(f"{name}:{fault.line}: {fault.text}" for fault in some), sep="\n")
        if not wanted:
            print(f"{kind.name}: {len(files)} files, {len(faults)} with faults")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
