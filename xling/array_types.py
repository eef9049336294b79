"""Types of arrays with their shapes, such as ``Float[Tensor, "tokens dim"]``, for annotations that nobody evaluates.

Type checkers take them from jaxtyping, which users do not need. Tests check them (tests/shape_checks.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import Float16 as Float16
    from jaxtyping import Float32 as Float32
    from jaxtyping import Float64 as Float64
    from jaxtyping import Int as Int
    from jaxtyping import Int8 as Int8
    from jaxtyping import Int32 as Int32
    from jaxtyping import Int64 as Int64
    from jaxtyping import Integer as Integer
    from jaxtyping import Real as Real
    from jaxtyping import Shaped as Shaped
    from jaxtyping import UInt8 as UInt8
    from jaxtyping import UInt16 as UInt16
    from jaxtyping import UInt32 as UInt32
    from jaxtyping import UInt64 as UInt64
else:
    Bool = Float = Float16 = Float32 = Float64 = Int = Int8 = Int32 = Int64 = Integer = Any
    Real = Shaped = UInt8 = UInt16 = UInt32 = UInt64 = Any
