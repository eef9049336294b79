"""How often a run waits in the queue: a queue of one's own, in which every job waits for a planted delay."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from slurm_stages import SHARDS, ShardConfig
from test_cluster import opened, outcome_of
from test_outage import Clock

from xling.core import signals as core_job
from xling.core.commands.runner import STAGES, load, run_local
from xling.core.settings import config
from xling.slurm import array_task, entry, launch, reconcile, record
from xling.slurm import submit as queue
from xling.slurm.record import Run, Step, StepPlan
from xling.slurm.resources import Site
from xling.slurm.states import JobState, QueueView

DELAY_S = 100_000.0
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


class Element(threading.Thread):
    """A job or an element of an array that has started. One runs at a time: until it sleeps, or ends."""

    def __init__(self, cluster: Queue, identity: str, number: int) -> None:
        super().__init__(daemon=True)
        self.cluster, self.number, self.job = cluster, number, cluster.jobs[identity]
        self.turn, self.pause, self.wakes = threading.Event(), threading.Event(), cluster.clock.now
        facts = (identity, self.job.name, identity, str(number))
        names = _OF_A_JOB if self.job.size > 1 else _OF_A_JOB[:2]
        self.environment = dict(os.environ) | dict(zip(names, facts, strict=False))
        self.code: int | BaseException | None = None

    def run(self) -> None:
        self.turn.wait()
        try:
            self.code = entry.main(self.job.words)
        except BaseException as error:
            self.code = error
        self.pause.set()

    def go_on(self) -> None:
        """Let it run until it sleeps or ends."""
        outside = dict(os.environ)
        _set_environment(self.environment)
        self.pause.clear()
        self.turn.set()
        self.pause.wait()
        self.environment = dict(os.environ)
        _set_environment(outside)
        assert self.code in (None, 0), self.code


def _set_environment(values: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(values)


class Sleep(Clock):
    """Time of the cluster; who sleeps lets others run."""

    def sleep(self, seconds: float) -> None:
        mine = threading.current_thread()
        if not isinstance(mine, Element):
            super().sleep(seconds)
            return
        mine.wakes = self.now + seconds
        mine.turn.clear()
        mine.pause.set()
        mine.turn.wait()


class Queue:
    """Stands for a quiet cluster: a job starts `DELAY_S` after nothing else holds it back; only sleeping takes time."""

    def __init__(self, clock: Sleep, patch: pytest.MonkeyPatch) -> None:
        self.clock, self.patch, self.jobs = clock, patch, dict[str, Job]()
        self.running: list[Element] = []
        self.others: dict[str, JobState] = {}
        self.seconds: Callable[[int], float] = lambda index: 0.01 * index  # how long a part takes
        self.seconds = 0.01  # that a part takes
        patch.setattr(queue, "submit", self.submit)
        patch.setattr(queue, "run_command", self.call)
        patch.setattr(queue, "cancel", self.cancel)
        patch.setattr(reconcile, "view_of", lambda run: QueueView(jobs=self.states() | self.others))
        ran = array_task._run
        patch.setattr(
            array_task, "_run", lambda *words: (clock.sleep(self.seconds(words[-1])), ran(*words))[1]
        )
        patch.setattr(
            core_job, "stoppable", lambda *_: contextlib.nullcontext()
        )  # a signal needs the main thread

    def submit(self, jobs: queue.Executor, num_elements: int = 1) -> str:
        after = str(jobs.parameters.get("dependency", "")).split(":")[1:]
        held = bool(jobs.parameters["additional_parameters"].get("hold"))
        identity = str(100 + len(self.jobs))
        states = ["PENDING"] * num_elements
        self.jobs[identity] = Job(
            jobs.parameters["job_name"], jobs.entry_arguments, num_elements, after, held, states=states
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
        """Let elements run and jobs start, in the order of time, until there are none."""
        while True:
            starts = {
                i: job.since + DELAY_S for i, job in self.jobs.items() if self.may_start(i) and job.since
            }
            active = min(self.running, key=lambda each: each.wakes, default=None)
            first = min(starts, key=lambda each: starts[each], default="")
            if first and (active is None or starts[first] <= active.wakes):
                self.clock.now = max(self.clock.now, starts[first])
                self.start(first)
            elif active:
                self.clock.now = max(self.clock.now, active.wakes)
                active.go_on()
            else:
                return
            self.end()

    def may_start(self, identity: str) -> bool:
        job = self.jobs[identity]
        if job.states[0] != "PENDING":
            return False
        free = not job.held and all(self.jobs[other].ended for other in job.after)
        job.since = (job.since or self.clock.now) if free else None
        return free

    def start(self, identity: str) -> None:
        job = self.jobs[identity]
        job.states = ["RUNNING"] * job.size
        for number in range(job.size):
            self.running.append(Element(self, identity, number))
            self.running[-1].start()

    def end(self) -> None:
        """Show elements as ended when all of their array are: Slurm notices some time after an element has."""
        ended = [each.job for each in self.running if each.code is not None]
        self.running = [each for each in self.running if each.code is None]
        for job in ended:
            if not any(other.job is job for other in self.running):
                job.states = ["COMPLETED"] * job.size


def built(
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *words: str,
    slow: float = 0.0,
    other: bool = False,
    **asked: int,
) -> tuple[Step, float, Queue]:
    """Build a corpus on the quiet cluster; return its step, the delays that it waited, and the queue."""
    clock, stage = Sleep(), STAGES["corpus mono"]
    for module in (reconcile, entry, record):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.chdir(tmp_path)
    stages = ("before_dedup=repair", "after_dedup=pii")  # others would drop this text
    given = ["lang=en", f"source={source}", f"out={tmp_path}/out", *stages, *words]
    cfg = config.load(load(stage.config), overrides=given)
    plan = StepPlan(
        stage, (config.to_dict(cfg),), (), Site().resources(stage.name, asked), Site().resources("collect")
    )
    run = Run(tmp_path / "r", "slurm", {"mono": plan})
    run.create()
    cluster = Queue(clock, monkeypatch)
    cluster.others = {"7": JobState("PENDING", "Resources", name="other")} if other else {}
    cluster.seconds = lambda index: slow if index == 1 else 0.01 * index
    reconcile.submit_first_jobs(run)
    cluster.run()
    step = run.steps["mono"]
    assert step.outcome().get("state") == "done", step.outcome()
    assert (tmp_path / "out" / "manifest.json").is_file()
    barrier = cluster.jobs[step.barrier()]
    assert barrier.ended and barrier.since is not None
    return step, barrier.since / DELAY_S - clock.began / DELAY_S, cluster


def test_a_small_corpus_waits_in_the_queue_once(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every phase of a small corpus has one part and runs behind another phase."""
    step, waits, cluster = built(f"text:{corpus}/en.txt", tmp_path, monkeypatch)
    assert len({array["phase"] for array in step.arrays()}) >= 9
    assert [job.size for job in cluster.jobs.values() if ".barrier." not in job.name] == [1, 1]
    assert waits == pytest.approx(1, abs=0.01)


def texts(corpus: Path, folder: Path) -> str:
    """Return a source of five files that differ."""
    text = (corpus / "en.txt").read_text()
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text(text.replace("e", "aiouy"[number]))
    return f"text:{folder}/*.txt"


def published(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "shards").iterdir()}


@pytest.mark.parametrize(
    ("asked", "slow", "waits"),
    [
        ({}, 0.0, 2),
        ({"other": True}, 0.0, 6),  # a job of somebody else waits for resources
        ({"array_parallelism": 5, "inline_parts": 1}, 0.0, 2),  # as many jobs as may run at the same time
        ({"stay_s": 0}, 0.0, 6),  # the first job, and each phase of more than four parts
        ({"inline_parts": 0}, 0.0, 10),  # the first job, and each phase
        ({}, 400.0, 6),  # one part takes longer than the others stay
    ],
)
def test_waits_of_a_corpus_of_many_parts(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: dict[str, int],
    slow: float,
    waits: int,
) -> None:
    """Jobs stay for the next phase, and publish the same."""
    source = texts(corpus, tmp_path / "texts")
    step, seen, _ = built(source, tmp_path, monkeypatch, "part_mb=0.001", slow=slow, **asked)
    wide = {array["phase"] for array in step.arrays() if len(array["indices"]) > 4}
    assert wide == {"read", "filter", "near", "score", "finish"}
    assert seen == pytest.approx(waits, abs=0.05)
    assert not list(step.staying_path.glob("*"))
    cfg = step.config()
    monkeypatch.undo()
    run_local("corpus mono", replace(cfg, out=tmp_path / "calm"))
    assert published(tmp_path / "out") == published(tmp_path / "calm")


@pytest.mark.slurm
@pytest.mark.timeout(180)
def test_jobs_stay_on_a_cluster(on_cluster: Path) -> None:
    """One of twelve parts is killed: those that stay try it again, and run the next phase of six parts."""
    cfg = ShardConfig(on_cluster / "corpus", 12, killed=(3,), seconds=3.0)
    launch.submit_stage(SHARDS, [cfg], "slurm", {"run": "stays", "stay_s": "120", "mem_gb": "0.25"})
    assert outcome_of("stays", "shards")["state"] == "done"
    step = opened("stays").steps["shards"]
    arrays = step.arrays()
    assert [(array["phase"], bool(array.get("inline"))) for array in arrays if len(array["indices"]) > 1] == [
        ("clean", False),
        ("merge", True),
    ]
    assert arrays[1]["indices"] == [3] and arrays[1]["inline"]
    assert len(set(arrays[-1]["jobs"])) == 6 and set(arrays[-1]["jobs"]) < set(arrays[0]["jobs"])
    assert sorted(path.name for path in cfg.out.glob("tries.*") if path.read_text() != "x") == [
        "tries.clean.3"
    ]
