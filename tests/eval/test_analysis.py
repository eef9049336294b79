"""What layers share between languages: measures whose answer is known, and the command on a tiny model."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transfer.test_tune import FAST, labels
from tests.transfer.test_tune import rows as rows_of
from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.eval.analysis import measures, run
from xling.eval.analysis.run import AlignedTexts, AnalyseConfig
from xling.eval.report import stage, why
from xling.eval.report.stage import ReportConfig
from xling.eval.rows.suite import Example
from xling.static import encoder_files
from xling.static.shape import StaticConfig
from xling.text.words.features import split_tokens, word_features
from xling.transfer import tune
from xling.transfer.backend import EncoderBackend

LABELS = ("health", "sports", "travel")
DRAW = np.random.default_rng(1)


def test_cka_knows_no_rotation_and_no_scale() -> None:
    a = DRAW.normal(size=(200, 8))
    turned = 3 * a @ np.linalg.qr(DRAW.normal(size=(8, 8)))[0] + 5
    assert measures.linear_cka(a, turned) == pytest.approx(1)
    assert measures.linear_cka(a, DRAW.normal(size=(200, 8))) < 0.2
    assert measures.linear_cka(a, np.ones((200, 3))) == 0
    # By the definition with Gram matrices (HSIC).
    b = DRAW.normal(size=(200, 5)) + a[:, :5]
    centre = np.eye(200) - 1 / 200
    k, m = (centre @ x @ x.T @ centre for x in (a, b))
    assert measures.linear_cka(a, b) == pytest.approx((k * m).sum() / np.sqrt((k * k).sum() * (m * m).sum()))


def test_a_probe_finds_what_is_there_and_control_tasks_say_what_is_learned_by_heart() -> None:
    labels = DRAW.integers(3, size=400)
    vectors = np.eye(3)[labels] + DRAW.normal(scale=0.3, size=(400, 3))
    answers = measures.probe(vectors[:200], labels[:200], vectors[200:])
    assert (answers == labels[200:]).mean() > 0.9
    texts = [f"text {i}" for i in range(400)]
    control = measures.control_labels(texts, labels)
    assert control.tolist() == measures.control_labels(texts, labels).tolist()
    assert np.bincount(control).min() > 100
    rare = measures.control_labels(texts, np.arange(400) // 360)
    assert rare.mean() == pytest.approx(0.1, abs=0.05), "as frequent as the classes"
    answers = measures.probe(vectors[:200], control[:200], vectors[200:])
    assert (answers == control[200:]).mean() < 0.5


def test_the_mean_of_a_language_is_all_that_names_it() -> None:
    same = DRAW.normal(size=(100, 16))
    apart = {lang: same + 4 * np.eye(16)[i] for i, lang in enumerate(("de", "en", "sw"))}
    assert measures.language_identity(apart, centred=False) > 0.95
    assert measures.language_identity(apart, centred=True) < 0.5


def test_units_that_stand_out_are_those_of_a_language() -> None:
    vectors = DRAW.normal(size=(50, 40))
    vectors[:, 7] += 5
    vectors[:, 9] -= 5
    assert measures.strongest_units(vectors, np.zeros(40)) == {7, 9}
    assert measures.jaccard({7, 9}, {9, 11}) == pytest.approx(1 / 3)
    assert measures.jaccard(set(), set()) == 0


def test_the_calibration_error_is_the_distance_of_confidence_and_accuracy() -> None:
    sure = np.array([[0.95, 0.05]] * 10)
    assert measures.calibration_error(sure, np.zeros(10, dtype=np.int64)) == pytest.approx(0.05)
    half = np.array([0, 1] * 5)
    assert measures.calibration_error(sure, half) == pytest.approx(0.45)
    # By the definition, bin by bin.
    given = DRAW.dirichlet([1, 1, 1], size=500)
    labels = DRAW.integers(3, size=500)
    wanted = 0.0
    for low in np.arange(10) / 10:
        inside = (given.max(axis=1) >= low) & (given.max(axis=1) < low + 0.1)
        if inside.any():
            right = (given.argmax(axis=1) == labels)[inside].mean()
            wanted += inside.mean() * abs(right - given.max(axis=1)[inside].mean())
    assert measures.calibration_error(given, labels) == pytest.approx(wanted)
    assert measures.calibration_error(np.ones((4, 1)), np.zeros(4, dtype=np.int64)) == 0, (
        "full confidence is in a bin"
    )


def test_a_classifier_is_calibrated_where_it_learned_and_not_where_the_vectors_are_others() -> None:
    names = [LABELS[i % 3] for i in range(600)]
    texts = AlignedTexts("de", [f"a {i}" for i in range(600)], [f"b {i}" for i in range(600)], names)
    vectors = np.eye(3)[np.arange(600) % 3] + DRAW.normal(scale=0.7, size=(600, 3))
    turned = vectors[:, [1, 2, 0]]
    alike, other = (run._miscalibration(texts, own, vectors, {}) for own in (vectors, turned))
    assert alike < 0.1 < 0.4 < other
    once: dict[tuple[str, ...], Any] = {}
    assert run._miscalibration(texts, turned, vectors, once) == other
    assert len(once) == 1 and run._miscalibration(texts, turned, turned * np.nan, once) == other, (
        "learned once"
    )
    one = AlignedTexts("de", texts.texts, texts.source, ["health"] * 600)
    assert run._miscalibration(one, vectors, vectors, {}) == 0, "one class alone says nothing"


def test_probes_of_a_sorted_file_see_every_class() -> None:
    names = [LABELS[i // 20] for i in range(60)]
    texts = AlignedTexts("de", [f"a {i}" for i in range(60)], [f"b {i}" for i in range(60)], names)
    vectors = np.eye(3)[np.arange(60) // 20] + DRAW.normal(scale=0.1, size=(60, 3))
    found = {measure: value for _, measure, value in run._probe(texts, vectors, vectors, "")}
    assert found["probe"] == found["probe, learned items"] == 1 and found["control task"] < 0.75
    rows = [Example(str(i), {}, "") for i in range(60)]
    assert [row.id for row in run._spread_rows(rows, 6)] == ["0", "10", "20", "30", "40", "50"]
    assert run._spread_rows(rows, 100) == rows


def test_a_probe_is_as_good_as_its_control_task_where_classes_are_drawn_by_chance() -> None:
    """Translations have nearly the vector of their source, so the items that were learned are found again."""
    vectors = DRAW.normal(size=(400, 300))
    names = [LABELS[i] for i in DRAW.integers(3, size=400)]
    texts = AlignedTexts("de", [f"a {i}" for i in range(400)], [f"b {i}" for i in range(400)], names)
    near = vectors + DRAW.normal(scale=0.1, size=vectors.shape)
    found = {measure: value for _, measure, value in run._probe(texts, near, vectors, "")}
    assert found["probe"] < 0.45, "nothing to learn"
    assert found["control task"] > 0.9, "but to learn by heart"
    rows = [("pretrained", "sib200", 0, "de", measure, 100 * value) for measure, value in found.items()]
    table = run._layer_table(rows)
    shown = dict(zip([name for name, _ in table.columns], table.rows[0], strict=True))
    assert shown["selectivity"] == pytest.approx(0, abs=5)


def _data(root: Path) -> Path:
    langs = ("en", "de", "sw", "ar", "th", "fr", "es")
    for lang in langs:
        for split in ("dev", "test"):
            rows = [
                {
                    "id": str(i),
                    "fields": {"text": f"{lang} {i % 3} sees the boat {i}"},
                    "label": LABELS[i % 3],
                }
                for i in range(24)
            ]
            file = root / f"rows/sib200/{lang}.{split}.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return root


def test_the_command_measures_every_layer_beside_random_weights(model: Path, tmp_path: Path) -> None:
    data = _data(tmp_path / "data")
    cfg = AnalyseConfig(model, ("sib200",), tmp_path / "out", data)
    run.run(cfg)
    rows = json.loads((cfg.out / "analysis.json").read_text())
    assert {row["system"] for row in rows} == {"pretrained", "random"}
    layers = {row["layer"] for row in rows}
    assert layers == set(range(len(layers))) and len(layers) > 1
    assert {row["measure"] for row in rows} > set(run.MEASURES_BY_LAYER)
    assert all(0 <= row["percent"] <= 100 for row in rows)
    text = (cfg.out / "analysis.html").read_text()
    assert text.count("<figure") == len(run.MEASURES_BY_LAYER) and "http://" not in text
    languages = (cfg.out / "languages.csv").read_text().splitlines()
    assert languages[0].endswith("calibration error")
    assert all(line.rpartition(",")[2] for line in languages[1:] if not line.startswith("en,"))
    report = stage.run(ReportConfig((str(cfg.out),), tmp_path / "report"))
    page = (tmp_path / "report/report.html").read_text()
    assert "Why does it transfer?" in page and page.count("<figure") >= len(run.MEASURES_BY_LAYER)
    assert "By language" in (tmp_path / "report/report.md").read_text() and report
    assert list((tmp_path / "report").glob("analysis_*_languages.csv"))
    broken = tmp_path / "broken"
    shutil.copytree(cfg.out, broken)
    (broken / "tables.json").rename(broken / "sheets.json")
    assert why.read(broken) == why.read(cfg.out), "the name until 0.2"
    (broken / "sheets.json").unlink()
    with pytest.raises(
        UserError, match=r"holds no analysis that can be read: FileNotFoundError.*run xling analyse"
    ):
        why.read(broken)
    before = (cfg.out / "manifest.json").read_bytes()
    run.run(cfg)
    assert (cfg.out / "manifest.json").read_bytes() == before, "up to date"


def test_a_fine_tuned_body_is_measured_without_a_random_control(model: Path, tmp_path: Path) -> None:
    data, task = _data(tmp_path / "data"), tmp_path / "task"
    task.mkdir()
    cfg = replace(FAST, epochs=1, freeze="encoder")  # so its body is that of the model
    tuned = fine_tune(model, "classify", labels("classify"), rows_of("classify"), cfg)[-1]
    tune.save_tuned(tuned, task, model, ["en"])
    measured = {}
    for start in (model, task):
        run.run(AnalyseConfig(start, ("sib200",), tmp_path / f"of {start.name}", data, ("de",), rows=12))
        measured[start] = json.loads((tmp_path / f"of {start.name}/analysis.json").read_text())
    assert measured[task] == [row for row in measured[model] if row["system"] == "pretrained"] != []
    assert EncoderBackend(task, "pretrained").embed(["a boat"], "en", 1, "mean").shape == (1, 32)


def test_a_layer_that_cannot_be_read_is_no_empty_table(model: Path, tmp_path: Path) -> None:
    data = _data(tmp_path / "data")
    with pytest.raises(UserError, match="unknown pooling 'middle'; valid: cls, joined, max, mean"):
        run.run(AnalyseConfig(model, ("sib200",), tmp_path / "out", data, ("de",), pooling="middle"))
    assert not (tmp_path / "out").exists()


def test_a_static_encoder_has_one_layer_and_features_in_place_of_sub_words(tmp_path: Path) -> None:
    shape = StaticConfig(dim=16, bits=10, sketch=0)
    with manifest.publish(tmp_path / "model", "pretrain static", shape) as made:
        encoder_files.save_encoder(encoder_files.random_encoder(shape, {}, seed=2), made.path)
    data = _data(tmp_path / "data")
    run.run(AnalyseConfig(tmp_path / "model", ("sib200",), tmp_path / "out", data))
    rows = json.loads((tmp_path / "out/analysis.json").read_text())
    assert {row["layer"] for row in rows} == {0} and {row["system"] for row in rows} == {
        "pretrained",
        "random",
    }
    lines = (tmp_path / "out/languages.csv").read_text().splitlines()
    fertility = {line.split(",")[0]: float(line.split(",")[1]) for line in lines[1:]}
    text = split_tokens("en 0 sees the boat 3")
    assert fertility["en"] == pytest.approx(sum(len(word_features(t)) for t in text) / len(text), rel=0.3)
    shared = {line.split(",")[0]: float(line.split(",")[2]) for line in lines[1:]}
    assert shared["en"] == 100 > shared["de"] > 50, "all words but the first are the same"


def test_mistakes(model: Path, tmp_path: Path) -> None:
    data = _data(tmp_path / "data")
    for suites, message in (
        ((), "no suite is named"),
        (("xnli",), "rows of kind pair"),
        (("tatoeba",), "no test rows"),
    ):
        with pytest.raises(UserError, match=message):
            run.run(AnalyseConfig(model, suites, tmp_path / "out", data))
    assert not (tmp_path / "out").exists()


def test_the_best_layer_is_one_of_the_model_and_not_of_its_control() -> None:
    rows: list[Any] = [
        ("pretrained", "tatoeba", 1, "de", "retrieval", 40.0),
        ("pretrained", "tatoeba", 2, "de", "retrieval", 60.0),
        ("random", "tatoeba", 1, "de", "retrieval", 90.0),
        ("pretrained", "tatoeba", 1, "sw", "retrieval", 95.0),
    ]
    assert run._best_layer_value(rows, "de", "retrieval") == 60.0
    assert run._best_layer_value(rows, "fr", "retrieval") is None


def test_a_rotation_between_two_spaces_is_found_and_nothing_where_there_is_none() -> None:
    draw = np.random.default_rng(3)
    a, other = draw.normal(size=(2, 200, 8)).astype(np.float32)
    turn = np.linalg.qr(draw.normal(size=(8, 8)))[0].astype(np.float32)
    assert np.allclose(measures.rotation(a, a @ turn), turn, atol=1e-5)
    wide = measures.rotation(a, np.hstack([other, other[:, :4]]))
    assert wide.shape == (8, 12) and np.allclose(wide @ wide.T, np.eye(8), atol=1e-5)
    for there, wanted in ((3 * a @ turn + 5, 1.0), (other, 0.0)):
        found = {name: value for _, name, value in run._measure_two({"de": a}, {"de": there}, "en")}
        assert found["retrieval after rotation"] == pytest.approx(wanted, abs=0.05)
        assert found["cka"] == pytest.approx(wanted, abs=0.1) and found["cka of other rows"] < 0.1
        assert found["retrieval"] < 0.5, "not without the rotation"
    # No row that is scored has a part in the rotation.
    changed = a.copy()
    changed[1::2] = other[1::2]
    found = {name: value for _, name, value in run._measure_two({"en": changed}, {"en": a @ turn}, "en")}
    assert found["retrieval after rotation of the source"] < 0.1


def test_two_models_are_compared_layer_by_layer(model: Path, tmp_path: Path) -> None:
    data = _data(tmp_path / "data")
    for file in (data / "rows/sib200").iterdir():  # words that the model has pieces for
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for i, row in enumerate(rows):
            row["fields"]["text"] = f"{'acehilmnor'[i % 10] * (1 + i // 10)} boat"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = str(run.run(AnalyseConfig(model, ("sib200",), tmp_path / "out", data, ("de",), other=model)))
    rows = json.loads((tmp_path / "out/analysis.json").read_text())
    same = {
        (row["system"], row["measure"]): row["percent"]
        for row in rows
        if row["lang"] == "en" and row["layer"] == 1
    }
    assert same["pretrained", "cka of the source"] == pytest.approx(100), "a model and itself"
    assert same["random", "cka of the source"] < 99.9, "two draws of weights"
    assert re.search(r"\| sib200 +\| de +\| random +\| +0 \|", said)
    assert (tmp_path / "out/analysis.html").read_text().count("<figure") == len(why.MEASURES_OF_TWO)
