"""Clean monolingual corpora with data cards from sources, one language or many: ``xling corpus mono``."""

from collections.abc import Sequence

from xling.core.commands.runner import Phase
from xling.core.output.command_result import Answer
from xling.corpora.mono import estimate, many, one
from xling.corpora.mono.build import resolve
from xling.corpora.mono.settings import MonoConfig

__all__ = ["MonoConfig", "phases", "run_part"]


def phases(cfg: MonoConfig) -> Sequence[Phase]:
    """Return the phases known so far."""
    if cfg.dry_run:
        return (Phase("estimate"),)
    build = resolve(cfg)
    return (many if build.is_crawl else one).phases(build)


def run_part(cfg: MonoConfig, phase: str, index: int) -> Answer | None:
    """Run one part of one phase; a part that is there already is left as it is.

    Returns:
        A summary from the last phase, else nothing.
    """
    build = resolve(cfg)
    if phase == "estimate":
        return estimate.run(build)
    return (many if build.is_crawl else one).run_part(build, phase, index)
