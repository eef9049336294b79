"""Adapter that gives any tokenizer of transformers the interface of a SentencePiece model.

Ids use SentencePiece's numbering, as in `xling.text.wordpiece`, so that code that adds one to them works here
too (`xling.text.vocab`). The file stores the tokenizer of `tokenizers` unchanged, with its id for each of our
ids.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from xling.core.errors import UserError
from xling.text import moses

NUM_SPM_SPECIALS = 3
MOSES = "moses"  # key of the settings of `xling.text.moses.MosesTokenizer` in the place of a tokenizer
SPACE, WORD_START, INSIDE = "\u0120", "\u2581", "##"
"""Markers of a word's start or inside in byte-level, SentencePiece and WordPiece vocabularies."""


def write(path: Path, tokenizer: str, order: Sequence[int]) -> None:
    """Write the tokenizer of an imported model, with the order of our ids.

    Args:
        path: file to write.
        tokenizer: the text of its ``tokenizer.json``, or of `MOSES` with its settings.
        order: the tokenizer's id for each of our ids: begin, padding, end, unknown, the pieces, mask.
    """
    path.write_text(json.dumps({"tokenizer": json.loads(tokenizer), "order": [*order]}), encoding="utf-8")


def _loaded(told: dict[str, Any]) -> tuple[Any, bool]:
    """Return a stored tokenizer, and whether its pieces are WordPiece's."""
    if MOSES in told:
        return moses.MosesTokenizer(told[MOSES]), False
    tokenizer = Tokenizer.from_str(json.dumps(told))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, json.loads(tokenizer.to_str())["model"].get("type") == "WordPiece"


class ForeignProcessor:
    """A stored tokenizer with the methods of `sentencepiece.SentencePieceProcessor` that this project uses.

    Args:
        path: file that `write` wrote.

    Raises:
        UserError: the file is damaged, or the tokenizer needs a package that is not installed.
    """

    def __init__(self, path: Path) -> None:
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            self._tokenizer, self._is_wordpiece = _loaded(told["tokenizer"])
            self._order = [int(number) for number in told["order"]]
        except UserError:
            raise
        except Exception as error:  # tokenizers raises nothing narrower
            raise UserError(f"{path} is damaged: {error}", fix="import the model again") from None
        self._ours = {theirs: max(0, ours - 1) for ours, theirs in reversed(list(enumerate(self._order)))}
        self._ours[self._order[3]] = 0

    def encode(self, text: str | Sequence[str], out_type: type = int, return_type: str = "") -> Any:
        """Return the piece ids of one or several texts; see `xling.text.wordpiece.WordPieceProcessor.encode`."""
        if not isinstance(text, str):
            encodings = self._tokenizer.encode_batch(list(text), add_special_tokens=False)
            return [self._shown(one.ids, out_type) for one in encodings]
        one = self._tokenizer.encode(text, add_special_tokens=False)
        if return_type == "offset_mapping":
            return {"ids": self._shown(one.ids, int), "offsets": one.offsets}
        return self._shown(one.ids, out_type)

    def _shown(self, ids: list[int], out_type: type) -> list[Any]:
        numbers = [self._ours.get(number, 0) for number in ids]
        return [self.id_to_piece(number) for number in numbers] if out_type is str else numbers

    def get_piece_size(self) -> int:
        """Return the number of ids, including the three specials."""
        return len(self._order) - 2

    def id_to_piece(self, number: int) -> str:
        """Return the piece, with SentencePiece's word-start marker if it begins a word."""
        if number < NUM_SPM_SPECIALS:
            return ("<unk>", "<s>", "</s>")[number]
        name = str(self._tokenizer.id_to_token(self._order[number + 1]))
        if self._is_wordpiece:
            return name.removeprefix(INSIDE) if name.startswith(INSIDE) else WORD_START + name
        return WORD_START + name[1:] if name.startswith(SPACE) else name.removesuffix(moses.END)

    def decode(self, numbers: Sequence[int]) -> str:
        """Decode ids to text."""
        return str(self._tokenizer.decode([self._order[n + 1] for n in numbers], skip_special_tokens=False))

    def normalize(self, text: str) -> str:
        """Return the text as it is before it is cut into pieces."""
        rules = self._tokenizer.normalizer
        return text if rules is None else str(rules.normalize_str(text))
