"""Options of sbatch and srun that a user adds, the container that parts run in, and the copy of the code they use."""

import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from xling.core.errors import UserError

RUNTIMES = ("apptainer", "pyxis")
MAX_LENGTH = 1000
_NAME = re.compile(r"[a-z][a-z0-9-]+")
_SET_BY_US = {
    "nodes": "nodes", "ntasks": "tasks_per_node", "ntasks-per-node": "tasks_per_node", "time": "timeout_min",
    "cpus-per-task": "cpus_per_task", "cpus-per-gpu": "cpus_per_task", "mem": "mem_gb", "mem-per-cpu": "mem_gb",
    "partition": "partition",
    "account": "account", "qos": "qos", "gres": "gres", "constraint": "constraint", "gpus": "gpus_per_node",
    "gpus-per-node": "gpus_per_node", "signal": "signal_delay_s", "container-image": "container",
    "container-mounts": "mounts",
}  # fmt: skip
"""Options with a setting of their own, and that setting."""
_RESERVED = frozenset({
    "array", "bcast", "chdir", "clusters", "container-workdir", "dependency", "error", "help", "hold", "input",
    "job-name", "kill-on-bad-exit", "kill-on-invalid-dep", "no-requeue", "open-mode", "output", "parsable", "quiet",
    "requeue", "test-only", "unbuffered", "version", "wait", "wrap",
})  # fmt: skip
"""Options that the launcher sets, or that would change what it reads back."""


def check_options(setting: str, options: Mapping[str, str]) -> None:
    """Check options of sbatch or srun.

    Args:
        setting: ``sbatch`` or ``srun``, for messages.
        options: long names without dashes -> values.

    Raises:
        UserError: an option has a setting of its own, is set by the launcher, or cannot stand in a batch script.
    """
    for name, value in options.items():
        if not _NAME.fullmatch(name):
            raise UserError(
                f"{setting}.{name}: {name!r} is not an option",
                "the long name of an option without its dashes, for example exclude",
            )
        if name in _SET_BY_US:
            raise UserError(
                f"{setting}.{name}={value}: xling has a setting for --{name}",
                fix=f"use slurm.{_SET_BY_US[name]}=",
            )
        if name in _RESERVED:
            raise UserError(f"{setting}.{name}={value}: xling sets --{name} itself", fix="leave it out")
        if len(value) > MAX_LENGTH or not value.isprintable():
            # A line break would become a line of shell in the batch script.
            raise UserError(
                f"{setting}.{name}={value[:60]!r}", f"printable text of at most {MAX_LENGTH:,} characters"
            )


def check_container(image: str, runtime: str, mounts: tuple[str, ...]) -> None:
    """Check the settings of a container.

    Raises:
        UserError: an unknown runtime, mounts without an image, or text that cannot stand in a batch script.
    """
    if runtime not in RUNTIMES:
        raise UserError(f"container_runtime={runtime}", ", ".join(RUNTIMES))
    if mounts and not image:
        raise UserError(f"mounts={','.join(mounts)} without container=", "container=IMAGE beside it")
    for text in (image, *mounts):
        if not text.isprintable() or len(text) > MAX_LENGTH or text.startswith("-") or "," in text:
            raise UserError(f"container or mount {text[:60]!r}", "a path or an image's name, without commas")


def sbatch_parameters(options: Mapping[str, str]) -> dict[str, str | bool]:
    """Return the options as submitit's ``additional_parameters``: ``true`` is a flag, ``false`` leaves one out."""
    return {
        name: value.lower() == "true" or value for name, value in options.items() if value.lower() != "false"
    }


def with_excluded_nodes(options: Mapping[str, str], nodes: Sequence[str]) -> dict[str, str]:
    """Return options of sbatch that also exclude ``nodes``."""
    if not nodes:
        return dict(options)
    return {**options, "exclude": ",".join([*filter(None, [options.get("exclude")]), *nodes])}


def srun_words(options: Mapping[str, str]) -> list[str]:
    """Return the options as words of a command line: ``true`` is a flag, ``false`` leaves one out."""
    return [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in sbatch_parameters(options).items()
    ]


def container_words(
    runtime: str, image: str, mounts: tuple[str, ...], workdir: Path, records: Path, gpus: bool
) -> list[str]:
    """Return the words that start a command in a container.

    They are options of srun for pyxis, and the command that starts the container for Apptainer.

    Args:
        runtime: one of `RUNTIMES`.
        image: path or name of the image.
        mounts: ``SOURCE[:TARGET]`` on the node and in the container.
        workdir: working directory, mounted under its own path.
        records: folder of the run, mounted under its own path.
        gpus: whether the part has GPUs.
    """
    bind_mounts = [*mounts, str(workdir), str(records)]
    if runtime == "pyxis":
        pairs = ",".join(bind if ":" in bind else f"{bind}:{bind}" for bind in bind_mounts)
        return [f"--container-image={image}", f"--container-mounts={pairs}", f"--container-workdir={workdir}"]
    words = ["apptainer", "exec", *(["--nv"] if gpus else []), "--pwd", str(workdir)]
    return [*words, *(word for bind in bind_mounts for word in ("--bind", bind)), image]


def snapshot(target: Path) -> None:
    """Copy the package into ``target/xling``, from which jobs then import it.

    Raises:
        UserError: the files cannot be copied.
    """
    package = Path(str(files("xling")))
    left_out = shutil.ignore_patterns("__pycache__")
    try:
        shutil.copytree(package, target / "xling", ignore=left_out)
    except (OSError, shutil.Error) as error:
        raise UserError(f"the code cannot be copied to {target}: {error}", fix="free space there") from None


def snapshot_setup(target: Path) -> str:
    """Return the shell line with which a job imports the copy in ``target``."""
    return f"export PYTHONSAFEPATH=1 PYTHONPATH={shlex.quote(str(target))}${{PYTHONPATH:+:$PYTHONPATH}}"


def watch_setup(words: Sequence[str]) -> str:
    """Return the shell line with which a batch script starts the watcher of its part, and ends it at its own end."""
    command = shlex.join([sys.executable, "-u", "-m", "xling.slurm.watch", *words])
    return f"{command} & trap 'kill '$!' 2>/dev/null' EXIT"
