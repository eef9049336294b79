"""Disturb the test bed at random and check that runs end as if nothing had happened.

Usage::

    python -m tests.slurm.testbed.nemesis --seed 1 --schedules 10 [--dir DIR]

Each schedule submits a small pipeline and disturbs it for a while:

- the controller is killed, restarted or stopped,
- nodes are lost,
- processes are killed or stopped; a training is stopped for good, which its watcher has to find,
- jobs are requeued, cancelled or preempted,
- ``sbatch`` is slow, or its answer gets lost,
- records are torn, or the disk is full.

Then everything is healed. The run has to end by itself, with ``xling slurm reconcile`` called now and then, as cron
does. Checked are: each part was published once and never ran twice at the same time, the results are those of an
undisturbed run, no job is left, and no status was false. The exit code is 1 when anything was violated.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.slurm.testbed import bed
from tests.slurm.testbed.conf_files import Bed
from tests.slurm.testbed.workload import CHAIN, DOUBLED, PARTS, expected
from xling.core import signals
from xling.core.commands.pipeline import Pipeline, Step
from xling.core.commands.runner import STAGES
from xling.slurm import launch, reconcile, status
from xling.slurm.record import Run, open_run
from xling.slurm.submission_decisions import SILENT_S

ROOT = Path(__file__).resolve().parents[3]
HEALED_S = 240.0
SLURMD_TIMEOUT_S = 9
"""A controller that was killed may take a job for running that has ended, until the node lists its jobs 60 s later."""
HANG_SLACK_S = 10
HANG_FOUND_S = 60.0
"""How long after its next heartbeat was due a stopped training may still exist."""
CRON_S = 3.0
SBATCH = """#!/bin/sh
# Stands before sbatch: slow where the nemesis says so, and with answers that get lost.
before=0; after=0; lose=0
. "$(dirname "$0")/mood"
sleep "$before"
{real} "$@"; code=$?
sleep "$after"
if [ "$lose" = 1 ]; then
    echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
    exit 1
fi
exit $code
"""


@dataclass
class Schedule:
    """One run under random disturbances.

    Attributes:
        bed: the test bed.
        folder: where this schedule writes.
        draw: where all chance comes from.
        done: the disturbances in order.
        disturbances: how many there are at least and at most.
        violations: what was violated, a sentence each.
        hung: stopped trainings: their last heartbeat by step.
    """

    bed: Bed
    folder: Path
    draw: random.Random
    disturbances: tuple[int, int] = (4, 10)
    done: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    healing: list[Callable[[], None]] = field(default_factory=list)
    hung: dict[str, signals.Heartbeat] = field(default_factory=dict)

    @property
    def run(self) -> Run:
        """The run as it is on the disk."""
        return open_run(self.folder / "runs/jobs/x")

    def play(self) -> None:
        """Submit, disturb, heal, wait and check."""
        steps = {
            "parts": Step("parts", {"out": str(self.folder / "parts"), "seconds": "1"}),
            "left": Step("chain", {"out": str(self.folder / "left")}, after=("parts",)),
            "right": Step("chain", {"out": str(self.folder / "right")}, after=("parts",)),
        }
        inline, stay = self.draw.choice([("0", "0"), ("1", "30"), ("4", "30")])
        settings = {
            "run": "x",
            "max_attempts": "50",
            "inline_parts": inline,
            "stay_s": stay,
            "mem_gb": "0.25",
        }
        settings["hang_slack_s"] = str(HANG_SLACK_S)
        launch.submit_pipeline(Pipeline(steps), "slurm", settings)
        for _ in range(self.draw.randint(*self.disturbances)):
            time.sleep(self.draw.uniform(0.2, 2.0))
            self.disturb()
            self.look()
        for heal in self.healing:
            heal()
        self.healing.clear()
        self.wait()
        self.check()

    def disturb(self) -> None:
        """Apply one random disturbance."""
        action = self.draw.choice(DISTURBANCES)
        self.done.append(action.__name__)
        action(self)

    def look(self) -> None:
        """Compare a status with what Slurm says before and after it."""
        before = self.active()
        with contextlib.suppress(Exception):
            reconcile.reconcile(self.run)
        steps = {s.step: s.state for s in map(self.state_of, self.run.steps)}
        after = self.active()
        for name, state in steps.items():
            if state == "DONE" and not (self.folder / name / "result").exists():
                self.violations.append(f"status says {name} is DONE, and there is no result")
            if state in ("FAILED", "CANCELLED"):
                self.violations.append(f"status says {name} is {state}: {self.run.steps[name].outcome()}")
            if before is None or after is None:
                continue
            running = [job for job in (*before, *after) if job.startswith(f"x.{name}.")]
            if state in ("RUNNING", "PENDING") and not running:
                self.violations.append(f"status says {name} is {state}, and Slurm knows no job of it")
            both = [
                job for job in before if job in after and job.startswith((f"x.{name}.run", f"x.{name}.m"))
            ]
            if state == "LOST" and both:
                queue = subprocess.run(
                    ["squeue", "-h", "-r", "-o", "%j %T %r"], capture_output=True, text=True
                )
                text = f"status says {name} is LOST, and {both} were there all the time; now {queue.stdout.split()}"
                self.violations.append(text)
        self.look_at_hung(steps)

    def look_at_hung(self, states: dict[str, str]) -> None:
        """Check that stopped trainings are ended in time, and that none of them looks healthy."""
        for name, beat in list(self.hung.items()):
            late = beat.late_s(time.time())
            if not is_stopped(beat.pid):
                del self.hung[name]
            elif late > HANG_FOUND_S:
                self.violations.append(f"{name} was stopped, and still there {late:.0f} s after it was due")
                os.kill(beat.pid, signal.SIGKILL)
            elif late > 2 * status.LATE_AFTER_S and states[name] == "RUNNING":
                self.violations.append(f"status says {name} is RUNNING, and it was due {late:.0f} s ago")

    def state_of(self, name: str) -> status.StepStatus:
        """Return the status of a step as ``xling slurm status`` reports it."""
        run = self.run
        return status.step_status(run.steps[name], reconcile.view_of(run))

    def active(self) -> list[str] | None:
        """Return the names of waiting or running jobs, None if Slurm does not answer."""
        command = ["squeue", "-h", "-r", "-o", "%j"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        except subprocess.TimeoutExpired:
            return None
        return None if done.returncode else done.stdout.split()

    def wait(self) -> None:
        """Wait until the run has ended, reconciling periodically like cron."""
        deadline = time.monotonic() + HEALED_S
        while not all(step.outcome() for step in self.run.steps.values()):
            if time.monotonic() > deadline:
                self.violations.append(f"the run has not ended {HEALED_S:.0f} s after the last disturbance")
                return
            time.sleep(CRON_S)
            _resume_nodes(self)
            # A killed controller may take a job for running that has ended, and keeps its nodes for minutes.
            self.command("scancel", "--name=urgent")
            self.look()
        end = time.monotonic() + 40 + SILENT_S
        while self.left() and time.monotonic() < end:
            _resume_nodes(self)
            with contextlib.suppress(Exception):
                reconcile.reconcile(self.run)
            time.sleep(1)

    def left(self) -> list[str]:
        """Return the jobs of the run that still exist."""
        return [job for job in self.active() or () if job.startswith("x.")]

    def check(self) -> None:
        """Check the conditions that must hold at the end."""
        for name, step in self.run.steps.items():
            if step.outcome().get("state") != "done":
                self.violations.append(f"{name} ended as {step.outcome()}")
            stage = "parts" if name == "parts" else "chain"
            result = self.folder / name / "result"
            if not result.exists() or result.read_text() != expected(stage):
                self.violations.append(f"the result of {name} is not that of an undisturbed run")
            if (self.folder / name / DOUBLED).exists():
                self.violations.append(
                    f"{name} ran twice at once: {(self.folder / name / DOUBLED).read_text()}"
                )
            for entry in step.arrays():
                for index in entry["indices"]:
                    part = step.part(entry["phase"], index)
                    times = sum(event["event"] == "done" for event in part.events())
                    if times != 1:
                        self.violations.append(f"{part} was published {times} times")
        if left := self.left():
            self.violations.append(f"jobs are left: {left}")

    def processes(self) -> list[int]:
        """Return processes of jobs of the test bed that run our code."""
        return [
            pid
            for pid in bed.stragglers(self.bed.directory)
            if b"xling.slurm.entry" in bed.process_file(pid, "cmdline")
            and not bed.process_file(pid, "cmdline").startswith((b"srun", b"slurmstepd"))
        ]

    def command(self, *words: str) -> None:
        """Run one of Slurm's commands, ignoring its result."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(words, capture_output=True, timeout=15)

    def some_job(self) -> str:
        """Return the id of a job of the run, "" for a run without jobs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            command = ["squeue", "-h", "-r", "-o", "%i %j"]
            shown = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.splitlines()
            ids = [line.split()[0] for line in shown if " x." in line and ".barrier." not in line]
            return self.draw.choice(ids) if ids else ""
        return ""


def restart_controller(schedule: Schedule) -> None:
    """Ask slurmctld to end, and start it a little later."""
    _restart(schedule, "slurmctld", signal.SIGTERM)


def kill_controller(schedule: Schedule) -> None:
    """Kill slurmctld: it loses what it has not saved."""
    _restart(schedule, "slurmctld", signal.SIGKILL)


def kill_node(schedule: Schedule) -> None:
    """Kill a slurmd; its jobs run on without it."""
    _restart(schedule, f"slurmd-{schedule.draw.choice(schedule.bed.node_names)}", signal.SIGKILL)


def _restart(schedule: Schedule, name: str, number: signal.Signals) -> None:
    bed.signal_daemon(schedule.bed, name, number)
    time.sleep(schedule.draw.uniform(0.5, 6))
    bed.start_daemon(schedule.bed, name)


def stop_controller(schedule: Schedule) -> None:
    """Let slurmctld hang for a while."""
    bed.signal_daemon(schedule.bed, "slurmctld", signal.SIGSTOP)
    time.sleep(schedule.draw.uniform(1, 6))
    bed.signal_daemon(schedule.bed, "slurmctld", signal.SIGCONT)


def fail_node(schedule: Schedule) -> None:
    """Tell Slurm that a node is lost; its jobs are requeued."""
    name = schedule.draw.choice(schedule.bed.node_names)
    schedule.command("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=nemesis")
    time.sleep(schedule.draw.uniform(0.5, 3))
    resume = ("scontrol", "update", f"NodeName={name}", "State=RESUME")
    schedule.command(*resume)
    schedule.healing.append(lambda: schedule.command(*resume))


def break_prolog(schedule: Schedule) -> None:
    """Let nodes fail to start jobs for a while: Slurm drains them and holds the jobs."""
    schedule.bed.broken.touch()
    time.sleep(schedule.draw.uniform(0.5, 3))
    _mend_prolog(schedule)
    schedule.healing.append(lambda: _mend_prolog(schedule))


def _mend_prolog(schedule: Schedule) -> None:
    schedule.bed.broken.unlink(missing_ok=True)
    _resume_nodes(schedule)


def _resume_nodes(schedule: Schedule) -> None:
    """Resume drained nodes, repeatedly, since Slurm may drain one late."""
    for name in schedule.bed.node_names:
        schedule.command("scontrol", "update", f"NodeName={name}", "State=RESUME")


def kill_process(schedule: Schedule) -> None:
    """Kill one process of a job."""
    _signal(schedule, signal.SIGKILL)


def stop_process(schedule: Schedule) -> None:
    """Let one process of a job hang for a while."""
    if pid := _signal(schedule, signal.SIGSTOP):
        time.sleep(schedule.draw.uniform(0.5, 4))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _signal(schedule: Schedule, number: signal.Signals) -> int:
    pids = schedule.processes()
    if not pids:
        return 0
    pid = schedule.draw.choice(pids)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    return pid


def hang_training(schedule: Schedule) -> None:
    """Stop a training for good: its watcher has to end it, and it goes on elsewhere."""
    own = schedule.processes()
    for name, step in schedule.run.steps.items():
        path = step.part("run", 0).heartbeat_path
        beat = signals.read_heartbeat(path)
        # Before the time of an update is known, the limit is half an hour.
        if beat and 0 < beat.due_s < signals.BUSY_LIMIT_S and beat.pid in own and not is_stopped(beat.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(beat.pid, signal.SIGSTOP)
                schedule.hung[name] = signals.read_heartbeat(path) or beat
                return


def is_stopped(pid: int) -> bool:
    """Return whether SIGSTOP holds a process."""
    return bed.process_file(pid, "stat").rpartition(b")")[2].split()[:1] == [b"T"]


def requeue_job(schedule: Schedule) -> None:
    """Put a job of the run back into the queue: a part or a collector."""
    if identity := schedule.some_job():
        schedule.command("scontrol", "requeue", identity)


def cancel_job(schedule: Schedule) -> None:
    """Cancel a job of the run directly in Slurm."""
    if identity := schedule.some_job():
        schedule.command("scancel", identity)


def preempt(schedule: Schedule) -> None:
    """Let a job of higher priority take every node."""
    real = shutil.which("sbatch", path="/usr/bin:/usr/local/bin") or "sbatch"
    words = [real, "--partition=urgent", "--nodes=2", "--exclusive", "--mem=0", "--job-name=urgent"]
    schedule.command(*words, "--output=/dev/null", "--wrap=sleep 2")


def slow_sbatch(schedule: Schedule) -> None:
    """Let sbatch take its time, before or after it has submitted."""
    before, after = schedule.draw.choice([(2, 0), (0, 2), (1, 1)])
    _mood(schedule, f"before={before}; after={after}")


def lose_answers(schedule: Schedule) -> None:
    """Let the answers of sbatch get lost."""
    _mood(schedule, "lose=1")


def _mood(schedule: Schedule, text: str) -> None:
    mood = schedule.bed.directory / "bin" / "mood"
    mood.write_text(text + "\n")

    def heal() -> None:
        mood.write_text("\n")

    schedule.healing.append(heal)


def tear_record(schedule: Schedule) -> None:
    """Leave a torn line at the end of a record."""
    records = sorted((schedule.folder / "runs/jobs/x").rglob("*.jsonl"))
    if records:
        with schedule.draw.choice(records).open("ab") as handle:
            handle.write(b'{"event": "sta')


def fill_disk(schedule: Schedule) -> None:
    """Take all the space of the file system that the run is on, for a while."""
    ballast = schedule.folder / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as handle:
        while True:
            handle.write(b"\0" * 65536)
    time.sleep(schedule.draw.uniform(0.5, 3))
    ballast.unlink()


DISTURBANCES = [
    restart_controller, kill_controller, stop_controller, kill_node, fail_node, break_prolog, kill_process,
    kill_process, stop_process, hang_training, hang_training, requeue_job, requeue_job, cancel_job, preempt,
    slow_sbatch, lose_answers, tear_record, fill_disk,
]  # fmt: skip


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Provide a file system of 32 MiB at ``folder``, so that it can be filled."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def torment(
    directory: Path,
    seed: int,
    schedules: Sequence[int],
    disturbances: tuple[int, int],
) -> int:
    """Play schedules on a test bed in ``directory``; returns how many violated something."""
    STAGES.add("parts", PARTS)
    STAGES.add("chain", CHAIN)
    wrong = 0
    here = bed.up(directory, nodes=2, cpus=8, slurmd_timeout_s=SLURMD_TIMEOUT_S)
    try:
        os.environ.update(bed.environment(directory))
        # Jobs import the workload.
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        wrapper = directory / "bin" / "sbatch"
        wrapper.parent.mkdir()
        wrapper.write_text(SBATCH.format(real=shutil.which("sbatch")))
        wrapper.chmod(0o755)
        (wrapper.parent / "mood").write_text("\n")
        os.environ["PATH"] = f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}"
        for number in schedules:
            folder = directory / f"work{number}"
            began = time.monotonic()
            with small_disk(folder), contextlib.chdir(folder):
                schedule = Schedule(here, folder, random.Random(f"{seed}.{number}"), disturbances)
                schedule.play()
                wrong += bool(schedule.violations)
                seconds = time.monotonic() - began
                print(
                    f"schedule {seed}.{number}: {seconds:.0f} s, {len(schedule.done)} disturbances",
                    flush=True,
                )
                for text in dict.fromkeys(schedule.violations):
                    print(f"  VIOLATED: {text}", flush=True)
                if schedule.violations:
                    print(f"  after: {' '.join(schedule.done)}", flush=True)
                    shutil.copytree(folder, directory.with_name(f"{directory.name}-{seed}.{number}"))
                schedule.command("scancel", "--user", "root")
                time.sleep(2)
    finally:
        bed.down(directory)
    return wrong


def main() -> int:
    """Run the command line; return 1 when anything was violated."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.slurm.testbed.nemesis", description="Disturb the test bed."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schedules", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first schedule")
    parser.add_argument(
        "--disturbances", default="4-10", help="how many in a schedule at least and at most, for example 4-10"
    )
    parser.add_argument(
        "--dir", type=Path, default=bed.default_directory().with_name(f"nemesis-{os.getpid()}")
    )
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.schedules)
    least, _, most = given.disturbances.partition("-")
    wrong = torment(given.dir.absolute(), given.seed, numbers, (int(least), int(most or least)))
    print(f"{given.schedules} schedules, {wrong} with violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
