"""The kills of local stages: what counts as the same output, and that its commands are there."""

from __future__ import annotations

import json
from pathlib import Path

from tests.hostile import kills
from xling.core.commands.runner import STAGES


def test_every_stage_is_a_command(tmp_path: Path) -> None:
    for name, words in kills.commands(tmp_path).items():
        command = " ".join(words[:2])
        assert command in STAGES or words[0] in STAGES, name


def test_times_and_speeds_alone_may_differ(tmp_path: Path) -> None:
    def made(name: str, seconds: float, loss: float, score: float) -> dict[str, object]:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "manifest.json").write_text(str(seconds))
        (folder / "scores.json").write_text(json.dumps({"seconds": seconds, "scores": [{"value": score}]}))
        events = [
            {"split": "train", "update": 5, "loss": loss},
            {"split": "valid", "loss": score, "tokens_per_s": loss},
        ]
        (folder / "log.jsonl").write_text("\n".join(map(json.dumps, events)))
        (folder / "model.pt").write_bytes(b"weights")
        return kills.contents(folder)

    first = made("a", 1.0, 2.0, 3.0)
    assert first.keys() == {"scores.json", "log.jsonl", "model.pt"}
    assert made("b", 9.0, 8.0, 3.0) == first
    other = made("c", 1.0, 2.0, 4.0)
    assert [name for name in first if first[name] != other[name]] == ["log.jsonl", "scores.json"]
