"""Estimate of the cost of a build by phase: ``xling corpus mono ... dry_run=true``. Only lists of files are read.

Parts and ranges come from the plan that the build itself would make. For many languages the text is taken to be spread
evenly over them. How much each has is known only after routing, so they have more parts in truth.

Seconds, bytes and memory are rates of builds on real pages (``docs/results.d/corpora.md``) times sizes. Those of
``against``, ``near``, ``fit``, ``score``, ``cut`` and ``finish`` are guesses. All text is taken to be in the languages
asked for, so the phases after identification cost less in truth, unless ``lang=all``.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace

from xling.core.commands.closing import readable_size
from xling.core.output.command_result import Answer
from xling.corpora.mono import one
from xling.corpora.mono.build import Build, Plan, resolve
from xling.corpora.mono.plan import make_plan, planned_bytes, routed_plan, stored_bytes
from xling.corpora.stages.lines import Lines
from xling.corpora.stages.near_duplicates import BYTES_PER_HASH

MANY_LANGS = 100
"""Languages that ``lang=all`` is taken to find."""
_TEXT_PER_STORED = 2.56  # bytes of WET text for a byte of its gzip
_PLAIN = (".txt", ".csv", ".tsv", ".jsonl", ".json", ".wet")  # a byte for a byte
_KEPT_SHARE = 0.75  # of the text: what paragraph deduplication keeps of pages
_BYTES_PER_DOC, _BYTES_PER_PARAGRAPH = 3000, 43
_BASE_MB = 170  # of a process with the libraries that a build needs
_PLAIN_MB = _BASE_MB + 60  # of one that holds a few documents at a time
_MODELS_MB = 310  # of identification, lines and filters
_BUFFERS_MB = 190  # of text that is read, and of text that waits for its language's file
_SORTED_KEYS = 4_000_000  # of a part at a time
_SORTING_BYTES = 56  # of each
_ROUTING_MB = _BASE_MB + _MODELS_MB + _BUFFERS_MB
_MB = 1e6


@dataclass(frozen=True)
class Rate:
    """Cost of a phase of a build, for a megabyte of text and for a part.

    Attributes:
        cpu_s: processor seconds for a megabyte of text.
        read: bytes read for a byte of text, as stored.
        written: bytes written for a byte of text, as stored.
        part_s: processor seconds of each part, however small.
    """

    cpu_s: float
    read: float
    written: float
    part_s: float = 0.02


# Seconds of route, read, dedup and filter are those of a streamed build of 20 GB, bytes those of smaller builds
# (docs/results.d/corpora.md). Those of shingle were measured before; the others are high guesses.
RATES = {
    "route": Rate(0.05, 0.39, 0.37),
    "read": Rate(0.065, 0.39, 0.83),
    "dedup": Rate(0.001, 0.16, 0.02),
    "filter": Rate(0.05, 0.67, 0.55, 0.05),
    "against": Rate(0.004, 0.3, 0.06),
    "near": Rate(0.0015, 0.06, 0.005),
    "shingle": Rate(0.05, 0.3, 0.1),
    "fit": Rate(0.001, 0.01, 0.001),
    "score": Rate(0.004, 0.3, 0.3),
    "cut": Rate(0.0, 0.001, 0.0),
    "finish": Rate(0.004, 0.3, 0.3),
}
_HASHING = Rate(0.015, 0.39, 0.46)  # ``read`` after routing: the documents are not written again
_BOILERPLATE_CPU_S = 0.056
_PHASES_AFTER_DEDUP = frozenset({"near", "shingle", "fit", "score", "cut", "finish"})


@dataclass(frozen=True)
class Cost:
    """Estimated cost of a phase, all parts together, but memory.

    Attributes:
        parts: independent jobs.
        core_hours: processor time.
        written_gb: gigabytes written, the intermediate ones included.
        memory_mb: of one process.
    """

    phase: str
    parts: int
    core_hours: float
    read_gb: float
    written_gb: float
    memory_mb: float


def run(build: Build) -> Answer:
    """Return the estimated cost of a build as a table."""
    build = replace(build, plan=make_plan(build))
    rows = list(costs(build))
    added = ("parts", "core_hours", "read_gb", "written_gb")
    sums = {name: sum(getattr(row, name) for row in rows) for name in added}
    total = Cost("together", **sums, memory_mb=max(row.memory_mb for row in rows))
    stored, num_files = planned_bytes(build.plan), sum(map(len, build.plan.parts))
    lines = [
        f"{build.cfg.lang}: {num_files:,} file{'' if num_files == 1 else 's'}, {_size(stored)} as stored, about "
        f"{_size(_text_bytes(build.plan))} of text; "
        + (
            "of Common Crawl the index was read, and no record"
            if build.cfg.reads_index
            else "nothing was read or written"
        ),
        f"{'phase':10}{'parts':>10}{'core-hours':>12}{'GB read':>11}{'GB written':>12}{'MB memory':>11}",
    ]
    lines += [
        f"{row.phase:10}{row.parts:>10,}{row.core_hours:>12,.1f}{row.read_gb:>11,.1f}{row.written_gb:>12,.1f}"
        f"{row.memory_mb:>11,.0f}"
        for row in (*rows, total)
    ]
    return Answer("\n".join(lines), {"phases": [asdict(row) for row in rows], "together": asdict(total)})


def _text_bytes(plan: Plan) -> float:
    """Return about how much text the shards have."""
    shards = [shard for part in plan.parts for shard in part]
    return sum(stored_bytes(x) * (1 if x.location.endswith(_PLAIN) else _TEXT_PER_STORED) for x in shards)


def _size(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:,.0f} GB" if num_bytes >= 1e9 else readable_size(num_bytes)


def costs(build: Build) -> Iterator[Cost]:
    """Yield the cost of every phase of a build with its plan."""
    text_bytes = _text_bytes(build.plan)
    if not build.is_crawl:
        yield from _of_phases([build], text_bytes, _with_boilerplate_stage(build, RATES["read"]))
        return
    yield _cost(
        "route",
        _with_boilerplate_stage(build, RATES["route"]),
        len(build.plan.parts),
        text_bytes,
        _ROUTING_MB,
    )
    langs = build.langs or tuple(f"{number}" for number in range(MANY_LANGS))
    each = resolve(build.cfg.for_lang(next(iter(build.langs), "en")))
    each = replace(each, plan=routed_plan(build.plan, each, text_bytes / len(langs)))
    yield from _of_phases([each] * len(langs), text_bytes, _HASHING)


def _of_phases(builds: list[Build], text_bytes: float, reading: Rate) -> Iterator[Cost]:
    """Yield the costs of the phases of one or several equal builds, packed.

    Args:
        builds: each with its plan.
        text_bytes: bytes of all of them together.
        reading: of the phase ``read``.
    """
    build = builds[0]
    for phase in one.phases(build):
        if phase.name not in RATES:
            continue
        share = _KEPT_SHARE if phase.name in _PHASES_AFTER_DEDUP else 1.0
        rate = reading if phase.name == "read" else RATES[phase.name]
        memory_mb = _MEMORY[phase.name](build, text_bytes / len(builds))
        num_bytes = _earlier_bytes(builds) if phase.name == "against" else share * text_bytes
        yield _cost(phase.name, rate, phase.num_parts * len(builds), num_bytes, memory_mb)


def _earlier_bytes(builds: list[Build]) -> float:
    """Return about how much text the earlier corpora have."""
    return sum(path.stat().st_size for path in builds[0].earlier) * _TEXT_PER_STORED * len(builds)


def _with_boilerplate_stage(build: Build, rate: Rate) -> Rate:
    """Return the rate with the processor seconds of the stage that drops menus, if it runs."""
    return (
        replace(rate, cpu_s=rate.cpu_s + _BOILERPLATE_CPU_S) if Lines.name in build.cfg.before_dedup else rate
    )


def _cost(name: str, rate: Rate, parts: int, text_bytes: float, memory_mb: float) -> Cost:
    seconds = text_bytes / _MB * rate.cpu_s + parts * rate.part_s
    return Cost(
        name, parts, seconds / 3600, text_bytes * rate.read / 1e9, text_bytes * rate.written / 1e9, memory_mb
    )


def _reading_mb(plan: Plan) -> float:
    """Return the memory of reading a part: models, buffers, and the keys of its paragraphs."""
    keys = _text_bytes(plan) / len(plan.parts) / _BYTES_PER_PARAGRAPH
    return _ROUTING_MB + (8 * keys + _SORTING_BYTES * min(keys, _SORTED_KEYS)) / _MB


def _dedup_mb(build: Build, text_bytes: float) -> float:
    return _BASE_MB + 4 * 8 * text_bytes / _BYTES_PER_PARAGRAPH / build.plan.num_ranges / _MB


def _hashes_mb(text_bytes: float) -> float:
    """Return the size of the MinHash values of all documents."""
    return BYTES_PER_HASH * text_bytes * _KEPT_SHARE / _BYTES_PER_DOC / _MB


_MEMORY: dict[str, Callable[[Build, float], float]] = {
    "read": lambda build, text_bytes: _reading_mb(build.plan),
    "dedup": _dedup_mb,
    "filter": lambda build, text_bytes: _reading_mb(build.plan) + 300,
    "against": lambda build, text_bytes: _PLAIN_MB,
    "near": lambda build, text_bytes: _BASE_MB + _hashes_mb(text_bytes) / build.plan.num_near,
    "shingle": lambda build, text_bytes: _PLAIN_MB,
    "fit": lambda build, text_bytes: _BASE_MB + min(build.cfg.memory_mb, _hashes_mb(text_bytes)),
    "score": lambda build, text_bytes: _PLAIN_MB,
    "cut": lambda build, text_bytes: _PLAIN_MB,
    "finish": lambda build, text_bytes: _PLAIN_MB,
}
