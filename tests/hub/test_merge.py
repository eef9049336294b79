"""Merging: averages and TIES against small cases worked out, and what cannot be merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from xling import cli
from xling.core.errors import UserError
from xling.hub.merge import merge_ties, run
from xling.hub.settings import MergeConfig
from xling.models.files import model_weights


@pytest.fixture
def three(model: Path, tmp_path: Path) -> list[Path]:
    """The tiny model, and two that differ from it."""
    made = [model]
    for number in (1, 2):
        folder = tmp_path / f"m{number}"
        folder.mkdir()
        for file in set(model.iterdir()) - {model / "manifest.json"}:  # a model of the own making
            (folder / file.name).write_bytes(file.read_bytes())
        state = torch.load(model / "model.pt", weights_only=True)
        generator = torch.Generator().manual_seed(number)
        state["weights"] = {
            name: weight + torch.randn(weight.shape, generator=generator)
            for name, weight in state["weights"].items()
        }
        torch.save(state, folder / "model.pt")
        made.append(folder)
    return made


def weights(path: Path) -> dict[str, Any]:
    return dict(torch.load(path / "model.pt", weights_only=True)["weights"])


def test_averages_are_weighted_and_load_like_any_model(three: list[Path], tmp_path: Path) -> None:
    run(MergeConfig(tuple(three[1:]), tmp_path / "out", weights=(3.0, 1.0)))
    first, second, made = (weights(path) for path in (three[1], three[2], tmp_path / "out"))
    for name in first:
        torch.testing.assert_close(made[name], 0.75 * first[name] + 0.25 * second[name])
    assert model_weights.load_model(tmp_path / "out")[1] == model_weights.load_model(three[0])[1]


def test_ties_worked_out() -> None:
    base = {"a": torch.tensor([1.0, 1.0, 1.0, 1.0]), "b": torch.tensor([0.0])}
    models = [
        {"a": torch.tensor([5.0, 1.1, 4.0, -1.0]), "b": torch.tensor([0.1])},
        {"a": torch.tensor([3.0, 1.0, -1.0, 1.2]), "b": torch.tensor([9.0])},
    ]
    # The three largest changes of each stay: 4, 3, -2 and 2, -2, 9. In the third place 3 wins over -2.
    found = merge_ties(models, base, torch.tensor([0.5, 0.5], dtype=torch.float64), 0.6)
    torch.testing.assert_close(found["a"], torch.tensor([4.0, 1.0, 4.0, -1.0]))
    torch.testing.assert_close(found["b"], torch.tensor([9.0]))
    half = merge_ties(models, base, torch.tensor([0.5, 0.5], dtype=torch.float64), 0.6, scale=0.5)
    torch.testing.assert_close(half["a"], torch.tensor([2.5, 1.0, 2.5, 0.0]))


def test_ties_of_models_of_one_start(three: list[Path], tmp_path: Path) -> None:
    run(MergeConfig(tuple(three[1:]), tmp_path / "out", "ties", base=three[0], density=1.0))
    base, first, second, made = (weights(path) for path in (*three, tmp_path / "out"))
    for name in base:
        one, two = first[name] - base[name], second[name] - base[name]
        same = one.sign() == two.sign()
        larger = torch.where(one.abs() > two.abs(), one, two)
        wanted = base[name] + torch.where(same, (one + two) / 2, larger)
        torch.testing.assert_close(made[name], wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"method": "ties"}, "base=MODEL"),
        ({"weights": (1.0,)}, "for each"),
        ({"density": 0.0}, "density=0.0"),
    ],
)
def test_mistakes_are_named(three: list[Path], tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        run(MergeConfig(tuple(three[1:]), tmp_path / "out", **more))


def test_one_model_is_too_few_and_other_shapes_do_not_fit(
    three: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["merge", str(tmp_path / "out"), f"checkpoints={three[0]}"]) == 2
    state = torch.load(three[1] / "model.pt", weights_only=True)
    torch.save(state | {"shape": state["shape"] | {"heads": 1}}, three[1] / "model.pt")
    assert cli.main(["merge", str(tmp_path / "out"), f"checkpoints={three[0]},{three[1]}"]) == 2
    assert "differ in shape" in capsys.readouterr().err and not (tmp_path / "out").exists()
