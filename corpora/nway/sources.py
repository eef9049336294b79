"""Sources of aligned text in many languages, in folders of a data directory as described in docs/hour.md.

``own`` stands for files of one's own (`xling.corpora.nway.own_files`).

Text that a suite scores is not read by default: not ``sib200``, ``xquad``, ``xcopa`` and ``ud``, not the dev
and test rows of ``nli``, not the test words of ``bli``, not the test verses of Taxi1500. ``ntrex`` and
``tatoeba`` are read when they are named; the retrieval scores of such an encoder on them are then meaningless.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output.command_result import tell
from xling.core.registry import Registry
from xling.corpora.nway import own_files
from xling.corpora.nway.scored_verses import is_scored
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


_STORY_COLLECTIONS = {"global_asp": "asp", "pratham": "pb", "global_pb": "pb"}
"""Names of files to the collection whose story ids they have; other files are collections of their own."""

PARALLEL = "parallel"
SOURCES: Registry[Source] = Registry("source of aligned text")


def read(
    data: Path,
    names: Sequence[str],
    langs: Sequence[str] = (),
    output: Path | None = None,
    corpora: Sequence[Path] = (),
) -> Iterator[Rows]:
    """Yield the rows of the named sources below ``data``; a source whose folder is missing has none.

    Args:
        langs: codes of the only languages to read; all without them.
        output: what is being written, which is not read.
        corpora: folders of ``xling corpus parallel``, read after the sources as one named `PARALLEL`.

    Raises:
        UserError: an unknown source, or files of a pair that differ in length.
    """
    wanted = {label(code) for code in langs}
    for name in names:
        row_sets = _own(data, langs, output) if name == own_files.NAME else SOURCES[name].read(data)
        for rows in row_sets:
            if len({len(texts) for texts in rows.texts.values()}) > 1:
                sizes = ", ".join(f"{lang} {len(texts)}" for lang, texts in rows.texts.items())
                raise UserError(
                    f"{data / name}: aligned files differ in length: {sizes} lines",
                    "as many lines in every language",
                    "get the files again",
                )
            texts = {lang: texts for lang, texts in rows.texts.items() if not wanted or lang in wanted}
            if len(texts) > 1:
                yield Rows(rows.source, texts)
    for folder in corpora:
        aligned_texts = list(own_files.rows(folder, langs))
        if not aligned_texts:
            raise UserError(
                f"corpora={folder} has no pairs of {', '.join(langs)}",
                "an output of xling corpus parallel in two of these languages",
                "check corpora= and langs=",
            )
        yield from (Rows(PARALLEL, sides) for sides in aligned_texts)


def _own(data: Path, langs: Sequence[str], output: Path | None) -> Iterator[Rows]:
    """Read own files, where the folder has none of the named ones: those have dev and test rows beside them."""
    if named := sorted({path.relative_to(data).parts[0] for path in files_of(data, list(SOURCES))}):
        tell(f"corpus nway: {', '.join(named)} in {data} are read as docs/hour.md says, and no other files")
        return
    for sides in own_files.rows(data, langs, output):
        yield Rows(own_files.NAME, sides)


def files_of(
    data: Path, names: Sequence[str], output: Path | None = None, corpora: Sequence[Path] = ()
) -> list[Path]:
    """Return the existing files of the named sources and of folders of ``xling corpus parallel``."""
    globs = [pattern for name in names if name != own_files.NAME for pattern in SOURCES[name].files]
    named = [path for pattern in globs for path in sorted(data.glob(pattern)) if path.is_file()]
    named = named or (own_files.files_of(data, output) if own_files.NAME in names else [])
    for folder in corpora:
        if not folder.is_dir():
            raise UserError(
                f"corpora={folder} is not a folder", "an output of xling corpus parallel", "check corpora="
            )
    return [*named, *(path for folder in corpora for path in own_files.files_of(folder))]


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
    """Read ``bible/`` and ``bible_nt/``: ``<code>.tsv.gz`` with verse id and text, joined on the ids.

    The verses that Taxi1500 scores are left out.
    """
    verses: dict[str, dict[str, str]] = {}
    for path in sorted([*data.glob("bible/*.tsv*"), *data.glob("bible_nt/*.tsv*")]):
        lang = label(path.name.partition(".")[0])
        if lang not in verses:
            pairs = (line.partition("\t") for line in _lines(path))
            verses[lang] = {verse: text for verse, _, text in pairs if text}
    if len(verses) > 1:
        all_ids = dict.fromkeys(verse for text_of in verses.values() for verse in text_of)
        ids = [verse for verse in all_ids if not is_scored(verse)]
        if num_scored := len(all_ids) - len(ids):
            tell(f"corpus nway: bible: {num_scored:,} verses that Taxi1500 scores are left out")
        yield Rows("bible", {lang: [text_of.get(verse) for verse in ids] for lang, text_of in verses.items()})


def _seed(data: Path) -> Iterator[Rows]:
    """Read ``seed/``: ``<code>_<Script>.txt.gz``, all line-aligned."""
    files = {path.name.partition(".")[0]: path for path in sorted(data.glob("seed/*.txt*"))}
    if len(files) > 1:
        yield Rows("seed", {label(code): [line or None for line in _lines(p)] for code, p in files.items()})


def _by_language(name: str, pattern: str) -> Callable[[Path], Iterator[Rows]]:
    """Return a reader of line-aligned files whose names have the language between their first two dots."""

    def read_aligned(data: Path) -> Iterator[Rows]:
        files = {path.name.split(".")[1]: path for path in sorted(data.glob(pattern))}
        if len(files) > 1:
            yield Rows(name, {label(code): [*_lines(path)] for code, path in files.items()})

    return read_aligned


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
    """Read ``stories/`` and ``stories_extra/`` (story, lang, page, text): pages of the versions of a story.

    Files of one collection share their story ids. A version counts if it has the most common number of pages, on a
    tie the greater one: the pages of another are cut elsewhere.
    """
    collections: dict[str, dict[str, dict[str, dict[str, str]]]] = {}
    for path in sorted([*data.glob("stories/*.tsv*"), *data.glob("stories_extra/*.tsv*")]):
        stem = path.name.partition(".")[0]
        pages = collections.setdefault(_STORY_COLLECTIONS.get(stem, stem), {})
        for line in _lines(path)[1:]:
            story, code, page, text = line.split("\t")
            pages.setdefault(story, {}).setdefault(label(code), {})[page] = text
    for pages in collections.values():
        rows: list[dict[str, str]] = []
        for versions in pages.values():
            sizes = Counter(len(page_texts) for page_texts in versions.values())
            size = max(sizes, key=lambda count: (sizes[count], count))
            whole = {lang: page_texts for lang, page_texts in versions.items() if len(page_texts) == size}
            rows += [
                {lang: page_texts[page] for lang, page_texts in whole.items() if page_texts.get(page)}
                for page in next(iter(whole.values()))
            ]
        langs = sorted({lang for row in rows for lang in row})
        if len(langs) > 1:
            yield Rows("stories", {lang: [row.get(lang) for row in rows] for lang in langs})


def _para_extra(data: Path) -> Iterator[Rows]:
    """Read ``para_extra/``: ``<name>[.<src>-<tgt>].<lang>[.gz]``, line-aligned within a name and pair."""
    sides_of: dict[str, dict[str, Path]] = {}
    for path in sorted((data / "para_extra").glob("*.*")):
        group, _, code = path.name.removesuffix(".gz").rpartition(".")
        sides_of.setdefault(group, {})[label(code)] = path
    for sides in sides_of.values():
        if len(sides) > 1:
            yield Rows(
                "para_extra", {lang: [line or None for line in _lines(p)] for lang, p in sides.items()}
            )


def _po(data: Path) -> Iterator[Rows]:
    """Read ``po/<program>.<lang>.tsv[.gz]`` (English, translation): messages joined on their English."""
    files_of_program: dict[str, dict[str, list[Path]]] = {}
    for path in sorted((data / "po").glob("*.*.tsv*")):
        program, code = path.name.split(".")[:2]
        files_of_program.setdefault(program, {}).setdefault(label(code), []).append(path)
    for files in files_of_program.values():
        texts: dict[str, dict[str, str]] = {}
        for lang, paths in files.items():
            for line in (line for path in paths for line in _lines(path)):
                english, _, translation = line.partition("\t")
                if english and translation:
                    texts.setdefault(english, {}).setdefault(lang, translation)
        if texts:
            columns = {lang: [each.get(lang) for each in texts.values()] for lang in files if lang != "en"}
            yield Rows("po", {"en": [*texts], **columns})


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


def _tatoeba(data: Path) -> Iterator[Rows]:
    """Read ``tatoeba/<code>-eng.{<code>,eng}``, line-aligned."""
    for path in sorted(data.glob("tatoeba/*-eng.eng")):
        code = path.name.partition("-")[0]
        other = path.with_suffix(f".{code}")
        yield Rows("tatoeba", {label(code): [*_lines(other)], "en": [*_lines(path)]})


for _name, _source in {
    "bible": Source(("bible/*.tsv*", "bible_nt/*.tsv*"), _bible),
    "seed": Source(("seed/*.txt*",), _seed),
    "multi30k": Source(("multi30k/train.*",), _by_language("multi30k", "multi30k/train.*")),
    "mafand": Source(("mafand/*-*.*",), _pairs("mafand", "train|dev")),
    "nli": Source(("nli/train.*.tsv*",), _nli),
    "indian": Source(("indian/*-*.*",), _pairs("indian", "dev|devtest|dict")),
    "bli": Source(("bli/*.train*.tsv",), _bli),
    "stories": Source(("stories/*.tsv*", "stories_extra/*.tsv*"), _stories),
    "para_extra": Source(("para_extra/*.*",), _para_extra),
    "po": Source(("po/*.*.tsv*",), _po),
    "udhr": Source(("udhr/*.txt",), _udhr),
    "ntrex": Source(("ntrex/ntrex.*.txt",), _by_language("ntrex", "ntrex/ntrex.*.txt")),
    "tatoeba": Source(("tatoeba/*-eng.*",), _tatoeba),
}.items():
    SOURCES.add(_name, _source)
