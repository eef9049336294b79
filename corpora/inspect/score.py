"""Language, score and verdict of every document of any file, without building a corpus.

``xling corpus score FILES``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from xling.core import languages
from xling.core.commands.inputs import check_new_file
from xling.core.errors import UserError
from xling.core.output.command_result import Answer, Rows, tell
from xling.core.settings.values import Lang
from xling.corpora.sources.source import SOURCES, Context, open_source
from xling.corpora.stages import Stage, configured
from xling.corpora.stages.perplexity import Perplexity
from xling.pages.tabular import show_controls
from xling.text.document import Document, Ledger
from xling.text.files.globs import plain_name

_COLUMNS = ("id", "lang", "lang_score", "perplexity", "verdict", "text")
_SHOWN_CHARS = 80


@dataclass(frozen=True)
class ScoreConfig:
    """Settings of ``xling corpus score``.

    Attributes:
        files: files, globs or source URIs; a bare file name is read by its suffix, else as text.
        lang: the wanted language; empty accepts every language.
        unit: ``doc`` scores documents, ``line`` every paragraph separately.
        stages: streaming stages by name, in order; the first that drops a text gives the verdict.
        lm: a language model, directory of `xling corpus lm`: adds the perplexity.
        out: a TSV file to write; empty prints. An existing one is not replaced.
    """

    files: tuple[str, ...]
    lang: Lang = ""
    unit: Literal["doc", "line"] = "doc"
    stages: tuple[str, ...] = ("langid", "filters")
    lm: str = ""
    out: str = ""


def run(cfg: ScoreConfig) -> Answer | Rows:
    """Write one line a text, tab-separated with a header, into ``out``, or return them to be printed.

    Raises:
        UserError: a file is missing, a stage or a language is unknown, or ``out`` exists.
    """
    if cfg.out:
        check_new_file(Path(cfg.out))
    table = Rows(_COLUMNS, score(cfg))
    if not cfg.out:
        return table
    with Path(cfg.out).open("w", encoding="utf-8") as handle:
        count = sum(1 for line in table.lines() if handle.write(line + "\n")) - 1
    return Answer(f"{count:,} texts scored in {cfg.out}", {"texts": count, "out": cfg.out})


def score(cfg: ScoreConfig) -> Iterator[tuple[str | float | None, ...]]:
    """Yield the cells of `_COLUMNS` for every text."""
    lang = languages.get(cfg.lang).code if cfg.lang else ""
    # Any language will do to build stages that then accept all of them.
    settings = {} if lang else {"langid": {"langs": ()}}
    scorer = [Perplexity(cfg.lm)] if cfg.lm else []
    stages = [*scorer, *configured(cfg.stages, lang or "en", settings)]
    for doc in _documents(cfg, lang):
        verdict = _verdict_text(doc, stages)
        score = doc.meta.get("lang_score")
        perplexity = doc.meta.get("perplexity")
        yield (
            show_controls(doc.id, keep=""),
            doc.lang,
            None if score is None else round(score, 4),
            None if perplexity is None else round(perplexity, 1),
            verdict,
            doc.text[:_SHOWN_CHARS].replace("\n", " / ").replace("\t", " "),
        )


def _documents(cfg: ScoreConfig, lang: str) -> Iterator[Document]:
    context = Context(lang=lang)
    if not cfg.files:
        raise UserError("no file to score", "xling corpus score FILE ...")
    for name in cfg.files:
        source = open_source(_source_uri(name), context)
        for shard in source.shards():
            ledger = Ledger()
            for doc in source.read(shard, ledger):
                if cfg.unit == "doc":
                    yield doc
                    continue
                for number, line in enumerate(doc.text.split("\n")):
                    yield replace(doc, id=f"{doc.id}:{number}", text=line, meta={})
            for (_, reason), num in ledger.dropped.items():
                tell(f"{name}: not scored: {num:,} {reason}")


def _source_uri(name: str) -> str:
    scheme = name.partition(":")[0]
    if scheme in SOURCES:
        return name
    ending = Path(plain_name(name)).suffix
    return next(
        (f"{scheme}:{name}" for scheme, source in SOURCES.items() if ending in source.endings), f"text:{name}"
    )


def _verdict_text(doc: Document, stages: list[Stage]) -> str:
    """Return ``kept``, or the stage and the reason that would drop the document."""
    docs = [doc]
    for stage in stages:
        ledger = Ledger()
        docs = list(stage(docs, ledger))
        if not docs:
            return "; ".join(f"{stage.name}/{reason}" for _, reason in ledger.dropped)
    return "kept"
