"""Training of an n-gram language model for any language from clean text: ``xling corpus lm``.

SentencePiece (Kudo and Richardson 2018) learns the pieces. The probabilities are modified Kneser-Ney
estimates of `xling.text.lm.kneser_ney`, those of KenLM's lmplz.
"""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import sentencepiece as spm

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import values
from xling.core.settings.values import COVERAGE, Lang, ranged
from xling.text.files import corpus_reader
from xling.text.lm.kneser_ney import Estimates, estimate
from xling.text.lm.model import ARPA_FILE, ORDERS, SPM_FILE, PieceCache
from xling.text.lm.ngrams import IntArray, NgramTable, count_ngrams, read_tokens
from xling.text.normalize import for_lm

STAGE = "corpus lm"
_TEXT_FILE, _PIECES_FILE = "text.txt", "pieces.txt"
_MAX_SPM_CHARS = 4000  # longest line in characters that SentencePiece learns from
_MAX_LINES = 200_000  # of which it draws that many
_MIN_TOKENS = 1000


@dataclass(frozen=True)
class LmConfig:
    """Settings of ``xling corpus lm``.

    Attributes:
        lang: the language.
        text: files, globs or corpus directories of clean text.
        out: directory to publish: ``lm.arpa`` and ``spm.model``; ``runs/lm/LANG`` when empty.
        order: length of the longest n-gram. CCNet: 5.
        pieces: SentencePiece vocabulary size; smaller if the text has fewer pieces. CCNet: 65,536.
        coverage: share of characters that get a piece of their own.
        max_chars: text to read, in characters; this bounds memory, at some 45 bytes per character.
        prune: remove n-grams of orders 1, 2, ... with at most this count; the last value holds for higher
            orders.
        seed: seed of SentencePiece's sampling of lines, where there are more than 200,000.
    """

    lang: Lang
    text: tuple[str, ...]
    out: str = ""
    order: int = ranged(5, ORDERS)
    pieces: int = 65_536
    coverage: float = ranged(0.9998, COVERAGE)
    max_chars: int = 50_000_000
    prune: tuple[int, ...] = (0, 0, 0, 1, 1)
    seed: int = 1

    def __post_init__(self) -> None:
        """Reject an order or a pruning that cannot work.

        Raises:
            UserError: a value out of range.
        """
        values.check(self)
        if any(a > b for a, b in zip(self.prune, self.prune[1:], strict=False)) or self.prune[:1] > (0,):
            raise UserError(
                f"prune={','.join(map(str, self.prune))}",
                "numbers that never fall, the first of them 0",
                "for example prune=0,0,1",
            )


def run(cfg: LmConfig) -> manifest.Manifest:
    """Train the model on the files that ``cfg.text`` names and publish it.

    Raises:
        UserError: an unknown language, unreadable files, or too little text.
    """
    language = languages.get(cfg.lang)
    out = Path(cfg.out or f"runs/lm/{language.code}")
    inputs = corpus_reader.resolve_files(cfg.text)
    if published := manifest.up_to_date(out, STAGE, cfg, inputs):
        return published
    with manifest.publish(out, STAGE, cfg, inputs) as publication:
        texts = (" ".join(paragraphs) for paragraphs in corpus_reader.read_documents(cfg.text))
        publication.counts |= train_language_model(texts, publication.path, cfg)
    return manifest.read(out)


def train_language_model(texts: Iterable[str], out: Path, cfg: LmConfig) -> dict[str, int]:
    """Write ``lm.arpa`` and ``spm.model`` into ``out`` and return counts.

    Args:
        texts: clean documents of one language.
        out: an existing directory.
        cfg: settings; ``lang``, ``text`` and ``out`` are ignored.

    Raises:
        UserError: there is too little text to learn from.
    """
    text_path, pieces_path = out / _TEXT_FILE, out / _PIECES_FILE
    num_docs, num_chars = _write_normalized(texts, text_path, cfg.max_chars)
    if num_chars < _MIN_TOKENS:
        raise UserError(
            f"{num_chars} characters of text to train a language model on", f"{_MIN_TOKENS} or more"
        )
    _train_pieces(text_path, out, cfg)
    piece_cache = PieceCache(out / SPM_FILE)
    with pieces_path.open("wb") as handle:
        for line in _read_lines(text_path):
            handle.write(piece_cache.encode(line) + b"\n")
    counts = train_ngrams(_read_lines(pieces_path), out / ARPA_FILE, cfg.order, cfg.prune)
    text_path.unlink()
    pieces_path.unlink()
    return {"documents": num_docs, "chars": num_chars, **counts}


def train_ngrams(lines: Iterable[str], out: Path, order: int, prune: tuple[int, ...] = ()) -> dict[str, int]:
    """Write an ARPA file of tokenised lines and return counts; see `LmConfig` for ``order`` and ``prune``."""
    vocabulary, tokens = read_tokens(lines)
    orders = count_ngrams(tokens, len(vocabulary), order)
    model = estimate(orders, prune)
    write_arpa(out, vocabulary, orders, model)
    counts = {"tokens": len(tokens)}
    return counts | {f"{n}-grams": int(e.is_kept.sum()) for n, e in enumerate(model, start=1)}


def _write_normalized(texts: Iterable[str], path: Path, max_chars: int) -> tuple[int, int]:
    """Write one normalised document per line up to ``max_chars``.

    Return the numbers of documents and characters.
    """
    num_docs = num_chars = 0
    with path.open("w", encoding="utf-8") as handle:
        for text in texts:
            line = for_lm(text.replace("\n", " "))
            if line:
                handle.write(line + "\n")
                num_docs += 1
                num_chars += len(line)
            if num_chars >= max_chars:
                break
    return num_docs, num_chars


def _read_lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as handle:
        for line in handle:
            yield line.rstrip("\n")


def _spm_lines(path: Path) -> Iterator[str]:
    """Yield lines, split at spaces if they are longer than SentencePiece accepts."""
    for line in _read_lines(path):
        while len(line) > _MAX_SPM_CHARS:
            cut = line.rfind(" ", 1, _MAX_SPM_CHARS)
            cut = cut if cut > 0 else _MAX_SPM_CHARS
            yield line[:cut]
            line = line[cut:].lstrip()
        yield line


def _train_pieces(text: Path, out: Path, cfg: LmConfig) -> None:
    """Train the SentencePiece model; one thread and a fixed seed make it reproducible."""
    num_lines = sum(1 for _ in _spm_lines(text))
    if cfg.text and cfg.seed != LmConfig.seed and num_lines <= _MAX_LINES:
        raise UserError(
            f"seed={cfg.seed} changes nothing here: it needs more than {_MAX_LINES:,} lines of text, and "
            f"there are {num_lines:,}",
            fix="leave it out",
        )
    spm.set_random_generator_seed(cfg.seed)
    model = io.BytesIO()  # a file name would be stored in the model
    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=_spm_lines(text),
            model_writer=model,
            vocab_size=cfg.pieces,
            hard_vocab_limit=False,
            character_coverage=cfg.coverage,
            normalization_rule_name="identity",  # for_lm has already normalised the text
            input_sentence_size=_MAX_LINES,
            shuffle_input_sentence=True,
            max_sentence_length=4 * _MAX_SPM_CHARS,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise UserError(
            f"SentencePiece cannot learn pieces: {' '.join(str(error).split())}", fix="give more text"
        ) from None
    (out / SPM_FILE).write_bytes(model.getvalue())


_LOG10_OF_ZERO = -99.0
_ROWS_PER_WRITE = 500_000


def write_arpa(path: Path, vocabulary: list[str], orders: list[NgramTable], model: list[Estimates]) -> None:
    """Write a model to ``path`` atomically."""
    words = pl.Series(vocabulary, dtype=pl.String)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as handle:
        sizes = "".join(f"ngram {n}={int(e.is_kept.sum())}\n" for n, e in enumerate(model, start=1))
        handle.write(f"\\data\\\n{sizes}".encode())
        for n, estimates in enumerate(model, start=1):
            handle.write(f"\n\\{n}-grams:\n".encode())
            kept_rows = np.flatnonzero(estimates.is_kept)
            for start in range(0, len(kept_rows), _ROWS_PER_WRITE):
                rows = kept_rows[start : start + _ROWS_PER_WRITE]
                columns = {
                    "log10": _log10(estimates.probability[rows]),
                    **_word_columns(words, orders, n, rows),
                }
                if n < len(model):
                    columns["backoff"] = _log10(estimates.backoff[rows])
                frame = pl.DataFrame(columns)
                ngram = pl.concat_str([f"w{i}" for i in range(n)], separator=" ")
                backoff_columns = ["backoff"] if n < len(model) else []
                frame.select("log10", ngram, *backoff_columns).write_csv(
                    handle, include_header=False, separator="\t", quote_style="never", float_precision=7
                )
        handle.write(b"\n\\end\\\n")
    temporary.rename(path)


def _log10(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> pl.Series:
    """Return base-10 logarithms, clipped to 0, since KenLM rejects positive values, and to the -99 of ARPA for zero.

    A discount as large as the only counts of its kind leaves no mass to back off with.
    """
    return pl.Series(np.log10(values.clip(10**_LOG10_OF_ZERO, 1.0)))


def _word_columns(words: pl.Series, orders: list[NgramTable], n: int, rows: IntArray) -> dict[str, pl.Series]:
    columns = {}
    for order in range(n - 1, -1, -1):
        columns[f"w{order}"] = words.gather(orders[order].word[rows])
        rows = orders[order].prefix[rows]
    return columns
