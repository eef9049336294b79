"""Paragraph deduplication over any number of shards, with CCNet's rules and bounded memory.

Three steps, each restartable and parallel over its files:

1. `hash_shard` (map over shards) writes the keys of a shard's paragraphs, split into ranges of key values.
2. `find_duplicates` (barrier, map over ranges) reads one range of every shard: memory is one range.
3. `drop_duplicates` (map over shards) drops the paragraphs whose key occurs in two or more documents.

The rules are those of CCNet's code (cc_net/dedup.py): the key is the first 8 bytes of the SHA-1 of the
normalised paragraph; every copy of a paragraph found in two documents is dropped, the first one too; of a
paragraph repeated inside one document only, the first stays; the first line is a title and is never compared.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xling.core.errors import UserError
from xling.text.document import Document, Ledger
from xling.text.normalize import for_dedup_batch

STAGE = "paragraph_dedup"
REASONS = {
    "duplicate_paragraphs": "these paragraphs occur in other documents too",
    "repeated_paragraphs": "these paragraphs stand earlier in the same document",
    "no_paragraph_left": "every paragraph after the title was a duplicate",
}
PARTIAL = frozenset({"duplicate_paragraphs", "repeated_paragraphs"})

KEYS, LENGTHS = "keys.u64", "lengths.u32"
REPEATED = 0  # stands in the key file for a paragraph met before in its document, as in CCNet
_KEY_BYTES = 8
_BATCH_CHARS = 100_000
_CHECK_EVERY = 64  # documents whose first key is compared again; the number of paragraphs always is
_SPILL_KEYS = 4_000_000  # 32 MB of keys, about 0.4 GB of web text

Keys = NDArray[np.uint64]


@dataclass
class ShardHashes:
    """Counts of one shard: documents, paragraphs after the titles, paragraphs repeated in their document."""

    num_docs: int = 0
    num_paragraphs: int = 0
    num_repeated: int = 0


def keys_of(text: str) -> Keys:
    """CCNet's key of each line of ``text``, ``(num_lines,)`` uint64: first 8 bytes of SHA-1, little-endian."""
    sha1 = hashlib.sha1
    digests = b"".join([sha1(line).digest() for line in for_dedup_batch(text)])
    table = np.frombuffer(digests, dtype=np.uint8).reshape(-1, 20)
    return table[:, :_KEY_BYTES].copy().view("<u8").reshape(-1)


def partition_file(shard_dir: Path, partition: int) -> Path:
    """Where `hash_shard` puts the keys of range ``partition``."""
    return shard_dir / f"part-{partition:05d}.u64"


def hash_shard(docs: Iterable[Document], out_dir: Path, num_partitions: int) -> ShardHashes:
    """Write the paragraph keys of one shard; ``out_dir`` appears complete or not at all.

    Memory is bounded by 4 million keys, whatever the size of the shard.

    Args:
        docs: the shard, in the order in which `drop_duplicates` will see it again.
        out_dir: gets the keys in order and one file per range of key values.
        num_partitions: number of ranges; `find_duplicates` holds one range of all shards in memory.
    """
    assert num_partitions >= 1, num_partitions
    work = out_dir.with_name(out_dir.name + ".tmp")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for partition in range(num_partitions):
        partition_file(work, partition).touch()
    counts = ShardHashes()
    with (work / KEYS).open("wb") as keys_file, (work / LENGTHS).open("wb") as lengths_file:
        for keys, lengths in _spills(docs):
            doc_of = np.repeat(np.arange(len(lengths)), lengths)
            num_repeated, sorted_keys = _mark_repeated(keys, doc_of)
            keys.tofile(keys_file)
            lengths.tofile(lengths_file)
            _append_ranges(sorted_keys, work, num_partitions)
            counts.num_docs += len(lengths)
            counts.num_paragraphs += len(keys)
            counts.num_repeated += num_repeated
    shutil.rmtree(out_dir, ignore_errors=True)
    work.rename(out_dir)
    return counts


def _spills(docs: Iterable[Document]) -> Iterator[tuple[Keys, NDArray[np.uint32]]]:
    """Keys and paragraph counts of whole documents, a few million keys at a time."""
    parts: list[Keys] = []
    lengths: list[int] = []
    batch: list[str] = []
    num_chars = num_keys = 0
    for doc in docs:
        _, newline, body = doc.text.partition("\n")
        lengths.append(body.count("\n") + 1 if newline else 0)
        if newline:
            batch.append(body)
            num_chars += len(body)
        if num_chars >= _BATCH_CHARS:
            parts.append(keys_of("\n".join(batch)))
            num_keys += len(parts[-1])
            batch, num_chars = [], 0
            if num_keys >= _SPILL_KEYS:
                yield np.concatenate(parts), np.array(lengths, dtype="<u4")
                parts, lengths, num_keys = [], [], 0
    if batch:
        parts.append(keys_of("\n".join(batch)))
    yield np.concatenate([np.zeros(0, dtype="<u8"), *parts]), np.array(lengths, dtype="<u4")


def _mark_repeated(keys: Keys, doc_of: NDArray[np.int64]) -> tuple[int, Keys]:
    """Set the key of paragraphs met before in their document to `REPEATED`, in place.

    Returns:
        Their number, and the sorted keys with one entry a document and at most two in all: two are enough
        to know a duplicate.
    """
    order = np.argsort(keys, kind="stable")
    ordered, docs = keys[order], doc_of[order]
    same = np.zeros(len(keys), dtype=bool)
    same[1:] = (ordered[1:] == ordered[:-1]) & (docs[1:] == docs[:-1])
    keys[order[same]] = REPEATED
    once = ordered[~same]
    enough = np.ones(len(once), dtype=bool)
    enough[2:] = once[2:] != once[:-2]
    return int(same.sum()), once[enough]


def _append_ranges(sorted_keys: Keys, directory: Path, num_partitions: int) -> None:
    """Append each range of sorted keys to its file."""
    bounds = np.array([(p << 64) // num_partitions for p in range(1, num_partitions)], dtype=np.uint64)
    for partition, part in enumerate(np.split(sorted_keys, np.searchsorted(sorted_keys, bounds))):
        with partition_file(directory, partition).open("ab") as handle:
            part.tofile(handle)


def find_duplicates(partition_files: Sequence[Path], out: Path) -> int:
    """Write the sorted keys that occur in two or more documents of one range; return their number.

    Args:
        partition_files: the same range of every shard. Memory is twice their size.
        out: file of little-endian uint64, written whole or not at all.
    """
    keys = np.concatenate([np.fromfile(path, dtype="<u8") for path in partition_files])
    keys.sort()
    duplicates = np.unique(keys[1:][keys[1:] == keys[:-1]])
    work = out.with_name(out.name + ".tmp")
    duplicates.tofile(work)
    work.rename(out)
    return len(duplicates)


def shard_duplicates(shard_dir: Path, duplicate_files: Sequence[Path]) -> Keys:
    """The sorted keys of this shard that are duplicated in any; memory is one range and the shard's keys.

    Args:
        shard_dir: what `hash_shard` wrote.
        duplicate_files: what `find_duplicates` wrote, one file a range, in the order of the ranges.
    """
    found = []
    for partition, path in enumerate(duplicate_files):
        keys = np.unique(np.fromfile(partition_file(shard_dir, partition), dtype="<u8"))
        found.append(keys[is_member(keys, np.fromfile(path, dtype="<u8"))])
    return np.concatenate(found)


def is_member(keys: Keys, sorted_keys: Keys) -> NDArray[np.bool_]:
    """Which of ``keys`` are in ``sorted_keys``, by binary search."""
    if len(sorted_keys) == 0:
        return np.zeros(len(keys), dtype=bool)
    places = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return np.asarray(sorted_keys[places] == keys)


def drop_duplicates(
    docs: Iterable[Document], shard_dir: Path, duplicate_files: Sequence[Path], ledger: Ledger
) -> Iterator[Document]:
    """Yield the documents without their duplicated paragraphs; those with no paragraph left are dropped.

    Args:
        docs: the documents that `hash_shard` saw, in the same order.
        shard_dir: what `hash_shard` wrote for them.
        duplicate_files: what `find_duplicates` wrote, one file a range.
        ledger: gets a document's lost paragraphs as one partial drop a reason.

    Raises:
        UserError: the documents are not those that were hashed.
    """
    duplicates = shard_duplicates(shard_dir, duplicate_files)
    lengths = np.fromfile(shard_dir / LENGTHS, dtype="<u4")
    ends = np.cumsum(lengths, dtype=np.int64)
    keys: Keys = np.fromfile(shard_dir / KEYS, dtype="<u8")
    repeated = keys == REPEATED
    lost = is_member(keys, duplicates) | repeated
    num_lost_before = np.concatenate([[0], np.cumsum(lost)])
    num_lost = num_lost_before[ends] - num_lost_before[ends - lengths]
    kept, duplicate, again = (~lost).tobytes(), (lost & ~repeated).tobytes(), repeated.tobytes()
    table = zip(lengths.tolist(), ends.tolist(), num_lost.tolist(), strict=True)
    number = -1
    for number, doc in enumerate(docs):
        ledger.enter(STAGE, doc)
        length, end, num = next(table, (-1, 0, 0))
        if not num and doc.text.count("\n") != length:
            raise _changed(shard_dir)
        if (
            number % _CHECK_EVERY == 0
            and length
            and keys_of(doc.text.split("\n", 2)[1])[0] != keys[end - length]
        ):
            raise _changed(shard_dir)
        if num:
            span = slice(end - length, end)
            if not _thin(doc, kept[span], duplicate[span], again[span], ledger):
                raise _changed(shard_dir)
        if num < length:
            yield doc
        else:
            ledger.drop(STAGE, "no_paragraph_left", doc)
    if number + 1 != len(ends):
        raise _changed(shard_dir)


def _thin(doc: Document, kept: bytes, duplicate: bytes, repeated: bytes, ledger: Ledger) -> bool:
    """Keep the paragraphs that ``kept`` marks with 1; the others go to the ledger by reason.

    Returns:
        False, and nothing done, where there are more or fewer paragraphs than marks.
    """
    title, *body = doc.text.split("\n")
    if len(body) != len(kept):
        return False
    for reason, mask in (("duplicate_paragraphs", duplicate), ("repeated_paragraphs", repeated)):
        if 1 in mask:
            dropped = list(itertools.compress(body, mask))
            ledger.drop(STAGE, reason, doc, "\n".join(["", *dropped]))
            ledger.note(reason, len(dropped))
    doc.text = "\n".join([title, *itertools.compress(body, kept)])
    return True


def _changed(shard_dir: Path) -> UserError:
    return UserError(
        f"the documents are not those hashed into {shard_dir}",
        fix="hash the shard again, then find the duplicates again",
    )
