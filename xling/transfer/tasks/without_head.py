"""Tasks without a head of their own: texts that a model with a decoder writes, and texts that an LM head compares."""

from xling.transfer.task import TASKS, Task


class Generation(Task):
    """Generate a text in the language of its source; see `xling.transfer.generation.decoder_system`."""

    name = "generation"
    writes = True


class Translation(Task):
    """Translate with a model of `xling finetune mt`, without fine-tuning."""

    name = "mt"
    writes = True
    translates = True


class Likelier(Task):
    """Say which of two sentences is likelier, by the LM head of an encoder; see `xling.transfer.likelihood`."""

    name = "likelier"
    compares = True


for _task in (Generation(), Translation(), Likelier()):
    TASKS.add(_task.name, _task)
