"""``xling finetune A,B``: one body under the heads of several suites, evaluated and asked by name; then trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import JsonLines
from xling.eval.run import evaluation, predict
from xling.eval.run.finetune import FinetuneConfig, run
from xling.eval.run.settings import EvalConfig
from xling.eval.scores.score_file import read_scores
from xling.eval.systems import FitConfig
from xling.training.settings import PretrainConfig

FIT = FitConfig(epochs=2, lr=2e-3, batch_rows=4, max_length=32)


@pytest.fixture
def joint(model: Path, world: Path, tmp_path: Path) -> FinetuneConfig:
    cfg = FinetuneConfig("toy_xnli,toy_ner", model, tmp_path / "joint", world, alpha=0.5, fit=FIT)
    run(cfg)
    return cfg


def test_every_head_is_evaluated_and_asked(joint: FinetuneConfig, world: Path, tmp_path: Path) -> None:
    counts = manifest.read(joint.out).counts
    assert counts["heads"] == ["toy_xnli", "toy_ner"]
    assert {name: len(scores) for name, scores in counts["dev_scores"].items()} == {
        "toy_xnli": 2,
        "toy_ner": 2,
    }
    evaluation.run(
        EvalConfig(("toy_ner", "toy_xnli"), tmp_path / "e", world, ("pretrained",), joint.out, langs=("en",))
    )
    found = {score.suite for score in read_scores(tmp_path / "e/tables/scores.json")}
    assert found == {"toy_ner", "toy_xnli"}
    (tmp_path / "x.txt").write_text("The boat is red\n", encoding="utf-8")
    asked = predict.PredictConfig(joint.out, tmp_path / "x.txt", head="toy_ner")
    answer = predict.run(asked)
    assert isinstance(answer, JsonLines)
    with pytest.raises(UserError, match="has several heads: toy_xnli, toy_ner"):
        predict.check(replace(asked, head=""))
    with pytest.raises(UserError, match="unknown head 'panx'"):
        predict.check(replace(asked, head="panx"))


def test_a_body_goes_from_suite_to_suite(joint: FinetuneConfig, world: Path, tmp_path: Path) -> None:
    chained = replace(joint, suite="toy_ner", checkpoint=joint.out, out=tmp_path / "chained", alpha=1.0)
    run(chained)
    again = replace(chained, suite="toy_xnli", checkpoint=chained.out, out=tmp_path / "again")
    made = run(again)
    assert len(made.counts["dev_scores"]) == 2
    assert run(again).seconds == made.seconds, "nothing changed"
    cfg = EvalConfig(("toy_ner",), tmp_path / "e", world, ("pretrained",), again.out, langs=("en",))
    with pytest.raises(UserError, match=r"xling finetune toy_ner checkpoint=.* trains its body on"):
        evaluation.run(cfg)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"suite": "toy_ner", "alpha": 0.5},
            r"alpha=0.5 changes nothing for toy_ner: it needs several suites",
        ),
        ({"suite": "toy_ner,toy_ner"}, "suites of different names"),
        ({"suite": "toy_ner,toy_nr"}, "unknown suite 'toy_nr'"),
        ({"fit": replace(FIT, switch={"sw": "d"})}, "fit.switch with several suites"),
    ],
)
def test_what_several_suites_cannot_share_is_refused(
    model: Path, world: Path, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        run(replace(FinetuneConfig("toy_xnli,toy_ner", model, tmp_path / "out", world, fit=FIT), **change))
    assert not (tmp_path / "out").exists()


def test_pretraining_goes_on_from_a_fine_tuned_body(
    joint: FinetuneConfig, shards: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    from xling.core.settings import config
    from xling.training.checks import check
    from xling.training.train import run as pretrain

    words = [*tiny, f"data={shards}", f"out={tmp_path / 'more'}", "train.updates=2", f"init={joint.out}"]
    cfg = config.load(PretrainConfig, overrides=words)
    check(cfg)
    pretrain(cfg)
    assert (tmp_path / "more/model.pt").is_file()
    with pytest.raises(UserError, match=r"model\.layers"):
        check(config.load(PretrainConfig, overrides=[*words, "model.layers=1", f"out={tmp_path / 'less'}"]))
