"""Settings of a monolingual corpus."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.core.output import manifest
from xling.core.settings import values
from xling.core.settings.values import COUNT, COUNT_OR_NONE, Lang, LangList, Range, ranged
from xling.corpora.crawl_index import cld2
from xling.corpora.crawl_index.settings import IndexSettings
from xling.corpora.sources.source import joined_uris
from xling.corpora.stages import configured
from xling.corpora.stages.near_duplicates import NearDedup
from xling.corpora.stages.perplexity import HEAD, MIDDLE, PERCENTILES, TAIL, Perplexity

STAGE_NAME = "corpus mono"
ALL = "all"
CC_INDEX = "cc-index"
DEFAULT_FILES = 4
_LANGID = "langid"
_MEGABYTES = Range(above=0, words="a number of megabytes above 0")
FOLDER = "runs/mono"
"""Of corpora without ``out``."""


def is_published(folder: Path) -> bool:
    """Return whether a folder holds a finished output."""
    return (folder / manifest.FILE_NAME).is_file()


def is_crawl(lang: str) -> bool:
    """Return whether ``lang`` names several languages, which are read in one pass."""
    return "," in lang or lang == ALL


@dataclass(frozen=True)
class PerplexityConfig:
    """The language model that scores every document, and the use of its perplexity.

    Attributes:
        model: a directory made by ``xling corpus lm``; ``auto`` trains one on the reference; ``none`` scores
            nothing.
        reference: prefixes of the source URIs whose text is clean enough to train on.
        min_chars: with less reference text than this, nothing is trained, and the card says so.
        max_chars: maximum reference text; training takes some 60 bytes per character.
        order: length of the longest n-gram.
        pieces: SentencePiece vocabulary size of the model.
        percentiles: percentiles of the corpus's own perplexities at which head ends and tail begins. CCNet:
            30 and 60.
        keep: which of ``head``, ``middle`` and ``tail`` are kept.
        max_perplexity: documents above are dropped in any case; 0 for no bound.
    """

    model: str = "auto"
    reference: tuple[str, ...] = ("wiki:", "hf:wikipedia")
    min_chars: int = 100_000
    max_chars: int = 10_000_000
    order: int = 5
    pieces: int = 32_000
    percentiles: tuple[float, ...] = PERCENTILES
    keep: tuple[str, ...] = (HEAD, MIDDLE, TAIL)
    max_perplexity: float = 0.0


@dataclass(frozen=True)
class MonoConfig:
    """Settings of ``xling corpus mono``.

    Attributes:
        lang: the language, by a code (``sw``) or its name (``Swahili``). Several separated by commas, or ``all``,
            are read in one pass and get a corpus each.
        out: directory to publish; ``runs/mono/LANG`` when empty. With several languages it is the parent
            folder of their directories, ``runs/mono`` when empty.
        others: with several languages, whether documents in other ones are only counted (``count``) or also
            routed (``keep``), so that they can be built later without reading the input again.
        source: URIs: ``cc-index:DUMP``, ``cc:DUMP``, ``cc100:``, ``wet:GLOB``, ``warc:GLOB``, ``wiki:DUMP``,
            ``hf:NAME``, ``text:GLOB``, ``docx:GLOB``, ``jsonl:GLOB`` and others (docs/corpora.md), ``toyworld``. Empty
            means the language's Wikipedia and ``cc-index:``, or with a number in ``size`` so many files of ``cc:``;
            with several languages these files alone.
        size: of ``cc-index:`` the bytes that may be downloaded, index included, such as ``20GB``, which is the
            default; of ``cc:`` and of a data set of the Hub the number of files, 4 by default. 0 for all.
        time: how long ``cc-index:`` may download, such as ``90m`` or ``2h``; empty for as long as it takes.
        hosts: ``auto`` fetches the first thousand pages of many hosts and then hosts by their share of pages in
            the language; a path is a table of hosts that this wrote. Empty is ``auto`` for languages that Common
            Crawl's index does not name, and else leaves hosts alone.
        neighbours: codes of the index (ISO 639-3) under which pages of the language also stand.
        contact: your address for Common Crawl's operators, in the ``User-Agent`` of ``cc-index:``.
        dump: the Common Crawl dump that an empty ``source`` means.
        cache: folder of downloads.
        base_urls: ``cc``, ``wiki`` or ``cc100`` -> a mirror's address or a local directory.
        extract: text of HTML pages: ``main`` content, ``all`` visible text, or ``auto``: main content, and where the
            stage ``length`` would drop that, the paragraphs of running text in all visible text.
        max_docs: documents to read from each shard, 0 for all: for a first look.
        max_chars: longer web pages are dropped, and longer texts of other sources cut, which bounds memory.
        seed: seed of the choice of shards.
        prior: language -> share of the documents read, as in ``prior.yo=0.0001 prior.en=0.45``: each language gets the
            threshold of identification at which the corpus may be expected to be right (``settings.langid``).
        before_dedup: streaming stages, by name, that run before paragraph deduplication.
        dedup: drop paragraphs that occur in an earlier document. Reference sources (``lm.reference``) come
            first, then the others in the order given.
        dedup_scope: documents that are compared: ``all``, those of one ``dump`` (a source URI), or those of
            one ``group`` of ``dedup_group`` files of a source.
        dedup_group: files of a group. CCNet: 50.
        after_dedup: streaming stages, by name, that run after paragraph deduplication.
        near_dedup: drop documents nearly the same as an earlier one, by MinHash.
        near: settings of near-deduplication.
        against: directories of earlier corpora: a document nearly the same as one of theirs is dropped too, so that the
            corpora of several runs hold each text once. With several languages, the folders that hold a corpus each.
        lm: the language model, its perplexity and the cut-offs.
        settings: stage name -> its settings, for example ``settings.length.min_chars=200``.
        part_mb: input per part, MB: one unit of parallel work.
        shard_mb: text per published shard, MB, before compression.
        memory_mb: memory limit of a barrier per process, MB.
        num_connections: concurrent downloads per process.
        num_samples: kept and dropped texts shown in the card, per reason.
        reject_chars: characters kept of each dropped text for ``xling corpus why``; 0 keeps none.
        export: also write the corpus in CC-100's text format, with this suffix; empty for no export.
        keep_work: keep the intermediate parts.
        dry_run: only list the files, and say what the build would cost by phase.
    """

    lang: LangList
    out: str = ""
    others: Literal["count", "keep"] = "count"
    source: tuple[str, ...] = ()
    size: str = ""
    time: str = ""
    hosts: str = ""
    neighbours: tuple[str, ...] = ()
    contact: str = ""
    dump: str = "CC-MAIN-2024-22"
    cache: str = "runs/downloads"
    base_urls: dict[str, str] = field(default_factory=dict)
    extract: Literal["auto", "main", "all"] = "auto"
    max_docs: int = ranged(0, COUNT_OR_NONE)
    max_chars: int = ranged(1_000_000, COUNT)
    seed: int = 1
    prior: dict[Lang, float] = field(default_factory=dict)
    before_dedup: tuple[str, ...] = ("repair", "blocklist", "length", "lines")
    dedup: bool = True
    dedup_scope: Literal["all", "dump", "group"] = "all"
    dedup_group: int = ranged(50, COUNT)
    after_dedup: tuple[str, ...] = ("langid", "filters", "contamination", "pii")
    near_dedup: bool = True
    near: NearDedup = field(default_factory=NearDedup)
    against: tuple[str, ...] = ()
    lm: PerplexityConfig = field(default_factory=PerplexityConfig)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    part_mb: float = ranged(256, _MEGABYTES)
    shard_mb: float = ranged(256, _MEGABYTES)
    memory_mb: int = ranged(1024, COUNT)
    num_connections: int = ranged(8, COUNT)
    num_samples: int = ranged(5, COUNT_OR_NONE)
    reject_chars: int = ranged(2000, COUNT_OR_NONE)
    export: Literal["", "txt", "txt.gz", "txt.xz", "txt.zst"] = ""
    keep_work: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: a number out of range, an unknown stage or setting.
        """
        object.__setattr__(self, "source", joined_uris(self.source))
        object.__setattr__(self, "size", str(self.size))
        self._check_index()
        self._check_prior()
        if self.against and (not self.near_dedup or self.near.scope != "all"):
            raise UserError(
                f"against={','.join(self.against)} with near_dedup={self.near_dedup}, near.scope={self.near.scope}",
                "near_dedup=true and near.scope=all",
                "leave against out, or compare with it",
            )
        given = [code.strip().lower() for code in self.lang.split(",")]
        if ALL in given and len(given) > 1:
            raise UserError(
                f"lang={self.lang}", "all, or the codes of some languages", "leave all out, or the others"
            )
        if ALL in given:
            object.__setattr__(self, "lang", ALL)
        if is_crawl(self.lang):
            codes = dict.fromkeys(languages.get(code).code for code in self.lang.split(",") if code != ALL)
            object.__setattr__(self, "lang", ",".join(codes) or ALL)
            self.for_lang(next(iter(codes), "en"))
            configured(self.before_dedup, self.lang, self.settings)
            return
        object.__setattr__(self, "lang", languages.get(self.lang).code)
        values.check(self)
        names = (*self.before_dedup, *self.after_dedup)
        configured(names, self.lang, self.settings)
        for name in self.settings:
            if name not in names:
                raise unknown("stage in settings", name, names)
        if len(self.lm.percentiles) != 2:
            raise UserError(f"lm.percentiles={self.lm.percentiles}", "two numbers, for example 30,60")
        self.perplexity(self.lm.percentiles[0], self.lm.percentiles[1])

    def _check_index(self) -> None:
        """Reject amounts without a unit, or of the wrong kind for the sources."""
        _ = self.num_files, values.num_seconds("time", self.time)
        is_bytes = values.num_bytes(self.size) is not None
        if is_bytes and not self.reads_index:
            raise UserError(
                f"size={self.size}: bytes are for cc-index: with its languages",
                "a number of files of cc: or hf:",
                "give such a number, or source=cc-index:CC-MAIN-YYYY-WW",
            )
        if self.size not in ("", "0") and not is_bytes and self.reads_index:
            raise UserError(f"size={self.size}: cc-index: takes bytes", "for example size=20GB, 0 for all")
        if strange := next((code for code in self.neighbours if code not in cld2.CODES), ""):
            raise unknown("code of Common Crawl's index in neighbours", strange, sorted(cld2.CODES))
        if not self.contact.isascii() or not self.contact.isprintable() or len(self.contact) > 200:
            raise UserError(f"contact={self.contact[:80]!r}", "an address of at most 200 ASCII characters")

    def _check_prior(self) -> None:
        """Hand the prior to the stage ``langid``, and reject one that changes nothing.

        Raises:
            UserError: the stage does not run, has another prior, or a wanted language has no share.
        """
        stages = (*self.before_dedup, *self.after_dedup)
        own = self.settings.get(_LANGID, {}).get("prior", {})
        prior = {languages.get(code).code: share for code, share in (self.prior or own).items()}
        if not prior:
            own_rates = self.settings.get(_LANGID, {}).get("rates")
            if (
                own_rates
                and not is_crawl(self.lang)
                and not any(uri.startswith("routed:") for uri in self.source)
            ):
                raise UserError(
                    "settings.langid.rates without a prior", f"prior.{self.lang}=SHARE, such as 0.001"
                )
            return
        if _LANGID not in stages:
            raise UserError("a prior without the stage langid", "langid in after_dedup", "leave prior out")
        bases = {code.partition("_")[0] for code in prior}
        for code in self.lang.split(","):
            if code != ALL and languages.get(code).base not in bases:
                raise UserError(f"prior has no share of {code}", f"prior.{code}=SHARE, such as 0.001")
        both = self.settings.get(_LANGID, {}) | {"prior": prior}
        object.__setattr__(self, "prior", prior)
        object.__setattr__(self, "settings", self.settings | {_LANGID: both})

    @property
    def reads_index(self) -> bool:
        """Whether a source is Common Crawl's index: one that is given, or the default one."""
        if self.source:
            return any(uri.startswith(f"{CC_INDEX}:") for uri in self.source)
        return not is_crawl(self.lang) and (not self.size or values.num_bytes(self.size) is not None)

    @property
    def num_files(self) -> int:
        """Files of ``cc:`` or ``hf:``, 0 for all.

        Raises:
            UserError: ``size`` is neither a whole number nor an amount of bytes.
        """
        if not self.size or values.num_bytes(self.size) is not None:
            return DEFAULT_FILES
        try:
            number = float(self.size)
        except ValueError:
            number = -1.0
        if not 0 <= number < 1e9 or not number.is_integer():
            raise UserError(
                f"size={self.size}", "a whole number of files from 0, or bytes with their unit such as 20GB"
            )
        return int(number)

    @property
    def index_bytes(self) -> int:
        """Bytes that ``cc-index:`` may download, 0 for no limit."""
        if self.size == "0":
            return 0
        return values.num_bytes(self.size) or IndexSettings.num_bytes

    def for_lang(self, code: str) -> MonoConfig:
        """Return the settings of one of several languages, which reads the routed documents."""
        root = Path(self.out or FOLDER)
        settings = {k: v for k, v in self.settings.items() if k not in self.before_dedup}
        has_share = any(each.partition("_")[0] == code.partition("_")[0] for each in self.prior)
        if self.prior and not has_share:
            settings[_LANGID] = {k: v for k, v in settings[_LANGID].items() if k != "prior"}
        return replace(
            self,
            lang=code,
            prior=self.prior if has_share else {},
            against=tuple(
                str(folder / code) for folder in map(Path, self.against) if is_published(folder / code)
            ),
            out=str(root / code),
            others="count",
            size="",
            time="",
            hosts="",
            neighbours=(),
            contact="",
            source=(f"routed:{root / 'routed'}",),
            before_dedup=(),
            max_docs=0,
            lm=replace(self.lm, model=self.lm.model.replace("{lang}", code)),
            settings=settings,
        )

    def perplexity(self, head: float, tail: float, model: str = "") -> Perplexity:
        """Return the stage that scores with ``model`` and splits at the cut-offs."""
        return Perplexity(model, head, tail, self.lm.keep, self.lm.max_perplexity)
