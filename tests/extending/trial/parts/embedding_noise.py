"""Noise on the word vectors in training (NEFTune): a model setting in one file.

Source: Jain et al. 2023, section 2: uniform numbers times value / sqrt(tokens * dim).
"""

from __future__ import annotations

from typing import Any

from xling.core.settings.values import NOT_NEGATIVE
from xling.models.model_setting import setting
from xling.models.parts import PARTS, Part


@PARTS.register("embedding_noise")
class EmbeddingNoise(Part):
    """Changes what the norm of the embeddings returns."""

    setting = setting(0.0, NOT_NEGATIVE, own=True)

    def attach(self, side: Any, value: float) -> None:
        """Add the noise while the model trains."""
        import torch

        def noisy(module: Any, _: Any, out: Any) -> Any:
            return (
                out + value / out.numel() ** 0.5 * (2 * torch.rand_like(out) - 1) if module.training else out
            )

        side.norm.register_forward_hook(noisy)
