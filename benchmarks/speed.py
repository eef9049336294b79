"""Speed of what users wait for beside a peer that does the same work in the same run, as ratios of processor seconds.

Run:  XLING_DATA=FOLDER python -m benchmarks.speed [turns=2] [rows=WORD,...] [keep=yes]

Ours and the peer take turns with one thread; seconds are user and system, child processes included. A row is the median
of the turns' ratios with its range; ``rows`` keeps those whose name has one of the words. FOLDER is the sample data.
CCNet's order is our re-creation (facebookresearch/cc_net at bda555b): it parses and hashes paragraphs twice, identifies
the whole text, scores it with a language model, reads its models before its clock starts, and writes nothing. Beam
search has random weights on both sides and outputs of one length. Training is ``benchmarks.pretrain``.

``speed.tsv`` has the last ratios of each processor model, and ``keep=yes`` writes those of this run there. A ratio over
10 % under its last one ends with 1.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from xling.core.sampling import rng
from xling.corpora.langid.identify import Ensemble, body_of, lid176
from xling.corpora.parallel import chain
from xling.corpora.parallel.filters import Context
from xling.text.document import Ledger
from xling.text.lm.model import LanguageModel
from xling.text.normalize import for_dedup, for_lm
from xling.text.pairs import SCHEMA

LAST = Path(__file__).with_suffix(".tsv")
MAX_LOSS = 0.1
LINES, PAIRS, PAGE_BYTES, SENTENCES = 10_000, 20_000, 10_000_000, 40
BUILDS = {
    "CCNet's steps, English": ("lang=en", "before_dedup=length", "after_dedup=langid", "near_dedup=false"),
    "default steps, English": ("lang=en",),
    "all languages": ("lang=all",),
}
THREADS = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
NUMBER = re.compile(r"\d+")


class Row(NamedTuple):
    """Work that ours and a peer do."""

    work: str
    peer: str
    ours: Callable[[], object]
    theirs: Callable[[], object]


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file, packed or not."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().split("\n")[:-1]


def identification(data: Path) -> Iterator[Row]:
    """Short lines of Tatoeba and Common Voice, as many of each file, in batches of a build."""
    files = sorted([*data.glob("tatoeba/*-eng.???"), *data.glob("mono/cv.*.txt.gz")])
    every = [body_of(line) for path in files for line in lines_of(path)[: LINES // len(files)]]
    lines = [every[i] for i in rng(1, "lines").permutation(len(every))]
    batches = [lines[i : i + 128] for i in range(0, len(lines), 128)]
    ensemble, model = Ensemble(), lid176().model
    peer = "fastText's lid.176, one of our three models"
    yield Row(
        "languages of short lines",
        peer,
        lambda: list(map(ensemble.ranks, batches)),
        lambda: [model.predict(line, 5) for line in lines],
    )


def pairs(data: Path) -> Iterator[Row]:
    """MAFAND's training pairs through the default filters, and through a loop over one pair at a time."""
    src, tgt = (lines_of(data / "mafand" / f"en-sw.train.{lang}.gz")[:PAIRS] for lang in ("en", "sw"))
    names = pl.Series("id", range(len(src))).cast(pl.String)
    frame = pl.DataFrame(dict.fromkeys(SCHEMA) | {"id": names, "src": src, "tgt": tgt}, SCHEMA)
    context, model = Context.of_pair("en-sw"), lid176().model

    def ours() -> object:
        filters = chain.build(chain.DEFAULT_FILTERS, {}, context)
        return [filters.run_batch(frame[i : i + 10_000], Ledger()) for i in range(0, len(src), 10_000)]

    def is_kept(one: str, other: str) -> bool:
        words = len(one.split()), len(other.split())
        return (
            0 < min(words) <= max(words) <= min(100, 3 * min(words))
            and max(map(len, f"{one} {other}".split())) <= 40
            and "<" not in one + other
            and sum(map(str.isalpha, one + other)) > 0.5 * len(one + other)
            and sorted(NUMBER.findall(one)) == sorted(NUMBER.findall(other))
            and abs(sum(map(one.count, ".?!")) - sum(map(other.count, ".?!"))) <= 2
            and model.predict(one, 1)[0] == ("__label__en",)
            and model.predict(other, 1)[0] == ("__label__sw",)
        )

    loop = "a loop of nine of OpusFilter's kinds of filters"
    yield Row("default filters of pairs", loop, ours, lambda: list(map(is_kept, src, tgt)))


def crawl(path: Path, data: Path) -> None:
    """Write one WET file of real pages and pages of Bibles; a fifth of the words are others of the same page."""
    stored = gzip.decompress((data / "web" / "hplt_pages.warc.wet.gz").read_bytes()).decode(
        "utf-8", "replace"
    )
    web = [part.partition("\r\n\r\n")[2].strip() for part in stored.split("WARC/1.0\r\n")[2:]]
    books = [[line.partition("\t")[2] for line in lines_of(book)] for book in sorted(data.glob("bible/*.gz"))]
    with path.open("wb") as file:
        left, numbers = PAGE_BYTES, itertools.count()
        while left > 0:
            number = next(numbers)
            draw, book = rng(1, number), books[number % len(books)]
            start = int(draw.integers(len(book) - 40))
            words = (
                web[number // 2 % len(web)] if number % 2 else "\n".join(book[start : start + 40])
            ).split(" ")
            for place in np.flatnonzero(draw.random(len(words)) < 0.2).tolist():
                words[place] = words[int(draw.integers(len(words)))]
            body = " ".join(words).encode()
            head = f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: https://site{number}.example/\r\n"
            head += f"WARC-Date: 2024-05-01T00:00:00Z\r\nContent-Length: {len(body)}\r\n\r\n"
            file.write(gzip.compress(head.encode() + body + b"\r\n\r\n", 6, mtime=0))
            left -= len(body)


def ccnet(path: Path, lm: LanguageModel) -> int:
    """Do what CCNet does, in its order; return how many documents in English it keeps."""

    def texts() -> Iterator[tuple[list[str], list[bytes]]]:
        parts: list[str] = []
        with gzip.open(path, "rt", encoding="utf-8") as handle:
            for line in itertools.chain(map(str.strip, handle), ["WARC/1.0"]):
                if line == "WARC/1.0" and sum(map(len, parts)) >= 300:
                    yield parts, [hashlib.sha1(for_dedup(part).encode()).digest()[:8] for part in parts]
                if line.startswith(("WARC/1.0", "WARC-", "Content-Length:")):
                    parts = []
                elif line:
                    parts.append(line)

    seen: dict[bytes, bool] = {}
    for _, keys in texts():
        seen.update({key: key in seen for key in keys})
    num, model = 0, lid176().model
    for parts, keys in texts():
        text = "".join(part for part, key in zip(parts, keys, strict=True) if not seen[key])
        labels, scores = model.predict(text, 1)
        if text and labels == ("__label__en",) and scores[0] >= 0.5:
            lm.kenlm.score(" ".join(lm.pieces.model.encode(for_lm(text, accents=False), out_type=str)))
            num += 1
    return num


def builds(data: Path, folder: Path) -> Iterator[Row]:
    """Whole builds from one file, beside CCNet's order with the same language model."""
    path, lm, numbers = folder / "pages.warc.wet.gz", folder / "lm", itertools.count()
    crawl(path, data)
    run("-m", "xling", "corpus", "lm", "lang=en", f"text={data / 'mono' / 'cv.en.txt.gz'}", f"out={lm}")
    model, stage = LanguageModel(lm), ("-m", "xling", "corpus", "mono", f"source=wet:{path}")

    def ours(*words: str) -> str:
        scored = [f"lm.model={lm}"] if "lang=en" in words else []
        return run(*stage, *words, *scored, f"out={folder / str(next(numbers)) / 'out'}")

    for kind, words in BUILDS.items():
        work = f"whole build of pages: {kind}"
        yield Row(work, "CCNet's order, English", partial(ours, *words), lambda: ccnet(path, model))


def beam() -> Row:
    """Beam 5 of 3 + 3 layers x 256; every output has 20 tokens."""
    import torch
    from fairseq.data import Dictionary
    from fairseq.data.data_utils import collate_tokens
    from fairseq.models.transformer import TransformerModel, base_architecture
    from fairseq.sequence_generator import SequenceGenerator

    from xling.data.symbols import Symbols
    from xling.models.generate.decode import generate_all
    from xling.models.generate.settings import Search
    from xling.models.network.seq2seq import Seq2SeqConfig, Seq2SeqModel

    symbols, draw, dictionary = Symbols(8_000, ("de", "en")), rng(1, "sources"), Dictionary()
    sources = [draw.integers(4, 8_000, n) for n in draw.integers(8, 25, SENTENCES)]
    for number in range(4, symbols.size):
        dictionary.add_symbol(f"piece{number}")
    cfg = Seq2SeqConfig(layers=3, dim=256, heads=4, ffn_dim=1024, max_positions=256, plain_head=True)
    model = Seq2SeqModel(cfg, symbols.size).eval()
    args = Namespace(encoder_layers=3, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
                     encoder_embed_dim=256, encoder_ffn_embed_dim=1024, share_all_embeddings=True)  # fmt: skip
    base_architecture(args)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    stock = TransformerModel.build_model(args, task).eval()
    searcher = SequenceGenerator([stock], dictionary, beam_size=5, max_len_a=0, max_len_b=20, min_len=20)
    search = Search(beam=5, max_len_a=0, max_len_b=20, min_len=20)
    rows, lengths = [torch.from_numpy(source) for source in sources], torch.tensor(list(map(len, sources)))
    inputs = {"src_tokens": collate_tokens(rows, 1, left_pad=True), "src_lengths": lengths}
    langs = [1] * SENTENCES, [0] * SENTENCES
    return Row(
        "beam 5, float32",
        "stock fairseq",
        lambda: generate_all(model, sources, *langs, symbols, search),
        lambda: searcher.generate([stock], {"net_input": inputs}),
    )


def training() -> Iterator[tuple[str, str, list[float]]]:
    """Yield work, peer and ratios of `benchmarks.pretrain`: the median, and those of its least and best block."""
    words = ("--updates", "8", "--blocks", "2", "--systems", "stock,bf16,fp32")
    told = run("-m", "benchmarks.pretrain", "small", *words)
    for name, *ratios in re.findall(r"(bf16|fp32) / stock: ([\d.]+)x .*?, ([\d.]+) to ([\d.]+)\)", told):
        yield f"masked LM, 4 layers x 256, {name}", "stock fairseq, float32", list(map(float, ratios))


def run(*words: str) -> str:
    """Run Python; return what it printed."""
    return subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True).stdout


def seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds of a piece of work and its processes."""
    both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    before = [sum(resource.getrusage(who)[:2]) for who in both]
    work()
    return sum(resource.getrusage(who)[0] + resource.getrusage(who)[1] for who in both) - sum(before)


def measured(data: Path, num_turns: int, wanted: list[str]) -> Iterator[tuple[str, str, list[float], str]]:
    """Yield work, peer, ratios of the turns and the cells of both sides' seconds."""
    with tempfile.TemporaryDirectory() as folder:
        for row in itertools.chain(identification(data), pairs(data), builds(data, Path(folder)), [beam()]):
            if not any(word in row.work for word in wanted):
                continue
            if "build" not in row.work:
                row.ours(), row.theirs()  # models are read, caches filled
            turns = [(seconds(row.ours), seconds(row.theirs)) for _ in range(num_turns)]
            ours, theirs = (statistics.median(side) for side in zip(*turns, strict=True))
            yield row.work, row.peer, [b / a for a, b in turns], f"{theirs:.2f} | {ours:.2f}"
    if any(word in "masked LM" for word in wanted):
        yield from ((*row, " | ") for row in training())


def main(words: list[str]) -> int:
    """Measure and print; return 1 where a ratio has fallen."""
    given = {"turns": "2", "rows": "", "keep": ""} | dict(word.split("=") for word in words)
    warnings.filterwarnings("ignore")
    if any(os.environ.get(name) != "1" for name in THREADS):  # they are read at import
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.speed", *words], os.environ | THREADS)
    if not os.environ.get("XLING_DATA"):
        print("speed: set XLING_DATA to the folder of sample data", file=sys.stderr)
        return 2
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    processor, fallen = found[1].strip() if found else "unknown", []
    stored = LAST.read_text(encoding="utf-8").splitlines() if LAST.is_file() else []
    last = {tuple(key): float(ratio) for *key, ratio in (line.split("\t") for line in stored)}
    print(
        f"{processor}\n\n| work | peer | peer, s | ours, s | times as fast |\n| --- | --- | ---: | ---: | --- |"
    )
    data, wanted = Path(os.environ["XLING_DATA"]), given["rows"].split(",")
    for work, peer, ratios, cells in measured(data, int(given["turns"]), wanted):
        middle, key = statistics.median(ratios), (processor, work, peer)
        spread = f"{middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"| {work} | {peer} | {cells} | {spread} |", flush=True)
        if middle < (1 - MAX_LOSS) * last.get(key, 0.0):
            fallen.append(f"{work} beside {peer}: {middle:.2f}, last {last[key]:.2f}")
        last |= {key: round(middle, 2)} if given["keep"] else {}
    if given["keep"]:
        rows = ["\t".join((*key, str(ratio))) for key, ratio in sorted(last.items())]
        LAST.write_text("\n".join(rows) + "\n", encoding="utf-8")
    for line in fallen:
        print(f"speed: fallen by over 10 %: {line}", file=sys.stderr)
    return int(bool(fallen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
