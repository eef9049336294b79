"""The doctor: what it finds wrong, what it says to do, and that its exit code says whether xling is usable."""

from __future__ import annotations

import json
import shutil
import types
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from xling import cli, compat, doctor
from xling.doctor import BROKEN, OK, WARNING, DoctorConfig, Finding


def states(check: Any, cfg: DoctorConfig | None = None) -> dict[str, str]:
    return {f.what: f.state for f in doctor.guarded(check, cfg or DoctorConfig())}


def test_this_machine_is_usable(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["usable"]
    by_name = {f["what"]: f for f in found["findings"]}
    named = (
        "python",
        "packages",
        "torch",
        "precision",
        "fairseq",
        "torchaudio",
        "slurm",
        "disk",
        "shared memory",
    )
    assert {*named} <= by_name.keys()
    assert len([name for name in by_name if name.startswith("repair: ")]) == len(compat.repairs())
    for finding in found["findings"]:
        assert finding["state"] in (OK, WARNING, BROKEN) and finding["found"]
        assert bool(finding["fix"]) == (finding["state"] != OK), finding


@pytest.mark.parametrize(("state", "code"), [(OK, 0), (WARNING, 0), (BROKEN, 1)])
def test_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: Any, code: int
) -> None:
    def check(cfg: DoctorConfig) -> Iterator[Finding]:
        yield Finding("thing", state, "as it is", "mend it" if state != OK else "")

    monkeypatch.setattr(doctor, "CHECKS", (check,))
    assert cli.main(["doctor"]) == code
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{state:<8} thing  as it is"
    assert (out[1].strip() == "fix: mend it") == (state != OK)
    assert (
        out[-1]
        == {OK: "usable, 0 warnings", WARNING: "usable, 1 warning", BROKEN: "1 broken, 0 warnings"}[state]
    )


def test_a_check_that_fails_is_a_finding() -> None:
    def check(cfg: DoctorConfig) -> Iterator[Finding]:
        yield Finding("first", OK, "fine")
        raise OSError("no such\n  thing")

    found = list(doctor.guarded(check, DoctorConfig()))
    assert [f.state for f in found] == [OK, BROKEN] and "OSError: no such thing" in found[1].detail


def test_missing_and_old_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["numpy>=1.26", "tqdm>=99", "no-such-package", "ruff>=0.8; extra == 'dev'"]
    monkeypatch.setattr(metadata, "requires", lambda name: wanted)
    (found,) = doctor.packages(DoctorConfig())
    assert found.state == BROKEN and found.fix == "make install"
    assert (
        "no-such-package is missing" in found.detail
        and "is not >=99" in found.detail
        and "numpy" not in found.detail
    )


def fake_torch(available: bool = False, cuda: str | None = None, nccl: bool = False) -> Any:
    card = types.SimpleNamespace(name="A100", total_memory=80 << 30, major=8)
    return types.SimpleNamespace(
        __version__="2.13.0",
        get_num_threads=lambda: 1,
        version=types.SimpleNamespace(cuda=cuda),
        cuda=types.SimpleNamespace(
            is_available=lambda: available,
            is_bf16_supported=lambda including_emulation: including_emulation or available,
            device_count=lambda: 2,
            get_device_properties=lambda i: card,
            nccl=types.SimpleNamespace(version=lambda: (2, 27, 3)),
        ),
        cpu=types.SimpleNamespace(
            _is_amx_tile_supported=lambda: False, _is_avx512_bf16_supported=lambda: False
        ),
        distributed=types.SimpleNamespace(
            is_available=lambda: True, is_gloo_available=lambda: True, is_nccl_available=lambda: nccl
        ),
    )


@pytest.mark.parametrize(
    ("torch", "cards", "wanted"),
    [
        (fake_torch(), "", {"torch": OK, "gpu": OK}),
        (fake_torch(), "A100, 81920 MiB, 550", {"torch": OK, "gpu": BROKEN}),
        (fake_torch(cuda="13.0"), "A100, 81920 MiB, 470", {"torch": OK, "gpu": BROKEN}),
        (fake_torch(True, "13.0"), "A100", {"torch": OK, "gpu 0": OK, "gpu 1": OK}),
        (None, "", {"torch": BROKEN}),
    ],
)
def test_gpus(monkeypatch: pytest.MonkeyPatch, torch: Any, cards: str, wanted: dict[str, str]) -> None:
    monkeypatch.setattr(doctor, "imported", lambda name: (torch, "" if torch else "ImportError: no torch"))
    monkeypatch.setattr(doctor, "_output", lambda command: cards)
    assert states(doctor.torch_and_gpus) == wanted


@pytest.mark.parametrize(
    ("torch", "said"),
    [
        (fake_torch(), "float32 in training: the processor has no AMX or AVX512-BF16"),
        (fake_torch(True, "13.0"), "bfloat16 in training: the GPU has bfloat16"),
    ],
)
def test_precision(monkeypatch: pytest.MonkeyPatch, torch: Any, said: str) -> None:
    monkeypatch.setattr(doctor, "imported", lambda name: (torch, ""))
    (found,) = doctor.training_precision(DoctorConfig())
    assert (found.state, found.detail) == (OK, said)


@pytest.mark.parametrize(
    ("torch", "state", "text"),
    [
        (fake_torch(), OK, "gloo"),
        (fake_torch(True, "13.0", nccl=True), OK, "NCCL 2.27.3"),
        (fake_torch(True, "13.0"), BROKEN, "without NCCL"),
    ],
)
def test_nccl(monkeypatch: pytest.MonkeyPatch, torch: Any, state: str, text: str) -> None:
    monkeypatch.setattr(doctor, "imported", lambda name: (torch, ""))
    (found,) = doctor.nccl(DoctorConfig())
    assert found.state == state and text in found.detail


def test_a_repair_that_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairseq.distributed import utils

    compat.install()
    monkeypatch.setattr(utils, "all_gather_list", json.dumps)
    found = states(doctor.fairseq)
    assert found["repair: gloo"] == BROKEN and found["repair: own checkpoints"] == OK


@pytest.mark.parametrize(("rc", "state"), [(0, OK), (1, WARNING)])
def test_torchaudio(monkeypatch: pytest.MonkeyPatch, rc: int, state: str) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "2.11.0" if name == "torchaudio" else real(name))
    done = types.SimpleNamespace(
        returncode=rc, stderr="Traceback\nOSError: Could not load this library: x.so\n"
    )
    monkeypatch.setattr(doctor.subprocess, "run", lambda *given, **how: done)
    (found,) = doctor.torchaudio(DoctorConfig())
    assert found.state == state
    assert (
        "pip uninstall torchaudio" in found.fix and "Could not load this library" in found.detail
    ) == bool(rc)


@pytest.mark.parametrize(("answer", "state"), [("Slurmctld(primary) at node is UP", OK), ("", WARNING)])
def test_slurm(monkeypatch: pytest.MonkeyPatch, answer: str, state: str) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/sbatch")
    outputs = {"sbatch": "slurm 22.05", "scontrol": answer, "sinfo": "debug* 2 nodes idle"}
    monkeypatch.setattr(doctor, "_output", lambda command: outputs[command[0]])
    (found,) = doctor.slurm(DoctorConfig())
    assert found.state == state and ("2 nodes idle" in found.detail) == (state == OK)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert states(doctor.slurm) == {"slurm": OK}


def test_disk_and_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = types.SimpleNamespace(free=1 << 30, total=64 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert states(doctor.disk, DoctorConfig(tmp_path / "not/yet/there")) == {"disk": WARNING}
    found = {f.what: f for f in doctor.memory(DoctorConfig())}
    assert found["shared memory"].state == WARNING and "--shm-size" in found["shared memory"].fix
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    assert states(doctor.disk, DoctorConfig(tmp_path)) == {"disk": BROKEN}
