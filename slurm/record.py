"""The directory of a run: what was asked, which jobs were submitted, and what every part reported.

::

    <folder>/<run>/run.json                  the steps: stage, configuration, order, resources, cluster
    <folder>/<run>/cancelled                 there once the user has cancelled
    <folder>/<run>/<step>/jobs.jsonl         every submission before it is made (array, collector, barrier), and its ids
    <folder>/<run>/<step>/outcome.json       done, failed or cancelled, with the reason
    <folder>/<run>/<step>/parts/<phase>.<index>.jsonl   start, stop, done, failed, lost
    <folder>/<run>/<step>/parts/<phase>.<index>.heartbeat.json          progress; further processes: .rank1 ...
    <folder>/<run>/<step>/parts/<phase>.<index>.heartbeat.json.stack    Python stack, where one is late
    <folder>/<run>/<step>/staying/<job>      until when a job stays for the next phase
    <folder>/<run>/<step>/log/               batch scripts and output

Plain files that are only appended to or replaced whole: a job that is killed at any moment leaves a state that
can be read, and a run can be reported long after Slurm has forgotten its jobs.

``jobs.jsonl`` is a write-ahead log. A submission is written down with a new key before ``sbatch`` is called, and the
key is part of the job's name. Where the ids are missing because the submitter was killed or got no answer, Slurm or a
started part knows them.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xling.core import signals
from xling.core.commands.runner import Phase, Stage, load, phases_of
from xling.core.errors import UserError, unknown
from xling.core.output import lease
from xling.core.output.command_result import tell
from xling.core.output.records import append_line, read_lines, read_object, write_private
from xling.core.settings import config
from xling.slurm.resources import COLLECTOR, Resources

Event = dict[str, Any]
SWEEP_PHASE = "sweep"
MAX_NAME = 80
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class StepPlan:
    """One stage of a run as asked for.

    Attributes:
        stage: what runs.
        configs: resolved settings as plain values: one, or one per element of a sweep.
        after: steps that must have ended well before.
        resources: of one part.
        collect: of the small job that looks after the parts.
    """

    stage: Stage
    configs: tuple[Any, ...]
    after: tuple[str, ...]
    resources: Resources
    collect: Resources


class Part:
    """The record of one part of one phase."""

    def __init__(self, step: Step, phase: str, index: int) -> None:
        self.step, self.phase, self.index = step, phase, index
        self.events_path = step.path / "parts" / f"{phase}.{index}.jsonl"
        self.heartbeat_path = step.path / "parts" / f"{phase}.{index}.heartbeat.json"
        self.lease = step.path / "parts" / f"{phase}.{index}"

    def heartbeat_of(self, rank: int) -> Path:
        """Return the heartbeat of one process of the part; rank 0 tells what was saved."""
        name = f"{self.phase}.{self.index}.rank{rank}.heartbeat.json"
        return self.heartbeat_path.with_name(name) if rank else self.heartbeat_path

    def heartbeats(self, job_mark: str = "") -> list[signals.Heartbeat]:
        """Return the heartbeats of all processes of one start, by rank; ``job_mark`` names it, default: the newest."""
        ranks = range(self.step.plan.resources.num_tasks)
        beats = [beat for rank in ranks if (beat := signals.read_heartbeat(self.heartbeat_of(rank)))]
        job_mark = job_mark or max(((beat.time, beat.job) for beat in beats), default=(0.0, ""))[1]
        return [beat for beat in beats if beat.job == job_mark]

    def __str__(self) -> str:
        return f"{self.step.name} {self.phase}[{self.index}]"

    def events(self) -> list[Event]:
        """Return all recorded events, oldest first."""
        return [event for event in read_lines(self.events_path) if isinstance(event.get("event"), str)]

    def append(self, event: str, **fields: Any) -> None:
        """Append an event to the record."""
        append_line(self.events_path, {"event": event, "time": round(time.time(), 1), **fields})

    def last_event(self) -> Event:
        """Return the newest event, {} before the part has started."""
        events = self.events()
        return events[-1] if events else {}

    def is_done(self) -> bool:
        """Return whether the part has succeeded."""
        return any(event["event"] == "done" for event in self.events())

    def num_saved(self) -> int:
        """Return the units of work that a restart does not repeat."""
        heartbeat = signals.read_heartbeat(self.heartbeat_path)
        return heartbeat.saved if heartbeat else 0


class Step:
    """The record of one step of a run."""

    def __init__(self, run: Run, name: str, plan: StepPlan) -> None:
        self.run, self.name, self.plan = run, name, plan
        self.path = run.path / name
        self.log = self.path / "log"

    @property
    def staying_path(self) -> Path:
        """Folder with a file for each job that stays."""
        return self.path / "staying"

    def staying(self) -> dict[str, float]:
        """Return until when each job stays for the next phase, without those that have left."""
        files = sorted(self.staying_path.glob("[0-9]*")) if self.staying_path.is_dir() else []
        times = {path.name: read_object(path).get("until") for path in files}
        return {
            job: until for job, until in times.items() if isinstance(until, float) and until > time.time()
        }

    def config(self, index: int = 0) -> Any:
        """Return the configuration dataclass of element ``index`` of a sweep, or of the whole step."""
        plain = self.plan.configs[index if self.is_sweep else 0]
        return config.from_dict(load(self.plan.stage.config), plain, f"step {self.name!r}")

    def outputs(self) -> list[Path]:
        """Return the outputs of the step, as far as its settings name them."""
        outs = (config.get("out") for config in self.plan.configs if isinstance(config, dict))
        return [Path(self.run.directory) / out for out in outs if isinstance(out, str) and out]

    @property
    def is_sweep(self) -> bool:
        """Whether the parts are configurations of one stage."""
        return len(self.plan.configs) > 1

    def phases(self) -> Sequence[Phase]:
        """Return the phases known so far."""
        if self.is_sweep:
            return (Phase(SWEEP_PHASE, len(self.plan.configs)),)
        return phases_of(self.plan.stage, self.config())

    def part(self, phase: str, index: int) -> Part:
        """Return the record of one part."""
        return Part(self, phase, index)

    def jobs(self) -> list[Event]:
        """Return every submission, oldest first: ``kind``, ``key``, ``jobs`` ([] while the ids are not known)."""
        entries: list[Event] = []
        by_key: dict[str, Event] = {}
        for line in read_lines(self.path / "jobs.jsonl"):
            kind, key, jobs = line.get("kind"), str(line.get("key", "")), line.get("jobs", [])
            if not isinstance(kind, str) or not isinstance(jobs, list):
                continue
            if kind in ("accepted", "unsure", "void"):
                if key in by_key:
                    at = {"time": line["time"]} if kind == "unsure" and "time" in line else {}
                    by_key[key] |= {"jobs": [str(job) for job in jobs], kind: True, **at}
                continue
            if kind == "array" and not _is_array(line):
                continue
            entry = {"time": 0.0, "round": 0, "saved": {}, **line, "key": key, "jobs": [str(j) for j in jobs]}
            entries.append(entry)
            by_key[key] = entry
        return entries

    def arrays(self) -> list[Event]:
        """The submissions of parts: ``phase``, ``indices``, ``jobs`` (one id per index), ``saved``, ``round``."""
        return [entry for entry in self.jobs() if entry["kind"] == "array" and not entry.get("void")]

    def record_intent(self, kind: str, **fields: Any) -> str:
        """Record a submission that is about to be made; return its key."""
        key = secrets.token_hex(4)
        self._write(kind, [], key=key, **fields)
        return key

    def mark_accepted(self, key: str, jobs: Sequence[str]) -> None:
        """Record the ids that Slurm gave to a submission."""
        self._write("accepted", jobs, key=key)

    def mark_unsure(self, key: str) -> None:
        """Record that Slurm gave no answer to a submission and may have accepted it."""
        self._write("unsure", [], key=key)

    def mark_void(self, key: str, reason: str) -> None:
        """Record that Slurm never received a submission, or rejected it."""
        self._write("void", [], key=key, reason=reason)

    def record_submission(self, kind: str, jobs: Sequence[str], **fields: Any) -> None:
        """Record a submission that needs no ids of Slurm, or whose ids are known."""
        self._write(kind, jobs, **fields)

    def _write(self, kind: str, jobs: Sequence[str], **fields: Any) -> None:
        line = {"kind": kind, "jobs": list(jobs), "time": round(time.time(), 1), **fields}
        append_line(self.path / "jobs.jsonl", line)

    def job_name(self, entry: Event) -> str:
        """Name of the job of a submission, "" for records without keys; no other job has it.

        Parts that run in the job of an earlier submission have its ``name`` in their entry.
        """
        if entry.get("name"):
            return str(entry["name"])
        word = str(entry.get("phase", entry["kind"]))
        return job_name(self.run.name, self.name, word, entry["key"]) if entry["key"] else ""

    def barrier(self) -> str:
        """Return the job id of the newest barrier, which succeeds when the step does."""
        return next((e["jobs"][0] for e in reversed(self.jobs()) if e["kind"] == "barrier" and e["jobs"]), "")

    def hold_leases(self) -> None:
        """Hold the leases on the outputs until the step has ended.

        Raises:
            HeldError: somebody else writes there.
        """
        for output in self.outputs():
            purpose = f"step {self.name} of run {self.run.name}; see: xling slurm status {self.run.name}"
            holder = lease.holder_of(output)
            if not holder or not holder.until or Path(holder.until).parent.parent != self.run.path:
                lease.pin(output, purpose, self.path / "outcome.json")

    def release_leases(self) -> None:
        """Release the leases of `hold_leases`."""
        for output in self.outputs():
            lease.unpin(output, self.path / "outcome.json")

    def outcome(self) -> Event:
        """Return ``{"state": "done" | "failed" | "cancelled", "reason": ...}``, {} while the step is running."""
        event = read_object(self.path / "outcome.json")
        return event if isinstance(event.get("state"), str) and "reason" in event else {}

    def end(self, state: str, reason: str = "") -> None:
        """Record the state in which a step ended, with its reason."""
        fields = {"state": state, "reason": reason, "time": round(time.time(), 1)}
        write_private(self.path / "outcome.json", json.dumps(fields, ensure_ascii=False) + "\n")


class Run:
    """One submission of a user: a stage, a sweep or a pipeline."""

    def __init__(
        self,
        path: Path,
        cluster: str,
        steps: dict[str, StepPlan],
        created: float = 0.0,
        directory: str = "",
        slurm: str = "",
    ) -> None:
        self.path, self.cluster, self.created = path, cluster, created or time.time()
        self.slurm = slurm  # name of the cluster that the jobs are on, where it is one of Slurm
        self.directory = directory or str(Path.cwd())  # what relative paths in the settings start from
        self.steps = {name: Step(self, name, plan) for name, plan in steps.items()}

    @property
    def name(self) -> str:
        """Name of the run, which is that of its folder."""
        return self.path.name

    @property
    def code(self) -> Path:
        """Folder of the copy of the package, where ``snapshot`` asks for one."""
        return self.path / "code"

    @property
    def is_cancelled(self) -> bool:
        """Whether the user has cancelled it."""
        return (self.path / "cancelled").exists()

    def create(self) -> None:
        """Make the directory, which only its owner may read.

        Raises:
            UserError: the name or the path cannot be used.
        """
        check_names(self.name, *self.steps)
        if "%" in str(self.path) or "\n" in str(self.path):
            raise UserError(
                f"job folder {str(self.path)!r}", "a path without % and line breaks: Slurm expands them"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.path.mkdir(mode=0o700)
        except FileExistsError:
            raise UserError(f"there is a run called {self.name}", fix="choose another slurm.run=") from None
        for step in self.steps.values():
            (step.path / "parts").mkdir(parents=True)
            step.log.mkdir()
        fields = {
            "cluster": self.cluster,
            "created": self.created,
            "directory": self.directory,
            "slurm": self.slurm,
            "steps": {name: asdict(step.plan) for name, step in self.steps.items()},
        }
        write_private(self.path / "run.json", json.dumps(fields, indent=1, ensure_ascii=False) + "\n")

    def check_owner(self) -> None:
        """Check that nobody else could have written the record: a job runs what it names.

        Raises:
            UserError: others may write to the record or to its folder, or it belongs to somebody else.
        """
        for path in (self.path, self.path / "run.json"):
            path_status = path.stat()
            if path_status.st_uid not in (0, os.geteuid()):
                raise UserError(
                    f"{path} belongs to another user, and its run would be run as you", fix="submit your own"
                )
            if path_status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise UserError(
                    f"others may write to {path}, and jobs run what it names",
                    fix=f"read it, then: chmod -R go-w '{self.path}'",
                )


def open_run(path: Path) -> Run:
    """Read the record of a run.

    Raises:
        UserError: there is none, or it is damaged.
    """
    try:
        fields = json.loads((path / "run.json").read_bytes())
        steps = {
            name: StepPlan(
                Stage(**plan["stage"]),
                tuple(plan["configs"]),
                tuple(plan["after"]),
                config.from_dict(Resources, plan["resources"]),
                config.from_dict(Resources, plan[COLLECTOR]),
            )
            for name, plan in fields["steps"].items()
        }
        check_names(*steps)
        place = str(fields["directory"]), str(fields.get("slurm", ""))
        run = Run(path, str(fields["cluster"]), steps, float(fields["created"]), *place)
        if not steps or any(name not in steps for step in steps.values() for name in step.after):
            raise ValueError("a step is missing")
        return run
    except FileNotFoundError:
        names = [p.parent.name for p in path.parent.glob("*/run.json")]
        raise unknown("run", path.name, names) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError, UserError) as error:
        raise UserError(
            f"{path}/run.json is damaged: {' '.join(str(error).split())}",
            fix="restore it, or move the run away",
        ) from None


def runs_in(folder: Path) -> list[Run]:
    """Return the runs in ``folder``, oldest first; a damaged one is reported on standard error."""
    runs = []
    for path in sorted(folder.glob("*/run.json")):
        try:
            runs.append(open_run(path.parent))
        except UserError as error:
            tell(f"xling: {error}")
    return sorted(runs, key=lambda run: run.created)


def check_names(*names: str) -> None:
    """Reject names of runs and steps that are not valid in a path and in a job name."""
    for name in names:
        if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
            raise UserError(
                f"run or step {name[:100]!r}",
                f"at most {MAX_NAME} letters, digits, _ . - after a letter or digit",
            )


def new_name(folder: Path, stem: str) -> str:
    """Return an unused name such as ``pretrain-1121-0942``, with a letter added if two fall into one minute."""
    base = f"{re.sub(r'[^A-Za-z0-9]+', '-', stem).strip('-')}-{time.strftime('%m%d-%H%M')}"
    suffixes: Iterable[str] = ("", *(f".{n}" for n in range(2, 1000)))
    return next(base + s for s in suffixes if not (folder / (base + s)).exists())


def job_name(run: str, step: str, word: str, key: str) -> str:
    """Name of a job; the key makes it unique."""
    return f"{run}.{step}.{word}.{key}"


def _is_array(entry: Event) -> bool:
    indices, jobs = entry.get("indices"), entry.get("jobs")
    return (
        isinstance(entry.get("phase"), str)
        and isinstance(indices, list)
        and all(isinstance(index, int) for index in indices)
        and (not jobs or len(jobs) == len(indices))
        and isinstance(entry.get("saved", {}), dict)
    )
