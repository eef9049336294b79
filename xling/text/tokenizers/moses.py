"""The tokenizer of XLM behind the interface of the package tokenizers: words by Moses, then BPE.

The words and the pieces are those of ``XLMTokenizer`` of transformers when it is given no language.

Source: Conneau and Lample 2019; Koehn et al. 2007 (Moses).
"""

import json
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xling.core.commands import inputs

WORD_END = "</w>"
"""Mark of the end of a word in a piece."""
_MAX_LOOKAHEAD = 16  # characters that are searched for the next one of a piece


@dataclass(frozen=True)
class PieceEncoding:
    """A text in pieces: their ids, and the range of characters of each."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class MosesTokenizer:
    """XLM's words and pieces.

    Args:
        settings: ``vocab`` (piece -> id), ``merges`` (text of the file) and ``lower`` (letters lose case and accents).

    Raises:
        UserError: sacremoses or transformers is not installed.
    """

    normalizer = None

    def __init__(self, settings: Mapping[str, Any]) -> None:
        inputs.require("hub", "a model of XLM")
        from transformers import XLMTokenizer

        with tempfile.TemporaryDirectory() as folder:
            files = Path(folder) / "vocab.json", Path(folder) / "merges.txt"
            files[0].write_text(json.dumps(settings["vocab"]), encoding="utf-8")
            files[1].write_text(settings["merges"], encoding="utf-8")
            self._tokenizer = XLMTokenizer(*map(str, files), do_lowercase_and_remove_accent=settings["lower"])

    def encode(self, text: str, add_special_tokens: bool = False) -> PieceEncoding:
        """Return the pieces of a text; specials are never added."""
        pieces = self._tokenizer._tokenize(text)
        return PieceEncoding(
            [self._tokenizer._convert_token_to_id(name) for name in pieces], find_offsets(text, pieces)
        )

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[PieceEncoding]:
        """Return the pieces of several texts."""
        return [self.encode(text) for text in texts]

    def id_to_token(self, number: int) -> str:
        """Return the name of an id, with `WORD_END` at the end of a word."""
        return str(self._tokenizer._convert_id_to_token(number))

    def decode(self, numbers: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Return the words of ids, with a space between any two."""
        return str(self._tokenizer.convert_tokens_to_string([self.id_to_token(number) for number in numbers]))


def find_offsets(text: str, pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Find the range of characters of each piece.

    Moses replaces and drops characters, so every letter of a piece is searched from where the last one was. A
    piece of which nothing is there has an empty range.
    """
    folded_letters = [_fold(letter) for letter in text]
    ranges, last_end = [], 0
    for name in pieces:
        begin, end = -1, last_end
        for letter in _fold(name.removesuffix(WORD_END)):
            lookahead = range(end, min(end + _MAX_LOOKAHEAD, len(text)))
            match_index = next((i for i in lookahead if letter in folded_letters[i]), None)
            if match_index is not None:
                begin, end = match_index if begin < 0 else begin, match_index + 1
        while begin >= 0 and end < len(text) and unicodedata.category(text[end]) == "Mn":
            end += 1
        ranges.append((begin if begin >= 0 else end, end))
        last_end = end
    return ranges


def _fold(text: str) -> str:
    """Return letters without case and accents, as Moses' replacements leave them."""
    plain = unicodedata.normalize("NFKD", text.lower())
    return "".join(letter for letter in plain if unicodedata.category(letter) != "Mn") or plain
