"""Documents, the unit of corpus work, and the ledger that counts dropped data."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

READ = "read"
"""Stage name of the sources in the ledger."""
STORED, UNPACKED = "stored", "unpacked"
"""Levels at which bytes are counted: as stored in files, and decompressed."""
TITLED, LONE = "titled", "lone"
"""Forms of a document: its first line is a title; it is one line by itself, such as an isolated sentence."""
SURROGATE = re.compile(r"[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Replace unpaired surrogates by U+FFFD: JSON can hold them, but UTF-8 cannot."""
    return SURROGATE.sub("\ufffd", text)


def loads(text: str) -> Any:
    """Parse JSON as `json.loads`, with unpaired surrogates replaced."""
    value = json.loads(text)
    if "\\ud" in text.lower():  # an escape that may be half of a pair
        value = json.loads(replace_surrogates(json.dumps(value, ensure_ascii=False)))
    return value


@dataclass(slots=True)
class Document:
    """One document of running text.

    Attributes:
        id: stable name, ``<shard>/<record number>`` unless the source has its own.
        text: UTF-8 text, one paragraph per line, no empty lines.
        url: where the document was published, or "".
        source: the source URI it was read from.
        date: ISO 8601 date or time of capture, or "".
        lang: language code of `xling.core.languages`, "" until identified.
        meta: values computed by stages: ``lang_score``, ``perplexity``, ``bucket``, ``num_pii_email``, ...
        form: `TITLED`, `LONE`, or "" for running text without a title; the source knows it, the text does not.
    """

    id: str
    text: str
    url: str = ""
    source: str = ""
    date: str = ""
    lang: str = ""
    meta: dict[str, Any] = field(default_factory=dict)
    form: str = ""

    @property
    def num_title_lines(self) -> int:
        """Return 1 if the first line is a title, else 0; a text of one line has none."""
        return int(self.form == TITLED and "\n" in self.text)

    def split_title(self) -> tuple[list[str], list[str]]:
        """Return the title, if there is one, and the lines after it."""
        lines = self.text.split("\n")
        return lines[: self.num_title_lines], lines[self.num_title_lines :]


@dataclass
class Ledger:
    """Counts of the documents read, written, and dropped by stage and reason.

    Counts are documents and characters (Unicode code points). ``dropped`` is keyed by ``(stage, reason)``;
    the first ``num_samples`` dropped texts of each key are kept for the card. ``num_bytes`` is keyed by
    ``(level, name)``. At each level, the bytes ``in`` equal the sum of the others: bytes that were read, and
    bytes lost for each reason. Ledgers of shards are added with `merge`.
    """

    num_samples: int = 5
    seen: Counter[str] = field(default_factory=Counter)
    seen_chars: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    dropped_chars: Counter[tuple[str, str]] = field(default_factory=Counter)
    samples: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    num_bytes: Counter[tuple[str, str]] = field(default_factory=Counter)

    def count_seen(self, stage: str, doc: Document) -> None:
        """Count ``doc`` as having reached ``stage``."""
        self.seen[stage] += 1
        self.seen_chars[stage] += len(doc.text)

    def drop(self, stage: str, reason: str, doc: Document, text: str | None = None) -> None:
        """Count ``doc`` (or only its part ``text``) as dropped by ``stage`` for ``reason``."""
        key = (stage, reason)
        dropped_text = doc.text if text is None else text
        self.dropped[key] += 1
        self.dropped_chars[key] += len(dropped_text)
        samples = self.samples.setdefault(key, [])
        if len(samples) < self.num_samples:
            samples.append((doc.id, dropped_text[:500]))

    def count_bytes(self, level: str, name: str, num: int) -> None:
        """Count input bytes at ``level``; ``name`` is ``in``, ``read`` or the reason of a loss."""
        self.num_bytes[level, name] += num

    def drop_bytes(self, reason: str, num: int, level: str) -> int:
        """Count an unreadable stretch of input as one document with a character per byte.

        Return its number of bytes.
        """
        self.seen[READ] += 1
        self.seen_chars[READ] += num
        self.dropped[READ, reason] += 1
        self.dropped_chars[READ, reason] += num
        self.count_bytes(level, f"lost: {reason}", num)
        return num

    def unaccounted_bytes(self) -> dict[str, int]:
        """Return the bytes ``in`` that are not accounted for, by level; empty when every byte is."""
        balance: Counter[str] = Counter()
        for (level, name), num in self.num_bytes.items():
            balance[level] += num if name == "in" else -num
        return {level: num for level, num in balance.items() if num}

    def count_event(self, event: str, count: int = 1) -> None:
        """Count an event that drops nothing, such as a repaired character."""
        self.notes[event] += count

    def merge(self, other: Ledger) -> None:
        """Add the counts and samples of another shard's ledger."""
        for counts, other_counts in (
            (self.seen, other.seen),
            (self.seen_chars, other.seen_chars),
            (self.notes, other.notes),
        ):
            counts.update(other_counts)
        self.num_bytes.update(other.num_bytes)
        self.dropped.update(other.dropped)
        self.dropped_chars.update(other.dropped_chars)
        for key, texts in other.samples.items():
            samples = self.samples.setdefault(key, [])
            samples.extend(texts[: self.num_samples - len(samples)])
