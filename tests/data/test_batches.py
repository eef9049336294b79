"""Batches within their budget, the same for any number of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from hypothesis import given
from hypothesis import strategies as st

from xling.objectives.dataset import batches_of
from xling.objectives.mmlm import Mmlm
from xling.objectives.settings import MmlmConfig

_SIZES = st.lists(st.integers(1, 40), max_size=60).map(lambda sizes: np.array(sizes, dtype=np.int64))


@given(_SIZES, st.integers(1, 100), st.integers(1, 9))
def test_batches_hold_everything_once_within_the_budget(
    sizes: np.ndarray, max_tokens: int, max_sentences: int
) -> None:
    indices = np.arange(len(sizes)) * 10
    batches = batches_of(sizes, indices, max_tokens, max_sentences)
    assert [int(i) for batch in batches for i in batch] == indices.tolist()
    size_of = dict(zip(indices.tolist(), sizes.tolist(), strict=True))
    for number, batch in enumerate(batches):
        tokens = sum(size_of[int(i)] for i in batch)
        assert 1 <= len(batch) <= max_sentences
        # One example alone may be too long: it is not lost.
        assert tokens <= max_tokens or len(batch) == 1
        if number + 1 < len(batches) and len(batch) < max_sentences:
            assert tokens + size_of[int(batches[number + 1][0])] > max_tokens, (
                "the next one would have fitted"
            )


@pytest.fixture(scope="module")
def objective(shards: Path) -> Mmlm:
    dictionary = Dictionary.load(str(shards / "dict.txt"))
    dictionary.add_symbol("<mask>")
    return Mmlm(MmlmConfig(data=str(shards), tokens_per_sample=32, seed=1), dictionary, ["ar", "en", "th"])


def stream(objective: Mmlm, shards: Path, epochs: list[int], workers: int = 0) -> list[dict[str, Any]]:
    data = objective.dataset(shards, "train")
    made = []
    for epoch in epochs:
        data.set_epoch(epoch)
        batches = data.batch_by_size(data.ordered_indices(), max_tokens=300)
        loader = torch.utils.data.DataLoader(
            data, batch_sampler=batches, collate_fn=data.collater, num_workers=workers
        )
        made += list(loader)
    return made


def equal(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> bool:
    return len(first) == len(second) and all(
        torch.equal(a["net_input"]["src_tokens"], b["net_input"]["src_tokens"])
        and torch.equal(a["chosen"], b["chosen"])
        and torch.equal(a["target"], b["target"])
        and a["net_input"]["runs"] == b["net_input"]["runs"]
        for a, b in zip(first, second, strict=True)
    )


# Torch counts the cores of the process; what is tried here holds on a single one too.
@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes:UserWarning")
def test_batches_do_not_depend_on_workers_or_on_what_was_read_before(objective: Mmlm, shards: Path) -> None:
    here = stream(objective, shards, [1, 2])
    assert equal(here, stream(objective, shards, [1, 2], workers=2))
    first, second = stream(objective, shards, [1]), stream(objective, shards, [2])
    assert equal(here, first + second)
    assert not equal(first, second)


def test_an_example_is_the_same_however_it_is_asked_for(objective: Mmlm, shards: Path) -> None:
    data = objective.dataset(shards, "train")
    for index in (0, 3):
        assert (data[index]["chosen"] == data[np.int64(index)]["chosen"]).all()


def test_masks_change_from_epoch_to_epoch(objective: Mmlm, shards: Path) -> None:
    data = objective.dataset(shards, "train")
    made = []
    for epoch in (1, 2):
        data.set_epoch(epoch)
        made.append([data[index]["chosen"].tolist() for index in range(len(data))])
    assert len(made[0]) == len(made[1])
    assert sum(a == b for a, b in zip(*made, strict=True)) < len(made[0]) / 10


def test_validation_holds_every_block_once_with_fixed_masks(objective: Mmlm, shards: Path) -> None:
    data = objective.dataset(shards, "valid")
    first = [data[index] for index in range(len(data))]
    data.set_epoch(7)
    for index, example in enumerate(first):
        assert (data[index]["chosen"] == example["chosen"]).all()
        assert (data[index]["tokens"] == example["tokens"]).all()
    tokens = sum(len(example["tokens"]) - 1 for example in first)
    assert tokens == sum((shards / lang / "valid.bin").stat().st_size // 2 for lang in ("ar", "en", "th"))


def test_blocks_say_their_sizes_and_never_choose_specials(objective: Mmlm, shards: Path) -> None:
    data = objective.dataset(shards, "train")
    mask = objective.dictionary.index("<mask>")
    for index in range(len(data)):
        example = data[index]
        assert len(example["tokens"]) == data.sizes[index] == data.size(index) == data.num_tokens(index) <= 32
        assert (
            example["tokens"][0] == 0 and (example["target"] >= 4).all() and (example["target"] < mask).all()
        )
        others = np.delete(example["tokens"], example["chosen"])
        assert mask not in others
        assert (example["langs"] == example["langs"][0]).all()
        assert (example["target_langs"] == example["langs"][0]).all()
