"""Pre-training and zero-shot transfer in minutes of a GPU: an English body learns languages, or a model from nothing.

Settings: ``folder=`` with ``shards`` (`xling binarize` of pairs), ``body`` (`xling import hf`), ``static`` (`xling
pretrain static`) and ``data`` (rows of the suites); ``start=body|nothing``, ``seconds=`` of training, ``batch=``
(tokens), ``lr=``, ``rows=`` of fine-tuning, ``seeds=``, ``suites=``, ``scale=tiny``.

A short training measures the rate, from which the updates of the long one follow. Then a process for each suite, model
and seed scores it, all at the same time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.gpu.common import Table

SHAPE = {
    "body": "layers=6 dim=384 heads=12 ffn_dim=1536 max_positions=512 segment_embeddings=true norm_eps=1e-12 dropout=0",
    "nothing": "layers=6 dim=512 heads=8 ffn_dim=2048 max_positions=256 dropout=0",
}
PAIRS = "tokens_per_sample=128 alpha=0.5"
CONTRAST = f"weight=1 negatives=batch pooling=mean mask_prob=0 mix=0 layer=6 {PAIRS}"
OBJECTIVES = {
    "body": {"teach": f"weight=3 least=0.4 {PAIRS}", "xlco": CONTRAST},
    "nothing": {
        "mmlm": "weight=1 alpha=0.5 tokens_per_sample=128",
        "tlm": f"weight=2 {PAIRS}",
        "xlco": CONTRAST,
    },
}
SUITES = "xnli sib200 panx udpos uner ntrex,tatoeba"
RETRIEVAL = "ntrex,tatoeba"
FIT = {
    "xnli": "lr=5e-5 epochs=3",
    "sib200": "lr=1e-4 epochs=20",
    "panx": "lr=1e-4 epochs=3 layers=mix",
    "udpos": "lr=1e-4 epochs=3 layers=mix",
    "uner": "lr=1e-4 epochs=3 layers=mix",
}
"""Settings of fine-tuning; with all, the embeddings are frozen, since the rows of other languages do not move."""
PROBE_UPDATES = 60


def run(settings: dict[str, str]) -> None:
    """Train, score, and print a table of the times."""
    folder, start = Path(settings["folder"]).resolve(), settings.get("start", "body")
    out = Path(os.environ.get("OUT", "runs/gpu")).resolve() / "transfer"
    table = Table(f"transfer_{start}", f"pre-training ({start}) and transfer", **settings)
    is_tiny = settings.get("scale") == "tiny"
    budget, probe_updates = float(settings.get("seconds", 240)), 3 if is_tiny else PROBE_UPDATES
    probe = out / f"{start}-probe"
    begin = time.perf_counter()
    _pretrain(settings, folder, probe, probe_updates, _first_start(folder, start))
    speed = _speed(probe)
    updates = probe_updates if is_tiny else max(probe_updates, int(budget * speed / _batch(settings)))
    table.add(step="probe", seconds=time.perf_counter() - begin, updates=probe_updates, tokens_s=speed)
    model, begin = out / start, time.perf_counter()
    _pretrain(settings, folder, model, updates, [f"init={probe}"])
    table.add(step="training", seconds=time.perf_counter() - begin, updates=updates, tokens_s=_speed(model))
    begin = time.perf_counter()
    seeds, models = settings.get("seeds", "1,2,3").split(","), [f"{start}={model}"]
    if start == "body":
        models.append(f"english={folder / 'body'}")
    jobs = []
    for suites in settings.get("suites", SUITES).split():
        words = [f"suites={suites}", f"data={folder / 'data'}"]
        if suites == RETRIEVAL:
            jobs.append([*words, f"checkpoints={','.join(models)}", "systems=pretrained"])
            continue
        words += [f"fit.{word}" for word in f"freeze_embeddings=true {FIT[suites]}".split()]
        words += [f"train_rows={settings.get('rows', 64 if is_tiny else 60_000)}"]
        jobs += [
            [*words, f"checkpoints={each}", f"seeds={seed}", "systems=pretrained"]
            for each in models
            for seed in (seeds if each is models[0] else seeds[:1])
        ]
    running = [
        _xling("eval", *words, f"out={out / f'{start}-eval-{number}'}") for number, words in enumerate(jobs)
    ]
    for number, (words, process) in enumerate(zip(jobs, running, strict=True)):
        code = process.wait()
        table.add(
            step=f"eval {number}: {words[0]}", model=words[-3], code=code, seconds=time.perf_counter() - begin
        )


def _batch(settings: dict[str, str]) -> int:
    return int(settings.get("batch", 1024 if settings.get("scale") == "tiny" else 65_536))


def _first_start(folder: Path, start: str) -> list[str]:
    """Return how the first training starts."""
    if start == "nothing":
        return []
    static = folder / "static"
    return [f"init={folder / 'body'}", "embeddings=wechsel", f"init_pieces={static}"]


def _pretrain(settings: dict[str, str], folder: Path, out: Path, updates: int, start: list[str]) -> None:
    """Run a training to its end."""
    kind, is_tiny = settings.get("start", "body"), settings.get("scale") == "tiny"
    words = [f"data={folder / 'shards'}", f"out={out}", *start]
    words += [f"model.{word}" for word in SHAPE[kind].split()]
    for name, given in OBJECTIVES[kind].items():
        words += [f"objectives.{name}.{word}" for word in given.split()]
    if kind == "body":
        words += [f"freeze_pieces={folder / 'body'}", f"objectives.teach.teacher={folder / 'body'}"]
        words += [f"objectives.teach.links={folder / 'static'}"]
    workers = 0 if is_tiny else (os.cpu_count() or 2) - 2
    training = (
        f"updates={updates} batch_tokens={_batch(settings)} lr={settings.get('lr', '4e-4')} workers={workers}"
    )
    training += f" warmup={min(100, updates // 2)} schedule=wsd decay=0.3 weight_decay=0"
    training += " valid_every=1000000 save_every=1000000 log_every=20"
    words += [f"train.{word}" for word in training.split()]
    if code := _xling("pretrain", *words).wait():
        sys.exit(f"xling pretrain: exit {code}")


def _speed(model: Path) -> float:
    """Return the tokens per second in the later half of a training."""
    lines = [json.loads(line) for line in (model / "log.jsonl").read_text().splitlines()]
    rates = [line["tokens_per_s"] for line in lines if line["split"] == "train"]
    return statistics.mean(rates[len(rates) // 2 :])


def _xling(*words: str) -> subprocess.Popen[bytes]:
    print("xling", *words, flush=True)
    return subprocess.Popen([sys.executable, "-m", "xling", *words], stdin=subprocess.DEVNULL)
