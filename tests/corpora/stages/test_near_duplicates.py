"""Near-duplicates: found in every script, deterministic, exact check, agreement with exact Jaccard."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from xling.core.errors import UserError
from xling.corpora.stages import near_duplicates as near
from xling.corpora.stages.near_duplicates import NearDedup
from xling.text.document import Document, Ledger

HAN = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生"


def text(seed: int, num_units: int = 300, alphabet: str = "") -> list[str]:
    rng = random.Random(seed)
    if alphabet:
        return [rng.choice(alphabet) for _ in range(num_units)]
    return ["".join(rng.choices("abcdefgh", k=5)) + " " for _ in range(num_units)]


def edited(units: list[str], num_edits: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    out = list(units)
    for place in rng.sample(range(len(out)), num_edits):
        out[place] = rng.choice(units)
    return out


def run(
    shards: list[list[str]], where: Path, cfg: NearDedup, num_ranges: int = 3, memory_mb: int = 1024
) -> tuple[list[list[str]], Ledger, dict[str, int]]:
    def docs(number: int) -> list[Document]:
        return [
            Document(id=f"{number}/{i}", text=t, source=f"s{number}") for i, t in enumerate(shards[number])
        ]

    where.mkdir(parents=True, exist_ok=True)
    numbers = range(len(shards))
    sketches = [where / f"sketch-{n}" for n in numbers]
    for n in numbers:
        assert near.sketch_shard(docs(n), sketches[n], cfg, num_ranges) == len(shards[n])
    parts = range(cfg.bands * num_ranges)
    pairs, ends = ([where / f"{name}-{i}.u64" for i in parts] for name in ("pairs", "ends"))
    for i in reversed(parts):  # any order
        near.find_pairs(sketches, [i], pairs[i], ends[i])
    exact = []
    if cfg.min_jaccard:
        exact = [where / f"shingles-{n}.parquet" for n in numbers]
        for n in numbers:
            near.shingle_shard(docs(n), n, sketches, ends, exact[n], cfg)
    near.choose_dropped(pairs, sketches, where / "choice.u64", cfg, exact, memory_mb)
    ledger = Ledger()
    kept = [list(near.drop_near_duplicates(docs(n), n, where / "choice.u64", ledger)) for n in numbers]
    sizes = {doc.id: doc.meta["cluster_size"] for shard in kept for doc in shard if doc.meta}
    assert not list(where.glob("*.sort*")) and not list(where.glob("*.tmp"))
    return [[doc.id for doc in shard] for shard in kept], ledger, sizes


@pytest.mark.parametrize("alphabet", ["", HAN])
def test_first_of_each_cluster_stays(alphabet: str, tmp_path: Path) -> None:
    base, other = text(1, 400, alphabet), text(2, 400, alphabet)
    shards = [
        ["".join(other), "".join(base)],
        ["".join(edited(base, 3, 5)), "".join(text(3, 400, alphabet)), "", "!!"],
        ["".join(edited(base, 3, 6)), "".join(other)],
    ]
    kept, ledger, sizes = run(shards, tmp_path, NearDedup())
    assert kept == [["0/0", "0/1"], ["1/1", "1/2", "1/3"], []]
    assert dict(ledger.dropped) == {("near_dedup", "near_duplicate"): 3}
    assert ledger.seen["near_dedup"] == 8
    assert sizes == {"0/0": 2, "0/1": 3}


@pytest.mark.parametrize("alphabet", ["", HAN])
def test_all_bands_at_once_give_the_pairs_of_each(alphabet: str, tmp_path: Path) -> None:
    cfg = NearDedup(bands=10, rows=3)
    base, other = text(1, 300, alphabet), text(2, 300, alphabet)
    texts = ["".join(edited(base, 3 * i, i)) for i in range(5)] + [
        "".join(edited(other, 4, i)) for i in range(3)
    ]
    sketches = [tmp_path / "0", tmp_path / "1"]
    for number, sketch in enumerate(sketches):
        docs = [Document(f"{number}/{i}", each) for i, each in enumerate(texts[number::2])]
        near.sketch_shard(docs, sketch, cfg, 2)
    slices = range(2 * cfg.bands)
    for number in slices:
        near.find_pairs(sketches, [number], tmp_path / f"{number}.u64")
    num_pairs = near.find_pairs(sketches, slices, tmp_path / "all.u64", tmp_path / "ends.u64")
    apart = [np.fromfile(tmp_path / f"{number}.u64", dtype="<u8") for number in slices]
    together = np.fromfile(tmp_path / "all.u64", dtype="<u8")
    assert together.tolist() == np.unique(np.concatenate(apart)).tolist()
    assert num_pairs == len(together) > 3
    assert sum(map(len, apart)) > num_pairs  # some share two bands


def test_survivors_survive_again(tmp_path: Path) -> None:
    bases = [text(s, 200) for s in range(6)]
    shards = [["".join(edited(b, e, e)) for b in bases for e in (0, 2, 40)] for _ in range(2)]
    kept, _, _ = run(shards, tmp_path / "a", NearDedup())
    again = [[shards[int(i.split("/")[0])][int(i.split("/")[1])] for i in ids] for ids in kept]
    kept_again, ledger, _ = run(again, tmp_path / "b", NearDedup())
    assert [len(ids) for ids in kept_again] == [len(ids) for ids in again]
    assert not ledger.dropped


def test_exact_check_refuses_what_the_bands_propose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = text(1)
    shards = [["".join(base), "".join(edited(base, 12, 3)), "".join(edited(base, 1, 4))]]
    loose = NearDedup(bands=40, rows=2)
    assert run(shards, tmp_path / "bands", loose)[0] == [["0/0"]]
    strict = NearDedup(bands=40, rows=2, min_jaccard=0.9)
    assert run(shards, tmp_path / "exact", strict)[0] == [["0/0", "0/1"]]
    monkeypatch.setattr(near, "_BATCH_SHINGLES", 1)  # a pair at a time
    assert run(shards, tmp_path / "small", strict)[0] == [["0/0", "0/1"]]


def test_bands_estimate_jaccard(tmp_path: Path) -> None:
    """Share of equal one-row bands is an unbiased estimate of the similarity."""
    cfg = NearDedup(bands=256, rows=1)
    base = text(7, 500)
    for num_edits in (5, 20, 60):
        other = edited(base, num_edits, num_edits)
        a, b = (set(near.shingles("".join(t), cfg).tolist()) for t in (base, other))
        exact = len(a & b) / len(a | b)
        out = tmp_path / str(num_edits)
        near.sketch_shard([Document("0", "".join(base)), Document("1", "".join(other))], out, cfg)
        equal = [near.find_pairs([out], [band], tmp_path / "pairs.u64") for band in range(cfg.bands)]
        assert abs(np.mean(equal) - exact) < 4 * np.sqrt(exact * (1 - exact) / 256)


def test_a_scope_is_a_source(tmp_path: Path) -> None:
    base = text(1, 400)
    shards = [["".join(base), "".join(edited(base, 2, 1))], ["".join(edited(base, 2, 2))]]
    assert run(shards, tmp_path / "all", NearDedup())[0] == [["0/0"], []]
    assert run(shards, tmp_path / "dump", NearDedup(scope="dump"))[0] == [["0/0"], ["1/0"]]


def test_neither_ranges_nor_memory_nor_runs_change_the_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bases = [text(seed, 200) for seed in range(40)]
    shards = [
        ["".join(edited(base, (n + i) % 12, n)) for i, base in enumerate(bases)]
        + ["".join(text(99 + n, 200)), ""]
        for n in range(4)
    ]
    loose = NearDedup(bands=20, rows=4)
    first = run(shards, tmp_path / "a", loose, num_ranges=1)
    assert 40 < sum(map(len, first[0])) < 140
    assert len(set(first[2].values())) > 1
    monkeypatch.setattr(near, "_RUN_DOCS", 7)
    monkeypatch.setattr(near, "_BATCH_DOCS", 3)
    monkeypatch.setattr(near, "_FILE_BLOCK", 2)
    monkeypatch.setattr(near, "_BYTES_PER_PAIR", 1 << 17)  # 8 pairs in memory
    monkeypatch.setattr("xling.corpora.common.disk_sort._MIN_BLOCK", 2)
    assert run(shards, tmp_path / "b", loose, num_ranges=5, memory_mb=1) == first


def test_shingles_are_equal_in_every_process() -> None:
    assert near.shingles("one two three four five", NearDedup()).tolist() == [7011279121374456502]


def test_settings_are_checked() -> None:
    with pytest.raises(UserError, match="bands=0"):
        NearDedup(bands=0)
