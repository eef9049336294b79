"""Sources of aligned text in many languages, in folders of a data directory as described in docs/hour.md.

Text that a suite scores is not read by default: not ``sib200``, ``xquad``, ``xcopa`` and ``ud``, not the dev
and test rows of ``nli``, not the test words of ``bli``. ``ntrex`` and ``tatoeba`` are read when they are
named; the retrieval scores of such an encoder on them are then meaningless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.core.registry import Registry
from xling.text.files import corpus_reader

Texts = list[str | None]


@dataclass(frozen=True)
class Rows:
    """Aligned texts: row i means the same in every language; ``None`` if a language lacks it."""

    source: str
    texts: Mapping[str, Texts]


@dataclass(frozen=True)
class Source:
    """A set of aligned files in a data folder.

    Attributes:
        files: globs below the data folder.
        read: data folder -> its rows; none where there are no such files.
    """

    files: tuple[str, ...]
    read: Callable[[Path], Iterator[Rows]]


SOURCES: Registry[Source] = Registry("source of aligned text")


def read(data: Path, names: Sequence[str]) -> Iterator[Rows]:
    """Yield the rows of the named sources below ``data``; a source whose folder is missing has none.

    Raises:
        UserError: an unknown source, or files of a pair that differ in length.
    """
    for name in names:
        for rows in SOURCES[name].read(data):
            if len({len(texts) for texts in rows.texts.values()}) > 1:
                sizes = ", ".join(f"{lang} {len(texts)}" for lang, texts in rows.texts.items())
                raise UserError(
                    f"{data / name}: aligned files differ in length: {sizes} lines",
                    "as many lines in every language",
                    "get the files again",
                )
            yield rows


def files_of(data: Path, names: Sequence[str]) -> list[Path]:
    """Return the existing files of the named sources."""
    globs = [pattern for name in names for pattern in SOURCES[name].files]
    return [path for pattern in globs for path in sorted(data.glob(pattern)) if path.is_file()]


def label(code: str) -> str:
    """Return this project's code of a language; a code that no scheme knows stays as it is."""
    for spelt in (code, code.partition("_")[0]):
        try:
            return languages.get(spelt).code
        except UserError:
            continue
    return code


def _lines(path: Path) -> list[str]:
    return list(corpus_reader.read_lines(path))


def _bible(data: Path) -> Iterator[Rows]:
    """Read ``bible/`` and ``bible_nt/``: ``<code>.tsv.gz`` with verse id and text, joined on the ids."""
    verses: dict[str, dict[str, str]] = {}
    for path in sorted([*data.glob("bible/*.tsv*"), *data.glob("bible_nt/*.tsv*")]):
        lang = label(path.name.partition(".")[0])
        if lang not in verses:
            pairs = (line.partition("\t") for line in _lines(path))
            verses[lang] = {verse: text for verse, _, text in pairs if text}
    if len(verses) > 1:
        ids = list(dict.fromkeys(verse for text_of in verses.values() for verse in text_of))
        yield Rows("bible", {lang: [text_of.get(verse) for verse in ids] for lang, text_of in verses.items()})


def _seed(data: Path) -> Iterator[Rows]:
    """Read ``seed/``: ``<code>_<Script>.txt.gz``, all line-aligned."""
    files = {path.name.partition(".")[0]: path for path in sorted(data.glob("seed/*.txt*"))}
    if len(files) > 1:
        yield Rows("seed", {label(code): [line or None for line in _lines(p)] for code, p in files.items()})


def _multi30k(data: Path) -> Iterator[Rows]:
    """Read ``multi30k/train.<lang>.gz``, line-aligned."""
    files = {path.name.split(".")[1]: path for path in sorted(data.glob("multi30k/train.*"))}
    if len(files) > 1:
        yield Rows("multi30k", {label(code): [*_lines(path)] for code, path in files.items()})


def _pairs(folder: str, splits: str) -> Callable[[Path], Iterator[Rows]]:
    """Return a reader of ``<src>-<tgt>.<split>.<lang>[.gz]`` in a folder.

    The dev rows of a pair that has training rows are left out, so that they can be scored.
    """
    form = re.compile(rf"(\w+)-(\w+)\.({splits})\.(\w+)(\.gz)?")

    def read_pairs(data: Path) -> Iterator[Rows]:
        sides_of: dict[tuple[str, str, str], dict[str, Path]] = {}
        for path in sorted((data / folder).glob("*-*.*")):
            if match := form.fullmatch(path.name):
                sides_of.setdefault((match[1], match[2], match[3]), {})[label(match[4])] = path
        for (src, tgt, split), sides in sides_of.items():
            if len(sides) == 2 and not (split == "dev" and (src, tgt, "train") in sides_of):
                name = "dictionary" if split == "dict" else folder
                yield Rows(name, {lang: [line or None for line in _lines(p)] for lang, p in sides.items()})

    return read_pairs


def _nli(data: Path) -> Iterator[Rows]:
    """Read ``nli/train.<lang>.tsv.gz``: translations of one training set, row-aligned; premises, then hypotheses."""
    texts: dict[str, Texts] = {}
    for path in sorted(data.glob("nli/train.*.tsv*")):
        rows = [line.split("\t") for line in _lines(path)[1:]]
        texts[label(path.name.split(".")[1])] = [row[side] for side in (0, 1) for row in rows]
    if len(texts) > 1:
        yield Rows("nli", texts)


def _bli(data: Path) -> Iterator[Rows]:
    """Read ``bli/<src>-<tgt>.train5k.tsv``: word pairs."""
    for path in sorted(data.glob("bli/*.train*.tsv")):
        langs = [label(code) for code in path.name.partition(".")[0].split("-")]
        pairs = [line.split() for line in _lines(path)]
        yield Rows("dictionary", {lang: [pair[side] for pair in pairs] for side, lang in enumerate(langs)})


def _stories(data: Path) -> Iterator[Rows]:
    """Read ``stories/*.tsv`` (story, lang, page, text): pages of a story, in its longest versions."""
    for path in sorted(data.glob("stories/*.tsv")):
        pages: dict[str, dict[str, dict[str, str]]] = {}
        for line in _lines(path)[1:]:
            story, code, page, text = line.split("\t")
            pages.setdefault(story, {}).setdefault(label(code), {})[page] = text
        rows: list[dict[str, str]] = []
        for versions in pages.values():
            longest = max(len(page_texts) for page_texts in versions.values())
            whole = {lang: page_texts for lang, page_texts in versions.items() if len(page_texts) == longest}
            rows += [
                {lang: page_texts[page] for lang, page_texts in whole.items() if page_texts.get(page)}
                for page in next(iter(whole.values()))
            ]
        langs = sorted({lang for row in rows for lang in row})
        yield Rows("stories", {lang: [row.get(lang) for row in rows] for lang in langs})


def _udhr(data: Path) -> Iterator[Rows]:
    """Read ``udhr/<code>.txt``: versions of the declaration with the most common number of paragraphs."""
    versions = {path.stem: _lines(path) for path in sorted(data.glob("udhr/*.txt"))}
    if "eng" not in versions:
        return
    size, texts = len(versions["eng"]), dict[str, Texts]()
    for code, paragraphs in versions.items():
        if len(paragraphs) == size:
            texts.setdefault(label(code), [*paragraphs])
    if len(texts) > 1:
        yield Rows("udhr", texts)


def _para(data: Path) -> Iterator[Rows]:
    """Read ``para_extra/<name>.<src>-<tgt>.<lang>[.gz]``, pairs, and ``<name>.<lang>[.gz]``, many languages."""
    sets: dict[str, dict[str, Path]] = {}
    for path in sorted((data / "para_extra").glob("*.*")):
        name, _, lang = path.name.removesuffix(".gz").rpartition(".")
        sets.setdefault(name, {})[label(lang)] = path
    for files in sets.values():
        if len(files) > 1:
            yield Rows(
                "para_extra", {lang: [line or None for line in _lines(p)] for lang, p in files.items()}
            )


def _po(data: Path) -> Iterator[Rows]:
    """Read ``po/<program>.<lang>.tsv[.gz]``: English, tab, translation."""
    for path in sorted(data.glob("po/*.*.tsv*")):
        pairs = [line.partition("\t") for line in _lines(path)]
        lang = label(path.name.split(".")[1])
        if lang != "en":
            yield Rows("po", {"en": [src for src, _, _ in pairs], lang: [tgt or None for _, _, tgt in pairs]})


def _ntrex(data: Path) -> Iterator[Rows]:
    """Read ``ntrex/ntrex.<code>.txt``, line-aligned."""
    files = {path.name.split(".")[1]: path for path in sorted(data.glob("ntrex/ntrex.*.txt"))}
    if len(files) > 1:
        yield Rows("ntrex", {label(code): [*_lines(path)] for code, path in files.items()})


def _tatoeba(data: Path) -> Iterator[Rows]:
    """Read ``tatoeba/<code>-eng.{<code>,eng}``, line-aligned."""
    for path in sorted(data.glob("tatoeba/*-eng.eng")):
        code = path.name.partition("-")[0]
        other = path.with_suffix(f".{code}")
        yield Rows("tatoeba", {label(code): [*_lines(other)], "en": [*_lines(path)]})


for _name, _source in {
    "bible": Source(("bible/*.tsv*", "bible_nt/*.tsv*"), _bible),
    "seed": Source(("seed/*.txt*",), _seed),
    "multi30k": Source(("multi30k/train.*",), _multi30k),
    "mafand": Source(("mafand/*-*.*",), _pairs("mafand", "train|dev")),
    "nli": Source(("nli/train.*.tsv*",), _nli),
    "indian": Source(("indian/*-*.*",), _pairs("indian", "dev|devtest|dict")),
    "bli": Source(("bli/*.train*.tsv",), _bli),
    "stories": Source(("stories/*.tsv",), _stories),
    "udhr": Source(("udhr/*.txt",), _udhr),
    "para_extra": Source(("para_extra/*.*",), _para),
    "po": Source(("po/*.*.tsv*",), _po),
    "ntrex": Source(("ntrex/ntrex.*.txt",), _ntrex),
    "tatoeba": Source(("tatoeba/*-eng.*",), _tatoeba),
}.items():
    SOURCES.add(_name, _source)
