"""The system ``joined``: an encoder with ``model.features`` and its static encoder answer together."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from static_helpers import Shape, by_hand, classified, labels_of, share_right, system, tagged, texts

import xling
from xling import cli
from xling.core.errors import UserError
from xling.core.settings import config
from xling.eval.rows.suite import suites
from xling.eval.run import unused
from xling.eval.run.settings import EvalConfig
from xling.eval.systems import FitConfig, build
from xling.training.settings import PretrainConfig
from xling.training.train import run as pretrain
from xling.transfer import tune
from xling.transfer.backend import STATIC_SHARE, EncoderBackend, load_tuned
from xling.transfer.joined import no_surer_than

FIT = FitConfig(epochs=2, lr=1e-3)


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return by_hand(tmp_path_factory.mktemp("static") / "encoder")


@pytest.fixture(scope="module")
def taught(
    static: Path, shards: Path, model: Path, tiny: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("joined") / "model"
    words = [
        *tiny,
        f"data={shards}",
        f"out={out}",
        f"init={model}",
        f"model.features={static}",
        "train.updates=2",
    ]
    pretrain(
        config.load(PretrainConfig, overrides=[*words, f"freeze_pieces={model}", "train.weight_decay=0"])
    )
    return out


def cosines(vectors: np.ndarray) -> np.ndarray:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)


def test_a_cosine_is_the_weighted_mean_of_those_of_both(taught: Path, static: Path) -> None:
    rows, _ = texts("xz", 12, 1)
    joined, alone, by_static = (
        cosines(system(folder, name).embed(rows, "en", -1, "mean"))
        for folder, name in ((taught, "joined"), (taught, "pretrained"), (static, "pretrained"))
    )
    assert np.abs(alone - by_static).max() > 0.1
    np.testing.assert_allclose(joined, (1 - STATIC_SHARE) * alone + STATIC_SHARE * by_static, atol=1e-5)


def entropy(log_probabilities: torch.Tensor) -> float:
    return float(-(log_probabilities.exp() * log_probabilities).sum(1).mean())


def test_the_class_is_that_of_the_largest_sum(taught: Path) -> None:
    suite = Shape("s", "classify", ("low", "high"))
    train, dev, other = classified("xz", 200, 1), classified("xz", 60, 3), classified("qw", 100, 2)
    backend = system(taught, "joined")
    heads = backend.fit(suite, train, dev, "en", FIT)
    assert len(heads) == FIT.epochs
    found = backend.predict(heads[-1], suite, other, "de")

    logits = torch.tensor(
        np.stack([scores[0] for ((_, scores),) in heads[-1].tuned.scores(other, lang="de")])
    )
    shares = torch.from_numpy(
        system(Path(backend._static.ckpt)).probabilities(heads[-1].static.head, suite, other, "de")
    )
    surer = torch.log_softmax(logits, -1)  # or less sure, as it is here: then its temperature is 1
    target = entropy(shares.log())
    temperature = min(
        np.arange(1, 40, 0.01), key=lambda t: abs(entropy((surer / t).log_softmax(-1)) - target)
    )
    both = (surer / temperature).log_softmax(-1) + shares.log()
    clear = (both[:, 0] - both[:, 1]).abs() > 0.01
    wanted = [suite.labels[i] for i in both.argmax(1).tolist()]
    assert clear.sum() > 90 and not [1 for a, b, c in zip(found, wanted, clear, strict=True) if c and a != b]
    # The words of the other language have the vectors of those of the training rows, but other pieces.
    by_encoder = [suite.labels[i] for i in logits.argmax(1).tolist()]
    assert share_right(found, labels_of(other)) > max(0.8, share_right(by_encoder, labels_of(other)))


def test_tags_are_a_sequence_that_iob2_allows(taught: Path) -> None:
    suite = Shape("s", "tag", ("X",), "IOB2")
    train, dev, other = tagged("xz", 120, 1), tagged("xz", 40, 3), tagged("qw", 40, 2)
    backend = system(taught, "joined")
    heads = backend.fit(suite, train, dev, "en", FitConfig(epochs=20, lr=1e-3))
    found = backend.predict(heads[-1], suite, other, "de")
    assert [len(tags) for tags in found] == [len(row.label) for row in other]
    assert not [
        1
        for tags in found
        for before, tag in zip(["O", *tags], tags, strict=False)
        if (before, tag) == ("O", "I-X")
    ]
    alone = heads[-1].tuned.predict(other, lang="de")
    assert share_right([*map(tuple, found)], labels_of(other)) > 0.15 + share_right(alone, labels_of(other))
    assert backend.average(heads).labels == heads[0].labels


def test_the_encoder_is_fine_tuned_once_for_both_systems(
    taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles: list[str] = []

    def counted(*args: Any, **more: Any) -> Any:
        titles.append(more.get("title", args[5] if len(args) > 5 else ""))
        return fine_tune(*args, **more)

    fine_tune = tune.fine_tune_jointly
    monkeypatch.setattr(tune, "fine_tune_jointly", counted)
    tags = {"train": "en", "test": "de"}
    for split, lang in tags.items():
        rows = tagged("xz", 12, 1)
        lines = [
            "\n".join(f"{word}\t{tag}" for word, tag in zip(row.fields["tokens"], row.label, strict=True))
            for row in rows
        ]
        (tmp_path / f"{split}.{lang}.tsv").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    words = [
        "eval",
        "tags",
        *(f"{split}.{lang}={tmp_path}/{split}.{lang}.tsv" for split, lang in tags.items()),
    ]
    words += [f"checkpoint={taught}", "seeds=1,2", "fit.epochs=1", "fit.lr=1e-3"]
    answers = {}
    for systems, trainings in (
        ("pretrained,joined,random", 4),
        ("pretrained", 2),
        ("joined", 2),
        ("random", 2),
    ):
        titles.clear()
        assert cli.main([*words, f"systems={systems}", f"out={tmp_path / systems}"]) == 0
        assert len(titles) == trainings, titles
        answers[systems] = {
            path.relative_to(tmp_path / systems): path.read_bytes()
            for path in sorted((tmp_path / systems / "predictions").rglob("*.parquet"))
        }
    together = answers.pop("pretrained,joined,random")
    assert together == {path: each for of_one in answers.values() for path, each in of_one.items()}


def test_a_surer_model_is_softened_and_a_less_sure_one_stays() -> None:
    rng = np.random.default_rng(1)
    one = [torch.from_numpy(rng.normal(0, 1, (n, 4))).log_softmax(-1).numpy() for n in (1, 3, 2, 1)]
    surer = [torch.from_numpy(5 * each).log_softmax(-1).numpy() for each in one]
    for found, other, wanted, sure in zip(
        no_surer_than(one, surer), no_surer_than(surer, one), one, surer, strict=True
    ):
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        np.testing.assert_allclose(other, wanted, atol=1e-9)
        assert np.abs(found - sure).max() > 0.1
    assert no_surer_than([], []) == []
    even = [np.log(np.array([[0.5, 0.5]]))]
    (found,) = no_surer_than(even, [np.array([[0.0, -np.inf]])])
    assert np.isfinite(found).all() and found.argmax() == 0


@pytest.mark.parametrize(
    ("name", "settings", "folder", "said"),
    [
        ("sib200", {}, "model", "model.features="),
        ("sib200", {}, "static", "model.features="),
        ("xquad", {}, "taught", "suites of classes, pairs, tags or nearest texts"),
        ("xsid", {}, "taught", "suites of classes, pairs, tags or nearest texts"),
        ("tatoeba", {"pooling": "cls"}, "taught", "layer=-1 pooling=mean"),
        ("tatoeba", {"layer": 1}, "taught", "layer=-1 pooling=mean"),
    ],
)
def test_what_it_cannot_answer_is_refused_before_a_training(
    name: str, settings: dict[str, Any], folder: str, said: str, request: pytest.FixtureRequest
) -> None:
    checkpoint = request.getfixturevalue(folder)
    cfg = EvalConfig((name,), Path("unused"), checkpoint=checkpoint, systems=("joined",), **settings)
    with pytest.raises(UserError) as error:
        unused.check(cfg, [suites()[name]])
    assert said in str(error.value)


def test_joined_vectors_from_python(taught: Path, static: Path) -> None:
    rows, _ = texts("xz", 5, 2)
    vectors = xling.load(taught).encode(rows, pooling="joined")
    assert np.array_equal(vectors, system(taught, "joined").embed(rows, "en", -1, "mean"))
    assert (
        vectors.shape[1]
        == xling.load(taught).encode(rows).shape[1] + xling.load(static).encode(rows).shape[1]
    )
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_joined_vectors_of_a_model_without_features_are_refused(model: Path) -> None:
    with pytest.raises(UserError, match=r"model\.features="):
        xling.load(model).encode(["the house"], pooling="joined")
    cfg = EvalConfig(
        ("tatoeba",), Path("unused"), checkpoint=model, systems=("pretrained",), pooling="joined"
    )
    with pytest.raises(UserError, match=r"model\.features="):
        unused.check(cfg, [suites()["tatoeba"]])


@pytest.fixture(scope="module")
def labeller(taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("labeller") / "topics"
    rows = [{"text": row.fields["text"], "label": row.label} for row in classified("xz", 200, 1)]
    xling.load(taught).finetune(out, rows=rows, joined=True, fit={"epochs": 2, "lr": 1e-3})
    return out


def test_a_fine_tuned_model_keeps_both_heads(labeller: Path) -> None:
    other = classified("qw", 100, 2)
    found = xling.load(labeller).predict([row.fields["text"] for row in other], lang="de")
    alone = tune.load_tuned(labeller)
    assert share_right(found, labels_of(other)) > max(
        0.8, share_right(alone.predict(other), labels_of(other))
    )

    suite = Shape("own", "classify", ("high", "low"))
    evaluated = system(labeller)
    (ready,) = evaluated.fit(suite, [], [], "en", FIT)
    assert not evaluated.seeded and evaluated.predict(ready, suite, other, "de") == found
    assert evaluated.digest != EncoderBackend(labeller, "pretrained").digest


def test_formats_that_would_lose_a_head_refuse_it(labeller: Path, taught: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for command in (
        ["export", "hf", str(labeller), f"out={out}"],
        ["swap", f"task={labeller}", f"embeddings={taught}", f"out={out}"],
        ["quantize", str(labeller), f"out={out}"],
    ):
        assert cli.main(command) == 2, command
        assert not out.exists(), command


def test_a_damaged_model_is_refused(labeller: Path, tmp_path: Path) -> None:
    cut, mixed = (shutil.copytree(labeller, tmp_path / name) for name in ("cut", "mixed"))
    shutil.rmtree(cut / "static")
    with pytest.raises(UserError):
        load_tuned(cut)
    facts = json.loads((mixed / "static/task.json").read_text())
    (mixed / "static/task.json").write_text(json.dumps(facts | {"labels": ["low", "high"]}))
    with pytest.raises(UserError, match="as recorded"):
        load_tuned(mixed)
    (mixed / "manifest.json").unlink()
    with pytest.raises(UserError, match="not of one fine-tuning"):
        load_tuned(mixed)


def test_joined_true_is_refused_before_a_training(model: Path, taught: Path, tmp_path: Path) -> None:
    file = tmp_path / "en.train.conll"
    file.write_text("the\tO\nsea\tB-X\n\n" * 20)
    words = ["finetune", f"tags={file}", "joined=true", f"out={tmp_path / 'out'}"]
    assert cli.main([*words, f"checkpoint={model}"]) == 2
    assert (
        cli.main(["finetune", "sib200,xnli", f"checkpoint={taught}", "joined=true", f"out={tmp_path}/out"])
        == 2
    )


def test_words_are_matched_by_the_static_encoder(taught: Path, static: Path) -> None:
    (src, _), (tgt, _) = texts("xz", 6, 1), texts("qw", 6, 1)
    candidates = np.tile(np.arange(6), (6, 1))
    found = system(taught, "joined").matched(src, tgt, candidates)
    assert np.array_equal(found, system(static).matched(src, tgt, candidates))
    assert (found.argmax(1) == np.arange(6)).all()


def test_answers_in_int8_are_those_of_the_quantised_model(taught: Path) -> None:
    suite = Shape("s", "classify", ("low", "high"))
    train, other = classified("xz", 60, 1), classified("qw", 40, 2)
    cfg = EvalConfig(("sib200",), Path("unused"), checkpoint=taught, int8=True)
    backend = build("joined", cfg)
    (heads, _) = backend.fit(suite, train, train, "en", FIT)
    in_int8 = replace(heads, tuned=build("pretrained", cfg).in_int8(heads.tuned))
    scores, whole = (each.tuned.scores(other)[0][0][1] for each in (in_int8, heads))
    assert not np.array_equal(scores, whole)
    assert backend._encoder._int8_copy is None
    assert backend.predict(heads, suite, other, "de") == in_int8.predict(other, "de")
    assert backend._encoder._int8_copy[0] is heads.tuned


def test_embeddings_and_adapters_of_models_with_features_are_not_swapped(
    taught: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plain rows would take the place of mixed words without a word."""
    rows = [{"text": row.fields["text"], "label": row.label} for row in classified("xz", 40, 1)]
    alone, plain = tmp_path / "alone", tmp_path / "plain"
    for checkpoint, out in ((taught, alone), (model, plain)):
        xling.load(checkpoint).finetune(out, rows=rows, fit={"epochs": 1})
    for task, source in ((alone, model), (plain, taught)):
        for what in ("embeddings", "adapters"):
            capsys.readouterr()
            assert cli.main(["swap", f"task={task}", f"{what}={source}", f"out={tmp_path / 'out'}"]) == 2
            assert "has model.features=" in capsys.readouterr().err
            assert not (tmp_path / "out").exists()
