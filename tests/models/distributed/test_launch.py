"""Variables of torchrun that a shell has kept: one line says what is wrong, and a wait for others can be stopped."""

from __future__ import annotations

import errno
import importlib
import os
import socket
import threading
from multiprocessing.reduction import recvfds
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch.distributed as dist

from xling import cli
from xling.core import machine, signals
from xling.core.commands import machine_errors
from xling.core.errors import UserError
from xling.models.distributed import processes

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
WHOLE = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29599",
}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(**values: str) -> None:
        for name in NAMES:
            monkeypatch.delenv(name, raising=False)
            if name in values:
                monkeypatch.setenv(name, values[name])

    return put


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"RANK": "", "MASTER_ADDR": "", "MASTER_PORT": ""}, "WORLD_SIZE=2 in the environment without RANK and"),
        ({"MASTER_PORT": ""}, "WORLD_SIZE=2 in the environment without MASTER_PORT"),
        ({"WORLD_SIZE": "abc"}, "WORLD_SIZE=abc in the environment; valid: a whole number"),
        ({"WORLD_SIZE": "-2"}, "WORLD_SIZE=-2 in the environment"),
        ({"RANK": "x"}, "RANK=x in the environment"),
        ({"RANK": "2"}, "RANK=2 with WORLD_SIZE=2 in the environment; valid: 0 to 1"),
        ({"LOCAL_RANK": "1.5"}, "LOCAL_RANK=1.5 in the environment"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0 in the environment; valid: a whole number from 1"),
        ({"WORLD_SIZE": "1", "RANK": "-1"}, "RANK=-1 in the environment"),
        ({"WORLD_SIZE": "1", "LOCAL_RANK": "zz"}, "LOCAL_RANK=zz in the environment"),
        ({"WORLD_SIZE": "1", "RANK": "1"}, "RANK=1 with WORLD_SIZE=1 in the environment; valid: 0 to 0"),
        ({"WORLD_SIZE": "", "RANK": "3"}, "RANK=3 in the environment without WORLD_SIZE"),
        ({"LOCAL_WORLD_SIZE": "abc"}, "LOCAL_WORLD_SIZE=abc in the environment; valid: a whole number"),
        ({"MASTER_PORT": "99999"}, "MASTER_PORT=99999 in the environment; valid: a port"),
    ],
)  # fmt: skip
def test_variables_that_do_not_fit_are_one_line(environment: Any, changes: dict[str, str], said: str) -> None:
    environment(**WHOLE | changes)
    with pytest.raises(UserError) as raised:
        processes.is_first()
    assert said in str(raised.value) and "unset RANK" in str(raised.value)


def test_one_process_needs_no_variables(environment: Any) -> None:
    for given in ({}, {"RANK": "0"}, {"WORLD_SIZE": "1", "RANK": "0"}):
        environment(**given)
        assert machine.place() == (0, 1) and processes.is_first()
    environment(**WHOLE)
    assert machine.place() == (1, 2) and not processes.is_first()


def test_a_wait_for_other_processes_is_told_and_can_be_stopped(
    environment: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment(**WHOLE)
    release = threading.Event()
    monkeypatch.setattr(dist, "init_process_group", lambda backend: release.wait(60))
    monkeypatch.setattr(processes, "PATIENCE_S", 0.01)
    monkeypatch.setattr(processes, "POLL_S", 0.01)
    monkeypatch.setattr(signals, "stop_requested", lambda: True)
    with pytest.raises(signals.Stopped):
        processes._join("gloo")
    release.set()
    assert "process 1 is waiting for 1 of 2 processes at localhost:29599" in capsys.readouterr().err


def test_what_fails_in_the_meeting_is_raised(environment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(**WHOLE)

    def fail(backend: str) -> None:
        raise RuntimeError(backend)

    monkeypatch.setattr(dist, "init_process_group", fail)
    with pytest.raises(RuntimeError, match="gloo"):
        processes._join("gloo")


def test_few_open_files_are_a_limit_of_the_machine() -> None:
    for said in (
        "Too many open files. Communication with the workers is no longer possible.",
        "received 0 items of ancdata",
        "DataLoader worker (pid(s) 18519, 18520) exited unexpectedly",
    ):
        error = machine_errors.machine_error(RuntimeError(said))
        assert (
            error.given == "too many open files" and "ulimit -n" in error.fix and "train.workers" in error.fix
        )
        assert machine_errors.is_of_machine(RuntimeError(said))
    ours, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(EOFError) as caught:
        recvfds(ours, 1)  # as from a process that ended before it sent its files
    assert machine_errors.machine_error(caught.value).given == "too many open files"
    assert machine_errors.is_of_machine(caught.value) and not machine_errors.is_of_machine(EOFError())
    ours.close()


def test_an_output_that_cannot_be_discarded_hides_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", fail)
    cli._discard_output()


def test_a_name_that_no_machine_has_is_told_and_refused(
    environment: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def unknown(name: str, port: None) -> None:
        asked.append(name)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr(machine, "_POLL_S", 0.0)
    monkeypatch.setattr(machine.time, "monotonic", lambda: 30.0 * len(asked))
    environment(**WHOLE | {"MASTER_ADDR": "no.such"})
    with pytest.raises(UserError, match=r"MASTER_ADDR=no.such in the environment: Name .*; valid: a name"):
        processes._join("gloo")
    assert len(asked) > 1 and capsys.readouterr().err.count("MASTER_ADDR=no.such") == 1
    asked.clear()
    monkeypatch.setattr(signals, "stop_requested", lambda: True)
    with pytest.raises(signals.Stopped):
        processes._join("gloo")


def test_a_meeting_that_fails_is_one_line_without_frames(
    environment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(**WHOLE)
    said = "The client socket has timed out\nException raised from throwTimeoutError\nframe #0: c10::Error"
    for kind in (dist.DistNetworkError, dist.DistStoreError):
        monkeypatch.setattr(dist, "init_process_group", Mock(side_effect=kind(said)))
        with pytest.raises(UserError) as raised:
            processes._join("gloo")
        assert "did not meet the others at localhost:29599: The client socket" in str(raised.value)
        assert "frame" not in str(raised.value)


def test_a_variable_that_a_library_refuses_when_it_is_imported_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL."
    (tmp_path / "refusing.py").write_text(f"raise ValueError({said!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(cli, "dispatch", lambda words: importlib.import_module("refusing"))
    with pytest.raises(ValueError, match=said):
        cli.main(["quantize"])  # nobody has set it: a fault
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "foo")
    assert cli.main(["quantize"]) == 2
    told = capsys.readouterr().err
    assert (
        f"xling: TORCH_DISTRIBUTED_DEBUG=foo in the environment: {said[:-1]}; fix: correct or unset" in told
    )
