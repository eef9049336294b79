"""Runs that go on from a state of another run under their own schedule, for example a decay from any checkpoint.

Source: Hu et al. 2024, section 4 (one stable run, decays from its checkpoints).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from xling.core.errors import UserError
from xling.models.files.checksummed_file import is_good
from xling.models.files.training_checkpoint import FORMAT, branch_of, opened
from xling.training.settings import PretrainConfig


def checked(cfg: PretrainConfig) -> list[Path]:
    """Return the file of the state that a run branches off, an empty list if it does not.

    Raises:
        UserError: there is no such state, it is damaged, or the run has phases.
    """
    if (path := branch_of(cfg)) is None:
        return []
    given = cfg.branch
    if cfg.phases or cfg.init:
        raise UserError(
            f"branch={given} and {'phases' if cfg.phases else 'init'}= are both given", "one of the two"
        )
    if not path.exists():
        raise UserError(
            f"branch={given}: there is no {path.name} of a training",
            "OUT/snapshots/UPDATES of a run with train.snapshot_state=true, or OUT.partial/update-NUMBER.pt or .parts",
        )
    if not is_good(path):
        raise UserError(
            f"branch={given}: {path} does not match its checksum", "a whole state with its .sha256"
        )
    return [path]


def from_there(cfg: PretrainConfig) -> PretrainConfig:
    """Return the settings with the decay of ``wsd`` from the state of ``branch`` to the end of the run.

    Raises:
        UserError: the file is not the state of a training, or the run would end before it begins.
    """
    if (path := branch_of(cfg)) is None:
        return cfg
    try:
        state = opened(path)
        if state["extra_state"]["format"] != FORMAT:
            raise KeyError(f"format {state['extra_state']['format']}, not {FORMAT}")
        begin = int(state["optimizer_history"][-1]["num_updates"])
    except Exception as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UserError(
            f"branch={cfg.branch} is not the state of a training: {told}", "a state of this version of xling"
        ) from None
    if begin >= cfg.train.updates:
        raise UserError(
            f"branch={cfg.branch} was written after {begin} updates, train.updates={cfg.train.updates}",
            f"train.updates above {begin}: the updates of both runs together",
        )
    if cfg.train.schedule != "wsd":
        return cfg
    return replace(cfg, train=replace(cfg.train, decay=1 - begin / cfg.train.updates))
