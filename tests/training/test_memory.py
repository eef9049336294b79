"""Freed memory is kept while a training runs, and given back afterwards."""

from __future__ import annotations

import json
import subprocess
import sys

# In a process of its own: what earlier allocations left free would count here.
PROGRAM = """
import json, os, resource
os.environ["THP_MEM_ALLOC_ENABLE"] = "0"  # pages of 4 KiB, so that their number tells
import torch
from xling.training import update

def fewest(megabytes, rounds=3):
    found = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(megabytes << 20, dtype=torch.uint8)
        found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return min(found)

before = fewest(40)
with update.memory_kept():
    inside = fewest(40, 40)  # until what aligning leaves over is used up
after = fewest(512)
try:
    with update.memory_kept():
        raise KeyError
except KeyError:
    pass
print(json.dumps([before, inside, after, fewest(768)]))
"""


def test_a_tensor_of_the_same_size_costs_no_new_pages() -> None:
    words = [sys.executable, "-c", PROGRAM]
    made = subprocess.run(words, capture_output=True, text=True, check=True)
    before, inside, *after = json.loads(made.stdout)
    assert inside < 100
    assert all(pages > 10 * (inside + 1) for pages in (before, *after))


LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 46, resource.RLIM_INFINITY))"


def test_nothing_is_kept_under_a_limit_of_address_space() -> None:
    words = [sys.executable, "-c", f"{LIMIT}\n{PROGRAM}"]
    made = subprocess.run(words, capture_output=True, text=True, check=True)
    assert all(pages > 1000 for pages in json.loads(made.stdout))
