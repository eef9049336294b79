"""A full disk is named, whichever library found it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from xling import cli
from xling.core.commands import machine_errors
from xling.core.output import manifest

FULL = "/dev/full"
"""A device that takes nothing; no writer is given that deletes what it could not write."""


def through_a_handle() -> None:
    with open(FULL, "wb") as file:  # noqa: PTH123
        torch.save({"a": torch.zeros(99)}, file)


@pytest.mark.parametrize(
    "write",
    [
        lambda: torch.save({"a": torch.zeros(99_999)}, FULL),
        through_a_handle,
        lambda: Path(FULL).write_text("text" * 9999, encoding="utf-8"),
    ],
)
def test_what_a_library_says_of_a_full_disk_becomes_one_line(
    write: Callable[[], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "dispatch", lambda words: write())
    assert cli.main(["pretrain", f"out={tmp_path}/model"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("xling: ") and "No space left on device" in line
    assert f"out={tmp_path}/model" in line and "free space on that disk (mounted at /" in line
    assert "MB free now" in line


@pytest.mark.parametrize(
    "text",
    [
        # As safetensors 0.6, torch 2.7 and polars 1.40 said it on a disk of 300 kB.
        "Error while serializing: I/O error: No space left on device (os error 28)",
        "[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534",
        "PytorchStreamWriter failed writing file data/0: file write failed",
        "parquet: File out of specification: underlying IO error: No space left on device (os error 28)",
        "parquet: File out of specification: Invalid thrift: transport error",
        "200000 requested and 38384 written",
    ],
)
def test_messages_of_libraries(text: str) -> None:
    assert machine_errors.is_of_machine(RuntimeError(text))
    assert "free space on that disk" in str(machine_errors.machine_error(RuntimeError(text), "x"))


@pytest.mark.parametrize("text", ["5 requested", "os error 280", "expected 3 vs 4", "shape mismatch"])
def test_other_errors_stay_what_they_are(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(words: list[str]) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(cli, "dispatch", fail)
    with pytest.raises(RuntimeError, match=text):
        cli.main(["pretrain"])


def test_a_failed_safetensors_file(tmp_path: Path) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its type is private
        save_file({"a": torch.zeros(9)}, str(tmp_path / "none" / "x"))
    assert not machine_errors.is_of_machine(caught.value), "a missing folder is no full disk"


def test_the_output_that_a_command_takes_without_its_name_is_named(tmp_path: Path) -> None:
    def run(cfg: SimpleNamespace) -> None:
        path = Path("/proc/version")  # what was read last
        raise RuntimeError(f"{path.read_text()[:1]} PytorchStreamWriter failed writing file")

    with pytest.raises(RuntimeError) as caught:
        run(SimpleNamespace(out=tmp_path / "model"))
    text = str(machine_errors.machine_error(caught.value))
    assert text.startswith(f"out={tmp_path / 'model'}: No space left on device; fix: free space")


def test_a_file_that_could_not_be_written_leaves_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text[:1].encode())
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        manifest.write_atomic(tmp_path / "answers.jsonl", "text")
    assert not list(tmp_path.iterdir())


def test_of_a_copy_the_file_that_is_written_is_named(tmp_path: Path) -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "/dev/zero", None, str(tmp_path / "copy"))
    text = str(machine_errors.machine_error(error, "x"))
    assert f"{tmp_path / 'copy'}: No space left" in text and "/dev/zero" not in text
