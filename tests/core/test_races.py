"""Processes that want one output at the same time, and are killed: no weights are lost and nothing is made twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.racing import killed_at  # noqa: F401 - the module is read by the process that the test starts
from xling.core.errors import UserError
from xling.core.output import atomic_swap, manifest
from xling.core.output.lease import hold, lease_path

ROOT = Path(__file__).resolve().parents[2]


def made(out: Path, word: str, size: int = 1) -> None:
    with manifest.publish(out, "demo", {"size": size}) as publication:
        (publication.path / "model.pt").write_text(word)


def word_of(out: Path) -> str:
    return (out / "model.pt").read_text()


def test_a_hundred_rounds_of_races_and_kills(tmp_path: Path) -> None:
    rounds = f"from tests.core.racing import main; main({str(tmp_path)!r}, 1, 100)"
    done = subprocess.run(
        [sys.executable, "-c", rounds], cwd=ROOT, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "overwrite" in done.stdout and "other" in done.stdout


class Killed(BaseException):
    pass


@pytest.mark.parametrize(("number", "word"), [(1, "old"), (2, "new")])
def test_a_kill_during_the_swap_loses_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    word: str,
) -> None:
    out, calls, rename = tmp_path / "out", [], Path.rename
    made(out, "old")

    def renaming(self: Path, target: Path) -> Path:
        calls.append(self)
        if len(calls) == number:
            raise Killed
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", renaming)
        with pytest.raises(Killed):
            made(out, "new", 2)
    # The old result as it was, or nothing: never a part of either.
    assert out.exists() == (number == 1) and (number == 2 or manifest.verify(out).config == {"size": 1})
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    manifest.up_to_date(out, "demo", {"size": 2})
    assert word_of(out) == word
    assert ("the new one is in place" in capsys.readouterr().err) == (number == 2)
    made(out, "newest", 3)
    assert [p.name for p in tmp_path.iterdir()] == ["out"] and word_of(out) == "newest"


def test_what_another_host_left_is_restored_by_the_holder_of_the_lease_alone(tmp_path: Path) -> None:
    out, left = tmp_path / "out", tmp_path / ".out.another-host.1.old"
    made(out, "weights")
    out.rename(left)
    atomic_swap.restore(out)
    assert not out.exists()
    with hold(out, "test"):
        atomic_swap.restore(out)
    assert word_of(out) == "weights"


def test_a_folder_without_manifest_is_not_restored(tmp_path: Path) -> None:
    half = atomic_swap.temporary_sibling(tmp_path / "out", atomic_swap.NEW_SUFFIX)
    half.mkdir()
    (half / "model.pt").write_text("half")
    atomic_swap.restore(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    made(tmp_path / "out", "whole")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_symbolic_link_stays_one_and_has_the_lease_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big, link = tmp_path / "big", tmp_path / "link"
    link.symlink_to(big / "model")
    made(link, "first")
    assert link.is_symlink() and word_of(big / "model") == "first"
    assert lease_path(link) == lease_path(big / "model")
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    made(link, "second", 2)
    assert link.is_symlink() and word_of(big / "model") == "second"
    assert [p.name for p in big.iterdir()] == ["model"]


@pytest.mark.parametrize("out", [".", "../here", "link"])
def test_the_working_directory_is_not_an_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    if out == "link":
        Path("link").symlink_to(tmp_path / "here")
    for run in (lambda: manifest.up_to_date(Path(out), "demo", {}), lambda: made(Path(out), "x")):
        with pytest.raises(UserError, match="is the folder that the command runs in"):
            run()
    assert [p.name for p in tmp_path.iterdir()] == ["here"]


def test_a_damaged_output_is_kept_beside_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for number in range(2):
        made(out, f"weights {number}")
        (out / "log").write_text("my notes")
        assert manifest.up_to_date(out, "demo", {"size": 1}) is not None
        (out / "model.pt").write_text("cut")
        assert manifest.up_to_date(out, "demo", {"size": 1}) is None
        assert "is kept as out.damaged" in capsys.readouterr().err
    made(out, "again")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "out.damaged", "out.damaged2"]
    assert (tmp_path / "out.damaged" / "log").read_text() == "my notes"
    (out / "model.pt").unlink()
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    made(out, "asked")
    assert len(list(tmp_path.iterdir())) == 3 and word_of(out) == "asked"
