"""List of the suites, what each needs and which data are present: ``xling eval list``."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output.command_result import Answer
from xling.eval.rows.placeholders import count_placeholders, placeholder_text
from xling.eval.rows.suite import Suite, data_folder, languages_at, scorable_splits, suites


@dataclass(frozen=True)
class ListConfig:
    """Settings of ``xling eval list``.

    Args:
        data: folder of the suites' files; default: what XLING_DATA names. Without a folder, only suites are
            listed.
    """

    data: Path | None = None


def run_list(cfg: ListConfig) -> Answer:
    """Return the output of ``xling eval list``.

    Raises:
        UserError: the data folder that is given does not exist.
    """
    data = data_folder(cfg.data) if cfg.data or os.environ.get("XLING_DATA") else None
    facts = [
        {
            "suite": name,
            "kind": suite.kind,
            "metrics": list(suite.metrics),
            "licence": suite.licence,
            "languages": list(suite.languages),
            "files": list(suite.patterns),
            "official_files": [list(layout.patterns) for layout in suite.official],
            "test_sets": list(suite.test_sets),
            "at_hand": {s: languages_at(suite, s, data) for s in suite.all_splits} if data else None,
        }
        for name, suite in sorted(suites().items())
    ]
    return Answer(listing(data), facts)


def listing(data: Path | None = None) -> str:
    """Describe every suite: its languages, metric, licence, and which data are present."""
    lines = []
    for name, suite in sorted(suites().items()):
        lines.append(f"{name}: {suite.kind}, {', '.join(suite.metrics)}, {suite.licence}")
        lines.append(f"    languages ({len(suite.languages)}): {' '.join(suite.languages) or 'any'}")
        lines.append(f"    files: {'  '.join(suite.patterns)}")
        if data is not None:
            have = [f"{s}: {' '.join(languages_at(suite, s, data)) or 'none'}" for s in suite.all_splits]
            lines.append(f"    present: {'; '.join(have)}")
            if text := _placeholders(suite, data):
                lines.append(f"    {text}")
        if suite.official:
            official = dict.fromkeys(pattern for layout in suite.official for pattern in layout.patterns)
            lines.append(f"    official files: {'  '.join(official)}")
        if suite.test_sets:
            lines.append(f"    test sets: {' '.join(scorable_splits(suite))}")
        if suite.train_from:
            lines.append(f"    trains on: {suite.train_from}")
        if suite.online:
            lines.append(f"    online: datasets {suite.online.name} at {suite.online.revision}")
        lines.append(f"    {suite.protocol}")
    return "\n".join(lines)


def _placeholders(suite: Suite, data: Path) -> str:
    """Say how many of the rows that can be scored have a placeholder in place of a text."""
    if not suite.placeholder:
        return ""
    splits = (*scorable_splits(suite), "dev")
    places = [(lang, split) for split in splits for lang in languages_at(suite, split, data)]
    counts = []
    for place in places:
        with contextlib.suppress(UserError):  # the evaluation tells what is wrong with a file
            counts.append((*place, *count_placeholders(suite, *place, data)))
    return placeholder_text(suite, counts)
