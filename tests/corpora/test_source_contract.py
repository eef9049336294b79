"""What every source of documents promises, by a sample of each."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.corpora.examples import OF_DOCUMENTS
from xling.corpora.sources.source import (
    SOURCES,
    Context,
    Shard,
    Source,
    open_source,
    unique_names,
)
from xling.text.document import Ledger

HERE = Path(__file__).parent
NAMES = sorted(OF_DOCUMENTS)


def opened(name: str, folder: Path) -> tuple[Source, tuple[object, ...]]:
    sample = OF_DOCUMENTS[name]
    for path, content in sample.contents().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    urls = {key: value.format(folder=folder) for key, value in sample.base_urls.items()}
    rest = sample.rest.format(folder=folder)
    uri = f"{name}:{rest}" if rest or not SOURCES[name].bare else name
    return open_source(uri, Context("sw", base_urls=urls, cache=folder / "cache")), sample.read


def test_every_source_has_a_sample_or_a_test_of_its_own() -> None:
    assert not [name for name in set(SOURCES) - set(NAMES) if not (HERE / f"test_{name}.py").is_file()]


@pytest.mark.parametrize("name", NAMES)
def test_the_sample_is_read_and_counted(name: str, tmp_path: Path) -> None:
    source, texts = opened(name, tmp_path)
    assert isinstance(source, SOURCES[name])
    assert source.licence
    ledger, shards = Ledger(), unique_names(source.shards())
    assert shards == unique_names(source.shards())  # a stable order
    docs = [doc for shard in shards for doc in source.read(shard, ledger)]
    assert tuple(doc.text for doc in docs) == texts
    assert len({doc.id for doc in docs}) == len(docs)
    assert all(doc.source == source.uri for doc in docs)
    assert ledger.seen["read"] == len(docs) + sum(ledger.dropped.values())


@pytest.mark.parametrize("name", NAMES)
def test_shards_are_read_by_another_process_alike(name: str, tmp_path: Path) -> None:
    source, texts = opened(name, tmp_path)
    shards: list[Shard] = pickle.loads(pickle.dumps(source.shards()))
    again = opened(name, tmp_path)[0]
    assert tuple(doc.text for shard in shards for doc in again.read(shard, Ledger())) == texts
