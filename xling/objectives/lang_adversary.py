"""Language-adversarial training: the encoder hides the language of a sentence from a discriminator of languages.

A sentence is read whole, without masks, as ``<s> x </s>``. The loss that is logged is that of the discriminator: with
``form=classes`` the logarithm of the number of languages means that it knows nothing. It trains beside another
objective, ``mix=sum``: alone, an encoder that says nothing would be best.

Sources: `xling.models.network.adversary`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from xling.array_types import Float, Int
from xling.data.packing import Example, pack, sequence
from xling.models.network.adversary import Discriminator, losses, reverse_gradient
from xling.models.network.attention import SequenceRuns
from xling.models.network.seq2seq import pool
from xling.objectives.adversary_settings import LangAdversaryConfig
from xling.objectives.base import BOS, Loss, Objective, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.seq2seq import Text, TextDataset


def example(text: Text) -> Example:
    """Build a sentence as an encoder reads it; its language is what is to be told."""
    tokens = np.concatenate([[BOS], text.tokens])
    lang = np.array([text.lang])
    first = np.zeros(1, dtype=np.int64)
    return sequence(tokens, text.lang, chosen=first, target=lang, target_langs=lang)


class SentenceDataset(TextDataset):
    """Dataset of single sentences for an encoder."""

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Build a packed batch of sources alone."""
        return pack(samples)


def sentence_vectors(
    states: Float[Tensor, "tokens dim"], runs: SequenceRuns, first: Int[Tensor, " batch"], pooling: str
) -> Float[Tensor, "batch dim"]:
    """Return a vector for each sequence: the mean of its states without the first and the last, or the first."""
    return states[first] if pooling == "cls" else pool(states, runs, "mean")


@objective("lang_adversary")
class LangAdversary(Objective):
    """A discriminator learns the language of a sentence, and the encoder learns to hide it."""

    settings: LangAdversaryConfig
    trial = Trial(overfits_with={"reversal": "0"}, changes=("context",))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of sentences of a split."""
        return SentenceDataset(self.cfg, data, split, self.langs, self.name, example, lambda num: num + 1)

    def modules(self, model: Any) -> nn.Module:
        """Create the discriminator."""
        clip = self.settings.clip if self.settings.form == "wgan" else 0.0
        return Discriminator(model.cfg.dim, len(self.langs), clip).to(model.lm_head.bias.dtype)

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the loss of the discriminator; the encoder gets its gradient reversed."""
        cfg, discriminator = self.settings, model.extras[self.name]
        inputs = sample["net_input"]
        vectors = sentence_vectors(model(**inputs), inputs["runs"], sample["chosen"], cfg.pooling)
        share = min(1.0, discriminator.num_updates / cfg.warmup) if cfg.warmup else 1.0
        numbers = discriminator(reverse_gradient(vectors, share * cfg.reversal))
        rows = losses(numbers, sample["target"], cfg.form)
        return Loss(rows.sum(), len(rows), rows.detach(), sample["target_langs"])
