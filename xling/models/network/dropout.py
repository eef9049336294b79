"""Fast dropout on a CPU, where torch's Bernoulli sampling takes a tenth of a training step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

_STEPS = 1 << 16
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def dropout(x: Float[Tensor, " *shape"], prob: float, training: bool) -> Float[Tensor, " *shape"]:
    """Zero each element with probability ``prob`` and scale the others by 1 / (1 - prob).

    On a CPU the random numbers are 16-bit integers of a generator seeded from torch's, so that torch's seed
    or restored state still determines everything; ``prob`` is rounded to 1 / 65536. Compiled code draws the same.

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
    factors: Tensor = (_opaque if torch.compiler.is_compiling() else _factors)(x.detach(), prob)
    return x * factors


def _factors(x: Tensor, prob: float) -> Tensor:
    """Return 0 or 1 / (1 - ``prob``) for each element of ``x``, at random."""
    threshold = round(prob * _STEPS)
    generator = np.random.SFC64(int(torch.randint(1 << 62, ())))
    words = generator.random_raw(-(-x.numel() // 4)).view(np.uint16)[: x.numel()]
    keep = torch.from_numpy(words >= threshold).view(x.shape)
    # The factor is built as an integer from its bits: torch converts booleans to integers five times faster than to
    # floating point numbers.
    bits = _BITS[x.element_size()]
    scale = torch.tensor(_STEPS / (_STEPS - threshold), dtype=x.dtype).view(bits)
    return keep.to(bits).mul_(scale).view(x.dtype)


# An operator that the compiler calls and does not look into: numpy cannot be compiled.
_opaque = torch.library.custom_op(
    "xling::dropout_factors",
    _factors,
    mutates_args=(),
    schema="(Tensor x, float prob) -> Tensor",
    tags=[torch.Tag.nondeterministic_seeded],
)
_opaque.register_fake(lambda x, prob: torch.empty(x.shape, dtype=x.dtype, device=x.device))
