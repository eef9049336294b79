"""Special tokens of each language's own: what stands for ``<s>``, ``</s>`` and ``<mask>`` differs by language.

Special tokens are read and never predicted, so only their vectors at the input change. Ids stay, and with them shards,
heads and the vocabulary. The first language keeps the vectors of the vocabulary; the value says how many languages have
their own, and all behind the last share that one's.

Source: Dufter & Schütze 2020, section 2.2 (shift-special).
"""

from typing import Any

from xling.core.settings.values import NOT_NEGATIVE
from xling.models.model_setting import ENCODER, setting
from xling.models.parts import PARTS, Part

FIRST_PIECE = 4


@PARTS.register("own_specials")
class OwnSpecials(Part):
    """number of languages with special tokens of their own, 0 for tokens that all share."""

    setting = setting(0, NOT_NEGATIVE, only=ENCODER)

    def attach(self, side: Any, value: int) -> None:
        """Add a table for ``value`` languages, read where a special token stands."""
        import torch
        import torch.nn.functional as F
        from torch import nn

        class Specials(nn.Embedding):
            words: Any  # not registered: its weights are in the model once

            def __init__(self, words: nn.Embedding) -> None:
                super().__init__(value * (FIRST_PIECE + 1), words.embedding_dim)
                nn.init.normal_(self.weight, std=0.02)
                self.__dict__["words"] = words

            def forward(self, x: Any, positions: Any, langs: Any) -> Any:  # type: ignore[override]
                ids, weight = self.words.ids, self.words.weight
                mask, lang = len(weight) - 1, langs.clamp(max=value - 1)
                rows = torch.where(ids == mask, FIRST_PIECE, ids) + (FIRST_PIECE + 1) * lang
                is_own = ((ids < FIRST_PIECE) | (ids == mask)) & (lang > 0)
                own = super().forward(torch.where(is_own, rows, 0)) - F.embedding(ids, weight)
                return x + own * is_own[:, None]

        def remember(words: Any, args: Any, _: Any) -> None:
            words.ids = args[0]

        side.tokens.register_forward_hook(remember)
        side.inputs.append(Specials(side.tokens))
