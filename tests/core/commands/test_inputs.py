"""Inputs are checked before anything heavy is imported."""

from __future__ import annotations

import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from xling.core.commands import inputs
from xling.core.errors import UserError
from xling.core.output import manifest


@dataclass(frozen=True)
class Config:
    checkpoint: Path
    out: Path


def published(out: Path) -> Path:
    with manifest.publish(out, "pretrain", {}) as made, zipfile.ZipFile(made.path / "model.pt", "w") as file:
        file.writestr("weights", bytes(2000))
    return out


def test_a_checkpoint_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = published(tmp_path / "m") / "model.pt"
    config = Config(tmp_path / "m", tmp_path / "out")
    inputs.check_inputs_exist("checkpoint", config)
    whole = path.read_bytes()
    for content in (whole[:-30], whole[:5], b"", b"<html>not found</html>"):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"model\.pt is damaged, or not a file"):
            inputs.check_inputs_exist("checkpoint", config)
    path.unlink()
    with pytest.raises(UserError, match="no checkpoint at"):
        inputs.check_inputs_exist("checkpoint", config)
    path.write_bytes(pickle.dumps({}))  # older files of torch: what is in them is checked by torch
    with pytest.raises(UserError, match=r"model\.pt has 5 bytes"):
        inputs.check_inputs_exist("checkpoint", config)
    path.with_name("manifest.json").unlink()
    inputs.check_inputs_exist("checkpoint", config)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("runs/m", "is both out= and what is read"),
        ("runs", "is both out= and what is read"),
        ("runs/../runs/m", "is both out= and what is read"),
        ("link", "is both out= and what is read"),
        ("runs/m/exported", "lies in .*m, a finished output of 'pretrain'"),
        ("link/deep/er", "lies in .*m, a finished output of 'pretrain'"),
    ],
)
def test_no_output_takes_the_place_of_an_input_or_lies_in_an_output(
    out: str, said: str, tmp_path: Path
) -> None:
    """Replacing the outer output would delete the inner one."""
    published(tmp_path / "runs" / "m")
    (tmp_path / "link").symlink_to(tmp_path / "runs" / "m")
    with pytest.raises(UserError, match=said):
        inputs.check_inputs_exist("checkpoint", Config(tmp_path / "runs" / "m", tmp_path / out))
    inputs.check_inputs_exist("checkpoint", Config(tmp_path / "runs" / "m", tmp_path / "runs" / "m2"))


def test_a_manifest_of_another_program_does_not_count(tmp_path: Path) -> None:
    for content in ('{"name": "web page"}', "[1]", "x", "[" * 100_000):
        (tmp_path / manifest.FILE_NAME).write_text(content)
        inputs.check_output_place(tmp_path / "runs" / "m", [])


@dataclass(frozen=True)
class Named:
    lang: str = "en"
    lm: str = ""
    corpora: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "settings", [Named(lm="model"), Named(lm="pretrain:model"), Named(corpora=("other", "mod*"))]
)
def test_a_changed_output_is_refused_however_it_is_named(
    settings: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("model", "en"):
        (published(Path(name)) / "model.pt").write_bytes(b"x" * (Path(name) / "model.pt").stat().st_size)
    inputs.check_inputs_exist("", Named(corpora=("models", "en-sw")))  # a code of a language is no path
    with pytest.raises(UserError, match=r"model\.pt was changed or damaged after 'pretrain' wrote it"):
        inputs.check_inputs_exist("", settings)


def test_the_folder_around_a_model_names_the_model(tmp_path: Path) -> None:
    published(tmp_path / "runs" / "encoder")
    with pytest.raises(UserError, match=r"fix: give the model in it: .*/runs/encoder$"):
        inputs.check_inputs_exist("checkpoint", Config(tmp_path / "runs", tmp_path / "out"))
