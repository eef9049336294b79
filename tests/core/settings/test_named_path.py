"""Paths with ``=`` in them, as sweeps name their folders, beside names that are given to paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from xling.core.settings.values import named_path


@pytest.mark.parametrize(
    ("item", "name", "path"),
    [
        ("runs/lr=1e-4", "", "runs/lr=1e-4"),
        ("runs/lr=1e-4/eval", "", "runs/lr=1e-4/eval"),
        ("a=runs/lr=1e-4", "a", "runs/lr=1e-4"),
        ("lr=1=runs/b", "lr=1", "runs/b"),
        ("b=runs/b", "b", "runs/b"),
        ("runs/b", "", "runs/b"),
        ("b=runs/none", "b", "runs/none"),
        ("runs/none", "", "runs/none"),
        ("b=hf:org/model", "b", "hf:org/model"),
        ("b=", "b", ""),
        ("=runs/b", "", "runs/b"),
    ],
)
def test_what_is_there_is_a_path_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, item: str, name: str, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/lr=1e-4/eval", "runs/b"):
        Path(folder).mkdir(parents=True)
    assert named_path(item) == (name, path)
