"""Translate a text, by a model with a decoder as it is."""

from __future__ import annotations

from xling.transfer.task import TASKS, Task


class Translation(Task):
    """Written by a model of `xling finetune mt`; see `xling.transfer.write`."""

    name = "mt"
    writes = True
    translates = True


TASKS.add(Translation.name, Translation())
