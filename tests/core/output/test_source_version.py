"""Identity of the running code: what its digest reads, and the commit of the working copy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from xling.core.output import source_version


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in a folder of its own, which the functions read in place of this one."""
    folder = tmp_path / "repository" / "package"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("one = 1\n")
    monkeypatch.setattr(source_version, "_PACKAGE_ROOT", folder)
    source_version.commit.cache_clear()
    source_version.digest.cache_clear()
    return folder


@pytest.fixture(autouse=True)
def _forget() -> object:
    yield
    source_version.commit.cache_clear()
    source_version.digest.cache_clear()


def again() -> tuple[str, str]:
    source_version.commit.cache_clear()
    source_version.digest.cache_clear()
    return source_version.digest(), source_version.commit()


def test_the_commit_says_whether_files_differ(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert source_version.commit() == ""  # no repository

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        command = ["git", "-C", str(package.parent), *who, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    assert again()[1] == ""  # a repository without a commit
    git("add", ".")
    git("commit", "-qm", "first")
    git("tag", "v9")
    head = git("rev-parse", "HEAD")[:12]
    assert again()[1] == head  # not the name of a tag
    assert source_version.full_version().endswith(f"+{source_version.digest()}.g{head}")
    (package / "a.py").write_text("one = 2\n")
    assert again()[1] == f"{head}-dirty"
    monkeypatch.setenv("PATH", "")
    assert again()[1] == ""  # git is not installed
    assert source_version.full_version().endswith(f"+{source_version.digest()}")


def test_the_digest_reads_names_and_contents_of_python_files(package: Path) -> None:
    first = source_version.digest()
    assert len(first) == 12
    (package / "notes.txt").write_text("x")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "b.py").write_text("x")
    assert again()[0] == first
    (package / "a.py").rename(package / "b.py")
    renamed = again()[0]
    (package / "b.py").write_text("one = 2\n")
    changed = again()[0]
    (package / "deep").mkdir()
    (package / "deep" / "d.py").write_text("")
    assert len({first, renamed, changed, again()[0]}) == 4
