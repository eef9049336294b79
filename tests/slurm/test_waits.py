"""How often a run waits in the queue: a queue of one's own, in which every job waits for a planted delay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from test_outage import Clock

from xling.core import config
from xling.core.stage import STAGES, load
from xling.slurm import entry, queue, reconcile
from xling.slurm.jobs import Site
from xling.slurm.record import Run, Step, StepPlan
from xling.slurm.states import JobState, View

DELAY_S = 1000.0
_OF_A_JOB = ("SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID")


@dataclass
class Job:
    """A job of the queue; ``since``: when it could start but for the delay, None while anything else holds it back."""

    name: str
    words: Sequence[str]
    size: int
    after: list[str]
    held: bool
    since: float | None = None
    states: list[str] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return all(state in ("COMPLETED", "CANCELLED") for state in self.states)


class Queue:
    """Stands for a quiet cluster: a job starts `DELAY_S` after nothing else holds it back, and takes no time."""

    def __init__(self, clock: Clock, patch: pytest.MonkeyPatch) -> None:
        self.clock, self.patch, self.jobs = clock, patch, dict[str, Job]()
        patch.setattr(queue, "submit", self.submit)
        patch.setattr(queue, "call", self.call)
        patch.setattr(queue, "cancel", self.cancel)
        patch.setattr(reconcile, "view_of", lambda run: View(jobs=self.states()))

    def submit(self, jobs: queue.Executor, num_elements: int = 1) -> str:
        after = str(jobs.parameters.get("dependency", "")).split(":")[1:]
        held = bool(jobs.parameters["additional_parameters"].get("hold"))
        identity = str(100 + len(self.jobs))
        self.jobs[identity] = Job(
            jobs.parameters["job_name"],
            jobs.words,
            num_elements,
            after,
            held,
            states=["PENDING"] * num_elements,
        )
        return identity

    def call(self, *command: str) -> str:
        assert command[:2] == ("scontrol", "release")
        self.jobs[command[2]].held = False
        return ""

    def cancel(self, ids: Sequence[str]) -> None:
        for identity in ids:
            if not self.jobs[identity].ended:
                self.jobs[identity].states = ["CANCELLED"] * self.jobs[identity].size

    def states(self) -> dict[str, JobState]:
        return {
            f"{identity}_{number}" if job.size > 1 else identity: JobState(
                state, "JobHeldUser" if job.held else "", name=job.name
            )
            for identity, job in self.jobs.items()
            for number, state in enumerate(job.states)
        }

    def run(self) -> None:
        """Start one job after the other until none can start."""
        while waiting := [identity for identity in self.jobs if self.may_start(identity)]:
            identity = min(waiting, key=lambda each: self.jobs[each].since)
            job = self.jobs[identity]
            assert job.since is not None
            self.clock.now = max(self.clock.now, job.since + DELAY_S)
            for number in range(job.size):
                job.states[number] = "RUNNING"
                self.start(identity, job, number)
            job.states = [
                "COMPLETED"
            ] * job.size  # Slurm notices some time after an element has ended its part

    def may_start(self, identity: str) -> bool:
        job = self.jobs[identity]
        if job.ended:
            return False
        free = not job.held and all(self.jobs[other].ended for other in job.after)
        job.since = (job.since or self.clock.now) if free else None
        return free

    def start(self, identity: str, job: Job, number: int) -> None:
        facts = (identity, job.name, identity, str(number))
        with pytest.MonkeyPatch.context() as patch:
            for name, value in zip(_OF_A_JOB, facts, strict=True):
                if job.size > 1 or not name.startswith("SLURM_ARRAY"):
                    patch.setenv(name, value)
            assert entry.main(job.words) == 0


def built(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[Step, float, Queue]:
    """Build a corpus on the quiet cluster; return its step, the delays that it waited, and the queue."""
    clock, stage = Clock(), STAGES["corpus mono"]
    for module in (reconcile, entry):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.chdir(tmp_path)
    stages = ("before_dedup=repair", "after_dedup=pii")  # others would drop this text
    given = ["lang=en", f"source={source}", f"out={tmp_path}/out", *stages, *words]
    cfg = config.load(load(stage.config), overrides=given)
    plan = StepPlan(
        stage, (config.to_dict(cfg),), (), Site().resources(stage.name), Site().resources("collect")
    )
    run = Run(tmp_path / "r", "slurm", {"mono": plan})
    run.create()
    cluster = Queue(clock, monkeypatch)
    reconcile.start(run)
    cluster.run()
    step = run.steps["mono"]
    assert step.outcome().get("state") == "done", step.outcome()
    assert (tmp_path / "out" / "manifest.json").is_file()
    barrier = cluster.jobs[step.barrier()]
    assert barrier.ended and barrier.since is not None
    return step, barrier.since / DELAY_S - clock.began / DELAY_S, cluster


def test_a_small_corpus_waits_in_the_queue_twice(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Near-duplicates are looked for by 14 bands; everything else has one part and runs behind another phase."""
    step, waits, cluster = built(f"text:{corpus}/en.txt", tmp_path, monkeypatch)
    assert len({array["phase"] for array in step.arrays()}) >= 9
    assert [job.size for job in cluster.jobs.values() if ".barrier." not in job.name] == [1, 1, 14, 1]
    assert waits == pytest.approx(2, abs=0.01)


def test_a_phase_of_many_parts_waits_in_the_queue(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (corpus / "en.txt").read_text()
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(text.replace("e", "aiouy"[number]))
    step, waits, _ = built(f"text:{tmp_path}/*.txt", tmp_path, monkeypatch, "part_mb=0.001")
    wide = {array["phase"] for array in step.arrays() if len(array["indices"]) > 4}
    assert {"read", "filter", "score", "finish"} < wide and "fit" not in wide
    assert waits == pytest.approx(1 + len(wide), abs=0.01)
