"""What a process leaves beside an output that it has published: the next run deletes it and says so, or keeps it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xling.core.output import lease, manifest

LEFT = ("out.partial/update-2.pt", ".out.work/key/read/0/part.parquet")


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("is_newer", [False, True])
def test_a_rerun_says_what_it_does_with_what_a_killed_process_left(
    left: str, is_newer: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, path, config = tmp_path / "out", tmp_path / left, {"seed": 1}
    path.parent.mkdir(parents=True)
    path.write_text("state")
    with manifest.publish(out, "demo", config):
        pass
    published_at = (out / manifest.FILE_NAME).stat().st_mtime_ns
    os.utime(path, ns=(published_at, published_at + is_newer))
    assert manifest.up_to_date(out, "demo", config)
    assert path.is_file() and capsys.readouterr().err == ""  # another process may write it
    with lease.hold(out, "demo"):
        assert manifest.up_to_date(out, "demo", config)
    folder = tmp_path / Path(left).parts[0]
    told = "is kept: a run with other settings left it" if is_newer else "is deleted: a process was killed"
    assert f"xling: {folder} {told}" in capsys.readouterr().err
    assert folder.exists() is is_newer
