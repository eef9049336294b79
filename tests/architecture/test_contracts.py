"""Contract tests know nothing by name: what they need of a thing is an attribute of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from xling.corpora.parallel.filters import PAIR_FILTERS
from xling.corpora.parallel.sources import PAIR_SOURCES
from xling.corpora.sources.source import SOURCES
from xling.corpora.stages import STREAMING
from xling.eval.metrics import METRICS
from xling.eval.rows.suite import suites
from xling.objectives import OBJECTIVES

CONTRACTS: dict[str, Mapping[str, Any]] = {
    "tests/objectives/test_contract.py": OBJECTIVES,
    "tests/objectives/conftest.py": OBJECTIVES,
    "tests/corpora/stages/test_streaming.py": STREAMING,
    "tests/corpora/test_source_contract.py": SOURCES,
    # A column of the frames of pairs has the name of a filter.
    "tests/corpora/parallel/test_filter_contract.py": {k: v for k, v in PAIR_FILTERS.items() if k != "score"},
    "tests/corpora/parallel/test_pair_source_contract.py": PAIR_SOURCES,
    "tests/eval/test_suites_contract.py": {**suites(), **METRICS},
}


def named(text: str, registry: Mapping[str, Any]) -> Iterator[str]:
    """Each text of a module that is the name of a registered thing, alone or joined to others by ``+``."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (word for word in re.split(r"[+.,\[\]]", node.value) if word in registry)


@pytest.mark.parametrize("path", CONTRACTS)
def test_no_contract_test_names_what_is_registered(path: str) -> None:
    assert list(named((ROOT / path).read_text(encoding="utf-8"), CONTRACTS[path])) == []


def test_a_planted_name_is_seen() -> None:
    planted = 'MIXES = ("mmlm+tlm",)\nif name == "dae":\n    more = "objectives.xlco.mix=0"\n'
    assert list(named(planted, OBJECTIVES)) == ["mmlm", "tlm", "dae", "xlco"]


@pytest.mark.parametrize("path", sorted(Path(ROOT / "tests").rglob("test_*contract.py")))
def test_every_contract_test_is_listed(path: Path) -> None:
    assert str(path.relative_to(ROOT)) in CONTRACTS
