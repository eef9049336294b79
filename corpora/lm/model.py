"""A trained language model: SentencePiece pieces, KenLM probabilities, CCNet's perplexity of a document."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import kenlm
import sentencepiece as spm

from corpora.normalize import for_lm
from xling.core.errors import UserError

ARPA, SPM = "lm.arpa", "spm.model"
_MAX_CACHED_CHARS = 20_000_000  # of pieces remembered, about 100 MB
_WORD_START = "\u2581"  # SentencePiece's sign for the space before a word


class Pieces:
    """Text as SentencePiece pieces, with a memory for words.

    A unigram model segments each whitespace-separated word by itself, so known words are looked up and only
    the new ones of a text are encoded, in one call; a few words make up most of any text.

    Args:
        path: a SentencePiece model trained with the identity normalisation.

    Raises:
        UserError: there is no such file.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UserError(f"no SentencePiece model at {path}", fix="train one with `xling corpus lm`")
        self.model = spm.SentencePieceProcessor(model_file=str(path))
        self._known: dict[str, str] = {}
        self._num_chars = 0

    def of(self, texts: Sequence[str]) -> list[str]:
        """The pieces of each text, which `corpora.normalize.for_lm` has normalised, joined by spaces."""
        if self._num_chars > _MAX_CACHED_CHARS:
            self._known.clear()
            self._num_chars = 0
        words = [text.replace(_WORD_START, " ").split() for text in texts]
        if new := set().union(*words).difference(self._known):
            self._learn(list(new))
        return [" ".join(map(self._known.__getitem__, text)) for text in words]

    def _learn(self, words: list[str]) -> None:
        """Encode new words in one call."""
        pieces = " ".join(self.model.encode(" ".join(words), out_type=str)).removeprefix(_WORD_START)
        parts = [_WORD_START + part for part in pieces.split(f" {_WORD_START}")]
        assert len(parts) == len(words), "every word starts with the sign for the space before it"
        self._num_chars += len(pieces)
        self._known.update(zip(words, parts, strict=True))


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
            self.kenlm = kenlm.Model(str(directory / ARPA), config)
        except OSError as error:
            raise UserError(
                f"KenLM cannot read {directory / ARPA}: {error}", fix="train it again with `xling corpus lm`"
            ) from None

    def perplexities(self, texts: Sequence[str]) -> list[float]:
        """Perplexity a piece of each text, its paragraphs joined into one line as CCNet does.

        10 ** (-log10 p / (number of pieces + 1)); the one is the end of the line. Source:
        cc_net/perplexity.py, ``DocLM``. Some dozens of texts at a time are fastest.
        """
        found = []
        for pieces in self.pieces.of([for_lm(text.replace("\n", " ")) for text in texts]):
            log10: float = self.kenlm.score(pieces)
            found.append(10.0 ** (-log10 / (pieces.count(" ") + 2)) if pieces else float("inf"))
        return found


@lru_cache(maxsize=4)
def load(directory: Path) -> LanguageModel:
    """The model in ``directory``, read once a process."""
    return LanguageModel(directory)
