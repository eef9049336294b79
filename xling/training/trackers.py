"""Live curves of a training, chosen by one setting: ``log=tensorboard`` or ``log=wandb``.

Both receive the events of ``log.jsonl``, as ``train/loss/mmlm/sw`` over updates. TensorBoard's files are in
``tensorboard/NAME`` beside the output, for ``tensorboard --logdir``; those of Weights & Biases in ``wandb/``
beside it, offline unless WANDB_MODE says ``online`` (``wandb sync`` uploads them later). Neither is installed
with xling, and neither changes a bit of the result.
"""

import hashlib
import importlib
import json
import os
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
PROJECT = "xling"
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

    @classmethod  # noqa: B027 - most need nothing
    def prepare(cls) -> None:
        """Prepare the environment before ``needs`` is imported."""

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
    tracker = TRACKERS[log]
    tracker.prepare()
    try:
        importlib.import_module(tracker.needs)
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


@TRACKERS.register("wandb")
class WeightsAndBiases(Tracker):
    """Writer of a Weights & Biases run; a resumed training continues the same run."""

    needs = "wandb"

    @classmethod
    def prepare(cls) -> None:
        """Stay offline unless WANDB_MODE says otherwise; wandb reads the variable when it is imported."""
        os.environ.setdefault("WANDB_MODE", "offline")
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")

    def __init__(self, out: Path, settings: Any, num_updates: int) -> None:
        import wandb

        settings_shown = config.to_dict(settings)
        mode: Any = os.environ["WANDB_MODE"]  # wandb itself rejects unknown modes
        name = json.dumps([str(out.absolute()), settings_shown], sort_keys=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=out.name,
            id=hashlib.sha256(name.encode()).hexdigest()[:16],
            resume="allow",
            dir=str(out.parent),
            config=settings_shown,
            mode=mode,
            settings=wandb.Settings(silent=True, console="off"),
        )
        # The axis is the update number, not the call: a resumed training shows some updates again.
        self._run.define_metric("update")
        self._run.define_metric("*", step_metric="update")

    def show(self, event: Event) -> None:
        """Send the numbers of a log event to the tracker."""
        self._run.log({"update": event["update"], **numbers(event)})

    def close(self) -> None:
        """Flush pending data."""
        self._run.finish()


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
