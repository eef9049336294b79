"""Errors of the machine: a full disk, missing memory, too few open files, a variable; each as one line with a fix."""

import contextlib
import errno
import os
import re
import shutil
import tempfile
import traceback
from pathlib import Path

from xling.core.errors import UserError

_NO_MEMORY = re.compile("can't allocate memory|out of memory", re.IGNORECASE)
# What libraries that have no OSError say of a write that failed: torch, safetensors, polars, numpy.
_FULL_DISK = re.compile(
    r"no space left on device|disk quota exceeded|os error (28|122)\b|PytorchStreamWriter failed writing"
    r"|inline_container.*unexpected pos|^\d+ requested and \d+ written|Invalid thrift: transport error",
    re.IGNORECASE,
)
_VARIABLE = re.compile("[A-Z][A-Z0-9]*_[A-Z0-9_]+")
_NO_FILES = re.compile("too many open files|ancdata|DataLoader worker .*exited unexpectedly", re.IGNORECASE)


def is_of_machine(error: Exception) -> bool:
    """Return whether an error comes from disk, memory or the stack.

    Torch has no exception for missing CPU memory and too few open files, and it, safetensors, polars and numpy none
    for a full disk.
    """
    if isinstance(error, (OSError, MemoryError, RecursionError)) or _FULL_DISK.search(str(error)):
        return True
    if _refused_variable(error) or _lacks_files(error):
        return True
    return isinstance(error, RuntimeError) and bool(_NO_MEMORY.search(str(error)))


def machine_error(error: Exception, out: str = "") -> UserError:
    """Describe a failure of the disk, the file system or the memory, with its path and a fix.

    Args:
        error: what the system raised.
        out: the output directory, if the command has one; a full disk names no file.
    """
    fix = "XLING_TRACEBACK=1 shows where it happened"
    if name := _refused_variable(error):
        said = " ".join(str(error).split())[:200]
        return UserError(
            f"{name}={os.environ[name]} in the environment: {said}", fix=f"correct or unset {name}; {fix}"
        )
    if isinstance(error, RecursionError):
        return UserError(
            "a file is nested too deeply", fix=f"check the JSON files that the command reads; {fix}"
        )
    if _FULL_DISK.search(str(error)) and getattr(error, "errno", None) not in (errno.ENOSPC, errno.EDQUOT):
        error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)).with_traceback(error.__traceback__)
    if _lacks_files(error):
        fix = f"raise the limit of open files (ulimit -n), or train with fewer train.workers; {fix}"
        return UserError("too many open files", fix=fix)
    if not isinstance(error, OSError):
        return UserError("out of memory", fix=f"use smaller settings or a larger machine; {fix}")
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
    # A copy names both of its files, and only the second one is written.
    out = out or _out_of(error)
    below = Path(out).parent if full and out else Path()  # what was read lies elsewhere
    file = (error.filename2 if full else None) or error.filename or _path_of(error, below)
    place = "".join(f"{each}: " for each in (out and f"out={out}", file) if each)
    disk = _disk_of(Path(file or out or tempfile.gettempdir()))
    remedies = {
        errno.ENOSPC: f"free space on that disk ({disk}) or choose another out=",
        errno.EDQUOT: f"free space in your quota ({disk}) or choose another out=",
        errno.EFBIG: "raise the limit of file sizes (ulimit -f) or choose another file system",
        errno.EROFS: "choose an out= that can be written",
        errno.EACCES: "choose a path that you may read and write",
        errno.EPERM: "choose a path that you may read and write",
        errno.ENAMETOOLONG: "choose a shorter name",
        errno.EMFILE: "raise the limit of open files (ulimit -n)",
    }
    return UserError(
        f"{place}{error.strerror or error}", fix=f"{remedies.get(error.errno or 0, 'check the path')}; {fix}"
    )


def _lacks_files(error: Exception) -> bool:
    """Return whether a process of the data loader, or this one, could open no more files."""
    if isinstance(error, EOFError):  # a process that could not send what it had opened
        return any(frame.f_code.co_name == "recvfds" for frame, _ in traceback.walk_tb(error.__traceback__))
    return isinstance(error, RuntimeError) and bool(_NO_FILES.search(str(error)))


def _refused_variable(error: Exception) -> str:
    """Return the variable of the environment whose value a library refuses while it is imported, "" if none."""
    if not isinstance(error, (ValueError, TypeError, RuntimeError)):
        return ""
    is_import = any(f.f_code.co_name == "<module>" for f, _ in traceback.walk_tb(error.__traceback__))
    named = _VARIABLE.findall(str(error)) if is_import else []
    return next((name for name in named if os.environ.get(name)), "")


def _disk_of(path: Path) -> str:
    """Name the file system that a path lies on, with its size and what is free on it now."""
    with contextlib.suppress(OSError):
        place = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
        device, usage = place.stat().st_dev, shutil.disk_usage(place)
        mounted = [folder for folder in (place, *place.parents) if folder.stat().st_dev == device][-1]
        return f"mounted at {mounted}, {usage.total / 1e9:,.1f} GB, {usage.free / 1e6:,.1f} MB free now"
    return f"of {path}"


def _out_of(error: OSError) -> str:
    """Return the output of the command that failed, where its words do not name it as ``out=``."""
    outs = (getattr(f.f_locals.get("cfg"), "out", "") for f, _ in traceback.walk_tb(error.__traceback__))
    return next((str(out) for out in outs if out), "")


def _path_of(error: OSError, below: Path) -> str:
    """Return the path that was read or written when the system refused; a failed read names no file."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    paths = [frame.f_locals.get(name) for frame in reversed(frames) for name in ("path", "self")]
    paths_there = (path for path in paths if isinstance(path, Path))
    return next((str(path) for path in paths_there if below == Path() or path.is_relative_to(below)), "")
