"""Identity of the running code: version, digest of the source files, and commit if there is a repository."""

import functools
import hashlib
import os
import shutil
import subprocess
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGE_ROOT = Path(str(resources.files("xling")))
_GIT_TIMEOUT_S = 10.0


@functools.cache
def digest() -> str:
    """Return the first 12 hex digits of a SHA-256 over the names and contents of the package's Python files."""
    hasher = hashlib.sha256()
    for folder, folders, names in os.walk(
        _PACKAGE_ROOT, followlinks=True
    ):  # three packages are links in a working copy
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(name for name in names if name.endswith(".py")):
            path = Path(folder, name)
            hasher.update(
                f"{path.relative_to(_PACKAGE_ROOT).as_posix()}\0".encode() + path.read_bytes() + b"\0"
            )
    return hasher.hexdigest()[:12]


@functools.cache
def commit() -> str:
    """Return the commit of the working copy, with ``-dirty`` if files differ from it; empty outside of a repository."""
    if not (_PACKAGE_ROOT.parent / ".git").exists() or not shutil.which("git"):
        return ""
    command = [
        "git",
        "-C",
        str(_PACKAGE_ROOT.parent),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]
    try:
        completed = subprocess.run(
            command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return completed.stdout.strip() if completed.returncode == 0 else ""


def full_version() -> str:
    """Return version, digest and commit as one word, for example ``0.1.0+4be1f09a77c2.g6a88b45-dirty``."""
    try:
        release = version("xling")
    except PackageNotFoundError:
        release = "unknown"
    return f"{release}+{digest()}" + (f".g{commit()}" if commit() else "")
