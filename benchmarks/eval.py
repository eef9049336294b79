"""How long scoring takes: saved predictions scored again, a warm rerun, retrieval, and the power of the gate.

Usage: ``python -m benchmarks.eval [CHECKPOINT]``, or ``python -m benchmarks.eval retrieval CHECKPOINT [PRECISION
[LANGUAGES]]`` for retrieval alone, forward passes included. With XLING_DATA set it takes every suite available there,
else the toy suites. Predictions are the gold labels with three rows in ten spoilt, since scoring does not care who made
them. With a checkpoint, Tatoeba's sentences are embedded by it; else retrieval is timed on random vectors.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from xling.core.sampling import rng
from xling.corpora.toyworld import ToyworldConfig
from xling.corpora.toyworld import run as make_toyworld
from xling.eval import predictions, retrieval, stats
from xling.eval.backend import build
from xling.eval.compare import FALSE_ALARMS
from xling.eval.metrics import METRICS
from xling.eval.metrics.base import with_count
from xling.eval.predictions import Origin
from xling.eval.run import evaluate_systems
from xling.eval.score_tables import RescoreConfig, TableConfig, rescore, score_files
from xling.eval.settings import EvalConfig
from xling.eval.stats import Paired
from xling.eval.suite import Example, Suite, languages_at, load, scored_split, suites

NUM_LANGS, NUM_ROWS, DIM = 60, 1000, 256
DRAWS = 2000


def main(checkpoint: str = "") -> int:
    """Run everything and print one JSON object."""
    with tempfile.TemporaryDirectory() as root:
        data = Path(os.environ.get("XLING_DATA", "")) if os.environ.get("XLING_DATA") else _toy(Path(root))
        results = {
            "rescore": _rescore(Path(root) / "run", data),
            "retrieval": _retrieval(),
            "gate": _gate(),
        }
        if checkpoint:
            results["tatoeba"] = _tatoeba(Path(root) / "tatoeba", data, Path(checkpoint))
    print(json.dumps(results, indent=1))
    return 0


def retrieval_with_model(
    checkpoint: str, precision: Literal["auto", "fp32", "bf16"] = "bf16", num_langs: str = str(NUM_LANGS)
) -> int:
    """1,000 sentences among 1,000 translations for each language of Tatoeba: both sides embedded, then searched.

    Languages with fewer sentences take them again from the start.
    """
    data = Path(os.environ["XLING_DATA"])
    suite = suites()["tatoeba"]
    langs = languages_at(suite, "test", data)
    chosen = [langs[i * len(langs) // int(num_langs)] for i in range(int(num_langs))]
    cfg = EvalConfig(("tatoeba",), Path(), data, checkpoint=Path(checkpoint), precision=precision)
    texts = {}
    for lang in chosen:
        rows = load(suite, lang, "test", data)
        texts[lang] = [
            [rows[i % len(rows)].fields[side] for i in range(NUM_ROWS)] for side in ("text_a", "text_b")
        ]

    def embed_and_search() -> None:
        system = build("pretrained", cfg)
        for lang, (source, target) in texts.items():
            a, b = (system.embed(part, lang, -1, "mean") for part in (source, target))
            retrieval.nearest(a, b, "cosine")

    print(json.dumps({"languages": len(chosen), "precision": precision, **_timed(embed_and_search)}))
    return 0


def _toy(root: Path) -> Path:
    make_toyworld(ToyworldConfig(out=str(root / "toy")))
    return root / "toy"


def _rescore(folder: Path, data: Path) -> dict[str, Any]:
    """Write predictions for every scored row, then score them cold and warm."""
    rows, suites_seen = 0, set()
    for suite, lang, split in _scored(data):
        gold = load(suite, lang, split, data)
        origin = Origin(suite.name, lang, split, "pretrained", 1, "zero_shot", "last", "en", "bench")
        answers = [_answer(suite, row, place) for place, row in enumerate(gold)]
        predictions.write(folder / "predictions", origin, gold, answers)
        rows += len(gold)
        suites_seen.add(suite.name)
    by_kind = {}
    for name, text in (("translation", True), ("all other suites", False)):
        files = [p for p in predictions.files(folder) if (_kind(p) in ("mt", "generation")) == text]
        by_kind[name] = _timed(lambda files=files: score_files(files, data))  # type: ignore[misc]
    table = TableConfig(allow_missing=True)
    cores = os.cpu_count() or 1
    cold = _timed(lambda: rescore(RescoreConfig(folder, data, table, cores)))
    before = {p.name: p.read_bytes() for p in (folder / "tables").iterdir()}
    words = [f"run={folder}", f"data={data}", "table.allow_missing=true", f"num_workers={cores}"]
    command = [sys.executable, "-m", "xling.cli", "eval", "rescore", *words]
    warm = _timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    after = {p.name: p.read_bytes() for p in (folder / "tables").iterdir()}
    return {
        "suites": len(suites_seen),
        "rows": rows,
        "files": len(predictions.files(folder)),
        "one process": by_kind,
        f"{cores} processes (seconds only)": cold["seconds"],
        "warm, with the start of Python": warm,
        "same bytes": before == after,
    }


def _kind(path: Path) -> str:
    return suites()[predictions.read_origin(path).suite].kind


def _scored(data: Path) -> Iterator[tuple[Suite, str, str]]:
    for suite in suites().values():
        langs = [
            x for split in ("test", "dev") if split in suite.splits for x in languages_at(suite, split, data)
        ]
        for lang in dict.fromkeys(langs):
            yield suite, lang, scored_split(suite, lang, data)


def _answer(suite: Suite, row: Example, place: int) -> Any:
    """Return the right answer on seven rows of ten, a wrong one of the same shape on the others."""
    right = place % 10 < 7
    if right:
        return suite.shape.right_answer(row)
    if "tokens" in row.fields:
        tag = "O" if suite.scheme else suite.labels[0]
        return suite.shape.repeated((row.label[0], tag) if suite.shape.may_be_rare else tag, row)
    if suite.labels:
        return suite.labels[0]
    return row.fields["context"][:30] if "context" in row.fields else row.fields.get("text", 0)


def _retrieval() -> dict[str, Any]:
    """Return nearest neighbours of 1,000 in 1,000 for 60 languages, for each distance."""
    draw = rng("benchmark", "retrieval")
    pairs = [draw.normal(size=(2, NUM_ROWS, DIM)).astype(np.float32) for _ in range(NUM_LANGS)]
    return {
        name: _timed(lambda name=name: [retrieval.nearest(a, b, name) for a, b in pairs])  # type: ignore[misc]
        for name in ("cosine", "margin", "csls")
    }


def _tatoeba(folder: Path, data: Path, checkpoint: Path) -> dict[str, Any]:
    """Return all languages of Tatoeba by a model: with its forward passes, and again with the kept vectors."""
    cfg = EvalConfig(
        ("tatoeba",), folder, data, ("pretrained",), checkpoint, table=TableConfig(allow_missing=True)
    )
    system = build("pretrained", cfg)
    first = _timed(lambda: evaluate_systems(cfg, [system]))
    again = dataclasses.replace(cfg, distance="csls")
    return {
        "first": first,
        "another distance, no forward pass": _timed(lambda: evaluate_systems(again, [system])),
    }


def _gate() -> dict[str, Any]:
    """Return share of draws in which a drop of 2 points is caught, and of false alarms without one."""
    draw = rng("benchmark", "gate")
    results: dict[str, Any] = {
        "draws": DRAWS,
        "level": FALSE_ALARMS,
        "accuracy": 70,
        "rows that differ, %": 15,
    }
    for n in (5000, 8000):
        hits = {}
        for drop in (0.02, 0.0):
            low = 0
            for number in range(DRAWS):
                pair = _pair(draw, n, drop)
                low += (
                    stats.compare([pair], METRICS["accuracy"], f"{n}/{drop}/{number}").p_lower <= FALSE_ALARMS
                )
            hits["caught, %" if drop else "false alarms, %"] = 100 * low / DRAWS
        results[f"{n} rows"] = hits
    results["rows for 95 % power"] = stats.rows_needed(0.15, 2.0, FALSE_ALARMS)
    return results


def _pair(draw: np.random.Generator, n: int, drop: float) -> Paired:
    only_a, only_b = (0.15 + drop) / 2, (0.15 - drop) / 2
    kinds = draw.choice(4, size=n, p=[0.70 - only_a, only_a, only_b, 0.30 - only_b])
    a, b = np.isin(kinds, (0, 1)), np.isin(kinds, (0, 2))
    return Paired("xx", with_count(a.astype(float)), with_count(b.astype(float)))


def _timed(function: Callable[[], object]) -> dict[str, float]:
    """Return seconds on the clock and of processor time, children included."""
    before, start = _cpu(), time.perf_counter()
    function()
    return {"seconds": round(time.perf_counter() - start, 2), "cpu_seconds": round(_cpu() - before, 2)}


def _cpu() -> float:
    parts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in parts)


if __name__ == "__main__":
    sys.exit(retrieval_with_model(*sys.argv[2:]) if sys.argv[1:2] == ["retrieval"] else main(*sys.argv[1:]))
