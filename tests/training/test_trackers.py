"""Curves for TensorBoard: they hold what the log holds, over a resumed training too."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from xling import cli
from xling.core import signals
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.eval.systems import FitConfig
from xling.training import trackers
from xling.training.settings import PretrainConfig
from xling.training.train import run

EVENTS = [
    {"update": 5, "split": "train", "loss": 3.0, "loss/mmlm/sw": 4.0, "tokens_per_s": 900},
    {"update": 10, "split": "train", "loss": 2.0, "loss/mmlm/sw": 3.0, "tokens_per_s": 900},
    {"update": 10, "split": "valid", "loss": 2.5, "note": "text is left out"},
]


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Every curve in TensorBoard's files of one run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), {"scalars": 0})
    found.Reload()
    return {
        name: [(e.step, round(e.value, 4)) for e in found.Scalars(name)] for name in found.Tags()["scalars"]
    }


def test_tensorboard_gets_every_number(tmp_path: Path) -> None:
    with trackers.shown("tensorboard", tmp_path / "model", {"lr": 1}) as show:
        for event in EVENTS:
            show(event)
    assert scalars(tmp_path / "tensorboard" / "model") == {
        "train/loss": [(5, 3.0), (10, 2.0)],
        "train/loss/mmlm/sw": [(5, 4.0), (10, 3.0)],
        "train/tokens_per_s": [(5, 900.0), (10, 900.0)],
        "valid/loss": [(10, 2.5)],
    }


def test_training_is_shown_and_changes_no_bit(
    shards: Path, model: Path, tiny: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [
        *tiny,
        f"data={shards}",
        f"out={tmp_path}/model",
        "train.updates=30",
        "train.lr=3e-3",
        "log=tensorboard",
    ]
    cfg = config.load(PretrainConfig, overrides=[*words, "train.save_every=10"])
    monkeypatch.setattr(signals, "stop_requested", lambda: "enough")  # stops after the first update
    with pytest.raises(signals.Stopped):
        run(cfg)
    monkeypatch.undo()
    made = run(cfg)
    assert made == run(config.load(PretrainConfig, overrides=[*words[:-1], "train.save_every=10"]))
    assert isinstance(made, manifest.Manifest) and made.config["log"] == "none"
    events = [json.loads(line) for line in (tmp_path / "model/log.jsonl").read_text().splitlines()]
    for split in ("train", "valid"):
        wanted = [
            (e["update"], round(e["loss/mmlm/en"], 4))
            for e in events
            if e["split"] == split and "loss/mmlm/en" in e
        ]
        assert scalars(tmp_path / "tensorboard/model")[f"{split}/loss/mmlm/en"] == wanted
    same = config.to_dict(config.load(PretrainConfig, overrides=words)) == config.to_dict(cfg)
    assert not same  # save_every differs, and the weights do not depend on it
    assert (tmp_path / "model/model.pt").read_bytes() == (model / "model.pt").read_bytes()


def test_a_package_that_is_missing_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shards: Path, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match=r"log=tensorboard: .*tensorboard.*fix: pip install 'xling\[track\]'"):
        trackers.check("tensorboard")
    assert cli.main(["pretrain", f"data={shards}", f"out={tmp_path}/out", "log=tensorboard"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("xling: log=tensorboard: ") and err.count("\n") == 1
    assert not list(tmp_path.iterdir())
    assert cli.main(["pretrain", f"data={shards}", f"out={tmp_path}/out", "log=tensorbaord"]) == 2
    assert "did you mean 'tensorboard'" in capsys.readouterr().err


def test_losses_of_a_fine_tuning() -> None:
    seen: list[Any] = []
    losses = trackers.Losses(seen.append)
    for update in range(1, 42):
        losses.tell(update, (update - 1) // 20, float(update))
    losses.write("valid", losses.ends[0], accuracy=50.0)
    assert losses.ends == {0: 20, 1: 40, 2: 41}
    assert [(e["update"], e["loss"]) for e in seen if e["split"] == "train"] == [
        (1, 1.0),
        (20, 11.0),
        (40, 30.5),
    ]
    updates = [json.loads(line)["update"] for line in losses.text().splitlines()]
    assert updates == sorted(updates)


def test_a_fine_tuning_leaves_its_curves(model: Path, tmp_path: Path) -> None:
    from xling.eval.report import artifacts, sections
    from xling.eval.run.finetune import FinetuneConfig
    from xling.eval.run.finetune import run as finetune

    rows = [
        f"a red boat {i}\tthe small house {i % 3}\t{label}"
        for i in range(7)
        for label in ("entailment", "neutral")
    ]
    for split in ("train", "dev"):
        path = tmp_path / "data" / "nli" / f"en.{split}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("premise\thypothesis\tlabel\n" + "\n".join(rows) + "\n")
    fit = FitConfig(epochs=3, batch_rows=2, max_length=32)
    cfg = FinetuneConfig("toy_xnli", model, tmp_path / "tuned", tmp_path / "data", fit=fit, log="tensorboard")
    made = finetune(cfg)
    assert made.config["log"] == "none"
    events = [json.loads(line) for line in (tmp_path / "tuned/log.jsonl").read_text().splitlines()]
    assert [(e["update"], e["split"]) for e in events if e["split"] == "train"] == [
        (1, "train"),
        (20, "train"),
    ]
    scores = [(e["update"], e["accuracy"]) for e in events if e["split"] == "valid"]
    assert scores == list(zip((7, 14, 21), made.counts["dev_scores"], strict=True))
    shown = scalars(tmp_path / "tensorboard" / "tuned")
    assert [step for step, _ in shown["valid/accuracy"]] == [7, 14, 21] and "train/loss" in shown
    section = sections.training([artifacts.open_run(tmp_path / "tuned", "tuned")])
    assert any("validation: accuracy" in picture for picture in section.figures)


def test_changed_training_rows_are_learned_from(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xling.eval.run.finetune import FinetuneConfig
    from xling.eval.run.finetune import run as finetune

    files = {split: tmp_path / "data" / "nli" / f"en.{split}.tsv" for split in ("train", "dev")}
    for path in files.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("premise\thypothesis\tlabel\na boat\ta house\tneutral\na house\ta boat\tentailment\n")
    words = tmp_path / "en-ar.txt"
    words.write_text("boat قارب\n")
    fit = FitConfig(epochs=1, batch_rows=2, max_length=16, switch={"ar": str(words)})
    cfg = FinetuneConfig("toy_xnli", model, tmp_path / "tuned", tmp_path / "data", fit=fit)
    made = finetune(cfg)
    assert finetune(cfg).seconds == made.seconds, "nothing changed"
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    for path in (*files.values(), words):
        path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
        again = finetune(cfg)
        assert again.inputs != made.inputs, path
        made = again
    files["train"].unlink()
    with pytest.raises(UserError, match="no train rows in 'en'"):
        finetune(cfg)
