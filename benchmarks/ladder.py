"""The ladder of pre-training objectives on real text: every rung and seed of `recipes/ladder.yaml`, as one table.

Run:  python -m benchmarks.ladder FOLDER [out=runs/ladder] [rungs=mmlm,tlm,...] [seeds=1,2,3] [step.key=value ...]
      python -m benchmarks.ladder FOLDER plan [the same]     makes the shards and says how long every rung will take

Rungs have the same data, model, updates and tokens in a batch; they differ in what the batches teach. What is there is
not made again, so an interrupted ladder goes on, and several machines may share one ``out`` with different ``rungs``.
Further words are handed to the pipeline, for example ``model.train.updates=500 vocab.size=2000``; ``start=BASE
pieces=BASE`` has every rung go on from one published encoder over its vocabulary.

Prints Markdown: mean and spread over seeds of retrieval accuracy (Tatoeba, NTREX and captions, both directions, cosine
of mean vectors, each side centred) and of PAN-X span F1 in the languages that were not fine-tuned on.
"""

from __future__ import annotations

import json
import logging
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from xling.core.commands import pipeline
from xling.core.commands.runner import run_local
from xling.core.errors import UserError, unknown

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "recipes" / "ladder.yaml"
MIX = "alpha=0.5", "tokens_per_sample=128"
# A short run has fewer keys. They must not follow sooner than the paper's: with a momentum of .99 new keys can be
# told from those of the queue without any translation (docs/results.d/pretrain.md).
SHORT = ("queue_size=4096",)
# Pooled as retrieval pools, at the last layer.
POOLED = ("pooling=mean",)
LAST = *POOLED, "layer=4"
# Rung -> what it adds to masked LM; contrast stands on TLM, as in InfoXLM and HICTL.
RUNGS: dict[str, dict[str, tuple[str, ...]]] = {
    "mmlm": {},
    "tlm": {"tlm": MIX},
    "tlm_xlco": {"tlm": MIX, "xlco": MIX + SHORT},
    "tlm_xlco_mean": {"tlm": MIX, "xlco": MIX + SHORT + LAST},
    "tlm_xlco_unit": {"tlm": MIX, "xlco": (*MIX, *SHORT, *LAST, "normalise=true")},
    "tlm_xlco_batch": {"tlm": MIX, "xlco": (*MIX, *LAST, "negatives=batch", "mix=0", "mask_prob=0")},
    "tlm_hictl": {"tlm": MIX, "hictl": (*MIX, *POOLED, "temperature=0.1")},
    "clwr": {"clwr": MIX},
    "clpc": {"clpc": MIX},
    "alm": {"alm": MIX},
    "camlm": {"camlm": MIX},
}
ALL = "de", "fr", "sw"
COLUMNS = (("tatoeba", ALL), ("ntrex", ALL), ("multi30k_retrieval", ("de", "fr")), ("panx", ALL))
PARTS = "retrieval", "captions", "ner"


def words_of(rung: str) -> list[str]:
    """Return the pipeline's arguments for a rung."""
    added = RUNGS[rung]
    settings = [f"model.objectives.{name}.{word}" for name, words in added.items() for word in words]
    return [f"rung={rung}", *settings]


def run(rung: str, seed: str, words: list[str]) -> None:
    """One rung with one seed, in a process of its own; ends this one where it fails, for it has said why."""
    command = ["run", str(RECIPE), f"seed={seed}", *words_of(rung), *words]
    if code := subprocess.run([sys.executable, "-m", "xling.cli", *command]).returncode:
        sys.exit(code)


def plan(rungs: list[str], seeds: list[str], words: list[str]) -> None:
    """Make the shards where they are missing and print the measured time of every rung's pre-training."""
    for rung in rungs:
        steps = pipeline.read(RECIPE, [*words_of(rung), *words])
        for name in before(steps, "model"):
            run_local(steps.steps[name].stage, steps.settings(name))
        told = run_local("pretrain", replace(steps.settings("model"), dry_run=True))
        lines = [line for line in told.splitlines() if line.startswith(("speed", "time"))]
        print(f"{rung} (x {len(seeds)} seeds):", *lines, sep="\n  ", flush=True)


def before(steps: pipeline.Pipeline, name: str) -> list[str]:
    """Return the steps that have to end before step ``name`` begins, in order."""
    wanted = {name}
    for step in reversed(steps.steps):
        wanted |= set(steps.steps[step].after) if step in wanted else set()
    return [step for step in steps.steps if step in wanted - {name}]


def table(out: Path, rungs: list[str], seeds: list[str]) -> str:
    """Return mean and spread over seeds by rung, with the random control of the first rung's retrieval."""
    head = [f"{suite} {lang}" for suite, langs in COLUMNS for lang in langs]
    lines = [f"| rung | {' | '.join(head)} |", "|---|" + "---:|" * len(head)]
    for rung in rungs:
        lines.append(row(rung, [scores(out / f"{rung}-{seed}", "pretrained") for seed in seeds]))
    lines.append(row("not trained", [scores(out / f"{rungs[0]}-{seed}", "random") for seed in seeds]))
    return "\n".join(lines)


def scores(folder: Path, system: str) -> dict[str, float]:
    """Return scores by suite and language, the mean of both directions where there are two."""
    by_key: dict[str, list[float]] = defaultdict(list)
    for part in PARTS:
        for score in json.loads((folder / part / "tables" / "scores.json").read_text(encoding="utf-8"))[
            "scores"
        ]:
            if score["system"] == system:
                lang = next((side for side in score["lang"].split("-") if side != "en"), "en")
                by_key[f"{score['suite']} {lang}"].append(score["value"])
    return {key: statistics.fmean(values) for key, values in by_key.items()}


def row(name: str, by_seed: list[dict[str, float]]) -> str:
    """Return one line of the table."""
    cells = []
    for suite, langs in COLUMNS:
        for lang in langs:
            values = [scores_of[key] for scores_of in by_seed if (key := f"{suite} {lang}") in scores_of]
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            cells.append(f"{statistics.fmean(values):.1f}{spread}" if values else "")
    return f"| {name} | {' | '.join(cells)} |"


def main(arguments: list[str]) -> int:
    """Run what is asked for and print the table."""
    if not arguments or "=" in arguments[0]:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2 if arguments else 0  # without arguments `make bench` calls it, and a ladder takes hours
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    folder, *rest = arguments
    given = dict(word.split("=", 1) for word in rest if "=" in word)
    out, seeds = given.pop("out", "runs/ladder"), given.pop("seeds", "1,2,3").split(",")
    rungs = given.pop("rungs", ",".join(RUNGS)).split(",")
    words = [f"data={folder}", f"out={out}", *(f"{key}={value}" for key, value in given.items())]
    try:
        if bad := [rung for rung in rungs if rung not in RUNGS]:
            raise unknown("rung", bad[0], RUNGS)
        if "plan" in rest:
            plan(rungs, seeds, words)
            return 0
    except UserError as error:
        print(f"ladder: {error}", file=sys.stderr)
        return error.exit_code
    for seed in seeds:
        for rung in rungs:
            run(rung, seed, words)
    print(table(Path(out), rungs, seeds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
