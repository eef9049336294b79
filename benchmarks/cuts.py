"""Which cut of the same pages teaches a language model most: ours, CCNet's order, FineWeb-2's order by datatrove.

Run:  python -m benchmarks.cuts DATA OUT [langs=en,zh] [pages=FILE] [limits=zh:FILE] [order=6] [seeds=1,2,3]

PAGES is a WET file, ``DATA/web/hplt_pages.warc.wet.gz`` unless another is given. ``limits=`` names the file of
FineWeb-2's limits of a language (``configs/cmn_Hani.yml`` in its repository); without one datatrove's defaults hold.
datatrove is installed into an environment of its own in OUT. CCNet and FineWeb-2 identify languages by lid.176, as
FineWeb-2's GlotLID would have to be downloaded; FineWeb-2's least score is max(.3, min(.9, median - deviation)).

The language model has n-grams of characters with modified Kneser-Ney discounts, at most 6 (``order=``). All models
of a language know the same characters. All cuts give the same number of characters: that of the smallest cut, of
documents drawn by each seed. The held-out text is NTREX, UDHR and Wikipedia of DATA. The loss is in bits a character;
intervals are 95 % of the difference from ours, over lines, averaged over the seeds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.crawl import ccnet
from xling.core import languages
from xling.core.sampling import rng
from xling.corpora.identify import lid176
from xling.corpora.sources.source import Context, open_source
from xling.text.document import Ledger
from xling.text.lm.model import load_arpa
from xling.text.lm.train import train_builtin

PAGES = "web/hplt_pages.warc.wet.gz"
SCRIPT = Path(__file__).parent / "crawl" / "fineweb2_stages.py"
PACKAGES = ("datatrove[io,processing]", "spacy", "jieba", "pyyaml")
UDHR = {"zh": "cmn_hans"}
MIN_CHARS = 5_000  # of held-out text, and of the smallest cut
MAX_LINES = 2000
RESAMPLES = 2000
LEAST_SCORE, MOST_SCORE = 0.3, 0.9


def ours(pages: Path, lang: str, out: Path) -> list[str]:
    """Build the corpus by `xling corpus mono` and return its documents."""
    command = [sys.executable, "-m", "xling", "corpus", "mono", f"lang={lang}", f"source=wet:{pages}"]
    subprocess.run([*command, f"out={out}"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shards = sorted(out.glob("**/shards/*.parquet"))
    return [text for shard in shards for text in pl.read_parquet(shard, columns=["text"])["text"].to_list()]


def by_ccnet(pages: Path, lang: str) -> list[str]:
    """Return what CCNet's order keeps, all buckets of perplexity."""
    return [text for text, _ in ccnet.kept(pages, lid176().model, lang) if text]


def by_fineweb2(pages: Path, lang: str, limits: str, python: Path, folder: Path) -> tuple[list[str], str]:
    """Return what FineWeb-2's order keeps, and the number of documents after each step."""
    scored = []
    for shard in (source := open_source(f"wet:{pages}", Context(lang=lang))).shards():
        for doc in source.read(shard, Ledger()):
            labels, scores = lid176().model.predict(doc.text.replace("\n", " "), 1)
            if labels[0] == f"__label__{lang}":
                scored.append((float(scores[0]), doc.text))
    scores = np.array([score for score, _ in scored])
    least = max(LEAST_SCORE, min(MOST_SCORE, float(np.median(scores) - scores.std())))
    with (folder / f"{lang}.in.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for score, text in scored if score >= least)
    target = folder / f"{lang}.out.jsonl"
    name = Path(limits).stem if limits else languages.get(lang).iso639_3
    done = subprocess.run(
        [str(python), str(SCRIPT), str(folder / f"{lang}.in.jsonl"), str(target), name, *filter(None, [limits])],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    lines = target.read_text(encoding="utf-8").splitlines()
    steps = json.loads(done.stdout.splitlines()[-1])
    return [json.loads(line)["text"] for line in lines], ", ".join(f"{name} {num}" for name, num in steps)


def held_out(data: Path, lang: str) -> dict[str, list[str]]:
    """Return clean lines of each kind that is there."""
    known = languages.get(lang)
    names = {"NTREX": f"ntrex/ntrex.{known.ntrex}.txt", "UDHR": f"udhr/{UDHR.get(lang, known.iso639_3)}.txt"}
    texts = {
        kind: [line for path in data.glob(name) for line in path.read_text().splitlines() if line]
        for kind, name in names.items()
    }
    if (dump := data / f"wiki/{lang}wiki-mini.xml.bz2").is_file():
        source = open_source(f"wiki:{dump}", Context(lang=lang))
        docs = [doc.text for shard in source.shards() for doc in source.read(shard, Ledger())]
        texts["Wikipedia"] = [line for text in docs for line in text.split("\n") if line]
    return {kind: lines[:MAX_LINES] for kind, lines in texts.items() if sum(map(len, lines)) >= MIN_CHARS}


def as_words(line: str) -> str:
    """Write a line as the numbers of its characters, the words of the language model."""
    return " ".join(map(str, map(ord, line)))


def drawn(texts: Sequence[str], size: int, seed: int) -> list[str]:
    """Return lines of documents drawn at random, ``size`` characters in all; the last line may be cut."""
    lines, left = [], size
    for i in rng("cuts", seed).permutation(len(texts)):
        for line in texts[i].split("\n"):
            lines.append(line[:left])
            left -= len(line)
            if left <= 0:
                return lines
    return lines


def losses(
    lines: Sequence[str], held: dict[str, list[str]], known: str, order: int
) -> dict[str, np.ndarray[Any, Any]]:
    """Train a model; return the bits of each held-out line, its end included, for each kind of text.

    Args:
        lines: the text to learn from.
        held: held-out lines of each kind.
        known: every character of any text.
        order: length of the longest n-grams.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lm.arpa"
        train_builtin([as_words(known), *(as_words(line) for line in lines if line)], path, order)
        model = load_arpa(path)
    return {
        kind: np.array([-model.score(as_words(line)) * np.log2(10) for line in texts])
        for kind, texts in held.items()
    }


def report(
    lang: str, cuts: dict[str, list[str]], held: dict[str, list[str]], order: int, seeds: list[int]
) -> None:
    """Print a row for each cut and kind of held-out text."""
    size = min(sum(map(len, texts)) for texts in cuts.values())
    if size < MIN_CHARS:
        print(f"\n{lang}: the smallest cut has {size:,} characters, too few for a language model.")
        return
    known = "".join(sorted({c for texts in (*cuts.values(), *held.values()) for text in texts for c in text}))
    bits = {
        name: [losses(drawn(texts, size, seed), held, known, order) for seed in seeds]
        for name, texts in cuts.items()
    }
    print(
        f"\n{lang}, {size:,} characters of each cut:\n\n| cut | "
        + " | ".join(held)
        + " |\n|---|"
        + "---:|" * len(held)
    )
    for name in cuts:
        row = []
        for kind, texts in held.items():
            sizes = np.array([len(text) + 1 for text in texts])
            own = np.mean([loss[kind] for loss in bits[name]], axis=0)
            per_seed = [float(loss[kind].sum() / sizes.sum()) for loss in bits[name]]
            cell = f"{own.sum() / sizes.sum():.3f} ({min(per_seed):.3f} to {max(per_seed):.3f})"
            if name != "ours":
                base = np.mean([loss[kind] for loss in bits["ours"]], axis=0)
                draws = rng("cuts", lang, kind).integers(0, len(texts), (RESAMPLES, len(texts)))
                low, high = np.quantile(
                    (own - base)[draws].sum(1) / sizes[draws].sum(1), (0.025, 0.975)
                ).tolist()
                cell += f"; {low:+.3f} to {high:+.3f}"
            row.append(cell)
        print(f"| {name} | " + " | ".join(row) + " |")


def main(arguments: list[str]) -> None:
    """Make the cuts of every language and print the tables."""
    data, out = map(Path, arguments[:2])
    given = dict(argument.split("=", 1) for argument in arguments[2:])
    pages = Path(given.get("pages", data / PAGES))
    limits = dict(each.split(":", 1) for each in given.get("limits", "").split(",") if each)
    order, seeds = int(given.get("order", 6)), [int(seed) for seed in given.get("seeds", "1,2,3").split(",")]
    out.mkdir(parents=True, exist_ok=True)
    python = out / "datatrove" / "bin" / "python"
    if not python.exists():
        venv.create(out / "datatrove", with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    for lang in given.get("langs", "en,zh").split(","):
        theirs, steps = by_fineweb2(pages, lang, limits.get(lang, ""), python, out)
        cuts = {
            "ours": ours(pages, lang, out / f"ours-{lang}"),
            "CCNet's order": by_ccnet(pages, lang),
            "FineWeb-2's order": theirs,
        }
        kept = ", ".join(f"{name} {len(t):,} ({sum(map(len, t)):,} characters)" for name, t in cuts.items())
        print(f"\n{lang}: documents kept: {kept}.\nFineWeb-2's steps: {steps}.")
        report(lang, cuts, held_out(data, lang), order, seeds)


if __name__ == "__main__":
    main(sys.argv[1:])
