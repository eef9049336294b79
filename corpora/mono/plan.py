"""How a build is planned: list the shards, group them into parts and ranges, and say what will be downloaded."""

import itertools
import math
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

from xling.core.commands.closing import readable_size
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import tell
from xling.corpora.mono.build import Build, Plan, Scope, save_plan
from xling.corpora.sources.routed import Routed
from xling.corpora.sources.source import Shard, open_source, unique_names
from xling.corpora.stages import Stage
from xling.corpora.stages.langid import LangId, model_settings
from xling.corpora.stages.near_duplicates import BYTES_PER_HASH

_MB = 1 << 20
# Sizes of Common Crawl's WET files of 2023 and 2024, only used to estimate downloads.
_TYPICAL_SHARD_MB = 75
# Web text has one paragraph per 40 bytes or more; compressed files are a third of that or less.
_BYTES_PER_PARAGRAPH = 40
_EXPANSION = 4
_KEY_BYTES = 8
_BYTES_PER_DOCUMENT = 2000  # of web text that passes the filters, at the least


def make_plan(build: Build) -> Plan:
    """List the shards of all sources and group them.

    Raises:
        UserError: a source has nothing, or its list cannot be fetched.
    """
    sources, shards = [], []
    seen: set[Path] = set()
    for uri in build.uris:
        source = open_source(uri, build.context)
        if isinstance(source, Routed):
            # A document keeps the language that it was identified as, so the model must be the same.
            own = model_settings(build.cfg.settings)
            if not source.again and model_settings(source.settings()) != own:
                raise UserError(
                    f"{source.uri} was identified with another model than {own.get('model', 'the built-in one')}",
                    "the same settings.langid.model and labels",
                    f"identify it again: source={source.uri}#again",
                )
            shards += source.shards()
            sources += source.origins()
            continue
        unseen = [shard for shard in source.shards() if not (_is_local(shard) and _is_repeated(shard, seen))]
        sizes = [shard.num_bytes for shard in unseen]
        num_bytes = None if None in sizes else sum(size or 0 for size in sizes)
        told = {"uri": uri, "licence": source.licence, "num_shards": len(unseen), "num_bytes": num_bytes}
        sources.append(told)
        shards += unseen
    if not shards:
        raise UserError(f"no file in {', '.join(build.uris)}", fix="check source=, dump= and base_urls=")
    shards = unique_names(shards)
    # The first copy of a paragraph is kept, so clean sources come first; the order is otherwise as given.
    shards.sort(key=lambda shard: not shard.source.startswith(build.cfg.lm.reference))
    parts, scopes = _into_parts(_scopes_of(shards, build), build)
    return Plan(
        sources=sources,
        parts=parts,
        scopes=scopes,
        num_near=_num_near(shards, build),
        near_at_once=len(parts) == 1 and not build.earlier,
        digests={s.location: manifest.check_file(Path(s.location)) for s in shards if _is_local(s)},
    )


def _num_near(shards: list[Shard], build: Build) -> int:
    num_docs = sum(map(stored_bytes, shards)) * _EXPANSION / _BYTES_PER_DOCUMENT
    num_docs += sum(pq.read_metadata(path).num_rows for path in build.earlier)
    return max(1, math.ceil(num_docs * BYTES_PER_HASH / (build.cfg.memory_mb * _MB / 2)))


def _is_repeated(shard: Shard, earlier: set[Path]) -> bool:
    """Return whether an earlier source names the same file: reading it twice would only give duplicates."""
    path = Path(shard.location).resolve()
    if path in earlier:
        tell(f"{shard.location}: named twice, read once")
        return True
    earlier.add(path)
    return False


def _is_local(shard: Shard) -> bool:
    return not shard.remote and Path(shard.location).is_file()


def stored_bytes(shard: Shard) -> int:
    """Return the stored size of a shard; a usual one where it is not known."""
    return _TYPICAL_SHARD_MB * _MB if shard.num_bytes is None else shard.num_bytes


def _scopes_of(shards: list[Shard], build: Build) -> list[list[Shard]]:
    """Group the shards into scopes of deduplication, in order."""
    if build.cfg.dedup_scope == "all":
        return [shards]
    if any(shard.scope for shard in shards):  # as it was when they were routed
        return [list(group) for _, group in itertools.groupby(shards, key=lambda shard: shard.scope)]
    scopes = [list(group) for _, group in itertools.groupby(shards, key=lambda shard: shard.source)]
    if build.cfg.dedup_scope == "group":
        size = build.cfg.dedup_group
        scopes = [scope[i : i + size] for scope in scopes for i in range(0, len(scope), size)]
    return scopes


def _into_parts(scopes: list[list[Shard]], build: Build) -> tuple[list[list[Shard]], list[Scope]]:
    """Return parts of about ``part_mb``; no part holds shards of two scopes."""
    parts: list[list[Shard]] = []
    grouped: list[Scope] = []
    num_ranges = 0
    for shards in scopes:
        first, size = len(parts), 0.0
        for shard in shards:
            if len(parts) == first or size + stored_bytes(shard) > build.cfg.part_mb * _MB:
                parts.append([])
                size = 0
            parts[-1].append(shard)
            size += stored_bytes(shard)
        keys_mb = sum(map(stored_bytes, shards)) * _EXPANSION / _BYTES_PER_PARAGRAPH * _KEY_BYTES / _MB
        ranges = max(1, math.ceil(keys_mb / (build.cfg.memory_mb / 4)))
        grouped.append(Scope(first, len(parts) - first, num_ranges, ranges))
        num_ranges += ranges
    return parts, grouped


def planned_bytes(plan: Plan) -> int:
    """Return the stored size of all shards; a usual one for files of Common Crawl that are not here."""
    return sum(stored_bytes(shard) for part in plan.parts for shard in part)


def routed_plan(plan: Plan, build: Build, text: float) -> Plan:
    """Return the plan of a language of which ``text`` bytes are spread over the routed parts of ``plan``."""
    size = max(1, int(text / _EXPANSION / len(plan.parts)))
    shards = [Shard(f"routed-{i:05d}", "", build.uris[0], size) for i in range(len(plan.parts))]
    parts, scopes = _into_parts([shards], build)
    return Plan(
        [], parts, scopes, _num_near(shards, build), near_at_once=len(parts) == 1 and not build.earlier
    )


def is_current(plan: Plan, build: Build) -> bool:
    """Return whether the local files hold what they held at planning; remote ones are not checked."""
    for location, digest in plan.digests.items():
        if not Path(location).is_file() or manifest.check_file(Path(location)) != digest:
            return False
    planned_locations = {s.location for part in plan.parts for s in part}
    for uri in build.uris:
        _, sign, rest = uri.partition(":")
        if sign and rest and not uri.startswith(("hf:", "cc:", "cc-index:", "cc100:", "toyworld:")):
            locations = {s.location for s in open_source(uri, build.context).shards()}
            if not locations <= planned_locations:
                return False
    return True


def save_new_plan(build: Build, stages: Iterable[Stage], aloud: bool = True) -> Plan:
    """List the input, save the plan in the workspace and return it.

    Args:
        stages: of which one may identify languages; it must know those of the build.
        aloud: whether the plan is written on standard error.

    Raises:
        UserError: a language is unknown to language identification, or a source has nothing.
    """
    for stage in stages:
        if isinstance(stage, LangId):
            stage.check()
            if aloud and (hard := stage.hard_to_find()):
                tell("\n".join(hard))
    announce_default(build)
    plan = make_plan(build)
    save_plan(plan, build.workspace)
    if aloud:
        announce(plan, build)
    return plan


def announce_default(build: Build) -> None:
    """Say on standard error what an empty ``source`` means, before the network is touched."""
    if build.cfg.source:
        return
    wiki = "" if build.is_crawl else f"its Wikipedia dump from {build.context.base_url('wiki')} and "
    if build.cfg.reads_index:
        tell(
            f"{build.cfg.lang}: no source= given: {wiki}its pages in {build.cfg.dump} by the index at "
            f"{build.context.base_url('cc')}, at most {readable_size(build.cfg.index_bytes)} (size=, time= and dump= "
            "change that; a number in size= takes so many random files instead)"
        )
        return
    num_files = build.cfg.num_files
    count = f"{num_files} files" if num_files else "all files"
    about = (
        f", about {readable_size(num_files * _TYPICAL_SHARD_MB * _MB)}"
        if num_files
        else ", several terabytes"
    )
    tell(
        f"{build.cfg.lang}: no source= given: {wiki}{count} of "
        f"{build.cfg.dump} from {build.context.base_url('cc')}{about} (size= and dump= change that)"
    )


def announce(plan: Plan, build: Build) -> None:
    """Say on standard error what will be read, and what will be downloaded first."""
    context = build.context
    parts = len(plan.parts)
    lines = [f"{build.cfg.lang}: {parts} part{'s' * (parts != 1)} into {build.out}"]
    for source in plan.sources:
        size = "size not stated" if source["num_bytes"] is None else readable_size(source["num_bytes"])
        shards = f"{source['num_shards']} shard{'s' * (source['num_shards'] != 1)}"
        lines.append(f"  {source['uri']}: {shards}, {size}, licence: {source['licence']}")
    remote = [shard for part in plan.parts for shard in part if shard.remote]
    missing = [shard for shard in remote if not context.download(shard).path.is_file()]
    if remote:
        known = sum(stored_bytes(shard) for shard in missing)
        about = "about " if any(shard.num_bytes is None for shard in missing) else ""
        lines.append(
            f"  to download: {len(missing)} of {len(remote)} files, {about}{readable_size(known)}, "
            f"into {context.cache}"
        )
        lines += [f"    {shard.location}" for shard in missing[:5]]
        if len(missing) > 5:
            lines.append(f"    ... and {len(missing) - 5} more")
    tell("\n".join(lines))
