"""The check of every process before a distributed training starts."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.objectives.test_processes import in_processes
from xling.core import signals
from xling.models.distributed import health_check, processes
from xling.models.distributed.processes import Average

CPU = torch.device("cpu")


def test_a_right_product_passes_and_a_wrong_number_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    health_check.check_device(CPU)
    real = health_check.product

    def wrong(*given: object) -> torch.Tensor:
        made = real(*given)  # type: ignore[arg-type]
        if made.dtype == torch.bfloat16:
            made[5, 7] += 1
        return made

    monkeypatch.setattr(health_check, "product", wrong)
    told = r"cpu computes wrongly: 1 of 262,144 numbers of a product in bfloat16 are wrong"
    with pytest.raises(signals.BadNodeError, match=told):
        health_check.check_device(CPU)

    def dead(*_: object) -> torch.Tensor:
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")

    monkeypatch.setattr(health_check, "product", dead)
    with pytest.raises(signals.BadNodeError, match="cpu does not compute: CUDA error: uncorrectable ECC"):
        health_check.check_device(CPU)


def test_every_process_is_checked_before_and_after_the_rendezvous(tmp_path: Path) -> None:
    def work(rank: int) -> None:
        order: list[str] = []
        for name in ("check_device", "check_group"):
            real = getattr(health_check, name)
            setattr(health_check, name, lambda device, n=name, f=real: order.append(n) or f(device))
        begin = dist.init_process_group
        processes.dist.init_process_group = lambda backend: order.append("rendezvous") or begin(backend)
        before = time.perf_counter()
        with processes.process_group():
            assert order == ["check_device", "rendezvous", "check_group"]
            Average([torch.nn.Parameter(torch.zeros(3))]).finish()
            assert processes.waited_s() > 0
        (tmp_path / str(rank)).write_text(f"{time.perf_counter() - before:.3f}")

    in_processes(2, work)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_a_process_that_does_not_answer_is_an_error_in_the_others() -> None:
    def work(rank: int) -> None:
        dist.init_process_group("gloo")
        if rank == 0:
            with pytest.raises(
                RuntimeError, match=r"rank 0 of 2 on .*: no sum over all processes within 0 s"
            ):
                health_check.check_group(CPU, 0.3)
        else:
            time.sleep(2)
        os._exit(0)  # without saying goodbye to each other

    in_processes(2, work)


def test_a_wrong_sum_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Done:
        def wait(self, timeout: object) -> None:
            pass

    monkeypatch.setattr(dist, "get_world_size", lambda: 4)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(
        dist, "all_reduce", lambda given, async_op: given.copy_(torch.tensor([4.0, 7.0])) is None or Done()
    )
    with pytest.raises(
        RuntimeError, match=r"rank 1 of 4 on .*the sum over all processes is \[4.0, 7.0\], which is wrong"
    ):
        health_check.check_group(CPU)
    monkeypatch.setattr(
        dist, "all_reduce", lambda given, async_op: given.copy_(torch.tensor([4.0, 6.0])) is None or Done()
    )
    health_check.check_group(CPU)


def test_the_flight_recorder_writes_beside_the_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (
        "TORCH_FR_BUFFER_SIZE",
        "TORCH_FR_DUMP_TEMP_FILE",
        "TORCH_NCCL_DUMP_ON_TIMEOUT",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
    )
    for name in names:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv(signals.HEARTBEAT_VARIABLE, str(tmp_path / "run.0.rank3.heartbeat.json"))
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "50")
    health_check.record_calls()
    assert [os.environ[name] for name in names] == [
        "50", f"{tmp_path}/run.0.rank3.heartbeat.json.nccl", "1", f"{tmp_path}/run.0.rank3.heartbeat.json.ask",
    ]  # fmt: skip
    header = (Path(torch.__file__).parent / "include/torch/csrc/distributed/c10d").glob("*.hpp")
    known = "".join(path.read_text(errors="replace") for path in header)
    assert "TORCH_FR_BUFFER_SIZE" in known and "TORCH_NCCL_DUMP_ON_TIMEOUT" in known
