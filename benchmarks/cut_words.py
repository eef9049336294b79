"""Words of scripts without spaces that code-switching cuts, by the word borders of another program.

``python -m benchmarks.cut_words DATA FOLDER PYTHON [langs=zh,ja,th,km] [sets=ntrex,tatoeba] [words.LANG=FILE]``: DATA
is the folder of the project's data sets, ``sets=`` collections of `benchmarks.noise`. PYTHON is a Python of another
environment with jieba, janome, pythainlp and khmer-nltk. The pairs with English are aligned in FOLDER; then one ALM
sentence is made from each of the language. Prints for each language how many replaced stretches have a border inside a
word of the other program where the text itself shows none, and the share of replaced words. ``words.LANG=`` is that of
`xling corpus codeswitch`. FOLDER/LANG.cut.tsv keeps the cut words.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.noise import sets
from xling.core.sampling import rng
from xling.core.stage import run_local
from xling.corpora.codeswitch.alm import AlmSettings, switch
from xling.corpora.codeswitch.words import SAMPLE, cutter, of_phrases, projected
from xling.corpora.parallel.align import AlignerSettings
from xling.corpora.parallel.align_stage import LINKS, PHRASES, AlignConfig
from xling.corpora.parallel.symmetrise import parse_pharaoh
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


def measure(lang: str, folder: Path, lists: dict[str, str], python: str, examples: Path) -> None:
    """Print one line on a language and write its cut words."""
    english, texts, links = (
        (folder / name).read_text(encoding="utf-8").splitlines()
        for name in ("text.en", f"text.{lang}", LINKS)
    )
    cut = cutter(lang, texts[:SAMPLE], lists, of_phrases(folder / PHRASES, 1))
    ends = borders(python, lang, texts)
    stretches = wrong = words = replaced = 0
    with examples.open("w", encoding="utf-8") as file:
        for number, (src, tgt) in enumerate(zip(english, texts, strict=True)):
            old, places = (spans(src), spans(tgt)), cut(tgt)
            word_links = {(j, i) for i, j in projected(parse_pharaoh(links[number]), (old[0], places), old)}
            sides = [tgt[a:b] for a, b in places], [src[a:b] for a, b in old[0]]
            switched = switch(*sides, word_links, (lang, "en"), AlmSettings(), rng(1, "cut words", number))
            words += len(places)
            found = zip(switched.origins, switched.langs, strict=True)
            for first, last in sorted({origin for origin, code in found if code == "en"}):
                begin, end = places[first][0], places[last - 1][1]
                stretches, replaced = stretches + 1, replaced + last - first
                if any(
                    place not in ends[number] and _INSIDE.match(tgt, place - 1)
                    for place in (begin, end)
                    if place
                ):
                    wrong += 1
                    shown = "|".join(tgt[a:b] for a, b in places)
                    print(tgt[begin:end], tgt[max(0, begin - 8) : end + 8], shown, sep="\t", file=file)
    print(f"{lang}: {len(texts):,} sentences, {stretches:,} stretches, {wrong:,} with a border inside a word, "
          f"{100 * replaced / max(words, 1):.1f} % of words replaced", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
