"""A trained language model: SentencePiece pieces, KenLM probabilities, CCNet's perplexity of a document."""

from functools import lru_cache
from pathlib import Path

import kenlm
import sentencepiece as spm

from xling.core.errors import UserError
from xling.core.settings.values import Range
from xling.text.normalize import words_for_lm

ARPA_FILE, SPM_FILE = "lm.arpa", "spm.model"
ORDERS = Range(least=2, most=6, words="2 to 6, the orders that KenLM reads")
_MAX_CACHED_BYTES = 20_000_000  # bytes of cached pieces, about 100 MB


class PieceCache(dict[bytes, bytes]):
    """Cache of normalised word -> its pieces joined by spaces, both UTF-8, filled on demand.

    A unigram model segments each whitespace-separated word by itself, and a few words make up most of any
    text. Every word is encoded in a separate call. Otherwise rounding after the preceding words would decide
    between equally likely segmentations, and pieces would depend on what else the process has read.

    Args:
        path: a SentencePiece model trained with the identity normalisation.

    Raises:
        UserError: the file does not exist.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UserError(f"no SentencePiece model at {path}", fix="train one with `xling corpus lm`")
        super().__init__()
        self.model = spm.SentencePieceProcessor(model_file=str(path))
        self._num_bytes = 0

    def __missing__(self, word: bytes) -> bytes:
        pieces = self[word] = " ".join(self.model.encode(word.decode(), out_type=str)).encode()
        self._num_bytes += len(pieces)
        return pieces

    def encode(self, text: str) -> bytes:
        """Return the pieces of ``text``, normalised by `words_for_lm`, joined by spaces, as UTF-8."""
        if self._num_bytes > _MAX_CACHED_BYTES:
            self.clear()
            self._num_bytes = 0
        return b" ".join(map(self.__getitem__, words_for_lm(text)))


def load_arpa(path: Path) -> kenlm.Model:
    """Load the n-gram model of an ARPA file.

    Raises:
        UserError: KenLM cannot read it.
    """
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    try:
        return kenlm.Model(str(path), config)
    except OSError as error:
        raise UserError(f"KenLM cannot read {path}: {error}", fix="make it again") from None


class LanguageModel:
    """An n-gram model over SentencePiece pieces.

    Args:
        directory: with the files ``spm.model`` and ``lm.arpa``, as `xling.text.lm.train` publishes it.

    Raises:
        UserError: a file is missing or KenLM cannot read it.
    """

    def __init__(self, directory: Path) -> None:
        self.pieces = PieceCache(directory / SPM_FILE)
        self.kenlm = load_arpa(directory / ARPA_FILE)

    def perplexity(self, text: str) -> float:
        """Return the perplexity per piece of ``text``, its paragraphs joined into one line as CCNet does.

        10 ** (-log10 p / (number of pieces + 1)); the added one is the end of the line. Infinite for a text
        without words. Source: cc_net/perplexity.py, ``DocLM``.
        """
        pieces = self.pieces.encode(text)
        if not pieces:
            return float("inf")
        log10: float = self.kenlm.score(pieces)
        return 10.0 ** (-log10 / (pieces.count(b" ") + 2))


@lru_cache(maxsize=4)
def load_language_model(directory: Path) -> LanguageModel:
    """Load the model in ``directory``, once per process."""
    return LanguageModel(directory)
