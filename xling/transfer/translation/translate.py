"""Streaming translation of text, one line at a time: ``xling translate``.

It writes one line per input line, in order, an empty one for an empty one. A line longer than the model's
positions is divided at sentence ends, else between words, and the translations of the parts are joined.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xling.array_types import Int
from xling.core import languages
from xling.core.output.command_result import tell
from xling.core.progress import Progress
from xling.data.symbols import Symbols
from xling.models.files import model_weights
from xling.models.generate.decode import generate_all
from xling.models.generate.settings import Search
from xling.models.network.encoder import working_dtype
from xling.text import vocab
from xling.text.words.sentence_ends import ALL_ENDS, NO_SPACE_ENDS
from xling.training import update
from xling.transfer import checks
from xling.transfer.encode import encode_pieces
from xling.transfer.settings import TranslateConfig
from xling.transfer.translation.documents import DocumentTranslator

WORD_START = "\u2581"


class Translator:
    """A published encoder-decoder with its vocabulary.

    Args:
        truncates: truncate texts that are too long instead of dividing them.
        random_init: use fresh random weights instead of the trained ones, as a control.

    Raises:
        UserError: the model does not exist or has no decoder.
    """

    def __init__(
        self,
        directory: Path,
        search: Search,
        batch_tokens: int = 2048,
        precision: str = "fp32",
        truncates: bool = False,
        random_init: bool = False,
    ) -> None:
        self.directory, self.search = directory, search
        self.batch_tokens, self.truncates = batch_tokens, truncates
        model, self.symbols = model_weights.load_seq2seq(directory, random_init=random_init)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = model.to(device, working_dtype(precision)).eval()
        self.processor = vocab.load_processor(directory)
        self.max_pieces = model.cfg.max_positions - 2

    def lang_index(self, code: str) -> int:
        """Return the index of a language.

        Raises:
            UserError: the language is unknown, or the model was not trained on it.
        """
        return self.symbols.index_of(languages.get(code).code, str(self.directory))

    def __call__(
        self,
        texts: Sequence[str],
        src: str,
        tgt: str,
        on_batch: Callable[[int, int], None] | None = None,
        via: str = "",
    ) -> list[str]:
        """Translate texts, one output per input, in order.

        Args:
            on_batch: see `xling.models.generate.decode.generate_all`; not called for translation into ``via``.
            via: language to translate through, empty for none.
        """
        if via:
            texts, src = self(texts, src, via), via
        return self.translate_parts([self.split_text(text) for text in texts], src, tgt, on_batch)

    def translate_parts(
        self,
        parts: Sequence[Sequence[Int[np.ndarray, " _"]]],
        src: str,
        tgt: str,
        on_batch: Callable[[int, int], None] | None = None,
    ) -> list[str]:
        """Translate lists of parts to one text each, joining the parts' outputs.

        Args:
            parts: pieces (length,) of every part; an empty list gives an empty text.
            src, tgt: languages.
            on_batch: see `xling.models.generate.decode.generate_all`.
        """
        all_parts = [part for text_parts in parts for part in text_parts]
        outputs = map(self.decode_text, self.generate(all_parts, src, tgt, self.symbols, on_batch))
        return [" ".join(islice(outputs, len(text_parts))) for text_parts in parts]

    def generate(
        self,
        sources: Sequence[Int[np.ndarray, " _"]],
        src: str,
        tgt: str,
        symbols: Symbols,
        on_batch: Callable[[int, int], None] | None = None,
    ) -> list[Int[np.ndarray, " _"]]:
        """Return the pieces of the best output of each source; the arguments as for `translate_parts`."""
        src_langs, tgt_langs = ([self.lang_index(code)] * len(sources) for code in (src, tgt))
        search, size = self.search, self.batch_tokens
        results = generate_all(
            self.model, sources, src_langs, tgt_langs, symbols, search, size, on_batch=on_batch
        )
        return [hypotheses[0].tokens for hypotheses in results]

    def split_text(self, text: str) -> list[Int[np.ndarray, " _"]]:
        """Split a text into parts that fit the model and return their pieces; empty for an empty text."""
        ids = self.truncated_pieces(text).tolist() if self.truncates else encode_pieces(self.processor, text)
        piece_texts = [self.processor.id_to_piece(max(i - 1, 0)) for i in ids]
        return [np.array(ids[begin:end]) for begin, end in split_points(piece_texts, self.max_pieces)]

    def truncated_pieces(self, text: str) -> Int[np.ndarray, " length"]:
        """Return as many pieces of a text as fit the model, int64 (length,)."""
        return np.array(encode_pieces(self.processor, text)[: self.max_pieces], dtype=np.int64)

    def decode_text(self, tokens: Int[np.ndarray, " length"]) -> str:
        """Decode output tokens to a text on one line."""
        return " ".join(str(self.processor.decode([int(i) - 1 for i in tokens])).split("\n")).strip()


def split_points(piece_texts: Sequence[str], max_pieces: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the parts of a text, given as pieces, of at most ``max_pieces`` pieces.

    A part ends with a sentence if one ends in its second half, else before the last word that begins there,
    else at the limit.
    """
    begin = 0
    while len(piece_texts) - begin > max_pieces:
        earliest, latest = begin + max_pieces // 2, begin + max_pieces
        sentence_ends = [
            i
            for i in range(earliest, latest)
            if piece_texts[i][-1:] in ALL_ENDS and _starts_word(piece_texts, i + 1)
        ]
        word_starts = [i for i in range(earliest + 1, latest + 1) if _starts_word(piece_texts, i)]
        end = sentence_ends[-1] + 1 if sentence_ends else word_starts[-1] if word_starts else latest
        yield begin, end
        begin = end
    if begin < len(piece_texts):
        yield begin, len(piece_texts)


def _starts_word(piece_texts: Sequence[str], index: int) -> bool:
    """Return whether a word starts there; always after the full stop of a script without spaces."""
    return piece_texts[index].startswith(WORD_START) or piece_texts[index - 1][-1:] in NO_SPACE_ENDS


def read_lines(stream: Iterable[bytes]) -> Iterator[str]:
    """Read lines of UTF-8 without line ends; invalid bytes are replaced."""
    for line in stream:
        yield line.rstrip(b"\r\n").decode("utf-8", "replace")


def translate_lines(
    translator: Translator | DocumentTranslator,
    lines: Iterable[str],
    cfg: TranslateConfig,
    write: Callable[[str], Any],
) -> int:
    """Translate lines in blocks of ``cfg.buffer`` and write each block at once; return the number of lines."""
    stream, count, num_tokens_so_far, started_at = iter(lines), 0, 0, time.perf_counter()
    with Progress(f"translate {cfg.src}-{cfg.tgt}", unit="lines") as progress:

        def show_rate(num: int, num_tokens: int) -> None:
            nonlocal num_tokens_so_far
            num_tokens_so_far += num_tokens
            rate = num_tokens_so_far / (time.perf_counter() - started_at)
            progress.update(0, f"{rate:,.0f} tokens/s")

        while block := list(islice(stream, cfg.buffer)):
            for text in translator(block, cfg.src, cfg.tgt, show_rate, cfg.via):
                write(f"{text}\n")
            count += len(block)
            rate = num_tokens_so_far / (time.perf_counter() - started_at)
            progress.update(len(block), f"{rate:,.0f} tokens/s")
    return count


def run(cfg: TranslateConfig) -> None:
    """Translate standard input to standard output.

    Raises:
        UserError: as `xling.transfer.checks.check_translate`.
    """
    checks.check_translate(cfg)
    if cfg.threads:
        torch.set_num_threads(cfg.threads)
    translator = Translator(Path(cfg.checkpoint), cfg.search, cfg.batch_tokens, cfg.precision)
    of_documents = DocumentTranslator(translator, cfg.block) if cfg.join else None
    out = sys.stdout

    def write(text: str) -> None:
        out.buffer.write(text.encode("utf-8"))
        out.flush()

    with update.memory_kept():
        translate_lines(of_documents or translator, read_lines(sys.stdin.buffer), cfg, write)
    if of_documents and of_documents.uneven:
        tell(f"xling translate: {of_documents.report()}")
