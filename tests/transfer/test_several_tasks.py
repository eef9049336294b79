"""One body under several heads, and bodies of fine-tuned models as a start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.transfer.test_tune import FAST, labels, rows
from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.models.files import model_folder, model_weights
from xling.models.network.encoder import EncoderModel
from xling.transfer import tune
from xling.transfer.saved import SavedStates
from xling.transfer.schedule import batches_of_each, epoch_of

CFG = replace(FAST, epochs=2)
TASKS = [tune.TaskRows(kind, labels(kind), rows(kind, count)) for kind, count in (("tag", 20), ("pair", 7))]


@pytest.mark.parametrize(
    ("alpha", "counts"),
    [
        (1.0, [10, 3, 1]),  # one pass over each
        (0.0, [5, 5, 4]),
        # 100 ** .5, 30 ** .5, 4 ** .5 = 10, 5.48, 2: shares .572, .313, .114 of 14 batches: 8.01, 4.39, 1.60
        (0.5, [8, 4, 2]),
        (5.0, [14, 1, 1]),  # no task is left out
    ],
)
def test_batches_follow_the_sizes_to_a_power(alpha: float, counts: list[int]) -> None:
    assert batches_of_each([100, 30, 4], 10, alpha) == counts


def test_each_task_goes_on_where_its_epoch_ended() -> None:
    passes = [lambda number: [f"a{number}.{i}" for i in range(4)], lambda number: [f"b{number}.0"]]
    epochs = [list(epoch_of(passes, [3, 2], 1, epoch)) for epoch in range(4)]
    first = [batch for epoch in epochs for task, batch in epoch if task == 0]
    assert first == [f"a{number}.{i}" for number in range(3) for i in range(4)]
    assert [batch for task, batch in epochs[2] if task == 1] == ["b4.0", "b5.0"]
    assert len({tuple(task for task, _ in epoch) for epoch in epochs}) > 1, "the order is drawn anew"
    assert epochs[3] == list(epoch_of(passes, [3, 2], 1, 3))


def test_heads_share_one_body_and_learn_their_own_rows(model: Path) -> None:
    cfg = replace(FAST, epochs=60)
    tagged, paired = tune.fine_tune_jointly(model, TASKS, cfg)[-1]
    assert tagged.model.encoder is paired.model.encoder
    assert tagged.predict(TASKS[0].rows) == [row.label for row in TASKS[0].rows]
    assert paired.predict(TASKS[1].rows) == [row.label for row in TASKS[1].rows]


def test_no_label_of_a_task_reaches_the_head_of_another(model: Path) -> None:
    """With the body frozen, a head is the same whatever the other task's labels are."""
    cfg = replace(CFG, freeze="encoder")
    other = [replace_label(row) for row in TASKS[1].rows]
    one, two = (
        tune.fine_tune_jointly(model, [TASKS[0], TASKS[1]._replace(rows=paired)], cfg)[-1]
        for paired in (TASKS[1].rows, other)
    )
    assert_same(one[0].model, two[0].model)
    assert not torch.equal(one[1].model.classifier.weight, two[1].model.classifier.weight)


def test_alpha_decides_how_often_a_task_is_learned(model: Path) -> None:
    drawn: Counter[int] = Counter()
    for alpha in (1.0, 0.0):
        updates: list[tuple[int, int, float]] = []
        tune.fine_tune_jointly(
            model, TASKS, CFG, alpha, on_update=lambda *update, updates=updates: updates.append(update)
        )
        drawn[len(updates)] += 1
    assert drawn == {12: 2}, "as many updates, 4 and 2 batches twice, for every alpha"
    even, sized = (tune.fine_tune_jointly(model, TASKS, CFG, alpha)[-1] for alpha in (0.0, 1.0))
    assert not torch.equal(even[1].model.classifier.weight, sized[1].model.classifier.weight)


def test_a_killed_training_of_several_tasks_goes_on(model: Path, tmp_path: Path) -> None:
    def fit(saves: SavedStates | None, tell: Callable[..., None] | None) -> list[list[tune.TunedModel]]:
        return tune.fine_tune_jointly(model, TASKS, CFG, 0.5, on_update=tell, saved_states=saves)

    def die(number: int, *_: float) -> None:
        if number == 8:
            raise KeyboardInterrupt

    expected, saves = fit(None, None), SavedStates(tmp_path / "task", "key", 0.0)
    with pytest.raises(KeyboardInterrupt):
        fit(saves, die)
    for found, wanted in zip(fit(saves, None), expected, strict=True):
        for one, other in zip(found, wanted, strict=True):
            assert_same(one.model, other.model)


def test_a_file_of_several_heads(model: Path, tmp_path: Path) -> None:
    made = dict(zip(("names", "same"), tune.fine_tune_jointly(model, TASKS, CFG)[-1], strict=True))
    tune.save_heads(made, tmp_path, model, ["en"])
    for head, tuned in made.items():
        assert_same(tune.load_tuned(tmp_path, head=head).model, tuned.model)
    for read in (tune.load_tuned, lambda folder: model_folder.check_model(folder, model_folder.TASK)):
        with pytest.raises(UserError, match="has several heads: names, same"):
            read(tmp_path)
    with pytest.raises(UserError, match="unknown head 'name'; fix: did you mean 'names'"):
        tune.load_tuned(tmp_path, head="name")


@pytest.fixture
def task(model: Path, tmp_path: Path) -> Path:
    """A model fine-tuned on tags."""
    (tmp_path / "task").mkdir()
    tune.save_tuned(
        fine_tune(model, "tag", labels("tag"), rows("tag"), CFG)[-1], tmp_path / "task", model, ["en"]
    )
    return tmp_path / "task"


def test_a_fine_tuned_body_is_trained_on_under_a_new_head(model: Path, task: Path) -> None:
    tuned, published = tune.load_tuned(task), model_weights.load_model(model)[0].encoder
    kept = fine_tune(task, "pair", labels("pair"), rows("pair"), replace(CFG, freeze="encoder"))[-1]
    assert_same(kept.model.encoder, tuned.model.encoder)
    assert not torch.equal(kept.model.encoder.tokens.weight, published.tokens.weight)
    moved = fine_tune(task, "pair", labels("pair"), rows("pair"), CFG)[-1]
    assert not torch.equal(moved.model.encoder.tokens.weight, tuned.model.encoder.tokens.weight)


def test_a_pretraining_starts_from_a_fine_tuned_body(model: Path, task: Path) -> None:
    published, langs = model_weights.load_model(model)
    torch.manual_seed(1)
    fresh = EncoderModel(published.cfg, len(published.encoder.tokens.weight))
    head = {name: weight.clone() for name, weight in fresh.lm_head.state_dict().items() if name != "weight"}
    model_weights.start_from(fresh, task, langs, model, leave_embeddings=False)
    assert_same(fresh.encoder, tune.load_tuned(task).model.encoder)
    assert all(torch.equal(fresh.lm_head.state_dict()[name], weight) for name, weight in head.items())
    with pytest.raises(UserError, match="is fine-tuned"):
        model_weights.load_model(task)  # what needs its LM head or vectors is told


def replace_label(row: object) -> object:
    fields = dict(vars(row))
    return type(row)(
        **{**fields, "label": next(label for label in labels("pair") if label != fields["label"])}
    )


def assert_same(found: torch.nn.Module, wanted: torch.nn.Module) -> None:
    weights, others = found.state_dict(), wanted.state_dict()
    assert weights.keys() == others.keys()
    assert [name for name in weights if not torch.equal(weights[name], others[name])] == []
