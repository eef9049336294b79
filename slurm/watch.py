"""The watcher of a training: ``python -m xling.slurm.watch RUN STEP KEY``, started beside ``srun`` by the batch script.

It reads the heartbeats of all processes. Where one is late it finds out which process the others wait for, records it
with its Python stack and node, and ends the job's step. The collector behind the job then submits the part again,
without that node.

Only changes of a heartbeat count, by the watcher's own clock: the clocks of nodes may differ.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xling.core import signals, stacks
from xling.core.output.answer import tell
from xling.slurm.decide import indices_here
from xling.slurm.record import Part, open_run
from xling.slurm.states import output

POLL_S = 2.0
SETTLE_S = signals.SECONDS_BETWEEN_BEATS + 1.0
STACK_S = 3.0
"""How long after its heartbeat was due the stack of a process may take to arrive."""
CONTINUED_S = 6.0
"""The same for a process that was stopped, after it is continued."""
RETRY_S = 5.0
RECORDERS_S = 3.0
MAX_FRAMES = 6
_COLLECTIVES = ("distributed_c10d.py", "ddp.py", "_functional_collectives.py", "c10d_logger.py")
"""Files of functions that wait for the other processes."""


@dataclass
class Watcher:
    """Watcher of the processes of one part.

    Attributes:
        part: the part that this job runs.
        key: key of its submission.
        seen: rank -> its last heartbeat and when it was first seen, in seconds of this process's clock.
        continued: ranks that were stopped, and continued so that they write their stack.
    """

    part: Part
    key: str = ""
    seen: dict[int, tuple[signals.Heartbeat, float]] = field(default_factory=dict)
    continued: set[int] = field(default_factory=set)

    def expect_all(self, now: float) -> None:
        """Take all processes for started at ``now``: one may hang before its first heartbeat."""
        asked = self.part.step.plan.resources
        names = (output(["scontrol", "show", "hostnames"])[0] or "").split()
        placed = len(names) == asked.nodes and "distribution" not in asked.srun
        for rank in range(asked.num_tasks if asked.hang_start_s else 0):
            node = names[rank // asked.tasks_per_node] if placed else ""
            beat = signals.Heartbeat(rank=rank, node=node, due_s=asked.hang_start_s, doing=signals.STARTING)
            self.seen[rank] = (beat, now)

    def look(self, now: float) -> list[signals.Heartbeat]:
        """Return the last heartbeats of the processes that are late at ``now``, [] while it is not clear which are."""
        for beat in self.part.heartbeats(signals.job_and_restart()):
            if self.seen.get(beat.rank, (None, 0.0))[0] != beat:
                self.seen[beat.rank] = (beat, now)
        over = {r: now - since - b.due_s - STACK_S for r, (b, since) in self.seen.items() if b.due_s}
        late = [self.seen[rank][0] for rank, seconds in over.items() if seconds > 0]
        # Processes write at different times: those that wait for each other become late one after the other.
        return late if len(late) == len(over) or max(over.values()) > SETTLE_S else []

    def guilty(self, late: Sequence[signals.Heartbeat]) -> list[signals.Heartbeat]:
        """Return the late processes that the others wait for: the stopped ones, else those outside of a collective."""
        stopped = [beat for beat in late if not self.frames(beat)]
        if stopped:
            return stopped
        others = [b for b in late if not any(f.startswith(_COLLECTIVES) for f in self.frames(b)[:4])]
        behind = [b for b in late if b.done == min(beat.done for beat in late)]
        return others or behind

    def frames(self, beat: signals.Heartbeat) -> list[str]:
        """Return the stack of a process, innermost frame first; [] while it has not written one."""
        path = self.part.heartbeat_of(beat.rank)
        if beat.doing == signals.STARTING and not beat.time:
            return []  # it never wrote: a stack that is there is from an earlier start
        # A process that was continued may have gone on since it wrote.
        earlier = stacks.read_frames(path, stacks.EARLIER_SUFFIX) if beat.rank in self.continued else []
        return stacks.read_frames(path) or earlier

    def end(self, late: Sequence[signals.Heartbeat]) -> None:
        """Record which processes hang and where, and end the step of the job."""
        step = f"{os.environ['SLURM_JOB_ID']}.0"
        guilty = self.guilty(late)
        self.ask_recorders()
        if any(not self.frames(beat) for beat in guilty):
            self.go_on(guilty, step)
            deadline = time.monotonic() + CONTINUED_S
            while time.monotonic() < deadline and any(not self.frames(beat) for beat in guilty):
                time.sleep(0.1)
        reason = "; ".join(self.describe(beat, late) for beat in guilty)
        nodes = sorted({beat.node for beat in guilty if beat.node})
        saved, own = self.part.saved(), os.environ["SLURM_JOB_ID"]
        facts = {"key": self.key, "saved": saved, "job": own, "exclude": nodes, "counts": True}
        self.part.append("lost", reason=reason, **facts)
        tell(f"xling: {self.part}: {reason}; the step is ended")
        # The script ends with the step, and this process with the script.
        while output(["scancel", "--signal=KILL", step])[0] is None:
            time.sleep(RETRY_S)

    def go_on(self, stopped: Sequence[signals.Heartbeat], step: str) -> None:
        """Continue processes that may be stopped: those of this node directly, all others through Slurm."""
        for beat in stopped:
            stale = self.part.heartbeat_of(beat.rank)
            stale.with_name(stale.name + stacks.EARLIER_SUFFIX).unlink(missing_ok=True)
            self.continued.add(beat.rank)
            if beat.pid and beat.node == signals.node_name():
                with contextlib.suppress(OSError):
                    os.kill(beat.pid, signal.SIGCONT)
        output(["scancel", "--signal=CONT", step])

    def ask_recorders(self) -> None:
        """Ask NCCL's flight recorders of the processes on this node to write the last calls; without GPUs, nothing."""
        pipes = [p for rank in self.seen for p in _beside(self.part.heartbeat_of(rank), f"*.ask{rank}.pipe")]
        for pipe in pipes:
            with contextlib.suppress(OSError):  # of another node, or of an earlier start: nobody reads it
                descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
                os.write(descriptor, b"1")
                os.close(descriptor)
        if pipes:
            time.sleep(RECORDERS_S)

    def describe(self, beat: signals.Heartbeat, late: Sequence[signals.Heartbeat]) -> str:
        """Return what a process was doing when it stopped to report, with its stack."""
        silent = time.monotonic() - self.seen[beat.rank][1]
        where = " in ".join(self.frames(beat)[:MAX_FRAMES]) or "it did not answer"
        of = f" (of {len(self.seen)}, {len(late)} are late)" if len(self.seen) > 1 else ""
        during = f" during {beat.doing}" if beat.doing else ""
        on = f" on {beat.node}" if beat.node else ""
        return (
            f"rank {beat.rank}{on}{of} hangs after {beat.done:,} {beat.unit or 'updates'}{during}: no heartbeat for"
            f" {silent:.0f} s, due after {beat.due_s:.0f} s; stack: {where}"
        )


def _beside(heartbeat: Path, pattern: str) -> list[Path]:
    return sorted(heartbeat.parent.glob(heartbeat.name + pattern.removeprefix("*")))


def main(words: Sequence[str]) -> int:
    """Watch until the batch script ends or the part hangs; return 1 if it does."""
    run, step_name, key = words
    step = open_run(Path(run)).steps[step_name]
    entries = [entry for entry in step.arrays() if entry["key"] == key]
    if not entries:
        return 0  # the job itself reports it
    parts = [step.part(entries[0]["phase"], index) for index in indices_here(step, entries[0])]
    watchers, parent = [Watcher(part, key) for part in parts], os.getppid()
    if len(parts) == 1:  # of several, each starts when the one before it has ended
        watchers[0].expect_all(time.monotonic())
    while os.getppid() == parent:
        for watcher in watchers:
            if late := watcher.look(time.monotonic()):
                watcher.end(late)
                return 1
        time.sleep(POLL_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
