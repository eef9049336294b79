"""Swap of a finished output for a new one, and its repair if the process is killed during the swap.

A new output is written into a sibling folder ``.OUT.HOST.PID.tmp``. Its manifest is written last, so a sibling
with a manifest is complete. The old output is renamed to ``.OUT.HOST.PID.old``, the new one takes its name, and
only then the old one is deleted. Files in it that its manifest does not name, such as a user's notes or the answers of
an audit, move to ``OUT.kept``. A process that is killed between the two renames leaves both under other names;
the next one that looks at the output puts the new one into place (`restore`). `replacing` does the same for one file.
"""

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output import lease
from xling.core.output.command_result import tell

MANIFEST = "manifest.json"
NEW_SUFFIX, OLD_SUFFIX = "tmp", "old"


def resolve_target(out: Path) -> Path:
    """Return the folder that is written for ``out``: for a symbolic link the folder that it points to.

    Raises:
        UserError: ``out`` is the working directory or has no name.
    """
    real = Path(os.path.realpath(out))
    if real == Path(os.path.realpath(Path.cwd())) or not real.name:
        description = "the folder that the command runs in" if real.name else "the root folder"
        raise UserError(f"out={out} is {description}", "a folder of its own", "choose another out=")
    return real if out.is_symlink() else out


def temporary_sibling(out: Path, suffix: str) -> Path:
    """Return the path of a temporary folder of this process beside ``out``."""
    return out.with_name(f".{out.name}.{socket.gethostname()}.{os.getpid()}.{suffix}")


def swap(new: Path, out: Path, keep_old: bool) -> Path | None:
    """Rename the complete folder ``new`` to ``out``; the folder that was there is deleted last.

    Args:
        keep_old: keep the old folder as ``OUT.damaged`` instead of deleting it.

    Returns:
        The path at which the old folder is kept, or None.
    """
    if not out.exists():
        new.rename(out)
        return None
    old = _unused(out, "damaged") if keep_old else temporary_sibling(out, OLD_SUFFIX)
    out.rename(old)
    new.rename(out)
    if keep_old:
        return old
    _discard_old(old, out)
    return None


def restore(out: Path) -> None:
    """Put a complete output into place that a killed process left under a temporary name.

    The new output is preferred to the old one. Nothing happens if ``out`` exists.
    """
    if out.exists():
        return
    complete = {ending: path for path, ending in _abandoned(out) if (path / MANIFEST).is_file()}
    if complete:
        try:
            (complete.get(NEW_SUFFIX) or complete[OLD_SUFFIX]).rename(out)
        except OSError:
            if out.exists():  # another process did the same
                return
            raise
        which = "new" if NEW_SUFFIX in complete else "old"
        tell(f"xling: {out}: a process was killed while it replaced this output; the {which} one is in place")


def clean_up(out: Path) -> None:
    """Delete the temporary folders beside ``out`` that no process writes any more."""
    for path, ending in list(_abandoned(out)):
        if ending == OLD_SUFFIX:
            _discard_old(path, out)
        else:
            discard(path)


def clean_up_finished(out: Path) -> None:
    """Delete what a process left beside ``out`` that was killed after it had published it, and say so.

    What is newer than the manifest belongs to an unfinished run with other settings: it is kept, and told. Nothing
    is touched without the lease on ``out``.
    """
    clean_up(out)
    if not lease.is_held_by_this_process(out):
        return
    published_at = (out / MANIFEST).stat().st_mtime_ns
    for folder in (out.with_name(f"{out.name}.partial"), out.with_name(f".{out.name}.work")):
        if not folder.is_dir() or folder.is_symlink():
            continue
        if any(path.lstat().st_mtime_ns > published_at for path in folder.rglob("*") if not path.is_dir()):
            tell(
                f"xling: {folder} is kept: a run with other settings left it; delete it when it is not needed"
            )
        else:
            tell(f"xling: {folder} is deleted: a process was killed after it had published {out}")
            discard(folder)


def discard(folder: Path) -> None:
    """Delete a folder, its manifest first: a kill halfway must not leave a part that looks complete."""
    (folder / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _discard_old(old: Path, out: Path) -> None:
    """Delete the folder that ``out`` was, and keep what its manifest does not name as ``OUT.kept``."""
    if foreign := _unnamed_files(old):
        kept = _unused(out, "kept")
        for path in foreign:
            target = kept / path.relative_to(old)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
        tell(f"xling: {out} is replaced; {len(foreign)} file(s) that are not part of it are kept in {kept}")
    discard(old)


def _unnamed_files(folder: Path) -> list[Path]:
    """Return the files below a finished output that its manifest does not name, [] where it cannot be read."""
    try:
        named = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path for path in files if str(path.relative_to(folder)) not in {*named, MANIFEST})


def _abandoned(out: Path) -> Iterator[tuple[Path, str]]:
    """Yield the temporary folders beside ``out`` whose process has ended, each with its ending.

    A process on another host may be alive, unless this process holds the lease on ``out``.
    """
    prefix, host = f".{out.name}.", socket.gethostname()
    if not out.parent.is_dir():
        return
    for path in sorted(out.parent.iterdir()):
        whose, _, rest = path.name.removeprefix(prefix).rpartition(".")[0].rpartition(".")
        ending = path.suffix.removeprefix(".")
        if not path.name.startswith(prefix) or ending not in (NEW_SUFFIX, OLD_SUFFIX) or not rest.isdigit():
            continue
        if lease.is_held_by_this_process(out) or (whose == host and not _is_other_alive(int(rest))):
            yield path, ending


def _is_other_alive(pid: int) -> bool:
    """Return whether another process has this id; this process does not write yet."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _unused(out: Path, suffix: str) -> Path:
    """Return the first free path of ``OUT.SUFFIX``, ``OUT.SUFFIX2`` and so on."""
    number, path = 1, out.with_name(f"{out.name}.{suffix}")
    while path.exists():
        number += 1
        path = out.with_name(f"{out.name}.{suffix}{number}")
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Provide the name of a temporary file, which is renamed to ``path`` when the block ends, or else deleted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
