"""Settings of ``xling language`` and of its report."""

from dataclasses import dataclass, field
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.core.settings import values
from xling.core.settings.values import COUNT, COUNT_OR_NONE, POSITIVE, Lang, ranged

LEAST_PAIRS = 500
OPUS_PAIRS = 200_000
"""Most pairs that are downloaded from OPUS, its smallest corpora first; the first one is read whole."""


@dataclass(frozen=True)
class LanguageConfig:
    """Settings of ``xling language``.

    Attributes:
        lang: the language to serve, by a code or its name.
        data: folder of text, translations and test sets, as docs/hour.md lays it out, or of your own files.
        out: folder of everything that is made; ``runs/language/LANG`` when empty.
        hours: time on the clock for all models and tables on this machine. It sets the lengths of trainings.
        size: what may be downloaded of the crawl, for example ``20GB``, a tenth each for the source language and the
            relatives. The language's Wikipedia and small corpora of OPUS come with it. Empty downloads nothing.
        dump: the dump of Common Crawl.
        body: an encoder whose Transformer learns the language too, for example ``hf:DIR``; empty trains the static
            encoder alone.
        source: the language of labels and of the other side of translations.
        relatives: languages that are read beside it; empty chooses them by family, script and shared words.
        least: aligned rows below which no model is trained, and no relative read.
        seeds: seeds of fine-tuning.
        cache: folder of downloads.
        base_urls: ``wiki``, ``cc``, ``opus`` or ``opus_store`` -> a mirror's address or a local directory.
        updates: updates of the static encoder in place of its share of ``hours``; then a rerun makes the same bytes.
    """

    lang: Lang
    data: Path
    out: str = ""
    hours: float = ranged(6.0, POSITIVE)
    size: str = ""
    dump: str = "CC-MAIN-2024-22"
    body: str = ""
    source: Lang = "en"
    relatives: tuple[Lang, ...] = ()
    least: int = ranged(LEAST_PAIRS, COUNT)
    seeds: tuple[int, ...] = (1, 2, 3)
    updates: int = ranged(0, COUNT_OR_NONE)
    cache: str = "runs/downloads"
    base_urls: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the settings and fill in ``out``.

        Raises:
            UserError: an unknown language, no hours, the language is its own source.
        """
        languages.get(self.lang)
        object.__setattr__(self, "out", self.out or f"runs/language/{self.lang}")
        values.check(self)
        if not self.seeds:
            raise UserError("seeds= is empty", "one seed or more, for example 1,2,3")
        if self.lang == self.source:
            raise UserError(
                f"lang={self.lang} is also the source of labels and translations",
                "two languages",
                "give source=fr",
            )


@dataclass(frozen=True)
class ReportConfig:
    """Settings of ``xling language report``.

    Attributes:
        folder: what ``xling language`` has written.
    """

    folder: Path
