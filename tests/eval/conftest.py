"""The data folder that several tests read."""

from __future__ import annotations

from pathlib import Path

import pytest
from eval_helpers import write_ner, write_nli


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A data folder with the toy suites in en, sw and de."""
    data = tmp_path / "data"
    for lang in ("en", "sw", "de"):
        for split, times in (("train", 8), ("dev", 2), ("test", 4)):
            write_nli(data / f"nli/{lang}.{split}.tsv", times, mark=f"{lang} ")
            write_ner(data / f"ner/{lang}.{split}.tsv", times)
    return data
