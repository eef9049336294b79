"""What stands in for fairseq's compiled parts: by hand, by brute force, and as stock fairseq uses it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xling import compat, fairseq_parts

compat.install()
compat.stand_in_for_bleu()

# Recorded with the compiled parts of fairseq-fixed 0.12.3.1: limits, lengths, ends of the batches.
RECORDED: list[tuple[tuple[int, int, int], list[int], list[int]]] = [
    (
        (20, -1, 1),
        [9, 6, 7, 9, 6, 7, 8, 3, 1, 3, 3, 8, 9, 1, 5, 8, 2, 8],
        [2, 4, 6, 8, 11, 13, 15, 17, 18],
    ),
    ((24, 5, 2), [2, 5, 8, 3, 4, 3, 7, 3, 9, 5, 5, 5, 6, 5, 5, 9, 8, 8], [2, 4, 6, 8, 10, 14, 16, 18]),
    ((-1, 6, 4), [7, 6, 4, 9, 5, 2, 8, 2, 8, 6, 2, 1, 5, 1, 2, 5, 9, 5], [4, 8, 12, 16, 18]),
    ((30, -1, 8), [8, 9, 8, 6, 4, 5, 3, 5, 4, 3, 9, 1, 1, 2, 9, 7, 8, 2], [3, 8, 11, 14, 17, 18]),
]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=60),
    st.integers(9, 40),
    st.integers(0, 9),
    st.sampled_from([1, 2, 4, 8]),
)
def test_batches_keep_to_their_limits(lengths: list[int], tokens: int, sentences: int, multiple: int) -> None:
    sizes = np.array(lengths)
    batches = fairseq_parts.batch_by_size_vec(np.arange(len(sizes)), sizes, tokens, sentences, multiple)
    assert np.concatenate(batches).tolist() == list(range(len(sizes)))
    for batch in batches:
        assert len(batch) > 0 and len(batch) * sizes[batch].max() <= tokens
        assert not sentences or len(batch) <= sentences
    same = fairseq_parts.batch_by_size_fn(
        np.arange(len(sizes)), lambda i: lengths[i], tokens, sentences, multiple
    )
    assert [batch.tolist() for batch in same] == [batch.tolist() for batch in batches]


@pytest.mark.parametrize(("limits", "lengths", "ends"), RECORDED)
def test_batches_are_those_of_the_compiled_part(
    limits: tuple[int, int, int], lengths: list[int], ends: list[int]
) -> None:
    batches = fairseq_parts.batch_by_size_vec(np.arange(len(lengths)), np.array(lengths), *limits)
    assert np.cumsum([len(batch) for batch in batches]).tolist() == ends


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=40).filter(any),
    st.integers(1, 12),
    st.sampled_from(["none", "complete", "complete_doc", "eos"]),
)
def test_blocks_cover_the_stream(sizes: list[int], block_size: int, mode: str) -> None:
    stream = np.repeat(np.arange(len(sizes)), sizes)
    blocks = fairseq_parts.slice_indices(np.array(sizes), mode, block_size, 1)
    if not len(blocks):
        assert mode == "complete_doc" and set(sizes) <= {0, 1}
        return
    assert (blocks[:, 1] >= blocks[:, 0]).all() and (blocks[1:, 0] >= blocks[:-1, 1]).all()
    if mode != "complete_doc":
        assert blocks[0, 0] == 0 and blocks[-1, 1] == len(stream) and (blocks[1:, 0] == blocks[:-1, 1]).all()
    index = fairseq_parts.block_to_dataset_index(np.array(sizes), blocks)
    for (start, end), (first, offset, last) in zip(blocks.tolist(), index.tolist(), strict=True):
        if end > start:
            assert (offset == 0 and sum(sizes[:first]) == start) or stream[start] == first
            assert sum(sizes[:first]) + offset == start
            assert sum(sizes[: last + 1]) >= end - 1 and sum(sizes[:last]) <= end - 1


def test_stock_batches_blocks_and_bleu_run() -> None:
    from fairseq.data import TokenBlockDataset, data_utils
    from fairseq.scoring.bleu import Scorer

    assert [batch.tolist() for batch in data_utils.batch_by_size(np.arange(5), lambda i: 4, max_tokens=8)] == [
        [0, 1], [2, 3], [4]
    ]  # fmt: skip
    sentences = [torch.tensor(row) for row in ([4, 5, 2], [6, 2], [7, 8, 9, 2])]
    blocks = TokenBlockDataset(sentences, [3, 2, 4], block_size=5, pad=1, eos=2, break_mode="complete")
    assert [block.tolist() for block in blocks] == [[4, 5, 2, 6, 2], [7, 8, 9, 2]]

    settings: Any = SimpleNamespace(pad=1, eos=2, unk=3)
    scorer = Scorer(settings)
    scorer.add(torch.IntTensor([4, 5, 6, 7, 8, 2]), torch.IntTensor([1, 4, 5, 6, 7, 9, 9, 2]))
    scorer.add(torch.IntTensor([3, 4, 2]), torch.IntTensor([3, 4, 2]))
    stat = scorer.stat
    assert (stat.reflen, stat.predlen) == (7, 8)
    assert [(getattr(stat, f"match{n}"), getattr(stat, f"count{n}")) for n in (1, 2, 3, 4)] == [
        (5, 8), (3, 6), (2, 4), (1, 3)
    ]  # fmt: skip
    expected = 100 * (5 / 8 * 3 / 6 * 2 / 4 * 1 / 3) ** 0.25
    assert scorer.score() == pytest.approx(expected)
    assert scorer.result_string().startswith(f"BLEU4 = {expected:.2f}, 62.5/50.0/50.0/33.3 (BP=1.000")


def test_batches_fit_into_shapes() -> None:
    lengths = [3, 2, 8, 1, 1, 1, 1, 9]
    shapes = np.array([[2, 9], [4, 4]])
    batches = fairseq_parts.batch_fixed_shapes_fast(np.arange(8), lambda i: lengths[i], shapes)
    assert batches == [[0, 1], [2, 3, 4, 5], [6, 7]]
