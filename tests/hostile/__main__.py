"""Run the attacks on the product and print a table: class, attempts, violations.

Usage::

    python -m tests.hostile [CLASS ...]

An attempt is a wrong usage, a hostile or changed file, a full disk or a kill; a test that loops counts each. A
violation is a failed test. The exit code is 1 when there is one. Real data and Slurm are not asked for: random
disturbances of a real Slurm are ``python -m tests.slurm.testbed.nemesis``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from tests import hostile

CLASSES: dict[str, tuple[str, ...]] = {
    "wrong usages, recipes, links, devices": ("tests/test_misuse.py",),
    "bombs, long cells, nesting: the limits of every reader": (
        "tests/corpora/test_bounds.py",
        "tests/corpora/common/test_parquet_rows.py",
        "tests/corpora/crawl_index/test_parquet_pages.py",
    ),
    "files cut and changed at random places": (
        "tests/corpora/test_damage.py",
        "tests/corpora/test_damaged_formats.py",
        "tests/corpora/test_broken_lines.py",
    ),
    "servers that lie, stop or never end": (
        "tests/corpora/common/test_endless.py",
        "tests/corpora/common/test_download.py",
        "tests/corpora/common/test_ranges.py",
    ),
    "models with code, lies and weights that are not finite": (
        "tests/models/test_finite.py",
        "tests/hub/test_source.py",
        "tests/hub/test_import.py",
        "tests/hub/test_without_lm_head.py",
    ),
    "names and texts with formulas, HTML, control characters": (
        "tests/eval/report/test_spreadsheets.py",
        "tests/test_answers.py",
    ),
    "outputs with a bit turned": (
        "tests/test_rot.py",
        "tests/core/output/test_digests.py",
        "tests/text/files/test_blocks.py",
    ),
    "full disks": ("tests/core/test_full_disk.py", "tests/test_reruns.py::test_a_full_disk"),
    "changed inputs and settings": (
        "tests/test_reruns.py::test_a_rerun",
        "tests/test_reruns.py::test_a_table",
        "tests/corpora/test_changed_input.py",
    ),
    "two processes on one output": ("tests/core/test_races.py",),
    "kills": (
        "tests/e2e/test_recipes_killed.py::test_killed",
        "tests/e2e/test_hours_killed.py",
        "tests/e2e/test_language.py::test_killed",
        "tests/corpora/test_mono.py::test_killed",
        "tests/corpora/parallel/test_parallel_stage.py::test_killed",
        "tests/corpora/mining/test_mine_stage.py::test_killed",
    ),
}
"""Class -> how the names of its tests begin."""


class Tally:
    """Plugin of pytest that counts attempts and violations by class, and keeps the tests of the classes alone."""

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes = classes
        self.attempts, self.violations, self.skipped = Counter[str](), Counter[str](), Counter[str]()

    def class_of(self, name: str) -> str:
        """Return the class of a test, "" for none."""
        return next((each for each in self.classes if name.startswith(CLASSES[each])), "")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the other tests of a file."""
        items[:] = [item for item in items if self.class_of(item.nodeid)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count the attempts of a test: those that it told of, or one."""
        before = hostile.made[0]
        told = yield
        self.attempts[self.class_of(item.nodeid)] += max(1, hostile.made[0] - before)
        return told

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a failure."""
        if report.failed:
            self.violations[self.class_of(report.nodeid)] += 1
        elif report.skipped:
            self.skipped[self.class_of(report.nodeid)] += 1

    def table(self) -> str:
        """Return the table as Markdown; a skipped test is no attempt."""
        rows = ["| class | attempts | violations |", "| --- | ---: | ---: |"]
        for name in self.classes:
            made = self.attempts[name] - self.skipped[name]
            rows.append(f"| {name} | {made:,} | {self.violations[name]} |")
        return "\n".join(rows)


def main(words: Sequence[str]) -> int:
    """Run the tests of the classes whose names hold one of ``words``, of all without any; return the exit code."""
    tally = Tally([name for name in CLASSES if not words or any(word in name for word in words)])
    files = dict.fromkeys(place.partition("::")[0] for name in tally.classes for place in CLASSES[name])
    code = pytest.main(["-q", "-n", "0", "-m", "not data and not slurm", *files], plugins=[tally])
    print(tally.table())
    return int(code != 0 or bool(tally.violations))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
