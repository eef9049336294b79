"""Saved state of a running fine-tuning beside its output, from which a killed run resumes exactly."""

import shutil
import time
from pathlib import Path
from typing import Any

import torch

from xling.core.output import manifest, unfinished
from xling.core.settings.config import to_dict
from xling.models.files import checksummed_file, training_checkpoint

SECONDS_BETWEEN_SAVES = 60.0


class SavedStates:
    """The folder ``OUT.partial``: checkpoints of the running epoch, and the model of every completed epoch.

    Args:
        out: the output to be published.
        key: settings and digests of inputs; a state with others is rejected.
        save_interval_s: seconds between two saves.
    """

    def __init__(self, out: Path, key: str, save_interval_s: float = SECONDS_BETWEEN_SAVES) -> None:
        self.folder = out.with_name(f"{out.name}.partial")
        self._run_key, self._save_interval_s = key, save_interval_s
        self._writer, self._last_save_at = training_checkpoint.Writer(self.folder, keep=2), time.monotonic()

    def is_due(self) -> bool:
        """Return whether a save is due."""
        return time.monotonic() - self._last_save_at >= self._save_interval_s

    def save(self, num_updates: int, state: dict[str, Any]) -> None:
        """Write the state after ``num_updates``, together with the random generators."""
        devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        self.folder.mkdir(parents=True, exist_ok=True)
        self._writer.write(
            {**state, "key": self._run_key, "rng": [torch.get_rng_state(), *devices]}, num_updates
        )
        self._last_save_at = time.monotonic()

    def save_epoch(self, epoch: int, weights: dict[str, Any]) -> None:
        """Write the model of a completed epoch."""
        self.folder.mkdir(parents=True, exist_ok=True)
        checksummed_file.write_checksummed(self.folder / f"epoch-{epoch}.pt", weights)

    def load(self) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        """Load the newest good state and the models of the epochs before it, None if there is none.

        Raises:
            UserError: it was made with other settings or data, and ``overwrite=true`` was not given.
        """
        for path in checksummed_file.good_checkpoints(self.folder):
            try:
                state = torch.load(path, map_location="cpu", weights_only=True)
                if (
                    not isinstance(state["key"], str)
                    or not isinstance(state["epoch"], int)
                    or not state["rng"]
                ):
                    raise TypeError("key, epoch or generators")
            except Exception:
                checksummed_file.logger.warning(checksummed_file.SOMETHING_ELSE, path)
                continue
            if state["key"] != self._run_key:
                unfinished.replace(self.folder, unfinished.refuse(path, self.folder))
                return None
            epoch_paths = [self.folder / f"epoch-{epoch}.pt" for epoch in range(state["epoch"])]
            if all(map(checksummed_file.is_good, epoch_paths)):
                generator, *devices = state["rng"]
                torch.set_rng_state(generator)
                if devices:
                    torch.cuda.set_rng_state_all(devices)
                return state, [
                    torch.load(each, map_location="cpu", weights_only=True) for each in epoch_paths
                ]
        return None

    def delete_all(self) -> None:
        """Delete everything: the output was published."""
        shutil.rmtree(self.folder, ignore_errors=True)


def run_key(settings: Any, inputs: dict[str, str]) -> str:
    """Return the key that a saved state is compared by."""
    return manifest.Manifest("", to_dict(settings), inputs).digest()
