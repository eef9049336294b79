"""Words of scripts without spaces that code-switching cuts, by the word borders of another program.

``python -m benchmarks.cut_words DATA FOLDER PYTHON [langs=zh,ja,th,km] [sets=ntrex,tatoeba] [words.LANG=FILE]``: DATA
is the folder of the project's data sets, ``sets=`` collections of `benchmarks.noise`. PYTHON is a Python of another
environment with jieba, janome, pythainlp and khmer-nltk. The pairs with English are aligned in FOLDER; then one ALM
sentence is made from each of the language. Prints for each language how many replaced stretches have a border inside a
word of the other program where the text itself shows none, and the share of replaced words. ``words.LANG=`` is that of
`xling corpus codeswitch`. FOLDER/LANG.cut.tsv keeps the cut words. A second line has the share of words that ALM
replaces in each direction where it is asked for .3 and .15.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.noise import sets
from xling.core.sampling import rng
from xling.core.stage import run_local
from xling.corpora.codeswitch.alm import AlmSettings, Level, switch
from xling.corpora.codeswitch.words import SAMPLE, cutter, of_phrases, projected
from xling.corpora.parallel.align import AlignerSettings
from xling.corpora.parallel.align_stage import LINKS, PHRASES, AlignConfig
from xling.corpora.parallel.symmetrise import Link, parse_pharaoh
from xling.text.pairs import spans
from xling.text.units import UNSPACED, marks

CODES = {
    "zh": {"zh", "zho", "cmn", "zho-CN", "zho_Hans"}, "ja": {"ja", "jpn", "jpn_Jpan"}, "th": {"th", "tha", "tha_Thai"},
    "km": {"km", "khm", "khm_Khmr"},
}  # fmt: skip
# Reads texts, one a line as JSON; writes the words of each.
PROGRAMS = {
    "zh": "import jieba; cut = jieba.lcut",
    "ja": "from janome.tokenizer import Tokenizer; t = Tokenizer(); cut = lambda s: list(t.tokenize(s, wakati=True))",
    "th": "from pythainlp import word_tokenize as cut",
    "km": "from khmernltk import word_tokenize as cut",
}
# A letter of such a script and the next one or its signs: at spaces, marks and other scripts the text shows a border.
_INSIDE = re.compile(f"[{UNSPACED}{marks()}][{UNSPACED}{marks()}]")
_READER = "\nimport json, sys\nfor line in sys.stdin: print(json.dumps(cut(json.loads(line))))"


def aligned(data: Path, lang: str, collections: list[str], folder: Path) -> Path:
    """Align the pairs of a language with English; return the directory."""
    out = folder / f"align-{lang}"
    if not out.exists():
        chosen = [
            texts
            for name, *texts in sets(data)
            if name.split("/")[0] in collections and texts[1] in CODES[lang]
        ]
        pairs = [(a, b) for *_, left, right in chosen for a, b in zip(left, right, strict=True)]
        sides = {code: folder / f"text-{lang}.{code}" for code in ("en", lang)}
        for path, texts in zip(sides.values(), zip(*pairs, strict=True), strict=True):
            path.write_text("".join(" ".join(text.split()) + "\n" for text in texts), encoding="utf-8")
        settings = AlignerSettings(sweeps=20, averaged_sweeps=10)
        src, tgt = map(str, sides.values())
        run_local("align", AlignConfig(f"en-{lang}", src=src, tgt=tgt, out=str(out), aligner=settings))
    return out


def borders(python: str, lang: str, texts: list[str]) -> list[set[int]]:
    """Return the places between the words of another program, for each text."""
    given = "".join(json.dumps(text) + "\n" for text in texts)
    command = [python, "-c", PROGRAMS[lang] + _READER]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    found = []
    for text, line in zip(texts, done.stdout.splitlines(), strict=True):
        # Some programs leave out spaces, of width or without.
        ends, place = {0}, 0
        for word in json.loads(line):
            for number, char in enumerate(word.strip()):
                place = text.index(char, place) + 1
                ends |= set() if number else {place - 1}
            ends.add(place)
        found.append(ends)
    return found


def main(arguments: list[str]) -> None:
    """Measure the languages."""
    data, folder, python = Path(arguments[0]), Path(arguments[1]), arguments[2]
    given = dict(argument.split("=", 1) for argument in arguments[3:])
    lists = {name.removeprefix("words."): path for name, path in given.items() if name.startswith("words.")}
    for lang in given.get("langs", "zh,ja,th,km").split(","):
        collections = given.get("sets", "ntrex,tatoeba").split(",")
        measure(lang, aligned(data, lang, collections, folder), lists, python, folder / f"{lang}.cut.tsv")


class Pair(NamedTuple):
    """A pair cut into the words that are exchanged.

    Attributes:
        text: the sentence of the language.
        places: (start, end) of its words.
        words: of the language and of English.
        links: (position in the language, position in English).
    """

    text: str
    places: list[tuple[int, int]]
    words: tuple[list[str], list[str]]
    links: set[Link]


def pairs_of(lang: str, folder: Path, lists: dict[str, str]) -> list[Pair]:
    """Cut the aligned pairs of a language as `xling corpus codeswitch` does."""
    english, texts, links = (
        (folder / name).read_text(encoding="utf-8").splitlines()
        for name in ("text.en", f"text.{lang}", LINKS)
    )
    cut = cutter(lang, texts[:SAMPLE], lists, of_phrases(folder / PHRASES, 1))
    pairs = []
    for src, tgt, row in zip(english, texts, links, strict=True):
        old, places = (spans(src), spans(tgt)), cut(tgt)
        found = {(j, i) for i, j in projected(parse_pharaoh(row), (old[0], places), old)}
        words = [tgt[a:b] for a, b in places], [src[a:b] for a, b in old[0]]
        pairs.append(Pair(tgt, places, words, found))
    return pairs


def measure(lang: str, folder: Path, lists: dict[str, str], python: str, examples: Path) -> None:
    """Print two lines on a language and write its cut words."""
    pairs = pairs_of(lang, folder, lists)
    ends = borders(python, lang, [pair.text for pair in pairs])
    stretches = wrong = words = replaced = 0
    with examples.open("w", encoding="utf-8") as file:
        for number, pair in enumerate(pairs):
            drawn = rng(1, "cut words", number)
            switched = switch(*pair.words, pair.links, (lang, "en"), AlmSettings(), drawn)
            words += len(pair.places)
            found = zip(switched.origins, switched.langs, strict=True)
            for first, last in sorted({origin for origin, code in found if code == "en"}):
                begin, end = pair.places[first][0], pair.places[last - 1][1]
                stretches, replaced = stretches + 1, replaced + last - first
                if any(
                    place not in ends[number] and _INSIDE.match(pair.text, place - 1)
                    for place in (begin, end)
                    if place
                ):
                    wrong += 1
                    shown = "|".join(pair.text[a:b] for a, b in pair.places)
                    print(
                        pair.text[begin:end],
                        pair.text[max(0, begin - 8) : end + 8],
                        shown,
                        sep="\t",
                        file=file,
                    )
    print(f"{lang}: {len(pairs):,} sentences, {stretches:,} stretches, {wrong:,} with a border inside a word, "
          f"{100 * replaced / max(words, 1):.1f} % of words replaced", flush=True)  # fmt: skip
    shares = (
        f"{' to '.join(codes)} {realised(pairs, codes, asked):.3f} of {asked}"
        for asked in (0.3, 0.15)
        for codes in ((lang, "en"), ("en", lang))
    )
    print(f"{lang}: {', '.join(shares)}", flush=True)


def realised(pairs: list[Pair], langs: tuple[str, str], asked: float) -> float:
    """Share of the words in ``langs[0]`` that become ``langs[1]``, one of which is English, with ``alm.rate=asked``."""
    level = Level(AlmSettings(rate=asked))
    words = replaced = 0
    for number, pair in enumerate(pairs):
        sides, links = pair.words, pair.links
        if langs[0] == "en":
            sides, links = sides[::-1], {(i, j) for j, i in links}
        switched = switch(*sides, links, langs, level.settings(), rng(1, "rate", number))
        count = switched.num_replaced(langs[0])
        level.add(len(sides[0]), count)
        words, replaced = words + len(sides[0]), replaced + count
    return replaced / max(words, 1)


if __name__ == "__main__":
    main(sys.argv[1:])
