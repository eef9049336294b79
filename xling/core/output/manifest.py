"""Atomic publication of directories: a directory with a ``manifest.json`` is complete, one without is not.

Every stage writes into a temporary sibling of its output, writes the manifest last and renames the folder. A
rerun whose configuration and input digests match the published manifest does nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import resource
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.output import atomic_swap, digests, source_version
from xling.core.output.command_result import tell
from xling.core.output.rerun import differences
from xling.core.settings.config import to_dict

FILE_NAME = atomic_swap.MANIFEST
EXPORTS = ("export hf", "export onnx", "export fairseq")
"""Stages whose folders other programs may change: such a folder is known by what it holds."""
MAX_LEVELS_UP = 4
"""Levels of folders above a file at which the finished output that it belongs to is looked for."""
LONG_CHECK = 2_000_000_000
"""Bytes to check at once from which a line says so."""
_TEMPORARY_NAME = re.compile(r"\..+\.\d+\.tmp")
# Set by the command line for its child processes.
OVERWRITE_VARIABLE, ONLY_WHY_VARIABLE = "XLING_OVERWRITE", "XLING_ONLY_WHY"


@dataclass
class Manifest:
    """The record of a stage's output: what was made, from which inputs, and how much data was kept or dropped.

    Attributes:
        stage: name of the stage.
        config: resolved configuration as plain values.
        inputs: path as given -> SHA-256 digest of the file, or of the directory's manifest or files.
        counts: numbers by name, for example per language and per drop reason; JSON-ready.
        files: path relative to the directory -> ``{"bytes": int, "sha256": str}``.
        amended: the same of files that a later command has written again, see
            `xling.core.output.amend`; no part of the identity.
        code_version: version of xling, digest of its code, and commit; see `xling.core.output.source_version`.
        seconds: wall time of the stage.
        peak_memory_mb: peak resident memory of the process, MiB.
    """

    stage: str
    config: dict[str, Any]
    inputs: dict[str, str]
    counts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    code_version: str = ""
    seconds: float = 0.0
    peak_memory_mb: float = 0.0
    amended: dict[str, dict[str, Any]] = field(default_factory=dict)

    def digest(self) -> str:
        """Return a SHA-256 over stage, configuration, inputs and files: equal for byte-equal results."""
        identity = {"stage": self.stage, "config": self.config, "inputs": self.inputs, "files": self.files}
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()

    def content_digest(self) -> str:
        """Return a SHA-256 over stage and files, by which later outputs record that they were made from this one."""
        identity = {"stage": self.stage, "files": self.files}
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def digest(path: Path) -> str:
    """Return a SHA-256 that identifies a file, a published directory, or a plain directory of files.

    Raises:
        UserError: ``path`` does not exist, or is the directory of an unfinished stage; or a finished output that it
            is, or lies in, is no longer as it was published.
    """
    return _digest_of(path, Manifest.digest)


def content_digest(path: Path) -> str:
    """Return the SHA-256 of a file's or directory's content, without a stage's settings and paths.

    Raises:
        UserError: as `digest`.
    """
    return _digest_of(path, Manifest.content_digest)


def _digest_of(path: Path, identify: Callable[[Manifest], str]) -> str:
    if path.is_file():
        return check_file(path)
    if (path / FILE_NAME).is_file():
        published = read(path)
        if published.stage not in EXPORTS:
            return identify(verify(path))
        if _is_as_exported(path, published):
            return identify(published)
        _print_note(f"{path} was changed since {published.stage!r} wrote it: what it holds now counts")
    elif not path.is_dir():
        raise UserError(
            f"no file or directory at {path}", fix="check the path, or run the stage that makes it"
        )
    files = [p for p in sorted(path.rglob("*")) if p.is_file() and p != path / FILE_NAME]
    parts = [f"{p.relative_to(path)}:{digests.of_file(p)}" for p in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _is_as_exported(folder: Path, published: Manifest) -> bool:
    """Return whether a folder holds what was exported, and nothing else that a program could read with it."""
    present = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    present.pop(FILE_NAME)
    return present.keys() == published.files.keys() and all(
        digests.of_file(path) == published.files[name]["sha256"] for name, path in present.items()
    )


def check_file(path: Path) -> str:
    """Return the SHA-256 of a file, after comparing it with the one recorded by the finished output that it lies in.

    Raises:
        UserError: the file was changed or damaged since it was published.
    """
    check_as_published(path)
    return digests.of_file(path)


def check_as_published(path: Path) -> None:
    """Compare a finished output, or a file in one, with the recorded digests, as ``verify=`` says; others pass.

    Raises:
        UserError: it was changed or damaged since it was published.
    """
    if (path / FILE_NAME).is_file():
        if stage_of(path) not in EXPORTS:
            verify(path)
        return
    if not path.is_file() or digests.mode() == digests.NEVER:
        return
    real = path.resolve()
    folder = next((f for f in list(real.parents)[:MAX_LEVELS_UP] if (f / FILE_NAME).is_file()), None)
    published = folder and _read_once(folder, *digests.identity(folder / FILE_NAME))
    if folder and published and published.stage not in EXPORTS:
        recorded = (
            (published.files | published.amended).get(real.relative_to(folder).as_posix(), {}).get("sha256")
        )
        if recorded and digests.of_file(path) != recorded:
            raise _changed(path, digests.of_file(path), recorded, published.stage)


@lru_cache(maxsize=64)
def _read_once(folder: Path, *identity: int) -> Manifest | None:
    """Return the manifest of a folder, parsed once for all of its files; None if it is not one of ours."""
    return read(folder) if stage_of(folder) else None


def _changed(path: Path, actual: str, recorded: str, stage: str) -> UserError:
    folder = next(f for f in path.resolve().parents if (f / FILE_NAME).is_file())
    return UserError(
        f"{path} was changed or damaged after {stage!r} wrote it: SHA-256 {actual[:16]}...",
        f"{recorded[:16]}... as recorded in {folder / FILE_NAME}",
        f"copy it again, or run {stage!r} again; if the change is meant, copy it to a folder without {FILE_NAME}",
    )


def digest_paths_in(settings: Any) -> dict[str, str]:
    """Return path -> digest for every file and directory that the settings name by a ``Path``, at any depth.

    Equal settings can name files whose contents have changed: these digests detect that.

    Raises:
        UserError: a path does not exist.
    """
    if isinstance(settings, Path):
        return {str(settings): digest(settings)}
    if is_dataclass(settings):
        settings = [getattr(settings, each.name) for each in fields(settings)]
    elif isinstance(settings, Mapping):
        settings = list(settings.values())
    if not isinstance(settings, (list, tuple)):
        return {}
    return {path: value_digest for value in settings for path, value_digest in digest_paths_in(value).items()}


def read(directory: Path) -> Manifest:
    """Read the manifest of a published directory.

    Raises:
        UserError: there is none: the directory is missing or the stage did not finish.
    """
    path = directory / FILE_NAME
    if not path.is_file():
        raise UserError(
            f"{directory} has no {FILE_NAME}: it is missing or was left by a stage that did not finish",
            fix="run the stage that makes it again",
        )
    try:
        manifest = Manifest(**json.loads(path.read_text(encoding="utf-8")))
        _check_kinds(manifest)
        return manifest
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(
            f"{path} is damaged: {error}", fix="delete the directory and run its stage again"
        ) from None


def _check_kinds(manifest: Manifest) -> None:
    """Refuse values of other kinds than `write` writes (ValueError): somebody has edited them."""
    for each in fields(Manifest):
        value, kind = getattr(manifest, each.name), str(each.type).partition("[")[0]
        if not isinstance(value, {"str": str, "float": int | float, "dict": dict}[kind]):
            raise ValueError(f"{each.name!r} must be of kind {kind}")
    for name, recorded in (manifest.files | manifest.amended).items():
        given = recorded if isinstance(recorded, dict) else {}
        if not isinstance(given.get("bytes"), int) or not isinstance(given.get("sha256"), str):
            raise ValueError(f"{name!r} has no 'bytes' and 'sha256'")
    if wrong := [path for path, digest in manifest.inputs.items() if not isinstance(digest, str)]:
        raise ValueError(f"the digest of {wrong[0]!r} must be a text")


def stage_of(directory: Path) -> str:
    """Return the stage that published a directory, or "" if the directory is not a finished output of ours."""
    if not (directory / FILE_NAME).is_file():
        return ""
    with contextlib.suppress(UserError, OSError):
        return read(directory).stage
    return ""


def verify(directory: Path, whole: bool = False) -> Manifest:
    """Read the manifest after checking that every file it lists exists and is as recorded.

    Sizes are always compared, digests as ``verify=`` says: see `xling.core.output.digests`. Without ``whole``, shards
    whose blocks are compared while they are read are left to their readers.

    Raises:
        UserError: a file is missing, or has another size or digest than recorded.
    """
    manifest = read(directory)
    files = manifest.files | manifest.amended
    for name, recorded in files.items():
        path, fix = directory / name, f"run {manifest.stage!r} again"
        if not path.is_file():
            raise UserError(f"{path} is missing", "the files in " + FILE_NAME, fix)
        if (size := path.stat().st_size) != recorded["bytes"]:
            raise UserError(f"{path} has {size} bytes", f"{recorded['bytes']} as recorded", fix)
    if digests.mode() == digests.NEVER:
        return manifest
    now = [
        name
        for name in files
        if whole or f"{name}{digests.SUMS}" not in files or not digests.is_read_in_blocks(directory / name)
    ]
    num_unknown = digests.num_bytes_unknown([directory / name for name in now])
    if num_unknown > LONG_CHECK:
        _print_note(f"{directory}: {num_unknown / 1e9:.1f} GB are checked once (verify=never leaves it out)")
    for name in now:
        if (actual := digests.of_file(directory / name)) != files[name]["sha256"]:
            raise _changed(directory / name, actual, files[name]["sha256"], manifest.stage)
    return manifest


def write(directory: Path, manifest: Manifest) -> None:
    """Write the manifest of a directory."""
    values = {name: value for name, value in manifest.__dict__.items() if name != "amended" or value}
    write_atomic(directory / FILE_NAME, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def write_atomic(path: Path, text: str) -> None:
    """Write a text file atomically: a reader sees the old or the new content, never a part."""
    with atomic_swap.replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_temporary_files(folder: Path) -> None:
    """Delete temporary files that killed processes left below an output that is not written in one step."""
    for path in folder.rglob(".*.tmp"):
        if _TEMPORARY_NAME.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


class Publication:
    """An output directory in the making: write files under ``path`` and put numbers into ``counts``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: dict[str, Any] = {}


def up_to_date(
    out: Path, stage: str, config: Any, inputs: Iterable[Path] = (), replaceable: bool = False
) -> Manifest | None:
    """Return the published manifest if a rerun would only repeat it, else None.

    Args:
        out: the output directory.
        stage: name of the stage.
        config: its settings, a dataclass or plain values.
        inputs: files and directories that it reads.
        replaceable: whether an output with other settings may be replaced without asking: true for tables and
            pages that take seconds to make.

    Raises:
        UserError: an input is missing; ``out`` is not a published directory; or it is a finished output with
            other settings or inputs and ``overwrite=true`` was not given. The message names the differences.
    """
    inputs, out = list(inputs), atomic_swap.resolve_target(out)
    atomic_swap.restore(out)
    check_is_ours(out, stage, inputs)
    if not (out / FILE_NAME).is_file():
        _answer_if_only_why(f"{out} does not exist yet: the stage would run")
        return None
    digests = {str(path): (content_digest(Path(path)), digest(Path(path))) for path in inputs}
    try:
        published = read(out)
        changed = differences((published.config, published.inputs), (to_dict(config), digests), config)
        if not changed:
            verify(out, whole=True)
    except UserError as error:
        _answer_if_only_why(f"{error.given}: the stage would run again")
        kept = "" if may_overwrite() else f", and what is there is kept as {out.name}.damaged"
        _print_note(f"{error.given}; {out} is made again{kept}")
        return None
    if changed:
        check_may_replace(out, changed, replaceable)
        return None
    _answer_if_only_why(f"{out} is finished and up to date: nothing would run")
    atomic_swap.clean_up_finished(out)
    if published.code_version != source_version.full_version():
        _print_note(
            f"{out} is kept: made by xling {published.code_version}, this is {source_version.full_version()}"
        )
    return published


def is_finished(out: Path, stage: str, config: Any, inputs: Iterable[Path]) -> bool:
    """Return whether ``out`` is finished with these settings and inputs; say nothing, and change nothing.

    Raises:
        UserError: ``out`` is finished with other settings or inputs, or another stage or program made it.
    """
    inputs, out = list(inputs), atomic_swap.resolve_target(out)
    check_is_ours(out, stage, inputs)
    if not stage_of(out):
        return False
    published = read(out)
    digests = {str(path): (content_digest(Path(path)), digest(Path(path))) for path in inputs}
    changed = differences((published.config, published.inputs), (to_dict(config), digests), config)
    if changed:
        check_may_replace(out, changed)
    return not changed


def check_may_replace(out: Path, changed: list[str], replaceable: bool = False) -> None:
    """Refuse to replace a finished output that was made with other settings or inputs, unless it was asked for.

    Args:
        out: the output directory.
        changed: what differs, as `xling.core.output.rerun.differences` says it.
        replaceable: as for `up_to_date`.

    Raises:
        UserError: ``overwrite=true`` was not given. The message names the differences.
    """
    _answer_if_only_why(f"{out} was made with other settings or inputs: {'; '.join(changed)}")
    if not (replaceable or may_overwrite()):
        raise UserError(
            f"{out} is finished and was made with other settings or inputs: {'; '.join(changed)}",
            "the settings and inputs of the finished output, or another out=",
            "add overwrite=true to replace it",
        )


class WhyAnswer(Exception):  # noqa: N818 - an answer, not an error
    """Raised by a stage that was only asked whether it would run; the text gives the answer and the reason."""


def may_overwrite() -> bool:
    """Return whether ``overwrite=true`` was given; worker processes and cluster jobs inherit it."""
    return os.environ.get(OVERWRITE_VARIABLE) == "true"


def _print_note(text: str) -> None:
    tell(f"xling: {text}")


def _answer_if_only_why(text: str) -> None:
    if os.environ.get(ONLY_WHY_VARIABLE) == "true":
        raise WhyAnswer(text)


@contextmanager
def publish(out: Path, stage: str, config: Any, inputs: Iterable[Path] = ()) -> Iterator[Publication]:
    """Create directory ``out`` atomically: it appears complete with its manifest, or not at all.

    Example:
        >>> with publish(out, "vocab", cfg, [corpus]) as publication:      # doctest: +SKIP
        ...     (publication.path / "spm.vocab").write_text(...)
        ...     publication.counts["pieces"] = 32000

    Raises:
        UserError: an input is missing, or ``out`` exists and is not a published directory.
    """
    inputs, out = list(inputs), atomic_swap.resolve_target(out)
    atomic_swap.restore(out)
    check_is_ours(out, stage, inputs)
    input_digests = {str(path): content_digest(Path(path)) for path in inputs}
    out.parent.mkdir(parents=True, exist_ok=True)
    atomic_swap.clean_up(out)
    temporary = atomic_swap.temporary_sibling(out, atomic_swap.NEW_SUFFIX)
    temporary.mkdir()
    publication, start = Publication(temporary), time.perf_counter()
    try:
        yield publication
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    files = {
        str(p.relative_to(temporary)): {"bytes": p.stat().st_size, "sha256": digests.of_file(p)}
        for p in sorted(temporary.rglob("*"))
        if p.is_file()
    }
    manifest = Manifest(
        stage=stage,
        config=to_dict(config),
        inputs=input_digests,
        counts=publication.counts,
        files=files,
        code_version=source_version.full_version(),
        seconds=round(time.perf_counter() - start, 3),
        peak_memory_mb=peak_memory_mb(),
    )
    write(temporary, manifest)
    is_damaged = (out / FILE_NAME).is_file() and not is_as_published(out)
    if kept_path := atomic_swap.swap(temporary, out, keep_old=not may_overwrite() and is_damaged):
        _print_note(f"the damaged output is kept as {kept_path}; delete it when it is not needed")


def is_as_published(out: Path) -> bool:
    """Return whether ``out`` is a finished output whose files are as they were published."""
    with contextlib.suppress(UserError):
        return bool(stage_of(out)) and bool(verify(out, whole=True))
    return False


def peak_memory_mb() -> float:
    """Return the peak resident memory of this process, MiB.

    ``ru_maxrss`` would count the parent's memory too: a process keeps it from before its program was started.
    """
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        if match := re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE):
            return round(int(match[1]) / 1024, 1)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def check_is_ours(out: Path, stage: str, inputs: Iterable[Path] = ()) -> None:
    """Refuse an output that this stage may not replace.

    Raises:
        UserError: another stage or program has made it, or it is one of ``inputs``.
    """
    fix = "choose another out=, or move it away"
    if not out.exists():
        return
    if not (out / FILE_NAME).is_file():
        if not out.is_dir() or any(out.iterdir()):
            raise UserError(f"{out} exists and was not made by xling", fix=fix)
        return
    if any(Path(path).resolve().is_relative_to(out.resolve()) for path in inputs):
        raise UserError(f"{out} is both out= and what is read", fix="choose another out=")
    try:
        made_by_stage = read(out).stage
    except UserError:  # a damaged output is replaced
        return
    if made_by_stage != stage:
        raise UserError(f"{out} was made by {made_by_stage!r}, not by {stage!r}", fix=fix)


def summary(counts: Mapping[str, Any]) -> str:
    """Format counts on one line for a log."""
    return ", ".join(f"{k} {v:,}" if isinstance(v, int) else f"{k} {v}" for k, v in counts.items())
