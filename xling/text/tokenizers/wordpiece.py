"""Adapter that gives BERT's WordPiece vocabularies the interface of a SentencePiece model.

It is only for models trained elsewhere: `xling vocab` trains SentencePiece. Ids use SentencePiece's
numbering, so that code that adds one to them (`xling.text.vocab`) works for both kinds: ``<unk>`` 0, ``<s>``
1, ``</s>`` 2, then the pieces. The file stores a tokenizer of `tokenizers` with fairseq's numbering: BERT's
normaliser, its splitting into words and punctuation, and longest-match-first. Source: Wu et al. 2016;
tokenization.py of Devlin et al. 2019.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

from xling.core.errors import UserError

CLS, PAD, SEP, UNK, MASK = "[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"
SPECIALS = (CLS, PAD, SEP, UNK)
"""Special pieces at ids 0 to 3, where fairseq has ``<s> <pad> </s> <unk>``."""
CONTINUATION, WORD_START = "##", "\u2581"
UNK_ID, NUM_SPM_SPECIALS, MAX_WORD_CHARS = 3, 3, 100


def build_tokenizer(
    pieces: Sequence[str], lowercase: bool, strip_accents: bool | None, split_chinese: bool
) -> Tokenizer:
    """Build the tokenizer of ``pieces``, which have the ids from 4, followed by ``[MASK]``.

    Args:
        pieces: without specials.
        lowercase: lower-case the text first.
        strip_accents: remove accents; None: if text is lower-cased.
        split_chinese: treat every Chinese character as a word.
    """
    ids = {name: number for number, name in enumerate([*SPECIALS, *pieces, MASK])}
    tokenizer = Tokenizer(WordPiece(ids, unk_token=UNK, max_input_chars_per_word=MAX_WORD_CHARS))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=split_chinese,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUATION)
    return tokenizer


def marked(name: str) -> str:
    """Return the name of a piece with SentencePiece's mark of a start of a word instead of WordPiece's of a rest."""
    return name.removeprefix(CONTINUATION) if name.startswith(CONTINUATION) else WORD_START + name


class WordPieceProcessor:
    """A WordPiece vocabulary with the methods of `sentencepiece.SentencePieceProcessor` that this project uses.

    Args:
        path: file that `build_tokenizer` was saved to.

    Raises:
        UserError: the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises nothing narrower
            raise UserError(f"{path} is damaged: {error}", fix="import the model again") from None

    def encode(self, text: str | Sequence[str], out_type: type = int, return_type: str = "") -> Any:
        """Return the piece ids of one or several texts.

        Args:
            text: a text or texts; special tokens in it are read as plain text.
            out_type: ``str`` for the pieces as `id_to_piece` names them.
            return_type: ``offset_mapping`` for a dictionary of the ``ids`` of a text and its ``offsets``, the
                character range of each piece.
        """
        if not isinstance(text, str):
            encodings = self._tokenizer.encode_batch(list(text), add_special_tokens=False)
            return [self._to_output(encoding.ids, out_type) for encoding in encodings]
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        if return_type == "offset_mapping":
            return {"ids": self._to_output(encoding.ids, int), "offsets": encoding.offsets}
        return self._to_output(encoding.ids, out_type)

    def _to_output(self, ids: list[int], out_type: type) -> list[Any]:
        numbers = list(map(self._number_of, ids))
        return [self.id_to_piece(number) for number in numbers] if out_type is str else numbers

    def _number_of(self, stored: int) -> int:
        """Return the id in SentencePiece's numbering of an id of the stored tokenizer."""
        return 0 if stored == UNK_ID else stored - 1

    def _stored_id(self, number: int) -> int:
        return number + 1

    def get_piece_size(self) -> int:
        """Return the number of ids, including the three specials."""
        return int(self._tokenizer.get_vocab_size()) - 2

    def id_to_piece(self, number: int) -> str:
        """Return the piece, with SentencePiece's word-start marker if it begins a word."""
        if number < NUM_SPM_SPECIALS:
            return ("<unk>", "<s>", "</s>")[number]
        return self._marked(str(self._tokenizer.id_to_token(self._stored_id(number))))

    def _marked(self, name: str) -> str:
        return marked(name)

    def decode(self, numbers: Sequence[int]) -> str:
        """Decode ids to text; not all of BERT's spaces around punctuation are removed."""
        return str(self._tokenizer.decode(list(map(self._stored_id, numbers)), skip_special_tokens=False))

    def normalize(self, text: str) -> str:
        """Return the text as it is before it is cut into pieces."""
        normalizer = self._tokenizer.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))
