"""The quickstart as a user calls it, at its tiny scale: every step runs and the report says what it must."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from xling.eval.scores.score_file import read_scores

LANGS = {"en", "de", "fr", "es", "sw", "tr", "ru"}
# All that the quickstart may write to standard error: its steps, what a corpus is made of, and progress.
TOLD = (
    r"\[\d+/13\] \w+: xling [a-z ]+( ended after [\d.]+ (s|min) \([\d.]+ (s|min) of processor time\))?",
    r"[a-z]{2}: 1 part into \S+",
    r"  text:\S+: 1 shard, .*B, licence: as the files' own",
    r"(binarize|pretrain) \S+: [\d,]+ of [\d,]+ (docs|pairs|updates), .*",
    r"toy_\w+, \w+, seed \d+: [\d,]+ of [\d,]+ updates, .*",
    r"report: (read|compare): \d+ of \d+ (runs|systems), .*",
)


def quickstart(out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "xling", "quickstart", f"out={out}", "scale=tiny"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_quickstart_ends_with_a_table_and_a_rerun_does_nothing(tmp_path: Path) -> None:
    done = quickstart(tmp_path / "q")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.replace("\r", "\n").splitlines()
    assert not [line for line in lines if line and not any(re.fullmatch(told, line) for told in TOLD)]
    scores = read_scores(tmp_path / "q" / "eval" / "tables" / "scores.json")
    for system in ("pretrained", "random", "majority"):
        for suite in ("toy_ner", "toy_xnli"):
            assert {s.lang for s in scores if (s.system, s.suite) == (system, suite)} == LANGS
    assert all(score.synthetic and score.signature for score in scores)
    page = (tmp_path / "q" / "report" / "report.html").read_text(encoding="utf-8")
    text = (tmp_path / "q" / "report" / "report.md").read_text(encoding="utf-8")
    for shown in (page, text):
        assert "synthetic" in shown.lower()
        assert "random" in shown
    assert "http://" not in page.replace("http://www.w3.org", "")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "q").rglob("manifest.json")}
    assert len(before) >= 12
    again = quickstart(tmp_path / "q")
    assert again.returncode == 0, again.stderr
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "q").rglob("manifest.json")} == before
