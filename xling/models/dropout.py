"""Dropout that costs little on a CPU, where torch's Bernoulli numbers are a tenth of a training step."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

_STEPS = 1 << 16


def dropout(x: Tensor, prob: float, training: bool) -> Tensor:
    """Zero each element with probability ``prob`` and scale the others by 1 / (1 - prob).

    On a CPU the numbers are 16-bit integers of a generator seeded from torch's, so that a seed or a restored
    state of torch still decides everything; ``prob`` is rounded to 1 / 65536.

    Args:
        x: floating point, any shape.
        prob: 0 <= prob < 1.
        training: False returns ``x``.

    Source: Srivastava et al. 2014.
    """
    assert 0 <= prob < 1, f"dropout {prob} is not in [0, 1)"
    if not training or prob == 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, prob)
    threshold = round(prob * _STEPS)
    generator = np.random.Generator(np.random.SFC64(int(torch.randint(1 << 62, ()))))
    words = np.frombuffer(generator.bytes(2 * x.numel()), dtype=np.uint16)
    keep = torch.from_numpy(words >= threshold).view(x.shape)
    return x * keep.to(x.dtype).mul_(_STEPS / (_STEPS - threshold))
