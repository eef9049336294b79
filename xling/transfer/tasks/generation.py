"""Task of generating a text from a text in the same language."""

from __future__ import annotations

from xling.transfer.task import TASKS, Task


class Generation(Task):
    """Generation task, for a model with a decoder; see `xling.transfer.generation.decoder_system`."""

    name = "generation"
    writes = True


TASKS.add(Generation.name, Generation())
