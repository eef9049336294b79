"""Write ``requirements.lock``: every package of ``constraints.txt`` with the hashes of its files.

Run ``make constraints``, which calls ``python .ci/lock.py``. The hashes come from the package index through uv, which
is installed into a temporary environment. Torch is not in the lock: which build of it fits depends on the machine
(``make install TORCH=... TORCH_INDEX=...``), so `constraints.txt` alone fixes its version.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = "uv==0.13.9"
BUILD_TOOLS = ("numpy", "cython", "setuptools", "wheel", "setuptools-scm")
APART = ("torch",)
HEADER = (
    "# Written by `make constraints` from constraints.txt,"
    " for `pip install --require-hashes --no-deps` and `make audit`."
)
REST = "# The rest, some of it built with the packages above."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def canonical(name: str) -> str:
    """Return the name of a package as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    """Return the canonical name of the package that a requirement asks for."""
    match = _NAME.match(requirement.strip())
    return canonical(match[0]) if match else ""


def markers(project: dict[str, object]) -> dict[str, str]:
    """Return the environment marker of each package of a ``pyproject.toml`` that has one."""
    table = project["project"]
    assert isinstance(table, dict)
    asked = [*table["dependencies"], *(r for extra in table["optional-dependencies"].values() for r in extra)]
    return {name_of(r): r.partition(";")[2].strip() for r in asked if ";" in r}


def with_needs(names: Iterable[str]) -> set[str]:
    """Return packages and all that they need, as far as installed here."""
    known, left = set[str](), [canonical(name) for name in names]
    while left:
        name = left.pop()
        if name in known:
            continue
        known.add(name)
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        left += [name_of(need) for need in needs if "extra ==" not in need]
    return known


def blocks(text: str) -> dict[str, str]:
    """Return the lines of each package in a list with hashes."""
    listed = re.findall(r"^(?:[A-Za-z0-9].*\n(?:[ \t].*\n)*)", text, re.MULTILINE)
    return {name_of(block): block for block in listed}


def lock(pinned: dict[str, str], conditions: dict[str, str], first: set[str]) -> str:
    """Return the lock: the build tools with what they need, then the rest."""
    for name, condition in conditions.items():
        if name in pinned:
            pinned[name] = re.sub(r"^(\S+)", rf"\1 ; {condition}", pinned[name])
    kept = {name: block for name, block in sorted(pinned.items()) if name not in APART}
    early = [block for name, block in kept.items() if name in first]
    late = [block for name, block in kept.items() if name not in first]
    return "".join([f"{HEADER}\n", *early, f"{REST}\n", *late])


def main() -> int:
    """Write the lock; return uv's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", UV], check=True)
        command = [python.with_name("uv"), "pip", "compile", "--quiet", "--no-deps", "--generate-hashes"]
        more = ["--no-header", "--no-annotate", "--python", sys.executable, "constraints.txt"]
        done = subprocess.run([*command, *more], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return done.returncode
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    text = lock(blocks(done.stdout), markers(project), with_needs(BUILD_TOOLS))
    (ROOT / "requirements.lock").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
