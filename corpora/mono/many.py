"""Corpora of many languages from one pass over the input: ``xling corpus mono lang=sw,eu`` and ``lang=all``.

Phases: ``plan``; ``route`` (map over parts) reads, repairs and identifies; ``publish_routed`` publishes the routed
documents; ``plans`` lists the parts of each language. Then come the phases of one language, each for all
languages at once, so that an array holds the parts of all. ``overview`` publishes the table of languages. The
routed documents are kept, so that another language can be built without reading the input again.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from xling.core.commands.runner import Phase
from xling.core.errors import UserError
from xling.core.output import sealed
from xling.core.output.command_result import Answer
from xling.core.output.parts import Workspace, read_json
from xling.corpora.card.ledgers import ledger_to_json
from xling.corpora.card.publication import STATS
from xling.corpora.mono import one, overview, route
from xling.corpora.mono.build import PLAN, Build, read_plan, resolve
from xling.corpora.mono.plan import is_current, save_new_plan
from xling.corpora.mono.publish_phase import NothingLeftError
from xling.corpora.mono.settings import ALL
from xling.corpora.sources.routed import INDEX_FILE

_PARTS, _EMPTY = "packed.json", "empty"
_ORDER = ("read", "dedup", "filter", "against", "near", "shingle", "fit", "score", "cut", "finish", "publish")


def phases(build: Build) -> Sequence[Phase]:
    """Return the phases known so far."""
    workspace = build.workspace
    if not workspace.root.is_dir() and overview.is_published(build):
        return (Phase("plan"), Phase("overview"))
    known = [Phase("plan")]
    if build.plan.parts:
        known += [Phase("route", len(build.plan.parts)), Phase("publish_routed")]
    if not workspace.root.is_dir():
        return known
    known.append(Phase("plans"))
    if (workspace.root / _PARTS).is_file():
        known += [
            Phase(name, len(_parts_of(workspace, name))) for name in _ORDER if _parts_of(workspace, name)
        ]
        known.append(Phase("overview"))
    return known


def run_part(build: Build, phase: str, index: int) -> Answer | None:
    """Run one part of one phase of any language; a part that is there already is left as it is."""
    if phase == "plan":
        try:
            _run_plan(build)
        except UserError:
            build.workspace.delete()
            with contextlib.suppress(OSError):  # it holds routed documents
                build.root.rmdir()
            raise
    elif phase == "route":
        if not build.workspace.part("route", index).is_dir() and not route.is_routed(build):
            route.run_route(build, index)
    elif phase == "publish_routed":
        if not route.is_routed(build):
            route.publish_routed(build)
            shutil.rmtree(build.workspace.root / "route")
    elif phase == "plans":
        _plan_langs(build)
    elif phase == "overview":
        return _run_overview(build)
    else:
        lang, part = _parts_of(build.workspace, phase)[index]
        try:
            one.run_part(resolve(build.cfg.for_lang(lang)), phase, part)
        except NothingLeftError as error:
            sealed.write_json(build.workspace.root / _EMPTY / f"{lang}.json", ledger_to_json(error.ledger))
    return None


def _run_plan(build: Build) -> None:
    if overview.is_published(build):
        return
    root = build.workspace.root
    root.mkdir(parents=True, exist_ok=True)
    if build.plan.parts and is_current(build.plan, build):
        return
    if build.plan.parts:
        shutil.rmtree(root)  # parts of other input
        root.mkdir()
    if not (route.is_routed(build) and is_current(read_plan(build.root / route.FOLDER / PLAN), build)):
        save_new_plan(build, [route.router(build)])


def _plan_langs(build: Build) -> None:
    """Plan each language, and write down which parts each phase has."""
    index = read_json(build.root / route.FOLDER / INDEX_FILE)
    langs = sorted(index) if build.cfg.lang == ALL else [lang for lang in build.langs if lang in index]
    parts: dict[str, list[tuple[str, int]]] = {}
    for lang in langs:
        planned = one.ensure_plan(resolve(build.cfg.for_lang(lang)), aloud=False)
        for phase in one.phases(planned)[1:]:
            parts.setdefault(phase.name, []).extend((lang, part) for part in range(phase.num_parts))
    sealed.write_json(build.workspace.root / _PARTS, parts)


def _parts_of(workspace: Workspace, phase: str) -> list[tuple[str, int]]:
    """Return language and part for each part of a phase."""
    path = workspace.root / _PARTS
    return _read_parts(path, path.stat().st_mtime_ns).get(phase, [])


@lru_cache(maxsize=1)
def _read_parts(path: Path, mtime_ns: int) -> dict[str, list[tuple[str, int]]]:
    """Return the parts of each phase; the file's ``mtime_ns`` is another where it was written again."""
    fix = f"delete {path.parent} and run the same command again"
    parts: dict[str, list[tuple[str, int]]] = sealed.read_json(path, fix)
    return parts


def _run_overview(build: Build) -> Answer:
    root = build.workspace.root
    if not root.is_dir():
        return overview.summary(build.out)
    langs = [lang for lang, _ in _parts_of(build.workspace, "publish")]
    ledgers: dict[str, Any] = {}
    for lang in langs:
        empty = root / _EMPTY / f"{lang}.json"
        ledgers[lang] = (
            sealed.read_json(empty) if empty.is_file() else read_json(build.root / lang / STATS)["ledger"]
        )
    missing = [lang for lang in build.langs if lang not in langs]
    answer = overview.run(build, ledgers, missing)
    if not build.cfg.keep_work:
        for lang in langs:
            shutil.rmtree(resolve(build.cfg.for_lang(lang)).workspace.root.parent, ignore_errors=True)
        shutil.rmtree(root.parent, ignore_errors=True)
    return answer
