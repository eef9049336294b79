"""What tensors free is there for the next ones."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import resource, torch
from xling.core.memory import keep_freed
keep_freed()
for step in range(15):  # the first find their places
    if step == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(1 << 24)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize() >> 20)
"""


def test_memory_is_not_given_back_between_tensors() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 64, "MiB that were asked for again, of 5 times 64"
