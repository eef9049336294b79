"""Every registered suite keeps the contract: metadata complete, codes known, recorded files well formed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from xling.core import languages
from xling.core.settings.config import read_yaml
from xling.eval.metrics import METRICS
from xling.eval.rows.suite import SUITES, Suite, languages_at, load, scored_split, suites
from xling.eval.suites import table
from xling.eval.systems import BACKENDS, build

ALL = sorted(suites())


@pytest.fixture(params=ALL)
def suite(request: pytest.FixtureRequest) -> Suite:
    return suites()[request.param]


def test_metadata_codes_and_recorded_files_are_complete(suite: Suite) -> None:
    assert all((suite.licence, suite.citation, suite.url, suite.protocol, suite.patterns, suite.splits))
    assert set(suite.splits) <= {"train", "dev", "test"}
    assert set(suite.metrics) <= set(METRICS)
    assert suite.name in ALL
    assert not suite.train_from or suite.train_from in ALL
    assert not suite.shape.closed or suite.labels
    assert suite.scheme in ("", "IOB2")
    assert len(set(suite.languages)) == len(suite.languages)
    assert not set(suite.languages) & set(suite.extra)
    assert suite.online is None or re.fullmatch("[0-9a-f]{40}", suite.online.revision)
    named = {*suite.languages, *suite.extra, *(f.lang for f in suite.files)}
    for lang in named:
        parts = lang.split("-") if suite.shape.pairs_languages else [lang]
        assert [languages.get(part).code for part in parts] == parts
    for file in suite.files:
        assert len(file.sha256) == 64 and len(file.official) in (0, 64) and file.official != file.sha256
        assert int(file.sha256, 16) >= 0
        assert file.num_rows > 0
        assert file.split in suite.splits
        assert not Path(file.path).is_absolute()
    places = [(f.lang, f.split, f.path) for f in suite.files]
    assert len(set(places)) == len(places)


def test_a_suite_that_borrows_training_rows_has_the_lender_s_kind() -> None:
    for suite in suites().values():
        if suite.train_from:
            lender = suites()[suite.train_from]
            assert lender.kind == suite.kind
            assert "train" in lender.splits


def test_a_file_holds_readers_of_the_table_or_registers_a_suite_itself() -> None:
    entries = set(read_yaml(table.TABLE))
    modules = {path.stem for path in table.TABLE.parent.glob("*.py")} - {"__init__", "table"}
    text = table.TABLE.read_text(encoding="utf-8")
    assert modules & entries and modules - entries
    assert not [name for name in modules & entries if f"{name}:" not in text.replace(f"\n{name}:", "")]
    assert entries | modules <= set(ALL)
    for name in (min(entries), min(modules - entries)):
        with pytest.raises(ValueError, match=f"suite '{name}' is registered twice"):
            SUITES.add(name, suites()[name])


def test_every_table_of_digests_is_read() -> None:
    for path in table.TABLE.parent.glob("*.tsv"):
        assert len(suites()[path.stem].files) == len(path.read_text(encoding="utf-8").splitlines()) - 1


def test_an_entry_of_the_table_has_only_fields_of_a_suite() -> None:
    name, entry = next(iter(read_yaml(table.TABLE).items()))
    with pytest.raises(TypeError, match="colour"):
        table.suite_of(name, {**entry, "colour": "red"})


def test_the_systems_of_this_package_build() -> None:
    for name in ("majority", "ngram"):
        assert name in BACKENDS
        assert build(name, None).name == name
        assert len(build(name, None).digest) == 64


@pytest.mark.data
def test_real_files_read_with_their_recorded_sizes(suite: Suite) -> None:
    data = Path(os.environ["XLING_DATA"])
    for split in suite.splits:
        for lang in languages_at(suite, split, data):
            rows = load(suite, lang, split, data)
            if (lang, split) in suite.sizes:
                assert len(rows) == suite.sizes[lang, split]
            assert split == "train" or scored_split(suite, lang, data) in ("test", "dev")
