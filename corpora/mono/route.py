"""One reading for many languages: read, repair and identify every document once, and route it to its language.

A routed part is one Parquet file. Each of its row groups holds documents of one language, in their order, so that
a language is read without the others. The published folder has an index of the row groups::

    OUT/routed/parts/00000.parquet ...   the documents
    OUT/routed/index.json                language -> part -> row groups, documents, characters
    OUT/routed/stats.json                what was read, dropped and lost, and the declared and the found languages
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from xling.core.output import manifest
from xling.core.output.manifest import publish, sha256
from xling.core.output.parts import Workspace, read_json, write_json
from xling.corpora.card.ledgers import ledger_to_json, merged_ledger
from xling.corpora.card.statistics import Counters
from xling.corpora.common.download import fetch_all
from xling.corpora.common.shards import SCHEMA, open_table, to_row
from xling.corpora.mono.parts import chain, documents, input_of, open_log
from xling.corpora.mono.plan import Plan, save_plan
from xling.corpora.mono.publish_phase import link
from xling.corpora.mono.settings import MonoConfig
from xling.corpora.sources.routed import INDEX_FILE, PARTS_FOLDER, PLAN_FILE
from xling.text.document import Document

STAGE_NAME = "corpus route"
FOLDER, STATS = "routed", "stats.json"
DOCS = "docs.parquet"
_GROUP_CHARS = 1 << 21
_BUFFER_CHARS = 1 << 25


class _RoutedWriter:
    """Writer of documents into one file, grouped by language, in bounded memory."""

    def __init__(self, path: Path) -> None:
        self._file = open_table(path, SCHEMA, temporary=True)
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._chars: dict[str, int] = {}
        self._num_groups = 0
        self.index: dict[str, dict[str, Any]] = {}

    def add(self, doc: Document) -> None:
        """Add one document; the longest wait makes room."""
        self._rows.setdefault(doc.lang, []).append(to_row(doc))
        self._chars[doc.lang] = self._chars.get(doc.lang, 0) + len(doc.text)
        if self._chars[doc.lang] >= _GROUP_CHARS:
            self._flush(doc.lang)
        elif sum(self._chars.values()) >= _BUFFER_CHARS:
            self._flush(max(self._chars, key=lambda lang: (self._chars[lang], lang)))

    def _flush(self, lang: str) -> None:
        rows = self._rows.pop(lang)
        self._file.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), row_group_size=len(rows))
        entry = self.index.setdefault(lang, {"groups": [], "documents": 0, "characters": 0})
        entry["groups"].append(self._num_groups)
        entry["documents"] += len(rows)
        entry["characters"] += self._chars.pop(lang)
        self._num_groups += 1

    def close(self) -> None:
        """Write the buffered documents of every language and close the file."""
        for lang in sorted(self._rows):
            self._flush(lang)
        self._file.close()


def run_route(cfg: MonoConfig, workspace: Workspace, plan: Plan, index: int) -> None:
    """Read, repair and identify the shards of one part, and write them by language."""
    shards, context = plan.parts[index], cfg.context()
    fetch_all([context.download(shard) for shard in shards if shard.remote], cfg.num_connections)
    with workspace.write_part("route", index) as part_folder, open_log(cfg, part_folder) as log:
        write_json(part_folder / "inputs.json", {shard.name: input_of(context, shard) for shard in shards})
        docs: Iterable[Document] = documents(cfg, shards, log)
        docs = chain(cfg.stages(cfg.before_dedup), docs, log)
        docs = chain([cfg.router()], docs, log)
        writer = _RoutedWriter(part_folder / DOCS)
        for doc in docs:
            writer.add(doc)
        writer.close()
        write_json(part_folder / INDEX_FILE, writer.index)


def publish_routed(cfg: MonoConfig, workspace: Workspace, plan: Plan) -> None:
    """Publish the routed parts with their index."""
    folders = [workspace.part("route", i) for i in range(len(plan.parts))]
    ledger = merged_ledger(folders, cfg.num_samples)
    assert not ledger.unaccounted_bytes(), (
        f"bytes unaccounted for: {ledger.unaccounted_bytes()} of {ledger.num_bytes}"
    )
    counters, inputs = Counters(), dict[str, Any]()
    index: dict[str, dict[str, Any]] = {}
    for number, folder in enumerate(folders):
        counters.merge(Counters.from_json(read_json(folder / "counters.json")), cfg.num_samples)
        inputs |= read_json(folder / "inputs.json")
        digest = sha256(folder / DOCS)
        for lang, entry in read_json(folder / INDEX_FILE).items():
            index.setdefault(lang, {})[f"{number:05d}"] = entry | {"sha256": digest}
    with publish(cfg.root / FOLDER, STAGE_NAME, cfg.route_content()) as publication:
        (publication.path / PARTS_FOLDER).mkdir()
        for number, folder in enumerate(folders):
            link(folder / DOCS, publication.path / PARTS_FOLDER / f"{number:05d}.parquet")
        save_plan(plan, publication.path / PLAN_FILE)
        write_json(publication.path / INDEX_FILE, dict(sorted(index.items())))
        stats = {"sources": plan.sources, "inputs": inputs, "ledger": ledger_to_json(ledger)}
        write_json(publication.path / STATS, stats | {"counters": counters.to_json()})
        publication.counts |= {
            "documents": {lang: _total(parts, "documents") for lang, parts in sorted(index.items())}
        }


def _total(parts: dict[str, dict[str, Any]], name: str) -> int:
    return sum(part[name] for part in parts.values())


def routed(cfg: MonoConfig) -> bool:
    """Return whether the published folder was routed with these settings."""
    return manifest.up_to_date(cfg.root / FOLDER, STAGE_NAME, cfg.route_content()) is not None
