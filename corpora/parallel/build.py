"""``xling corpus parallel``: from sources to clean sentence pairs with a data card.

Phases: ``read`` (map over source URIs) fetches, reads and runs the filters of batches; ``publish`` runs the
filters of the whole corpus, splits it into train, dev and test and publishes Parquet and Moses files. A part of
``read`` is complete or absent, so that a killed run goes on and ends in the same bytes.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from xling.core.commands.runner import Phase
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.output.manifest import Manifest
from xling.core.output.parts import read_json, run_unless_published
from xling.corpora.common.finished import finished, tidied, unchanged
from xling.corpora.parallel.publish_phase import run_publish, summary
from xling.corpora.parallel.read_phase import INPUTS, inputs_of, run_read
from xling.corpora.parallel.settings import STAGE_NAME, Build, ParallelConfig, resolve

__all__ = ["ParallelConfig", "phases", "run_part"]


def phases(cfg: ParallelConfig) -> Sequence[Phase]:
    """Return ``read`` with a part a source URI, and ``publish``; that alone where nothing is to be done."""
    build = resolve(cfg)
    if published_manifest(build):
        return (Phase("publish"),)
    return (Phase("read", len(build.uris)), Phase("publish"))


def run_part(cfg: ParallelConfig, phase: str, index: int) -> Answer | None:
    """Run one part of one phase; a part that is there and whose input has not changed is left as it is.

    Returns:
        A summary from ``publish``, else nothing.
    """
    build = resolve(cfg)
    return run_unless_published(
        lambda: _run_tidily(build, phase, index),
        lambda: build.workspace,
        lambda: published_manifest(build),
        lambda: summary(build.out) if phase == "publish" else None,
    )


def _run_tidily(build: Build, phase: str, index: int) -> Answer | None:
    is_over = phase == "read" and len(build.uris) == 1
    with tidied(lambda: build.workspace, build.cfg.keep_work, is_over):
        return _run_part(build, phase, index)


def _run_part(build: Build, phase: str, index: int) -> Answer | None:
    if phase == "read":
        part = build.parts[index]
        if part.is_dir() and read_json(part / INPUTS)["digests"] != inputs_of(build, index):
            shutil.rmtree(part)
        if not part.is_dir():
            run_read(build, index)
        return None
    if published_manifest(build):
        return unchanged(summary(build.out))
    if missing := [index for index, part in enumerate(build.parts) if not part.is_dir()]:
        raise UserError(f"{build.out}: sources {missing} are not read", fix="run the phase read first")
    return run_publish(build)


def published_manifest(build: Build) -> Manifest | None:
    """Return the manifest of a corpus that was published with these settings from these files, else None.

    Raises:
        UserError: it was made with others, and ``overwrite=true`` was not given.
    """
    is_ours = manifest.stage_of(build.out) == STAGE_NAME
    recorded = manifest.read(build.out).inputs if is_ours else {}
    return finished(
        build.out,
        STAGE_NAME,
        build.content,
        recorded,
        lambda: all(Path(path).is_file() for path in recorded),
        lambda: dict(item for index in range(len(build.uris)) for item in inputs_of(build, index).items()),
    )
