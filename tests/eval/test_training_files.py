"""Files that a model was trained on are found through the manifests of all outputs between."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from xling import cli
from xling.core.output import manifest
from xling.core.output.manifest import publish
from xling.eval.leaks.training_files import warn_of_training_files


def test_a_test_file_behind_several_outputs_is_found_by_its_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, others = tmp_path / "pairs.tsv", tmp_path / "others.tsv"
    pairs.write_text("a house\tnyumba\n")
    others.write_text("a dog\tmbwa\n")
    made = {"rows": [pairs], "encoder": [tmp_path / "rows"], "other": [others]}
    for name, inputs in made.items():
        with publish(tmp_path / name, "stage", {}, inputs) as publication:
            (publication.path / "file").write_text(name)
    copy = tmp_path / "test.tsv"
    shutil.copy(pairs, copy)
    warn_of_training_files([tmp_path / "encoder", tmp_path / "other"], [copy, copy, tmp_path / "missing"])
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / 'encoder'} was trained on {copy}, which is scored here" in line


def test_controls_without_the_trained_weights_are_no_reason_to_warn(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics, train, copy = tmp_path / "test.tsv", tmp_path / "train.tsv", tmp_path / "model"
    train.write_text("text\tlabel\n" + "".join(f"a goal {n}\tsport\na vote {n}\tnews\n" for n in range(4)))
    topics.write_text("text\tlabel\n" + "".join(f"goal {n}\tsport\nvote {n}\tnews\n" for n in range(4)))
    shutil.copytree(model, copy)
    manifest.write(copy, replace(manifest.read(model), inputs={str(topics): manifest.check_file(topics)}))
    words = [
        f"classes={topics}",
        f"train={train}",
        f"checkpoint={copy}",
        "fit.epochs=1",
        "fit.max_length=32",
    ]
    for systems, warns in (("majority,random", False), ("pretrained", True)):
        assert cli.main(["eval", *words, f"systems={systems}", f"out={tmp_path / systems}"]) == 0
        assert ("was trained on" in capsys.readouterr().err) == warns
