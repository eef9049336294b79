"""Sequences end to end, without padding."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from xling.data.packing import Example, pack, runs_of, to_device


def example(number: int, length: int, chosen: list[int]) -> Example:
    tokens = np.arange(length) + 1000 * number
    return {
        "id": np.array([number]),
        "tokens": tokens,
        "positions": np.arange(length),
        "langs": np.full(length, number % 3),
        "chosen": np.array(chosen, dtype=np.int64),
        "target": tokens[chosen] + 500,
        "target_langs": np.full(len(chosen), number % 3),
    }


def test_a_batch_worked_by_hand() -> None:
    made = pack([example(0, 2, [1]), example(1, 3, [0, 2]), example(2, 2, [])])
    inputs = made["net_input"]
    # longest first, equal lengths in the order given
    assert inputs["src_tokens"].tolist() == [1000, 1001, 1002, 0, 1, 2000, 2001]
    assert inputs["positions"].tolist() == [0, 1, 2, 0, 1, 0, 1]
    assert inputs["langs"].tolist() == [1, 1, 1, 0, 0, 2, 2]
    assert inputs["runs"] == [(1, 3), (2, 2)]
    assert made["id"].tolist() == [1, 0, 2]
    assert made["chosen"].tolist() == [0, 2, 4]
    assert made["target"].tolist() == [1500, 1502, 501]
    assert made["target_langs"].tolist() == [1, 1, 0]
    assert made["num_chosen"] == [2, 1, 0]
    assert (made["nsentences"], made["ntokens"]) == (3, 7)


@st.composite
def examples(draw: st.DrawFn) -> list[Example]:
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=20))
    return [
        example(number, length, sorted(draw(st.sets(st.integers(0, length - 1)))))
        for number, length in enumerate(lengths)
    ]


@given(examples())
def test_nothing_is_lost_and_nothing_added(given_: list[Example]) -> None:
    made = pack(given_)
    inputs = made["net_input"]
    lengths = [length for count, length in inputs["runs"] for _ in range(count)]
    assert lengths == sorted(lengths, reverse=True) and sum(lengths) == made["ntokens"]
    assert all(
        tensor.dtype == torch.int64 for tensor in (inputs["src_tokens"], made["chosen"], made["target"])
    )
    starts = np.cumsum([0, *lengths])
    rows = dict(enumerate(made["chosen"].tolist()))
    position = 0
    for number, start, length in zip(made["id"].tolist(), starts, lengths, strict=False):
        whole = given_[number]
        assert inputs["src_tokens"][start : start + length].tolist() == whole["tokens"].tolist()
        assert inputs["positions"][start : start + length].tolist() == list(range(length))
        for where, target in zip(whole["chosen"], whole["target"], strict=True):
            assert rows[position] == start + where and made["target"][position] == target
            position += 1
    assert position == len(made["target"]) == len(made["target_langs"])
    assert sorted(made["id"].tolist()) == list(range(len(given_)))


@given(st.lists(st.integers(1, 5)))
def test_runs_say_how_often_each_length_stands_there(lengths: list[int]) -> None:
    runs = runs_of(lengths)
    assert [length for count, length in runs for _ in range(count)] == lengths
    assert all(first[1] != second[1] for first, second in itertools.pairwise(runs))


def test_optional_inputs_are_left_out_when_no_example_has_them() -> None:
    made = pack([{"id": np.array([0]), "tokens": np.array([5]), "positions": np.array([0])}])
    assert set(made["net_input"]) == {"src_tokens", "positions", "runs"} and "target" not in made


def test_a_sample_moves_to_a_device() -> None:
    examples = [example(number, 3, [1]) for number in range(2)]
    moved = to_device(pack(examples), torch.device("meta"))
    tensors = [*moved.values(), *moved["net_input"].values()]
    assert {each.device.type for each in tensors if isinstance(each, torch.Tensor)} == {"meta"}
    assert moved["net_input"]["runs"] == [(2, 3)] and moved["num_chosen"] == [1, 1]
