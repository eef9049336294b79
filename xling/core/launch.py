"""The variables with which torchrun or Slurm start several processes of one training, checked."""

from __future__ import annotations

import os

from xling.core.errors import UserError

_FIX = (
    "unset RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT to train in one process, or start all processes "
    "with torchrun"
)


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
    return rank, size


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "") or str(default)
    if not text.isdecimal():
        raise UserError(f"{name}={text} in the environment", "a whole number from 0", _FIX)
    return int(text)
