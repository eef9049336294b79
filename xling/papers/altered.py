"""``xling corpus altered``: text of one language, and text of a second that differs from it in known ways.

The second language is a made-up copy of the first (`xling.papers.alteration`), or a real one of which the same rows are
at hand, or both: a real one whose letters are changed. Lines are drawn once by the seed, so two corpora that differ in
one setting differ in nothing else.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.sampling import rng
from xling.core.settings.values import Lang
from xling.papers.alteration import CODE, Alteration
from xling.text.files import corpus_reader
from xling.text.words.units import split_units

STAGE = "corpus altered"


@dataclass(frozen=True)
class AlteredConfig:
    """Settings of ``xling corpus altered``.

    Attributes:
        first: file with the text of the first language: ``NAME<TAB>TEXT`` a line (``.tsv``, for example verses of the
            Bible), or a text a line.
        out: directory to publish: ``train.LANG.txt`` with a blank line behind every line, and the line-aligned
            ``test.LANG.txt`` with their names in ``test.names``.
        second: file of the second language; lines of the same names are translations of each other. Empty for a copy of
            the first.
        domain: file of the first language that the training text of the second is a copy of, in place of ``first``.
        lang, second_lang: codes; a made-up language has ``qaa``.
        change: of the second language.
        common: only lines of the first language all of whose words are among so many most frequent ones, lower-cased
            and without punctuation; 0 for all lines. Of simple text a tiny model learns in a minute.
        rows: training lines of each language; 0 for all.
        mb: megabytes of training text of each language, in UTF-8; 0 for all of ``rows``.
        parallel: both languages have the same lines; else each has other ones.
        test: lines held out of either.
        seed: of the draw of lines.
    """

    first: str
    out: str
    second: str = ""
    domain: str = ""
    lang: Lang = "en"
    second_lang: Lang = CODE
    change: Alteration = field(default_factory=lambda: Alteration("own"))
    common: int = 0
    rows: int = 0
    mb: float = 0.0
    parallel: bool = True
    test: int = 500
    seed: int = 1


def run(cfg: AlteredConfig) -> manifest.Manifest:
    """Draw text of one language, write its altered copy and publish both.

    Raises:
        UserError: an unknown language, the same one twice, a file without text, too few lines, or lines of the second
            language without names in common with those of the first.
    """
    for lang in (cfg.lang, cfg.second_lang):
        languages.get(lang)
    if cfg.lang == cfg.second_lang:
        raise UserError(
            f"lang={cfg.lang} and second_lang={cfg.second_lang} are the same language",
            "two different codes",
            f"name the altered copy second_lang={CODE}",
        )
    if cfg.second and cfg.domain:
        raise UserError(
            "second= and domain= are both given",
            "one of them",
            "leave domain= out: it is other text of the first language",
        )
    if cfg.test < 1 or cfg.rows < 0 or cfg.common < 0 or not 0 <= cfg.mb < inf:
        raise UserError(
            f"test={cfg.test} rows={cfg.rows} common={cfg.common} mb={cfg.mb:g}",
            "test from 1, rows, common and mb from 0",
        )
    paths = [Path(name) for name in (cfg.first, cfg.second, cfg.domain) if name]
    out = Path(cfg.out)
    if done := manifest.up_to_date(out, STAGE, cfg, paths):
        return done
    first, second, train, test = _drawn(cfg)
    with manifest.publish(out, STAGE, cfg, paths) as output:
        for lang, text, names in ((cfg.lang, first, train[0]), (cfg.second_lang, second, train[1])):
            lines = [text[name] for name in names]
            (output.path / f"train.{lang}.txt").write_text(
                "".join(f"{x}\n\n" for x in lines), encoding="utf-8"
            )
            tested = "".join(f"{text[name]}\n" for name in test)
            (output.path / f"test.{lang}.txt").write_text(tested, encoding="utf-8")
            output.counts[lang] = {"lines": len(lines), "words": sum(len(x.split()) for x in lines)}
        (output.path / "test.names").write_text("".join(f"{name}\n" for name in test), encoding="utf-8")
        output.counts["test"] = len(test)
    return manifest.read(out)


def _drawn(
    cfg: AlteredConfig,
) -> tuple[dict[str, str], dict[str, str], tuple[Sequence[str], Sequence[str]], Sequence[str]]:
    """Text by name of either language, the names that each trains on, and those of the test."""
    first = named(Path(cfg.first))
    second = named(Path(cfg.second)) if cfg.second else first
    common = [name for name in simple(first, cfg.common) if name in second]
    order = rng(cfg.seed, "lines").permutation(len(common))
    names = [common[place] for place in order]
    test, left = names[: cfg.test], names[cfg.test :]
    mine = left if cfg.parallel or cfg.domain else left[: len(left) // 2]
    theirs = left if cfg.parallel else left[len(left) // 2 :]
    second = altered(second, cfg.change)
    if cfg.domain:
        other = simple(named(Path(cfg.domain)), cfg.common)
        other = {f"domain {name}": text for name, text in other.items()}
        theirs = [list(other)[place] for place in rng(cfg.seed, "domain").permutation(len(other))]
        second |= altered(other, cfg.change)
    least = min(len(mine), len(theirs))
    if least < max(cfg.rows, 2):
        raise UserError(
            f"{cfg.first}: {len(common)} lines in common, of which {least} are left to train on",
            f"test={cfg.test} and rows={cfg.rows or 'a few'} of each language",
            "give more text, or smaller rows= and test=",
        )
    num = cfg.rows or least
    return first, second, (_cut(first, mine[:num], cfg), _cut(second, theirs[:num], cfg)), test


def _cut(text: Mapping[str, str], names: Sequence[str], cfg: AlteredConfig) -> Sequence[str]:
    """The first names whose text fills ``mb``.

    Raises:
        UserError: there is less text.
    """
    if not cfg.mb:
        return names
    sizes = [len(text[name].encode()) + 1 for name in names]
    num = sum(total <= cfg.mb * 1e6 for total in accumulate(sizes))
    if num == len(names):
        raise UserError(
            f"mb={cfg.mb:g}: there are {sum(sizes) / 1e6:.2f} MB to train on",
            fix="give more text, or smaller mb=",
        )
    return names[:num]


def named(path: Path) -> dict[str, str]:
    """Lines by their names, blanks around and between words made one; empty ones are left out.

    Raises:
        UserError: no such file, a line of a ``.tsv`` without a tab, or a name that stands twice.
    """
    result: dict[str, str] = {}
    (path,) = corpus_reader.resolve_files([str(path)])
    is_table = ".tsv" in path.suffixes
    for number, line in enumerate(corpus_reader.read_lines(path), 1):
        name, tab, text = line.partition("\t") if is_table else (str(number), "\t", line)
        if not tab or name in result:
            why = "twice" if tab else "without a tab"
            raise UserError(f"{path} line {number}: {name[:40]!r} {why}", "NAME<TAB>TEXT, each name once")
        if text := " ".join(text.split()):
            result[name] = text
    return result


def simple(lines: Mapping[str, str], common: int) -> Mapping[str, str]:
    """The lines all of whose words are among the ``common`` most frequent; all lines for 0."""
    if not common:
        return lines
    words = {name: split_units(text) for name, text in lines.items()}
    counts = Counter(word for each in words.values() for word in each)
    known = {word for word, _ in counts.most_common(common)}
    return {name: text for name, text in lines.items() if known.issuperset(words[name])}


def altered(lines: Mapping[str, str], change: Alteration) -> dict[str, str]:
    """The copy of every line, under the same name."""
    return {name: change.text(text, name) for name, text in lines.items()}
