"""States of jobs: from sacct, and where accounting is off from squeue and scontrol.

submitit asks sacct alone: without an accounting database it answers UNKNOWN for ever. A job that neither side
knows any more has ended, and what it left in its record decides.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

_WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
_RUNNING = {"RUNNING", "SUSPENDED", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}
ACTIVE = frozenset(_WAITING | _RUNNING)
UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class JobState:
    """What Slurm says about a job.

    Attributes:
        state: Slurm's long name, for example ``RUNNING``; ``UNKNOWN`` when Slurm has forgotten the job.
        reason: why it waits or how it ended, "" when there is nothing to say.
        node: where it runs or ran.
        time_left_s: seconds to its time limit, -1 when unknown.
    """

    state: str = UNKNOWN
    reason: str = ""
    node: str = ""
    time_left_s: int = -1

    @property
    def is_active(self) -> bool:
        """Whether the job waits or runs."""
        return self.state in ACTIVE


def job_states(ids: Iterable[str]) -> dict[str, JobState]:
    """State by job id (``12`` or ``12_3``); ids that Slurm does not know are UNKNOWN."""
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    masters = sorted({identity.partition("_")[0] for identity in wanted})
    known = _from_scontrol(masters, wanted) | _from_sacct(masters)
    # A job that is being cleared away has its exit code with the controller only.
    known |= {k: v for k, v in _from_squeue().items() if k not in known or v.state != "COMPLETING"}
    return {identity: known.get(identity, JobState()) for identity in wanted}


def has_accounting() -> bool:
    """Whether sacct answers here."""
    return _output(["sacct", "-n", "-X", "-j", "1"]) is not None


def parse_sacct(text: str) -> dict[str, JobState]:
    """States from ``sacct -n -X -P -o JobID,State,ExitCode,NodeList``."""
    found = {}
    for line in text.splitlines():
        identity, state, code, node = line.split("|")[:4]
        word = state.split()[0] if state else UNKNOWN  # "CANCELLED by 1000"
        for each in _expand(identity):
            found[each] = JobState(word, _exit_reason(code), "" if node.startswith("None") else node)
    return found


def parse_squeue(text: str) -> dict[str, JobState]:
    """States from ``squeue -h -r -t all -o '%i|%F|%K|%T|%r|%N|%L'``."""
    found = {}
    for line in text.splitlines():
        identity, master, elements, state, reason, node, left = line.split("|")[:7]
        told = JobState(state, "" if reason == "None" else reason, node, _seconds(left))
        for each in _expand(identity if elements == "N/A" else f"{master}_[{elements}]"):
            found[each] = told
    return found


def parse_scontrol(text: str) -> dict[str, JobState]:
    """States from ``scontrol -o show job``."""
    found = {}
    for line in text.splitlines():
        facts = dict(re.findall(r"(\w+)=(\S*)", line))
        if "JobId" not in facts:
            continue
        identity = facts["JobId"]
        if "ArrayTaskId" in facts:
            identity = f"{facts['ArrayJobId']}_[{facts['ArrayTaskId']}]"
        state = facts.get("JobState", UNKNOWN)
        waits = facts.get("Reason", "None") if state in ACTIVE - {"COMPLETING"} else "None"
        reason = _exit_reason(facts.get("ExitCode", "0:0")) if waits == "None" else waits
        node = facts.get("NodeList", "").replace("(null)", "")
        for each in _expand(identity):
            found[each] = JobState(state, reason, node)
    return found


def _from_sacct(masters: list[str]) -> dict[str, JobState]:
    command = ["sacct", "-n", "-X", "-P", "-o", "JobID,State,ExitCode,NodeList", "-j", ",".join(masters)]
    return parse_sacct(_output(command) or "")


def _from_squeue() -> dict[str, JobState]:
    """What is in the queue now; the reason for waiting and the time left stand only here."""
    command = ["squeue", "-h", "-r", "-u", str(os.getuid()), "-o", "%i|%F|%K|%T|%r|%N|%L"]
    return parse_squeue(_output(command) or "")


def _from_scontrol(masters: list[str], wanted: list[str]) -> dict[str, JobState]:
    """What the controller still remembers; one call shows every job."""
    shown = parse_scontrol(_output(["scontrol", "-o", "show", "job"]) or "")
    return {k: replace(v, time_left_s=-1) for k, v in shown.items() if k in wanted or k in masters}


def _output(command: list[str]) -> str | None:
    """What a command printed, None when it failed or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _expand(identity: str) -> Iterator[str]:
    """``12_[0-2,5%4]`` as ``12_0 12_1 12_2 12_5``; any other id as it is."""
    match = re.fullmatch(r"(\d+)_\[?([\d,-]+)(?::\d+)?(?:%\d+)?\]?", identity)
    if not match:
        yield identity
        return
    for piece in match[2].split(","):
        first, _, last = piece.partition("-")
        for index in range(int(first), int(last or first) + 1):
            yield f"{match[1]}_{index}"


def _exit_reason(code: str) -> str:
    """``137:0`` as words; "" for ``0:0``."""
    status, _, number = code.partition(":")
    if number not in ("", "0"):
        return f"killed by {_signal_name(int(number))}"
    if int(status or 0) > 128:
        return f"exit code {status} ({_signal_name(int(status) - 128)})"
    return f"exit code {status}" if status not in ("", "0") else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _seconds(clock: str) -> int:
    """``1-02:03:04`` as seconds; -1 for UNLIMITED, N/A and the like."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", clock)
    if not match:
        return -1
    days, hours, minutes, seconds = (int(group or 0) for group in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
