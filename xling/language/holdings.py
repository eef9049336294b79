"""Contents of a data folder for a language: running text, aligned text, and rows of suites."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.core.languages import Language
from xling.core.output import manifest
from xling.core.progress import Progress
from xling.core.settings.values import code_of
from xling.corpora.nway import own_files
from xling.corpora.nway import sources as nway_sources
from xling.corpora.nway.build import NwayConfig
from xling.eval.rows.protocols import training_suite
from xling.eval.rows.suite import Suite, languages_at, load, suites
from xling.eval.run.available import available
from xling.eval.run.settings import EvalConfig
from xling.text.files.globs import plain_name
from xling.text.words.features import WINDOW_PREFIX, split_tokens

MAX_WORDS, MAX_TEXTS = 20_000, 5000
"""Most frequent words of a language that are compared with those of another, and texts of a source they come from."""
LEAST_LETTERS = 4
"""Of a word: shorter ones are the same in languages that have nothing to do with each other."""
DICTIONARIES = ("bli",)
"""Sources of aligned words, not of sentences."""
_TEXT_ENDINGS = (".txt", ".xml")
_BORDERS = re.compile(r"[._/-]")


@dataclass
class Holdings:
    """Text and test sets of a language.

    Attributes:
        texts: language -> source URIs of running text, as ``xling corpus mono`` reads them.
        text_bytes: language -> bytes of these files as they lie on the disk.
        pairs: language -> name of a source -> rows that it shares with the source language.
        words: language -> its most frequent words in aligned text.
        suites: names of the suites that can be scored in the language, from labels of the source language.
        num_labels: suite -> training rows in the source language.
        own_labels: those that have training rows in the language itself.
        lacking: suite -> what is missing to score it in the language.
        remote: source URIs of running text that can be downloaded.
        downloads: pairs of the language and the source language that OPUS would give.
    """

    texts: dict[str, list[str]] = field(default_factory=dict)
    text_bytes: dict[str, int] = field(default_factory=dict)
    pairs: dict[str, Counter[str]] = field(default_factory=dict)
    words: dict[str, Counter[str]] = field(default_factory=dict)
    suites: list[str] = field(default_factory=list)
    num_labels: dict[str, int] = field(default_factory=dict)
    own_labels: list[str] = field(default_factory=list)
    lacking: dict[str, str] = field(default_factory=dict)
    remote: list[str] = field(default_factory=list)
    downloads: int = 0

    def num_pairs(self, lang: str) -> int:
        """Return the rows that a language shares with the source language."""
        return sum(self.pairs.get(lang, Counter()).values())


def look(data: Path, lang: str, source: str) -> Holdings:
    """Look through a data folder for what serves a language.

    Args:
        data: the folder, laid out as in docs/hour.md, or with files of one's own.

    Raises:
        UserError: a file of aligned text is damaged.
    """
    holdings = Holdings()
    _find_pairs(holdings, data, lang, source)
    _find_suites(holdings, data, lang, source)
    _find_texts(holdings, data)
    return holdings


def shared_words(holdings: Holdings, lang: str, other: str) -> float:
    """Return the share of a language's running words that the other language has too, 0 to 1."""
    words, others = holdings.words.get(lang, Counter()), holdings.words.get(other, Counter())
    return sum(count for word, count in words.items() if word in others) / max(1, words.total())


def _find_pairs(holdings: Holdings, data: Path, lang: str, source: str) -> None:
    (default_sources,) = (field.default for field in fields(NwayConfig) if field.name == "sources")
    assert isinstance(default_sources, tuple)
    names = [own_files.NAME, *default_sources]
    for name, rows in _with_progress(data, names, () if _has_named(data) else (lang, source)):
        sources = rows.texts.get(source)
        for code, texts in rows.texts.items():
            words = holdings.words.setdefault(code, Counter())
            if len(words) < MAX_WORDS and name not in DICTIONARIES:
                words.update(_words(itertools.islice(filter(None, texts), MAX_TEXTS)))
            if sources is not None and code != source:
                both = sum(bool(text and other) for text, other in zip(texts, sources, strict=True))
                holdings.pairs.setdefault(code, Counter())[name] += both
    holdings.words = {
        code: Counter(dict(words.most_common(MAX_WORDS))) for code, words in holdings.words.items()
    }


def _words(texts: Iterable[str]) -> Iterator[str]:
    """Yield words of `LEAST_LETTERS` in lower case; windows of characters where a script has no spaces."""
    for text in texts:
        for token in split_tokens(text.lower()):
            is_window = token.startswith(WINDOW_PREFIX) and token[1:2].isalpha()
            if is_window or (len(token) >= LEAST_LETTERS and token[0].isalpha()):
                yield token


def _has_named(data: Path) -> bool:
    """Return whether a folder has sources of docs/hour.md; others are one's own files, of known languages."""
    return bool(nway_sources.files_of(data, list(nway_sources.SOURCES)))


def _with_progress(
    data: Path, names: Iterable[str], langs: tuple[str, ...]
) -> Iterator[tuple[str, nway_sources.Rows]]:
    with Progress("language survey", unit="rows") as progress:
        for name in names:
            for rows in nway_sources.read(data, [name], langs):
                yield name, rows
                progress.update(len(next(iter(rows.texts.values()))), name)


def _find_suites(holdings: Holdings, data: Path, lang: str, source: str) -> None:
    for name, suite in sorted(suites().items()):
        if suite.synthetic:
            continue
        if lang not in _scored_languages(suite, data):
            if lang in (*suite.languages, *suite.extra):
                holdings.lacking[name] = f"its rows belong at {'  '.join(suite.patterns)}"
            continue
        cfg = EvalConfig(suites=(name,), out=Path("unused"), data=data, langs=(lang,), source=source)
        remaining, problems = available(cfg)
        if remaining is None:
            holdings.lacking[name] = "; ".join(problems)
        else:
            holdings.suites.append(name)
            training = training_suite(suite)
            if training.shape.is_tuned and training.has(source, "train", data):
                holdings.num_labels[name] = len(load(training, source, "train", data))
        labelled = training_suite(suite)
        if "train" in labelled.splits and labelled.shape.is_tuned and labelled.has(lang, "train", data):
            holdings.own_labels.append(name)


def _scored_languages(suite: Suite, data: Path) -> set[str]:
    splits = [split for split in ("test", *suite.test_sets, "dev") if split in suite.all_splits]
    return {lang for split in splits for lang in languages_at(suite, split, data)}


def _find_texts(holdings: Holdings, data: Path) -> None:
    """Add plain text and Wikipedia's dumps that a file's or folder's name gives a language."""
    left_out = _files_of_others(data)
    for path in sorted(data.rglob("*")):
        below = path.relative_to(data)
        plain = plain_name(path.name)
        if (
            not plain.endswith(_TEXT_ENDINGS)
            or path in left_out
            or own_files.SCORED.search(str(below))
            or any(part.startswith(".") for part in below.parts)
            or not path.is_file()
        ):
            continue
        scheme = "wiki" if plain.endswith(".xml") else "text"
        if language := (_of_dump(plain) if scheme == "wiki" else _of_name(below, plain)):
            holdings.texts.setdefault(language.code, []).append(f"{scheme}:{path}")
            holdings.text_bytes[language.code] = (
                holdings.text_bytes.get(language.code, 0) + path.stat().st_size
            )


def _files_of_others(data: Path) -> set[Path]:
    """Return the files that are aligned text or rows of a suite, and what xling has made."""
    files = set(nway_sources.files_of(data, list(nway_sources.SOURCES)))
    for suite in suites().values():
        for split in suite.all_splits:
            for lang in languages_at(suite, split, data):
                files.update(suite.paths(lang, split, data))
    if not _has_named(data):
        files.update(
            path for path in own_files.files_of(data) if plain_name(path.name).endswith(own_files.TABLES)
        )
    for record in data.rglob(manifest.FILE_NAME):
        files.update(record.parent.rglob("*"))
    return files


def _of_dump(name: str) -> Language | None:
    code, sign, _ = name.partition("wiki")
    return _language(code.replace("_", "-"), "wiki") if sign else None


def _of_name(below: Path, plain: str) -> Language | None:
    """Return the language of ``news.sw.txt``, ``sw.txt``, ``Swahili/a.txt``: the last part that is a code or a name."""
    stem = plain.rpartition(".")[0]
    parts = [*below.parts[:-1], *_BORDERS.split(stem)]
    ends = [stem, parts[-1], *([below.parts[-2]] if len(below.parts) > 1 else [])]
    return next((lang for end in ends if (lang := _language(end))), None)


def languages_named(data: Path) -> list[str]:
    """Return the languages that the names of files say, those of the most files first; for messages."""
    counts: Counter[str] = Counter()
    for path in sorted(data.rglob("*")):
        below, plain = path.relative_to(data), plain_name(path.name)
        if path.is_file() and not any(part.startswith(".") for part in below.parts):
            language = _of_name(below, plain) or _of_name(below, f"{plain}.txt")
            counts.update([language.code] if language else [])
    return [code for code, _ in counts.most_common()]


def _language(code: str, scheme: str = "") -> Language | None:
    try:
        return languages.get(code if scheme else code_of(code), scheme) if 2 <= len(code) <= 12 else None
    except UserError:
        return None
