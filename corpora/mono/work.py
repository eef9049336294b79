"""The workshop of a build: parts that exist only when they are complete, and ledgers that keep every reject.

Beside the output ``OUT`` lies ``.OUT.work/KEY/PHASE/INDEX/``. A part is made in a temporary folder and renamed,
so that a process killed at any moment leaves either the whole part or rubbish that nobody reads. ``KEY`` is a
digest of the configuration: a build with other settings never picks up these parts.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from corpora.document import Document, Ledger
from corpora.mono.tally import Tally
from corpora.shards import REJECT_SCHEMA, TableWriter
from corpora.stages.langid import LangId
from xling.core.answer import Answer

_SEPARATOR = "\t"


@dataclass(frozen=True)
class Work:
    """The parts of one build under ``root``."""

    root: Path

    def part(self, phase: str, index: int) -> Path:
        """Where part ``index`` of ``phase`` is, or will be."""
        return self.root / phase / f"{index:05d}"

    @contextmanager
    def making(self, phase: str, index: int) -> Iterator[Path]:
        """A folder for the files of a part; it becomes the part when the block ends without an error."""
        target = self.part(phase, index)
        temporary = target.with_name(f".{target.name}.{socket.gethostname()}.{os.getpid()}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        start, cpu_start = time.perf_counter(), time.process_time()
        try:
            yield temporary
            facts = {
                "seconds": round(time.perf_counter() - start, 3),
                "cpu_seconds": round(time.process_time() - cpu_start, 3),
                "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            }
            write_json(temporary / "facts.json", facts)
            self._install(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    @staticmethod
    def _install(temporary: Path, target: Path) -> None:
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():  # else a second worker was given the same part and was faster
                raise

    def discard(self, *phases: str, name: str) -> None:
        """Delete file ``name`` in all parts of ``phases``: nothing needs it any more."""
        for phase in phases:
            for path in sorted((self.root / phase).glob(f"*/{name}")):
                path.unlink(missing_ok=True)


def unless_a_twin_was_faster(
    make: Callable[[], Answer | None],
    work: Callable[[], Work],
    is_published: Callable[[], object],
    done: Callable[[], Answer | None],
) -> Answer | None:
    """What ``make`` returns, or ``done`` where the same build elsewhere was faster and has cleared the parts away."""
    try:
        return make()
    except FileNotFoundError:
        if work().root.exists() or not is_published():
            raise
        return done()


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON that is equal for equal values."""
    path.write_text(json.dumps(value, ensure_ascii=False, sort_keys=True, indent=0) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


class RejectLog(Ledger):
    """A ledger that also writes every dropped text to ``rejects.parquet``, itself and a tally to JSON files.

    Args:
        folder: the part in the making.
        partial: stages and reasons that drop a piece of a document; the others drop all of it.
        num_samples: dropped texts kept for the data card per stage and reason.
        max_chars: characters kept of each dropped text; 0 writes no rejects.
    """

    def __init__(
        self, folder: Path, partial: Collection[tuple[str, str]], num_samples: int = 5, max_chars: int = 2000
    ) -> None:
        super().__init__(num_samples=num_samples)
        self._folder, self._max_chars = folder, max_chars
        self.tally = Tally()
        self._partial = partial
        self._table = TableWriter(folder / "rejects.parquet", REJECT_SCHEMA) if max_chars else None

    def drop(self, stage: str, reason: str, doc: Document, text: str | None = None) -> None:
        """Count the loss, and write what was lost."""
        super().drop(stage, reason, doc, text)
        if (stage, reason) not in self._partial:
            self.tally.dropped(doc)
            if stage == LangId.name:
                self.tally.identified(doc)
        lost = doc.text if text is None else text
        if self._table is not None:
            row = {"id": doc.id, "stage": stage, "reason": reason, "url": doc.url, "lang": doc.lang}
            self._table.add(row | {"text": lost[: self._max_chars]})

    def __enter__(self) -> RejectLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._table is not None:
            self._table.__exit__(kind, error, trace)
        if kind is None:
            write_json(self._folder / "ledger.json", ledger_to_json(self))
            write_json(self._folder / "tally.json", self.tally.to_json())


def ledger_to_json(ledger: Ledger) -> dict[str, Any]:
    """A ledger as JSON-ready values; `ledger_from_json` reads them back."""

    def flat(table: Any) -> dict[str, Any]:
        return {_SEPARATOR.join(key): value for key, value in table.items()}

    return {
        "num_samples": ledger.num_samples,
        "seen": dict(ledger.seen),
        "seen_chars": dict(ledger.seen_chars),
        "dropped": flat(ledger.dropped),
        "dropped_chars": flat(ledger.dropped_chars),
        "samples": flat(ledger.samples),
        "notes": dict(ledger.notes),
    }


def ledger_from_json(data: dict[str, Any]) -> Ledger:
    """The ledger that `ledger_to_json` wrote."""

    def pair(key: str) -> tuple[str, str]:
        stage, _, reason = key.partition(_SEPARATOR)
        return stage, reason

    return Ledger(
        num_samples=data["num_samples"],
        seen=Counter(data["seen"]),
        seen_chars=Counter(data["seen_chars"]),
        dropped=Counter({pair(k): v for k, v in data["dropped"].items()}),
        dropped_chars=Counter({pair(k): v for k, v in data["dropped_chars"].items()}),
        samples={pair(k): [(name, text) for name, text in v] for k, v in data["samples"].items()},
        notes=Counter(data["notes"]),
    )


def merged_ledger(folders: list[Path], num_samples: int) -> Ledger:
    """The ledgers of several parts, added up in order."""
    total = Ledger(num_samples=num_samples)
    for folder in folders:
        total.merge(ledger_from_json(read_json(folder / "ledger.json")))
    return total
