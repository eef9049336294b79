"""A trained language model: SentencePiece pieces, KenLM probabilities, CCNet's perplexity of a document."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import kenlm
import sentencepiece as spm

from corpora.normalize import for_lm
from xling.core.errors import UserError

ARPA, SPM = "lm.arpa", "spm.model"
_MAX_CACHED_WORDS = 1_000_000
_MAX_CACHED_CHARS = 24


class Pieces(dict[str, str]):
    """Word -> its pieces joined by spaces, computed when first asked for.

    A unigram SentencePiece model segments each whitespace-separated word by itself, so words may be looked
    up; as few words make up most of a text this is several times as fast as encoding whole texts.
    """

    def __init__(self, model: Path) -> None:
        super().__init__()
        if not model.is_file():
            raise UserError(f"no SentencePiece model at {model}", fix="train one with `xling corpus lm`")
        self._model = spm.SentencePieceProcessor(model_file=str(model))

    def __missing__(self, word: str) -> str:
        pieces = " ".join(self._model.encode(word, out_type=str))
        if len(word) <= _MAX_CACHED_CHARS:
            if len(self) >= _MAX_CACHED_WORDS:
                self.clear()
            self[word] = pieces
        return pieces

    def of(self, text: str) -> str:
        """The pieces of normalised ``text``, joined by spaces."""
        return " ".join(map(self.__getitem__, text.split()))


class LanguageModel:
    """An n-gram model over pieces.

    Args:
        directory: with the files ``spm.model`` and ``lm.arpa``, as `corpora.lm.train` publishes it.

    Raises:
        UserError: a file is missing or KenLM cannot read it.
    """

    def __init__(self, directory: Path) -> None:
        self.pieces = Pieces(directory / SPM)
        config = kenlm.Config()
        config.show_progress = False
        config.arpa_complain = kenlm.ARPALoadComplain.NONE
        try:
            self._model = kenlm.Model(str(directory / ARPA), config)
        except OSError as error:
            raise UserError(
                f"KenLM cannot read {directory / ARPA}: {error}", fix="train it again with `xling corpus lm`"
            ) from None

    def perplexity(self, text: str) -> float:
        """Perplexity a piece of ``text``, its paragraphs joined into one line as CCNet does.

        10 ** (-log10 p / (number of pieces + 1)); the one is the end of the line. Source:
        cc_net/perplexity.py, ``DocLM``.
        """
        tokenized = self.pieces.of(for_lm(text.replace("\n", " ")))
        if not tokenized:
            return float("inf")
        log10: float = self._model.score(tokenized)
        return float(10.0 ** (-log10 / (tokenized.count(" ") + 2)))


@lru_cache(maxsize=4)
def load(directory: Path) -> LanguageModel:
    """The model in ``directory``, read once a process."""
    return LanguageModel(directory)
