"""Records that were torn, emptied or filled with nonsense: reported and isolated, never a traceback."""

from __future__ import annotations

import contextlib
import random
import shutil
from pathlib import Path

import pytest
from slurm_stages import COUNT, SHARDS, CountConfig, ShardConfig

from xling.core.errors import UserError
from xling.slurm import commands, launch

NONSENSE = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'{"state": 1}\n',
    b"\xff\xfe\x00",
    b'{"kind": "array"}\n',
    b'{"event": []}\n',
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs: one that ended well, one with a part that failed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XLING_SITE", raising=False)
    launch.submit_stage(COUNT, [CountConfig(tmp_path / "m", updates=2, seconds=0)], "debug", {"run": "well"})
    with contextlib.suppress(UserError):
        cfg = ShardConfig(tmp_path / "c", 2, broken=(1,))
        launch.submit_stage(SHARDS, [cfg], "debug", {"run": "bad", "max_attempts": "1"})
    return tmp_path / "runs" / "jobs"


def use_all(folder: Path) -> str:
    """Every word of ``xling slurm``; a mistake of the user is the only error that is let through."""
    for call in (
        lambda: commands.show_status(folder, "bad"),
        lambda: commands.show_logs(folder, "bad"),
        lambda: commands.cancel(folder, "bad"),
        lambda: commands.requeue(folder, "bad"),
        lambda: commands.reconcile_runs(folder),
    ):
        with contextlib.suppress(UserError):
            call()
    return str(commands.show_status(folder))


def test_nonsense_in_any_record_of_one_run_spares_the_others(folder: Path) -> None:
    names = sorted(
        str(p.relative_to(folder))
        for p in (folder / "bad").rglob("*")
        if p.is_file() and "log" not in p.parts
    )
    assert {Path(name).name for name in names} >= {"run.json", "outcome.json", "jobs.jsonl", "clean.1.jsonl"}
    shutil.copytree(folder / "bad", folder.parent / "kept")
    for name in names:
        for data in NONSENSE:
            shutil.rmtree(folder / "bad")
            shutil.copytree(folder.parent / "kept", folder / "bad")
            (folder / name).write_bytes(data)
            assert "well" in use_all(folder), (name, data)


def test_records_torn_at_random_places(folder: Path) -> None:
    draw = random.Random(1)
    shutil.copytree(folder / "bad", folder.parent / "kept")
    for _ in range(40):
        shutil.rmtree(folder / "bad")
        shutil.copytree(folder.parent / "kept", folder / "bad")
        paths = [p for p in (folder / "bad").rglob("*.json*") if p.is_file()]
        for path in draw.sample(paths, 3):
            data = path.read_bytes()
            path.write_bytes(data[: draw.randrange(len(data) + 1)] + draw.randbytes(draw.randrange(5)))
        assert "well" in use_all(folder)


def test_what_is_written_behind_a_torn_line_is_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "bad" / "shards" / "parts" / "clean.1.jsonl"
    path.write_bytes(path.read_bytes() + b'{"event": "start", "ti')
    assert "FAILED" in commands.show_status(folder, "bad")
    with pytest.raises(UserError, match="shard 1 is broken"):
        commands.requeue(folder, "bad")
    events = [e["event"] for e in commands.open_run(folder / "bad").steps["shards"].part("clean", 1).events()]
    assert events == ["start", "failed", "reset", "start", "failed"]
    assert f"{path}: line 3 is damaged and was skipped" in capsys.readouterr().err
