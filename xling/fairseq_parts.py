"""The parts that fairseq compiles, in numpy: batches by size, blocks of tokens, BLEU's counts.

`xling.compat.install` puts them in the place of the compiled parts where fairseq was built without these, as
``make install`` does: compiling takes minutes and a C++ compiler. xling has batches, packing and BLEU of its own; stock
tasks and ``fairseq-generate`` need these. Results are equal and take longer. Left out: the Levenshtein and insertion
transformers, which name the file that they lack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from xling.array_types import Int64


def batch_by_size_vec(
    indices: Int64[np.ndarray, " sentences"],
    num_tokens: Int64[np.ndarray, " sentences"],
    max_tokens: int,
    max_sentences: int,
    multiple: int,
) -> list[Int64[np.ndarray, " batch"]]:
    """Cut sentences, in their order, into batches.

    A batch holds at most ``max_sentences`` sentences and ``max_tokens`` tokens, each sentence counted with the length
    of the longest; 0 and less mean no limit. It has fewer than ``multiple`` sentences or a multiple of it, as far as
    the limits allow.
    """
    if not len(indices):
        return []
    longest = int(num_tokens.max())
    assert max_tokens <= 0 or longest <= max_tokens, (
        f"a sentence has {longest} tokens, max_tokens={max_tokens}"
    )
    # A batch is [start, end); the tail behind it waits until both together have an allowed number of sentences.
    cuts: list[int] = []
    start = end = longest_of_batch = longest_of_tail = 0
    for position, length in enumerate(num_tokens.tolist()):
        longest_of_tail = max(longest_of_tail, length)
        longest = max(longest_of_batch, longest_of_tail)
        count = position + 1 - start
        is_over = count > max_sentences > 0 or count * longest > max_tokens > 0
        if is_over:
            cuts.append(end)
            if longest_of_tail * (position + 1 - end) > max_tokens > 0:
                cuts.append(position)
                longest_of_tail = length
            start, longest = cuts[-1], longest_of_tail
        if is_over or count < multiple or count % multiple == 0:
            end, longest_of_batch, longest_of_tail = position + 1, longest, 0
    if end != len(indices):
        cuts.append(end)
    return list(np.split(indices, cuts))


def batch_by_size_fn(
    indices: Int64[np.ndarray, " sentences"],
    num_tokens_of: Callable[[int], int],
    max_tokens: int,
    max_sentences: int,
    multiple: int,
) -> list[Int64[np.ndarray, " batch"]]:
    """Cut sentences into batches as `batch_by_size_vec`; ``num_tokens_of`` returns the length of an index."""
    lengths = np.fromiter((num_tokens_of(index) for index in indices.tolist()), np.int64, len(indices))
    return batch_by_size_vec(indices, lengths, max_tokens, max_sentences, multiple)


def batch_fixed_shapes_fast(
    indices: Int64[np.ndarray, " sentences"],
    num_tokens_of: Callable[[int], int],
    shapes: Int64[np.ndarray, "shapes 2"],
) -> list[list[int]]:
    """Cut sentences, in their order, into batches that fit into shapes, for compilers that want few of them.

    Args:
        shapes: most sentences and most tokens of a sentence, int64 (shapes, 2), the smallest first.
    """
    batches: list[list[int]] = []
    batch: list[int] = []
    longest = 0
    for index in indices.tolist():
        longest = max(longest, num_tokens_of(index))
        if not ((len(batch) + 1 <= shapes[:, 0]) & (longest <= shapes[:, 1])).any():
            batches.append(batch)
            batch, longest = [], 0  # fairseq too forgets the length of the sentence that begins a batch
        batch.append(index)
    return [*batches, batch] if batch else batches


def slice_indices(
    sizes: Int64[np.ndarray, " sentences"], break_mode: str | None, block_size: int, separator: int
) -> Int64[np.ndarray, "blocks 2"]:
    """Return first token and end of each block of a stream of sentences, int64 (blocks, 2).

    Args:
        sizes: tokens of each sentence.
        break_mode: ``none`` cuts every ``block_size`` tokens; ``complete`` only between sentences; ``complete_doc``
            between sentences and at each of ``separator`` tokens, which end documents; ``eos`` at each sentence.
        block_size: most tokens of a block; a longer sentence is a block of its own.
        separator: tokens of an empty sentence.
    """
    ends = np.cumsum(sizes)
    if break_mode == "eos":
        return np.stack([ends - sizes, ends], 1)
    if break_mode in (None, "none"):
        starts = np.arange(0, int(sizes.sum()), block_size)
        return np.stack([starts, np.minimum(starts + block_size, int(sizes.sum()))], 1)
    if break_mode not in ("complete", "complete_doc"):
        raise ValueError(f"Invalid break_mode: {break_mode}")
    by_document = break_mode == "complete_doc"
    blocks, first, size = [], 0, 0
    for length in sizes.tolist():
        ends_document = by_document and length == separator
        if size and (ends_document or size + length > block_size):
            blocks += [(first, first + size)] if size > by_document else []
            first, size = first + size, 0
        if ends_document:
            first += length
        else:
            size += length
    blocks += [(first, first + size)] if size > by_document else []
    return np.array(blocks, dtype=np.int64).reshape(-1, 2)


def block_to_dataset_index(
    sizes: Int64[np.ndarray, " sentences"], blocks: Int64[np.ndarray, "blocks 2"]
) -> Int64[np.ndarray, "blocks 3"]:
    """Return first sentence, offset in it, and last sentence of each block, int64 (blocks, 3)."""
    starts = np.cumsum(sizes) - sizes

    def sentence_of(tokens: Int64[np.ndarray, " blocks"]) -> Int64[np.ndarray, " blocks"]:
        # The first sentence that begins at the token, else the one that the token lies in.
        index = np.searchsorted(starts, tokens, "left")
        begins = (index < len(starts)) & (starts[np.minimum(index, len(starts) - 1)] == tokens)
        return np.where(begins, index, index - 1)

    first = sentence_of(blocks[:, 0])
    last = np.where(blocks[:, 1] > blocks[:, 0], sentence_of(blocks[:, 1] - 1), first)
    return np.stack([first, blocks[:, 0] - starts[first], last], 1)


def modules() -> dict[str, ModuleType]:
    """Return the compiled modules by name, as fairseq imports them."""
    members: dict[str, dict[str, Any]] = {
        "fairseq.data.data_utils_fast": {
            "batch_by_size_vec": batch_by_size_vec,
            "batch_by_size_fn": batch_by_size_fn,
            "batch_fixed_shapes_fast": batch_fixed_shapes_fast,
        },
        "fairseq.data.token_block_utils_fast": {
            "_get_slice_indices_fast": slice_indices,
            "_get_block_to_dataset_index_fast": block_to_dataset_index,
        },
    }
    modules_by_name = {name: ModuleType(name, __doc__) for name in members}
    for name, module in modules_by_name.items():
        vars(module).update(members[name])
    return modules_by_name


def patch_bleu(scorer: Any) -> None:
    """Let fairseq's class ``scorer`` (``--scoring bleu``) count n-grams without libbleu."""

    def start(self: Any, cfg: Any) -> None:
        module = __import__("fairseq.scoring.bleu", fromlist=["BleuStat"])
        self.stat, self.pad, self.eos, self.unk = module.BleuStat(), cfg.pad, cfg.eos, cfg.unk
        self.reset()

    def reset(self: Any, one_init: bool = False) -> None:
        for name, _ in self.stat._fields_:
            setattr(self.stat, name, int(one_init and name[-1] in "234"))

    def add(self: Any, ref: Any, pred: Any) -> None:
        reference, predicted = (_trim(side.view(-1).tolist(), self.pad, self.eos) for side in (ref, pred))
        reference = [-999 if token == self.unk else token for token in reference]  # <unk> matches nothing
        self.stat.reflen += len(reference)
        self.stat.predlen += len(predicted)
        for n in range(1, 5):
            theirs, ours = _ngrams(reference, n), _ngrams(predicted, n)
            for name, value in (("count", ours.total()), ("match", (theirs & ours).total())):
                setattr(self.stat, f"{name}{n}", getattr(self.stat, f"{name}{n}") + value)

    scorer.__init__, scorer.reset, scorer.add = start, reset, add


def _trim(tokens: list[int], pad: int, eos: int) -> list[int]:
    """Return a sentence without padding in front, and without padding and ends behind its first token."""
    while tokens and tokens[0] == pad:
        tokens = tokens[1:]
    while len(tokens) > 1 and tokens[-1] in (pad, eos):
        tokens = tokens[:-1]
    return tokens


def _ngrams(tokens: list[int], n: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
