"""The parts of a command of the pipeline: its phases, and the names of what carries them out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xling.core.registry import load


@dataclass(frozen=True)
class Phase:
    """A phase called ``name`` with ``num_parts`` independent parts."""

    name: str
    num_parts: int = 1


@dataclass(frozen=True)
class Stage:
    """A command of the pipeline; its modules are imported only when it is used.

    Args:
        name: the words after ``xling``, for example ``corpus mono``.
        config: ``module:Dataclass`` of the configuration.
        run: ``module:function`` with signature ``run(cfg) -> Any``, for a stage with one part.
        phases: ``module:function`` with ``phases(cfg) -> Sequence[Phase]``, for a stage with several parts;
            called again after each phase, since the number of later parts may only be known then.
        run_part: ``module:function`` with ``run_part(cfg, phase_name, index) -> Any``.
        positional: field of the configuration that a bare argument fills; several fill a tuple field. Several
            names separated by spaces are filled one by one.
        reads: fields that name a file or a folder; they are checked before heavy imports.
        check: ``module:function`` with ``check(cfg)``; checks settings and inputs without heavy imports, before the
            stage itself is imported.
        plan: ``module:function`` with ``plan(cfg) -> Any``; as ``check``, and ``run`` is given what it returns in place
            of the settings.
        available: ``module:function`` with ``available(cfg) -> (settings or None, problems)``, for pipelines: the
            settings without what the data folder lacks.
        words: ``module:function`` that returns the words which its first positional may have, to suggest the nearest.
        uses_cores: whether its parts take one core each, so that as many may run at once as there are cores.
        help: one line for ``xling --help``.
        extra: extras of this distribution whose packages every run needs, separated by spaces.
    """

    name: str
    config: str
    run: str = ""
    phases: str = ""
    run_part: str = ""
    positional: str = ""
    reads: str = ""
    check: str = ""
    plan: str = ""
    available: str = ""
    words: str = ""
    uses_cores: bool = False
    help: str = ""
    extra: str = ""


def phases_of(stage: Stage, cfg: Any) -> Sequence[Phase]:
    """Return the phases of ``stage`` under ``cfg``; a simple stage has one phase of one part, named ``run``."""
    if not stage.phases:
        return (Phase("run"),)
    phases: Sequence[Phase] = load(stage.phases)(cfg)
    return phases
