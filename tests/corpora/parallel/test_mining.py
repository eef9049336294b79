import numpy as np
import pytest

from xling.core import manifest
from xling.core.errors import UserError
from xling.core.stage import run_local
from xling.corpora.parallel.mine import (
    MineConfig,
    f1_at_best_threshold,
    first_of_each,
    mine,
    nearest,
    normalised,
)


def planted(num_true=200, num_noise=800, dim=32, seed=0):
    """Vectors with a tenth of true pairs, and a hub: a target near to everything."""
    draw = np.random.default_rng(seed)
    meaning = draw.standard_normal((num_true, dim))
    src = np.concatenate([meaning, draw.standard_normal((num_noise, dim))]) + 1.5 * np.eye(dim)[0]
    tgt = np.concatenate([meaning, draw.standard_normal((num_noise, dim))]) + 1.5 * np.eye(dim)[0]
    src += 0.5 * draw.standard_normal(src.shape)
    tgt += 0.5 * draw.standard_normal(tgt.shape)
    order = draw.permutation(len(tgt))
    place = np.argsort(order)
    gold = {(i, int(place[i])) for i in range(num_true)}
    return normalised(src), normalised(tgt[order]), gold


@pytest.mark.parametrize("block", [64, 1000, 10_000])
def test_blocks_find_what_brute_force_finds(block):
    src, tgt, _ = planted()
    cosines, ids = nearest(src, tgt, 4, "exact", block)
    wanted = np.sort(src @ tgt.T, axis=1)[:, ::-1][:, :4]
    np.testing.assert_allclose(cosines, wanted, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(src @ tgt.T, ids, 1), wanted, atol=1e-5)


def test_ratio_margin_by_hand():
    src = normalised(np.array([[1.0, 0.0], [0.0, 1.0]]))
    tgt = normalised(np.array([[1.0, 0.2], [0.2, 1.0]]))
    i, j, scores = mine(src, tgt, k=2, margin="ratio", retrieval="max")
    cos = src @ tgt.T
    around = (cos.mean(axis=1)[0] + cos.mean(axis=0)[0]) / 2
    assert i.tolist() == j.tolist()
    assert scores[0] == pytest.approx(cos[0, 0] / around, rel=1e-5)
    _, _, distance = mine(src, tgt, k=2, margin="distance", retrieval="max")
    assert distance[0] == pytest.approx(cos[0, 0] - around, rel=1e-5)
    _, _, absolute = mine(src, tgt, k=2, margin="absolute", retrieval="forward")
    assert absolute[0] == pytest.approx(cos[0, 0], rel=1e-5)


def test_margin_beats_the_cosine_and_intersection_is_most_precise():
    src, tgt, gold = planted()
    found = {
        (m, r): f1_at_best_threshold(*mine(src, tgt, 4, m, r), gold)
        for m in ("ratio", "absolute")
        for r in ("forward", "backward", "intersection", "max")
    }
    assert found["ratio", "max"][2] > 0.8
    assert found["ratio", "max"][2] > found["absolute", "max"][2]
    assert found["ratio", "intersection"][0] >= found["ratio", "forward"][0] - 0.02


@pytest.mark.parametrize("retrieval", ["forward", "backward", "intersection", "max"])
def test_retrievals_use_each_sentence_as_they_say(retrieval):
    src, tgt, _ = planted(50, 150)
    i, j, scores = mine(src, tgt, 4, "ratio", retrieval)
    assert (np.diff(scores) <= 0).all()
    if retrieval != "backward":
        assert len(set(i.tolist())) == len(i)
    if retrieval in ("intersection", "max", "backward"):
        assert len(set(j.tolist())) == len(j)


def test_clusters_find_nearly_the_same():
    src, tgt, gold = planted(400, 3600)
    exact, clusters = (
        f1_at_best_threshold(*mine(src, tgt, index=kind), gold)[2] for kind in ("exact", "clusters")
    )
    assert clusters > exact - 0.1


def test_repeated_and_empty_lines_are_taken_once():
    assert first_of_each(["a", "", "b", "a", " "]).tolist() == [0, 2]
    assert [x.size for x in mine(np.zeros((0, 4), np.float32), np.ones((3, 4), np.float32))] == [0, 0, 0]


def write(tmp_path, src, tgt):
    for name, vectors in (("src", src), ("tgt", tgt)):
        np.save(tmp_path / f"{name}.npy", vectors)
        (tmp_path / f"{name}.txt").write_text("".join(f"{name} {i}\n" for i in range(len(vectors))))
    names = {"src": "src.txt", "tgt": "tgt.txt", "src_vectors": "src.npy", "tgt_vectors": "tgt.npy"}
    return {key: str(tmp_path / name) for key, name in names.items()}


def test_stage_writes_scored_pairs(tmp_path):
    src, tgt, gold = planted(50, 150)
    files = write(tmp_path, src, tgt)
    cfg = MineConfig("en-sw", **files, out=str(tmp_path / "out"), threshold=1.1)
    run_local("mine", cfg)
    rows = [line.split("\t") for line in (tmp_path / "out" / "pairs.tsv").read_text().splitlines()]
    found = {(int(r[1].split()[1]), int(r[2].split()[1])) for r in rows}
    assert len(found & gold) > 35
    scores = [float(r[0]) for r in rows]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) >= 1.1
    counts = manifest.verify(tmp_path / "out").counts
    assert counts["pairs"] == len(rows)
    assert counts["pairs"] + counts["under_threshold"] <= 200
    assert "up to date" in run_local("mine", cfg)


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
    for changes in ({"src_vectors": ""}, {"checkpoint": "x"}, {"neighbours": 0}):
        with pytest.raises(UserError):
            MineConfig("en-sw", **(files | changes))


def test_vectors_that_cannot_be_compared_are_refused(tmp_path):
    src, tgt, _ = planted(5, 5)
    files = write(tmp_path, src, tgt)
    with pytest.raises(UserError, match="threshold=nan"):
        MineConfig("en-sw", **files, threshold=float("nan"))
    vectors = np.load(files["tgt_vectors"])
    broken = vectors.copy()
    broken[3, 1] = np.inf
    for wrong, message in ((broken, "line 4 is not finite"), (vectors[:, :-1], "vectors of width")):
        np.save(files["tgt_vectors"], wrong)
        with pytest.raises(UserError, match=message):
            run_local("mine", MineConfig("en-sw", **files, out=str(tmp_path / "out")))
