"""The data folder that several tests read."""

from __future__ import annotations

from pathlib import Path

import pytest
from eval_helpers import write_world


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A data folder with the toy suites in en, sw and de."""
    return write_world(tmp_path / "data")
