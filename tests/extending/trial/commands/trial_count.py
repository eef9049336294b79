"""``xling corpus count``: the words of a text, a command of another package in one file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from xling.core.commands.stage_type import Stage
from xling.core.output import manifest
from xling.core.output.command_result import Answer

COUNT = Stage(
    "corpus count",
    config="trial_count:CountConfig",
    run="trial_count:run",
    positional="text",
    reads="text",
    help="count the words of a text",
)


@dataclass(frozen=True)
class CountConfig:
    """Settings of ``xling corpus count``.

    Attributes:
        text: a text file.
        out: directory to publish: ``words.json``.
    """

    text: Path
    out: Path


def run(cfg: CountConfig) -> Answer:
    """Count the words between blanks and publish their number."""
    if not manifest.up_to_date(cfg.out, COUNT.name, cfg, [cfg.text]):
        with manifest.publish(cfg.out, COUNT.name, cfg, [cfg.text]) as output:
            words = len(cfg.text.read_text(encoding="utf-8").split())
            (output.path / "words.json").write_text(json.dumps(words), encoding="utf-8")
    words = json.loads((cfg.out / "words.json").read_text(encoding="utf-8"))
    return Answer(f"{words} words", {"words": words})
