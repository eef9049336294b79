"""The watcher of a training: ``python -m xling.slurm.watch RUN STEP KEY``, started beside ``srun`` by the batch script.

It reads the heartbeats of all processes. Where one is late it finds out which process the others wait for, records it
with its Python stack and node, and ends the job's step. The collector behind the job then submits the part again,
without that node.

Only changes of a heartbeat count, by the watcher's own clock: the clocks of nodes may differ.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xling.core import signals, stack_dump
from xling.core.output.command_result import tell
from xling.slurm.record import Part, open_run
from xling.slurm.resources import Resources
from xling.slurm.states import run_for_output
from xling.slurm.submission_decisions import indices_of_this_job

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
        last_beats: rank -> its last heartbeat and when it was first seen, in seconds of this process's clock.
        continued_ranks: ranks that were stopped, and continued so that they write their stack.
    """

    part: Part
    key: str = ""
    last_beats: dict[int, tuple[signals.Heartbeat, float]] = field(default_factory=dict)
    continued_ranks: set[int] = field(default_factory=set)

    def expect_all(self, now: float) -> None:
        """Take all processes for started at ``now``: one may hang before its first heartbeat."""
        resources = self.part.step.plan.resources
        for rank, node in enumerate(node_by_rank(resources) if resources.hang_start_s else ()):
            heartbeat = signals.Heartbeat(
                rank=rank, node=node, due_s=resources.hang_start_s, doing=signals.STARTING
            )
            self.last_beats[rank] = (heartbeat, now)

    def late_processes(self, now: float) -> list[signals.Heartbeat]:
        """Return the last heartbeats of the processes that are late at ``now``, [] while it is not clear which are."""
        for heartbeat in self.part.heartbeats(signals.job_and_restart()):
            if self.last_beats.get(heartbeat.rank, (None, 0.0))[0] != heartbeat:
                self.last_beats[heartbeat.rank] = (heartbeat, now)
        seconds_late = {
            r: now - since - b.due_s - STACK_S for r, (b, since) in self.last_beats.items() if b.due_s
        }
        late = [self.last_beats[rank][0] for rank, seconds in seconds_late.items() if seconds > 0]
        # Processes write at different times: those that wait for each other become late one after the other.
        return late if len(late) == len(seconds_late) or max(seconds_late.values()) > SETTLE_S else []

    def hanging(self, late: Sequence[signals.Heartbeat]) -> list[signals.Heartbeat]:
        """Return the late processes that the others wait for: the stopped ones, else those outside of a collective."""
        stopped = [heartbeat for heartbeat in late if not self.frames(heartbeat)]
        if stopped:
            return stopped
        others = [b for b in late if not any(f.startswith(_COLLECTIVES) for f in self.frames(b)[:4])]
        behind = [b for b in late if b.done == min(heartbeat.done for heartbeat in late)]
        return others or behind

    def frames(self, heartbeat: signals.Heartbeat) -> list[str]:
        """Return the stack of a process, innermost frame first; [] while it has not written one."""
        path = self.part.heartbeat_of(heartbeat.rank)
        if heartbeat.doing == signals.STARTING and not heartbeat.time:
            return []  # it never wrote: a stack that is there is from an earlier start
        # A process that was continued may have gone on since it wrote.
        earlier = (
            stack_dump.read_frames(path, stack_dump.EARLIER_SUFFIX)
            if heartbeat.rank in self.continued_ranks
            else []
        )
        return stack_dump.read_frames(path) or earlier

    def end_hanging(self, late: Sequence[signals.Heartbeat]) -> None:
        """Record which processes hang and where, and end the step of the job."""
        step = f"{os.environ['SLURM_JOB_ID']}.0"
        hanging = self.hanging(late)
        self.ask_flight_recorders()
        if any(not self.frames(heartbeat) for heartbeat in hanging):
            self.continue_stopped(hanging, step)
            deadline = time.monotonic() + CONTINUED_S
            while time.monotonic() < deadline and any(not self.frames(heartbeat) for heartbeat in hanging):
                time.sleep(0.1)
        reason = "; ".join(self.describe(heartbeat, late) for heartbeat in hanging)
        nodes = sorted({heartbeat.node for heartbeat in hanging if heartbeat.node})
        saved, own = self.part.num_saved(), os.environ["SLURM_JOB_ID"]
        facts = {"key": self.key, "saved": saved, "job": own, "exclude": nodes, "counts": True}
        self.part.append("lost", reason=reason, **facts)
        tell(f"xling: {self.part}: {reason}; the step is ended")
        # The script ends with the step, and this process with the script.
        while run_for_output(["scancel", "--signal=KILL", step])[0] is None:
            time.sleep(RETRY_S)

    def continue_stopped(self, stopped: Sequence[signals.Heartbeat], step: str) -> None:
        """Continue processes that may be stopped: those of this node directly, all others through Slurm."""
        for heartbeat in stopped:
            stale = self.part.heartbeat_of(heartbeat.rank)
            stale.with_name(stale.name + stack_dump.EARLIER_SUFFIX).unlink(missing_ok=True)
            self.continued_ranks.add(heartbeat.rank)
            if heartbeat.pid and heartbeat.node == signals.node_name():
                with contextlib.suppress(OSError):
                    os.kill(heartbeat.pid, signal.SIGCONT)
        run_for_output(["scancel", "--signal=CONT", step])

    def ask_flight_recorders(self) -> None:
        """Ask NCCL's flight recorders of the processes on this node to write the last calls; without GPUs, nothing."""
        pipes = [
            p
            for rank in self.last_beats
            for p in _files_beside(self.part.heartbeat_of(rank), f"*.ask{rank}.pipe")
        ]
        for pipe in pipes:
            with contextlib.suppress(OSError):  # of another node, or of an earlier start: nobody reads it
                descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
                os.write(descriptor, b"1")
                os.close(descriptor)
        if pipes:
            time.sleep(RECORDERS_S)

    def describe(self, heartbeat: signals.Heartbeat, late: Sequence[signals.Heartbeat]) -> str:
        """Return what a process was doing when it stopped to report, with its stack."""
        silent_s = time.monotonic() - self.last_beats[heartbeat.rank][1]
        stack = " in ".join(self.frames(heartbeat)[:MAX_FRAMES]) or "it did not answer"
        of_all = f" (of {len(self.last_beats)}, {len(late)} are late)" if len(self.last_beats) > 1 else ""
        during = f" during {heartbeat.doing}" if heartbeat.doing else ""
        on_node = f" on {heartbeat.node}" if heartbeat.node else ""
        return (
            f"rank {heartbeat.rank}{on_node}{of_all} hangs after {heartbeat.done:,} {heartbeat.unit or 'updates'}"
            f"{during}: no heartbeat for {silent_s:.0f} s, due after {heartbeat.due_s:.0f} s; stack: {stack}"
        )


def node_by_rank(resources: Resources, hostlist: str = "") -> list[str]:
    """Return the node of each process of a job, "" where it cannot be known; default: the job of this process."""
    names = (run_for_output(["scontrol", "show", "hostnames", *filter(None, [hostlist])])[0] or "").split()
    placed = len(names) == resources.nodes and "distribution" not in resources.srun
    return [names[rank // resources.tasks_per_node] if placed else "" for rank in range(resources.num_tasks)]


def _files_beside(heartbeat: Path, pattern: str) -> list[Path]:
    return sorted(heartbeat.parent.glob(heartbeat.name + pattern.removeprefix("*")))


def main(words: Sequence[str]) -> int:
    """Watch until the batch script ends or the part hangs; return 1 if it does."""
    run, step_name, key = words
    step = open_run(Path(run)).steps[step_name]
    entries = [entry for entry in step.arrays() if entry["key"] == key]
    if not entries:
        return 0  # the job itself reports it
    parts = [step.part(entries[0]["phase"], index) for index in indices_of_this_job(step, entries[0])]
    watchers, parent = [Watcher(part, key) for part in parts], os.getppid()
    if len(parts) == 1:  # of several, each starts when the one before it has ended
        watchers[0].expect_all(time.monotonic())
    while os.getppid() == parent:
        for watcher in watchers:
            if late := watcher.late_processes(time.monotonic()):
                watcher.end_hanging(late)
                return 1
        time.sleep(POLL_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
