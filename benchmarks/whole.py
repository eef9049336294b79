"""Speed of a whole build beside CCNet's order and datatrove, on altered real pages, in one run.

Run:  XLING_DATA=FOLDER python -m benchmarks.whole [mb=60] [lang=en] [folder=] [datatrove=yes]

The input is one WET file of ``benchmarks/crawl/altered.py``, whose pages are no copies of each other. MB are 10^6
bytes of text. Seconds are of the processor. Ours are builds by command, start of Python included, files read and
written. CCNet's order runs in this process, reads its models before its clock starts, and writes nothing. Both score
with the same language model. datatrove's steps run on the first 2 MB without its tagger of languages, which would be
downloaded. Its rate as a whole is that of the steps one after the other.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import corpora, mono
from benchmarks.crawl import altered, ccnet, wet
from xling.core.parts import read_json
from xling.corpora.identify import lid176
from xling.text.lm.model import LanguageModel
from xling.text.lm.train import LmConfig, train

SAME_STEPS = ("before_dedup=length", "after_dedup=langid", "near_dedup=false")
ASKED_CCNET, ASKED_DATATROVE = 2.5, 5.0


def written(folder: Path, data: Path, num_mb: int) -> Path:
    """Write the altered pages to one file."""
    path = folder / "pages.warc.wet.gz"
    altered.write(folder / "parts", data, num_mb * 1_000_000)
    with path.open("wb") as whole:
        for part in sorted((folder / "parts").iterdir()):
            with part.open("rb") as file:
                shutil.copyfileobj(file, whole)
    return path


def of_ours(path: Path, out: Path, lang: str, *words: str) -> tuple[float, int]:
    """Build the corpora of a language or of all; return processor seconds and the number of documents kept."""
    build = mono.started(out, lang, (f"source=wet:{path}", *words))
    for _ in mono.watched(build):
        pass
    if build.code:
        raise SystemExit(f"the build of {lang} ended with {build.code}")
    corpora_of = (
        [p for p in out.glob("*/manifest.json") if (p.parent / "shards").is_dir()]
        if lang == "all"
        else [out / "manifest.json"]
    )
    kept = sum(read_json(each)["counts"].get("documents", 0) for each in corpora_of)
    if not kept:
        raise SystemExit(f"the build of {lang} keeps no document of {path}: nothing to compare")
    return build.seconds, kept


def of_datatrove(path: Path, folder: Path) -> tuple[str, float]:
    """Time datatrove's steps; return their table and the MB a second of all steps one after the other."""
    table = corpora.datatrove(path, folder)
    rates = [row.strip(" |").split(" | ") for row in table.splitlines()[2:]]
    if failed := [row[0] for row in rates if len(row) != 4]:
        raise SystemExit(f"datatrove did not run {', '.join(failed)}")
    return table, 1 / sum(float(seconds) / float(mb) for _, mb, seconds, _ in rates)


def main(arguments: list[str]) -> None:
    """Make the input, run everything, print Markdown."""
    given = dict(argument.split("=", 1) for argument in arguments)
    num_mb, lang, data = int(given.get("mb", 60)), given.get("lang", "en"), Path(os.environ["XLING_DATA"])
    with tempfile.TemporaryDirectory(dir=given.get("folder") or None) as temporary:
        folder = Path(temporary)
        path, lm = written(folder, data, num_mb), folder / "lm"
        lm.mkdir()
        train(wet.source_lines(str(data), lang), lm, LmConfig(lang, ("-",), estimator="builtin"))
        scored = f"lm.model={lm}"
        same, same_kept = of_ours(path, folder / "same" / "out", lang, *SAME_STEPS, scored)
        default, default_kept = of_ours(path, folder / "default" / "out", lang, scored)
        every, every_kept = of_ours(path, folder / "all" / "out", "all")
        model, lid = LanguageModel(lm), lid176().model
        scorer, pieces = model.kenlm, model.pieces.model
        start = time.process_time()
        num_docs, _, _ = ccnet.mine(path, lid, pieces, scorer, lang)
        theirs = time.process_time() - start
        if not num_docs:
            raise SystemExit(f"CCNet's order keeps no document of {lang}: nothing to compare")
        rows = [
            (f"ours, CCNet's steps, {lang}", same, same_kept),
            (f"ours, default build, {lang}", default, default_kept),
            ("ours, default build, all languages", every, every_kept),
            (f"CCNet's order (our re-creation), {lang}", theirs, num_docs),
        ]
        table, rate = of_datatrove(path, folder) if given.get("datatrove") == "yes" else ("", 0.0)
    if rate:
        rows.append(("datatrove, all steps", num_mb / rate, 0))
    print(f"| {num_mb} MB | CPU s | MB/s | documents | CCNet's order takes | datatrove takes |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, seconds, kept in rows:
        beside = f"{theirs / seconds:.1f} times | " + (f"{num_mb / rate / seconds:.1f} times" if rate else "")
        print(
            f"| {name} | {seconds:.1f} | {num_mb / seconds:.2f} | {f'{kept:,}' if kept else ''} | {beside} |"
        )
    print(f"\nAsked: {ASKED_CCNET} times CCNet's order, {ASKED_DATATROVE:.0f} times datatrove.\n\n{table}")


if __name__ == "__main__":
    main(sys.argv[1:])
