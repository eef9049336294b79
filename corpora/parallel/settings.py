"""Settings of one parallel corpus."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.parts import Workspace
from xling.core.settings import values
from xling.core.settings.values import COUNT_OR_NONE, Pair, ranged
from xling.corpora.parallel import chain
from xling.corpora.parallel.filters import Context
from xling.corpora.parallel.language_pair import OfPair
from xling.corpora.parallel.sources import PAIR_SOURCES, SourceContext
from xling.corpora.sources.source import joined_uris
from xling.text.encoders import SentenceVectors

STAGE_NAME = "corpus parallel"


@dataclass(frozen=True)
class ParallelConfig(OfPair):
    """Which sentence pairs to read, what to keep of them and where to put them.

    Attributes:
        pair: the languages, source first, for example ``en-sw``.
        source: URIs: ``opus:[CORPUS[:VERSION]]``, ``moses:SRC+TGT``, ``moses:STEM``, ``moses:FILE.zip``,
            ``tmx:FILE``, ``tsv:``, ``csv:``, ``jsonl:`` and ``parquet:FILE[#SRC+TGT[+DOC]]``, ``verses:SRC+TGT``,
            ``po:``, ``xliff:``, ``xlsx:FILE`` and others (docs/parallel.md), ``hf:NAME``, ``toyworld[:NUM]``.
            Empty means OPUS, its small corpora first.
        out: directory to publish; ``runs/parallel/PAIR`` when empty.
        size: pairs to take from ``opus:`` without a name; 0 for all.
        filters: names of pair filters in order; those of the whole corpus last.
        settings: filter -> its settings, for example ``settings.length.max_ratio=3``.
        heldout: files of dev and test sets, text, TSV or JSON, whose sentences are dropped on either side.
        checkpoint: encoder directory of ``xling pretrain``; its cosine becomes the score of each pair, and the filter
            ``align`` learns how near the sides of whole pairs lie.
        layer: layer of the checkpoint's sentence vectors, -1 the last.
        pooling: ``mean``, ``max`` or ``cls``.
        dev_pairs: pairs held out as dev set, whole documents where they are known; at most a tenth.
        test_pairs: the same for the test set.
        audit: whether noise is planted into a sample of the corpus, to say in its card what the filters see.
        seed: of the split, of planted noise and of synthetic text.
        cache: where downloads are kept.
        base_urls: ``opus`` or ``opus_store`` -> a mirror's address.
        num_samples: kept and dropped pairs shown in the card, per reason.
        keep_work: leave the intermediate parts in place.
    """

    FOLDER = "runs/parallel"
    NOT_CONTENT = frozenset({"out", "cache", "keep_work"})

    pair: Pair
    source: tuple[str, ...] = ()
    out: str = ""
    size: int = ranged(1_000_000, COUNT_OR_NONE)
    filters: tuple[str, ...] = chain.DEFAULT_FILTERS
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    heldout: tuple[str, ...] = ()
    checkpoint: str = ""
    layer: int = -1
    pooling: str = "mean"
    dev_pairs: int = ranged(1000, COUNT_OR_NONE)
    test_pairs: int = ranged(1000, COUNT_OR_NONE)
    audit: bool = True
    seed: int = 1
    cache: str = "runs/downloads"
    base_urls: dict[str, str] = field(default_factory=dict)
    num_samples: int = ranged(5, COUNT_OR_NONE)
    keep_work: bool = False

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: an unknown language, filter or setting, a number out of range, a missing held-out file.
        """
        super().__post_init__()
        object.__setattr__(self, "source", joined_uris(self.source, PAIR_SOURCES))
        values.check(self)
        for path in self.heldout:
            if not Path(path).is_file():
                raise UserError(f"no held-out file at {path!r}", fix="check heldout=")
        self.chain()

    def chain(self) -> chain.Chain:
        """The filters with their settings."""
        encoder = (
            SentenceVectors(Path(self.checkpoint), self.layer, self.pooling) if self.checkpoint else None
        )
        context = Context.of_pair(self.pair, tuple(map(Path, self.heldout)), encoder)
        return chain.build(self.filters, self.settings, context)


@dataclass(frozen=True)
class Build:
    """One build, resolved once from its settings: what its phases are handed instead of the settings.

    Attributes:
        langs: the two languages in our own codes.
        uris: the sources, the default one when none is given.
        content: settings that determine the corpus, with digests of the files that they name; JSON-ready.
        parts: folders of the phase ``read``, one a URI.
        chain: the filters; it has learned nothing yet.
        context: languages, folders and addresses that the sources need.
    """

    cfg: ParallelConfig
    out: Path
    langs: tuple[str, str]
    uris: tuple[str, ...]
    content: dict[str, Any]
    workspace: Workspace
    parts: list[Path]
    chain: chain.Chain
    context: SourceContext


def resolve(cfg: ParallelConfig) -> Build:
    """Return the build that the settings describe.

    Raises:
        UserError: a file that the settings name does not exist, or the output is the working directory.
    """
    src, tgt = languages.get_pair(cfg.pair)
    uris, filters = cfg.source or ("opus:",), cfg.chain()
    out, content = cfg.directory, cfg.content()
    if files := manifest.digest_paths_in(filters):
        content["files"] = files
    workspace = Workspace.for_output(out, content)
    return Build(
        cfg=cfg,
        out=out,
        langs=(src.code, tgt.code),
        uris=uris,
        content=content,
        workspace=workspace,
        parts=[workspace.part("read", index) for index in range(len(uris))],
        chain=filters,
        context=SourceContext(src, tgt, Path(cfg.cache), cfg.base_urls, cfg.size, cfg.seed),
    )
