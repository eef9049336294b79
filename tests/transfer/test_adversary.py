"""A language adversary beside a fine-tuning."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.rows import Sentence
from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.transfer.adversary import Adversary
from xling.transfer.tune import TuneConfig

LABELS = ("boat", "bread")
CFG = TuneConfig(lr=1e-3, epochs=1, batch_rows=4, dropout=0.0, max_length=32, precision="fp32", clip=0.0)
ROWS = [
    Sentence("The teacher sees a red boat", "boat"),
    Sentence("My neighbour likes fresh bread", "bread"),
] * 4


def weights(model: Path, cfg: TuneConfig) -> dict[str, torch.Tensor]:
    return fine_tune(model, "classify", LABELS, ROWS, cfg)[-1].model.state_dict()


def test_the_encoder_learns_from_it_by_the_reversal_alone(model: Path, shards: Path) -> None:
    plain = weights(model, CFG)
    probe = weights(model, replace(CFG, adversary=str(shards), adversary_reversal=0.0))
    assert probe.keys() == plain.keys(), "the discriminator is no part of the model"
    for name, weight in plain.items():
        torch.testing.assert_close(probe[name], weight, msg=name)
    name = "encoder.layers.0.up.weight"
    for form in ("classes", "wgan"):
        found = weights(
            model, replace(CFG, adversary=str(shards), adversary_reversal=5.0, adversary_form=form)
        )
        assert not torch.equal(found[name], plain[name])


def test_it_reads_the_states_that_the_head_reads(model: Path, shards: Path) -> None:
    cfg = replace(CFG, layers="1")
    plain = weights(model, cfg)
    found = weights(model, replace(cfg, adversary=str(shards), adversary_reversal=5.0))
    changed = {
        name.split(".")[2]
        for name in plain
        if not torch.equal(plain[name], found[name]) and ".layers." in name
    }
    assert changed == {"0"}, "the head reads no state of the second layer"


def test_it_goes_on_from_its_state(model: Path, shards: Path) -> None:
    cfg = replace(CFG, adversary=str(shards))
    tuned = fine_tune(model, "classify", LABELS, ROWS, cfg)[-1]
    task_model = copy.deepcopy(tuned.model)

    def update(adversary: Adversary) -> float:
        loss = adversary.loss(task_model)
        loss.backward()
        adversary.step()
        return float(loss.detach())

    torch.manual_seed(3)
    first = Adversary(cfg, task_model, model, list(tuned.langs))
    update(first)
    second = Adversary(cfg, task_model, model, list(tuned.langs))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert [update(first) for _ in range(3)] == [update(second) for _ in range(3)]
    losses = [update(first) for _ in range(60)]
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5]), "the languages are told apart"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adversary_reversal": -1.0}, r"fit.adversary_reversal=-1.0; valid: a number from 0"),
        ({"adversary": "nowhere"}, r"fit.adversary=nowhere has text in no language"),
    ],
)
def test_mistakes_are_user_errors(model: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        fine_tune(model, "classify", LABELS, ROWS, replace(CFG, **change))  # type: ignore[arg-type]


def test_text_of_another_vocabulary_is_refused(model: Path, shards: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(shards, tmp_path / "other")
    with (tmp_path / "other" / "dict.txt").open("a", encoding="utf-8") as file:
        file.write("more 1\n")
    with pytest.raises(UserError, match="was trained with vocabulary"):
        fine_tune(model, "classify", LABELS, ROWS, replace(CFG, adversary=str(tmp_path / "other")))
