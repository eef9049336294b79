"""``xling corpus parallel``: from sources to clean sentence pairs with a data card.

Phases: ``read`` (map over source URIs) fetches, reads and runs the filters of batches; ``publish`` runs the
filters of the whole corpus, splits it into train, dev and test and publishes Parquet and Moses files. A part of
``read`` is complete or absent, so that a killed run goes on and ends in the same bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from xling.core.commands.runner import Phase
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.answer import Answer
from xling.core.output.parts import read_json, run_unless_published
from xling.corpora.parallel.publish_phase import run_publish, summary
from xling.corpora.parallel.read_phase import INPUTS, inputs_of, run_read
from xling.corpora.parallel.settings import STAGE_NAME, ParallelConfig

__all__ = ["ParallelConfig", "phases", "run_part"]


def phases(cfg: ParallelConfig) -> Sequence[Phase]:
    """Return ``read`` with a part a source URI, then ``publish``; ``publish`` alone when nothing is to be done."""
    if is_published(cfg):
        return (Phase("publish"),)
    manifest.check_is_ours(cfg.directory, STAGE_NAME)
    return (Phase("read", len(cfg.uris)), Phase("publish"))


def run_part(cfg: ParallelConfig, phase: str, index: int) -> Answer | None:
    """Run one part of one phase; a part that is there and whose input has not changed is left as it is.

    Returns:
        A summary from ``publish``, else nothing.
    """
    return run_unless_published(
        lambda: _run_part(cfg, phase, index),
        cfg.workspace,
        lambda: is_published(cfg),
        lambda: summary(cfg.directory) if phase == "publish" else None,
    )


def _run_part(cfg: ParallelConfig, phase: str, index: int) -> Answer | None:
    if phase == "read":
        part = cfg.workspace().part("read", index)
        if part.is_dir() and read_json(part / INPUTS)["digests"] != inputs_of(cfg, index):
            shutil.rmtree(part)
        if not part.is_dir():
            run_read(cfg, index)
        return None
    if is_published(cfg):
        done = summary(cfg.directory)
        return Answer(f"{done}\n  up to date: nothing to do", done.data)
    missing = [i for i in range(len(cfg.uris)) if not cfg.workspace().part("read", i).is_dir()]
    if missing:
        raise UserError(f"{cfg.directory}: sources {missing} are not read", fix="run the phase read first")
    return run_publish(cfg)


def is_published(cfg: ParallelConfig) -> bool:
    """Return whether the corpus was made with these settings from the files as they are now."""
    out = cfg.directory
    if not (out / manifest.FILE_NAME).is_file():
        return False
    try:
        inputs = manifest.read(out).inputs
        return manifest.up_to_date(out, STAGE_NAME, cfg.content(), inputs) is not None  # type: ignore[arg-type]
    except UserError:  # an input is gone: it has to be fetched again
        return False
