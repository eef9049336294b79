"""Live curves of a training, chosen by one setting: ``log=tensorboard``, or the name of a plug-in.

They receive the events of ``log.jsonl``, as ``train/loss/mmlm/sw`` over updates. TensorBoard's files are in
``tensorboard/NAME`` beside the output, for ``tensorboard --logdir``. It is not installed with xling, and changes
no bit of the result.
"""

import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from xling.core.errors import UserError, unknown
from xling.core.registry import Registry
from xling.core.settings import config

Event = Mapping[str, Any]
Show = Callable[[Event], None]
OFF = "none"
"""Value of ``log=`` that shows nothing."""


class Tracker(ABC):
    """Base class of services that show the curves of one training.

    Attributes:
        needs: module that has to be installed.

    Args:
        num_updates: updates that a resumed training has already made.
    """

    needs: ClassVar[str]

    @abstractmethod
    def __init__(self, out: Path, settings: Any, num_updates: int) -> None: ...

    @abstractmethod
    def show(self, event: Event) -> None:
        """Send the numbers of a log event to the tracker."""

    @abstractmethod
    def close(self) -> None:
        """Flush pending data."""


TRACKERS: Registry[type[Tracker]] = Registry("log", plugin="tracker")


def check(log: str) -> None:
    """Check that the package of a setting is installed, before the work starts.

    Raises:
        UserError: the setting does not exist, or its package is not installed or cannot be loaded.
    """
    if log == OFF:
        return
    if log not in TRACKERS:
        raise unknown("log", log, [OFF, *TRACKERS])
    try:
        importlib.import_module(TRACKERS[log].needs)
    except ImportError as error:
        raise UserError(f"log={log}: {error}", "log=none", "pip install 'xling[track]'") from None


@contextmanager
def shown(log: str, out: Path, settings: Any, num_updates: int = 0) -> Iterator[Show]:
    """Provide inside the block a function that shows an event: ``update``, ``split`` and numbers by name.

    Args:
        num_updates: updates that a resumed training has already made; later ones shown before are discarded.

    Raises:
        UserError: as `check`.
    """
    if log == OFF:
        yield lambda event: None
        return
    check(log)
    tracker = TRACKERS[log](out, settings, num_updates)
    try:
        yield tracker.show
    finally:
        tracker.close()


def numbers(event: Event) -> dict[str, float]:
    """Return the numbers of an event by ``split/name``."""
    return {
        f"{event['split']}/{key}": float(value)
        for key, value in event.items()
        if key not in ("update", "split") and isinstance(value, (int, float))
    }


@TRACKERS.register("tensorboard")
class TensorBoard(Tracker):
    """Writer of TensorBoard's event files."""

    needs = "torch.utils.tensorboard"

    def __init__(self, out: Path, settings: Any, num_updates: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = out.parent / "tensorboard" / out.name
        # Events of a killed run after its checkpoint are written again: purge_step hides the old ones.
        self._writer = SummaryWriter(str(folder), purge_step=num_updates + 1 if num_updates else None)
        text = json.dumps(config.to_dict(settings), indent=1, ensure_ascii=False)
        self._writer.add_text("settings", f"```\n{text}\n```", num_updates)

    def show(self, event: Event) -> None:
        """Send the numbers of a log event to the tracker."""
        for name, value in numbers(event).items():
            self._writer.add_scalar(name, value, event["update"])

    def close(self) -> None:
        """Flush pending data."""
        self._writer.close()


class Losses:
    """Log of a fine-tuning: mean losses over every `EVERY` updates, and measurements after each epoch."""

    EVERY = 20

    def __init__(self, show: Show) -> None:
        self._show, self._held = show, list[float]()
        self.events: list[dict[str, Any]] = []
        self.ends: dict[int, int] = {}

    def tell(self, update: int, epoch: int, loss: float) -> None:
        """Count one update: its number, its epoch from 0, its loss."""
        self._held.append(loss)
        self.ends[epoch] = update
        if update % self.EVERY == 0 or update == 1:
            self.write("train", update, loss=sum(self._held) / len(self._held))
            self._held.clear()

    def write(self, split: str, update: int, **values: float) -> None:
        """Add an event to the log, and show it."""
        self.events.append({"update": update, "split": split, **values})
        self._show(self.events[-1])

    def text(self) -> str:
        """Return the content of ``log.jsonl``."""
        return "".join(
            json.dumps(event) + "\n" for event in sorted(self.events, key=lambda e: int(e["update"]))
        )
