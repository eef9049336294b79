"""Paragraph deduplication over any number of shards in bounded memory: the first copy stays.

Three steps, each restartable and parallel over its files. Files and bytes grow with the input and not faster:

1. `hash_shard` (map over shards) writes the keys of a shard's paragraphs, and once more those that are new in
   the shard, by range of key values, in one file.
2. `find_duplicates` (barrier, map over ranges) reads one range of every shard and writes back, by shard, the
   keys that an earlier shard has. Memory is one range.
3. `drop_duplicates` (map over shards) reads its slices of these and drops the paragraphs.

The key is CCNet's (cc_net/dedup.py): the first 8 bytes of the SHA-1 of the normalised paragraph. A title is never
compared, nor is a document of one line by itself, of which near-deduplication takes the copies. Unlike CCNet, which
drops every copy, the first copy stays: in the order of the shards, then of the documents, after all of those without
U+FFFD the flawed ones (within a shard of more than 4 million paragraphs only among these). So of a damaged text and its
whole copy the whole one stays, as in near-deduplication. Shards that are compared with each other are a scope; see
`Plan.scopes`.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from xling.array_types import Bool, UInt64
from xling.core.errors import UserError
from xling.corpora.common.slices import read_slices, write_slices
from xling.corpora.stages import Stage, Verdict
from xling.text.document import LONE, Document, Ledger
from xling.text.normalize import for_dedup_batch

STAGE = "paragraph_dedup"
REASONS = {
    "duplicate_paragraphs": "these paragraphs occur in an earlier document, or in one without replacement characters",
    "repeated_paragraphs": "these paragraphs occur earlier in the same document",
    "no_paragraph_left": "every paragraph was a duplicate",
}
PARTIAL_REASONS = frozenset({"duplicate_paragraphs", "repeated_paragraphs"})

KEYS_FILE, LENGTHS_FILE, RANGES_FILE, BOUNDS_FILE = "keys.u64", "lengths.u32", "ranges.u64", "bounds.u64"
REPEATED_KEY = 0  # in the key file: the paragraph occurs earlier in its document
COPIED_KEY = 1  # in the key file: the paragraph occurs in an earlier document of the shard
_KEY_BYTES = 8
_BATCH_CHARS = 100_000
_CHECK_EVERY = 64  # one document in this many has its first key verified; the number of paragraphs always is
_SPILL_KEYS = 4_000_000  # 32 MB of keys, about 0.4 GB of web text

Keys = NDArray[np.uint64]


def keys_of(text: str) -> UInt64[np.ndarray, " lines"]:
    """Return CCNet's key of each line of ``text``, ``(num_lines,)`` uint64: first 8 bytes of SHA-1, little-endian."""
    sha1 = hashlib.sha1
    digests = b"".join([sha1(line).digest() for line in for_dedup_batch(text)])
    table = np.frombuffer(digests, dtype=np.uint8).reshape(-1, 20)
    return table[:, :_KEY_BYTES].copy().view("<u8").reshape(-1)


def hash_shard(docs: Iterable[Document], out_dir: Path, num_ranges: int) -> None:
    """Write the paragraph keys of one shard; ``out_dir`` appears complete or not at all.

    Args:
        docs: the shard, in the order in which `drop_duplicates` will see it again. Memory is 4 million keys and
            8 bytes a different paragraph.
        out_dir: gets the keys in order, and the different keys by range.
        num_ranges: ranges of key values; `find_duplicates` holds one range of all shards in memory.
    """
    assert num_ranges >= 1, num_ranges
    temporary = out_dir.with_name(out_dir.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    edges = np.array([(p << 64) // num_ranges for p in range(1, num_ranges)], dtype=np.uint64)
    runs: list[Keys] = []
    bounds: list[NDArray[np.int64]] = []
    num_written = 0
    with (
        (temporary / KEYS_FILE).open("wb") as keys_file,
        (temporary / LENGTHS_FILE).open("wb") as lengths_file,
        (temporary / RANGES_FILE).open("wb") as ranges_file,
    ):
        for keys, lengths, is_flawed in _key_batches(docs):
            doc_of = np.repeat(np.arange(len(lengths)), lengths)
            new = _mark_copies(keys, doc_of, is_flawed[doc_of], runs)
            keys_file.write(keys.data)
            lengths_file.write(lengths.data)
            for run in new:
                ranges_file.write(run.data)
                bounds.append(num_written + np.concatenate([[0], np.searchsorted(run, edges), [len(run)]]))
                num_written += len(run)
            runs += new
    # The keys of one range are stored together, so that no other range is read.
    (temporary / BOUNDS_FILE).write_bytes(np.ascontiguousarray(np.stack(bounds, axis=1), dtype="<u8").data)
    shutil.rmtree(out_dir, ignore_errors=True)
    temporary.rename(out_dir)


def _key_batches(docs: Iterable[Document]) -> Iterator[tuple[Keys, NDArray[np.uint32], NDArray[np.bool_]]]:
    """Yield keys, paragraph counts and whether they are flawed of whole documents, a few million keys at a time."""
    parts: list[Keys] = []
    lengths: list[int] = []
    is_flawed: list[bool] = []
    batch: list[str] = []
    num_chars = num_keys = 0
    for doc in docs:
        body = _body(doc)
        lengths.append(0 if body is None else body.count("\n") + 1)
        is_flawed.append("\ufffd" in doc.text)
        if body is not None:
            batch.append(body)
            num_chars += len(body)
        if num_chars >= _BATCH_CHARS:
            parts.append(keys_of("\n".join(batch)))
            num_keys += len(parts[-1])
            batch, num_chars = [], 0
            if num_keys >= _SPILL_KEYS:
                yield np.concatenate(parts), np.array(lengths, dtype="<u4"), np.array(is_flawed)
                parts, lengths, is_flawed, num_keys = [], [], [], 0
    if batch:
        parts.append(keys_of("\n".join(batch)))
    keys = np.concatenate([np.zeros(0, dtype="<u8"), *parts])
    yield keys, np.array(lengths, dtype="<u4"), np.array(is_flawed, dtype=bool)


def _body(doc: Document) -> str | None:
    """Return the paragraphs that are compared; None where there are none."""
    if doc.form == LONE:
        return None
    return doc.text.partition("\n")[2] if doc.num_title_lines else doc.text


def _mark_copies(
    keys: Keys, doc_of: NDArray[np.int64], is_flawed: NDArray[np.bool_], runs: Sequence[Keys]
) -> tuple[Keys, Keys]:
    """Set the keys of paragraphs that occur earlier in the shard to `REPEATED_KEY` or `COPIED_KEY`, in place.

    Args:
        keys: of some documents, in order.
        doc_of: the document of each key.
        is_flawed: whether that document has U+FFFD; it counts as later than those without.
        runs: the sorted keys of earlier documents of the shard.

    Returns:
        The sorted keys that are new in the shard, of documents without U+FFFD and of flawed ones.
    """
    order = np.lexsort((is_flawed, keys))
    sorted_keys, docs = keys[order], doc_of[order]
    is_again = np.zeros(len(keys), dtype=bool)
    is_again[1:] = sorted_keys[1:] == sorted_keys[:-1]
    is_repeated = is_again.copy()
    is_repeated[1:] &= docs[1:] == docs[:-1]
    new, positions = sorted_keys[~is_again], order[~is_again]
    is_known = np.zeros(len(new), dtype=bool)
    for run in runs:
        is_known |= is_member(new, run)
    keys[order[is_again]] = COPIED_KEY
    keys[order[is_repeated]] = REPEATED_KEY
    keys[positions[is_known]] = COPIED_KEY
    of_flawed = is_flawed[positions]
    return new[~is_known & ~of_flawed], new[~is_known & of_flawed]


def _keys_in_range(shard_dir: Path, range_number: int, num_ranges: int, of_flawed: bool) -> Keys:
    """Return the keys of one range of a shard, of flawed documents or of others, each once, in sorted runs."""
    path = shard_dir / BOUNDS_FILE
    num_runs = path.stat().st_size // (_KEY_BYTES * (num_ranges + 1))
    bounds = np.fromfile(path, "<u8", 2 * num_runs, offset=_KEY_BYTES * num_runs * range_number).astype(
        np.int64
    )
    pairs = bounds.reshape(2, num_runs).T.tolist()
    with (shard_dir / RANGES_FILE).open("rb") as handle:
        runs = []
        for first, last in pairs[of_flawed::2]:
            handle.seek(_KEY_BYTES * first)
            runs.append(np.fromfile(handle, "<u8", last - first))
    return np.concatenate([np.zeros(0, dtype="<u8"), *runs])


def find_duplicates(shard_dirs: Sequence[Path], range_number: int, num_ranges: int, out: Path) -> None:
    """Write the keys of one range that an earlier shard has, by shard.

    Args:
        shard_dirs: what `hash_shard` wrote for each shard, in the order of the shards.
        num_ranges: as given to `hash_shard`.
        out: file of `xling.corpora.common.slices`. Memory is four times the keys of the range.
    """
    parts = [
        _keys_in_range(folder, range_number, num_ranges, of_flawed)
        for of_flawed in (False, True)
        for folder in shard_dirs
    ]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    keys = np.concatenate(parts)
    del parts
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    later = np.sort(order[1:][ordered[1:] == ordered[:-1]])
    shard_of = np.searchsorted(ends, later, side="right") % len(shard_dirs)
    by_shard = np.argsort(shard_of, kind="stable")
    write_slices(out, keys[later[by_shard]], np.cumsum(np.bincount(shard_of, minlength=len(shard_dirs))))


def is_member(
    keys: UInt64[np.ndarray, " keys"], sorted_keys: UInt64[np.ndarray, " known"]
) -> Bool[np.ndarray, " keys"]:
    """Return which of ``keys`` are in ``sorted_keys``, by binary search."""
    if len(sorted_keys) == 0:
        return np.zeros(len(keys), dtype=bool)
    places = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return np.asarray(sorted_keys[places] == keys)


def drop_duplicates(
    docs: Iterable[Document], shard_dir: Path, shard: int, duplicates: Iterable[Path], ledger: Ledger
) -> Iterator[Document]:
    """Yield the documents without their duplicated paragraphs; those with no paragraph left are dropped.

    Args:
        docs: the documents that `hash_shard` saw, in the same order.
        shard_dir: what `hash_shard` wrote for them.
        shard: its position among the shards that were compared.
        duplicates: what `find_duplicates` wrote, one file a range.
        ledger: gets a document's lost paragraphs as one partial drop a reason.

    Raises:
        UserError: the documents are not those that were hashed.
    """
    stage = _DropParagraphs(shard_dir, read_slices(duplicates, shard))
    yield from stage(docs, ledger)
    if stage.number != stage.num_docs:
        raise stage.changed_error()


class _DropParagraphs(Stage):
    """Cuts the lost paragraphs out of the documents of one shard, which come in the order of their keys.

    Args:
        shard_dir: what `hash_shard` wrote for them.
        duplicate_keys: sorted keys that an earlier shard has.
    """

    name: ClassVar[str] = STAGE
    reasons: ClassVar[dict[str, str]] = REASONS
    partial: ClassVar[frozenset[str]] = PARTIAL_REASONS

    def __init__(self, shard_dir: Path, duplicate_keys: UInt64[np.ndarray, " keys"]) -> None:
        self.shard_dir, self.number = shard_dir, 0
        self.keys: Keys = np.fromfile(shard_dir / KEYS_FILE, dtype="<u8")
        repeated = self.keys == REPEATED_KEY
        lost = is_member(self.keys, duplicate_keys) | (self.keys <= COPIED_KEY)
        self.is_kept, self.reason_masks = (
            (~lost).tobytes(),
            ((lost & ~repeated).tobytes(), repeated.tobytes()),
        )
        lengths = np.fromfile(shard_dir / LENGTHS_FILE, dtype="<u4")
        ends = np.cumsum(lengths, dtype=np.int64)
        num_lost_before = np.concatenate([[0], np.cumsum(lost)])
        num_lost = num_lost_before[ends] - num_lost_before[ends - lengths]
        self.num_docs = len(lengths)
        self.table = zip(lengths.tolist(), ends.tolist(), num_lost.tolist(), strict=True)

    def edit(self, doc: Document) -> Verdict:
        """Cut duplicated paragraphs out of a document and count them; drop it if only the title is left.

        Raises:
            UserError: the document is not the one that was hashed.
        """
        length, key_end, num_dropped = next(self.table, (-1, 0, 0))
        body = _body(doc)
        if (0 if body is None else body.count("\n") + 1) != length:
            raise self.changed_error()
        if (
            body is not None
            and self.number % _CHECK_EVERY == 0
            and length
            and self.keys[key_end - length] > COPIED_KEY
        ):
            first = keys_of(body.split("\n", 1)[0])[0]
            if first != self.keys[key_end - length]:
                raise self.changed_error()
        self.number += 1
        reason = "no_paragraph_left" if num_dropped and num_dropped == length else None
        if not num_dropped or (reason and not doc.num_title_lines):
            return Verdict(reason)
        span = slice(key_end - length, key_end)
        title, lines = doc.split_title()
        dropped_by_reason = {
            why: list(itertools.compress(lines, mask[span]))
            for why, mask in zip(
                ("duplicate_paragraphs", "repeated_paragraphs"), self.reason_masks, strict=True
            )
            if 1 in mask[span]
        }
        text = "\n".join([*title, *itertools.compress(lines, self.is_kept[span])])
        return Verdict(
            reason, text, dropped_by_reason, {why: len(parts) for why, parts in dropped_by_reason.items()}
        )

    def changed_error(self) -> UserError:
        """Return the error for documents that do not match the keys."""
        return UserError(
            f"the documents are not those hashed into {self.shard_dir}",
            fix="hash the shard again, then find the duplicates again",
        )
