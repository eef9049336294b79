"""Corpora of many languages from one pass over the input: ``xling corpus mono lang=sw,eu`` and ``lang=all``.

Phases: ``plan``; ``route`` (map over parts) reads, repairs and identifies; ``publish_routed`` publishes the routed
documents; ``plans`` lists the parts of each language. Then come the phases of one language, each for all
languages at once, so that an array holds the parts of all. ``overview`` publishes the table of languages. The
routed documents are kept, so that another language can be built without reading the input again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from xling.core.commands.runner import Phase
from xling.core.output.answer import Answer
from xling.core.output.parts import Workspace, read_json, write_json
from xling.corpora.card.ledgers import ledger_to_json
from xling.corpora.mono import one, overview, route
from xling.corpora.mono.plan import FILE_NAME as PLAN
from xling.corpora.mono.plan import announce, announce_default, make_plan, read_plan, save_plan, still_true
from xling.corpora.mono.publish_phase import NothingLeftError
from xling.corpora.mono.settings import ALL, MonoConfig
from xling.corpora.sources.routed import INDEX_FILE

_PACKED, _EMPTY = "packed.json", "empty"
_ORDER = ("read", "dedup", "filter", "near", "shingle", "fit", "score", "cut", "finish", "publish")


def phases(cfg: MonoConfig) -> Sequence[Phase]:
    """Return the phases known so far."""
    workspace = _workspace(cfg)
    if not workspace.root.is_dir() and overview.published(cfg):
        return (Phase("plan"), Phase("overview"))
    known = [Phase("plan")]
    if (workspace.root / PLAN).is_file():
        known += [Phase("route", len(read_plan(workspace.root / PLAN).parts)), Phase("publish_routed")]
    if not workspace.root.is_dir():
        return known
    known.append(Phase("plans"))
    if (workspace.root / _PACKED).is_file():
        known += [Phase(name, len(_packed(workspace, name))) for name in _ORDER if _packed(workspace, name)]
        known.append(Phase("overview"))
    return known


def run_part(cfg: MonoConfig, phase: str, index: int) -> Answer | None:
    """Run one part of one phase of any language; a part that is there already is left as it is."""
    workspace = _workspace(cfg)
    if phase == "plan":
        _run_plan(cfg, workspace)
    elif phase == "route":
        if not workspace.part("route", index).is_dir() and not route.routed(cfg):
            route.run_route(cfg, workspace, read_plan(workspace.root / PLAN), index)
    elif phase == "publish_routed":
        if not route.routed(cfg):
            route.publish_routed(cfg, workspace, read_plan(workspace.root / PLAN))
            shutil.rmtree(workspace.root / "route")
    elif phase == "plans":
        _run_plans(cfg, workspace)
    elif phase == "overview":
        return _run_overview(cfg, workspace)
    else:
        lang, part = _packed(workspace, phase)[index]
        _run_one(cfg, workspace, lang, phase, part)
    return None


def _workspace(cfg: MonoConfig) -> Workspace:
    return Workspace.for_output(cfg.root / overview.FOLDER, cfg.content())


def _run_plan(cfg: MonoConfig, workspace: Workspace) -> None:
    if overview.published(cfg):
        return
    workspace.root.mkdir(parents=True, exist_ok=True)
    path = workspace.root / PLAN
    if path.is_file() and not still_true(read_plan(path), cfg):
        shutil.rmtree(workspace.root)  # parts of other input
        workspace.root.mkdir()
    if path.is_file() or (route.routed(cfg) and still_true(read_plan(cfg.root / route.FOLDER / PLAN), cfg)):
        return
    cfg.check_langid()
    announce_default(cfg)
    plan = make_plan(cfg)
    save_plan(plan, path)
    announce(plan, cfg)


def _run_plans(cfg: MonoConfig, workspace: Workspace) -> None:
    """Plan each language, and write down which parts each phase has."""
    index = read_json(cfg.root / route.FOLDER / INDEX_FILE)
    langs = [lang for lang in (sorted(index) if cfg.lang == ALL else cfg.langs) if lang in index]
    packed: dict[str, list[tuple[str, int]]] = {}
    for lang in langs:
        own = cfg.for_lang(lang)
        one.make(own, aloud=False)
        for phase in one.phases(own)[1:]:
            packed.setdefault(phase.name, []).extend((lang, part) for part in range(phase.num_parts))
    temporary = workspace.root / f".{_PACKED}.tmp"
    write_json(temporary, packed)
    temporary.replace(workspace.root / _PACKED)


def _packed(workspace: Workspace, phase: str) -> list[tuple[str, int]]:
    """Return language and part for each part of a phase."""
    path = workspace.root / _PACKED
    return _read_packed(path, path.stat().st_mtime_ns).get(phase, [])


@lru_cache(maxsize=1)
def _read_packed(path: Path, stamp: int) -> dict[str, list[tuple[str, int]]]:
    """Return the parts of each phase; the file's ``stamp`` is another where it was written again."""
    packed: dict[str, list[tuple[str, int]]] = read_json(path)
    return packed


def _run_one(cfg: MonoConfig, workspace: Workspace, lang: str, phase: str, part: int) -> None:
    try:
        one.run_part(cfg.for_lang(lang), phase, part)
    except NothingLeftError as error:
        (workspace.root / _EMPTY).mkdir(exist_ok=True)
        write_json(workspace.root / _EMPTY / f"{lang}.json", ledger_to_json(error.ledger))


def _run_overview(cfg: MonoConfig, workspace: Workspace) -> Answer:
    if not workspace.root.is_dir():
        return overview.summary(cfg.root / overview.FOLDER)
    langs = [lang for lang, _ in _packed(workspace, "publish")]
    ledgers: dict[str, Any] = {}
    for lang in langs:
        empty = workspace.root / _EMPTY / f"{lang}.json"
        ledgers[lang] = read_json(empty if empty.is_file() else cfg.root / lang / "stats.json")
        if not empty.is_file():
            ledgers[lang] = ledgers[lang]["ledger"]
    missing = [] if cfg.lang == ALL else [lang for lang in cfg.langs if lang not in langs]
    answer = overview.run(cfg, ledgers, missing)
    if not cfg.keep_work:
        for lang in langs:
            _remove(cfg.for_lang(lang).workspace().root.parent)
        _remove(workspace.root.parent)
    return answer


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
