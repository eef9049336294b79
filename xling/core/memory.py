"""Memory of the process."""

from __future__ import annotations

import ctypes

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # of mallopt(3)


def keep_freed() -> None:
    """Keep what tensors free for the next ones, where the C library can be told so (glibc).

    It would give large pieces back to the system at once and get them again page by page, zeroed: a tenth of the time
    of an update of a small model. The process stays as large as it has been at its largest.
    """
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    tell(MMAP_THRESHOLD, 1 << 30)
    tell(TRIM_THRESHOLD, 1 << 30)
