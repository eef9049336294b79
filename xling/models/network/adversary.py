"""A discriminator of languages on sentence vectors, and the reversal of its gradient.

The discriminator learns to tell the language of a sentence. On its way to the encoder the gradient is multiplied by a
negative number, so the encoder learns to keep the language from it.

Sources: Ganin et al. 2016, section 4.1 (reversal); Chen et al. 2018 (ADAN), section 3.1, for languages and for the
Wasserstein form. Our choices: several languages, each against all others, and one step of the critic for each of the
encoder, where ADAN makes five.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Float, Float32, Int

FORMS = ("classes", "wgan")


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Float[Tensor, "rows dim"], strength: float) -> Float[Tensor, "rows dim"]:
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, gradient: Float[Tensor, "rows dim"]
    ) -> tuple[Float[Tensor, "rows dim"], None]:
        return -ctx.strength * gradient, None


def reverse_gradient(x: Float[Tensor, "rows dim"], strength: float) -> Float[Tensor, "rows dim"]:
    """Return ``x``, whose gradient is multiplied by ``-strength`` on the way back."""
    reversed_: Tensor = _Reversal.apply(x, strength)  # type: ignore[no-untyped-call]
    return reversed_


class Discriminator(nn.Module):
    """Two layers over a sentence vector, with a number for each language.

    Args:
        dim: width of a sentence vector.
        num_langs: number of languages.
        clip: bound of every weight, with which it is used (Arjovsky et al. 2017); 0 for none.
    """

    def __init__(self, dim: int, num_langs: int, clip: float = 0.0) -> None:
        super().__init__()
        self.dense, self.out, self.clip = nn.Linear(dim, dim), nn.Linear(dim, num_langs), clip
        self.num_updates = 0
        for layer in (self.dense, self.out):
            nn.init.normal_(layer.weight, std=dim**-0.5)
            nn.init.zeros_(layer.bias)

    def set_num_updates(self, num_updates: int) -> None:
        """Store the number of updates; fairseq calls this before every update."""
        self.num_updates = num_updates

    def forward(self, vectors: Float[Tensor, "rows dim"]) -> Float32[Tensor, "rows langs"]:
        """Return logits, or the critic's numbers, (B, L)."""
        hidden = F.gelu(self._linear(self.dense, vectors))
        return self._linear(self.out, hidden).float()

    def _linear(self, layer: nn.Linear, x: Tensor) -> Tensor:
        """Apply a layer with its weights as they are clipped; the gradient reaches a clipped weight too."""
        if not self.clip:
            return F.linear(x, layer.weight, layer.bias)
        weights = (w + (w.clamp(-self.clip, self.clip) - w).detach() for w in (layer.weight, layer.bias))
        return F.linear(x, *weights)


def losses(
    numbers: Float32[Tensor, "rows langs"], langs: Int[Tensor, " rows"], form: str
) -> Float32[Tensor, " rows"]:
    """Return the loss of the discriminator for each sentence, (B,); their mean is that of the batch.

    ``classes``: cross-entropy, nats. ``wgan``: the negative difference of the means of a language's number over its own
    sentences and over all others, the mean over the languages that have both; 0 if none has.
    """
    assert form in FORMS, f"form {form!r}: {', '.join(FORMS)}"
    if form == "classes":
        return F.cross_entropy(numbers, langs, reduction="none")
    own = F.one_hot(langs, numbers.shape[1]).to(numbers.dtype)
    num = own.sum(0)
    both = (num > 0) & (num < len(langs))
    weights = (1 - own) / (len(langs) - num).clamp(min=1) - own / num.clamp(min=1)
    return len(langs) / both.sum().clamp(min=1) * (numbers * weights * both).sum(1)
