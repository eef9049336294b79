"""Reader and writer of fairseq's memory-mapped shards as flat token streams; without torch.

Also which languages and pairs a training reads from a binarised directory.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Int32, Int64, Integer
from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.core.languages import split_pair
from xling.core.output import digests, manifest
from xling.text.files import shards

EOS, UNK = 2, 3
NUM_SPECIALS = 4
NUM_LATER_SYMBOLS = 1024  # room for <mask>, language tokens and sentinels when the integer type is chosen

_INDEX_MAGIC = b"MMIDIDX\x00\x00"
_DTYPES = {
    1: np.uint8,
    2: np.int8,
    3: np.int16,
    4: np.int32,
    5: np.int64,
    6: np.float64,
    7: np.float32,
    8: np.uint16,
}


@dataclass(frozen=True)
class Shard:
    """One dataset as a stream of tokens and the items it is divided into; data is read only when it is used.

    Attributes:
        tokens: every token in order, unsigned or signed integers of shape (num_tokens,), memory-mapped.
        sizes: tokens per item, int32 of shape (num_items,), memory-mapped.
        pointers: bytes of tokens before each item, int64 of shape (num_items,), memory-mapped.
    """

    tokens: Integer[np.ndarray, " tokens"]
    sizes: Int32[np.ndarray, " items"]
    pointers: Int64[np.ndarray, " items"]

    def start(self, item: int) -> int:
        """Return the offset of an item in ``tokens``; a table of all, `starts`, costs 8 bytes for each."""
        return int(self.pointers[item]) // self.tokens.itemsize

    def starts(self) -> Int64[np.ndarray, " items"]:
        """Return the offset of each item in ``tokens``, int64 of shape (num_items,)."""
        return np.cumsum(self.sizes, dtype=np.int64) - self.sizes


class _CheckedTokens(np.ndarray):
    """Tokens of a shard, of which a slice is compared with the recorded SHA-256 of its blocks when it is first read.

    What was compared is known to all processes that are forked later, such as those that prepare batches.
    """

    path: Path
    content: np.ndarray
    recorded: list[str]
    is_good: mmap.mmap

    @classmethod
    def of(cls, mapped: Integer[np.ndarray, " tokens"], path: Path) -> _CheckedTokens:
        """Return the tokens of a mapped file beside which the digests of its blocks lie."""
        tokens: _CheckedTokens = mapped.view(cls)
        tokens.path, tokens.content = path, mapped.view(np.uint8)
        tokens.recorded = path.with_name(path.name + digests.SUMS).read_text(encoding="ascii").split()
        tokens.is_good = mmap.mmap(
            -1, mapped.nbytes // digests.BLOCK_BYTES + 1
        )  # shared with forked processes
        return tokens

    def __getitem__(self, part: Any) -> Any:
        begin, end, _ = part.indices(len(self)) if isinstance(part, slice) else (0, len(self), 1)
        size = digests.BLOCK_BYTES
        for block in range(begin * self.itemsize // size, -(-end * self.itemsize // size)):
            if not self.is_good[block]:
                content = self.content[block * size : (block + 1) * size]
                if [hashlib.sha256(content.data).hexdigest()] != self.recorded[block : block + 1]:
                    raise UserError(
                        f"{self.path} was changed or damaged after 'binarize' wrote it: block {block} of 4 MiB",
                        f"its SHA-256 in {self.path}{digests.SUMS}",
                        "copy it again, or run 'binarize' again",
                    )
                self.is_good[block] = 1
        return np.asarray(self)[part]


def read_ahead(tokens: Integer[np.ndarray, " tokens"], start: int, end: int) -> None:
    """Ask the system to read a stretch of a `Shard`'s tokens into memory at once, without waiting for it."""
    memory_map = getattr(tokens.base, "_mmap", None)
    if memory_map is not None and hasattr(mmap, "MADV_WILLNEED"):
        first_byte = start * tokens.itemsize // mmap.PAGESIZE * mmap.PAGESIZE
        memory_map.madvise(mmap.MADV_WILLNEED, first_byte, end * tokens.itemsize - first_byte)


def open_shard(prefix: Path) -> Shard:
    """Map ``prefix.bin`` and ``prefix.idx`` into memory.

    Raises:
        UserError: a file is missing, is not a fairseq index, or does not have the size that the index states.
    """
    prefix = _as_spelled(prefix)
    index_path, data_path = prefix.with_name(prefix.name + ".idx"), prefix.with_name(prefix.name + ".bin")
    for path in (index_path, data_path):
        if not path.is_file():
            raise UserError(
                f"shard {path} is missing", "prefix.bin and prefix.idx", "run `xling binarize` again"
            )
    with index_path.open("rb") as handle:
        header = handle.read(len(_INDEX_MAGIC) + 17)
    if not header.startswith(_INDEX_MAGIC) or len(header) < len(_INDEX_MAGIC) + 17:
        raise UserError(
            f"{index_path} is not a fairseq memory-mapped index", fix="run `xling binarize` again"
        )
    version, dtype_code, num_items = struct.unpack("<QBQ", header[len(_INDEX_MAGIC) :])
    if version != 1 or dtype_code not in _DTYPES:
        raise UserError(
            f"{index_path}: version {version}, type {dtype_code}", "version 1", "run `xling binarize` again"
        )
    dtype = np.dtype(_DTYPES[dtype_code])
    if index_path.stat().st_size < len(header) + 12 * num_items:
        raise UserError(f"{index_path} is cut off", f"{num_items} items", "run `xling binarize` again")
    sizes, pointers = np.zeros(0, np.int32), np.zeros(0, np.int64)
    if num_items:
        sizes = np.memmap(index_path, np.int32, "r", len(header), (num_items,))
        pointers = np.memmap(index_path, np.int64, "r", len(header) + 4 * num_items, (num_items,))
    # The last item tells the size: a sum over a billion of them would read gigabytes.
    num_bytes = int(pointers[-1]) + int(sizes[-1]) * dtype.itemsize if num_items else 0
    if data_path.stat().st_size != num_bytes:
        raise UserError(
            f"{data_path} has {data_path.stat().st_size} bytes", f"{num_bytes}", "run `xling binarize` again"
        )
    tokens = np.memmap(data_path, dtype, "r") if num_bytes else np.zeros(0, dtype)
    if (prefix.parent.parent / manifest.FILE_NAME).is_file() and digests.is_read_in_blocks(data_path):
        tokens = _CheckedTokens.of(tokens, data_path)
    else:  # slicing a plain array takes a third of the time of slicing a memmap
        tokens = np.asarray(tokens)
    return Shard(tokens, np.asarray(sizes), np.asarray(pointers))


def list_languages(directory: Path) -> list[str]:
    """List the languages with a monolingual training shard in a binarised directory by our codes, sorted.

    Raises:
        UserError: two folders are of one language.
    """
    folders: dict[str, str] = {}
    for name in sorted(p.parent.name for p in directory.glob("*/train.idx")):
        if (other := folders.setdefault(languages.canonical(name), name)) != name:
            ours = languages.canonical(name)
            raise UserError(
                f"{other} and {name} in {directory} are one language",
                "one folder for each language",
                f"run `xling binarize` again with both files in corpora.{ours}=",
            )
    return sorted(folders)


def list_pairs(directory: Path) -> list[str]:
    """List the pairs ``src-tgt`` with a training shard in a binarised directory by our codes, sorted."""
    return sorted({languages.canonical_pair(p.parent.name) for p in directory.glob("*-*/train.*.idx")})


def is_there(prefix: Path) -> bool:
    """Return whether a shard exists, be its folder named by our code or by another of the language."""
    return _index_of(_as_spelled(prefix)).is_file()


def _index_of(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.idx")


def _as_spelled(prefix: Path) -> Path:
    """Return a prefix by the names on disk: ``eng_Latn/train`` for ``en/train``, which fairseq or others have made."""
    if _index_of(prefix).is_file() or not prefix.parent.parent.is_dir():
        return prefix
    ours = prefix.parent.name
    for folder in sorted(prefix.parent.parent.iterdir()):
        if folder.name == ours or languages.canonical_side(folder.name) != ours or not folder.is_dir():
            continue
        sides = dict(zip(ours.split("-"), folder.name.split("-"), strict=False))
        parts = [folder.name if part == ours else sides.get(part, part) for part in prefix.name.split(".")]
        return folder / ".".join(parts)
    return prefix


def encode_lines(processor: Any, lines: list[str]) -> list[Int32[np.ndarray, " _"]]:
    """Encode each line to fairseq ids followed by </s>, int32 arrays of shape (num_pieces + 1,)."""
    return [
        np.array([UNK if i == 0 else i + 1 for i in ids] + [EOS], dtype=np.int32)
        for ids in processor.encode(lines)
    ]


class ShardWriter:
    """Writer of one dataset in the format of fairseq's MMapIndexedDataset: ``prefix.bin`` and ``prefix.idx``.

    Tokens are uint16 if the vocabulary fits, else int32, as in fairseq. The format is implemented here
    because importing fairseq takes seconds and loads torch; a test reads the result with fairseq.
    """

    def __init__(self, prefix: Path, vocab_size: int) -> None:
        self._prefix = prefix
        self._dtype = np.dtype(np.uint16 if vocab_size + NUM_LATER_SYMBOLS < 65500 else np.int32)
        self._file = prefix.with_name(f"{prefix.name}.bin").open("wb")
        self._sizes = array("i")
        self.num_tokens = self.num_unknown = 0

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def add(self, item: Integer[np.ndarray, " tokens"]) -> None:
        """Append one item, an integer array of shape (num_tokens,)."""
        self._file.write(item.astype(self._dtype).tobytes())
        self._sizes.append(len(item))
        self.num_tokens += len(item)
        self.num_unknown += int((item == UNK).sum())

    def close(self) -> dict[str, int]:
        """Write the index and return the counts."""
        self._file.close()
        data_path = Path(self._file.name)
        if data_path.stat().st_size > digests.BLOCK_BYTES:
            lines = "".join(f"{digest}\n" for digest in digests.of_blocks(data_path))
            data_path.with_name(data_path.name + digests.SUMS).write_text(lines, encoding="ascii")
        sizes = np.array(self._sizes, dtype=np.int32)
        starts = (np.cumsum(sizes, dtype=np.int64) - sizes) * self._dtype.itemsize
        with self._prefix.with_name(f"{self._prefix.name}.idx").open("wb") as index:
            index.write(
                _INDEX_MAGIC + struct.pack("<QBQ", 1, 8 if self._dtype == np.uint16 else 4, len(sizes))
            )
            index.write(sizes.tobytes() + starts.tobytes())
        return {"items": len(sizes), "tokens": self.num_tokens, "unknown": self.num_unknown}


def check_dictionary(data: Path) -> Path:
    """Return the dictionary of a binarised directory.

    Raises:
        UserError: the dictionary is missing, or the shards were made with another one.
    """
    path = data / "dict.txt"
    if not path.is_file():
        raise UserError(f"no dict.txt in {data}", "a directory made by `xling binarize`", "check data=")
    if (data / manifest.FILE_NAME).is_file():
        recorded_digest = manifest.read(data).counts.get("vocab_digest")
        if recorded_digest not in (None, vocab_digest(data)):
            raise UserError(
                f"the shards in {data} were made with another vocabulary than its dict.txt",
                f"dict.txt with SHA-256 {str(recorded_digest)[:12]}...",
                "run `xling binarize` again",
            )
    return path


def select_langs(langs: str, data: Path, decoder: bool = False) -> list[str]:
    """Return the task's languages: the given ones, or all with monolingual shards.

    With a ``decoder`` parallel shards count too, and languages without text here may be given: a model keeps
    the languages of the checkpoint that it starts from.

    Raises:
        UserError: a given language is unknown, is given twice or has no shards; or the directory has no shards.
    """
    available = shards.list_languages(data)
    requested = [languages.canonical(lang) for lang in langs.split(",") if lang]
    if decoder:
        available = sorted(
            {*available, *(side for pair in shards.list_pairs(data) for side in split_pair(pair))}
        )
        available += [languages.get(lang).code for lang in requested if lang not in available]
    if not available:
        raise UserError(f"no shards in {data}", "LANG/train.bin and LANG/train.idx", "run `xling binarize`")
    for lang in requested:
        if lang not in available:
            raise unknown(f"language in {data}:", lang, available)
        if requested.count(lang) > 1:
            raise UserError(f"langs={langs}: {lang} is given twice", "each language once")
    return requested or available


def select_pairs(pairs: str, data: Path, langs: list[str]) -> list[str]:
    """Return the pairs an objective uses: the given ones, or all of the task's languages.

    Raises:
        UserError: there are no parallel shards, or a given pair is missing, exists only in the other
            direction, or has a language outside langs=.
    """
    available = shards.list_pairs(data)
    if not available:
        raise UserError(
            f"no parallel shards in {data}",
            "SRC-TGT/train.SRC-TGT.{SRC,TGT}.bin",
            "run xling binarize with pairs.SRC-TGT=SRC,TGT",
        )
    requested = [languages.canonical_pair(pair) for pair in pairs.split(",") if pair]
    for pair in requested:
        if pair not in available:
            swapped = "-".join(reversed(split_pair(pair)))
            error = unknown(f"pair in {data}:", pair, available)
            raise UserError(error.given, error.valid, f"use {swapped}") if swapped in available else error
        if not set(split_pair(pair)) <= set(langs):
            raise UserError(
                f"pairs={pair} with langs={','.join(langs)}",
                "pairs of these languages",
                f"name {' and '.join(split_pair(pair))} in langs=",
            )
    selected = [pair for pair in requested or available if set(split_pair(pair)) <= set(langs)]
    if not selected:
        raise UserError(
            f"no pair in {data} of the languages {', '.join(langs)}",
            f"pairs that it has: {', '.join(available)}",
            "name the languages of one in langs=",
        )
    return selected


def pairs_of_directions(directions: str, available: list[str]) -> str:
    """Return the pairs, in the order of the shards, of directions such as ``en-de,de-en``.

    Raises:
        UserError: the pair of a direction is missing.
    """
    pairs = []
    for direction in [languages.canonical_pair(d) for d in directions.split(",") if d]:
        pair = direction if direction in available else "-".join(reversed(split_pair(direction)))
        if pair not in available:
            raise UserError(
                f"directions={direction}: no parallel shards of this pair",
                ", ".join(available),
                f"run xling binarize with pairs.{direction}=SRC,TGT",
            )
        pairs.append(pair)
    return ",".join(dict.fromkeys(pairs))


def select_switched_pairs(pairs: str, data: Path, langs: list[str]) -> list[str]:
    """Return the given pairs, or all pairs of the task's languages that have code-switched text.

    Raises:
        UserError: a given pair has no code-switched text, or no pair has any.
    """
    available = [
        pair for pair in shards.list_pairs(data) if shards.is_there(data / pair / f"train.{pair}.switched")
    ]
    selected = [pair for pair in select_pairs(pairs, data, langs) if pair in available or pairs]
    if missing := [pair for pair in selected or ["any pair"] if pair not in available]:
        raise UserError(
            f"no code-switched text for {missing[0]} in {data}",
            ", ".join(available) or "none",
            "give switched.SRC-TGT= to `xling binarize`",
        )
    return selected


def partners_of(pairs: str, langs: list[str], available: list[str]) -> dict[int, list[int]]:
    """Return for each language, by index, the languages that it is translated into.

    Raises:
        UserError: a language has no text or is unknown to the model, or there are fewer than two languages.
    """
    requested = [
        split_pair(languages.canonical_pair(pair.strip())) for pair in pairs.split(",") if pair.strip()
    ]
    usable = [lang for lang in langs if lang in available]
    if not requested:
        requested = [(a, b) for i, a in enumerate(usable) for b in usable[i + 1 :]]
    if not requested:
        raise UserError(
            f"back-translation with only {', '.join(usable) or 'no language'}", "two languages with text"
        )
    partners: dict[int, list[int]] = {}
    for pair in requested:
        for lang in pair:
            if lang not in usable:
                raise UserError(
                    f"pair {'-'.join(pair)}: no text in {lang}",
                    ", ".join(usable),
                    f"run xling binarize with corpora.{lang}=FILE",
                )
        for lang, target in (pair, pair[::-1]):
            if langs.index(target) not in (targets := partners.setdefault(langs.index(lang), [])):
                targets.append(langs.index(target))
    return partners


def vocab_digest(directory: Path) -> str:
    """Return the SHA-256 of ``dict.txt``: shards and checkpoints are compatible if theirs are equal."""
    path = directory / "dict.txt"
    if not path.is_file():
        raise UserError(f"no dictionary at {path}", fix="run `xling vocab` or `xling binarize` again")
    return hashlib.sha256(path.read_bytes()).hexdigest()
