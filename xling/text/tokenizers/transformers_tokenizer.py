"""Adapter that gives any tokenizer of transformers the interface of a SentencePiece model.

Ids use SentencePiece's numbering, as in `xling.text.tokenizers.wordpiece`, so that code that adds one to them works
here too (`xling.text.vocab`). The file stores the tokenizer of `tokenizers` unchanged, with its id for each of our
ids.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from xling.core.errors import UserError
from xling.text.tokenizers import moses
from xling.text.tokenizers.wordpiece import WORD_START, WordPieceProcessor

MOSES_KEY = (
    "moses"  # key of the settings of `xling.text.tokenizers.moses.MosesTokenizer` in the place of a tokenizer
)
BYTE_LEVEL_SPACE = "\u0120"
"""Marker of a word's start in byte-level vocabularies."""
_UNWRITTEN = "\ufdd0"
"""Code point of no character: it stands before the names of pieces that no text may have."""


def write_tokenizer(path: Path, tokenizer: str, order: Sequence[int]) -> None:
    """Write the tokenizer of an imported model, with the order of our ids.

    Args:
        path: file to write.
        tokenizer: the text of its ``tokenizer.json``, or of `MOSES_KEY` with its settings.
        order: the tokenizer's id for each of our ids: begin, padding, end, unknown, the pieces, mask.
    """
    path.write_text(json.dumps({"tokenizer": json.loads(tokenizer), "order": [*order]}), encoding="utf-8")


def _load_tokenizer(stored: dict[str, Any], order: Sequence[int]) -> tuple[Any, bool]:
    """Return a stored tokenizer, and whether its pieces are WordPiece's."""
    if MOSES_KEY in stored:
        return moses.MosesTokenizer(stored[MOSES_KEY]), False
    _hide_specials(stored, {*order[3:-1]})
    stored["model"]["dropout"] = None  # of BPE: otherwise a text has other pieces each time
    tokenizer = Tokenizer.from_str(json.dumps(stored))
    tokenizer.encode_special_tokens = True
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, json.loads(tokenizer.to_str())["model"].get("type") == "WordPiece"


def _hide_specials(stored: dict[str, Any], readable: set[int]) -> None:
    """Change a stored tokenizer, in place, so that no text has another id than those that are ``readable``.

    Begin, end, mask and languages have a meaning for the model; whoever writes ``</s>`` into a text
    writes four letters. Further tokens that a model was trained to find in texts stay.
    """
    added: list[dict[str, Any]] = stored.get("added_tokens") or []
    model = stored["model"]
    hidden = {token["content"] for token in added if token["id"] not in readable} - {model.get("unk_token")}
    for token in added:
        token["special"] = token["content"] in hidden
    pieces = model.get("vocab") or {}
    if isinstance(pieces, dict):
        model["vocab"] = {_UNWRITTEN + name if name in hidden else name: n for name, n in pieces.items()}
        names = set(pieces)
    else:
        model["vocab"] = [[_UNWRITTEN + name if name in hidden else name, score] for name, score in pieces]
        names = {name for name, _ in pieces}
    stored["added_tokens"] = [token for token in added if token["content"] not in hidden & names]


class TransformersProcessor(WordPieceProcessor):
    """A stored tokenizer with the methods of `sentencepiece.SentencePieceProcessor` that this project uses.

    Args:
        path: file that `write_tokenizer` wrote.

    Raises:
        UserError: the file is damaged, or the tokenizer needs a package that is not installed.
    """

    def __init__(self, path: Path) -> None:
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            self._stored_ids = [int(number) for number in stored["order"]]
            self._tokenizer, self._is_wordpiece = _load_tokenizer(stored["tokenizer"], self._stored_ids)
        except UserError:
            raise
        except Exception as error:  # tokenizers raises nothing narrower
            raise UserError(f"{path} is damaged: {error}", fix="import the model again") from None
        self._our_ids = {
            theirs: max(0, ours - 1) for ours, theirs in reversed(list(enumerate(self._stored_ids)))
        }
        self._our_ids[self._stored_ids[3]] = 0

    def _number_of(self, stored: int) -> int:
        return self._our_ids.get(stored, 0)

    def _stored_id(self, number: int) -> int:
        return self._stored_ids[number + 1]

    def get_piece_size(self) -> int:
        """Return the number of ids, including the three specials."""
        return len(self._stored_ids) - 2

    def _marked(self, name: str) -> str:
        if self._is_wordpiece:
            return super()._marked(name)
        return (
            WORD_START + name[1:] if name.startswith(BYTE_LEVEL_SPACE) else name.removesuffix(moses.WORD_END)
        )
