"""Output of a running training: ``log.jsonl``, and one estimate of the remaining time."""

import errno
import json
import math
import os
import time
from pathlib import Path
from typing import Any

from fairseq.logging import metrics
from fairseq.trainer import Trainer

from xling.core.output import manifest, records
from xling.core.progress import print_above_bar
from xling.models.distributed import processes
from xling.training import speed
from xling.training.trackers import Show
from xling.training.update import Updates

MISHAPS = ("skipped_updates", "halved_batches")


class Clock:
    """Timer that prints the remaining time of a training once, after `WARM` updates and `TIMED` more."""

    WARM, TIMED = 5, 20

    def __init__(self, what: str) -> None:
        self._what, self._updates, self._since = what, 0, 0.0

    def count_update(self, remaining: int) -> None:
        """Count an update; ``remaining`` updates follow."""
        self._updates += 1
        if self._updates == self.WARM:
            self._since = time.perf_counter()
        if self._updates == self.WARM + self.TIMED and remaining and processes.rank() == 0:
            seconds = (time.perf_counter() - self._since) / self.TIMED
            minutes = f"about {remaining * seconds / 60:,.1f} min without validation"
            print_above_bar(f"{self._what}: {remaining:,} updates left, {minutes}")


class Log:
    """Writer of ``log.jsonl``: one line per event; truncated to the checkpoint when a run is resumed.

    Attributes:
        show: called with every event too.
        mishaps: updates skipped and batches halved before the checkpoint.
    """

    def __init__(self, path: Path, num_updates: int) -> None:
        self.path = path
        self.show: Show = lambda event: None
        written = records.read_lines(path) if num_updates else []  # a fresh training has no events
        events = [event for event in written if isinstance(event.get("update"), int)]
        events = [event for event in events if event["update"] <= num_updates]
        manifest.write_atomic(path, "".join(f"{json.dumps(event)}\n" for event in events))
        self._unwritten = ""  # lines that did not fit on the disk yet
        metrics.reset_meters("train")  # they may hold values of an earlier run in the same process
        self._tokens, self._since, self.tokens_per_s = 0, time.perf_counter(), 0.0
        self._operations, self.precision, self._precision_written = 0.0, "", False
        self._epoch = max((event.get("epoch", 0) for event in events), default=0)
        seen = [event for event in events if event.get("split") == "train"][-1:]
        self.mishaps = tuple(seen[0].get(key, 0) for key in MISHAPS) if seen else (0, 0)

    def count(self, trainer: Trainer, samples: list[Any]) -> None:
        """Count the real tokens and the operations of an update."""
        self._tokens += sum(sample["ntokens"] for sample in samples if sample)
        self._operations += speed.operations(trainer.get_model(), samples)

    def write_train(self, trainer: Trainer, updates: Updates) -> str:
        """Write the training loss since the last line; return a short form for the progress bar.

        The first line says why the precision is what it is. That of an epoch also states how much of each language,
        or pair, the epoch holds.
        """
        values = metrics.get_smoothed_values("train")
        rate = self.tokens_per_s = self._tokens / (time.perf_counter() - self._since)
        seconds = time.perf_counter() - self._since
        weight = next(trainer.get_model().parameters())
        most, _ = speed.peak(weight.device.type, weight.dtype)
        used = self._operations / seconds / most if most else math.nan
        self._tokens, self._operations, self._since = 0, 0.0, time.perf_counter()
        metrics.reset_meters("train")
        # A language without a batch since the last line has an empty meter.
        losses = {k: float(v) for k, v in values.items() if k.startswith("loss") and v is not None}
        counts: dict[str, Any] = {
            "tokens_per_s": round(rate),
            **({"mfu": round(used, 4)} if most else {}),
            "lr": updates.rate,
            **({"gnorm": round(float(values["gnorm"]), 4)} if values.get("gnorm") is not None else {}),
            **dict(zip(MISHAPS, (updates.skipped, updates.halved), strict=True)),
        }
        dtype, _, why = self.precision.partition(": ")
        precision = f"{dtype} ({why})" if not self._precision_written else dtype
        counts |= {"precision": self.precision} if not self._precision_written else {}
        self._precision_written = True
        dataset = trainer.task.dataset("train")
        if dataset.epoch > self._epoch:  # its mixture has not been written yet
            self._epoch = dataset.epoch
            drawn = {f"drawn/{name}": n for name, (_, n) in dataset.mixture().items()}
            counts |= {"epoch": dataset.epoch} | drawn
        self._write({"update": trainer.get_num_updates(), "split": "train", **counts, **losses})
        mfu = f"MFU {used:.1%}, " if most else ""
        rates = f"lr {updates.rate:.2e}, gnorm {counts.get('gnorm', math.nan):.2f}, {rate:,.0f} tokens/s"
        return f"loss {losses.get('loss', math.nan):.3f}, {rates}, {mfu}{precision}"

    def write_valid(self, trainer: Trainer, losses: dict[str, float], more: dict[str, float]) -> None:
        """Write validation losses and perplexities by objective and language, and the measurements of a `Watch`."""
        ppl = {f"ppl{key[4:]}": round(math.exp(min(value, 50)), 3) for key, value in losses.items()}
        self._write({"update": trainer.get_num_updates(), "split": "valid", **losses, **ppl, **more})

    def _write(self, event: dict[str, Any]) -> None:
        """Append a line; if the disk is full, keep it until the next one."""
        self._unwritten += json.dumps(event) + "\n"
        with self.path.open("ab", buffering=0) as handle:
            size = handle.tell()
            try:
                if handle.write(self._unwritten.encode()) < len(self._unwritten):  # the text is ASCII
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._unwritten = ""
            except OSError as error:
                handle.truncate(size)
                records.report_once(self.path, f"lines wait to be written: {error.strerror}")
        self.show(event)
