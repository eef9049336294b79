"""A model is known by what its files hold now: no score and no import is that of weights that were replaced."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import xling
from xling import cli
from xling.core.errors import UserError
from xling.hub.cached import cached_checkpoint
from xling.models.files import model_weights


@pytest.fixture
def exported(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny model as `xling export hf` writes it, with the manifest beside it."""
    monkeypatch.setenv("XLING_CACHE", str(tmp_path / "cache"))
    assert cli.main(["export", "hf", str(model), str(tmp_path / "hf")]) == 0
    return tmp_path / "hf"


def change_weights(folder: Path) -> None:
    """Change every weight and no size."""
    tensors = load_file(folder / "model.safetensors")
    changed = {name: tensor * 2 + 0.25 for name, tensor in tensors.items()}
    save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})


def test_hf_is_imported_again_when_its_weights_change(exported: Path, tmp_path: Path) -> None:
    shutil.copytree(exported, copy := tmp_path / "copy")
    first = cached_checkpoint(f"hf:{exported}")
    assert cached_checkpoint(f"hf:{copy}") == first, "equal content is imported once"
    vectors = xling.load(f"hf:{exported}").encode(["a red boat"])
    for folder in (exported, copy):
        change_weights(folder)
        changed = cached_checkpoint(f"hf:{folder}")
        assert changed != first
        old, new = (model_weights.load_model(path)[0].state_dict() for path in (first, changed))
        name = "encoder.tokens.weight"
        assert torch.allclose(new[name][5:], old[name][5:] * 2 + 0.25)
    assert not np.allclose(vectors, xling.load(f"hf:{exported}").encode(["a red boat"]))


def test_a_damaged_import_is_made_again(exported: Path) -> None:
    first = cached_checkpoint(f"hf:{exported}")
    whole = (first / "model.pt").read_bytes()
    (first / "model.pt").write_bytes(whole[:-9] + bytes(9))
    assert cached_checkpoint(f"hf:{exported}") == first
    model_weights.load_model(first)


def test_import_hf_refuses_to_keep_the_old_weights(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["import", "hf", str(exported), str(tmp_path / "ours")]
    assert cli.main(words) == cli.main(words) == 0
    change_weights(exported)
    capsys.readouterr()
    assert cli.main(words) == 2
    assert "hf has other content" in capsys.readouterr().err
    assert cli.main([*words, "overwrite=true"]) == 0


def test_a_native_model_with_replaced_weights_is_refused_by_every_reader(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(model, folder := tmp_path / "m")
    content = bytearray((folder / "model.pt").read_bytes())
    content[len(content) // 2] ^= 0x40  # one bit of an exponent
    (folder / "model.pt").write_bytes(content)
    said = r"model\.pt was changed or damaged after 'pretrain' wrote it"
    with pytest.raises(UserError, match=said):
        xling.load(folder)
    for words in (
        f"eval toy_ner data={tmp_path} checkpoint={folder} out={tmp_path}/e",
        f"export hf {folder} {tmp_path}/h",
        f"finetune toy_ner data={tmp_path} checkpoint={folder} out={tmp_path}/f",
        f"trim {folder} {tmp_path}/t corpora.en={folder}/dict.txt",
        f"quantize {folder} {tmp_path}/q",
    ):
        assert cli.main(words.split()) == 2, words
        assert "model.pt was changed or damaged" in capsys.readouterr().err, words
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]
