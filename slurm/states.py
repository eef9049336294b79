"""States of jobs: from sacct, and where accounting is off from squeue and scontrol.

submitit asks sacct alone: without an accounting database it answers UNKNOWN for ever. A job that neither side
knows any more has ended, and what it left in its record decides. While the controller does not answer, nothing is
known about a job: that is a state of its own, `NO_ANSWER`, and nobody may conclude anything from it.

A job counts as ours by its id and its name. Slurm gives an id a second time when its controller lost its state, and
another cluster has jobs with the same ids.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

_WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
_RUNNING = {"RUNNING", "SUSPENDED", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}
ACTIVE = frozenset(_WAITING | _RUNNING)
UNKNOWN = "UNKNOWN"
NO_ANSWER = "NO ANSWER"
NOT_THE_JOBS_FAULT = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED"})
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class JobState:
    """State of a job as reported by Slurm.

    Attributes:
        state: Slurm's long name, for example ``RUNNING``; ``UNKNOWN`` when Slurm has forgotten the job,
            `NO_ANSWER` when it does not answer.
        reason: why it waits or how it ended, "" when there is nothing to say.
        node: where it runs or ran.
        name: of the job, "" when unknown.
        ran_s: seconds since it started, -1 when unknown.
    """

    state: str = UNKNOWN
    reason: str = ""
    node: str = ""
    name: str = ""
    ran_s: int = -1

    @property
    def is_active(self) -> bool:
        """Whether the job waits or runs."""
        return self.state in ACTIVE

    @property
    def is_waiting(self) -> bool:
        """Whether the job is in the queue and does not run."""
        return self.state in _WAITING

    @property
    def is_put_aside(self) -> bool:
        """Whether Slurm could not start the job on a node (a prolog that failed) and holds it until it is released."""
        return self.is_waiting and self.reason.replace("_", " ").startswith("launch failed")


@dataclass(frozen=True)
class QueueView:
    """Snapshot of Slurm's answers at one moment.

    Attributes:
        answers: whether the controller answered; else only states of ended jobs from the accounting are
            known.
        failure: why it did not.
        cluster: name of the cluster that answered, "" when unknown.
        jobs: state by job id, as far as Slurm knows it.
    """

    answers: bool = True
    failure: str = ""
    cluster: str = ""
    jobs: Mapping[str, JobState] = field(default_factory=dict)

    def state(self, job_id: str, name: str = "") -> JobState:
        """Return the state of our job; a job with another name is not ours, so Slurm has forgotten ours."""
        job = self.jobs.get(job_id)
        if job is not None and name and job.name and job.name != name:
            job = None
        if job is not None and (self.answers or not job.is_active):
            return job
        return JobState() if self.answers else JobState(NO_ANSWER, self.failure)

    def jobs_named(self, name: str) -> list[str]:
        """Return the ids of the jobs called ``name``, including array elements."""
        return sorted(identity for identity, job in self.jobs.items() if job.name == name)


def ask_about(ids: Iterable[str] = ()) -> QueueView:
    """Ask Slurm once for all jobs of this user, and the accounting for ``ids``."""
    wanted = sorted(set(ids))
    array_ids = sorted({job.partition("_")[0] for job in wanted if job != "-"})
    queued_states, failure = _from_squeue()
    remembered, failure = _from_scontrol() if queued_states is not None else (None, failure)
    other_states = (remembered or {}) | (_from_sacct(array_ids) if array_ids else {})
    if queued_states is None or remembered is None:
        return QueueView(False, failure, "", other_states)
    # A job that is being cleared away has its exit code with the controller only.
    other_states |= {
        k: v for k, v in queued_states.items() if k not in other_states or v.state != "COMPLETING"
    }
    return QueueView(True, "", cluster_name(), other_states)


def cluster_name() -> str:
    """Name of the cluster whose controller answers, "" where none does."""
    shown = run_for_output(["scontrol", "show", "config"])[0] or ""
    match = re.search(r"^ClusterName\s*=\s*(\S+)", shown, re.MULTILINE)
    return match[1] if match else ""


def parse_sacct(text: str) -> dict[str, JobState]:
    """Return states from ``sacct -n -X -P -o JobID,State,ExitCode,NodeList,JobName``."""
    states = {}
    for line in text.splitlines():
        fields = line.split("|", 4)
        if len(fields) < 4:
            continue
        job, state, code, node = fields[:4]
        word = state.split()[0] if state else UNKNOWN  # "CANCELLED by 1000"
        node = "" if node.startswith("None") else node
        for each in _expand_job_ids(job):
            states[each] = JobState(word, _exit_reason(code), node, name="".join(fields[4:]))
    return states


def parse_squeue(text: str) -> dict[str, JobState]:
    """Return states from ``squeue -h -r -t all -o '%i|%F|%K|%T|%r|%N|%M|%j'``."""
    states = {}
    for line in text.splitlines():
        fields = line.split("|", 7)
        if len(fields) < 8:
            continue
        job, array_id, elements, state, reason, node, ran, name = fields
        reason = "" if reason == "None" else reason
        told = JobState(state, reason, node, name, _seconds(ran))
        for each in _expand_job_ids(job if elements == "N/A" else f"{array_id}_[{elements}]"):
            states[each] = told
    return states


def parse_scontrol(text: str) -> dict[str, JobState]:
    """Return states from ``scontrol -o show job``."""
    states = {}
    for line in text.splitlines():
        values = dict(re.findall(r"(\w+)=(\S*)", line))
        if "JobId" not in values:
            continue
        job = values["JobId"]
        if "ArrayTaskId" in values:
            job = f"{values['ArrayJobId']}_[{values['ArrayTaskId']}]"
        state = values.get("JobState", UNKNOWN)
        waits = values.get("Reason", "None") if state in ACTIVE - {"COMPLETING"} else "None"
        reason = _exit_reason(values.get("ExitCode", "0:0")) if waits == "None" else waits
        node = values.get("NodeList", "").replace("(null)", "")
        for each in _expand_job_ids(job):
            ran = _seconds(values.get("RunTime", ""))
            states[each] = JobState(state, reason, node, name=values.get("JobName", ""), ran_s=ran)
    return states


def _from_sacct(array_ids: list[str]) -> dict[str, JobState]:
    columns = "JobID,State,ExitCode,NodeList,JobName"
    command = ["sacct", "-n", "-X", "-P", "-o", columns, "-j", ",".join(array_ids)]
    return parse_sacct(run_for_output(command)[0] or "")


def _from_squeue() -> tuple[dict[str, JobState] | None, str]:
    """Return the jobs in the queue; None and the reason if Slurm does not answer."""
    # The reason for waiting and the time left are nowhere else.
    command = ["squeue", "-h", "-r", "-u", str(os.getuid()), "-o", "%i|%F|%K|%T|%r|%N|%M|%j"]
    text, failure = run_for_output(command)
    return (None, failure) if text is None else (parse_squeue(text), "")


def _from_scontrol() -> tuple[dict[str, JobState] | None, str]:
    """Return the jobs that the controller remembers; None and the reason if it does not answer."""
    text, failure = run_for_output(["scontrol", "-o", "show", "job"])
    return (None, failure) if text is None else (parse_scontrol(text), "")


def run_for_output(command: list[str]) -> tuple[str | None, str]:
    """Return a command's output; None and the reason if it failed or does not exist."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, errors="replace")
    except FileNotFoundError:
        return None, f"no {command[0]} is here"
    except OSError as error:
        return None, f"{command[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return None, f"{command[0]} did not answer within {TIMEOUT_S:.0f} s"
    if result.returncode:
        return None, " ".join(
            result.stderr.split()
        ) or f"{command[0]} ended with exit code {result.returncode}"
    return result.stdout, ""


def _expand_job_ids(job: str) -> Iterator[str]:
    """Expand ``12_[0-2,5%4]`` to ``12_0 12_1 12_2 12_5``; yield any other id unchanged."""
    match = re.fullmatch(r"(\d+)_\[?([\d,-]+)(?::\d+)?(?:%\d+)?\]?", job)
    if not match:
        yield job
        return
    for piece in match[2].split(","):
        first, _, last = piece.partition("-")
        for index in range(int(first), int(last or first) + 1):
            yield f"{match[1]}_{index}"


def _exit_reason(code: str) -> str:
    """Describe an exit code such as ``137:0`` in words; "" for ``0:0``."""
    status, _, number = code.partition(":")
    if number not in ("", "0"):
        return f"killed by {_signal_name(int(number))}"
    if status and int(status) > 128:
        return f"exit code {status} ({_signal_name(int(status) - 128)})"
    return f"exit code {status}" if status not in ("", "0") else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _seconds(time_text: str) -> int:
    """Convert ``1-02:03:04`` to seconds; -1 for UNLIMITED, N/A and the like."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", time_text)
    if not match:
        return -1
    days, hours, minutes, seconds = (int(group or 0) for group in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
