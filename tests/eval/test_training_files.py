"""Files that a model was trained on are found through the manifests of all outputs between."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

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
