"""One reading for many languages: read, repair and identify every document once, and route it to its language.

A routed part is one Parquet file. Each of its row groups holds documents of one language, in their order, so that
a language is read without the others. The published folder has an index of the row groups::

    OUT/routed/parts/00000.parquet ...   the documents
    OUT/routed/rejects/ ...              what was dropped before it had a language
    OUT/routed/index.json                language -> part -> row groups, documents, characters
    OUT/routed/stats.json                what was read, dropped and lost, and the declared and the found languages
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from xling.core.output import manifest
from xling.core.output.manifest import publish, sha256
from xling.core.output.parts import read_json, write_json
from xling.core.settings import config
from xling.corpora.card.ledgers import ledger_to_json, merged_counters, merged_ledger
from xling.corpora.common.shards import SCHEMA, open_table, to_row
from xling.corpora.mono.build import Build
from xling.corpora.mono.parts import DOCS, INPUTS, chain, reading
from xling.corpora.mono.publish_phase import link, link_rejects
from xling.corpora.mono.settings import ALL
from xling.corpora.sources.routed import INDEX_FILE, PARTS_FOLDER, PLAN_FILE
from xling.corpora.stages.langid import LangId, model_settings
from xling.text.document import Document

STAGE_NAME = "corpus route"
FOLDER, STATS = "routed", "stats.json"
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


def router(build: Build) -> LangId:
    """Return the stage that identifies documents of several languages, without each language's own threshold."""
    routes_all = build.cfg.lang == ALL or build.cfg.others == "keep"
    settings = model_settings(build.cfg.settings) | {
        "langs": [] if routes_all else list(build.langs),
        "threshold": 0.0,
        "min_script_share": 0.0,
    }
    return config.from_dict(LangId, settings, f"settings.{LangId.name}")


def _content(build: Build) -> dict[str, Any]:
    """Return the settings that determine the routing, with digests of the files that they name."""
    cfg = build.cfg
    names = ["size", "time", "hosts", "neighbours", "dump", "base_urls", "extract", "max_docs", "max_chars"]
    names += ["seed", "part_mb", "before_dedup", "dedup_scope"]
    content = {
        "uris": config.to_dict(build.uris),
        **{
            name: config.to_dict(getattr(cfg, name))
            for name in (*names, "seed", "part_mb", "before_dedup", "dedup_scope")
        },
        "lang": ALL if cfg.others == "keep" else cfg.lang,
        "settings": {name: cfg.settings.get(name, {}) for name in cfg.before_dedup}
        | {LangId.name: model_settings(cfg.settings)},
    }
    return content | {"files": manifest.digest_paths_in([*build.before_dedup, router(build)])}


def run_route(build: Build, index: int) -> None:
    """Read, repair and identify the shards of one part, and write them by language."""
    with reading(build, "route", index) as (part_folder, log, docs):
        writer = _RoutedWriter(part_folder / DOCS)
        for doc in chain([router(build)], docs, log):
            writer.add(doc)
        writer.close()
        write_json(part_folder / INDEX_FILE, writer.index)


def publish_routed(build: Build) -> None:
    """Publish the routed parts with their index."""
    folders = [build.workspace.part("route", i) for i in range(len(build.plan.parts))]
    ledger = merged_ledger(folders, build.cfg.num_samples)
    assert not ledger.unaccounted_bytes(), (
        f"bytes unaccounted for: {ledger.unaccounted_bytes()} of {ledger.num_bytes}"
    )
    counters, inputs = merged_counters(folders, build.cfg.num_samples), dict[str, Any]()
    index: dict[str, dict[str, Any]] = {}
    for number, folder in enumerate(folders):
        inputs |= read_json(folder / INPUTS)
        digest = sha256(folder / DOCS)
        for lang, entry in read_json(folder / INDEX_FILE).items():
            index.setdefault(lang, {})[f"{number:05d}"] = entry | {"sha256": digest}
    with publish(build.root / FOLDER, STAGE_NAME, _content(build)) as publication:
        (publication.path / PARTS_FOLDER).mkdir()
        for number, folder in enumerate(folders):
            link(folder / DOCS, publication.path / PARTS_FOLDER / f"{number:05d}.parquet")
        link_rejects(folders, publication.path)
        write_json(publication.path / PLAN_FILE, asdict(build.plan))
        write_json(publication.path / INDEX_FILE, dict(sorted(index.items())))
        stats = {"sources": build.plan.sources, "inputs": inputs, "ledger": ledger_to_json(ledger)}
        write_json(publication.path / STATS, stats | {"counters": counters.to_json()})
        publication.counts |= {
            "documents": {
                lang: sum(part["documents"] for part in parts.values())
                for lang, parts in sorted(index.items())
            }
        }


def is_routed(build: Build) -> bool:
    """Return whether the published folder was routed with these settings."""
    return manifest.up_to_date(build.root / FOLDER, STAGE_NAME, _content(build)) is not None
