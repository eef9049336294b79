"""Fast dropout on a CPU, where torch's Bernoulli sampling takes a tenth of a training step."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from xling.array_types import Float

_NUM_LEVELS = 1 << 16
_INTEGER_TYPE = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def dropout(x: Float[Tensor, " *shape"], prob: float, training: bool) -> Float[Tensor, " *shape"]:
    """Zero each element with probability ``prob`` and scale the others by 1 / (1 - prob).

    On a CPU the random numbers are 16-bit integers of a generator seeded from torch's, so that torch's seed
    or restored state still determines everything; ``prob`` is rounded to 1 / 65536.

    Source: Srivastava et al. 2014.
    """
    assert 0 <= prob < 1, f"dropout {prob} is not in [0, 1)"
    if not training or prob == 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, prob)
    factors = _dropout_factors(x, prob)
    return x * factors


def _dropout_factors(x: Tensor, prob: float) -> Tensor:
    """Return 0 or 1 / (1 - ``prob``) for each element of ``x``, at random."""
    threshold = round(prob * _NUM_LEVELS)
    generator = np.random.SFC64(int(torch.randint(1 << 62, ())))
    random_numbers = generator.random_raw(-(-x.numel() // 4)).view(np.uint16)[: x.numel()]
    is_kept = torch.from_numpy(random_numbers >= threshold).view(x.shape)
    # The factor is built as an integer from its bits: torch converts booleans to integers five times faster than to
    # floating point numbers.
    integer_type = _INTEGER_TYPE[x.element_size()]
    scale = torch.tensor(_NUM_LEVELS / (_NUM_LEVELS - threshold), dtype=x.dtype).view(integer_type)
    return is_kept.to(integer_type).mul_(scale).view(x.dtype)
