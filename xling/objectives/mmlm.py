"""Multilingual masked language modelling (mBERT, XLM-R) on monolingual streams of many languages.

The text of each language is one stream cut into blocks of ``tokens_per_sample``: a ``<s>`` and then tokens,
with ``</s>`` between paragraphs. Loss: the cross-entropy of the original pieces at the chosen positions.

Source: Devlin et al. 2019 (masking); Conneau et al. 2020 (languages sampled by n^alpha, no language embeddings).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fairseq.data import Dictionary

from xling.array_types import Bool, Int, Integer
from xling.core.errors import UserError
from xling.data import mixer
from xling.data.masking import MaskRule, choose, corrupt
from xling.data.packing import Example
from xling.objectives.base import (
    BOS,
    FIRST_PIECE,
    Loss,
    Objective,
    ObjectiveDataset,
    objective,
)
from xling.objectives.base_settings import MaskConfig as MaskConfig
from xling.objectives.contract_facts import Trial
from xling.objectives.dataset import DrawnDataset
from xling.text.files import shards
from xling.text.tokenizers.wordpiece import CONTINUATION

WORD_START, BYTE_LEVEL_SPACE = "\u2581", "\u0120"


def masked(tokens: Int[np.ndarray, " length"], rule: MaskRule, generator: np.random.Generator) -> Example:
    """Mask tokens (length,): ``tokens`` corrupted (length,), ``chosen`` (M,) and ``target`` (M,)."""
    chosen = choose(tokens, rule, generator)
    return {
        "tokens": corrupt(tokens, chosen, rule, generator),
        "chosen": chosen,
        "target": tokens[chosen],
    }


def example(tokens: Int[np.ndarray, " length"], rule: MaskRule, generator: np.random.Generator) -> Example:
    """Build an example from one block by masking.

    Args:
        tokens: (length,) with ``<s>`` first; ids below `FIRST_PIECE` are never chosen.

    Returns:
        ``tokens`` corrupted (length,), ``positions`` (length,), ``chosen`` (M,), ``target`` (M,).
    """
    return masked(tokens, rule, generator) | {"positions": np.arange(len(tokens))}


class Block(NamedTuple):
    """A block of a stream, as an objective receives it.

    Attributes:
        tokens: ``<s>`` and a part of the stream, int64 (length,).
        langs: language index of each token, int64 (length,).
        generator: random generator of the block.
    """

    tokens: Int[np.ndarray, " length"]
    langs: Int[np.ndarray, " length"]
    generator: np.random.Generator


BuildExample = Callable[[Block], Example]


class BlockDataset(DrawnDataset):
    """Dataset of blocks of monolingual streams, with languages mixed by alpha and new examples every epoch."""

    def __init__(
        self, cfg: Any, data: Path, split: str, langs: list[str], name: str, build: BuildExample
    ) -> None:
        self._cfg, self._split, self._langs, self._build = cfg, split, langs, build
        self._streams = self.open_streams(data)
        self._names = list(self._streams)
        self._length = self.stream_tokens(cfg.tokens_per_sample)
        self._paragraphs = (
            [self._open_paragraphs(data / lang / split) for lang in langs]
            if getattr(cfg, "lines", False)
            else []
        )
        num_tokens = {lang: len(stream) for lang, stream in self._streams.items()}
        if split == "train" and (empty := [lang for lang, n in num_tokens.items() if n == 0]):
            raise UserError(
                f"no training text in {data} for {', '.join(empty)}", fix="leave them out of langs="
            )
        num_items = {lang: -(-n // self._length) for lang, n in num_tokens.items()}
        if self._paragraphs:
            num_items = {lang: len(sizes) for lang, (_, sizes) in zip(langs, self._paragraphs, strict=True)}
        super().__init__(cfg, split, name, num_items, num_tokens)

    def tokens_of(self, draw: mixer.Draw) -> Integer[np.ndarray, " draws"]:
        """Return the stream tokens per drawn block, int64 (num_draws,).

        The last block of a stream may be shorter.
        """
        if self._paragraphs:
            return draw.of_items(sizes for _, sizes in self._paragraphs)
        whole = np.array(list(self.num_tokens_of.values()))[draw.langs]
        return np.minimum(self._length, whole - draw.items * self._length)

    def read_ahead(self, draw: mixer.Draw) -> None:
        """Ask for the chunks of a window, each in one stretch."""
        blocks = self._cfg.read_chunk
        for number, stream in enumerate(self._streams.values()):
            for chunk in np.unique(draw.items[draw.langs == number] // blocks).tolist():
                first = chunk * blocks * self._length
                shards.read_ahead(stream, first, min(first + blocks * self._length, len(stream)))

    def open_streams(self, data: Path) -> dict[str, Integer[np.ndarray, " _"]]:
        """Open the streams by name; here one per language."""
        return {lang: shards.open_shard(data / lang / self._split).tokens for lang in self._langs}

    def _open_paragraphs(self, shard: Path) -> tuple[Int[np.ndarray, " items"], Int[np.ndarray, " items"]]:
        """Starts and lengths of the paragraphs of a shard, int64 (num_items,), as far as an example has room."""
        opened = shards.open_shard(shard)
        text = opened.sizes > 1  # the others are ends of documents
        return opened.starts()[text], np.minimum(opened.sizes[text], self._length).astype(np.int64)

    def stream_tokens(self, room: int) -> int:
        """Return how many tokens of a stream go into an example of at most ``room`` tokens."""
        return room - 1

    def example_tokens(self, num: Integer[np.ndarray, " draws"]) -> Integer[np.ndarray, " draws"]:
        """Return the tokens of examples made of ``num`` tokens of a stream."""
        return num + 1

    def langs_of(self, stream: int, start: int, num: int) -> Int[np.ndarray, " {num}"]:
        """Return the languages of ``num`` tokens of a stream from ``start``, int64 (num,)."""
        return np.full(num, stream)

    def __getitem__(self, index: int) -> Example:
        stream, item = self.drawn(index)
        start, length = item * self._length, self._length
        if self._paragraphs:
            start, length = (int(part[item]) for part in self._paragraphs[stream])
        text = self._streams[self._names[stream]][start : start + length]
        langs = self.langs_of(stream, start, len(text))
        block = Block(
            np.concatenate([[BOS], text]).astype(np.int64),
            np.concatenate([langs[:1], langs]),
            self.generator(index),
        )
        built = {"langs": block.langs} | self._build(block)
        return built | {"id": np.array([index]), "target_langs": built["langs"][built["chosen"]]}


class MaskedObjective(Objective):
    """Base class of objectives that predict the tokens at the chosen positions."""

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the cross-entropy at the chosen positions only."""
        return masked_loss(model, sample)


@objective("mmlm")
class Mmlm(MaskedObjective):
    """The masked LM objective on monolingual text of many languages.

    Attributes:
        blocks: class of the dataset.
        key: name in the random key of the dataset.
    """

    trial = Trial(changes=("context",), ignores=("own token",))
    blocks: type[BlockDataset] = BlockDataset
    key: str = "mmlm"

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of blocks of a split in every language of the task."""
        rule = rule_of(self.cfg, self.dictionary)

        def build(block: Block) -> Example:
            return example(block.tokens, rule, block.generator)

        return self.blocks(self.cfg, data, split, self.langs, self.key, build)


def word_starts_of(dictionary: Dictionary) -> Bool[np.ndarray, " vocab"]:
    """Return which pieces begin a word, bool (vocabulary,), by the markers of its kind.

    They are SentencePiece's, WordPiece's, or those of byte-level vocabularies.
    """
    names = [dictionary[i] for i in range(len(dictionary))]
    starts = np.array([name.startswith(WORD_START) for name in names])
    if not starts.any():
        starts = np.array([name.startswith(BYTE_LEVEL_SPACE) for name in names])
    inside = np.array([name.startswith(CONTINUATION) for name in names])
    if inside.sum() <= starts.sum():
        return starts
    specials = np.arange(len(names))
    return ~inside & (specials >= FIRST_PIECE) & (specials < dictionary.index("<mask>"))


def unspaced_starts_of(dictionary: Dictionary) -> Bool[np.ndarray, " vocab"]:
    """Return which pieces begin a word of a script without spaces, bool (vocabulary,).

    By `word_starts_of` alone a sentence of Chinese or Thai would be one word, and masked as a whole.
    """
    from xling.text.word_segmentation import begins_unspaced_word  # it imports polars

    return np.array([begins_unspaced_word(dictionary[i]) for i in range(len(dictionary))])


def rule_of(cfg: Any, dictionary: Dictionary) -> MaskRule:
    """Return the masking rule of an objective's settings; random pieces exclude the specials."""
    mask_id = dictionary.index("<mask>")
    return MaskRule(
        prob=cfg.mask_prob,
        leave=cfg.leave_unmasked_prob,
        random=cfg.random_token_prob,
        mask_id=mask_id,
        first_piece=FIRST_PIECE,
        end_piece=mask_id,
        unit=cfg.mask_unit,
        word_starts=word_starts_of(dictionary),
        unspaced=unspaced_starts_of(dictionary),
    )


def masked_loss(model: Any, sample: dict[str, Any], **how: Any) -> Loss:
    """Return the cross-entropy at the chosen positions of a packed batch; ``how`` is passed to the encoder."""
    hidden = model(**sample["net_input"], **how)
    total, rows = model.lm_head.loss(hidden[sample["chosen"]], sample["target"])
    return Loss(total, len(rows), rows, sample["target_langs"])
