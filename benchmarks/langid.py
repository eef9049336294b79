"""Accuracy of language identification per language on Tatoeba and NTREX, in lower, given and upper case.

Run:  XLING_DATA=FOLDER python -m benchmarks.langid
      XLING_DATA=FOLDER python -m benchmarks.langid train corpora/ngrams.npz

The second trains the n-grams that ship with the package, on what may be passed on: the Universal Declaration of Human
Rights, Bibles in the public domain or under CC BY-SA, Common Voice's sentences (CC0; 300 lines of each language
are left out), NLLB-Seed (CC BY-SA 4.0) and VOA. Tatoeba, NTREX and SIB-200 are never trained on.

Prints Markdown: accuracy in percent on single lines and on documents of 20 lines, of fastText on the text as
it is written (``as is``) and of `xling.corpora.stages.langid.identify`, both on the text as given and upper-cased.
A label counts as right when its base language is right (``zh`` for ``zh_Hant``), as the stage itself counts.
Languages that fastText's model does not know are listed apart: nothing can find them.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora import ngrams
from xling.corpora.identify import lid176
from xling.corpora.stages.langid import identify
from xling.text import reader

DOC_LINES = 20
COLUMNS = ("as is", "ours", "as is, upper", "ours, upper")


def test_sets(data: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Name of the set, language code and lines, for every file."""
    for path in sorted(data.glob("tatoeba/*-eng.*")):
        lang = path.suffix[1:]
        if lang != "eng":
            yield "Tatoeba", languages.get(lang, "tatoeba").code, read(path)
    yield "Tatoeba", "en", read(data / "tatoeba" / "fra-eng.eng")
    for path in sorted(data.glob("ntrex/ntrex.*.txt")):
        yield "NTREX", languages.get(path.name.split(".")[1], "ntrex").code, read(path)


def read(path: Path) -> list[str]:
    """The lines of a file."""
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


def as_is(text: str) -> str:
    """What fastText says to the whole text, without any preparation."""
    ranked = lid176().rank(text.replace("\n", " "))
    return ranked[0][0] if ranked else ""


def ours(text: str) -> str:
    """What the pipeline says."""
    return identify(text)[0]


def accuracies(texts: list[str], lang: str) -> list[float]:
    """Percent right for each of `COLUMNS`."""
    base = lang.partition("_")[0]

    def right(guess: Callable[[str], str], given: list[str]) -> float:
        return 100 * mean(guess(text).partition("_")[0] == base for text in given)

    upper = [text.upper() for text in texts]
    return [right(as_is, texts), right(ours, texts), right(as_is, upper), right(ours, upper)]


def row(name: str, values: list[float]) -> str:
    """One line of the table."""
    return f"| {name} | " + " | ".join(f"{value:.1f}" for value in values) + " |"


_OTHER_CODES = {
    "cmn_hans": "zh", "cmn_hant": "zh_Hant", "srp_latn": "sr_Latn", "tuk_cyrl": "", "uig_latn": "", "uzn_cyrl": "",
    "bos_cyrl": "", "azj_cyrl": "", "mly_arab": "", "ell_polytonic": "",
}  # fmt: skip


def code_of(name: str) -> str:
    """Our code of a file's name, "" for a language that the table lacks."""
    for given in (name, name.replace("_", "-"), name.partition("_")[0], name.partition("-")[0]):
        try:
            return _OTHER_CODES[name] if name in _OTHER_CODES else languages.get(given).code
        except UserError:
            continue
    return ""


def training_texts(data: Path) -> dict[str, list[list[str]]]:
    """Language -> the lines of each file that may be trained on."""
    found: dict[str, list[list[str]]] = {}
    for pattern in ("mono/cv.*.gz", "mono/voa.*.gz", "seed/*.gz", "bible*/*.tsv.gz", "udhr/*.txt"):
        for path in sorted(data.glob(pattern)):
            name = path.name.removeprefix("cv.").removeprefix("voa.").partition(".")[0]
            lines = [line.rpartition("\t")[2] for line in reader.lines(path) if line.strip()]
            if code := code_of(name):
                random.Random(0).shuffle(lines)
                found.setdefault(code, []).append(lines[300 if "cv." in path.name else 0 :])
    return found


def in_turn(files: list[list[str]], size: int = 20) -> Iterator[str]:
    """Blocks of some lines, in turn from each file."""
    longest = max(map(len, files))
    for start in range(0, longest, size):
        yield from ("\n".join(lines[start : start + size]) for lines in files if start < len(lines))


def train(out: Path) -> None:
    """Write the model that ships with the package."""
    texts = training_texts(Path(os.environ["XLING_DATA"]))
    model = ngrams.train({lang: in_turn(files) for lang, files in texts.items()}, 400_000)
    model.save(out)
    print(f"{len(model.langs)} languages, {len(model.gain):,} entries, {out.stat().st_size:,} bytes")


def main() -> None:
    """Print the tables."""
    if not os.environ.get("XLING_DATA"):
        print(
            "benchmarks/langid.py needs the labelled sets: set XLING_DATA to the data folder", file=sys.stderr
        )
        return
    start = time.process_time()
    tables: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    unknown = []
    num_texts = 0
    for name, lang, lines in test_sets(Path(os.environ["XLING_DATA"])):
        try:
            languages.code_for(lang, "fasttext")
        except UserError:
            unknown.append(f"{lang} ({name})")
            continue
        docs = ["\n".join(lines[i : i + DOC_LINES]) for i in range(0, len(lines), DOC_LINES)]
        num_texts += len(lines) + len(docs)
        tables.setdefault(name, {})[lang] = accuracies(lines, lang), accuracies(docs, lang)
    print(
        "Columns: lines and documents of 20 lines; fastText on text as it is, ours, and both in upper case.\n"
    )
    head = [f"{kind}: {column}" for kind in ("line", "doc") for column in COLUMNS]
    for name, rows in tables.items():
        print(f"| {name} | " + " | ".join(head) + " |\n|---|" + "---:|" * len(head))
        values = [line + doc for line, doc in rows.values()]
        print(row(f"**mean of {len(rows)}**", [mean(column) for column in zip(*values, strict=True)]))
        for lang, (line, doc) in sorted(rows.items()):
            print(row(lang, line + doc))
        print()
    print(f"Unknown to lid.176, not counted: {', '.join(unknown)}.")
    print(f"{num_texts:,} texts in both cases; {time.process_time() - start:.0f} s of CPU.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        train(Path(sys.argv[2]))
    else:
        main()
