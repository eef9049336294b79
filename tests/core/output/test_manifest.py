"""Directories appear complete or not at all."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from xling.core.errors import UserError
from xling.core.output import manifest


@dataclass(frozen=True)
class Config:
    size: int = 3
    langs: tuple[str, ...] = ("en",)


def make(out: Path, cfg: Config, inputs: list[Path], text: str = "hello") -> None:
    with manifest.publish(out, "demo", cfg, inputs) as made:
        (made.path / "sub").mkdir()
        (made.path / "sub" / "a.txt").write_text(text)
        made.counts["lines"] = 1


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.txt"
    path.write_text("text")
    return path


def test_manifest_says_what_was_made_from_what(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "deep" / "out"
    make(out, Config(), [source])
    found = manifest.verify(out)
    assert (found.stage, found.config, found.counts) == ("demo", {"size": 3, "langs": ["en"]}, {"lines": 1})
    assert found.inputs == {str(source): manifest.sha256(source)}
    # printf hello | sha256sum
    digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert found.files == {"sub/a.txt": {"bytes": 5, "sha256": digest}}
    assert found.seconds >= 0 and found.peak_memory_mb > 0
    assert sorted(p.name for p in out.parent.iterdir()) == ["out"]


def test_nothing_appears_when_the_stage_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with manifest.publish(tmp_path / "out", "demo", Config()) as made:
            (made.path / "half").write_text("x")
            raise RuntimeError("disk")

    with pytest.raises(RuntimeError, match="disk"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_the_old_result_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    out = tmp_path / "out"
    make(out, Config(1), [], "old")
    with manifest.publish(out, "demo", Config(2)) as made:
        (made.path / "b.txt").write_text("new")
        assert manifest.verify(out).config["size"] == 1
        assert (out / "sub" / "a.txt").read_text() == "old"
    assert manifest.verify(out).config["size"] == 2
    assert sorted(p.name for p in out.iterdir()) == ["b.txt", "manifest.json"]


def test_files_of_the_user_in_a_replaced_output_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for number in (1, 2):
        make(out, Config(number), [], "old")
        (out / "notes.md").write_text(f"mine {number}")
        (out / "sub" / "mine").mkdir()
        (out / "sub" / "mine" / "link").symlink_to("/nowhere")
    make(out, Config(3), [], "new")
    assert (out / "sub" / "a.txt").read_text() == "new" and not (out / "notes.md").exists()
    assert (tmp_path / "out.kept" / "notes.md").read_text() == "mine 1"
    assert (tmp_path / "out.kept2" / "notes.md").read_text() == "mine 2"
    assert (tmp_path / "out.kept2" / "sub" / "mine" / "link").is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "out.kept", "out.kept2"]
    assert f"2 file(s) that are not part of it are kept in {out}.kept2" in capsys.readouterr().err


def test_up_to_date_while_settings_and_contents_are_the_same(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    assert manifest.up_to_date(out, "demo", Config(), [source]) is None
    make(out, Config(), [source])
    assert manifest.up_to_date(out, "demo", Config(), [source]) == manifest.read(out)
    with pytest.raises(UserError, match=r"size=3, now 4;.*fix: add overwrite=true"):
        manifest.up_to_date(out, "demo", Config(4), [source])
    with pytest.raises(UserError, match=r"1 inputs, now 0"):
        manifest.up_to_date(out, "demo", Config(), [])
    source.write_text("changed")
    with pytest.raises(UserError, match=r"source.txt has other content"):
        manifest.up_to_date(out, "demo", Config(), [source])
    source.write_text("text")
    assert manifest.up_to_date(out, "demo", Config(), [source]) is not None


def test_a_damaged_output_is_made_again_and_said(
    tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "out", Config(), [source])
    (tmp_path / "out" / "sub" / "a.txt").write_text("hell")
    assert manifest.up_to_date(tmp_path / "out", "demo", Config(), [source]) is None
    assert "a.txt has 4 bytes" in capsys.readouterr().err
    with pytest.raises(UserError, match="size=3, now 4"):
        manifest.up_to_date(tmp_path / "out", "demo", Config(4), [source])


def test_overwrite_replaces_an_output_of_other_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "out", Config(), [])
    assert manifest.up_to_date(tmp_path / "out", "demo", Config(4), replaceable=True) is None
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    assert manifest.up_to_date(tmp_path / "out", "demo", Config(4)) is None
    assert manifest.up_to_date(tmp_path / "out", "demo", Config()) is not None


def test_a_changed_input_directory_is_noticed(tmp_path: Path) -> None:
    first, second, plain = tmp_path / "first", tmp_path / "second", tmp_path / "plain"
    make(first, Config(), [])
    plain.mkdir()
    (plain / "x").write_text("1")
    make(second, Config(), [first, plain])
    assert manifest.up_to_date(second, "demo", Config(), [first, plain])

    def refused(changed: str) -> None:
        with pytest.raises(UserError, match=rf"{changed} has other content"):
            manifest.up_to_date(second, "demo", Config(), [first, plain])

    (plain / "y").write_text("")
    refused("plain")
    (plain / "y").unlink()
    (plain / "x").write_text("2")
    refused("plain")
    (plain / "x").write_text("1")
    make(first, Config(), [], "other text")
    refused("first")
    make(first, Config(9), [])  # equal files from other settings are the same input
    assert manifest.up_to_date(second, "demo", Config(), [first, plain])


def test_byte_equal_results_have_equal_digests(tmp_path: Path) -> None:
    make(tmp_path / "a", Config(), [])
    make(tmp_path / "b", Config(), [])
    make(tmp_path / "c", Config(), [], "other")
    assert (
        manifest.digest(tmp_path / "a") == manifest.digest(tmp_path / "b") != manifest.digest(tmp_path / "c")
    )


def test_verify_finds_missing_and_cut_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    make(out, Config(), [])
    (out / "sub" / "a.txt").write_text("hell")
    with pytest.raises(UserError, match=r"a.txt has 4 bytes; valid: 5 as recorded; fix: run 'demo' again"):
        manifest.verify(out)
    (out / "sub" / "a.txt").unlink()
    with pytest.raises(UserError, match=r"a.txt is missing"):
        manifest.verify(out)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"stage": "x"}', b'{"a": 1}', b"\xff\xfe"])
def test_a_damaged_manifest_is_a_user_error(tmp_path: Path, content: bytes) -> None:
    make(tmp_path / "out", Config(), [])
    (tmp_path / "out" / manifest.FILE_NAME).write_bytes(content)
    with pytest.raises(UserError, match="is damaged"):
        manifest.read(tmp_path / "out")
    assert manifest.up_to_date(tmp_path / "out", "demo", Config()) is None


@pytest.mark.parametrize(
    "edit",
    [
        {"stage": 3}, {"config": []}, {"inputs": 3}, {"inputs": {"a": None}}, {"counts": []}, {"files": 3},
        {"files": {"../x": {"bytes": "a", "sha256": "b"}}}, {"files": {"x": 3}}, {"amended": {"x": {"bytes": 1}}},
        {"code_version": None}, {"seconds": "1"},
    ],
)  # fmt: skip
def test_an_edited_manifest_is_a_user_error_of_every_reader(tmp_path: Path, edit: dict[str, Any]) -> None:
    make(tmp_path / "out", Config(), [])
    path = tmp_path / "out" / manifest.FILE_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | edit))
    for read in (manifest.read, manifest.verify, manifest.digest, manifest.check_as_published):
        with pytest.raises(UserError, match=r"is damaged: .*'.+; fix: delete the directory"):
            read(tmp_path / "out")  # type: ignore[operator]
    assert manifest.up_to_date(tmp_path / "out", "demo", Config()) is None


def test_a_directory_without_manifest_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="did not finish"):
        manifest.read(tmp_path / "out")


def test_a_missing_input_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no file or directory at"):
        make(tmp_path / "out", Config(), [tmp_path / "absent"])
    assert list(tmp_path.iterdir()) == []


def test_what_others_made_is_never_overwritten(tmp_path: Path) -> None:
    folder, file, empty = tmp_path / "folder", tmp_path / "file", tmp_path / "empty"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    file.write_text("also")
    empty.mkdir()
    for out in (folder, file):
        with pytest.raises(UserError, match="was not made by xling"):
            make(out, Config(), [])
        with pytest.raises(UserError, match="was not made by xling"):
            manifest.up_to_date(out, "demo", Config())
    assert (folder / "thesis.tex").read_text() == "years of work" and file.read_text() == "also"
    make(empty, Config(), [])
    assert manifest.verify(empty).stage == "demo"


def test_what_another_stage_made_or_what_is_read_is_never_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "out"
    make(out, Config(), [])
    with pytest.raises(UserError, match="was made by 'demo', not by 'other'"):
        manifest.up_to_date(out, "other", Config())
    for inside in (out, out / "sub" / "a.txt", tmp_path / "." / "out"):
        with pytest.raises(UserError, match="is both out= and what is read"):
            make(out, Config(), [inside])
    assert manifest.verify(out).stage == "demo"


def test_files_that_settings_name_are_found_at_any_depth(tmp_path: Path, source: Path) -> None:
    @dataclass(frozen=True)
    class Outer:
        inner: dict[str, object]
        name: str = "source.txt"

    found = manifest.digest_paths_in([Outer({"lists": (source, 3)}), Config(), {"b": [tmp_path]}])
    assert found == {str(path): manifest.digest(path) for path in (source, tmp_path)}
    assert manifest.digest_paths_in((Config(), "text", None, 3)) == {}
    with pytest.raises(UserError, match="no file or directory at"):
        manifest.digest_paths_in(tmp_path / "absent")


def test_leftovers_of_dead_processes_are_deleted_and_no_others(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = socket.gethostname()
    gone = [f".out.{host}.{dead.pid}.tmp", f".out.{host}.{dead.pid}.old"]
    kept = [
        f".out.{host}.{os.getppid()}.tmp",  # a process that lives
        f".out.another-{host}.{dead.pid}.tmp",  # perhaps alive, on a machine with the same file system
        f".other.{host}.{dead.pid}.tmp",
        f".out.{host}.{dead.pid}.txt",
        f".out.{host}.notes.tmp",
    ]
    for name in gone + kept:
        (tmp_path / name).mkdir()
        (tmp_path / name / "part").write_text("x")
    make(tmp_path / "out", Config(), [])
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*kept, "out"])


def test_files_of_the_user_survive_a_process_killed_after_the_swap(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    old = tmp_path / f".out.{socket.gethostname()}.{dead.pid}.old"
    make(old, Config(), [])
    (old / "notes.md").write_text("mine")
    make(tmp_path / "out", Config(2), [])
    assert (tmp_path / "out.kept" / "notes.md").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "out.kept"]


_FOREVER = """
import sys
from pathlib import Path
from xling.core.output.manifest import publish
for number in range(int(sys.argv[2]), 10**9):
    with publish(Path(sys.argv[1]), "demo", {"number": number}) as made:
        for name in range(30):
            (made.path / f"{name}.txt").write_text(str(number) * 1000)
    print(number, flush=True)
"""


def test_sigkill_at_any_moment_loses_neither_the_old_nor_the_new_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    out = tmp_path / "out"
    number = 0
    for round_ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", _FOREVER, str(out), str(number)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == f"{number}\n"
            if round_:  # the leftovers of the child that was killed before are gone
                mine = f".out.{socket.gethostname()}.{child.pid}."
                assert all(p.name.startswith(mine) for p in tmp_path.iterdir() if p != out)
            time.sleep(0.0037 * round_)
            child.send_signal(signal.SIGKILL)
            number += 1000 + len(child.stdout.read().split())
        # The child had published once, so one result is left, if need be moved back by the next command.
        manifest.up_to_date(out, "demo", {"number": -1})
        published = manifest.verify(out)
        assert len(published.files) == 30
        for name, facts in published.files.items():
            assert manifest.sha256(out / name) == facts["sha256"]


def test_write_atomic_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.json"
    manifest.write_atomic(path, "ä")
    manifest.write_atomic(path, json.dumps([1]))
    assert path.read_text(encoding="utf-8") == "[1]"
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]


def test_summary_is_one_line() -> None:
    assert manifest.summary({"docs": 12345, "rate": 0.5}) == "docs 12,345, rate 0.5"


def test_the_peak_is_of_this_process_and_not_of_the_one_that_started_it() -> None:
    """A command that a large process starts does not report that one's memory."""
    large = bytearray(400 << 20)
    large[::4096] = b"x" * len(large[::4096])
    code = "from xling.core.output import manifest; print(manifest.peak_memory_mb())"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert 5 < float(printed.stdout) < 200
