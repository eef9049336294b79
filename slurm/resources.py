"""Resources that a stage requests from the cluster: built-in defaults, overridden by the profile of a site.

A site profile is a YAML file, named by ``slurm.profile=`` on the command line or by ``XLING_SITE``::

    folder: runs/jobs                       # where runs keep their records and logs
    default: {partition: cpu, account: nlp, setup: ["module load python/3.11"]}
    stages:
      pretrain: {partition: gpu, nodes: 2, tasks_per_node: 8, gpus_per_node: 8, cpus_per_task: 6}
      corpus mono: {array_parallelism: 200}
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from xling.core.commands.runner import STAGES
from xling.core.errors import UserError, unknown
from xling.core.package_tables import load_table
from xling.core.settings import config
from xling.slurm.options import check_container, check_options

SITE_VARIABLE = "XLING_SITE"
COLLECTOR = "collect"
MAX_NUMBER = 10_000_000
_MAY_BE_ZERO = ("gpus_per_node", "inline_parts", "stay_s", "hang_slack_s", "hang_start_s")
_SAFE_VALUE = re.compile(r"[\w.,:;=&|()\[\]*+@/-]*")


@dataclass(frozen=True)
class Resources:
    """Resources of one part of a stage (an array element, or a whole training).

    Attributes:
        nodes: nodes of one part.
        tasks_per_node: processes on each node; for training one per GPU.
        cpus_per_task: CPU cores of each process.
        mem_gb: memory per node, GiB; 0 asks for all of a node, ``none`` leaves ``--mem`` to the site.
        gpus_per_node: GPUs per node; 0 asks for none.
        timeout_min: time limit in minutes; a part that can save itself goes on after it.
        partition: Slurm partition, "" for the site's default.
        account: account that is charged.
        qos: quality of service.
        gres: generic resources, for example ``gpu:a100:4``; set either this or ``gpus_per_node``.
        constraint: required node features.
        array_parallelism: parts of one phase that may run at the same time.
        max_array_size: longest array that the site takes (``MaxArraySize``); more parts become several.
        tasks_per_job: parts that one job runs, one after the other within its time limit: fewer and longer jobs.
        inline_parts: a phase of at most so many parts runs in the job that ended the phase before, one part
            after the other: it waits in no queue.
        stay_s: a job that has ended its parts stays so many seconds for parts of the next phase, on a cluster where
            no job waits for resources; 0: it ends.
        max_attempts: how often a part that fails is tried in all before the step fails.
        signal_delay_s: seconds before the time limit at which a part is told to save.
        hang_slack_s: a training whose next update is so many seconds late hangs: it is ended, and started again
            without that node; 0 never ends it.
        hang_start_s: with ``hang_slack_s``, the same for a process that is silent for so many seconds before its
            training begins, in imports or the rendezvous; 0 never ends it.
        setup: shell lines of the site that run before each job, for example ``module load``.
        sbatch: further options of sbatch, for example ``slurm.sbatch.exclude=node7``; ``true`` for a flag.
        srun: further options of srun.
        container: image in which the parts run; collectors and barriers run outside of it.
        container_runtime: ``apptainer``, or ``pyxis`` where srun starts containers itself.
        container_python: Python of the image; xling has to be installed there, or come with ``snapshot``.
        mounts: further ``SOURCE[:TARGET]`` in the container; the working directory and the records are there.
        snapshot: copy the package when the run is submitted; its jobs use the copy whatever is edited later.
    """

    nodes: int = 1
    tasks_per_node: int = 1
    cpus_per_task: int = 1
    mem_gb: float | None = 4.0
    gpus_per_node: int = 0
    timeout_min: int = 60
    partition: str = ""
    account: str = ""
    qos: str = ""
    gres: str = ""
    constraint: str = ""
    array_parallelism: int = 64
    max_array_size: int = 1000
    tasks_per_job: int = 1
    inline_parts: int = 4
    stay_s: int = 0
    max_attempts: int = 3
    signal_delay_s: int = 90
    hang_slack_s: int = 0
    hang_start_s: int = 0
    setup: tuple[str, ...] = ()
    sbatch: dict[str, str] = field(default_factory=dict)
    srun: dict[str, str] = field(default_factory=dict)
    container: str = ""
    container_runtime: str = "apptainer"
    container_python: str = "python3"
    mounts: tuple[str, ...] = ()
    snapshot: bool = False

    def __post_init__(self) -> None:
        """Refuse what Slurm would misread.

        Raises:
            UserError: a number is out of range or a name could not stand in a batch script.
        """
        for item in fields(self):
            value, least = getattr(self, item.name), 0 if item.name in _MAY_BE_ZERO else 1
            if isinstance(value, int) and not isinstance(value, bool) and value < least:
                raise UserError(f"{item.name}={value}", f"a whole number from {least}")
            if isinstance(value, str) and item.name != "container" and not _SAFE_VALUE.fullmatch(value):
                # A line break here would become a line of shell in the batch script.
                raise UserError(
                    f"{item.name}={value!r}", "letters, digits and . , : ; = & | ( ) [ ] * + @ / -"
                )
            if isinstance(value, int) and value > MAX_NUMBER:
                raise UserError(f"{item.name}={value}", f"at most {MAX_NUMBER:,}")
        if self.mem_gb and not 1 / 1024 <= self.mem_gb <= MAX_NUMBER:  # less would be rounded to --mem=0
            raise UserError(
                f"mem_gb={self.mem_gb}",
                "a number of GiB, at least 0.001, 0 for all of a node, or none for the site's",
            )
        if self.signal_delay_s >= min(self.timeout_min * 60, 65536):
            raise UserError(
                f"signal_delay_s={self.signal_delay_s} with timeout_min={self.timeout_min}",
                "fewer seconds than the time limit has, and than 65,536",
            )
        if self.tasks_per_job > 1 and self.num_tasks > 1:
            raise UserError(
                f"tasks_per_job={self.tasks_per_job} with {self.num_tasks} processes for one part",
                "tasks_per_job=1, or nodes=1 tasks_per_node=1",
            )
        if "mem-per-gpu" in self.sbatch and self.mem_gb is not None:
            raise UserError(
                f"sbatch.mem-per-gpu with mem_gb={self.mem_gb:g}", "one of them", "mem_gb=none beside it"
            )
        if self.gpus_per_node and "gpu" in self.gres:
            raise UserError(
                f"gres={self.gres} with gpus_per_node={self.gpus_per_node}", "one of them", "leave one out"
            )
        check_options("sbatch", self.sbatch)
        check_options("srun", self.srun)
        check_container(self.container, self.container_runtime, self.mounts)

    @property
    def num_tasks(self) -> int:
        """Number of processes of one part: nodes x tasks per node."""
        return self.nodes * self.tasks_per_node

    def num_jobs(self, num_parts: int) -> int:
        """Return the number of jobs that run ``num_parts`` parts."""
        return -(-num_parts // self.tasks_per_job)

    def node_hours(self, num_parts: int = 1) -> float:
        """Return the most node-hours that ``num_parts`` parts can take when each job runs to its time limit once."""
        return self.nodes * self.timeout_min / 60 * self.num_jobs(num_parts)


DEFAULTS: dict[str, dict[str, Any]] = load_table(__package__, "defaults.yaml")
"""Stage -> what it asks for where the site says nothing."""


@dataclass(frozen=True)
class Site:
    """A site profile as read.

    Attributes:
        folder: directory for the records and logs of runs; every node must see it.
        default: settings of `Resources` for every stage.
        stages: settings per stage, laid over ``default``; ``collect`` is the small job between phases.
    """

    folder: Path = Path("runs/jobs")
    default: dict[str, Any] = field(default_factory=dict)
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)

    def resources(self, stage: str, overrides: Mapping[str, Any] | None = None) -> Resources:
        """Return the resources of ``stage``: defaults, then the site's default, its stage, then ``overrides``.

        Raises:
            UserError: a setting is unknown or has the wrong type.
        """
        merged: dict[str, Any] = {}
        given = [
            _given(key, value) if isinstance(value, str) else {key: value}
            for key, value in (overrides or {}).items()
        ]
        for layer in (DEFAULTS.get(stage, {}), self.default, self.stages.get(stage, {}), *given):
            lines = layer.get("setup")  # commas in a line of shell divide nothing
            merged = config.merge(
                merged, {**layer, "setup": lines.splitlines()} if isinstance(lines, str) else layer
            )
        return config.from_dict(Resources, merged, f"the resources of {stage!r}")


def _given(key: str, text: str) -> dict[str, Any]:
    """Return a setting as `config.nested` does; ``[a|b]&c`` and ``[ -f FILE ] && . FILE``, no YAML, are text."""
    try:
        return config.nested(key, text)
    except UserError:
        if key.partition(".")[0] not in ("constraint", "sbatch", "srun") and not text.startswith("[ "):
            raise
        return config.nested_value(key, text)


def read_site(path: str = "") -> Site:
    """Return the site profile at ``path``, else the one that ``XLING_SITE`` names, else the built-in defaults.

    Raises:
        UserError: no such file, a key or a stage that does not exist, or a value of the wrong type.
    """
    profile_path = path or os.environ.get(SITE_VARIABLE, "")
    if not profile_path:
        return Site()
    data = config.read_yaml(Path(profile_path))
    names = [f.name for f in fields(Site)]
    for key in data:
        if key not in names:
            raise unknown(f"key in {profile_path}:", key, names)
    folder = Path(os.path.expandvars(data.get("folder", str(Site.folder)))).expanduser()
    stages = _read_mapping(data, "stages", profile_path)
    for stage in stages:
        if stage not in STAGES and stage != COLLECTOR:
            raise unknown(f"stage in {profile_path}:", stage, [*STAGES, COLLECTOR])
    default = _read_mapping(data, "default", profile_path)
    site = Site(folder, default, {s: _read_mapping(stages, s, profile_path) for s in stages})
    for stage in (*stages, COLLECTOR):
        site.resources(stage)
    return site


def _read_mapping(data: Mapping[str, Any], key: str, profile_path: str) -> dict[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, Mapping):
        raise UserError(f"{profile_path}: {key}={value!r}", "a mapping of settings")
    return dict(value)
