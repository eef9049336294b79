"""Freed memory is kept while a training runs, and given back afterwards."""

from __future__ import annotations

import resource

import pytest
import torch

from xling import memory

NUM = 64 << 20


def faults() -> int:
    """Pages that the kernel makes for a large tensor, made once before."""
    found = 0
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(NUM, dtype=torch.uint8)
        found = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return found


def test_a_tensor_of_the_same_size_costs_no_new_pages() -> None:
    outside = faults()
    with memory.kept():
        inside = faults()
    assert inside < outside / 3
    assert faults() > 3 * inside
    with pytest.raises(KeyError), memory.kept():
        raise KeyError
    assert faults() > 3 * inside, "given back after an error too"
