"""Recall of the index of test rows by suite and side, its false alarms on clean text, and what it costs.

Usage: ``python -m benchmarks.leaks [ROWS]`` with XLING_DATA set. The benchmark plants ROWS rows of every suite,
language, split and side in documents of clean text. A document gets `TOGETHER` neighbouring rows, or only the
first of them. Rows are planted unchanged and with each sixth unit replaced. The clean text has no test rows,
because it is older than the suites or from a source that no suite uses (novels, the New Testament, radio news).

``python -m benchmarks.leaks build INDEX [TURNS]`` builds a corpus of English novels and spoken sentences by turns
without and with the index that ``xling eval leaks`` has published at INDEX, and prints the processor seconds of both.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from xling.core.sampling import rng
from xling.eval import leaks
from xling.eval.suite import suites
from xling.text.leaks import Entry, Leaks
from xling.text.units import units

TOGETHER = 5
FILES = ("mono/eltec.en.txt.gz", "mono/eltec.de.txt.gz", "mono/eltec.fr.txt.gz", "mono/voa.sw.txt.gz")
BUILT = ("mono/eltec.en.txt.gz", "mono/cv.en.txt.gz")
LINES, BUILT_LINES = 10, 12


def main(rows: str = "50", *words: str) -> int:
    """Print a line of JSON for each suite and side, then false alarms and speed; or what a build costs."""
    data = Path(os.environ["XLING_DATA"])
    if rows == "build":
        return build(data, *words)
    tests = leaks.tests_at(
        [name for name in sorted(suites()) if not suites()[name].synthetic], ("test", "dev"), data
    )
    entries = list(leaks.entries(tests, data))
    began = time.process_time()
    index = Leaks.of(entries)
    spent_s = time.process_time() - began
    clean = list(documents(data))
    by_group: dict[str, list[Entry]] = {}
    for group, part in groupby(entries, key=lambda entry: entry.group):
        by_group.setdefault(group, []).extend(part)
    planted(index, by_group, clean, int(rows) // TOGETHER)
    began = time.process_time()
    rows_of = [index.find(text).tolist() for text in clean]
    alarms = Counter(index.entries(rows[0])[0][0] for rows in rows_of if rows)
    seconds = time.process_time() - began
    chars = sum(map(len, clean))
    facts = {"texts": len(entries), "distinct": len(index.ends) - 1, "seconds to index": round(spent_s, 1)}
    rate = {"million characters a second": round(chars / 1e6 / seconds, 2)}
    print(
        json.dumps(
            {**facts, "clean documents": len(clean), "false alarms": alarms.total(), "of": alarms, **rate}
        )
    )
    return 0


def planted(index: Leaks, by_group: Mapping[str, Sequence[Entry]], clean: Sequence[str], times: int) -> None:
    """Plant rows and print which share of them is found, by suite and side."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for group, part in by_group.items():
        suite, *_, side = group.split(" ")
        counter = counts.setdefault((suite, side), Counter())
        draw = rng("leaks", group)
        chosen = [e for e in part if units(e.text)]
        for first in draw.integers(max(1, len(chosen) - TOGETHER + 1), size=max(1, times)).tolist():
            some = chosen[first : first + TOGETHER]
            host = clean[int(draw.integers(len(clean)))].split("\n")
            for name, rows, texts in (
                ("verbatim", some, [e.text for e in some]),
                ("sixth", some, [changed(e.text) for e in some]),
                ("alone", some[:1], [some[0].text]),
            ):
                document = "\n".join([*host[:3], *texts, *host[3:]])
                entries = {entry for row in index.find(document).tolist() for entry in index.entries(row)}
                counter[name] += sum((e.group, e.id) in entries for e in rows)
            counter["planted"] += len(some)
            counter["planted alone"] += 1
    for (suite, side), counter in sorted(counts.items()):
        shares = {name: round(100 * counter[name] / counter["planted"], 2) for name in ("verbatim", "sixth")}
        shares["alone"] = round(100 * counter["alone"] / counter["planted alone"], 2)
        print(json.dumps({"suite": suite, "side": side, "planted": counter["planted"], **shares}), flush=True)


def build(data: Path, index: str, turns: str = "5") -> int:
    """Print the processor seconds of builds without and with an index, by turns, and what it adds in percent."""
    seconds: dict[str, list[float]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as root:
        source = Path(root) / "docs.jsonl"
        chars = 0
        with source.open("w", encoding="utf-8") as out:
            for name in BUILT:
                lines = [x for x in gzip.decompress((data / name).read_bytes()).decode().split("\n") if x]
                for start in range(0, len(lines), BUILT_LINES):
                    text = "\n".join(lines[start : start + BUILT_LINES])
                    chars += len(text)
                    out.write(json.dumps({"text": text}) + "\n")
        command = [sys.executable, "-m", "xling.cli", "corpus", "mono", "lang=en", f"source=jsonl:{source}"]
        for turn in range(int(turns)):
            for name, more in (("without", []), ("with", [f"settings.contamination.leaks={index}"])):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run([*command, f"out={root}/{name}{turn}", *more], check=True, capture_output=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                seconds[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    added = [100 * (b / a - 1) for a, b in zip(seconds["without"], seconds["with"], strict=True)]
    facts = {name: [round(x, 2) for x in values] for name, values in seconds.items()}
    means = 100 * (sum(seconds["with"]) / sum(seconds["without"]) - 1)
    print(
        json.dumps(
            {
                "characters": chars,
                **facts,
                "added, percent": round(means, 1),
                "median": round(statistics.median(added), 1),
            }
        )
    )
    return 0


def changed(text: str) -> str:
    """Return the units of a text, each sixth replaced; empty for shorter texts."""
    return " ".join("qzx" if place % 6 == 5 else unit for place, unit in enumerate(units(text)))


def documents(data: Path) -> Iterator[str]:
    """Yield clean documents of a few lines."""
    for name in FILES:
        lines = gzip.decompress((data / name).read_bytes()).decode().split("\n")
        for start in range(0, len(lines), LINES):
            yield "\n".join(lines[start : start + LINES])
    for path in sorted((data / "bible_nt").glob("*.tsv.gz")):
        verses = (line.partition("\t") for line in gzip.decompress(path.read_bytes()).decode().splitlines())
        for _, chapter in groupby(verses, key=lambda cells: cells[0].rpartition(".")[0]):
            yield "\n".join(text for _, _, text in chapter)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
