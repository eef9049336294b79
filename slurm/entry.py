"""What a job of Slurm runs: ``python -m xling.slurm.entry KIND RUN STEP KEY``.

``KIND`` is ``array``, ``collect`` or ``barrier``. What the job has to do follows from the record of the run, where the
submission with this key was written down before it was made.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from xling.core import job
from xling.core.errors import UserError
from xling.slurm import reconcile
from xling.slurm.element import Element
from xling.slurm.queue import TransientError
from xling.slurm.record import Event, Step, open_run

RECORD_DELAY_S = 60.0
LEASE_WAIT_S = 5.0
MAX_LOOKERS = 200
"""Elements of longer arrays leave the reconciling to the collector: each would ask Slurm once."""


def main(words: Sequence[str]) -> int:
    """Run one job; returns its exit code."""
    kind, run, step_name, key = words
    step = open_run(Path(run)).steps[step_name]
    if kind == "barrier":
        print(f"step {step.name} of {step.run.name} has ended well", flush=True)
        return 0
    if kind == "collect":
        reconcile.reconcile_patiently(step.run)
        return 0
    entry = _entry(step, key)
    index = entry["indices"][int(os.environ.get("SLURM_ARRAY_TASK_ID", "0"))]
    return _run([Element(run, step_name, entry["phase"], index, key)], step, entry)


def _run(parts: Sequence[Element], step: Step, entry: Event) -> int:
    """Run parts one after the other, then what the reconciler gives this job to go on with; returns the exit code."""
    code = 0
    while parts:
        for part in parts:
            try:
                part()
            except Exception as error:
                if not isinstance(error, UserError):
                    traceback.print_exc()
                print(f"xling: {error}", file=sys.stderr)
                code = code or (error.exit_code if isinstance(error, UserError) else 1)
            if job.stop_requested():
                return code
        alone = int(os.environ.get("SLURM_NTASKS", "1")) == 1
        parts = _next(step, entry) if alone and not code else []
    return code


def _next(step: Step, entry: Event) -> list[Element]:
    """What this job goes on with: the reconciler is called by whoever ends, so that the queue is waited for less."""
    if len(entry["indices"]) > MAX_LOOKERS:
        return []  # the collector looks once
    try:
        found = reconcile.reconcile(step.run, wait_s=LEASE_WAIT_S, here=step.name)
    except (TransientError, UserError, OSError) as error:
        print(f"xling: {error}; the collector goes on", file=sys.stderr)
        return []
    return [Element(str(step.run.path), step.name, p.phase, p.index, key) for p, key in found.inline]


def _entry(step: Step, key: str) -> Event:
    """The submission with this key; a slow shared file system may show it late."""
    deadline = time.monotonic() + RECORD_DELAY_S
    while not (found := [entry for entry in step.jobs() if entry["key"] == key]):
        if time.monotonic() > deadline:
            raise UserError(f"{step.path}/jobs.jsonl has no submission {key}", fix="see its damaged lines")
        time.sleep(1)
    return found[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
