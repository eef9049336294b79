"""What every source of sentence pairs promises, by a sample of each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.corpora.examples import OF_PAIRS
from xling.core import languages
from xling.corpora.parallel.sources import PAIR_SOURCES, SourceContext, open_sources
from xling.text.document import Ledger
from xling.text.pairs import SCHEMA


class SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    handler = partial(SilentHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


def test_every_source_has_a_sample() -> None:
    assert set(PAIR_SOURCES) == set(OF_PAIRS)


@pytest.mark.parametrize("name", sorted(OF_PAIRS))
def test_the_sample_is_read_again_and_again(name: str, tmp_path: Path, server: str) -> None:
    sample = OF_PAIRS[name]
    for path, content in sample.contents().items():
        (tmp_path / path).write_bytes(content)
    urls = {key: value.format(server=server) for key, value in sample.base_urls.items()}
    context = SourceContext(languages.get("en"), languages.get("sw"), tmp_path / "cache", urls)
    ledger = Ledger()
    (source,) = open_sources([f"{name}:{sample.rest.format(folder=tmp_path)}"], context)
    assert tuple(source.rows(ledger)) == tuple(source.rows(ledger)) == sample.read
    assert not ledger.dropped
    assert source.licence
    assert all(path.is_file() for path in source.inputs)
    assert bool(source.inputs) or not sample.files or not PAIR_SOURCES[name].lists_inputs
    (batch,) = source.batches(ledger)
    assert batch.schema == SCHEMA
    assert list(zip(batch["src"], batch["tgt"], batch["doc"], strict=True)) == list(sample.read)
