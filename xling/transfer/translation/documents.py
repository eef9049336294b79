"""Translation of whole documents in blocks of neighbouring sentences, for a model that was trained with ``join=true``.

A block is as many lines of a document as fit into ``block`` pieces, with ``</s>`` between them; the output ends with
the token of its language, and its ``</s>`` divide it into lines again. A block whose output has more or fewer sentences
keeps its number of lines: what is left over joins the last one, and lines without a sentence are empty. Such blocks are
counted.

Source: Liu et al. 2020 (mBART), section 4: blocks of 512 tokens, and BLEU over whole documents (d-BLEU).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from xling.array_types import Int
from xling.core.errors import UserError
from xling.text.tokenizers.bleu_words import bleu_tokeniser
from xling.transfer.encode import encode_pieces

EOS = 2
NUM_SYMBOLS = 2  # of a block: the language of its source, the end of its target


class DocumentTranslator:
    """A translator of lines with a blank line between documents.

    Args:
        translator: the `xling.transfer.translation.translate.Translator`.
        block: ``tokens_per_sample`` of the training, of which two are for symbols; at most what the model reads.

    Attributes:
        blocks, uneven: number of blocks, and of those with another number of sentences than their source.
    """

    def __init__(self, translator: Any, block: int) -> None:
        self.translator, self.room = translator, min(block - NUM_SYMBOLS, translator.max_pieces)
        self.blocks = self.uneven = 0

    def __call__(
        self,
        lines: Sequence[str],
        src: str,
        tgt: str,
        on_batch: Callable[[int, int], None] | None = None,
        via: str = "",
    ) -> list[str]:
        """Translate lines, one output per line in order; blank lines stay empty and divide documents."""
        pieces = [np.array(encode_pieces(self.translator.processor, line), dtype=np.int64) for line in lines]
        assert not via, "documents are translated directly"
        sizes = [len(each) + bool(line.strip()) for each, line in zip(pieces, lines, strict=True)]
        blocks, outputs = blocks_of(sizes, self.room), [""] * len(lines)
        long = [
            block[0] for block in blocks if sizes[block[0]] > self.room
        ]  # alone, and divided as other long lines
        blocks = [block for block in blocks if sizes[block[0]] <= self.room]
        for at, text in zip(long, self.translator([lines[at] for at in long], src, tgt), strict=True):
            outputs[at] = text
        # With </s> between the sentences; the one at the end comes with the source.
        sources = [
            np.concatenate([pieces[block[0]], *(np.insert(pieces[at], 0, EOS) for at in block[1:])])
            for block in blocks
        ]
        for block, sentences in zip(blocks, self._generate(sources, src, tgt, on_batch), strict=True):
            self.uneven += len(sentences) != len(block)
            for at, text in zip(block, fitted(sentences, len(block)), strict=True):
                outputs[at] = text
        self.blocks += len(blocks) + len(long)
        return outputs

    def report(self) -> str:
        """Return how many blocks there were, and how many whose sentences are not one for each line."""
        return f"{self.uneven} of {self.blocks} blocks have more or fewer sentences than their source"

    def _generate(
        self, sources: Sequence[Int[np.ndarray, " _"]], src: str, tgt: str, on_batch: Any
    ) -> list[list[str]]:
        symbols = replace(self.translator.symbols, documents=True)
        outputs = self.translator.generate(sources, src, tgt, symbols, on_batch)
        return [
            [self.translator.decode_text(sentence) for sentence in sentences_of(each)] for each in outputs
        ]


def blocks_of(sizes: Sequence[int], room: int) -> list[list[int]]:
    """Return the numbers of the lines of each block; lines of size 0 are blank and divide documents.

    Example:
        >>> blocks_of([3, 3, 3, 0, 2], 6)
        [[0, 1], [2], [4]]
    """
    blocks, used = list[list[int]](), room + 1
    for number, size in enumerate(sizes):
        if not size:
            used = room + 1
            continue
        if used + size > room:
            blocks.append([])
            used = 0
        blocks[-1].append(number)
        used += size
    return blocks


def sentences_of(tokens: Int[np.ndarray, " length"]) -> list[Int[np.ndarray, " _"]]:
    """Divide an output at its ``</s>``; the last sentence may lack it."""
    ends = np.flatnonzero(tokens == EOS)
    parts = [part[part != EOS] for part in np.split(tokens, ends)]
    return [part for part in parts if len(part)]


def fitted(sentences: Sequence[str], num: int) -> list[str]:
    """Return ``num`` lines: sentences that are left over join the last line, missing ones are empty.

    Example:
        >>> fitted(["a", "b", "c"], 2), fitted(["a"], 2)
        (['a', 'b c'], ['a', ''])
    """
    return [*sentences[: num - 1], " ".join(sentences[num - 1 :]), *[""] * (num - 1 - len(sentences))][:num]


def documents_of(pair: str, sources: Sequence[str], references: Sequence[str]) -> list[list[int]]:
    """Return the numbers of the lines of each document of a test set; lines blank on both sides divide them.

    Raises:
        UserError: a line is blank on one side only.
    """
    blank = [(not src.strip(), not ref.strip()) for src, ref in zip(sources, references, strict=True)]
    if wrong := [number for number, (one, other) in enumerate(blank, 1) if one != other]:
        raise UserError(
            f"test.{pair}: line {wrong[0]} is blank on one side only",
            "blank lines between documents, on both sides",
        )
    return blocks_of([not one for one, _ in blank], len(blank))


def document_bleu(
    outputs: Sequence[str], references: Sequence[str], documents: Sequence[Sequence[int]], lang: str
) -> float:
    """Return BLEU, 0 to 100, of documents as one text each: n-grams match across sentences."""
    texts = [[" ".join(side[at] for at in lines) for lines in documents] for side in (outputs, references)]
    return float(BLEU(tokenize=bleu_tokeniser(lang)).corpus_score(texts[0], [texts[1]]).score)
