"""A sealed result is computed again to the last digit, and no tampering passes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eval_helpers import Epochs, write_world

from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.eval.controls.majority_ngrams import MajorityControl
from xling.eval.run import evaluation
from xling.eval.run.settings import EvalConfig
from xling.eval.tables import sealed_result
from xling.eval.tables.sealed_result import SealConfig, VerifyConfig

TAMPERINGS = 500


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A sealed file of two suites, and its data."""
    out = tmp_path_factory.mktemp("sealed")
    world = write_world(out / "data")
    cfg = EvalConfig(("toy_xnli", "toy_ner"), out / "out", world, langs=("en", "sw"), seeds=(1, 2))
    right = {"en": [4, 12, 9, 6], "sw": [9, 3, 6, 9]}
    evaluation.evaluate_systems(cfg, [Epochs(right), MajorityControl()])
    sealed_result.seal(SealConfig(cfg.out, out / "result.json", world))
    return out / "result.json", world


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every text and number in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inside = [place for key, part in items for place in places(part, (*path, key))]
    return inside if isinstance(value, (dict, list)) else [path]


def changed(value: Any, draw: np.random.Generator) -> Any:
    """Another value of the same kind, as near as can be."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, (int, float)):
        return value + (1 if isinstance(value, int) else 1e-9 * max(1.0, abs(value)))
    if value in ("entailment", "neutral", "contradiction"):
        return {"entailment": "neutral", "neutral": "contradiction", "contradiction": "entailment"}[value]
    at = int(draw.integers(len(value) + 1))
    return f"{value[:at]}x{value[at:]}"


def at(document: Any, place: tuple[Any, ...]) -> tuple[Any, Any]:
    for key in place[:-1]:
        document = document[key]
    return document, place[-1]


def refused(path: Path, document: Any, data: Path, resealed: bool = False) -> str:
    if resealed:
        document["digest"] = sealed_result.digest(document)
    path.write_text(json.dumps(document, ensure_ascii=False))
    with pytest.raises(UserError) as caught:
        sealed_result.verify(VerifyConfig(path, data))
    return str(caught.value)


def test_a_sealed_result_is_computed_again(sealed: tuple[Path, Path], tmp_path: Path) -> None:
    path, data = sealed
    said = sealed_result.verify(VerifyConfig(path, data))
    assert "12 files of answers" in said
    assert "all as they were sealed" in said
    document = json.loads(path.read_text())
    assert {"python", "xling", "sacrebleu"} <= set(document["versions"])
    assert document["made_by"]["settings"]["seeds"] == [1, 2]
    assert all(part["origin"]["rows"] and part["gold"] for part in document["answers"])
    document["versions"]["numpy"] = "0.0"
    document["digest"] = sealed_result.digest(document)
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    assert "numpy 0.0 then" in sealed_result.verify(VerifyConfig(other, data)), (
        "another version is told, not refused"
    )
    with pytest.raises(UserError, match="exists"):
        sealed_result.seal(SealConfig(path.parent / "out", path, data))


def test_no_tampering_of_five_hundred_passes(sealed: tuple[Path, Path], tmp_path: Path) -> None:
    path, data = sealed
    whole = json.loads(path.read_text())
    every = places(whole)
    for number in range(TAMPERINGS):
        draw = rng("tampering", number)
        parent, key = at(whole, every[int(draw.integers(len(every)))])
        before, parent[key] = parent[key], changed(parent[key], draw)
        assert "is refused" in refused(tmp_path / "changed.json", whole, data)
        parent[key] = before
    (tmp_path / "changed.json").write_text(json.dumps(whole))
    assert sealed_result.verify(VerifyConfig(tmp_path / "changed.json", data)), "undone, it passes"


def _answer(document: Any) -> None:
    wanted = ("toy_xnli", "pretrained")
    part = next(p for p in document["answers"] if (p["origin"]["suite"], p["origin"]["system"]) == wanted)
    assert part["answers"][0] == ["0", "entailment"], (
        "a right answer: which of two wrong ones it was no score tells"
    )
    part["answers"][0][1] = "neutral"


def _score(name: str, document: Any) -> None:
    document["scores"][3][name] = changed(document["scores"][3][name], rng("score"))


def _mixed(document: Any) -> None:
    document["answers"][0]["origin"]["checkpoint"] = "e" * 64


def _dropped(document: Any) -> None:
    document["answers"].pop()


def _twice(document: Any) -> None:
    document["answers"].append(document["answers"][0])


def _swapped(document: Any) -> None:
    given = document["answers"][0]["answers"]
    given[0], given[1] = given[1], given[0]


def _renamed(document: Any) -> None:
    document["answers"][0]["origin"]["system"] = "../other"


@pytest.mark.parametrize(
    ("tamper", "told"),
    [
        (_answer, "computed"),
        (partial(_score, "value"), "scores 3, toy_"),
        (partial(_score, "low"), "low"),
        (partial(_score, "n"), "n "),
        (partial(_score, "signature"), "signature"),
        (partial(_score, "system"), "system"),
        (lambda d: d["averages"][0].update(high=99.0), "averages 0"),
        (_mixed, "one column of several models"),
        (_dropped, "the answers give"),
        (_twice, "twice"),
        (_swapped, "the answers are to other rows"),
        (_renamed, "origin"),
        (lambda d: d["answers"][0].update(gold="0" * 64), "those answered 000000000000"),
        (lambda d: d["answers"][0]["origin"].update(rows="0" * 64), "digest 000000000000"),
        (lambda d: d["answers"][0].pop("gold"), "answers cannot be read"),
        (lambda d: d.pop("scores"), "it has no scores"),
    ],
)
def test_a_forged_digest_does_not_help(
    sealed: tuple[Path, Path], tamper: Callable[[Any], None], told: str, tmp_path: Path
) -> None:
    path, data = sealed
    document = json.loads(path.read_text())
    tamper(document)
    assert told in refused(tmp_path / "changed.json", document, data, resealed=True)


def test_gold_that_differs_is_refused(sealed: tuple[Path, Path], tmp_path: Path) -> None:
    path, data = tmp_path / "result.json", tmp_path / "data"
    shutil.copy(sealed[0], path)
    shutil.copytree(sealed[1], data)
    rows = data / "nli/sw.test.tsv"
    rows.write_text(rows.read_text().replace("contradiction", "neutral", 1))
    with pytest.raises(UserError, match=r"toy_xnli/sw/test.*the rows in .* have digest"):
        sealed_result.verify(VerifyConfig(path, data))
    for text, told in (
        ("{", "not JSON"),
        ("[]", "not a sealed result"),
        ('{"format": "x"}', "not a sealed result"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=told):
            sealed_result.verify(VerifyConfig(path, data))
    with pytest.raises(UserError, match="no sealed result at"):
        sealed_result.verify(VerifyConfig(tmp_path / "none.json", data))
