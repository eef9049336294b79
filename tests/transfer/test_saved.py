"""A fine-tuning that is stopped, killed or finds a damaged state ends with the weights of an undisturbed one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tuning import fine_tune
from xling.core import signals
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.transfer.saved import SavedStates
from xling.transfer.settings import TuneConfig
from xling.transfer.tune import TunedModel

CFG = TuneConfig(
    lr=4e-3, epochs=3, batch_rows=4, dropout=0.2, max_length=64, precision="fp32", unfreeze_epochs=1.0
)
LABELS = ("no", "yes", "maybe")
WORDS = ("woman", "neighbour", "doctor", "teacher", "sees", "sells", "finds", "boat")
Told = list[tuple[int, int, float]]


@dataclass
class Row:
    id: str
    fields: dict[str, Any]
    label: Any


def rows() -> list[Row]:
    """Twenty tagged sentences of three to seven words."""
    made = []
    for number in range(20):
        words = tuple(WORDS[(number * 3 + i * i) % len(WORDS)] for i in range(3 + number % 5))
        made.append(Row(str(number), {"tokens": words}, tuple(LABELS[len(word) % 3] for word in words)))
    return made


class Killed(BaseException):
    """Stands for SIGKILL: nothing is done any more, what is on the disk counts."""


def fit(
    ckpt: Path,
    cfg: TuneConfig,
    saves: SavedStates | None = None,
    tell: Callable[..., None] | None = None,
) -> tuple[list[TunedModel], Told]:
    told: Told = []

    def both(*event: float) -> None:
        told.append(event)  # type: ignore[arg-type]
        if tell:
            tell(*event)

    return fine_tune(ckpt, "tag", LABELS, rows(), cfg, on_update=both, saved_states=saves), told


def assert_same(found: tuple[list[TunedModel], Told], expected: tuple[list[TunedModel], Told]) -> None:
    assert found[1] == expected[1]
    assert len(found[0]) == len(expected[0])
    for one, other in zip(found[0], expected[0], strict=True):
        weights, wanted = one.model.state_dict(), other.model.state_dict()
        assert weights.keys() == wanted.keys()
        assert all(torch.equal(weights[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize(
    ("method", "saved_every_s"),
    [("plain", (0.02, 1e9)), ("self_distillation", (0.0,))],
)
def test_killed_again_and_again(
    model: Path, tmp_path: Path, method: str, saved_every_s: tuple[float, ...]
) -> None:
    """Killed at random updates, saved every update, every few or at the ends of epochs alone."""
    cfg = replace(CFG, method=method, teacher_steps=3 if method == "self_distillation" else 1)
    expected = fit(model, cfg)
    draw, kills = random.Random(method), 0
    for every_s in saved_every_s:
        out = tmp_path / f"task {every_s}"
        while True:
            left = [draw.randint(1, 6)]

            def tell(number: int, epoch: int, loss: float, left: list[int] = left) -> None:
                left[0] -= 1
                if not left[0]:
                    raise Killed

            saves = SavedStates(out, "key", every_s)
            behind = saves.load()
            replayed = len(behind[0]["told"]) if behind else 0
            left[0] += replayed
            try:
                found = fit(model, cfg, saves, tell)
                break
            except Killed:
                kills += 1
        assert_same(found, expected)
        saves.delete_all()
        assert not list(tmp_path.iterdir())
    assert kills >= 2


def test_asked_to_stop_it_saves_and_goes_on(model: Path, tmp_path: Path) -> None:
    expected = fit(model, CFG)
    saves = SavedStates(tmp_path / "task", "key")
    with pytest.raises(signals.Stopped):
        fit(model, CFG, saves, lambda n, *_: signals.request_stop("SIGTERM") if n == 7 else None)
    signals.reset_process_state()
    state = saves.load()
    assert state is not None
    assert len(state[0]["told"]) == 7
    assert_same(fit(model, CFG, saves), expected)


def test_a_damaged_state_is_passed_over_and_another_key_refused(model: Path, tmp_path: Path) -> None:
    expected = fit(model, CFG)
    saves = SavedStates(tmp_path / "task", "key", 0.0)
    with pytest.raises(signals.Stopped):
        fit(model, CFG, saves, lambda n, *_: signals.request_stop("x") if n == 8 else None)
    signals.reset_process_state()
    newest = sorted(saves.folder.glob("update-*.pt"))[-1]
    newest.write_bytes(newest.read_bytes()[:-10])
    with pytest.raises(UserError, match="was made with other settings or data; fix: give the old settings"):
        fit(model, CFG, SavedStates(tmp_path / "task", "other"))
    assert_same(fit(model, CFG, saves), expected)


def test_overwrite_replaces_the_states_of_another_key(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = SavedStates(tmp_path / "task", "key", 0.0)
    saves.save(1, {"epoch": 0})
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    assert saves.load() is not None
    assert SavedStates(tmp_path / "task", "other").load() is None
    assert not saves.folder.exists()
