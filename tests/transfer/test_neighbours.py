"""``fit.text_features=neighbours``: a head on fixed sentence vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_tune import LABELS, Row, rows

from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.hub.unsupported_parts import check_hf
from xling.models.files import model_weights
from xling.static.heads import MAX_VOTERS
from xling.transfer import tune
from xling.transfer.encode import PROBABILITIES_FIELD
from xling.transfer.neighbours import VOTE_SHARPNESS, VOTE_WEIGHT, NeighbourHead, mean_states
from xling.transfer.settings import TuneConfig

DIM = 8
SETTINGS = TuneConfig(text_features="neighbours", max_length=64, precision="fp32")


def texts_of(lang: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of a language, far from those of others, with three classes as directions in each; and the classes."""
    draw = rng("neighbours", lang)
    classes = np.arange(count) % 3
    noise = draw.normal(scale=0.1, size=(count, DIM))
    vectors = noise + np.eye(DIM)[classes] + 2 * np.eye(DIM)[3 + lang]
    return vectors.astype(np.float32), classes


def fitted(vectors: np.ndarray, classes: np.ndarray) -> NeighbourHead:
    head = NeighbourHead(DIM, 3)
    head.fit(vectors, np.eye(3, dtype=np.float32)[classes], [False] * len(classes), seed=1)
    return head.requires_grad_(False)


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def test_labels_are_carried_over_the_offset_of_a_language() -> None:
    head = fitted(*texts_of(0, 30))
    others, classes = texts_of(1, 60)
    assert (head.answer(others).argmax(1) == classes).all()
    order = rng("order", 1).permutation(60)
    np.testing.assert_allclose(head.answer(others[order]), head.answer(others)[order], atol=1e-4)


def test_scores_are_those_of_the_definition() -> None:
    train, classes = texts_of(0, 30)
    others = texts_of(1, 25)[0]
    head = fitted(train, classes)
    voters = unit(unit(train) - unit(train).mean(0))
    centred = unit(others) - unit(others).mean(0)
    similarities = unit(centred) @ voters.T
    shifted = np.exp(VOTE_SHARPNESS * (similarities - similarities.mean(0)))
    votes = np.log(np.stack([shifted[:, classes == k].sum(1) for k in range(3)], 1))
    expected = centred @ head.weight.numpy().T + head.bias.numpy() + VOTE_WEIGHT * (votes - votes.mean(0))
    np.testing.assert_allclose(head.answer(others), expected, atol=1e-4)


def test_few_texts_get_no_votes_and_the_mean_of_the_labelled_ones() -> None:
    train, classes = texts_of(0, 30)
    head = fitted(train, classes)
    few = texts_of(0, 60)[0][40:45]
    expected = (unit(few) - unit(train).mean(0)) @ head.weight.numpy().T + head.bias.numpy()
    np.testing.assert_allclose(head.answer(few), expected, atol=1e-5)
    assert (head.answer(few).argmax(1) == np.arange(40, 45) % 3).all()


def test_a_teachers_rows_are_centred_apart_and_vote_by_their_probabilities() -> None:
    (first, classes), (second, others) = texts_of(0, 30), texts_of(1, 30)
    shares = np.eye(3, dtype=np.float32)[np.concatenate([classes, others])]
    shares[30:] = 0.8 * shares[30:] + 0.2 / 3
    head = NeighbourHead(DIM, 3)
    head.fit(np.concatenate([first, second]), shares, [False] * 30 + [True] * 30, seed=1)
    np.testing.assert_allclose(head.voters[30:], unit(unit(second) - unit(second).mean(0)), atol=1e-5)
    np.testing.assert_allclose(head.mean, unit(first).mean(0), atol=1e-6)
    np.testing.assert_array_equal(head.shares[30:], shares[30:])
    assert (head.requires_grad_(False).answer(texts_of(2, 30)[0]).argmax(1) == np.arange(30) % 3).all()


def test_only_so_many_texts_vote() -> None:
    head = fitted(*texts_of(0, MAX_VOTERS + 3))
    assert head.voters.shape == (MAX_VOTERS, DIM) and head.shares.shape == (MAX_VOTERS, 3)


def test_means_leave_out_the_specials() -> None:
    hidden = torch.tensor([[9.0], [1.0], [3.0], [9.0], [9.0], [5.0], [7.0], [9.0], [4.0], [6.0]])
    assert mean_states(hidden, [(2, 4), (1, 2)]).tolist() == [[2.0], [6.0], [5.0]]


def test_the_encoder_stays_and_the_saved_model_answers_the_same(model: Path, tmp_path: Path) -> None:
    train, others = rows("classify"), rows("classify", 40)
    (made,) = fine_tune(model, "classify", LABELS, train, SETTINGS)
    before = model_weights.load_body(model)[0].encoder.state_dict()
    for name, weight in made.model.encoder.state_dict().items():
        assert torch.equal(weight, before[name]), name
    assert [made.predict([row])[0] for row in train] == made.predict(train), (
        "few texts do not depend on each other"
    )
    tune.save_tuned(made, tmp_path, model, ["ar", "en", "th"])
    again = tune.load_tuned(tmp_path)
    assert (
        again.model.classifier.voters.shape
        == made.model.classifier.voters.shape
        == (10, made.model.encoder.cfg.dim)
    )
    for first, second in zip(made.scores(others), again.scores(others), strict=True):
        np.testing.assert_array_equal(first[0][1], second[0][1])
    assert made.predict([]) == []
    with pytest.raises(UserError, match="the neighbours features"):
        check_hf(tmp_path)


def test_probabilities_of_a_teacher_are_read_from_rows(model: Path) -> None:
    train = rows("classify", 30)
    soft = [
        Row(each.id, each.fields | {PROBABILITIES_FIELD: {"no": 0.25, "yes": 0.75}}, "yes")
        for each in train[:5]
    ]
    (made,) = fine_tune(model, "classify", LABELS, [*train, *soft], SETTINGS)
    np.testing.assert_allclose(made.model.classifier.shares[30:], [[0.25, 0.75, 0.0]] * 5)


def test_what_it_cannot_do_is_refused(model: Path) -> None:
    train = rows("classify")
    tasks = [tune.TaskRows("classify", LABELS, train), tune.TaskRows("pair", LABELS, rows("pair"))]
    with pytest.raises(UserError, match="neighbours with a head for each of 2 suites"):
        tune.fine_tune_jointly(model, tasks, SETTINGS)
    with pytest.raises(UserError, match=r"fit\.layers=mix with fit.text_features=neighbours"):
        fine_tune(model, "classify", LABELS, train, TuneConfig(text_features="neighbours", layers="mix"))
    with pytest.raises(UserError, match="no training rows"):
        fine_tune(model, "classify", LABELS, [], SETTINGS)
