"""``xling mine``: what it writes, what it refuses, how much memory it takes, and what a kill leaves."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.corpora.mining.planted import mine, planted, write
from tests.killed import attempts
from xling.core.commands.runner import STAGES, phases_of, run_local
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.corpora.mining import stage
from xling.corpora.mining.stage import MineConfig


def mined(folder, cfg):
    run_local("mine", cfg)
    rows = [line.split("\t") for line in (Path(cfg.out) / "pairs.tsv").read_text().splitlines()]
    return {(int(r[1].split()[1]), int(r[2].split()[1])): float(r[0]) for r in rows}


def test_stage_writes_scored_pairs(tmp_path):
    src, tgt, gold = planted(50, 150)
    files = write(tmp_path, src, tgt)
    cfg = MineConfig("en-sw", **files, out=str(tmp_path / "out"), threshold=1.1)
    run_local("mine", cfg)
    rows = [line.split("\t") for line in (tmp_path / "out" / "pairs.tsv").read_text().splitlines()]
    results = {(int(r[1].split()[1]), int(r[2].split()[1])) for r in rows}
    assert len(results & gold) > 35
    scores = [float(r[0]) for r in rows]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) >= 1.1
    counts = manifest.verify(tmp_path / "out").counts
    assert counts["pairs"] == len(rows)
    assert counts["pairs"] + counts["without_pair"] == counts["src_sentences"] == 200
    said = run_local("mine", cfg)
    assert "up to date" in said
    assert (
        f"less than half was kept: {len(rows)} of 200 sentences; {200 - len(rows)} without a neighbour"
        in said
    )


def test_stage_tells_mistakes(tmp_path):
    src, tgt, _ = planted(5, 5)
    files = write(tmp_path, src, tgt)
    (tmp_path / "src.txt").write_text("one\ntwo\n")
    with pytest.raises(UserError, match="for 2 lines"):
        run_local("mine", MineConfig("en-sw", **files, out=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()
    (tmp_path / "tgt.npy").write_bytes(b"no numbers")
    with pytest.raises(UserError, match="no vectors"):
        run_local("mine", MineConfig("en-sw", **(files | {"src": files["tgt"]}), out=str(tmp_path / "out")))
    files = write(tmp_path, src, tgt)
    with pytest.raises(UserError, match=r"none\.txt"):
        run_local("mine", MineConfig("en-sw", **(files | {"src": "none.txt"}), out=str(tmp_path / "out")))
    with pytest.raises(UserError, match="sees no GPU here"):
        run_local("mine", MineConfig("en-sw", **files, out=str(tmp_path / "out"), device="gpu"))
    assert not list(tmp_path.glob("**/pairs.tsv"))
    unclear = ({"src_vectors": ""}, {"checkpoint": "x"}, {"neighbours": 0}, {"candidates": 3}, {"shard": 0})
    for changes in unclear:
        with pytest.raises(UserError):
            MineConfig("en-sw", **(files | changes))


def test_vectors_that_cannot_be_compared_are_refused(tmp_path):
    src, tgt, _ = planted(5, 5)
    files = write(tmp_path, src, tgt)
    with pytest.raises(UserError, match="threshold=nan"):
        MineConfig("en-sw", **files, threshold=float("nan"))
    vectors = np.load(files["tgt_vectors"])
    broken, huge = vectors.copy(), vectors.astype(np.float64)
    broken[3, 1], huge[4, 0] = np.nan, 1e300
    wrong = {
        "line 4 is not finite": broken,
        "line 5 is not finite": huge,
        "vectors of width 32 and 31": vectors[:, :-1],
        r"holds float32 of shape \(10,\)": vectors[:, 0],
        "holds complex128": vectors.astype(complex),
        r"has shape \(9, 32\) for 10 lines": vectors[:-1],
    }
    for message, given in wrong.items():
        np.save(files["tgt_vectors"], given)
        with pytest.raises(UserError, match=message) as refused:
            run_local("mine", MineConfig("en-sw", **files, out=str(tmp_path / "out")))
        assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["exact", "clusters"])
def test_shards_and_blocks_change_nothing_but_the_last_digits(tmp_path, kind):
    src, tgt, _ = planted(200, 800)
    files = write(tmp_path, src, tgt)
    results = []
    for number, (shard, block) in enumerate(((1_000_000, 131_072), (350, 131_072), (499, 100))):
        cfg = MineConfig(
            "en-sw", **files, out=str(tmp_path / f"o{number}"), index=kind, shard=shard, block=block
        )
        results.append(mined(tmp_path, cfg))
    for other in results[1:]:
        assert set(other) == set(results[0])
        assert max(abs(other[pair] - score) for pair, score in results[0].items()) < 2e-5


def test_the_trained_index_finds_the_exact_pairs(tmp_path):
    src, tgt, _ = planted(1000, 5000)
    files = write(tmp_path, src, tgt)
    exact, coded = (
        mined(tmp_path, MineConfig("en-sw", **files, out=str(tmp_path / kind), index=kind, shard=2500))
        for kind in ("exact", "clusters")
    )
    assert len(set(exact) & set(coded)) >= 0.95 * len(exact) > 500
    phases = manifest.read(tmp_path / "clusters").counts["phases"]
    assert {name: facts["parts"] for name, facts in phases.items()} == {
        "read": 2, "vectors": 6, "train": 1, "index": 6, "search": 6
    }  # fmt: skip
    assert manifest.read(tmp_path / "clusters").counts["search"] == "a trained index"


def test_pairs_are_those_of_vectors_in_memory(tmp_path):
    src, tgt, _ = planted(50, 150)
    files = write(tmp_path, src, tgt)
    for retrieval in ("forward", "backward", "intersection", "max"):
        cfg = MineConfig("en-sw", **files, out=str(tmp_path / retrieval), retrieval=retrieval, shard=70)
        i, j, scores = mine(src, tgt, retrieval=retrieval)
        kept = scores >= cfg.threshold
        results = mined(tmp_path, cfg)
        assert set(results) == set(zip(i[kept].tolist(), j[kept].tolist(), strict=True))
        np.testing.assert_allclose(list(results.values()), scores[kept], atol=2e-3)


def test_repeated_lines_and_side_by_side_kinds_of_search(tmp_path, monkeypatch):
    """Repeated and empty lines have vectors that are not used; with index=auto a small side is searched exactly."""
    src, tgt, _ = planted(100, 2000)
    files = write(tmp_path, np.concatenate([src, src[:5], tgt[:3]]), tgt)
    lines = [f"src {i}" for i in range(len(src))] + [f"src  {i} " for i in range(5)] + ["", " ", ""]
    Path(files["src"]).write_text("".join(line + "\n" for line in lines))
    monkeypatch.setattr(stage, "_EXACT_COMPARISONS", 1000)
    monkeypatch.setattr(stage, "_MIN_CODED", 2100)
    cfg = MineConfig("en-sw", **files, out=str(tmp_path / "out"), shard=800)
    assert [stage.MiningPlan(cfg, 2000, 2100).is_coded(side) for side in (0, 1)] == [False, True]
    results = mined(tmp_path, cfg)
    counts = manifest.read(tmp_path / "out").counts
    assert (counts["src_sentences"], counts["src_repeated"], counts["tgt_repeated"]) == (2100, 8, 0)
    assert max(i for i, _ in results) < 2100 and len(results) > 50
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_nothing_but_empty_lines_gives_no_pair(tmp_path):
    src, tgt, _ = planted(5, 5)
    files = write(tmp_path, src, tgt)
    Path(files["src"]).write_text("\n" * 10)
    assert mined(tmp_path, MineConfig("en-sw", **files, out=str(tmp_path / "out"))) == {}
    assert manifest.read(tmp_path / "out").counts["without_pair"] == 0


def test_changed_input_is_not_mixed_with_earlier_parts(tmp_path):
    src, tgt, _ = planted(50, 150)
    files = write(tmp_path, src, tgt)
    cfg = MineConfig("en-sw", **files, out=str(tmp_path / "out"), shard=100)
    for index in (0, 1):
        stage.run_part(cfg, "read", index)
    assert [phase.num_parts for phase in phases_of(STAGES["mine"], cfg)] == [2, 4, 4, 1]
    stage.run_part(cfg, "vectors", 0)
    np.save(files["src_vectors"], src[::-1])
    expected = MineConfig("en-sw", **files, out=str(tmp_path / "calm"), shard=100)
    assert mined(tmp_path, cfg) == mined(tmp_path, expected)


@pytest.mark.parametrize("kind", ["exact", "clusters"])
def test_killed_at_many_renames_it_ends_in_the_same_bytes(tmp_path, kind):
    files = write(tmp_path, *planted(250, 500)[:2])
    places = [f"{key}={path}" for key, path in files.items()]
    words = ["mine", "pair=en-sw", f"index={kind}", "shard=300", *places, f"out={tmp_path}/killed"]
    modules = "faiss,xxhash,xling.corpora.mining.stage"
    code, deaths = attempts(words, modules, 4, calm=(tmp_path / "killed", tmp_path / "calm"))
    assert code == 0 and deaths > 2
    first, second = (manifest.verify(tmp_path / name) for name in ("killed", "calm"))
    assert first.files == second.files
    without_times = [{k: v for k, v in m.counts.items() if k != "phases"} for m in (first, second)]
    assert without_times[0] == without_times[1]
    assert first.counts["pairs"] > 100


def peak_mb(folder, block):
    """The largest memory of mining 100 against 300,000 vectors of 128, in a process of its own."""
    draw = np.random.default_rng(1)
    sizes = {"src": 100, "tgt": 300_000}
    for name, count in sizes.items():
        np.save(folder / f"{name}.npy", draw.standard_normal((count, 128), dtype=np.float32))
        (folder / f"{name}.txt").write_text("".join(f"{name} {i}\n" for i in range(count)))
    words = [f"{name}={folder}/{name}.txt" for name in sizes]
    words += [f"{name}_vectors={folder}/{name}.npy" for name in sizes]
    command = [sys.executable, "-m", "xling.cli", "mine", "pair=en-sw", f"block={block}", *words]
    subprocess.run([*command, f"out={folder}/out"], check=True, capture_output=True)
    return json.loads((folder / "out" / "manifest.json").read_text())["peak_memory_mb"]


def test_memory_is_bounded_by_the_block(tmp_path):
    """All vectors are 154 MB, and stay on disk."""
    peaks = []
    for block in (8192, 262_144):
        (folder := tmp_path / str(block)).mkdir()
        peaks.append(peak_mb(folder, block))
    narrow, wide = peaks
    assert narrow + 80 < wide < 550, (narrow, wide)
