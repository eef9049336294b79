"""A language adversary beside a fine-tuning: ``fit.adversary=SHARDS`` has text of the languages, without labels.

At every update the encoder reads as many sentences as a batch has rows, of all languages in turn. A discriminator
learns to tell their language from the mean of the states that the head reads; the encoder gets its gradient reversed
(`xling.models.network.adversary`). The discriminator has an optimiser of its own and is not part of the model.

Source: Keung et al. 2019, section 3 (language-adversarial fine-tuning of mBERT); ours has no separate generator step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from xling.array_types import Float
from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.data.packing import pack, to_device
from xling.models.files import model_folder
from xling.models.network.adversary import Discriminator, losses, reverse_gradient
from xling.objectives.adversary_settings import CLIP
from xling.objectives.lang_adversary import example, sentence_vectors
from xling.objectives.seq2seq import Text
from xling.text.files import shards
from xling.text.files.shards import vocab_digest
from xling.transfer.heads import TaskModel
from xling.transfer.settings import TuneConfig

EOS = 2


def check(directory: Path, checkpoint: Path) -> list[str]:
    """Return the languages of the text of an adversary.

    Raises:
        UserError: there is text of fewer than two languages, or it is of another vocabulary than the model.
    """
    langs = shards.list_languages(directory)
    if len(langs) < 2:
        raise UserError(
            f"fit.adversary={directory} has text in {', '.join(langs) or 'no language'}",
            "the output of xling binarize with text in two languages or more",
            "run xling binarize with the vocabulary of the model and corpora.LANG= for each language",
        )
    model_folder.check_vocabulary(vocab_digest(checkpoint), directory, checkpoint)
    return langs


class Adversary:
    """Text of several languages, a discriminator and its optimiser.

    Raises:
        UserError: as `check`.
    """

    def __init__(self, cfg: TuneConfig, model: TaskModel, checkpoint: Path, langs: list[str]) -> None:
        directory = Path(cfg.adversary)
        names = check(directory, checkpoint)
        self._cfg, self.num_updates = cfg, 0
        self._length = min(cfg.max_length, model.encoder.cfg.max_positions)
        self._texts = [shards.open_shard(directory / lang / "train") for lang in names]
        self._rows = [np.flatnonzero(shard.sizes > 1) for shard in self._texts]
        # A model without vectors of languages does not look at the indices.
        self._indices = [langs.index(lang) if lang in langs else 0 for lang in names]
        clip = CLIP if cfg.adversary_form == "wgan" else 0.0
        self.discriminator = Discriminator(model.encoder.cfg.dim, len(names), clip).to(model.device)
        self._optimizer = torch.optim.AdamW(self.discriminator.parameters(), lr=cfg.lr)

    def loss(self, model: TaskModel) -> Float[torch.Tensor, ""]:
        """Return the mean loss of the discriminator on the sentences of this update."""
        sample = to_device(self._sample(), model.device)
        inputs = sample["net_input"]
        words, runs = model.encoder.tokens(inputs["src_tokens"]), inputs["runs"]
        vectors = sentence_vectors(model.states(words, inputs), runs, sample["chosen"], "mean").float()
        numbers = self.discriminator(reverse_gradient(vectors, self._cfg.adversary_reversal))
        return losses(numbers, sample["target"], self._cfg.adversary_form).mean()

    def step(self) -> None:
        """Make an update of the discriminator, after the backward pass of the loss."""
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.num_updates += 1

    def _sample(self) -> dict[str, Any]:
        generator, examples = rng(self._cfg.seed, "adversary", self.num_updates), []
        for number in range(max(self._cfg.batch_rows, len(self._texts))):
            label = number % len(self._texts)
            item, shard = int(generator.choice(self._rows[label])), self._texts[label]
            tokens = shard.tokens[shard.start(item) :][: min(int(shard.sizes[item]), self._length - 1)]
            tokens = np.append(tokens[:-1], EOS).astype(np.int64)
            each = example(Text(tokens, label, generator))
            each["langs"] = np.full(len(each["tokens"]), self._indices[label])
            examples.append(each | {"id": np.array([number])})
        return pack(examples)

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` goes on from."""
        return {
            "discriminator": self.discriminator.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "num_updates": self.num_updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.discriminator.load_state_dict(state["discriminator"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.num_updates = state["num_updates"]
