"""Checks of this machine's requirements, with fixes for what is missing: ``xling doctor``.

Every check looks at one thing and says what it found: ``ok``, ``warning`` (something is slower, smaller or not
possible here, the rest works) or ``broken``. Nothing is changed. The command ends with code 1 when something is
broken.
"""

import importlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement

from xling.core import progress
from xling.core.commands import inputs
from xling.core.machine import has_fast_bfloat16
from xling.core.output.command_result import Answer

State = Literal["ok", "warning", "broken"]
OK: State = "ok"
WARNING: State = "warning"
BROKEN: State = "broken"
GIB = 1 << 30
DISK_GIB, SHM_GIB, OPEN_FILES = 20, 1, 1024
"""Free space, shared memory and open files under which a warning is given: a small corpus with its model takes a
few GiB; NCCL and worker processes share memory; each shard in use is an open file."""
TIMEOUT_S = 20


@dataclass(frozen=True)
class DoctorConfig:
    """Settings of ``xling doctor``.

    Args:
        where: folder whose disk is looked at: where runs are to be written.
    """

    where: Path = Path()


@dataclass(frozen=True)
class Finding:
    """Finding of one check of `xling doctor`: its state, and what to do.

    Attributes:
        what: what was looked at.
        state: ``ok``, ``warning`` or ``broken``.
        detail: what the check saw.
        fix: what to do about it, "" where nothing is to be done.
    """

    what: str
    state: State
    detail: str
    fix: str = ""


def run(cfg: DoctorConfig) -> Answer:
    """Look at everything and return what was found, with exit code 1 when something is broken."""
    findings = [finding for check in CHECKS for finding in guarded(check, cfg)]
    broken = [f for f in findings if f.state == BROKEN]
    warnings = [f for f in findings if f.state == WARNING]
    width = max(len(f.what) for f in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<8} {finding.what:<{width}}  {finding.detail}")
        if finding.fix:
            lines.append(f"{'':8} {'':{width}}  fix: {finding.fix}")
    verdict = f"{len(broken)} broken" if broken else "usable"
    lines.append(f"{verdict}, {len(warnings)} warning{'s' * (len(warnings) != 1)}")
    facts = {
        "usable": not broken,
        "findings": [asdict(f) | {"found": f.detail} for f in findings],
    }  # its name until 0.2
    return Answer("\n".join(lines), facts, exit_code=1 if broken else 0)


def guarded(check: Callable[[DoctorConfig], Iterator[Finding]], cfg: DoctorConfig) -> Iterator[Finding]:
    """Yield the findings of a check; a crash of the check becomes a finding."""
    progress.doing(f"checking {check.__name__.replace('_', ' ')}")
    try:
        yield from check(cfg)
    except Exception as error:
        yield Finding(
            check.__name__, BROKEN, _first_line(error), "report this with the whole output of xling doctor"
        )


def python(cfg: DoctorConfig) -> Iterator[Finding]:
    """Check Python and the version of xling."""
    version, fits = platform.python_version(), (3, 11) <= sys.version_info[:2] <= (3, 12)
    fix = "" if fits else "make install PYTHON=python3.11"
    yield Finding("python", OK if fits else BROKEN, f"{version} at {sys.executable}", fix)
    yield Finding("machine", OK, f"{platform.platform()}, {os.cpu_count()} processors")


def packages(cfg: DoctorConfig) -> Iterator[Finding]:
    """Check the installed packages against xling's requirements."""
    wanted = [Requirement(line) for line in metadata.requires("xling") or []]
    wanted = [r for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})]
    wrong = []
    for requirement in wanted:
        try:
            there = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing")
            continue
        if not requirement.specifier.contains(there, prereleases=True):
            wrong.append(f"{requirement.name} {there} is not {requirement.specifier}")
    if wrong:
        yield Finding("packages", BROKEN, "; ".join(wrong), "make install")
    else:
        yield Finding(
            "packages", OK, f"xling {metadata.version('xling')} and the {len(wanted)} packages it asks for"
        )


def optional(cfg: DoctorConfig) -> Iterator[Finding]:
    """Check the packages that only some commands need."""
    lost = {
        extra: [name for name in names if importlib.util.find_spec(name) is None]
        for extra, names in inputs.EXTRAS.items()
    }
    lost = {extra: names for extra, names in lost.items() if names}
    if not lost:
        yield Finding("extras", OK, ", ".join(inputs.EXTRAS))
        return
    detail = "; ".join(f"{extra} lacks {', '.join(names)}" for extra, names in lost.items())
    yield Finding("extras", OK, detail, f"pip install 'xling[{','.join(lost)}]'")


def torch_and_gpus(cfg: DoctorConfig) -> Iterator[Finding]:
    """Check PyTorch, and whether it sees the machine's accelerators."""
    if importlib.util.find_spec("torch") is None:
        detail = "not installed: corpora can be built and inspected, models cannot be used"
        yield Finding("torch", WARNING, detail, "pip install 'xling[train]'")
        return
    torch, error = imported("torch")
    if torch is None:
        yield Finding("torch", BROKEN, error, "make install")
        return
    yield Finding("torch", OK, f"{torch.__version__}, {torch.get_num_threads()} threads")
    cards = _output(["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"])
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            facts = torch.cuda.get_device_properties(index)
            yield Finding(f"gpu {index}", OK, f"{facts.name}, {facts.total_memory / GIB:.0f} GiB")
    elif cards and torch.version.cuda is None:
        fix = "make install TORCH_INDEX=<wheel index for your CUDA> TORCH=torch==<version>+cu<release>"
        yield Finding(
            "gpu", BROKEN, f"{cards.splitlines()[0]} is here, this torch is built for processors alone", fix
        )
    elif cards:
        problem = f"{cards.splitlines()[0]} is here, torch for CUDA {torch.version.cuda} cannot use it"
        yield Finding(
            "gpu", BROKEN, problem, "update the driver, or install torch for an older CUDA (README.md)"
        )
    else:
        yield Finding("gpu", OK, "none: training runs on the processor")


def training_precision(cfg: DoctorConfig) -> Iterator[Finding]:
    """Say in which precision trainings run here, and why."""
    torch, _ = imported("torch")
    if torch is not None:
        fast, why = has_fast_bfloat16(torch)
        yield Finding("precision", OK, f"{'bfloat16' if fast else 'float32'} in training: {why}")


def nccl(cfg: DoctorConfig) -> Iterator[Finding]:
    """Check the communication backend of distributed training."""
    if importlib.util.find_spec("torch") is None:
        return
    torch, error = imported("torch")
    if torch is None or not torch.distributed.is_available():
        yield Finding("processes", BROKEN, error or "torch.distributed is not built in", "make install")
    elif not torch.cuda.is_available():
        state = OK if torch.distributed.is_gloo_available() else BROKEN
        yield Finding("processes", state, "gloo; NCCL is of no use without a GPU")
    elif torch.distributed.is_nccl_available():
        version = ".".join(map(str, torch.cuda.nccl.version()))
        yield Finding("processes", OK, f"NCCL {version}")
    else:
        yield Finding(
            "processes", BROKEN, "GPUs, and a torch without NCCL", "make install TORCH_INDEX=... TORCH=..."
        )


def fairseq(cfg: DoctorConfig) -> Iterator[Finding]:
    """Check the package fairseq and each of its patches."""
    if importlib.util.find_spec("torch") is None:
        return
    module, error = imported("fairseq")
    if module is None:
        yield Finding("fairseq", BROKEN, error, "make install")
        return
    yield Finding("fairseq", OK, f"{metadata.version('fairseq-fixed')} from {Path(module.__file__).parent}")
    compat = importlib.import_module("xling.compat")
    compat.install()
    for repair in compat.repairs():
        state = f"{'patched' if repair.holds else 'not patched'}: {repair.cause}"
        fix = "" if repair.holds else "the repairs are for fairseq-fixed 0.12.3.1 alone: make install"
        yield Finding(f"repair: {repair.name}", OK if repair.holds else BROKEN, state, fix)


def torchaudio(cfg: DoctorConfig) -> Iterator[Finding]:
    """Check torchaudio: fairseq requires it, nothing here uses it, and a broken one stops transformers."""
    try:
        version = metadata.version("torchaudio")
    except metadata.PackageNotFoundError:
        yield Finding("torchaudio", OK, "not installed, and not needed")
        return
    # In a process of its own: a library that was half loaded stays so.
    done = subprocess.run(
        [sys.executable, "-c", "import torchaudio"], capture_output=True, text=True, timeout=6 * TIMEOUT_S
    )
    if done.returncode == 0:
        yield Finding("torchaudio", OK, version)
    else:
        last = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        problem = f"{version} cannot be loaded with this torch, so transformers cannot either: {last}"
        fix = "python -m pip uninstall torchaudio (fairseq asks for it, nothing here uses it)"
        yield Finding("torchaudio", WARNING, problem, fix)


def slurm(cfg: DoctorConfig) -> Iterator[Finding]:
    """Check the Slurm cluster, if there is one."""
    if not shutil.which("sbatch"):
        yield Finding("slurm", OK, "not here: cluster=slurm is for a machine that has sbatch")
        return
    version, answer = _output(["sbatch", "--version"]), _output(["scontrol", "ping"])
    if "UP" not in answer:
        fix = "ask who runs the cluster"
        yield Finding("slurm", WARNING, f"{version or 'installed'}, its controller does not answer", fix)
        return
    nodes = _output(["sinfo", "--noheader", "--format=%P %D nodes %t"])
    yield Finding("slurm", OK, f"{version}; {'; '.join(nodes.splitlines()) or 'no partition'}")


def disk(cfg: DoctorConfig) -> Iterator[Finding]:
    """Check free space and write permission for runs."""
    place = cfg.where.absolute()
    while not place.is_dir():
        place = place.parent
    free = shutil.disk_usage(place).free / GIB
    if not os.access(place, os.W_OK):
        yield Finding("disk", BROKEN, f"{place} cannot be written to", "choose another out=, or where= here")
    elif free < DISK_GIB:
        yield Finding(
            "disk", WARNING, f"{free:.1f} GiB free in {place}", f"free {DISK_GIB} GiB, or write elsewhere"
        )
    else:
        yield Finding("disk", OK, f"{free:,.0f} GiB free in {place}")


def memory(cfg: DoctorConfig) -> Iterator[Finding]:
    """Check memory, shared memory and the limit of open files."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    yield Finding("memory", OK, f"{total:,.1f} GiB")
    shm = Path("/dev/shm")
    if not shm.is_dir():
        yield Finding(
            "shared memory", WARNING, f"no {shm}", "mount a tmpfs there: processes share tensors through it"
        )
    else:
        size = shutil.disk_usage(shm).total / GIB
        fix = f"docker run --shm-size={4 * SHM_GIB}g, or mount -o remount,size={4 * SHM_GIB}g {shm}"
        state = OK if size >= SHM_GIB else WARNING
        yield Finding("shared memory", state, f"{size:.2f} GiB", fix if state == WARNING else "")
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft < OPEN_FILES
    fix = f"ulimit -n {min(hard, 8 * OPEN_FILES) if hard > 0 else 8 * OPEN_FILES}" if few else ""
    yield Finding("open files", WARNING if few else OK, f"at most {soft:,}", fix)


CHECKS: tuple[Callable[[DoctorConfig], Iterator[Finding]], ...] = (
    python, packages, torch_and_gpus, training_precision, nccl, fairseq, torchaudio, optional, slurm, disk, memory,
)  # fmt: skip


def imported(name: str) -> tuple[Any, str]:
    """Import a module; return None and the reason if it cannot be loaded."""
    try:
        return importlib.import_module(name), ""
    except Exception as error:
        return None, _first_line(error)


def _first_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:200]


def _output(command: list[str]) -> str:
    """Return a program's output, "" if it is missing, fails or takes too long."""
    if not shutil.which(command[0]):
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
