"""The plan of a build: its shards, their grouping into parts, and the expected downloads."""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from xling.core.output import manifest
from xling.core.output.answer import tell
from xling.core.output.parts import read_json, write_json
from xling.corpora.mono.settings import MonoConfig
from xling.corpora.sources.routed import Routed
from xling.corpora.sources.source import Shard, open_source, unique_names
from xling.corpora.stages.near_duplicates import BYTES_PER_HASH

FILE_NAME = "plan.json"
_MB = 1 << 20
# Sizes of Common Crawl's WET files of 2023 and 2024, only used to estimate downloads.
_USUAL_MB = 75
# Web text has one paragraph per 40 bytes or more; compressed files are a third of that or less.
_BYTES_PER_PARAGRAPH = 40
_EXPANSION = 4
_KEY_BYTES = 8
_BYTES_PER_DOCUMENT = 2000  # of web text that passes the filters, at the least


@dataclass(frozen=True)
class Scope:
    """Parts whose paragraphs are compared with each other.

    Attributes:
        first_part: number of the first; they follow each other.
        num_parts: how many.
        first_range: number of the first range of keys among those of all scopes.
        num_ranges: ranges of keys, so that one range of all these parts fits into memory.
    """

    first_part: int
    num_parts: int
    first_range: int
    num_ranges: int

    @property
    def parts(self) -> range:
        """Numbers of the parts that belong to this scope."""
        return range(self.first_part, self.first_part + self.num_parts)

    @property
    def ranges(self) -> range:
        """Numbers of the hash ranges that belong to this scope, counted over all scopes."""
        return range(self.first_range, self.first_range + self.num_ranges)


@dataclass(frozen=True)
class Plan:
    """The shards of a build, grouped into parts.

    Attributes:
        sources: one mapping a URI: ``uri``, ``licence``, ``num_shards``, ``num_bytes``.
        parts: the shards of each part, in order.
        scopes: which parts are compared with each other.
        stamps: local file -> modification time in ns, to see fast that the input has not changed.
        digests: local file -> SHA-256, to see that it has; empty in plans of version 0.2.
        num_near: ranges of MinHash values, so that one range of a band of all documents fits into memory.
        near_at_once: whether one part of the phase ``near`` takes all bands, as for little text.
    """

    sources: list[dict[str, Any]]
    parts: list[list[Shard]]
    scopes: list[Scope]
    stamps: dict[str, int]
    num_near: int = 1
    digests: dict[str, str] = field(default_factory=dict)
    near_at_once: bool = False

    @property
    def num_ranges(self) -> int:
        """Ranges of paragraph keys of all scopes."""
        return sum(scope.num_ranges for scope in self.scopes)

    def num_near_parts(self, cfg: MonoConfig) -> int:
        """Return the parts of the phase ``near``: every range of every band, or one."""
        return 1 if self.near_at_once else self.num_near * cfg.near.bands

    def near_slices(self, cfg: MonoConfig, index: int) -> range:
        """Return the slices of the sketches that part ``index`` of the phase ``near`` pairs."""
        return range(self.num_near * cfg.near.bands) if self.near_at_once else range(index, index + 1)

    def scope_of(self, part: int) -> Scope:
        """Return the scope of part number ``part``."""
        return next(scope for scope in self.scopes if part in scope.parts)

    def range_at(self, index: int) -> tuple[Scope, int]:
        """Return the scope of a deduplication range, and its number within that scope."""
        scope = next(scope for scope in self.scopes if index in scope.ranges)
        return scope, index - scope.first_range


def read_plan(path: Path) -> Plan:
    """Return the plan in a file."""
    data = read_json(path)
    parts = [[Shard(**shard) for shard in part] for part in data.pop("parts")]
    scopes = [Scope(**scope) for scope in data.pop("scopes")]
    return Plan(parts=parts, scopes=scopes, **data)


def make_plan(cfg: MonoConfig) -> Plan:
    """List the shards of all sources and group them.

    Raises:
        UserError: a source has nothing, or its list cannot be fetched.
    """
    sources, shards = [], []
    seen: set[Path] = set()
    for uri in cfg.uris:
        source = open_source(uri, cfg.context())
        if isinstance(source, Routed):
            shards += source.shards()
            sources += source.origins()
            continue
        new = [shard for shard in source.shards() if not (_local(shard) and _is_again(shard, seen))]
        sizes = [shard.num_bytes for shard in new]
        sources.append(
            {
                "uri": uri,
                "licence": source.licence,
                "num_shards": len(new),
                "num_bytes": None if None in sizes else sum(size or 0 for size in sizes),
            }
        )
        shards += new
    shards = unique_names(shards)
    # The first copy of a paragraph is kept, so clean sources come first; the order is otherwise as given.
    shards.sort(key=lambda shard: not cfg.is_reference(shard.source))
    parts, scopes = _group(_scoped(shards, cfg), cfg)
    return Plan(
        sources=sources,
        parts=parts,
        scopes=scopes,
        stamps={s.location: Path(s.location).stat().st_mtime_ns for s in shards if _local(s)},
        num_near=_num_near(shards, cfg),
        near_at_once=len(parts) == 1,
        digests={s.location: _digest(Path(s.location)) for s in shards if _local(s)},
    )


def _num_near(shards: list[Shard], cfg: MonoConfig) -> int:
    num_docs = sum(map(_bytes, shards)) * _EXPANSION / _BYTES_PER_DOCUMENT
    return max(1, math.ceil(num_docs * BYTES_PER_HASH / (cfg.memory_mb * _MB / 2)))


def _digest(path: Path) -> str:
    facts = path.stat()
    return _digest_of(path, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=1 << 16)
def _digest_of(path: Path, stamp: int, size: int) -> str:
    """Return the digest of a file: every language is made from the same routed files."""
    return manifest.sha256(path)


def _is_again(shard: Shard, seen: set[Path]) -> bool:
    """Return whether an earlier source names the same file: reading it twice would only give duplicates."""
    path = Path(shard.location).resolve()
    if path in seen:
        tell(f"{shard.location}: named twice, read once")
        return True
    seen.add(path)
    return False


def _local(shard: Shard) -> bool:
    return not shard.remote and Path(shard.location).is_file()


def _bytes(shard: Shard) -> int:
    return _USUAL_MB * _MB if shard.num_bytes is None else shard.num_bytes


def _scoped(shards: list[Shard], cfg: MonoConfig) -> list[list[Shard]]:
    """Group the shards into scopes of deduplication, in order."""
    if cfg.dedup_scope == "all":
        return [shards]
    if any(shard.scope for shard in shards):  # as it was when they were routed
        return [list(group) for _, group in itertools.groupby(shards, key=lambda shard: shard.scope)]
    scopes = [list(group) for _, group in itertools.groupby(shards, key=lambda shard: shard.source)]
    if cfg.dedup_scope == "group":
        size = cfg.dedup_group
        scopes = [scope[i : i + size] for scope in scopes for i in range(0, len(scope), size)]
    return scopes


def _group(scopes: list[list[Shard]], cfg: MonoConfig) -> tuple[list[list[Shard]], list[Scope]]:
    """Return parts of about ``part_mb``; no part holds shards of two scopes."""
    parts: list[list[Shard]] = []
    grouped: list[Scope] = []
    num_ranges = 0
    for shards in scopes:
        first, size = len(parts), 0.0
        for shard in shards:
            if len(parts) == first or size + _bytes(shard) > cfg.part_mb * _MB:
                parts.append([])
                size = 0
            parts[-1].append(shard)
            size += _bytes(shard)
        keys_mb = sum(map(_bytes, shards)) * _EXPANSION / _BYTES_PER_PARAGRAPH * _KEY_BYTES / _MB
        ranges = max(1, math.ceil(keys_mb / (cfg.memory_mb / 4)))
        grouped.append(Scope(first, len(parts) - first, num_ranges, ranges))
        num_ranges += ranges
    return parts, grouped


def planned_bytes(plan: Plan) -> int:
    """Return the stored size of all shards; a usual one for files of Common Crawl that are not here."""
    return sum(_bytes(shard) for part in plan.parts for shard in part)


def routed_plan(plan: Plan, cfg: MonoConfig, text: float) -> Plan:
    """Return the plan of a language of which ``text`` bytes are spread over the routed parts of ``plan``."""
    size = max(1, int(text / _EXPANSION / len(plan.parts)))
    shards = [Shard(f"routed-{i:05d}", "", cfg.uris[0], size) for i in range(len(plan.parts))]
    parts, scopes = _group([shards], cfg)
    return Plan([], parts, scopes, {}, _num_near(shards, cfg), near_at_once=len(parts) == 1)


def still_true(plan: Plan, cfg: MonoConfig) -> bool:
    """Return whether the local files hold what they held at planning; remote ones are not checked."""
    for location, stamp in plan.stamps.items():
        path = Path(location)
        if not path.is_file():
            return False
        if path.stat().st_mtime_ns != stamp and manifest.sha256(path) != plan.digests.get(location):
            return False
    planned = {s.location for part in plan.parts for s in part}
    for uri in cfg.uris:
        _, sign, rest = uri.partition(":")
        if sign and rest and not uri.startswith(("hf:", "cc:", "cc100:", "toyworld:")):
            now = {s.location for s in open_source(uri, cfg.context()).shards()}
            if not now <= planned:
                return False
    return True


def other_files(plan: Plan, now: Plan) -> list[str]:
    """Say for each local file of a plan for the same settings whether its content is new; empty if none is.

    A file counts as the same if it has the same content at the same place of the order, wherever it lies.
    """
    before, given = (list(each.digests.values()) for each in (plan, now))
    if before == given:
        return []
    known = set(before)
    new = [f"{path} has other content" for path, digest in now.digests.items() if digest not in known]
    return new or [f"{len(before)} files, now {len(given)}, or in another order"]


def save_plan(plan: Plan, path: Path) -> None:
    """Write the plan; it is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    write_json(temporary, asdict(plan))
    temporary.replace(path)


def announce_default(cfg: MonoConfig) -> None:
    """Say on standard error what an empty ``source`` means, before the network is touched."""
    if cfg.source:
        return
    count = f"{cfg.size} files" if cfg.size else "all files"
    about = f", about {_human(cfg.size * _USUAL_MB * _MB)}" if cfg.size else ", several terabytes"
    tell(
        f"{cfg.lang}: no source= given: its Wikipedia dump from {cfg.context().base_url('wiki')} and {count} of "
        f"{cfg.dump} from {cfg.context().base_url('cc')}{about} (size= and dump= change that)"
    )


def announce(plan: Plan, cfg: MonoConfig) -> None:
    """Say on standard error what will be read, and what will be downloaded first."""
    context = cfg.context()
    parts = len(plan.parts)
    lines = [f"{cfg.lang}: {parts} part{'s' * (parts != 1)} into {cfg.directory}"]
    for source in plan.sources:
        size = "size not stated" if source["num_bytes"] is None else _human(source["num_bytes"])
        shards = f"{source['num_shards']} shard{'s' * (source['num_shards'] != 1)}"
        lines.append(f"  {source['uri']}: {shards}, {size}, licence: {source['licence']}")
    remote = [shard for part in plan.parts for shard in part if shard.remote]
    missing = [shard for shard in remote if not context.download(shard).path.is_file()]
    if remote:
        known = sum(_bytes(shard) for shard in missing)
        about = "about " if any(shard.num_bytes is None for shard in missing) else ""
        lines.append(
            f"  to download: {len(missing)} of {len(remote)} files, {about}{_human(known)}, into {context.cache}"
        )
        lines += [f"    {shard.location}" for shard in missing[:5]]
        if len(missing) > 5:
            lines.append(f"    ... and {len(missing) - 5} more")
    tell("\n".join(lines))


def _human(num_bytes: float) -> str:
    units = ["B", "kB", "MB", "GB", "TB"]
    while num_bytes >= 1000 and len(units) > 1:
        num_bytes /= 1000
        units.pop(0)
    return (
        f"{num_bytes:,.1f} {units[0]}"
        if num_bytes < 10 and units[0] != "B"
        else f"{num_bytes:,.0f} {units[0]}"
    )
