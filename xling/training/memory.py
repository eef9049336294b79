"""Reuse of memory in CPU training: freed memory is kept between updates instead of returned to the kernel."""

import ctypes
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Constants of glibc's malloc.h, and their defaults in mallopt(3).
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_NEVER_TRIM, _USUAL_TRIM = -1, 128 * 1024
_NO_MMAP, _USUAL_MMAP = 0, 65536


@contextmanager
def kept() -> Iterator[None]:
    """Keep freed memory for the next tensor of its size; no effect on a GPU or with another C library.

    It also has no effect under a limit of address space (``ulimit -v``), which threads and libraries need
    too.

    By default glibc maps every large tensor separately, and the kernel fills its pages with zeros on first
    touch. Gradients and logits of 250,000 pieces are so large that this took three tenths of an update.

    Source: mallopt(3), M_MMAP_MAX and M_TRIM_THRESHOLD.
    """
    libc = ctypes.CDLL(None)
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if torch.cuda.is_available() or limited or not hasattr(libc, "malloc_trim"):  # only glibc has it
        yield
        return
    libc.mallopt(_MMAP_MAX, _NO_MMAP)
    libc.mallopt(_TRIM_THRESHOLD, _NEVER_TRIM)
    try:
        yield
    finally:
        libc.mallopt(_MMAP_MAX, _USUAL_MMAP)
        libc.mallopt(_TRIM_THRESHOLD, _USUAL_TRIM)
        give_back()


def give_back() -> None:
    """Return freed memory to the kernel, or on a GPU to the driver."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
