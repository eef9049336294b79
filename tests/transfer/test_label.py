"""Labels of a teacher for a student: ``xling label`` with a static encoder, and what learns its probabilities."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from static_helpers import by_hand, classified, labels_of, share_right, system

from xling.core.errors import UserError
from xling.eval.controls.majority_ngrams import NgramControl
from xling.eval.rows.suite import Example, load, suites
from xling.eval.run import label
from xling.eval.systems import FitConfig
from xling.static.heads import VOTE_SHARPNESS
from xling.static.matching import match_all
from xling.transfer.static_system import SOFT_VOTE_WEIGHTS, VOTE_WEIGHTS


@pytest.fixture(scope="module")
def ckpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return by_hand(tmp_path_factory.mktemp("static") / "model")


def topics_of(rows: list[Example]) -> list[Example]:
    """Rows with classes of SIB-200, low as politics and high as sports."""
    return [replace(row, label={"low": "politics", "high": "sports"}[row.label]) for row in rows]


def written(folder: Path, name: str, rows: list[Example]) -> None:
    """Rows of SIB-200 in the format that every suite is read from."""
    folder.joinpath("rows/sib200").mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": r.id, "fields": r.fields, "label": r.label}) for r in topics_of(rows)]
    folder.joinpath("rows/sib200", name).write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """English rows and German ones, whose training labels are all wrong, and a text of German lines."""
    folder = tmp_path_factory.mktemp("data")
    written(folder, "en.train.jsonl", classified("xz", 400, 1))
    written(folder, "en.dev.jsonl", classified("xz", 50, 2))
    swapped = {"low": "high", "high": "low"}
    german = [replace(row, label=swapped[row.label]) for row in classified("qw", 100, 3)]
    written(folder, "de.train.jsonl", german)
    written(folder, "de.dev.jsonl", classified("qw", 40, 4))
    written(folder, "de.test.jsonl", classified("qw", 40, 5))
    scored = classified("qw", 40, 4) + classified("qw", 40, 5)  # none of them may be labelled
    lines = [row.fields["text"] for row in classified("qw", 200, 6) + scored]
    folder.joinpath("text.txt").write_text("\n".join([*lines, "short"]) + "\n")
    return folder


def labelled_by(ckpt: Path, data: Path, out: Path, **settings: Any) -> Any:
    given = {"lang": "de", "text": (str(data / "text.txt"),), "per_class": 30, **settings}
    return label.run(label.LabelConfig("sib200", ckpt, out=out, data=data, **given))


def test_a_teacher_labels_rows_and_text(ckpt: Path, data: Path, tmp_path: Path) -> None:
    made = labelled_by(ckpt, data, tmp_path / "out")
    suite = suites()["sib200"]
    train, dev, test = (load(suite, "de", split, tmp_path / "out") for split in ("train", "dev", "test"))
    assert made.counts["gold_accuracy"] < 20, "the labels at hand are wrong, and must not be read"
    assert test == load(suite, "de", "test", data)
    right = {row.id: row.label for row in load(suite, "de", "dev", data)}
    assert np.mean([row.label == right[row.id] for row in dev]) > 0.8
    more = [row for row in train if row.id.startswith("text/")]
    assert len(train) - len(more) == 100 and len(more) == made.counts["of_text"] == 60
    assert not {row.fields["text"] for row in more} & {row.fields["text"] for row in (*dev, *test)}
    topics = {"low": "politics", "high": "sports"}
    truth = {row.fields["text"]: topics[row.label] for row in classified("qw", 200, 6)}
    sure = np.mean([row.label == truth[row.fields["text"]] for row in more])
    assert sure >= np.mean([row.label == right[row.id] for row in dev]), (
        "the surest lines are right more often"
    )
    texts = (tmp_path / "out/text.txt").read_text().splitlines()
    assert texts == [row.fields["text"] for row in load(suite, "de", "train", data)]


def test_with_folds_no_teacher_has_learned_the_translation_of_what_it_labels(
    ckpt: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []
    labelled: dict[str, set[str]] = {}

    class Teacher(label._Teacher):
        def __init__(self, cfg: Any, suite: Any, system: Any, train: Any, dev: Any) -> None:
            super().__init__(cfg, suite, system, train, dev)
            self.learned = {row.id for row in train}
            seen.append(self.learned)

        def probabilities(self, rows: Any) -> Any:
            for row in rows:
                labelled.setdefault(row.id, self.learned)
            return super().probabilities(rows)

    monkeypatch.setattr(label, "_Teacher", Teacher)
    made = labelled_by(ckpt, data, tmp_path / "out", folds=3)
    german = load(suites()["sib200"], "de", "train", data)
    assert len(seen) == 4 and set.union(*seen[1:]) == seen[0], (
        "all rows but those that are held out to choose"
    )
    common = [row.id for row in german if row.id in seen[0]]
    assert common and all(row_id not in labelled[row_id] for row_id in common)
    train = load(suites()["sib200"], "de", "train", tmp_path / "out")
    assert [row.id for row in train[: len(german)]] == [row.id for row in german]
    assert made.counts["gold_accuracy"] < 20


def test_soft_labels_are_learned_in_place_of_hard_ones(ckpt: Path, data: Path, tmp_path: Path) -> None:
    labelled_by(ckpt, data, tmp_path / "hard")
    labelled_by(ckpt, data, tmp_path / "soft", soft=True)
    suite = suites()["sib200"]
    hard, soft = (load(suite, "de", "train", tmp_path / name) for name in ("hard", "soft"))
    assert labels_of(soft) == labels_of(hard)
    assert all(row.fields["text"] == other.fields["text"] for row, other in zip(hard, soft, strict=True))
    for row in soft:
        shares = row.fields["probabilities"]
        assert max(shares, key=shares.__getitem__) == row.label and sum(shares.values()) == pytest.approx(
            1, abs=1e-3
        )
    dev = load(suite, "de", "dev", tmp_path / "soft")
    assert all("probabilities" not in row.fields for row in dev), "a checkpoint is chosen by labels"
    turned = [replace(row, label="sports" if row.label == "politics" else "politics") for row in soft]
    for name in ("pretrained", "ngram"):
        backend = system(ckpt, name) if name == "pretrained" else NgramControl()
        answers = [
            backend.predict(backend.fit(suite, train, [], "de", FitConfig())[-1], suite, dev, "de")
            for train in (soft, turned, hard)
        ]
        assert answers[0] == answers[1], "only the probabilities count"
        assert share_right(answers[0], answers[2]) > 0.7


def test_voters_of_certain_probabilities_vote_as_those_with_labels(
    ckpt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite, train, others = (
        suites()["sib200"],
        topics_of(classified("xz", 80, 1)),
        topics_of(classified("qw", 40, 2)),
    )
    certain = [replace(row, fields={**row.fields, "probabilities": {row.label: 1.0}}) for row in train]
    backend = system(ckpt, "pretrained")
    monkeypatch.setattr("xling.transfer.static_system.SOFT_VOTE_WEIGHTS", VOTE_WEIGHTS)
    hard, soft = (backend.fit(suite, rows, [], "en", FitConfig()) for rows in (train, certain))
    for one, other in zip(hard, soft, strict=True):
        found, same = (backend.probabilities(each, suite, others, "de") for each in (one, other))
        known = [suite.labels.index(name) for name in ("politics", "sports")]
        assert np.abs(found[:, known] - same[:, known]).max() < 1e-3


def test_labels_of_the_source_and_of_a_teacher_are_learned_together(
    ckpt: Path, data: Path, tmp_path: Path
) -> None:
    labelled_by(ckpt, data, tmp_path / "out", soft=True)
    suite = suites()["sib200"]
    for split in ("train", "dev"):
        assert load(suite, "en", split, tmp_path / "out") == load(suite, "en", split, data)
    english, german = (load(suite, lang, "train", tmp_path / "out") for lang in ("en", "de"))
    others = load(suite, "de", "test", data)
    backend = system(ckpt, "pretrained")
    both = backend.fit(suite, english + german, [], "en", FitConfig())[-1]
    mixed = backend.fit(suite, [*german[::2], *english, *german[1::2]], [], "en", FitConfig())[-1]
    assert both.weight == mixed.weight == SOFT_VOTE_WEIGHTS[-1]
    found, same = (backend.probabilities(each, suite, others, "de") for each in (both, mixed))
    np.testing.assert_allclose(found, same, atol=1e-3)
    texts = [row.fields["text"] for row in others]
    near = match_all(backend.encoder, texts, both.texts)
    near = VOTE_SHARPNESS * (near - near.mean(0))
    soft = torch.tensor([bool(share) for share in both.shares])
    assert int(soft.sum()) == len(german)
    place = suite.labels.index("sports")
    mine = torch.tensor([name == "sports" for name in both.classes]) & ~soft
    shares = torch.tensor([share[place] for share in both.shares if share])
    apart = [near[:, mine].logsumexp(1), (near[:, soft] + shares.log().clamp_min(-1e4)).logsumexp(1)]
    wanted = sum(side - side.mean() for side in apart)
    torch.testing.assert_close(both.log_votes(texts)[:, place], wanted, rtol=1e-3, atol=1e-3)
    right = [row.label for row in others]
    assert share_right(backend.classes(both, texts), right) > 0.8


def test_a_rerun_keeps_the_labels_and_other_labels_at_hand_change_nothing(
    ckpt: Path, data: Path, tmp_path: Path
) -> None:
    path = tmp_path / "out/rows/sib200/de.train.jsonl"
    labelled_by(ckpt, data, tmp_path / "out")
    rows, made_at = path.read_text(), path.stat().st_mtime_ns
    labelled_by(ckpt, data, tmp_path / "out")
    assert path.stat().st_mtime_ns == made_at
    shutil.copytree(data, tmp_path / "data")
    written(tmp_path / "data", "de.train.jsonl", classified("qw", 100, 3))
    labelled_by(ckpt, tmp_path / "data", tmp_path / "other")
    assert (tmp_path / "other/rows/sib200/de.train.jsonl").read_text() == rows


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lang": "en"}, "source=en"),
        ({"lang": "fr"}, "no train rows in 'fr'|no test rows in 'fr'"),
        ({"per_class": 0}, "per_class=0"),
        ({"folds": 0}, "folds=0; valid: a whole number from 1; fix: folds=1 is one teacher"),
        ({"text": ("nowhere/*.txt",)}, "nothing to read"),
    ],
)
def test_mistakes_in_labelling(
    ckpt: Path, data: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        labelled_by(ckpt, data, tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


def test_only_texts_with_one_class_are_labelled(ckpt: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has pair rows"):
        label.run(label.LabelConfig("xnli", ckpt, "de", tmp_path / "out", data))
