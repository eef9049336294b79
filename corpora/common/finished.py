"""Decision on a corpus that is finished already: keep it, refuse to replace it, or make it again."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.output.manifest import Manifest
from xling.core.output.parts import Workspace
from xling.core.output.sealed import DamagedError
from xling.text.document import Ledger

_BASES = "base_urls"


class NothingLeftError(UserError):
    """Raised when no document or pair passed; ``ledger`` says where they were dropped."""

    ledger: Ledger


@contextmanager
def tidied(workspace: Callable[[], Workspace], keep: bool, is_over: bool) -> Iterator[None]:
    """Delete the workspace of a build that cannot go on after a user's mistake in the block.

    Args:
        keep: leave it in place.
        is_over: whether any mistake ends the build; else only `NothingLeftError` does.
    """
    try:
        yield
    except DamagedError:
        raise
    except UserError as error:
        if (is_over or isinstance(error, NothingLeftError)) and not keep:
            workspace().delete()
        raise


def finished(
    out: Path,
    stage: str,
    content: dict[str, Any],
    recorded: Mapping[str, str],
    is_in_place: Callable[[], bool],
    digests_now: Callable[[], Mapping[str, str]],
) -> Manifest | None:
    """Return the manifest of a finished corpus if it was made with these settings from these files, else None.

    A file is the same if it has the same content at the same place of the order, wherever it lies.

    Args:
        content: the settings that determine the corpus; ``source`` names its files.
        recorded: file -> SHA-256 of those that the finished corpus was made from; empty where none is recorded.
        is_in_place: says fast whether those files can be taken for the input that ``source`` names now.
        digests_now: file -> SHA-256 of the files that ``source`` names now; called only where that is in doubt.

    Raises:
        UserError: it was made with other settings or from other files, and ``overwrite=true`` was not given; a
            file is missing; or another stage or program made ``out``.
    """
    inputs: Mapping[str, str] = {}
    published = manifest.read(out) if manifest.stage_of(out) == stage else None
    if published and _BASES in published.config and _places(published.config) == _places(content):
        content = content | {_BASES: published.config[_BASES]}
    if published and recorded:
        source, digests = published.config.get("source"), recorded
        if not (source == content["source"] and is_in_place()):
            digests = digests_now()
            if changed := _changed_files(recorded, digests):
                manifest.check_may_replace(out, changed)
                return None
        content = content | {"source": source}
        inputs = digests if published.inputs else {}
    return manifest.up_to_date(out, stage, content, map(Path, inputs))


def _places(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the publishers' addresses by scheme; of a folder, its path however it was spelled."""
    given = content.get(_BASES) or {}
    return {scheme: base if "://" in base else os.path.realpath(base) for scheme, base in given.items()}


def _changed_files(recorded: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Say for each file that is read now whether its content is new; empty if the contents are the same in order."""
    if list(recorded.values()) == list(current.values()):
        return []
    known = set(recorded.values())
    new = [f"{path} has other content" for path, digest in current.items() if digest not in known]
    return new or [f"{len(recorded)} files, now {len(current)}, or in another order"]


def unchanged(summary: Answer) -> Answer:
    """Return the answer of a build that finds its output finished and up to date."""
    return Answer(f"{summary}\n  up to date: nothing to do", summary.data)
