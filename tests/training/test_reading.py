"""Training batches from any place of an epoch, for any number of processes, without a table of the epoch."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary

from tests import forked
from xling.data import mixer
from xling.objectives import multi
from xling.objectives.mmlm import Mmlm
from xling.objectives.multi import MultiDataset
from xling.objectives.settings import MmlmConfig
from xling.training import reading
from xling.training.reading import TrainIterator

LANGS = ["ar", "en", "th"]


def blocks(shards: Path, length: int = 24, **settings: Any) -> Any:
    dictionary = Dictionary.load(str(shards / "dict.txt"))
    dictionary.add_symbol("<mask>")
    cfg = MmlmConfig(data=str(shards), tokens_per_sample=length, seed=1, **settings)
    return Mmlm(cfg, dictionary, LANGS).dataset(shards, "train")


def mix(shards: Path) -> MultiDataset:
    return MultiDataset({"a": (blocks(shards), 1.0), "b": (blocks(shards, 27), 2.0)}, "alternate", "train")


@pytest.fixture(params=[blocks, mix])
def make(request: Any, shards: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(mixer, "WINDOW", 32)
    monkeypatch.setattr(multi, "STRETCH", 10)
    return lambda: request.param(shards)


def ids(batch: dict[str, Any]) -> list[int]:
    return sorted(batch["id"].tolist()) if batch else []


def epoch_of(dataset: Any, epoch: int, **where: Any) -> list[list[int]]:
    return [ids(batch) for batch in TrainIterator(dataset, 100, epoch, **where).next_epoch_itr()]


def test_an_epoch_of_many_windows_holds_every_draw_once(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixer, "WINDOW", 32)
    data = blocks(shards)
    assert data._order.num_windows > 4
    read = epoch_of(data, 1)
    assert sorted(i for batch in read for i in batch) == list(range(len(data)))
    assert [len(data[i]["tokens"]) for i in range(len(data))] == data.sizes.tolist()
    iterator = TrainIterator(data, 100, 1)
    assert abs(iterator.num_batches - len(read)) <= 0.1 * len(read)


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_the_batches_of_one(make: Any, processes: int) -> None:
    wanted = epoch_of(make(), 1)
    shares = [epoch_of(make(), 1, num_shards=processes, shard=shard) for shard in range(processes)]
    assert len({len(share) for share in shares}) == 1, "a process that has a batch less gets an empty one"
    merged = [batch for group in zip(*shares, strict=True) for batch in group]
    assert merged[: len(wanted)] == wanted and not any(merged[len(wanted) :])


def test_every_place_goes_on_with_the_next_batch(make: Any) -> None:
    data = make()
    read: list[list[int]] = []
    states = []
    for epoch in (1, 2):
        iterator = TrainIterator(data, 100, epoch)
        for batch in iterator.next_epoch_itr():
            read.append(ids(batch))
            states.append(iterator.state_dict())
    for number in (1, len(read) // 4, len(read) // 2 - 1, len(read) - 2):
        state = json.loads(json.dumps(states[number]))  # plain values alone
        again = make()
        again.restore_epoch(state["epoch"], state["dataset"])
        start = {"used": state["iterations_in_epoch"], "window": state["place"]}
        rest = epoch_of(again, state["epoch"], **start)
        assert rest == read[number + 1 : number + 1 + len(rest)] and rest
        # Two processes share what is left.
        shares = []
        for shard in range(2):
            again = make()
            again.restore_epoch(state["epoch"], state["dataset"])
            shares.append(epoch_of(again, state["epoch"], num_shards=2, shard=shard, **start))
        merged = [batch for pair in zip(*shares, strict=True) for batch in pair]
        assert merged[: len(rest)] == rest


def test_a_place_does_not_read_the_windows_before_it(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixer, "WINDOW", 32)
    data = blocks(shards)
    iterator = TrainIterator(data, 100, 1)
    batches = iterator.next_epoch_itr()
    for _ in range(40):
        next(batches)
    state = iterator.state_dict()
    assert state["place"]["state"] > 2
    asked: list[int] = []
    draw = mixer.Order.window
    monkeypatch.setattr(
        mixer.Order, "window", lambda self, number: asked.append(number) or draw(self, number)
    )
    again = blocks(shards)
    TrainIterator(again, 100, 1, used=state["iterations_in_epoch"], window=state["place"])
    assert min(asked) >= state["place"]["state"]


@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes:UserWarning")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_workers_keep_no_files_open_where_few_are_allowed(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[str] = []
    monkeypatch.setattr(torch.multiprocessing, "set_sharing_strategy", chosen.append)
    for limit in (150, 1 << 20):
        monkeypatch.setattr(reading.resource, "getrlimit", lambda kind, limit=limit: (limit, limit))
        for workers in (0, 1):
            TrainIterator(blocks(shards), 100, 1, workers=workers).next_epoch_itr().close()
            next(batches := TrainIterator(blocks(shards), 100, 1, workers=workers).next_epoch_itr())
            batches.close()
    assert chosen == ["file_system"]


def test_workers_make_the_same_batches_in_many_windows(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixer, "WINDOW", 32)
    here, there = (
        list(TrainIterator(blocks(shards), 100, 1, workers=workers).next_epoch_itr()) for workers in (0, 2)
    )
    assert len(here) == len(there)
    for one, other in zip(here, there, strict=True):
        assert torch.equal(one["net_input"]["src_tokens"], other["net_input"]["src_tokens"])
        assert torch.equal(one["chosen"], other["chosen"])


def test_chunks_ask_for_long_stretches(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from xling.text.files import shards as files

    monkeypatch.setattr(mixer, "WINDOW", 32)
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(files, "read_ahead", lambda tokens, first, last: asked.append((first, last)))
    data = blocks(shards, read_chunk=16, read_buffer=2)
    read = epoch_of(data, 1)
    assert sorted(i for batch in read for i in batch) == list(range(len(data)))
    assert max(last - first for first, last in asked) == 16 * 23
    # A window of 32 reads of three languages touches a few stretches, not 32 places.
    assert len(asked) <= 12 * data._order.num_windows


SCALE = """
import os, sys, time
from pathlib import Path
from xling.objectives.mmlm import BlockDataset
from xling.objectives.settings import MmlmConfig
from xling.training import reading
from xling.training.reading import TrainIterator

def rss():
    return int(next(l for l in open("/proc/self/status") if l.startswith("RssAnon")).split()[1]) / 1024

before, begin = rss(), time.process_time()
cfg = MmlmConfig(tokens_per_sample=512, seed=1)
data = BlockDataset(cfg, Path(sys.argv[1]), "train", ["en", "sw"], "mmlm", lambda block: {
    "tokens": block.tokens, "positions": block.langs, "langs": block.langs, "chosen": block.langs[:1],
    "target": block.langs[:1]})
iterator = TrainIterator(data, 65536, 1, 512, 77, **eval(sys.argv[2]))
batch = next(iterator.next_epoch_itr())
print(len(data), iterator.num_batches, time.process_time() - begin, rss() - before, len(batch["id"]), flush=True)
os._exit(0)  # the thread that reads ahead is at work
"""


@pytest.mark.parametrize(
    "where",
    [{}, {"used": 6_000_000, "window": {"before": 5_999_000, "state": 2929}}],
    ids=["start", "resume"],
)
def test_a_billion_blocks_start_in_seconds_and_megabytes(tmp_path: Path, where: dict[str, Any]) -> None:
    """Sparse shards stand for a billion sentences: their sizes and tokens are holes that read as 0."""
    for lang, share in (("en", 0.9), ("sw", 0.1)):
        sparse_shard(tmp_path / lang, int(share * 10**9), int(share * 10**9) * 511)
    made = forked.run("-c", SCALE, str(tmp_path), repr(where))
    num_blocks, num_batches, seconds, mebibytes, examples = map(float, made.stdout.split())
    assert num_blocks == pytest.approx(10**9, rel=0.001) and examples == 128
    assert num_batches == pytest.approx(10**9 / 128, rel=0.01)
    assert seconds < 10 and mebibytes < 200


def sparse_shard(folder: Path, num_sentences: int, num_tokens: int) -> None:
    """Write the last sentence's place, and leave the rest of the index and all tokens as a hole."""
    folder.mkdir()
    with (folder / "train.idx").open("wb") as index:
        head = (
            b"MMIDIDX\x00\x00" + (1).to_bytes(8, "little") + bytes([8]) + num_sentences.to_bytes(8, "little")
        )
        index.write(head)
        index.seek(len(head) + 12 * num_sentences - 8)
        index.write(np.int64(2 * num_tokens).tobytes())
    with (folder / "train.bin").open("wb") as tokens:
        tokens.truncate(2 * num_tokens)


@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes:UserWarning")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_an_epoch_that_is_left_ends_its_processes(shards: Path) -> None:
    batches = TrainIterator(blocks(shards), 100, 1, workers=2).next_epoch_itr()
    before = {*multiprocessing.active_children()}
    next(batches)
    assert len({*multiprocessing.active_children()} - before) == 2
    batches.close()
    assert {*multiprocessing.active_children()} <= before
