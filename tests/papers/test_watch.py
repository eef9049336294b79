"""Models left behind by a training, and curves of what grows, on a tiny training and by hand."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import pytest

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import score_file
from xling.models.files import model_weights
from xling.papers import watch
from xling.papers.watch import WatchConfig, arrived, run, snapshots_of
from xling.training import train
from xling.training.settings import PretrainConfig, TrainConfig


@pytest.fixture(scope="module")
def trained(shards: Path, tiny: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("watch") / "model"
    words = [*tiny, "train.updates=4", "train.valid_every=2", "train.log_every=2", "train.snapshots=1,3"]
    train.run(config.load(PretrainConfig, None, [f"data={shards}", f"out={out}", *words]))
    return out


def test_a_training_leaves_models_behind(trained: Path) -> None:
    models = snapshots_of([trained])
    assert list(models) == [1, 3, 4] and models[4] == trained
    weights = [model_weights.load_model(path)[0].encoder.tokens.weight for path in models.values()]
    assert all((a != b).any() for a, b in itertools.pairwise(weights))
    manifest.verify(trained)  # they are part of what is published
    with pytest.raises(UserError, match=r"train\.snapshots=9; valid: updates from 1 to train.updates=4"):
        TrainConfig(updates=4, snapshots=(9,))


def test_losses_and_scores_become_curves(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[EvalConfig] = []

    def scored(cfg: EvalConfig) -> None:
        asked.append(cfg)
        (cfg.out / "tables").mkdir(parents=True)
        scores = [
            score_file.Score("tatoeba", "de", "precision_at_1", 10.0 * int(name[1:]) + seed, 9, seed, name)
            for name in ("u1", "u3", "u4")
            for seed in (1, 2)
        ]
        score_file.write_scores(cfg.out / "tables" / "scores.json", scores, [])

    monkeypatch.setattr(watch, "evaluate", scored)
    run(WatchConfig((trained,), ("tatoeba",), tmp_path / "out", tmp_path))
    assert [name.partition("=")[0] for name in asked[0].checkpoints] == ["u1", "u3", "u4"]
    with (tmp_path / "out" / "watch.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    scores = [(r["updates"], float(r["value"])) for r in rows if r["measure"].startswith("tatoeba")]
    assert scores == [("1", 11.5), ("3", 31.5), ("4", 41.5)]
    losses = {(r["language"], r["updates"]) for r in rows if r["measure"] == "mmlm: loss in nats"}
    assert {updates for _, updates in losses} == {"2", "4"} and ("en", "4") in losses
    page = (tmp_path / "out" / "watch.html").read_text()
    assert page.count("<figure") >= 2 and "tatoeba" in page


def test_a_curve_has_arrived_at_nine_tenths_of_its_way() -> None:
    assert arrived([(1, 0.0), (2, 89.0), (3, 90.0), (4, 100.0), (5, 95.0)], falls=False) == (3, 4)
    assert arrived([(1, 5.0), (2, 1.0), (3, 1.4)], falls=True) == (2, 2)
    assert arrived([(7, 5.0)], falls=True) == (7, 7)


def test_what_cannot_be_watched_is_said(trained: Path, shards: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no checkpoint is named"):
        run(WatchConfig((), out=tmp_path / "a"))
    with pytest.raises(UserError, match=r"was made by 'binarize'; valid: a folder of `xling pretrain`"):
        run(WatchConfig((shards,), out=tmp_path / "a"))
    with pytest.raises(UserError, match=r"both have \d updates"):
        run(WatchConfig((trained, trained), out=tmp_path / "a"))


def test_a_curve_is_told_by_its_first_its_best_and_its_last_value() -> None:
    curves = {
        ("tatoeba", "de"): [(1, 10.0), (3, 60.0), (4, 40.0), (9, 50.0)],
        ("loss", "en"): [(1, 3.0), (2, 2.0)],
    }
    rows = {row[:2]: row for row in watch._table(curves).rows}
    assert rows["tatoeba", "de"][2:5] == (10.0, 60.0, 50.0) and rows["tatoeba", "de"][-1] == 3
    assert rows["loss", "en"][2:5] == (3.0, 2.0, 2.0) and rows["loss", "en"][-1] == 2
