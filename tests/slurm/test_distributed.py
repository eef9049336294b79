"""The rendezvous from Slurm's variables."""

from __future__ import annotations

import pytest

from xling.slurm.array_task import job_id
from xling.slurm.distributed import Rendezvous, init_from_slurm

STEP = {
    "SLURM_JOB_ID": "1234",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7",
}


def test_alone() -> None:
    assert init_from_slurm({}) is None
    assert init_from_slurm(STEP | {"SLURM_STEP_NUM_TASKS": "1"}) is None
    # A batch script outside srun sees SLURM_NTASKS, and is no member of a training.
    assert init_from_slurm({"SLURM_NTASKS": "4", "SLURM_JOB_ID": "1"}) is None


def test_in_the_words_of_torchrun() -> None:
    found = init_from_slurm(STEP)
    assert found == Rendezvous(3, 4, 1, "localhost", 20_000 + 1234 * 7)
    assert (found.address, found.port) == ("localhost", 28638)
    assert found.environment() == {
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "28638",
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
    }


@pytest.mark.parametrize(
    ("given", "local_size"), [("8(x64)", "8"), ("4", "4"), ("8(x2),4", None), ("", None)]
)
def test_the_tasks_of_a_node_are_known_if_all_nodes_have_as_many(given: str, local_size: str | None) -> None:
    place = init_from_slurm(STEP | {"SLURM_STEP_TASKS_PER_NODE": given})
    assert place is not None and place.environment().get("LOCAL_WORLD_SIZE") == local_size


def test_every_rank_finds_the_same_place() -> None:
    places = {init_from_slurm(STEP | {"SLURM_PROCID": str(rank)}).port for rank in range(4)}  # type: ignore[union-attr]
    assert len(places) == 1


def test_a_restart_and_a_neighbour_get_other_ports() -> None:
    ports = [
        init_from_slurm(STEP | {"SLURM_JOB_ID": str(job), "SLURM_RESTART_COUNT": str(restart)}).port  # type: ignore[union-attr]
        for job in range(1200, 1210)
        for restart in range(3)
    ]
    assert len(set(ports)) == len(ports)
    assert all(20_000 <= port < 30_000 for port in ports)


def test_node_names_that_do_not_resolve() -> None:
    found = init_from_slurm(STEP | {"SLURM_STEP_NODELIST": "no-such-node.invalid"})
    assert found is not None
    assert found.address == "10.0.0.7"
    assert init_from_slurm(STEP | {"MASTER_ADDR": "h", "MASTER_PORT": "5"}).port == 5  # type: ignore[union-attr]


def test_an_element_never_goes_by_the_id_of_its_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert job_id() == ""
    # The last element of an array has the array's own id as its job id: requeueing that would requeue them all.
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "17")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "4")
    assert job_id() == "17_4"
