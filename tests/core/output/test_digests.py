"""The digest of a file is computed once for each content of it, and is never that of another content."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from xling import cli
from xling.core.errors import UserError
from xling.core.output import digests, manifest

TEXT, OTHER = b"some text of 20 byte", b"same size, other one"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty memory of digests, in which files count at once, however new they are."""
    monkeypatch.setenv(digests.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "_may_change_unseen", lambda facts, started_at: False)
    forget()
    return tmp_path / "cache" / "digests"


def forget() -> None:
    """Forget what this process knows, as another process would."""
    digests._in_process.clear()
    digests._buckets.clear()


def num_hashed(act: Callable[[], object]) -> int:
    """Return how many bytes were hashed for something, by a new process."""
    forget()
    before = digests.num_bytes_hashed
    act()
    return digests.num_bytes_hashed - before


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def published(out: Path, stage: str = "demo") -> Path:
    with manifest.publish(out, stage, {}) as made:
        (made.path / "deep").mkdir()
        (made.path / "deep" / "train.bin").write_bytes(TEXT)
        (made.path / "log.txt").write_bytes(b"log")
    return out


def test_bytes_are_hashed_once_by_all_commands_together(memory: Path, tmp_path: Path) -> None:
    out = published(tmp_path / "out")  # hashed while it is published
    for act in (manifest.verify, manifest.digest, manifest.content_digest, manifest.check_as_published):
        assert num_hashed(lambda act=act: act(out)) == 0
    assert num_hashed(lambda: manifest.digest(out / "deep" / "train.bin")) == 0
    shutil.copytree(out, tmp_path / "copy")
    assert [num_hashed(lambda: manifest.verify(tmp_path / "copy")) for _ in range(2)] == [len(TEXT) + 3, 0]


def test_always_reads_again_and_never_does_not_read(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = published(tmp_path / "out")
    shutil.copytree(out, copy := tmp_path / "copy")
    for mode, expected in (("never", [0, 0]), ("always", [23, 23]), ("once", [0, 0])):
        monkeypatch.setenv(digests.VERIFY_VARIABLE, mode)
        assert [num_hashed(lambda: manifest.verify(copy)) for _ in range(2)] == expected, mode
    monkeypatch.setenv(digests.VERIFY_VARIABLE, "once")
    monkeypatch.setenv("RANK", "1")  # the first process of a training has checked
    shutil.copytree(out, tmp_path / "third")
    assert num_hashed(lambda: manifest.verify(tmp_path / "third")) == 0


def test_rot_that_keeps_every_time_is_found_by_always_alone(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = published(tmp_path / "out")
    facts = digests.identity(out / "log.txt")
    (out / "log.txt").write_bytes(b"lag")
    real = digests.identity
    monkeypatch.setattr(digests, "identity", lambda path: facts if path.name == "log.txt" else real(path))
    forget()
    manifest.verify(out)
    monkeypatch.setenv(digests.VERIFY_VARIABLE, "always")
    forget()
    with pytest.raises(UserError, match=r"log\.txt was changed or damaged after 'demo' wrote it"):
        manifest.verify(out)


@pytest.mark.parametrize("how", ["copy -p", "replace", "write in place", "clock set back"])
def test_a_change_is_seen_whatever_the_size_and_the_modification_time(
    memory: Path, tmp_path: Path, how: str
) -> None:
    path, other = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_bytes(TEXT)
    facts = path.stat()
    assert digests.of_file(path) == sha(TEXT)
    other.write_bytes(OTHER)
    os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    if how == "copy -p":
        shutil.copy2(other, path)
    elif how == "replace":
        other.replace(path)
    else:
        with path.open("r+b") as file:
            file.write(OTHER)
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns - (how == "clock set back") * 10**9))
    assert digests.of_file(path) == sha(OTHER)
    forget()
    assert digests.of_file(path) == sha(OTHER)


def test_a_file_that_is_just_written_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(digests.CACHE_VARIABLE, str(tmp_path / "cache"))
    forget()
    second = 1_000_000_000
    for changed_at, started_at, expected in (
        (5 * second, 6 * second, True),  # a file system that counts whole seconds
        (5 * second, 8 * second, False),
        (5 * second + 1, 5 * second + 10_000_000, True),
        (5 * second + 1, 6 * second, False),
    ):
        assert digests._may_change_unseen((0, 0, 0, 0, changed_at), started_at) is expected
    monkeypatch.setattr(digests, "_may_change_unseen", lambda facts, started_at: True)
    (tmp_path / "a").write_bytes(TEXT)
    assert digests.of_file(tmp_path / "a") == sha(TEXT)
    assert not (tmp_path / "cache").exists() and not digests._in_process


def test_a_damaged_memory_costs_time_and_never_a_wrong_digest(memory: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT)
    digests.of_file(path)
    (file,) = memory.iterdir()
    whole, draw = file.read_bytes(), random.Random(1)
    damages = [
        whole[:40],
        b"",
        b"\x00" * 99,
        whole.replace(sha(TEXT).encode(), sha(OTHER).encode()),
        whole + whole[:50],
    ]
    for _ in range(200):
        content = bytearray(whole)
        content[draw.randrange(len(content) - 1)] ^= 1 << draw.randrange(8)
        damages.append(bytes(content))
    for content in damages:
        file.write_bytes(content)
        forget()
        assert digests.of_file(path) == sha(TEXT), content


def test_the_memory_is_bounded_and_may_be_missing(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "MAX_LINES", 8)
    monkeypatch.setattr(digests, "_place", lambda facts: (memory / "00", " ".join(map(str, facts)).encode()))
    for number in range(50):
        (tmp_path / f"{number}").write_bytes(str(number).encode())
        assert digests.of_file(tmp_path / f"{number}") == sha(str(number).encode())
    assert len((memory / "00").read_bytes().splitlines()) <= 8
    assert num_hashed(lambda: digests.of_file(tmp_path / "49")) == 0
    shutil.rmtree(memory)
    memory.parent.joinpath("digests").write_text("a file in the place of the folder")
    forget()
    assert digests.of_file(tmp_path / "49") == sha(b"49")


def test_a_changed_output_is_refused_as_a_whole_and_by_its_files(tmp_path: Path) -> None:
    out = published(tmp_path / "out")
    (out / "deep" / "train.bin").write_bytes(OTHER)
    said = rf"train\.bin was changed or damaged .*SHA-256 {sha(OTHER)[:16]}.*; valid: {sha(TEXT)[:16]}"
    for act in (manifest.verify, manifest.digest, manifest.content_digest, manifest.check_as_published):
        with pytest.raises(UserError, match=said):
            act(out)
    for act in (manifest.digest, manifest.check_file, manifest.check_as_published):
        with pytest.raises(UserError, match=said):
            act(out / "deep" / "train.bin")
    assert manifest.digest(out / "log.txt") == sha(b"log")
    (tmp_path / "link").symlink_to(out / "deep" / "train.bin")
    with pytest.raises(UserError, match=r"link was changed or damaged after 'demo' wrote it"):
        manifest.digest(tmp_path / "link")
    (out / "manifest.json").unlink()  # now it is a folder of the user's own
    assert manifest.digest(out) and manifest.digest(out / "deep" / "train.bin") == sha(OTHER)


@pytest.mark.parametrize("stage", manifest.EXPORTS)
def test_a_folder_for_other_programs_is_known_by_what_it_holds(
    tmp_path: Path, stage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = published(tmp_path / "out", stage)
    first = {manifest.content_digest(out)}
    assert first == {manifest.read(out).content_digest()}
    keys = set()
    for number, change in enumerate(
        (
            lambda: (out / "deep" / "train.bin").write_bytes(OTHER),
            lambda: (out / "new.json").write_bytes(b"{}"),
            lambda: (out / "log.txt").unlink(),
        ),
        1,
    ):
        change()
        keys.add(manifest.content_digest(out))
        assert len(keys - first) == number
        assert "was changed since" in capsys.readouterr().err


@pytest.mark.parametrize(
    "word",
    [
        "verify=sometimes",
        "verify=",
        "verify=True",
        "--verify",
        "--verify=x",
        "--verify no",
        "verify=once verify=never",
    ],
)
def test_another_value_of_verify_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["toyworld", *word.split()]) == 2
    assert (
        "valid: " + ("each key once" if "never" in word else "never, once, always") in capsys.readouterr().err
    )
    assert digests.VERIFY_VARIABLE not in os.environ
