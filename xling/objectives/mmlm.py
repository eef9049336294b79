"""Multilingual masked language modelling (mBERT, XLM-R) on monolingual streams of many languages.

The text of each language is one stream cut into blocks of ``tokens_per_sample``: a ``<s>`` and then tokens,
with ``</s>`` between paragraphs. Loss: the cross-entropy of the original pieces at the chosen positions.

Source: Devlin et al. 2019 (masking); Conneau et al. 2020 (languages sampled by n^alpha, no language embeddings).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary

from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.data import mixer, shards
from xling.data.masking import MaskRule, choose_positions, corrupt
from xling.data.packing import Example
from xling.objectives.base import BOS, FIRST_PIECE, Loss, Objective, ObjectiveDataset, TaskConfig, objective


@dataclass
class MmlmConfig(TaskConfig):
    """Settings of masked LM; the defaults are BERT's and XLM-R's."""

    mask_prob: float = 0.15
    leave_unmasked_prob: float = 0.1
    random_token_prob: float = 0.1


def example(tokens: np.ndarray, rule: MaskRule, generator: np.random.Generator) -> Example:
    """One masked block.

    Args:
        tokens: (length,) with ``<s>`` first; ids below `FIRST_PIECE` are never chosen.
        rule: how to mask.
        generator: source of randomness.

    Returns:
        ``tokens`` corrupted (length,), ``positions`` (length,), ``chosen`` (M,), ``target`` (M,).
    """
    chosen = choose_positions(tokens >= FIRST_PIECE, rule.prob, generator)
    return {
        "tokens": corrupt(tokens, chosen, rule, generator),
        "positions": np.arange(len(tokens)),
        "chosen": chosen,
        "target": tokens[chosen],
    }


BuildExample = Callable[[np.ndarray, np.random.Generator], Example]


class BlockDataset(ObjectiveDataset):
    """Blocks of monolingual streams, languages mixed by alpha, made into examples anew every epoch.

    Training epochs are drawn by `xling.data.mixer`; other splits hold every block once, with fixed masks.
    """

    def __init__(
        self, cfg: Any, data: Path, split: str, langs: list[str], name: str, build: BuildExample
    ) -> None:
        self._cfg, self._split, self._langs = cfg, split, langs
        self._name, self._build = name, build
        self._streams = {lang: shards.open_shard(data / lang / split).tokens for lang in langs}
        self._length = cfg.tokens_per_sample - 1
        self.num_tokens_of = {lang: len(stream) for lang, stream in self._streams.items()}
        if split == "train" and (empty := [lang for lang, n in self.num_tokens_of.items() if n == 0]):
            raise UserError(
                f"no training text in {data} for {', '.join(empty)}", fix="leave them out of langs="
            )
        self.num_items_of = {lang: -(-n // self._length) for lang, n in self.num_tokens_of.items()}
        super().__init__(cfg.seed)

    def set_epoch(self, epoch: int) -> None:
        """Draw the blocks of an epoch."""
        self.epoch = epoch if self._split == "train" else 0
        if self._split == "train":
            counts = mixer.epoch_counts(self.num_items_of, self.num_tokens_of, self._cfg.alpha)
            self._draw = mixer.draw_epoch(self.num_items_of, counts, self._cfg.seed, epoch)
        else:
            items = [np.arange(n) for n in self.num_items_of.values()]
            langs = np.repeat(np.arange(len(items)), [len(i) for i in items])
            self._draw = mixer.Draw(langs.astype(np.int16), np.concatenate(items))
        lengths = np.array(list(self.num_tokens_of.values()))[self._draw.langs]
        self._sizes = np.minimum(self._length, lengths - self._draw.items * self._length) + 1

    @property
    def sizes(self) -> np.ndarray:
        """Tokens of each block, ``<s>`` included."""
        return self._sizes

    def __getitem__(self, index: int) -> Example:
        lang = int(self._draw.langs[index])
        start = int(self._draw.items[index]) * self._length
        block = self._streams[self._langs[lang]][start : start + self._length]
        tokens = np.concatenate([[BOS], block]).astype(np.int64)
        made = self._build(tokens, rng(self._cfg.seed, self.epoch, index, self._name, self._split))
        return made | {
            "id": np.array([index]),
            "langs": np.full(len(tokens), lang),
            "target_langs": np.full(len(made["target"]), lang),
        }


@objective("mmlm")
class Mmlm(Objective):
    """Masked LM on monolingual text of many languages."""

    config = MmlmConfig

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Blocks of the split in every language of the task."""
        rule = rule_of(self.cfg, self.dictionary)

        def build(tokens: np.ndarray, generator: np.random.Generator) -> Example:
            return example(tokens, rule, generator)

        return BlockDataset(self.cfg, data, split, self.langs, "mmlm", build)

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Cross-entropy at the chosen positions only."""
        return masked_loss(model, sample)


def rule_of(cfg: Any, dictionary: Dictionary) -> MaskRule:
    """The masking rule of an objective's settings; random pieces exclude the specials."""
    return MaskRule(
        prob=cfg.mask_prob,
        leave=cfg.leave_unmasked_prob,
        random=cfg.random_token_prob,
        mask_id=dictionary.index("<mask>"),
        first_piece=FIRST_PIECE,
        end_piece=dictionary.index("<mask>"),
    )


def masked_loss(model: Any, sample: dict[str, Any], **how: Any) -> Loss:
    """Cross-entropy of the targets at the chosen positions of a packed batch; ``how`` goes to the encoder."""
    hidden = model(**sample["net_input"], **how)
    total, rows = model.lm_head.loss(hidden[sample["chosen"]], sample["target"])
    return Loss(total, len(rows), rows, sample["target_langs"])
