"""BERT's WordPiece vocabularies behind the face of a SentencePiece model.

Only for models that others have trained: `xling vocab` trains SentencePiece. Ids are in SentencePiece's numbering, so
that everything that adds one to it (`xling.text.vocab`) serves both kinds: ``<unk>`` 0, ``<s>`` 1, ``</s>`` 2, then the
pieces. What is stored is a file of `tokenizers` with fairseq's numbering: BERT's normaliser, its splitting into words
and punctuation, and the longest match first. Source: Wu et al. 2016; tokenization.py of Devlin et al. 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

from xling.core.errors import UserError

CLS, PAD, SEP, UNK, MASK = "[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"
SPECIALS = (CLS, PAD, SEP, UNK)
"""At ids 0 to 3, where fairseq has ``<s> <pad> </s> <unk>``."""
INSIDE, WORD_START = "##", "\u2581"
UNK_ID, NUM_SPM_SPECIALS, MAX_CHARS = 3, 3, 100


def build(
    pieces: Sequence[str], lowercase: bool, strip_accents: bool | None, split_chinese: bool
) -> Tokenizer:
    """The tokenizer of ``pieces``, which have the ids from 4, with ``[MASK]`` behind them.

    Args:
        pieces: without specials.
        lowercase: lower-case the text first.
        strip_accents: take accents away; None: where text is lower-cased.
        split_chinese: make a word of every Chinese character.
    """
    ids = {name: number for number, name in enumerate([*SPECIALS, *pieces, MASK])}
    made = Tokenizer(WordPiece(ids, unk_token=UNK, max_input_chars_per_word=MAX_CHARS))
    made.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=split_chinese,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(prefix=INSIDE)
    return made


class WordPieceProcessor:
    """What is asked of a `sentencepiece.SentencePieceProcessor` in this project, of a WordPiece vocabulary.

    Args:
        path: file that `build` was saved to.

    Raises:
        UserError: it is damaged.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises nothing narrower
            raise UserError(f"{path} is damaged: {error}", fix="import the model again") from None

    def encode(self, text: str | Sequence[str], out_type: type = int, return_type: str = "") -> Any:
        """Ids of the pieces of a text, or of each of several.

        Args:
            text: a text or texts; what looks like a special is read as text.
            out_type: ``str`` for the pieces as `id_to_piece` names them.
            return_type: ``offset_mapping`` for a dictionary of the ``ids`` of a text and its ``offsets``, the
                characters that each stands for.
        """
        if not isinstance(text, str):
            found = self._tokenizer.encode_batch(list(text), add_special_tokens=False)
            return [self._shown(one.ids, out_type) for one in found]
        one = self._tokenizer.encode(text, add_special_tokens=False)
        if return_type == "offset_mapping":
            return {"ids": self._shown(one.ids, int), "offsets": one.offsets}
        return self._shown(one.ids, out_type)

    def _shown(self, ids: list[int], out_type: type) -> list[Any]:
        numbers = [0 if number == UNK_ID else number - 1 for number in ids]
        return [self.id_to_piece(number) for number in numbers] if out_type is str else numbers

    def get_piece_size(self) -> int:
        """Number of ids, the three specials included."""
        return int(self._tokenizer.get_vocab_size()) - 2

    def id_to_piece(self, number: int) -> str:
        """The piece with SentencePiece's sign where a word begins, instead of WordPiece's where one goes on."""
        if number < NUM_SPM_SPECIALS:
            return ("<unk>", "<s>", "</s>")[number]
        name = str(self._tokenizer.id_to_token(number + 1))
        return name.removeprefix(INSIDE) if name.startswith(INSIDE) else WORD_START + name

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of ids; BERT's spaces around punctuation are not all taken back."""
        return str(self._tokenizer.decode([number + 1 for number in numbers], skip_special_tokens=False))

    def normalize(self, text: str) -> str:
        """The text as it is before it is cut."""
        return str(self._tokenizer.normalizer.normalize_str(text))
