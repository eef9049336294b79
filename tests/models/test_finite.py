"""Weights that are not finite are refused where a model is loaded, by the name of the tensor."""

from __future__ import annotations

import pickle
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from xling.core.errors import UserError
from xling.hub import files
from xling.models.files import model_weights
from xling.models.files.model_weights import check_finite

KINDS = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn)


@pytest.mark.parametrize("dtype", KINDS)
def test_one_bad_value_of_any_type_is_found_and_counted(dtype: torch.dtype) -> None:
    values = torch.ones(3, 5)
    values[1, 2] = torch.nan
    good = {"a": torch.ones(2).to(dtype), "ids": torch.arange(4), "none": torch.zeros(0)}
    check_finite(good, Path("m"))
    with pytest.raises(UserError, match=r"m: 1 of 15 weights in 'b.w' are not finite .*; valid: finite"):
        check_finite({**good, "b.w": values.to(dtype)}, Path("m"))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_native_model_with_such_a_weight_is_refused(model: Path, tmp_path: Path, bad: float) -> None:
    folder = tmp_path / "m"
    shutil.copytree(model, folder)
    state = torch.load(folder / "model.pt", weights_only=True)
    state["weights"][next(iter(state["weights"]))].view(-1)[7] = bad
    torch.save(state, folder / "model.pt")
    (folder / "manifest.json").unlink()
    with pytest.raises(UserError, match=r"1 of .* are not finite"):
        model_weights.load_model(folder)


def test_a_pickle_with_code_is_refused_without_the_advice_to_load_it(tmp_path: Path) -> None:
    torch.save({"format": "xling-encoder-1", "weights": Path("/tmp")}, tmp_path / "model.pt")
    with pytest.raises(UserError, match="holds code or objects besides tensors") as caught:
        model_weights.load_model(tmp_path)
    assert not any(
        word in str(caught.value) for word in ("trust", "weights_only", "two options", "allowlist")
    )


@pytest.mark.parametrize("read", [model_weights.load_model, files.read_pickle])
def test_a_plain_pickle_is_refused_without_a_warning_of_torch(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(pickle.dumps({"weights": Path("/tmp")}, protocol=4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(UserError, match=r"(more than|besides) tensors"):
            read(tmp_path if read is model_weights.load_model else path)
    assert [str(each.message) for each in caught] == []
