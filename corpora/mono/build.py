"""One build, resolved once from its settings: what every phase is handed instead of the settings.

`resolve` reads the settings, the digests of the files that they name, the digest of the code and the saved plan. A
`Build` then says where the output and the intermediate parts are, what the sources need, which stages run, and how
the input is divided into parts and ranges.
"""

import contextlib
import functools
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.output import manifest, sealed
from xling.core.output.parts import Workspace, read_json
from xling.core.settings import config, values
from xling.corpora.card.publication import STATS
from xling.corpora.common.shards import corpus_shards
from xling.corpora.crawl_index.settings import IndexSettings
from xling.corpora.mono.settings import ALL, CC_INDEX, FOLDER, MonoConfig, is_crawl, is_published
from xling.corpora.sources.source import Context, Shard
from xling.corpora.stages import Stage, configured
from xling.corpora.stages.langid import LangId
from xling.corpora.stages.length import Length
from xling.text.document import Document

PLAN = "plan.json"
OVERVIEW = "overview"
# Settings that change how a corpus is made but not what it holds.
_NOT_CONTENT = frozenset({"out", "cache", "num_connections", "keep_work", "memory_mb", "dry_run", "contact"})


@dataclass(frozen=True)
class Scope:
    """Parts whose paragraphs are compared with each other.

    Attributes:
        first_part: number of the first; they follow each other.
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
        digests: local file -> SHA-256, to see whether the input has changed; empty in plans of version 0.2.
        num_near: ranges of MinHash values, so that one range of a band of all documents fits into memory.
        near_at_once: whether one part of the phase ``near`` takes all bands, as for little text.
    """

    sources: list[dict[str, Any]]
    parts: list[list[Shard]]
    scopes: list[Scope]
    num_near: int = 1
    digests: dict[str, str] = field(default_factory=dict)
    near_at_once: bool = False

    @property
    def num_ranges(self) -> int:
        """Ranges of paragraph keys of all scopes."""
        return sum(scope.num_ranges for scope in self.scopes)

    def num_near_parts(self, bands: int) -> int:
        """Return the parts of the phase ``near``: every range of each of the ``bands``, or one."""
        return 1 if self.near_at_once else self.num_near * bands

    def near_slices(self, bands: int, index: int) -> range:
        """Return the slices of the sketches that part ``index`` of the phase ``near`` pairs."""
        return range(self.num_near * bands) if self.near_at_once else range(index, index + 1)

    def scope_of(self, part: int) -> Scope:
        """Return the scope of part number ``part``."""
        return next(scope for scope in self.scopes if part in scope.parts)

    def range_at(self, index: int) -> tuple[Scope, int]:
        """Return the scope of a deduplication range, and its number within that scope."""
        scope = next(scope for scope in self.scopes if index in scope.ranges)
        return scope, index - scope.first_range


@dataclass(frozen=True)
class Build:
    """A build of one language, or of a crawl in many.

    Attributes:
        is_crawl: whether several languages are built.
        langs: the languages in the settings; none for ``lang=all``.
        root: folder that holds the folder of each language.
        out: folder that is published: the corpus, or the overview of a crawl.
        uris: the sources, the default ones when none is given.
        content: settings that determine the output, with digests of the files that they name; JSON-ready.
        context: what the sources need besides their URIs.
        before_dedup: the stages ahead of paragraph deduplication.
        after_dedup: the stages behind it.
        plan: its shards, parts and ranges, none before the phase ``plan`` and after the publication.
        earlier: shards of the corpora that it is compared with.
    """

    cfg: MonoConfig
    is_crawl: bool
    langs: tuple[str, ...]
    root: Path
    out: Path
    uris: tuple[str, ...]
    content: dict[str, Any]
    workspace: Workspace
    context: Context
    before_dedup: list[Stage]
    after_dedup: list[Stage]
    plan: Plan
    earlier: tuple[Path, ...] = ()


def resolve(cfg: MonoConfig) -> Build:
    """Return the build that the settings describe, as it stands.

    Raises:
        UserError: a file that the settings name does not exist, or the output is the working directory.
    """
    several = is_crawl(cfg.lang)
    out = Path(cfg.out or FOLDER, OVERVIEW) if several else Path(cfg.out or f"{FOLDER}/{cfg.lang}")
    before_dedup = configured(cfg.before_dedup, cfg.lang, cfg.settings)
    after_dedup = configured(cfg.after_dedup, cfg.lang, cfg.settings)
    names = [each.name for each in fields(cfg) if each.name not in _NOT_CONTENT]
    content = {name: config.to_dict(getattr(cfg, name)) for name in names}
    models = [] if cfg.lm.model in ("auto", "none") else [Path(cfg.lm.model)]
    folders = _earlier_corpora(cfg)
    if files := manifest.digest_paths_in([models, before_dedup, after_dedup, folders]):
        content["files"] = files
    workspace = Workspace.for_output(out, content)
    context = Context(
        lang=cfg.lang,
        size=cfg.num_files,
        seed=cfg.seed,
        cache=Path(cfg.cache),
        base_urls=cfg.base_urls,
        extract=cfg.extract,
        min_main=max([1, *(stage.min_chars for stage in before_dedup if isinstance(stage, Length))]),
        max_chars=cfg.max_chars,
        index=_index_settings(cfg),
    )
    plan = Plan([], [], [])
    # There is none yet, or another process has just published the output and deletes the workspace.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        fix = f"delete {workspace.root} and run the same command again"
        plan = _to_plan(sealed.read_json(workspace.root / PLAN, fix))
    return Build(
        cfg=cfg,
        is_crawl=several,
        langs=() if cfg.lang == ALL else tuple(cfg.lang.split(",")),
        root=out.parent,
        out=out,
        uris=cfg.source or _default_uris(cfg),
        content=content,
        workspace=workspace,
        context=context,
        before_dedup=before_dedup,
        after_dedup=after_dedup,
        plan=plan,
        earlier=() if several else tuple(shard for folder in folders for shard in corpus_shards(folder)),
    )


def _earlier_corpora(cfg: MonoConfig) -> list[Path]:
    """Return the folders of the corpora that ``against`` names.

    Raises:
        UserError: there is no corpus, one is of another language, or it is the output itself.
    """
    several, corpora = is_crawl(cfg.lang), list[Path]()
    for folder in map(Path, cfg.against):
        if several:
            folders = sorted(each.parent for each in folder.glob(f"*/{manifest.FILE_NAME}"))
            folders = [each for each in folders if (each / "shards").is_dir()]
        else:
            folders = [folder if is_published(folder) else folder / cfg.lang]
        if not folders:
            raise UserError(f"against={folder} holds no corpora", "a folder that xling corpus mono made")
        for each in folders:
            corpus_shards(each)
            lang = read_json(each / STATS).get("lang", "")
            if lang != (each.name if several else cfg.lang):
                raise UserError(f"against={each}: a corpus of {lang or 'pairs'}", f"a corpus of {cfg.lang}")
        corpora += folders
    return corpora


def _default_uris(cfg: MonoConfig) -> tuple[str, ...]:
    if is_crawl(cfg.lang):
        return (f"cc:{cfg.dump}",)
    return ("wiki:", f"{CC_INDEX if cfg.reads_index else 'cc'}:{cfg.dump}")


def _index_settings(cfg: MonoConfig) -> IndexSettings:
    """Return what Common Crawl's index is asked for; pages are identified as the stage ``langid`` does."""
    langs = [] if cfg.lang == ALL else cfg.lang.split(",")
    settings = dict(cfg.settings.get(LangId.name, {})) | {"langs": langs}
    stage = config.from_dict(LangId, settings, f"settings.{LangId.name}")
    return IndexSettings(
        num_bytes=cfg.index_bytes,
        seconds=values.num_seconds("time", cfg.time),
        hosts=cfg.hosts,
        neighbours=cfg.neighbours,
        contact=cfg.contact,
        identify=functools.partial(_are_wanted, stage) if langs else None,
        only_plan=cfg.dry_run,
    )


def _are_wanted(stage: LangId, docs: list[Document]) -> list[bool]:
    return [verdict.reason is None for verdict in stage.edits(docs)]


def read_plan(path: Path) -> Plan:
    """Return the plan of a published corpus."""
    return _to_plan(read_json(path))


def _to_plan(data: dict[str, Any]) -> Plan:
    parts = [[Shard(**shard) for shard in part] for part in data.pop("parts")]
    scopes = [Scope(**scope) for scope in data.pop("scopes")]
    data.pop("stamps", None)  # in plans before 1.0
    return Plan(parts=parts, scopes=scopes, **data)


def save_plan(plan: Plan, workspace: Workspace) -> None:
    """Write the plan of a build that begins; it is there as a whole or not at all."""
    sealed.write_json(workspace.root / PLAN, asdict(plan))
