"""Every number of a recipe named after a paper has an origin in ``published.yaml``; those with a source equal it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

PUBLISHED = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text(encoding="utf-8"))
TRAIN = (
    "updates", "lr", "warmup", "clip", "schedule", "beta1", "beta2", "eps", "weight_decay", "optimizer", "final_lr",
    "batch_first", "batch_warmup",
)  # fmt: skip


def settings_of(name: str) -> dict[str, Any]:
    """The numbers of a recipe at its full scale, by dotted name."""
    recipe = yaml.safe_load((ROOT / "recipes" / f"{name}.yaml").read_text(encoding="utf-8"))
    parts = (
        {f"{step}.": entry["config"] for step, entry in recipe["steps"].items()}
        if "steps" in recipe
        else {"": recipe}
    )
    found: dict[str, Any] = {}
    for prefix, part in parts.items():
        for objective, settings in part["objectives"].items():
            found |= {f"{prefix}objectives.{objective}.{key}": value for key, value in settings.items()}
        found |= {f"{prefix}model.{key}": value for key, value in part["model"].items()}
        train = part["train"]
        found |= {f"{prefix}train.{key}": train[key] for key in TRAIN if key in train}
        found[f"{prefix}batch"] = train["batch_tokens"] * train["accumulate"]
        found |= {f"{prefix}{key}": part[key] for key in ("mix", "init_layers") if key in part}
        for name, phase in part.get("phases", {}).items():
            found |= {f"{prefix}phases.{name}.{key}": value for key, value in phase.items()}
    return found


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_number_has_an_origin_and_equals_its_source(name: str) -> None:
    settings = settings_of(name)
    sources = {source: values for source, values in PUBLISHED[name].items() if source != "ours"}
    ours = PUBLISHED[name]["ours"]
    given = [key for values in sources.values() for key in values]
    assert sorted([*given, *ours]) == sorted(settings)
    for source, values in sources.items():
        for key, value in values.items():
            assert settings[key] == value, f"{key} is {value} in {source}"


def test_no_recipe_rests_on_memory() -> None:
    for path in (ROOT / "recipes").rglob("*.yaml"):
        assert "remember" not in path.read_text(encoding="utf-8"), path.name
