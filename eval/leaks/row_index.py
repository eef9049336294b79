"""Index of the rows of all suites with local data, to check corpora against: ``xling eval leaks``."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.eval.rows.suite import data_folder, languages_at, load, suites
from xling.text.leaks import FILE_NAME, Entry, Leaks

TestSet = tuple[str, str, str]
"""Suite, language or pair, split."""


@dataclass(frozen=True)
class LeaksConfig:
    """Settings of ``xling eval leaks``.

    Args:
        out: directory to publish, for ``leaks=`` of ``xling corpus mono`` and ``corpus parallel``.
        data: folder of the suites' files; default: what XLING_DATA names.
        suites: suites to index; default: every suite with available rows.
        splits: kinds of splits: ``test`` with all test sets, ``dev``, ``train``.
    """

    out: Path
    data: Path | None = None
    suites: tuple[str, ...] = ()
    splits: tuple[str, ...] = ("test", "dev")


def run(cfg: LeaksConfig) -> Answer:
    """Publish the index and say what it holds.

    Raises:
        UserError: no rows are available.
    """
    data = data_folder(cfg.data)
    tests = tests_in(cfg.suites or sorted(suites()), cfg.splits, data)
    if not tests:
        raise UserError(
            f"no rows of {', '.join(cfg.suites) or 'any suite'} below {data}", fix="see xling eval list"
        )
    inputs = sorted({path for name, lang, split in tests for path in suites()[name].paths(lang, split, data)})
    if not manifest.up_to_date(cfg.out, "eval leaks", cfg, inputs, replaceable=True):
        index = Leaks.build(entries(tests, data))
        with manifest.publish(cfg.out, "eval leaks", cfg, inputs) as out:
            index.write(out.path)
            out.counts |= {
                "texts": len(index.group),
                "distinct": len(index.ends) - 1,
                "units": len(index.units),
            }
    counts = manifest.read(cfg.out).counts
    return Answer(
        f"{counts['texts']:,} texts ({counts['distinct']:,} distinct) of {len(tests)} files of rows: "
        f"{cfg.out / FILE_NAME}",
        {"counts": counts, "tests": tests},
    )


def tests_in(names: Iterable[str], splits: Iterable[str], data: Path) -> list[TestSet]:
    """Return every language and split of suites whose rows are available; a ``test`` split means all test sets."""
    wanted_splits = set(splits)
    tests = []
    for name in names:
        suite = suites()[name]
        for split in (*suite.splits, *suite.test_sets):
            if split in wanted_splits or ("test" in wanted_splits and split in suite.test_sets):
                tests += [(name, lang, split) for lang in languages_at(suite, split, data)]
    return tests


def entries(tests: Iterable[TestSet], data: Path) -> Iterator[Entry]:
    """Yield every passage of every row; the group is suite, language, split and side, with spaces between."""
    for name, lang, split in tests:
        suite = suites()[name]
        for row in load(suite, lang, split, data):
            for side, text in suite.shape.passages(row).items():
                yield Entry(f"{name} {lang} {split} {side}", text)
