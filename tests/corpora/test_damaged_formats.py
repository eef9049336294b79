"""A sample of ``python -m benchmarks.readers``: damaged files of every format."""

import pytest

from benchmarks.readers import formats, read_copy

FORMATS = formats()
NUM_COPIES = 20


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_copies_are_read_or_refused(tmp_path, name):
    outcomes = [read_copy(FORMATS[name], seed, tmp_path) for seed in range(NUM_COPIES)]
    assert any(outcomes) or name == "xlsx", "most copies can be read around the damage; not a packed sheet"
