"""The interface of stock fairseq's language models: padded batches in, log-probabilities out, for `fairseq-eval-lm`."""

from __future__ import annotations

from typing import Any

import torch

from xling.array_types import Float, Int
from xling.data.packing import runs_of


def causal_states(
    encoder: Any,
    src_tokens: Int[torch.Tensor, "batch longest"],
    src_lengths: Int[torch.Tensor, " batch"],
    langs: Int[torch.Tensor, " batch"],
) -> tuple[Float[torch.Tensor, "batch longest dim"], None]:
    """Compute the states of a padded batch under a causal mask, (B, L, D), zeros behind each row."""
    lengths = src_lengths.tolist()
    is_real = torch.arange(src_tokens.shape[1], device=src_tokens.device) < src_lengths[:, None]
    positions = torch.cat([torch.arange(length, device=src_tokens.device) for length in lengths])
    states = encoder(
        src_tokens[is_real],
        positions,
        runs_of(lengths),
        causal=True,
        langs=langs.repeat_interleave(src_lengths),
    )
    padded = states.new_zeros(*src_tokens.shape, states.shape[-1])
    padded[is_real] = states
    return padded, None
