"""Speed of the corpus stages on one core, beside CCNet's order of operations and datatrove, in one run.

Run:  [XLING_DATA=FOLDER] python -m benchmarks.corpora [mb=100] [lang=en] [seed=1] [datatrove=yes]

The input is one synthetic WET file, packed as Common Crawl's; MB are 10^6 bytes of it before packing. Rates are
bytes by CPU seconds of this process, which is bound to one core: other work on the machine slows the wall clock
but hardly these. ``datatrove=yes`` installs datatrove into a temporary environment and times the stages it shares.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.crawl import ccnet, wet
from xling.corpora.identify import lid176
from xling.corpora.shards import read_documents, write_documents
from xling.corpora.sources.source import Context, open_source
from xling.corpora.stages import near_duplicates, paragraphs
from xling.corpora.stages.contamination import Contamination
from xling.corpora.stages.filters import Filters
from xling.corpora.stages.langid import LangId, identify
from xling.corpora.stages.length import Length
from xling.corpora.stages.perplexity import Perplexity
from xling.corpora.stages.pii import Pii
from xling.corpora.stages.repair import Repair
from xling.text.document import Document, Ledger
from xling.text.lm.model import LanguageModel
from xling.text.lm.train import LmConfig, train

ROOT = Path(__file__).resolve().parent.parent
NUM_PARTITIONS = 16
TARGET_FRONT, TARGET_BACK, TARGET_RATIO = 40.0, 5.0, 2.5


class Clock:
    """CPU seconds of steps, and their rates as a Markdown table."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, float]] = []

    def time(self, name: str, num_bytes: int, step: Callable[[], Any]) -> Any:
        """Run ``step`` and note its CPU time against ``num_bytes`` of input."""
        start = time.process_time()
        result = step()
        seconds = time.process_time() - start
        self.rows.append((name, num_bytes / 1e6, seconds))
        return result

    def seconds(self, *names: str) -> float:
        """Return CPU seconds of the named steps together."""
        return sum(seconds for name, _, seconds in self.rows if name in names)

    def table(self) -> str:
        """Return all rows."""
        lines = ["| step | MB in | CPU s | MB/s |", "|---|---:|---:|---:|"]
        lines += [f"| {name} | {mb:.1f} | {s:.2f} | {mb / s:.1f} |" for name, mb, s in self.rows]
        return "\n".join(lines)


def size(docs: Iterable[Document]) -> int:
    """Return UTF-8 bytes of the texts."""
    return sum(len(doc.text.encode()) for doc in docs)


def fresh(docs: Iterable[Document]) -> list[Document]:
    """Return copies, since stages change documents."""
    return [Document(d.id, d.text, d.url, d.source, d.date, d.lang, dict(d.meta)) for d in docs]


def front_end(clock: Clock, path: Path, num_bytes: int, folder: Path) -> list[Document]:
    """Read, split, hash and deduplicate one file, as `xling.corpora.mono` does with one part."""
    ledger = Ledger()
    source = open_source(f"wet:{path}", Context(lang="en"))
    (shard,) = source.shards()
    docs = clock.time("read and split", num_bytes, lambda: list(Length()(source.read(shard, ledger), ledger)))
    in_bytes = size(docs)
    clock.time("hash paragraphs", in_bytes, lambda: paragraphs.hash_shard(docs, folder / "h", NUM_PARTITIONS))
    files = [folder / f"duplicates-{p}.u64" for p in range(NUM_PARTITIONS)]

    def find() -> None:
        for p, file in enumerate(files):
            paragraphs.find_duplicates([folder / "h"], p, NUM_PARTITIONS, file)

    clock.time("find duplicates", in_bytes, find)
    copies = fresh(docs)
    kept = clock.time(
        "drop duplicates",
        in_bytes,
        lambda: list(paragraphs.drop_duplicates(copies, folder / "h", 0, files, ledger)),
    )
    print(
        f"{len(docs):,} documents; paragraph dedup keeps {size(kept) / in_bytes:.1%} of the bytes, "
        f"mean line {in_bytes / sum(d.text.count(chr(10)) + 1 for d in docs):.0f} bytes\n"
    )
    return kept


def back_end(clock: Clock, docs: list[Document], lm: Path, lang: str) -> list[Document]:
    """Return language identification and perplexity; rates are by the bytes that survive both."""
    ledger = Ledger()
    identified = clock.time(
        "language identification", size(docs), lambda: list(LangId((lang,))(docs, ledger))
    )
    scored: list[Document] = clock.time(
        "perplexity", size(identified), lambda: list(Perplexity(str(lm))(identified, ledger))
    )
    return scored


def other_stages(clock: Clock, docs: list[Document], folder: Path, evaluation: Path) -> None:
    """The stages CCNet does not have, each on the same surviving text."""
    num_bytes = size(docs)
    for stage in (Repair(), Filters(), Pii(), Contamination((evaluation,))):
        given = fresh(docs)
        clock.time(stage.name, num_bytes, lambda stage=stage, given=given: list(stage(given, Ledger())))
    cfg = near_duplicates.NearDedup()
    clock.time(
        "near-duplicates: sketch",
        num_bytes,
        lambda: near_duplicates.sketch_shard(docs, folder / "sketch", cfg),
    )

    def pairs() -> None:
        files = [folder / f"pairs-{band}.u64" for band in range(cfg.bands)]
        for band, file in enumerate(files):
            near_duplicates.find_pairs([folder / "sketch"], [band], file)
        near_duplicates.choose(files, [folder / "sketch"], folder / "choice.u64", cfg)

    clock.time("near-duplicates: pair, choose", num_bytes, pairs)
    clock.time("write Parquet", num_bytes, lambda: write_documents(folder / "docs.parquet", docs))
    clock.time("read Parquet", num_bytes, lambda: sum(1 for _ in read_documents(folder / "docs.parquet")))


def datatrove(path: Path, folder: Path) -> str:
    """Install datatrove into an environment of its own and time the stages it shares."""
    home = folder / "datatrove"
    venv.create(home, with_pip=True)
    python = str(home / "bin" / "python")
    quiet = [python, "-m", "pip", "install", "--quiet", "datatrove[io,processing]"]
    quiet += ["spacy", "warcio", "faust-cchardet", "python-magic"]
    subprocess.run(quiet, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    script = str(ROOT / "benchmarks" / "crawl" / "datatrove_stages.py")
    done = subprocess.run([python, script, str(path), str(folder)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"datatrove ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def main(arguments: list[str]) -> None:
    """Make the input, run everything, print Markdown."""
    given = dict(argument.split("=", 1) for argument in arguments)
    num_bytes, lang, seed = (
        int(given.get("mb", 100)) * 1_000_000,
        given.get("lang", "en"),
        int(given.get("seed", 1)),
    )
    data = os.environ.get("XLING_DATA", "")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lines = wet.source_lines(data, lang)
    with tempfile.TemporaryDirectory() as temporary:
        folder, path = Path(temporary), Path(temporary) / "synthetic.warc.wet.gz"
        in_bytes, _ = wet.write_wet(path, lines, num_bytes, seed)
        print(
            f"Synthetic WET from {'real lines' if data else 'invented words'} of `{lang}`, seed {seed}: ",
            end="",
        )
        print(f"{in_bytes / 1e6:.1f} MB, {path.stat().st_size / 1e6:.1f} MB packed, ", end="")
        lm = folder / "lm"
        lm.mkdir()
        train(lines, lm, LmConfig(lang, ("-",), estimator="builtin"))
        model = LanguageModel(lm)
        identify("warm up the language identifiers, which are read when first asked")
        Perplexity(str(lm)).bucket(None)
        clock = Clock()
        compare(clock, path, in_bytes, folder, lm, model, lang)
        evaluation = folder / "evaluation.txt"
        evaluation.write_text("\n".join(f"{line} {line}" for line in lines[:2000]), encoding="utf-8")
        (folder / "h2").mkdir()
        survivors = list(read_documents(folder / "survivors.parquet"))
        other_stages(clock, survivors, folder, evaluation)
        print(clock.table())
        if given.get("datatrove") == "yes":
            print("\ndatatrove on the same file and core:\n\n" + datatrove(path, folder))


def compare(
    clock: Clock, path: Path, in_bytes: int, folder: Path, lm: Path, model: LanguageModel, lang: str
) -> None:
    """Ours against CCNet's order, end to end, with the same models; print the three figures asked for."""
    from xling.text.lm.model import load

    load(lm)  # the stage reads its model once a process; reading is not timed, as for CCNet's
    kept = front_end(clock, path, in_bytes, folder)
    scored = back_end(clock, kept, lm, lang)
    out_bytes = size(scored)
    front = clock.seconds("read and split", "hash paragraphs", "find duplicates", "drop duplicates")
    back = clock.seconds("language identification", "perplexity")
    write_documents(folder / "survivors.parquet", scored)
    kenlm_model, pieces, lid = model.kenlm, model.pieces.model, lid176().model
    num_docs, _, _ = clock.time(
        "CCNet's order, plain Python, all of the above",
        in_bytes,
        lambda: ccnet.mine(path, lid, pieces, kenlm_model, lang),
    )
    theirs = clock.rows[-1][2]
    print("| figure | asked | reached |\n|---|---:|---:|")
    print(
        f"| WET through parse, split, hash, dedup, MB/s | {TARGET_FRONT:.0f} | {in_bytes / 1e6 / front:.1f} |"
    )
    print(
        f"| survivors through language id, perplexity, MB/s | {TARGET_BACK:.0f} | {out_bytes / 1e6 / back:.1f} |"
    )
    print(f"| end to end against CCNet's order, times | {TARGET_RATIO} | {theirs / (front + back):.1f} |")
    print(f"\nOurs keeps {len(scored):,} documents, CCNet's order {num_docs:,}.\n")


if __name__ == "__main__":
    main(sys.argv[1:])
