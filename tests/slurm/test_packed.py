"""Several parts in one job (`tasks_per_job`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurm_stages import SHARDS, ShardConfig
from test_cluster import opened, outcome_of

from xling.core.errors import UserError
from xling.core.settings.config import to_dict
from xling.slurm import launch, reconcile, status, submission_decisions
from xling.slurm import submit as queue
from xling.slurm.record import Run, Step, StepPlan
from xling.slurm.resources import Resources
from xling.slurm.states import JobState, QueueView


def packed(folder: Path, num_parts: int, each: int, longest: int = 1000) -> Step:
    asked = Resources(tasks_per_job=each, max_array_size=longest)
    plan = StepPlan(SHARDS, (to_dict(ShardConfig(folder / "m", num_parts)),), (), asked, Resources())
    return Run(folder / "r", "slurm", {"shards": plan}).steps["shards"]


@given(num_parts=st.integers(1, 40), each=st.integers(1, 9))
def test_every_part_runs_in_the_job_that_the_record_names(num_parts: int, each: int) -> None:
    step = packed(Path("/tmp"), num_parts, each)
    facts = {"indices": [7 * index for index in range(num_parts)]}
    ids = submission_decisions.job_ids_of(step, facts, "12")
    assert len(ids) == num_parts
    size = step.plan.resources.num_jobs(num_parts)
    assert sorted(set(ids)) == sorted([f"12_{n}" for n in range(size)] if size > 1 else ["12"])
    ran: list[tuple[int, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        for element in range(size):
            patch.setenv("SLURM_ARRAY_TASK_ID", str(element))
            here = f"12_{element}" if size > 1 else "12"
            ran += [(index, here) for index in submission_decisions.indices_of_this_job(step, facts)]
    assert ran == list(zip(facts["indices"], ids, strict=True))
    assert step.plan.resources.node_hours(num_parts) == size


def test_one_process_for_each_part_alone() -> None:
    with pytest.raises(
        UserError, match=r"tasks_per_job=2 with 8 processes for one part; valid: tasks_per_job=1, or"
    ):
        Resources(tasks_per_job=2, tasks_per_node=8)
    with pytest.raises(UserError, match="tasks_per_job=0"):
        Resources(tasks_per_job=0)


def test_arrays_no_longer_than_the_site_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = packed(tmp_path, 20, 3, longest=4)
    step.run.create()
    sizes: list[int] = []

    def submit(jobs: queue.Executor, num_elements: int = 1) -> str:
        sizes.append(num_elements)
        return str(50 + len(sizes))

    monkeypatch.setattr(queue, "submit", submit)
    reconcile._Reconciler(step.run, QueueView(), False, False)._submit_next_parts(step)
    assert sizes == [4, 3, 1]  # 12 parts, 8 parts, the collector
    assert [len(array["indices"]) for array in step.arrays()] == [12, 8]
    assert step.arrays()[1]["jobs"] == [*["52_0"] * 3, *["52_1"] * 3, *["52_2"] * 2]


def test_a_part_that_did_not_begin_is_waiting_and_its_job_is_not_held_against_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = packed(tmp_path, 3, 3)
    step.run.create()
    key = step.record_intent("array", phase="clean", indices=[0, 1, 2])
    step.mark_accepted(key, ["9"] * 3)
    step.part("clean", 0).append("done", key=key)
    step.part("clean", 1).append("start", saved=0, key=key)
    name = step.job_name(step.arrays()[0])
    running = QueueView(jobs={"9": JobState("RUNNING", name=name)})
    assert status.step_status(step, running).parts == "clean 1/3, 1 running, 1 waiting"
    ended = QueueView(jobs={"9": JobState("OUT_OF_MEMORY", name=name)})
    assert reconcile._Reconciler(step.run, ended, False, False)._record_lost_parts(step)
    assert [step.part("clean", n).last_event().get("counts") for n in (1, 2)] == [True, False]


@pytest.mark.slurm
@pytest.mark.timeout(120)
def test_on_a_cluster(on_cluster: Path) -> None:
    """Seven parts in jobs of three; one of them is killed at its first try."""
    cfg = ShardConfig(on_cluster / "corpus", 7, killed=(1,))
    launch.submit_stage(SHARDS, [cfg], "slurm", {"run": "packed", "tasks_per_job": "3"})
    assert outcome_of("packed", "shards")["state"] == "done"
    arrays = opened("packed").steps["shards"].arrays()
    assert [len(set(array["jobs"])) for array in arrays][:2] == [3, 1]
    assert arrays[1]["indices"] == [1, 2], "the parts of the job that was killed"
    tries = [(cfg.out / f"tries.clean.{index}").read_text() for index in range(7)]
    assert tries == ["x", "xx", *["x"] * 5]
    assert len(list(cfg.out.glob("merged.*"))) == 3
