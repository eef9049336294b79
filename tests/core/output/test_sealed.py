"""A turned bit in a file that a later run takes over is noticed: sealed files, and parts of builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from xling.core.output import sealed
from xling.core.output.parts import FACTS, Workspace


def turn_a_bit(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("size", [0, 1, 100, (1 << 20) + 7])
def test_a_sealed_file_is_read_whole_or_not_at_all(size: int, tmp_path: Path) -> None:
    path, written = tmp_path / "new" / "a", bytes(n % 251 for n in range(size))
    assert not sealed.is_good(path)
    with sealed.writing(path) as file:
        file.write(written)
    assert sealed.is_good(path) and sealed.content(path) == written
    whole = path.read_bytes()
    for place in {0, size // 2, size, len(whole) - 1}:
        turn_a_bit(path, place)
        assert not sealed.is_good(path)
        path.write_bytes(whole)
    for length in {0, 1, size, len(whole) - 1}:
        path.write_bytes(whole[:length])
        assert not sealed.is_good(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(sealed.DamagedError, match="a was changed or damaged after it was written"):
        sealed.check(path)
    assert [each.name for each in path.parent.iterdir()] == ["a"]


def test_a_file_whose_writer_fails_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), sealed.writing(tmp_path / "a"):
        raise RuntimeError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.txt", "deep/b.u64", FACTS])
def test_a_turned_bit_in_a_part_is_told_with_what_to_delete(name: str, tmp_path: Path) -> None:
    workspace = Workspace.for_output(tmp_path / "out", {})
    with workspace.write_part("read", 0) as folder:
        (folder / "deep").mkdir()
        (folder / "a.txt").write_text("text")
        (folder / "deep" / "b.u64").write_bytes(b"12345678")
    assert workspace.part("read", 0).is_dir() and not workspace.part("read", 1).is_dir()
    turn_a_bit(workspace.root / "read" / "00000" / name, 2)
    with pytest.raises(sealed.DamagedError, match="was changed or damaged") as told:
        workspace.part("read", 0)
    assert f"delete {workspace.root} and run the same command again" in str(told.value)


def test_files_that_a_build_needs_no_more_may_be_gone(tmp_path: Path) -> None:
    workspace = Workspace.for_output(tmp_path / "out", {})
    with workspace.write_part("read", 0) as folder:
        (folder / "a.txt").write_text("text")
    workspace.discard("read", name="a.txt")
    assert workspace.part("read", 0).is_dir()
    assert workspace.resource_use()["read"]["parts"] == 1
