"""Ablations of `xling run hour`: each part of the encoder and of the taggers left out, with three seeds.

Usage: ``XLING_DATA=FOLDER python -m benchmarks.hour_ablations OUT [updates=300] [rows=6000] [seeds=1,2,3]
[only=NAME,NAME]``.

All encoders have the same data and number of updates, all taggers the same encoder, rows and epochs. What is in OUT
already is not made again, so a run that was interrupted goes on. Prints Markdown: the mean over the languages without
English, and for each variant its difference from the first line, paired by seed, with a 95 % interval.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import torch
from scipy.stats import t as student

from benchmarks.speedrun import averages
from xling.core.errors import UserError, unknown
from xling.eval.results import read_scores
from xling.eval.suite import data_folder
from xling.transfer import common_words, static_tagger
from xling.transfer.tag_lexicon import TagLexicon

ENCODERS: dict[str, list[str]] = {
    "encoder as it is": [],
    "no latent vectors at the start": ["start.rounds=0"],
    "no sketch of spellings": ["model.sketch=0"],
    "no margin": ["margin=0"],
    "English on one side of a third of the pairs": ["english=0.3"],
    "no words hidden": ["drop=0"],
    "128 numbers a vector": ["model.dim=128"],
    "runs of 8 rows": ["run_of_rows=8"],
    "runs of 64 rows": ["run_of_rows=64"],
}
TAGGERS = ("tagger as it is", "no common words", "no lexicon of tags", "never without case", "no linked text")
RETRIEVAL = ["centred=true", "distance=csls"]


def leave_out(part: str) -> None:
    """Switch a part of the taggers off in this process."""
    if part == "no common words":
        common_words.MIN_TEXTS = sys.maxsize
    elif part == "never without case":
        static_tagger.UNCASED = 0.0
    elif part == "no lexicon of tags":
        patch.object(TagLexicon, "features", _no_features).start()


def _no_features(lexicon: TagLexicon, words: Sequence[str], own: object = None) -> torch.Tensor:
    return torch.zeros(len(words), lexicon.dim)


@dataclass(frozen=True)
class Ablations:
    """Runs the variants of one folder.

    Attributes:
        data: folder of the data.
        out: folder of all outputs.
        updates: of each encoder.
        rows: training rows of a tagger.
        seeds: of encoders and taggers.
    """

    data: Path
    out: Path
    updates: int = 300
    rows: int = 6000
    seeds: tuple[str, ...] = field(default=("1", "2", "3"))

    def encoder(self, variant: str, seed: str) -> dict[str, float]:
        """Train and score an encoder; return its averages by suite."""
        folder = self.folder(variant, seed)
        self.step(["corpus", "nway", f"data={self.data}"], self.out / "rows")
        settings = [f"data={self.out / 'rows'}", f"updates={self.updates}", f"seed={seed}"]
        self.step(["pretrain", "static", *settings, *ENCODERS[variant]], folder / "encoder")
        scoring = [
            "eval",
            f"checkpoint={folder / 'encoder'}",
            "systems=pretrained",
            f"data={self.data}",
            "seeds=1",
        ]
        self.step([*scoring, "suites=ntrex", *RETRIEVAL], folder / "ntrex")
        self.step(
            [*scoring, "suites=sib200,xnli", "fit.epochs=10", f"train_rows={self.rows}"], folder / "texts"
        )
        return scored(folder, "ntrex", "texts")

    def tagger(self, variant: str, seed: str) -> dict[str, float]:
        """Train and score taggers on the first encoder; return their averages by suite."""
        first, folder = self.folder("encoder as it is", self.seeds[0]), self.folder(variant, seed)
        self.encoder("encoder as it is", self.seeds[0])
        self.step(["corpus", "links", f"data={self.data}", "pairs=300"], self.out / "links")
        links = [] if variant == "no linked text" else [f"fit.project={self.out / 'links'}"]
        settings = [f"checkpoint={first / 'encoder'}", f"train_rows={self.rows}", f"seeds={seed}", *links]
        suites_of = [
            "eval",
            "suites=panx,uner,masakhaner",
            "systems=pretrained",
            "train_with=uner",
            "fit.epochs=2",
        ]
        self.step([*suites_of, f"data={self.data}", *settings], folder / "names", variant)
        return scored(folder, "names")

    def folder(self, variant: str, seed: str) -> Path:
        """Return the folder of a variant and a seed."""
        return self.out / f"{variant.replace(' ', '_')}-{seed}"

    def step(self, words: list[str], out: Path, part: str = "") -> None:
        """Run a command of xling in a process of its own, unless its output is there."""
        if not (out / "manifest.json").exists() and not (out / "tables/scores.json").exists():
            command = [sys.executable, "-m", "benchmarks.hour_ablations", "run", part, *words, f"out={out}"]
            if code := subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode:
                sys.exit(code)


def scored(folder: Path, *steps: str) -> dict[str, float]:
    """Return the averages of some steps by suite."""
    return averages([score for step in steps for score in read_scores(folder / step / "tables/scores.json")])


def table(scores: dict[str, list[dict[str, float]]]) -> str:
    """Return the averages of the first variant and the others' differences from it, paired by seed, with intervals."""
    first, *others = scores
    names = list(scores[first][0])
    lines = [f"| what | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names)]
    cells = [f"{statistics.fmean(of_seed[name] for of_seed in scores[first]):.1f}" for name in names]
    lines.append(f"| {first} | {' | '.join(cells)} |")
    for other in others:
        pairs = list(zip(scores[first], scores[other], strict=True))
        cells = [difference([b[name] - a[name] for a, b in pairs]) for name in names]
        lines.append(f"| {other} | {' | '.join(cells)} |")
    return "\n".join(lines)


def difference(values: list[float]) -> str:
    """Return mean and 95 % interval (Student's t over the seeds) of some differences."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:+.1f}"
    half = student.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return f"{mean:+.1f} ({mean - half:+.1f} to {mean + half:+.1f})"


def main(words: list[str]) -> int:
    """Run what is asked for and print the tables.

    Raises:
        UserError: an unknown variant, or no OUT.
    """
    if words[:1] == ["run"]:
        from xling import cli

        leave_out(words[1])
        return int(cli.main(words[2:]) or 0)
    if not words or "=" in words[0]:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2 if words else 0  # without arguments `make bench` calls it, and this takes an hour
    given = dict(word.partition("=")[::2] for word in words[1:])
    only = given.get("only", ",".join([*ENCODERS, *TAGGERS])).split(",")
    if bad := [name for name in only if name not in (*ENCODERS, *TAGGERS)]:
        raise unknown("variant", bad[0], [*ENCODERS, *TAGGERS])
    seeds = tuple(given.get("seeds", "1,2,3").split(","))
    sizes = {name: int(given[name]) for name in ("updates", "rows") if name in given}
    runs = Ablations(data_folder(given.get("data")), Path(words[0]), seeds=seeds, **sizes)
    for variants, score in ((ENCODERS, runs.encoder), (TAGGERS, runs.tagger)):
        chosen = [name for name in variants if name in only]
        if chosen:
            print(table({name: [score(name, seed) for seed in seeds] for name in chosen}) + "\n", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        print(f"hour_ablations: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
