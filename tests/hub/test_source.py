"""What is wrong with a third-party model is told without torch."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from xling.core.errors import UserError
from xling.hub import source
from xling.hub.imports import READERS
from xling.hub.settings import ImportConfig

Run = Callable[..., "subprocess.CompletedProcess[str]"]
CONFIG = {
    "model_type": "xlm-roberta", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 8, "max_position_embeddings": 30,
}  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    tensors = {
        "embeddings": np.zeros((30, 8), np.float32),
        "encoder.layer.1.out": np.zeros((8, 8), np.float32),
    }
    save_file(tensors, folder / "model.safetensors")
    return folder


def checked(folder: Path, **settings: bool) -> source.ModelSource:
    return source.find_and_check(ImportConfig(folder, folder.parent / "out", **settings))


def written(name: str, content: str | bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(
        content.encode() if isinstance(content, str) else content
    )


def config(**values: object) -> Callable[[Path], object]:
    return written("config.json", json.dumps(CONFIG | values))


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def huge(folder: Path) -> None:
    with (folder / "config.json").open("wb") as file:
        file.truncate(2**40)  # a sparse file


def as_folder(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()


INDEX = source.SAFETENSORS_INDEX


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (cut, "damaged"),
        (huge, "1099511627776 bytes; valid: at most"),
        (as_folder, "no weights"),
        (written("model.safetensors", b""), "damaged"),
        (written("model.safetensors", b"\xff" * 7 + b"\x7f"), "damaged"),
        (written("config.json", "[" * 100_000), "not JSON"),
        (written("config.json", b"\xff\xfe"), "not JSON"),
        (written("config.json", "3"), "holds no settings"),
        (written("config.json", '{"model_type": ["bert"]}'), "is of type"),
        (written("config.json", json.dumps(CONFIG | {"hidden_size": 10**9})), "no tensor of its weights"),
        (config(intermediate_size=9), "no tensor of its weights"),
        (config(num_attention_heads=3), "width 8 and 3 heads"),
        (
            config(hidden_act="relu"),
            "hidden_act='relu'; valid: 'gelu'",
        ),
        (
            config(num_hidden_layers=None),
            "does not say num_hidden_layers",
        ),
        (
            config(num_hidden_layers=3),
            r"no encoder\.layers\.2; valid: 3 layers",
        ),
        (
            config(num_hidden_layers=1),
            "2 layers in its encoder; valid: 1 layers",
        ),
        (written(INDEX, "{}"), "names no files"),
        (written(INDEX, '{"weight_map": 3}'), "names no files"),
        (written(INDEX, '{"weight_map": {}}'), "names no files"),
        (written(INDEX, '{"weight_map": {"a": "../../etc/passwd"}}'), "names no files"),
        (written(INDEX, '{"weight_map": {"a": "model.safetensors", "b": "second"}}'), "no file .*second"),
    ],
)
def test_a_damaged_model_is_refused(model: Path, harm: Callable[[Path], object], said: str) -> None:
    assert checked(model).model_type == "xlm-roberta"
    harm(model)
    with pytest.raises(UserError, match=said):
        checked(model)


def test_torch_stays_out(python: Run, model: Path) -> None:
    code = (
        "import sys; from xling import cli; "
        f"code = [cli.main(['import', 'hf', path, {str(model.parent / 'out')!r}]) for path in sys.argv[1:]]; "
        "print(code, 'torch' in sys.modules)"
    )
    cut(model)
    done = python("-c", code, str(model), str(model.parent), "nowhere/at/all/x")
    assert done.stdout.split("\n")[-2] == "[2, 2, 2] False", done.stdout + done.stderr


def test_every_type_is_known() -> None:
    assert set(READERS) == set(source.CONVERTED_TYPES)
