"""Speed of parts of the pipeline beside a named peer that does the same work on the same data, as ratios.

Run:  XLING_DATA=FOLDER python -m benchmarks.speed [lines=6000] [repeats=3]

Ours and the peer take turns in one process with one thread; the figures are the least processor seconds of the turns.
Prints the rows of docs/results.d/speed.md, and fails where a ratio lies more than 10 % under the one that this page has
of the same processor model.
"""

from __future__ import annotations

import gzip
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import ftfy
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from xling.corpora.langid.identify import Ensemble, body_of, lid176
from xling.corpora.stages.repair import Repair
from xling.text.document import Document

PAGE = Path(__file__).parents[1] / "docs" / "results.d" / "speed.md"
MAX_LOSS = 0.1  # of a ratio
_BATCH = 128
_LINES_OF_PAGE = 12
Work = Callable[[], object]


def short_lines(folder: Path, count: int) -> list[str]:
    """Return lines of Tatoeba and Common Voice, as many of each language."""
    files = sorted([*folder.glob("tatoeba/*-eng.???"), *folder.glob("mono/cv.*.txt.gz")])
    draw = random.Random(1)
    lines = []
    for path in files:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        own = [line.strip() for line in text.split("\n") if line.strip()]
        lines += draw.sample(own, min(len(own), -(-count // len(files))))
    draw.shuffle(lines)
    return lines[:count]


def pages_of(lines: Sequence[str]) -> list[str]:
    """Return lines of many languages as pages."""
    return ["\n".join(lines[i : i + _LINES_OF_PAGE]) for i in range(0, len(lines), _LINES_OF_PAGE)]


def works(folder: Path, count: int) -> Iterator[tuple[str, Work, str, Work]]:
    """Yield what is done, ours, the peer's name, and the peer."""
    lines = [body_of(line) for line in short_lines(folder, count)]
    batches = [lines[i : i + _BATCH] for i in range(0, len(lines), _BATCH)]
    ensemble, model = Ensemble(), lid176().model
    library = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    what = f"languages of {len(lines):,} short lines"

    def ours() -> object:
        return [ensemble.ranks(batch) for batch in batches]

    yield what, ours, "fastText's lid.176 alone", lambda: [model.predict(line, 5) for line in lines]
    yield what, ours, "py3langid's library alone", lambda: [library.rank(line) for line in lines]
    pages, stage = pages_of(lines), Repair(lang="en")
    docs = [Document(str(number), page) for number, page in enumerate(pages)]
    what = f"repair of {len(pages):,} pages in other languages than the wanted one"
    yield (
        what,
        lambda: [stage.edit(doc) for doc in docs],
        "ftfy",
        lambda: [ftfy.fix_text(page) for page in pages],
    )


def seconds(work: Work) -> float:
    """Return the processor seconds of a piece of work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def processor() -> str:
    """Return the model name of the processor."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return found[1].strip() if found else "unknown"


def last_ratios(page: str, model: str) -> dict[tuple[str, str], float]:
    """Return (what, peer) -> ratio of the rows of a page that a processor model has made."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.split("\n") if "|" in line]
    return {(row[0], row[3]): float(row[2].split()[0]) for row in rows if len(row) > 5 and row[5] == model}


def main(words: list[str]) -> int:
    """Measure and print; return 1 where a ratio has fallen."""
    given = {"lines": "6000", "repeats": "3"} | dict(word.split("=") for word in words)
    folder = os.environ.get("XLING_DATA")
    if not folder:
        print("speed: set XLING_DATA to the folder of real data", file=sys.stderr)
        return 1
    model, fallen = processor(), []
    last = last_ratios(PAGE.read_text(encoding="utf-8"), model) if PAGE.is_file() else {}
    print("| what | ours, s | ratio | peer | peer, s | processor |\n| --- | --- | --- | --- | --- | --- |")
    for what, ours, peer, theirs in works(Path(folder), int(given["lines"])):
        seconds(ours), seconds(theirs)  # models are read, caches filled
        turns = [(seconds(ours), seconds(theirs)) for _ in range(int(given["repeats"]))]
        mine, other = (min(side) for side in zip(*turns, strict=True))
        ratio = other / mine
        print(f"| {what} | {mine:.2f} | {ratio:.2f} times | {peer} | {other:.2f} | {model} |", flush=True)
        if ratio < (1 - MAX_LOSS) * last.get((what, peer), 0.0):
            fallen.append(f"{what} against {peer}: {ratio:.2f}, last {last[what, peer]:.2f}")
    for line in fallen:
        print(f"speed: fallen by over 10 %: {line}", file=sys.stderr)
    return int(bool(fallen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
