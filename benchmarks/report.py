"""Size and time of a report with the answers of many systems in many languages.

Usage: ``python -m benchmarks.report FOLDER [SYSTEMS [LANGUAGES [ROWS]]]``, by default 50 systems, 100 languages and 204
rows, as SIB-200 has. The answers are drawn: right with a probability that depends on system, language and row.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from xling.core.languages import LANGUAGES
from xling.core.sampling import rng
from xling.eval import predictions, score_tables
from xling.eval.predictions import Origin
from xling.eval.report import stage
from xling.eval.report.stage import ReportConfig
from xling.eval.score_tables import RescoreConfig
from xling.eval.suite import Suite, data_digest, load, suites


def main(folder: str, systems: str = "50", langs: str = "100", rows: str = "204") -> int:
    """Write the answers, score them, make the report, and print sizes in bytes and processor seconds as JSON."""
    out, suite = Path(folder), suites()["sib200"]
    codes = [lang for lang in sorted(LANGUAGES) if lang in suite.languages][: int(langs)]
    write_rows(out / "data", suite, codes, int(rows))
    for number in range(int(systems)):
        write_answers(out, suite, codes, number)
    said: dict[str, object] = {"systems": int(systems), "languages": len(codes), "rows": int(rows)}
    start = time.process_time()
    score_tables.rescore(RescoreConfig(out / "run", out / "data"))
    said["seconds_of_scores"] = round(time.process_time() - start, 1)
    start = time.process_time()
    stage.run(ReportConfig((str(out / "run"),), out / "report", data=out / "data"))
    said["seconds_of_report"] = round(time.process_time() - start, 1)
    sizes = {path.name: path.stat().st_size for path in sorted((out / "report").iterdir())}
    print(json.dumps({**said, "bytes": sizes}))
    return 0


def write_rows(data: Path, suite: Suite, codes: list[str], rows: int) -> None:
    """Write test rows of every language: sentences of 20 made-up words."""
    draw = rng("report", "rows")
    for lang in codes:
        path = data / f"rows/{suite.name}/{lang}.test.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        words = draw.integers(5000, size=(rows, 20))
        labels = draw.integers(len(suite.labels), size=rows)
        records = (
            {
                "id": str(i),
                "fields": {"text": " ".join(f"{lang}{w}" for w in row)},
                "label": suite.labels[label],
            }
            for i, (row, label) in enumerate(zip(words, labels, strict=True))
        )
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def write_answers(out: Path, suite: Suite, codes: list[str], number: int) -> None:
    """Write the answers of one system in every language."""
    draw = rng("report", "answers", number)
    for lang in codes:
        rows = load(suite, lang, "test", out / "data")
        level = 0.3 + 0.01 * number + 0.1 * draw.normal()
        is_right = draw.random(len(rows)) < np.clip(level, 0.1, 0.95)
        other = draw.integers(len(suite.labels), size=len(rows))
        answers = [
            row.label if right else suite.labels[place]
            for row, right, place in zip(rows, is_right, other, strict=True)
        ]
        origin = Origin(
            suite.name, lang, "test", f"system{number:02}", 1, checkpoint=f"{number:064x}",
            extra="train:sib200", rows=data_digest(suite, lang, "test", out / "data"),
        )  # fmt: skip
        predictions.write(out / "run/predictions", origin, rows, answers)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
