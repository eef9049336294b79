"""Say which of two sentences is likelier, by an encoder as it is."""

from __future__ import annotations

from xling.transfer.task import TASKS, Task


class Likelier(Task):
    """Answered by the LM head of a pre-trained encoder; see `xling.transfer.likelihood`."""

    name = "likelier"
    compares = True


TASKS.add(Likelier.name, Likelier())
