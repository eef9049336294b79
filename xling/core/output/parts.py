"""Parts of a resumable build: each is a folder that is renamed into place when it is complete.

The parts of output ``OUT`` are in ``.OUT.work/KEY/PHASE/INDEX/``. A part is written into a temporary folder
and then renamed. A killed process leaves either a complete part or a temporary folder that is never read.
``KEY`` is a digest of the configuration and of the code: a build with other settings or other code never
reuses these parts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from xling.core.output import atomic_swap, digests, manifest, sealed
from xling.core.output.command_result import Answer
from xling.core.output.sealed import DamagedError

FACTS = "facts.json"


@dataclass(frozen=True)
class Workspace:
    """Folder with the finished parts of one build, stored under ``root``."""

    root: Path

    @staticmethod
    def for_output(out: Path, settings: Any) -> Workspace:
        """Return the parts of output ``out``, made with JSON-ready ``settings`` by the current code.

        Raises:
            UserError: ``out`` is the working directory or has no name.
        """
        if not out.name:
            out = atomic_swap.resolve_target(out)
        text = json.dumps([settings, code_digest()], sort_keys=True)
        return Workspace(out.with_name(f".{out.name}.work") / hashlib.sha256(text.encode()).hexdigest()[:16])

    def part(self, phase: str, index: int) -> Path:
        """Return the path of part ``index`` of ``phase``, which may not exist yet.

        Raises:
            DamagedError: a file of it was changed or damaged after it was written.
        """
        folder = self.root / phase / f"{index:05d}"
        with contextlib.suppress(FileNotFoundError):  # another process may delete what it needs no more
            facts = folder / FACTS
            for name, digest in _read_digests(facts, digests.identity(facts)).items():
                if (path := folder / name).is_file() and digests.of_file(path) != digest:
                    raise DamagedError(
                        f"{path} was changed or damaged after it was written",
                        "the parts of a build as they were written",
                        f"delete {self.root} and run the same command again: the build begins again",
                    )
        return folder

    def delete(self) -> None:
        """Delete the parts; those with other settings stay."""
        shutil.rmtree(self.root, ignore_errors=True)
        with suppress(OSError):
            self.root.parent.rmdir()

    @contextmanager
    def write_part(self, phase: str, index: int) -> Iterator[Path]:
        """Provide a folder for a part's files; it becomes the part when the block ends without an error."""
        target = self.part(phase, index)
        temporary = target.with_name(f".{target.name}.{socket.gethostname()}.{os.getpid()}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        start, cpu_start = time.perf_counter(), time.process_time()
        try:
            yield temporary
            resource_use: dict[str, Any] = {
                "seconds": round(time.perf_counter() - start, 3),
                "cpu_seconds": round(time.process_time() - cpu_start, 3),
                "peak_memory_mb": manifest.peak_memory_mb(),
            }
            if digests.mode() != digests.NEVER:
                resource_use["sha256"] = {
                    str(path.relative_to(temporary)): digests.of_file(path)
                    for path in sorted(temporary.rglob("*"))
                    if path.is_file()
                }
            sealed.write_json(temporary / FACTS, resource_use)
            try:
                temporary.rename(target)
            except OSError:
                if not target.is_dir():  # else a second worker was given the same part and finished first
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def resource_use(self) -> dict[str, dict[str, float]]:
        """Return wall and processor seconds of all parts together and the largest memory, by phase."""
        by_phase = {}
        for phase in sorted(p for p in self.root.iterdir() if p.is_dir()):
            part_facts = [sealed.read_json(path) for path in sorted(phase.glob(f"[0-9]*/{FACTS}"))]
            by_phase[phase.name] = {
                "parts": len(part_facts),
                "seconds": round(sum(p["seconds"] for p in part_facts), 3),
                "cpu_seconds": round(sum(p["cpu_seconds"] for p in part_facts), 3),
                "peak_memory_mb": max((p["peak_memory_mb"] for p in part_facts), default=0.0),
            }
        return by_phase

    def discard(self, *phases: str, name: str) -> None:
        """Delete the file ``name``, which is no longer needed, in all parts of ``phases``."""
        for phase in phases:
            for path in sorted((self.root / phase).glob(f"*/{name}")):
                path.unlink(missing_ok=True)


@lru_cache(maxsize=1 << 16)
def _read_digests(facts: Path, *identity: tuple[int, ...]) -> dict[str, str]:
    """Return file -> SHA-256 of a part, read once; empty where nothing is compared."""
    if digests.mode() == digests.NEVER:
        return {}
    fix = f"delete {facts.parents[2]} and run the same command again: the build begins again"
    known: dict[str, str] = sealed.read_json(facts, fix).get("sha256", {})
    return known


_CODE_VARIABLE = "XLING_CODE_DIGEST"


def code_digest() -> str:
    """Return the SHA-256 of the code and of the tables that process text.

    The workers and array jobs of a build inherit it from the command that started it. So code that changes on
    disk during a build does not separate later parts from earlier ones.
    """
    if not os.environ.get(_CODE_VARIABLE):
        os.environ[_CODE_VARIABLE] = _compute_code_digest()
    return os.environ[_CODE_VARIABLE]


def _compute_code_digest() -> str:
    hasher = hashlib.sha256()
    for package in ("xling.core", "xling.text", "xling.corpora"):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(folder).rglob("*")):
                if path.suffix in (".py", ".tsv", ".npz"):
                    hasher.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return hasher.hexdigest()


def run_unless_published(
    build: Callable[[], Answer | None],
    workspace: Callable[[], Workspace],
    is_published: Callable[[], object],
    published_answer: Callable[[], Answer | None],
) -> Answer | None:
    """Run a build and return its result, unless another process has published the same output meanwhile."""
    try:
        return build()
    except FileNotFoundError:
        if workspace().root.exists() or not is_published():
            raise
        return published_answer()


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON; equal values give equal bytes."""
    path.write_text(json.dumps(value, ensure_ascii=False, sort_keys=True, indent=0) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read the value in a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
