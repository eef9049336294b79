"""Which cut of the same pages teaches a language model most: ours, CCNet's order, FineWeb-2's order by datatrove.

Run:  python -m benchmarks.cuts DATA OUT [langs=en,zh] [pages=FILE] [limits=zh:FILE] [order=6] [seeds=1,2,3]

PAGES is a WET file, ``DATA/web/hplt_pages.warc.wet.gz`` unless another is given. ``limits=`` names the file of
FineWeb-2's limits of a language (``configs/cmn_Hani.yml`` in its repository); without one datatrove's defaults hold.
datatrove is installed into an environment of its own in OUT. CCNet and FineWeb-2 identify languages by lid.176, as
FineWeb-2's GlotLID would have to be downloaded; FineWeb-2's least score is max(.3, min(.9, median - deviation)).

Two language models learn from each cut: n-grams of characters with modified Kneser-Ney discounts, at most 6
(``order=``), and an LSTM (``benchmarks/crawl/char_lstm.py``). All models of a language know the same characters. All
cuts give the same number of characters: that of the smallest cut, of documents drawn by each seed. The held-out text
is NTREX, UDHR and Wikipedia of DATA; the loss is in bits a character. The states of the LSTM also classify SIB-200, in
% right, beside an LSTM that has learned nothing. Intervals are 95 % of the difference from ours, over lines or rows,
averaged over the seeds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.crawl import ccnet, char_lstm
from xling.core import languages
from xling.core.sampling import rng
from xling.corpora.identify import lid176
from xling.corpora.sources.source import Context, open_source
from xling.eval.suite import languages_at, load, suites
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
) -> dict[str, NDArray[np.float64]]:
    """Train a model of n-grams; return the bits of each held-out line, its end included, for each kind of text.

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


def neural(
    lines: Sequence[str],
    held: dict[str, list[str]],
    known: str,
    seed: int,
    rows: dict[str, list[tuple[str, str]]],
) -> dict[str, NDArray[np.float64]]:
    """Train an LSTM; return its bits as `losses` does, and 1 for each row of SIB-200 that it gets right, else 0."""
    model = char_lstm.learned(lines, known, seed)
    answers = {kind: char_lstm.bits_of(model, texts) for kind, texts in held.items()}
    if rows:
        answers["SIB-200"] = char_lstm.classified(model, rows["train"], rows["test"]).astype(float)
    return answers


def sib200(data: Path, lang: str) -> dict[str, list[tuple[str, str]]]:
    """Return the training and test rows ``(text, class)`` of SIB-200; none for a language without the former."""
    suite = suites()["sib200"]
    if lang not in languages_at(suite, "train", data):
        return {}
    loaded = {split: load(suite, lang, split, data) for split in ("train", "test")}
    return {split: [(row.fields["text"], row.label) for row in rows] for split, rows in loaded.items()}


def report(
    lang: str,
    cuts: dict[str, list[str]],
    held: dict[str, list[str]],
    order: int,
    seeds: list[int],
    rows: dict[str, list[tuple[str, str]]],
) -> None:
    """Print a table for each language model, with a row for each cut."""
    size = min(sum(map(len, texts)) for texts in cuts.values())
    if size < MIN_CHARS:
        print(f"\n{lang}: the smallest cut has {size:,} characters, too few for a language model.")
        return
    known = "".join(
        sorted({c for texts in (*cuts.values(), *held.values()) for text in texts for c in text} - {"\n"})
    )
    draws = {name: [drawn(texts, size, seed) for seed in seeds] for name, texts in cuts.items()}
    sizes = {kind: np.array([len(text) + 1.0 for text in texts]) for kind, texts in held.items()}
    by_ngrams = {name: [losses(lines, held, known, order) for lines in each] for name, each in draws.items()}
    print(f"\n{lang}, {size:,} characters of each cut, n-grams:\n")
    _table(lang, by_ngrams, sizes)
    by_lstm = {
        name: [neural(lines, held, known, seed, rows) for seed, lines in zip(seeds, each, strict=True)]
        for name, each in draws.items()
    }
    by_lstm["nothing"] = [neural([known], held, known, seed, rows) for seed in seeds]
    print(f"\n{lang}, {size:,} characters of each cut, LSTM:\n")
    if rows:
        sizes["SIB-200"] = np.full(len(rows["test"]), 0.01)
    _table(lang, by_lstm, sizes)


def _table(
    lang: str, values: dict[str, list[dict[str, NDArray[np.float64]]]], sizes: dict[str, NDArray[np.float64]]
) -> None:
    """Print the mean of each cut over seeds, their range and the interval of the difference from ours.

    Args:
        lang: language code.
        values: cut -> for each seed, kind -> a value of each line.
        sizes: kind -> what the values of its lines are divided by, together.
    """
    print("| cut | " + " | ".join(sizes) + " |\n|---|" + "---:|" * len(sizes))
    for name, per_seed in values.items():
        row = []
        for kind, units in sizes.items():
            own = np.mean([value[kind] for value in per_seed], axis=0)
            means = [float(value[kind].sum() / units.sum()) for value in per_seed]
            cell = f"{own.sum() / units.sum():.3f} ({min(means):.3f} to {max(means):.3f})"
            if name != "ours":
                base = np.mean([value[kind] for value in values["ours"]], axis=0)
                resampled = rng("cuts", lang, kind).integers(0, len(units), (RESAMPLES, len(units)))
                low, high = np.quantile(
                    (own - base)[resampled].sum(1) / units[resampled].sum(1), (0.025, 0.975)
                ).tolist()
                cell += f"; {low:+.3f} to {high:+.3f}"
            row.append(cell)
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)


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
        report(lang, cuts, held_out(data, lang), order, seeds, sib200(data, lang))


if __name__ == "__main__":
    main(sys.argv[1:])
