"""What every source of documents promises, by its own example."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from xling.corpora.sources.source import (
    SOURCES,
    Context,
    Shard,
    Source,
    SourceExample,
    open_source,
    unique_names,
)
from xling.text.document import Ledger

NAMES = sorted(SOURCES)


def opened(name: str, folder: Path) -> tuple[Source, SourceExample]:
    example = SOURCES[name].example()
    for path, content in example.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    urls = {key: value.format(folder=folder) for key, value in example.base_urls.items()}
    rest = example.rest.format(folder=folder)
    uri = f"{name}:{rest}" if rest or not SOURCES[name].bare else name
    return open_source(uri, Context(example.lang, base_urls=urls, cache=folder / "cache")), example


@pytest.mark.parametrize("name", NAMES)
def test_the_example_is_read_and_counted(name: str, tmp_path: Path) -> None:
    source, example = opened(name, tmp_path)
    assert isinstance(source, SOURCES[name])
    assert source.licence
    ledger, shards = Ledger(), unique_names(source.shards())
    assert shards == unique_names(source.shards())  # a stable order
    docs = [doc for shard in shards for doc in source.read(shard, ledger)]
    assert tuple(doc.text for doc in docs) == example.texts
    assert len({doc.id for doc in docs}) == len(docs)
    assert all(doc.source == source.uri for doc in docs)
    assert ledger.seen["read"] == len(docs) + sum(ledger.dropped.values())


@pytest.mark.parametrize("name", NAMES)
def test_shards_are_read_by_another_process_alike(name: str, tmp_path: Path) -> None:
    source, example = opened(name, tmp_path)
    shards: list[Shard] = pickle.loads(pickle.dumps(source.shards()))
    again = opened(name, tmp_path)[0]
    assert tuple(doc.text for shard in shards for doc in again.read(shard, Ledger())) == example.texts
