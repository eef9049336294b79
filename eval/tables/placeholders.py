"""Notes on rows with a placeholder in place of a text: how many there are, and the scores without them.

Such rows are scored like all others, since published numbers include them.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from xling.eval.rows.placeholders import count_placeholders, has_placeholder, placeholder_text
from xling.eval.rows.suite import Suite, suites
from xling.eval.scores import predictions
from xling.eval.tables.columns import Column, column_of, unique_title


def notes_on_placeholders(files: Sequence[Path], data: Path) -> list[str]:
    """Return a sentence for each suite that has placeholders in its scored rows, with the scores without them.

    Args:
        files: of predictions.
        data: folder of the suites.
    """
    files_of: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        files_of[predictions.read_origin(path).suite].append(path)
    notes = []
    for name, paths in files_of.items():
        suite = suites()[name]
        if not suite.placeholder:
            continue
        origins = [predictions.read_origin(path) for path in paths]
        places = dict.fromkeys((origin.lang, origin.split) for origin in origins)
        counts = [(*place, *count_placeholders(suite, *place, data)) for place in places]
        text = placeholder_text(suite, counts)
        affected = {(lang, split) for lang, split, num, total in counts if 0 < num < total}
        chosen = [
            path for path, each in zip(paths, origins, strict=True) if (each.lang, each.split) in affected
        ]
        if text:
            notes.append(f"{name}: {text}. Without them: {_scores_without(suite, chosen, data)}.")
    return notes


def _scores_without(suite: Suite, files: Sequence[Path], data: Path) -> str:
    """Return the scores of the main metric on the other rows, by system and language, as means over seeds."""
    values: dict[Column, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in files:
        for score, _ in predictions.read_row_statistics(
            path, data, lambda row: not has_placeholder(suite, row)
        ):
            if score.metric == suite.metric:
                values[column_of(score)][score.lang].append(score.value)
    parts = [
        f"{unique_title(column)} "
        + ", ".join(f"{lang} {statistics.fmean(each):.1f}" for lang, each in of.items())
        for column, of in values.items()
    ]
    return "; ".join(parts) or "no rows are left"
