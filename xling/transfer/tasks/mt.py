"""Task of translating a text with a model that has a decoder, without fine-tuning."""

from __future__ import annotations

from xling.transfer.task import TASKS, Task


class Translation(Task):
    """Translation task, for a model of `xling finetune mt`; see `xling.transfer.generation.decoder_system`."""

    name = "mt"
    writes = True
    translates = True


TASKS.add(Translation.name, Translation())
