"""The machine of a training: the place among the processes that torchrun or Slurm start, and the precision.

The variables of the environment that say so are checked. `model.precision=auto` and ``xling doctor`` ask the same.
"""

import os
import socket
import time
from collections.abc import Callable
from typing import Any

from xling.core.errors import UserError

QUIET_VARIABLE = "TORCH_CPP_LOG_LEVEL"
"""Read once, when torch is imported: below ERROR it prints each try to meet the others, with frames of C++."""
_FIX = (
    "unset RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT to train in one process, or start all processes "
    "with torchrun"
)

NAME_PATIENCE_S, _POLL_S = 60.0, 1.0
"""Seconds that the name of the first machine may take to be known, and between two questions for it.

A cluster may start a process before it publishes the names of the others.
"""


def place() -> tuple[int, int]:
    """Return the rank of this process and the number of all; (0, 1) where nothing starts several.

    Raises:
        UserError: a variable of the environment is missing or no number, or they do not fit together.
    """
    size, rank, _ = _number("WORLD_SIZE", 1), _number("RANK", 0), _number("LOCAL_RANK", 0)
    if size < 1:
        raise UserError("WORLD_SIZE=0 in the environment", "a whole number from 1", _FIX)
    if rank and not os.environ.get("WORLD_SIZE"):
        raise UserError(f"RANK={rank} in the environment without WORLD_SIZE", fix=_FIX)
    if size < 2 and not rank:
        return 0, 1
    if rank >= size:
        raise UserError(f"RANK={rank} with WORLD_SIZE={size} in the environment", f"0 to {size - 1}", _FIX)
    _number("LOCAL_WORLD_SIZE", 0)
    if missing := [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]:
        raise UserError(f"WORLD_SIZE={size} in the environment without {' and '.join(missing)}", fix=_FIX)
    if not 0 < _number("MASTER_PORT", 0) < 65536:
        raise UserError(
            f"MASTER_PORT={os.environ['MASTER_PORT']} in the environment", "a port, 1 to 65535", _FIX
        )
    os.environ.setdefault(QUIET_VARIABLE, "ERROR")
    return rank, size


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "") or str(default)
    if not text.isdecimal():
        raise UserError(f"{name}={text} in the environment", "a whole number from 0", _FIX)
    return int(text)


def await_address(tell: Callable[[str], None], check_stop: Callable[[], None]) -> None:
    """Wait until the name of the first machine is known here; `place` has checked that there is one.

    Args:
        tell: takes the line which says that it waits.
        check_stop: called between the questions; what it raises ends the wait.

    Raises:
        UserError: the name is not known after `NAME_PATIENCE_S`.
    """
    name, deadline, is_told = os.environ["MASTER_ADDR"], time.monotonic() + NAME_PATIENCE_S, False
    while True:
        try:
            socket.getaddrinfo(name, None)
            return
        except (socket.gaierror, UnicodeError) as error:
            given = f"MASTER_ADDR={name} in the environment: {error.args[-1]}"
            if isinstance(error, UnicodeError) or time.monotonic() >= deadline:
                raise UserError(given, "a name or address of the first machine", _FIX) from None
        if not is_told:
            tell(f"xling: {given}; asked again for {NAME_PATIENCE_S:.0f} s")
            is_told = True
        check_stop()
        time.sleep(_POLL_S)


def has_fast_bfloat16(torch: Any) -> tuple[bool, str]:
    """Return whether the GPU, or without one the processor, multiplies bfloat16 fast, and the reason.

    Emulation does not count: it is slower than float32.

    Args:
        torch: the module; it is passed in, so that this file loads without it.
    """
    if torch.cuda.is_available():
        is_fast, reason = torch.cuda.is_bf16_supported(including_emulation=False), "the GPU has {}bfloat16"
    else:
        is_fast = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
        reason = "the processor has {}AMX or AVX512-BF16"
    return bool(is_fast), reason.format("" if is_fast else "no ")
