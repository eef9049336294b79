"""Fine-tuning and prediction on the tiny model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.eval.systems import FitConfig
from xling.models.files import model_weights
from xling.models.files.model_folder import TASK_FILE
from xling.models.network.encoder import Encoder, EncoderConfig, EncoderModel
from xling.text import vocab
from xling.transfer import tune
from xling.transfer.backend import EncoderBackend
from xling.transfer.heads import (
    TaskModel,
    log_softmax_by_group,
    match_features,
    summary_features,
    unmatched_features,
)
from xling.transfer.schedule import epoch_batches, learning_rate
from xling.transfer.settings import PairFeatures, TuneConfig
from xling.transfer.task import TASKS
from xling.transfer.tasks.intent_slots import INTENT_PREFIX
from xling.transfer.tune import batches_by_tokens

KINDS = sorted(
    name for name, task in TASKS.items() if not task.writes and name != "likelier"
)  # it is not tuned
LABELS = ("no", "yes", "maybe")
INTENTS = ("ask", "tell")


def labels(kind: str) -> tuple[str, ...]:
    joint = (*(INTENT_PREFIX + name for name in INTENTS), *LABELS)
    return {"span": (), "choice": (), "intent_slots": joint}.get(kind, LABELS)


FAST = TuneConfig(lr=4e-3, epochs=60, batch_rows=5, dropout=0.0, max_length=64, precision="fp32")


@dataclass
class Row:
    id: str
    fields: dict[str, Any]
    label: Any


_WORDS = (
    "woman",
    "neighbour",
    "doctor",
    "teacher",
    "sees",
    "sells",
    "finds",
    "boat",
    "house",
    "bread",
    "books",
)


def rows(kind: str, count: int = 10) -> list[Row]:
    """Rows of random words; the labels of texts are random, so only learning by heart can be right."""
    made = []
    for number in range(count):
        draw = rng(kind, number)
        words = [_WORDS[i] for i in draw.integers(len(_WORDS), size=3 + number % 4)]
        labels = [LABELS[i] for i in draw.integers(3, size=len(words))]
        tags = tuple(LABELS[len(word) % 3] for word in words)  # a word decides its tag
        if kind == "tag":
            made.append(Row(str(number), {"tokens": tuple(words)}, tags))
        elif kind == "intent_slots":
            intent = INTENTS[int(draw.integers(2))]
            made.append(Row(str(number), {"tokens": tuple(words)}, (intent, tags)))
        elif kind == "choice":
            fields = {"premise": words[0], "question": ("cause", "effect")[number % 2]}
            choices = (" ".join(words[1:]), " ".join(reversed(words)))
            made.append(Row(str(number), fields | {"choices": choices}, int(draw.integers(2))))
        elif kind == "span":
            place = int(draw.integers(len(words)))
            start = sum(len(word) + 1 for word in words[:place])
            fields = {"context": " ".join(words), "question": words[0] + " boat"}
            made.append(Row(str(number), fields, ((words[place], start),)))
        elif kind == "pair":
            made.append(
                Row(
                    str(number),
                    {"text_a": " ".join(words), "text_b": " ".join(reversed(words[1:]))},
                    labels[0],
                )
            )
        else:
            made.append(Row(str(number), {"text": " ".join(words)}, labels[0]))
    return made


@pytest.fixture(scope="module")
def epochs(model: Path) -> dict[str, list[tune.TunedModel]]:
    return {kind: fine_tune(model, kind, labels(kind), rows(kind), FAST) for kind in KINDS}


@pytest.fixture(scope="module")
def tuned(epochs: dict[str, list[tune.TunedModel]]) -> dict[str, tune.TunedModel]:
    return {kind: made[-1] for kind, made in epochs.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_ten_rows_are_learnt_by_heart(epochs: dict[str, list[tune.TunedModel]], kind: str) -> None:
    made, train = epochs[kind], rows(kind)
    assert len(made) == FAST.epochs
    right = [row.label[0][0] if kind == "span" else row.label for row in train]
    assert made[-1].predict(train) == right
    assert made[0].predict(train) != right


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_come_in_the_order_of_the_rows(tuned: dict[str, tune.TunedModel], kind: str) -> None:
    asked = rows(kind, 16)
    answers = tuned[kind].predict(asked)
    assert len(set(answers)) > 1
    one_by_one = [tuned[kind].predict([row])[0] for row in asked]
    assert answers == one_by_one
    order = np.random.default_rng(1).permutation(len(asked))
    assert tuned[kind].predict([asked[i] for i in order]) == [answers[i] for i in order]
    assert tuned[kind].predict(asked, batch_tokens=20) == answers
    assert tuned[kind].predict([]) == []


def test_a_tag_for_every_word_of_long_odd_and_empty_sentences(tuned: dict[str, tune.TunedModel]) -> None:
    sentences = [("teacher",) * 200, (), ("\u200b", "👩‍👧", "字" * 100), ("boat",)]
    asked = [Row(str(n), {"tokens": words}, None) for n, words in enumerate(sentences)]
    answers = tuned["tag"].predict(asked)
    assert [len(tags) for tags in answers] == [200, 0, 3, 1]
    assert all(tag in LABELS for tags in answers for tag in tags)


def test_the_same_seed_gives_the_same_model(model: Path) -> None:
    cfg = replace(FAST, epochs=1, dropout=0.1)
    first, again, other = (
        fine_tune(model, "classify", LABELS, rows("classify"), replace(cfg, seed=seed))[0].model.state_dict()
        for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


def test_random_init_forgets_the_pretrained_weights(model: Path) -> None:
    # With a learning rate of next to nothing the weights stay where they started.
    cfg = replace(FAST, epochs=1, lr=1e-12)
    start = torch.load(model / "model.pt", weights_only=True)["weights"]["encoder.tokens.weight"]
    kept, fresh = (
        fine_tune(model, "classify", LABELS, rows("classify"), replace(cfg, random_init=random))[0]
        for random in (False, True)
    )
    torch.testing.assert_close(kept.model.encoder.tokens.weight, start)
    distance = (fresh.model.encoder.tokens.weight - start).abs().mean()
    assert float(distance) > 0.01
    assert kept.model.state_dict().keys() == fresh.model.state_dict().keys()


def test_softmax_within_groups_worked_by_hand() -> None:
    # Groups {0, 2} and {1}; the second column is shifted, which changes nothing.
    logits = torch.log(torch.tensor([[1.0, 10.0], [7.0, 7.0], [3.0, 30.0]]))
    found = log_softmax_by_group(logits, torch.tensor([0, 1, 0])).exp()
    torch.testing.assert_close(found, torch.tensor([[0.25, 0.25], [1.0, 1.0], [0.75, 0.75]]))
    assert torch.isfinite(log_softmax_by_group(1e4 * logits, torch.tensor([0, 1, 0]))).all()


def test_the_loss_of_an_intent_weighs_as_much_as_all_its_slots(tuned: dict[str, tune.TunedModel]) -> None:
    model = tuned["intent_slots"].model
    found = torch.log(torch.tensor([[0.5, 0.5, 1e-9, 1e-9, 1e-9], *[[1e-9, 1e-9, 0.25, 0.5, 0.25]] * 3]))
    loss = model.loss(found, torch.tensor([1, 2, 3, 2]))
    assert float(loss) == pytest.approx(np.log(2) + (np.log(4) + np.log(2) + np.log(4)) / 3, rel=1e-5)
    assert float(model.loss(found[1:], torch.tensor([3, 3, 3]))) == pytest.approx(np.log(2), rel=1e-5)


def test_matching_features_worked_by_hand() -> None:
    # A pair of 1 and 2 tokens between specials, then one whose second text is empty.
    sides = torch.tensor([0, 1, 0, 0, 2, 2, 0, 0, 1, 1, 0, 0, 0])
    hidden = torch.zeros(13, 2)
    hidden[1], hidden[4], hidden[5] = (
        torch.tensor([1.0, -2.0]),
        torch.tensor([2.0, 4.0]),
        torch.tensor([4.0, 2.0]),
    )
    hidden[8], hidden[9] = torch.tensor([5.0, 0.0]), torch.tensor([7.0, 0.0])
    hidden[0] = hidden[7] = 99  # specials do not count
    made = match_features(hidden, sides, [(1, 7), (1, 6)])
    assert made.tolist() == [[1, -2, 3, 3, 2, 5, 3, -6], [6, 0, 0, 0, 6, 0, 0, 0]]


def test_unmatched_features_worked_by_hand() -> None:
    # Texts "x" and "x y", a pair the other way round and of the same length, then one whose second text is empty.
    x, y, special = torch.tensor([3.0, 0.0]), torch.tensor([0.0, -2.0]), torch.tensor([9.0, 9.0])
    hidden = torch.stack(
        [special, x, special, x, y, special, special, y, x, special, x, special, special, x, y]
    )
    sides = torch.tensor([0, 1, 0, 2, 2, 0, 0, 1, 1, 0, 2, 0, 0, 1, 1])
    made = unmatched_features(hidden, sides, [(2, 6), (1, 3)])
    # y has the cosine 0 with x, so of x nothing is left and of y all but x.
    wanted = [[0, 0, 0, 0, -3, -2, 3, 2], [-3, -2, 3, 2, 0, 0, 0, 0], [3, -2, 3, 2, 0, 0, 0, 0]]
    assert made.tolist() == [pytest.approx(row, abs=1e-6) for row in wanted]


@pytest.mark.parametrize("features", ["match", "align"])
def test_a_model_with_other_features_predicts_the_same_when_saved(
    model: Path, tmp_path: Path, features: PairFeatures
) -> None:
    made = fine_tune(model, "pair", LABELS, rows("pair"), replace(FAST, epochs=8, pair_features=features))[-1]
    answers = made.predict(rows("pair", 40))
    assert len(set(answers)) > 1
    assert answers == [made.predict([row])[0] for row in rows("pair", 40)]
    tune.save_tuned(made, tmp_path, model, ["ar", "en", "th"])
    assert tune.load_tuned(tmp_path).predict(rows("pair", 40)) == answers


def test_summarised_states_worked_by_hand() -> None:
    hidden = torch.tensor([[1.0, -3.0], [3.0, -1.0], [5.0, 0.0], [7.0, -2.0], [2.0, 9.0]])
    assert summary_features(hidden, [(2, 2), (1, 1)]).tolist() == [
        [3, -1, 2, -2],
        [7, 0, 6, -1],
        [2, 9, 2, 9],
    ]


def test_a_model_that_reads_all_states_predicts_the_same_when_saved(model: Path, tmp_path: Path) -> None:
    train, others = rows("classify"), rows("classify", 40)
    made, plain = (
        fine_tune(model, "classify", LABELS, train, replace(FAST, epochs=8, text_features=features))[-1]
        for features in ("concat", "cls")
    )
    answers = made.predict(others)
    assert made.model.dense.in_features == 3 * plain.model.dense.in_features
    once = replace(FAST, epochs=1, text_features="concat", pair_features="match")
    pair = fine_tune(model, "pair", LABELS, rows("pair"), once)[-1]
    assert pair.model.features == "match", "a pair has features of its own"
    assert len(set(answers)) > 1
    assert answers == [made.predict([row])[0] for row in others], "a row's answer depends on its batch"
    tune.save_tuned(made, tmp_path, model, ["ar", "en", "th"])
    assert tune.load_tuned(tmp_path).predict(others) == answers


def test_label_smoothing_by_hand() -> None:
    shape = EncoderConfig(layers=1, dim=8, heads=2, ffn_dim=8, max_positions=8, dropout=0.0)
    log = torch.log_softmax(torch.tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]]), -1)
    found = {
        share: TaskModel(Encoder(shape, 9), "classify", LABELS, 0.0, label_smoothing=share).loss(
            log, torch.tensor([0, 1])
        )
        for share in (0.0, 0.1, 0.9)
    }
    target = torch.tensor([[0.9 + 0.1 / 3, 0.1 / 3, 0.1 / 3], [0.1 / 3, 0.9 + 0.1 / 3, 0.1 / 3]])
    torch.testing.assert_close(found[0.1], -(target * log).sum(1).mean())
    torch.testing.assert_close(found[0.0], -(log[0, 0] + log[1, 1]) / 2)
    assert found[0.9] > found[0.1] > found[0.0]


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("classify", {"label_smoothing": 1.0}, "label_smoothing=1.0"),
        ("span", {"label_smoothing": 0.1}, "answers are places"),
    ],
)
def test_settings_that_the_head_cannot_follow(
    model: Path, kind: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        fine_tune(model, kind, labels(kind), rows(kind), replace(FAST, **settings))


def test_probabilities_are_those_of_the_answers(tuned: dict[str, tune.TunedModel], model: Path) -> None:
    others, backend = rows("classify", 40), EncoderBackend(model, "pretrained")
    found = backend.probabilities(tuned["classify"], None, others, "en")  # type: ignore[arg-type]
    assert found.shape == (40, 3)
    assert found.sum(1) == pytest.approx(1, abs=1e-5)
    answers = tuned["classify"].predict(others, lang="en")
    assert [tuned["classify"].model.labels[i] for i in found.argmax(1)] == answers


def test_averaging_takes_the_mean_of_the_weights(model: Path) -> None:
    epochs = fine_tune(model, "classify", LABELS, rows("classify"), replace(FAST, epochs=2))
    mean = tune.average_models(epochs).model.state_dict()
    first, second = (made.model.state_dict() for made in epochs)
    for key in mean:
        torch.testing.assert_close(mean[key], (first[key] + second[key]) / 2)
    assert any(not torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_predicts_the_same(
    tuned: dict[str, tune.TunedModel], model: Path, tmp_path: Path, kind: str
) -> None:
    tune.save_tuned(tuned[kind], tmp_path, model, ["ar", "en", "th"])
    again = tune.load_tuned(tmp_path)
    assert (again.model.task.name, again.model.labels, again.max_length) == (kind, labels(kind), 64)
    assert again.predict(rows(kind, 40)) == tuned[kind].predict(rows(kind, 40))


def test_the_learning_rate_rises_and_falls() -> None:
    cfg = TuneConfig(lr=2.0, warmup=0.2)
    assert [learning_rate(cfg.lr, cfg.warmup, step, 10) for step in range(10)] == pytest.approx(
        [1.0, 2.0, 2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25]
    )


def test_an_epoch_takes_every_row_once_in_its_own_order(tuned: dict[str, tune.TunedModel]) -> None:
    examples = [
        [example | {"id": np.array([n])}] for n, example in tuned["classify"].encode(rows("classify", 23))
    ]
    orders = []
    for epoch in (0, 1):
        batches = list(epoch_batches(examples, replace(FAST, batch_rows=5), epoch))
        assert sorted(len(batch) for batch in batches) == [3, 5, 5, 5, 5]
        orders.append([int(example["id"][0]) for batch in batches for example in batch])
        assert sorted(orders[-1]) == list(range(23))
    assert orders[0] != orders[1]


def test_the_alternatives_of_a_row_stay_in_one_batch(tuned: dict[str, tune.TunedModel]) -> None:
    units = tune._training_units(tuned["choice"], rows("choice", 7), "test")
    for batch in epoch_batches(units, replace(FAST, batch_rows=3), 0):
        ids = [int(example["id"][0]) for example in batch]
        assert len(ids) in (2, 6) and all(ids.count(n) == 2 for n in ids)


def test_batches_for_prediction_stay_within_their_budget() -> None:
    lengths = [7, 3, 9, 30, 3, 4]
    batches = list(batches_by_tokens(lengths, 12))
    assert batches == [[1, 4, 5], [0], [2], [3]]


@pytest.mark.parametrize(
    ("change", "train", "message"),
    [
        ({}, [], r"fine-tune: no training rows"),
        ({}, [Row("7", {"tokens": ()}, ())], r"fine-tune: no training rows"),
        ({}, [Row("7", {"tokens": ("a",)}, None)], r"fine-tune: row 7 has no label"),
        ({"epochs": 0}, None, r"epochs=0; valid: a whole number from 1"),
        ({"max_length": 3}, None, r"max_length=3; valid: a whole number from 8"),
        ({"lr": 1e30}, None, r"the loss became .* in fine-tuning; fix: lower the learning rate"),
    ],
)
def test_mistakes_are_user_errors(
    model: Path, change: dict[str, Any], train: list[Row] | None, message: str
) -> None:
    given = rows("tag") if train is None else train
    with pytest.raises(UserError, match=message):
        fine_tune(model, "tag", LABELS, given, replace(FAST, **change))


def test_a_sentence_without_words_does_not_spoil_its_batch(model: Path) -> None:
    train = [Row("empty", {"tokens": ()}, ()), *rows("tag", 3)]
    made = fine_tune(model, "tag", LABELS, train, replace(FAST, epochs=2, batch_rows=1))
    assert all(torch.isfinite(weight).all() for weight in made[-1].model.state_dict().values())


def test_no_checkpoint_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run `xling pretrain` first"):
        fine_tune(tmp_path, "tag", LABELS, rows("tag"), FAST)


def test_no_fine_tuned_model_is_a_user_error(model: Path) -> None:
    with pytest.raises(UserError, match=r"a directory with task.pt; fix: run `xling finetune` first"):
        tune.load_tuned(model)


@pytest.fixture(scope="module")
def spoken(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with language embeddings that are far apart."""
    out = tmp_path_factory.mktemp("spoken")
    plain, langs = model_weights.load_model(model)
    made = EncoderModel(
        replace(plain.cfg, lang_embeddings=True), plain.encoder.tokens.num_embeddings, len(langs)
    )
    torch.manual_seed(1)
    made.load_state_dict(made.state_dict() | plain.state_dict())
    assert made.encoder.langs is not None
    with torch.no_grad():
        made.encoder.langs.weight.normal_(0, 1)
    vocab.copy_vocabulary(model, out)
    model_weights.save_model(out / "model.pt", made, langs, out)
    return out


@dataclass(frozen=True)
class Topics:
    name: str = "topics"
    task: str = "classify"
    labels: tuple[str, ...] = LABELS
    scheme: str = ""


def test_rows_are_read_in_their_own_language(spoken: Path, tmp_path: Path) -> None:
    system, asked = EncoderBackend(spoken, "pretrained"), rows("classify", 9)
    (tuned,) = system.fit(Topics(), asked, asked, "en", FitConfig(epochs=1, max_length=64))

    def ids(lang: str) -> set[int]:
        seen: set[int] = set()
        embeddings = tuned.model.encoder.langs
        assert embeddings is not None
        hook = embeddings.register_forward_pre_hook(lambda module, args: seen.update(args[0].tolist()))
        system.predict(tuned, Topics(), asked, lang)
        hook.remove()
        return seen

    assert [ids(lang) for lang in ("ar", "en", "th", "sw")] == [{0}, {1}, {2}, {1}]
    assert tuned.predict(asked) == tuned.predict(asked, lang="en")
    (in_thai,) = fine_tune(spoken, "classify", LABELS, asked, replace(FAST, epochs=1), "th")
    tune.save_tuned(in_thai, tmp_path, spoken, ["ar", "en", "th"])
    again = tune.load_tuned(tmp_path)
    assert (again.lang, tune.load_tuned(tmp_path, "ar").lang, tune.load_tuned(tmp_path, "sw").lang) == (
        2,
        0,
        2,
    )
    assert again.predict(asked, lang="ar") == in_thai.predict(asked, lang="ar")


def test_a_model_fine_tuned_before_has_the_language_it_always_had(model: Path, tmp_path: Path) -> None:
    (made,) = fine_tune(model, "classify", LABELS, rows("classify"), replace(FAST, epochs=1), "th")
    tune.save_tuned(made, tmp_path, model, ["ar", "en", "th"])
    state = torch.load(tmp_path / TASK_FILE, weights_only=True)
    del state["lang"]
    state["shape"]["compile"] = False  # a setting of those days
    torch.save(state, tmp_path / TASK_FILE)
    assert tune.load_tuned(tmp_path).lang == 1


def test_probabilities_of_a_teacher_are_learned_in_place_of_labels(model: Path) -> None:
    train, others = rows("classify"), rows("classify", 40)
    once = replace(FAST, epochs=2)

    def weights(given: list[Row]) -> list[torch.Tensor]:
        return list(fine_tune(model, "classify", LABELS, given, once)[-1].model.state_dict().values())

    def soft(row: Row, shares: dict[str, float]) -> Row:
        return replace(row, fields={**row.fields, "probabilities": shares})

    certain = [soft(row, {row.label: 1.0}) for row in train]
    some = [soft(row, {row.label: 1.0}) if number % 2 else row for number, row in enumerate(train)]
    for given in (certain, some):
        for one, other in zip(weights(train), weights(given), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    even = [soft(row, dict.fromkeys(LABELS, 1 / len(LABELS))) for row in train]
    unsure = fine_tune(model, "classify", LABELS, even, FAST)[-1]
    scores = np.stack([parts[0][1][0] for parts in unsure.scores(others)])
    spread = scores.max(1) - scores.min(1)
    assert spread.max() < 0.2, "all classes are as likely as another"
    with pytest.raises(UserError, match="unknown label 'nothing'"):
        fine_tune(model, "classify", LABELS, [soft(train[0], {"nothing": 1.0})], once)
