"""Training of a language identification model on your own text, in minutes: ``xling corpus langid-train``."""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import values
from xling.core.settings.values import Lang, Range, ranged
from xling.corpora.langid import ngrams
from xling.text.files import corpus_reader

STAGE = "corpus langid-train"
FILE_NAME = "langid.npz"
_HELD_OUT_EVERY = 50  # one line in 50 is held out
_BLOCK_LINES = 20


@dataclass(frozen=True)
class LangidTrainConfig:
    """Settings of ``xling corpus langid-train``.

    Attributes:
        text: language -> files, globs or corpora of clean text.
        out: directory to publish; ``settings.langid.model=OUT/langid.npz`` uses it.
        base: a model whose other languages are kept; empty for the built-in one, ``none`` for no other
            language.
        max_chars: characters to read of each language, alternating between its files.
        size: number of n-grams per language, as a multiple of the built-in model's.
    """

    text: dict[Lang, tuple[str, ...]] = field(default_factory=dict)
    out: str = "runs/langid"
    base: str = ""
    max_chars: int = ranged(400_000, Range(least=1000))
    size: float = ranged(1.0, Range(above=0, most=100))

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: no text, a number out of range, an unknown language, or one given twice.
        """
        if not self.text:
            raise UserError("no text to train on", "text.wo=FILES text.fr=FILES")
        values.check(self)
        codes = [languages.get(lang).code for lang in self.text]
        if twice := next((code for code in codes if codes.count(code) > 1), ""):
            raise UserError(f"language {twice} is given twice", "each language once")


def run(cfg: LangidTrainConfig) -> manifest.Manifest:
    """Train, score on lines that were held out, and publish.

    Raises:
        UserError: unreadable files, or a language without text.
    """
    files = {languages.get(lang).code: corpus_reader.resolve_files(paths) for lang, paths in cfg.text.items()}
    given = [path for paths in files.values() for path in paths]
    out = Path(cfg.out)
    if (published := manifest.up_to_date(out, STAGE, cfg, given)) is not None:
        return published
    with manifest.publish(out, STAGE, cfg, given) as publication:
        model = ngrams.train(
            {lang: _blocks_of_split(paths, held_out=False) for lang, paths in files.items()},
            cfg.max_chars,
            cfg.size,
        )
        if cfg.base != "none":
            path = Path(cfg.base) if cfg.base else Path(ngrams.__file__).with_suffix(".npz")
            model = ngrams.merged(model, ngrams.load(path))
        model.save(publication.path / FILE_NAME)
        rows = {lang: _accuracy(model, lang, paths) for lang, paths in sorted(files.items())}
        with (publication.path / "held_out.tsv").open("w", encoding="utf-8", newline="") as handle:
            table = csv.writer(handle, delimiter="\t", lineterminator="\n")
            table.writerow(["lang", "lines", "right"])
            table.writerows([lang, *row] for lang, row in rows.items())
        publication.counts |= {
            "languages": len(model.langs),
            "held_out": {lang: list(row) for lang, row in rows.items()},
        }
    return manifest.read(out)


def _blocks_of_split(paths: Iterable[Path], held_out: bool) -> Iterator[str]:
    """Yield blocks of lines from each file in turn, so that no file alone fills the limit."""
    files = [_lines_of_split(path, held_out) for path in paths]
    while files:
        for lines in list(files):
            block = [line for line, _ in zip(lines, range(_BLOCK_LINES), strict=False)]
            if block:
                yield "\n".join(block)
            else:
                files.remove(lines)


def _lines_of_split(path: Path, held_out: bool) -> Iterator[str]:
    texts = (line for doc in corpus_reader.read_documents([str(path)]) for line in doc)
    return (line for number, line in enumerate(texts) if (number % _HELD_OUT_EVERY == 0) == held_out)


def _accuracy(
    model: ngrams.NgramModel, lang: str, paths: list[Path], max_lines: int = 500
) -> tuple[int, int]:
    """Return the number of held-out lines, and how many are identified correctly."""
    lines = [line for block in _blocks_of_split(paths, held_out=True) for line in block.split("\n")][
        :max_lines
    ]
    ranked = model.probabilities(lines, 1)
    return len(lines), sum(bool(best) and best[0][0] == lang for best in ranked)
