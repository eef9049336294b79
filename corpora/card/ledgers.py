"""Ledgers that store every rejected text of one part of a build, and their JSON form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from xling.core.output.parts import read_json, write_json
from xling.corpora.card.counters import Counters
from xling.corpora.common.shards import REJECT_SCHEMA, TableWriter
from xling.corpora.stages.filters import Filters
from xling.corpora.stages.langid import LangId
from xling.text.document import Document, Ledger

LEDGER, COUNTERS = "ledger.json", "counters.json"
_SEPARATOR = "\t"


class RejectLog(Ledger):
    """A ledger that also writes every dropped text to ``rejects.parquet``, itself and its `Counters` to JSON files.

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
        self.counters = Counters()
        self._partial = partial
        self._table = TableWriter(folder / "rejects.parquet", REJECT_SCHEMA) if max_chars else None

    def drop(self, stage: str, reason: str, doc: Document, text: str | None = None) -> None:
        """Count the loss, and write what was lost."""
        super().drop(stage, reason, doc, text)
        if (stage, reason) not in self._partial:
            self.counters.dropped(doc)
            if stage == LangId.name:
                self.counters.count_identified(doc)
            if stage == Filters.name:
                self.counters.count_statistics(doc)
        lost = doc.text if text is None else text
        if self._table is not None:
            row = {"id": doc.id, "stage": stage, "reason": reason, "url": doc.url, "lang": doc.lang}
            self._table.add(row | {"text": lost[: self._max_chars]})

    def __enter__(self) -> RejectLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._table is not None:
            self._table.__exit__(kind, *rest)
        if kind is None:
            write_json(self._folder / LEDGER, ledger_to_json(self))
            write_json(self._folder / COUNTERS, self.counters.to_json())


def ledger_to_json(ledger: Ledger) -> dict[str, Any]:
    """Return a ledger as JSON-ready values; `ledger_from_json` reads them back."""

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
        "num_bytes": flat(ledger.num_bytes),
    }


def ledger_from_json(data: dict[str, Any]) -> Ledger:
    """Return the ledger that `ledger_to_json` wrote."""

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
        num_bytes=Counter({pair(k): v for k, v in data.get("num_bytes", {}).items()}),
    )


def merged_ledger(folders: list[Path], num_samples: int) -> Ledger:
    """Return the ledgers of several parts, added up in order."""
    total = Ledger(num_samples=num_samples)
    for folder in folders:
        total.merge(ledger_from_json(read_json(folder / LEDGER)))
    return total


def merged_counters(folders: list[Path], num_samples: int) -> Counters:
    """Return the counters of several parts, added up in order; ``num_samples`` samples stay."""
    total = Counters()
    for folder in folders:
        total.merge(Counters.from_json(read_json(folder / COUNTERS)), num_samples)
    return total


def dropped_by_reason(ledger: Ledger) -> dict[str, int]:
    """Return ``stage/reason`` -> number of losses, as manifests record them."""
    return {f"{stage}/{reason}": num for (stage, reason), num in sorted(ledger.dropped.items())}


def main_reasons(ledger: Ledger, partial: Collection[tuple[str, str]] = ()) -> str:
    """Return the three most frequent reasons with their numbers; those in ``partial`` do not count."""
    counts = sorted(((num, key) for key, num in ledger.dropped.items() if key not in partial), reverse=True)
    return ", ".join(f"{stage}/{reason} {num:,}" for num, (stage, reason) in counts[:3])


def chars_of_stages(stats: Mapping[str, Any]) -> Counter[str]:
    """Return the characters that reached each stage, in the spelling of what was published.

    Where a stage spells text in fewer characters, such as a letter with its mark as one, nothing is lost.
    """
    ledger = ledger_from_json(stats["ledger"])
    reached = [name for name in stats["stages"] if ledger.seen[name] or name == "corpus"]
    dropped: Counter[str] = Counter()
    for (stage, _), num in ledger.dropped_chars.items():
        dropped[stage] += num
    chars, after = Counter({reached[-1]: ledger.seen_chars[reached[-1]]}), reached[-1]
    for name in reversed(reached[:-1]):
        chars[name], after = chars[after] + dropped[name], name
    return chars
