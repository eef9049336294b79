"""Inputs of the steps of a pipeline: checked before the first one runs, and shown by ``xling run NAME --dry-run``."""

import dataclasses
import glob
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xling.core.commands.inputs import HUB_PREFIX, texts_in
from xling.core.commands.pipeline import Pipeline
from xling.core.commands.runner import STAGES, load
from xling.core.errors import UserError
from xling.core.output.command_result import Answer, tell
from xling.core.settings import unused
from xling.core.settings.config import to_dict
from xling.core.settings.values import named_path

_SITE = "xling.slurm.resources:read_site"
_FOLDERS = ("data", "corpora")
"""Settings beside those that a stage names that are files or folders to read."""
_ROWS = frozenset(("data", "classes", "dev", "mt", "pairs", "retrieval", "tags", "test", "train"))
"""Settings that name the rows of an evaluation."""
_PATHS = _ROWS.union(
    (
        "base",
        "checkpoints",
        "corpora",
        "dictionaries",
        "dictionary",
        "encoder",
        "files",
        "heldout",
        "init",
        "links",
    ),
    ("oracle", "project", "rows", "switched", "teacher", "text", "translator", "vocab", "words"),
)
"""Settings whose values with a slash are files or folders to read."""
_SCHEME = re.compile("[a-z0-9_-]+:(?!/[^/])|[^/]*://")
_LOCAL_URI = re.compile(
    "(?:text|moses|tsv|csv|jsonl|parquet|docx|odt|epub|html|tmx|xliff|po|xlsx|tbx|eaf):([^#-][^#]*)(?:#.*)?"
)


def with_what_is_there(pipeline: Pipeline, configs: Mapping[str, Any]) -> tuple[Pipeline, dict[str, Any]]:
    """Return a pipeline whose inputs are all there, with the settings of its steps.

    A step that is ``optional`` leaves out what its data folder lacks, and is left out with the steps that only it
    needs if nothing remains. A line says what is left out.

    Raises:
        UserError: an input is missing that no step makes; all of them are named.
    """
    for name, cfg in configs.items():
        unused.check(pipeline.steps[name].stage, cfg)
    if missing := missing_inputs(pipeline, configs):
        told = [f"{path} (of the steps {', '.join(names)})" for path, names in missing.items()]
        raise UserError(
            f"{'; '.join(told)}: there is no such file or folder", fix="check the paths; nothing was run"
        )
    kept: dict[str, Any] = {}
    for name, cfg in configs.items():
        stage = STAGES[pipeline.steps[name].stage]
        rows = [path for setting, path in inputs_of(stage.name, cfg) if setting in _ROWS]
        if not stage.available or any(_is_made(path, configs) for path in rows):
            kept[name] = cfg
            continue
        remaining, problems = load(stage.available)(cfg)
        if problems and not pipeline.steps[name].optional:
            raise UserError(
                f"step {name!r}: {'; '.join(problems)}", fix="put the rows there, or name other suites"
            )
        for problem in problems:
            tell(f"{name}: left out: {problem}")
        if remaining is not None:
            kept[name] = remaining
    kept = _without_unneeded(pipeline, kept)
    steps = {
        name: dataclasses.replace(step, after=tuple(each for each in step.after if each in kept))
        for name, step in pipeline.steps.items()
        if name in kept
    }
    return dataclasses.replace(pipeline, steps=steps), kept


def _without_unneeded(pipeline: Pipeline, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the steps without those that only steps left out need, or that need only such.

    Raises:
        UserError: none is left.
    """
    left = dict(kept)
    for name, step in pipeline.steps.items():
        if name in left and step.after and not any(each in left for each in step.after):
            tell(f"{name}: left out: no step is left that it needs")
            del left[name]
    for name in reversed(pipeline.steps):
        dependents = [other for other, step in pipeline.steps.items() if name in step.after]
        if name in left and dependents and not any(other in left for other in dependents):
            tell(f"{name}: left out: no step is left that needs it")
            del left[name]
    if not left:
        raise UserError(
            "every step is left out", fix="put the rows of at least one suite into the data folder"
        )
    return left


def missing_inputs(pipeline: Pipeline, configs: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return ``setting=path`` of each input that is not there and that no step makes -> the steps that read it."""
    steps: dict[str, list[str]] = {}
    for name, cfg in configs.items():
        for setting, path in inputs_of(pipeline.steps[name].stage, cfg):
            if not _is_there(path, configs) and not all(_is_there(each, configs) for each in path.split(",")):
                steps.setdefault(f"{setting}={path}", []).append(name)
    return steps


def inputs_of(stage: str, cfg: Any) -> Iterator[tuple[str, str]]:
    """Yield setting and path of each file or folder that the settings of a stage name as an input."""
    inputs: dict[tuple[str, str], None] = {}
    for setting in (*STAGES[stage].reads.split(), *_FOLDERS):
        inputs |= dict.fromkeys((setting, text) for _, text in texts_in(getattr(cfg, setting, None)) if text)
    for setting, text in texts_in(cfg, "", _PATHS):
        uri = _LOCAL_URI.fullmatch(text)
        if setting == "source" and uri:
            inputs |= dict.fromkeys((setting, part) for part in uri[1].split("+"))
        elif setting in _PATHS and "/" in text and not _SCHEME.match(text):
            inputs[setting, text] = None
    for setting, text in inputs:
        named = named_path(text)[1]
        path = named.removeprefix(HUB_PREFIX)
        if named == path or path.startswith(("/", "./", "../")):
            yield setting, path


def _is_there(path: str, configs: Mapping[str, Any]) -> bool:
    """Return whether a path, a glob or the stem of two files is there, or a step makes it."""
    if _is_made(path, configs) or Path(path).exists():
        return True
    return bool(glob.glob(path) or glob.glob(f"{path}.*"))  # noqa: PTH207 - also absolute patterns


def _is_made(path: Any, configs: Mapping[str, Any]) -> bool:
    """Return whether a path lies in the output of a step, or will be made to hold one."""
    if not path:
        return False
    absolute = Path(path).absolute()
    outs = [Path(cfg.out).absolute() for cfg in configs.values() if getattr(cfg, "out", None)]
    return any(
        absolute.is_relative_to(out) or (out.is_relative_to(absolute) and not absolute.exists())
        for out in outs
    )


def settings_of(pipeline: Pipeline, configs: Mapping[str, Any]) -> Answer:
    """Return the stage and the settings of each step, as ``xling config run NAME`` prints them."""
    facts = {
        name: {"stage": step.stage, "after": step.after, "config": to_dict(configs[name])}
        for name, step in pipeline.steps.items()
    }
    return Answer(json.dumps(facts, indent=1, ensure_ascii=False), facts)


def outline(pipeline: Pipeline, configs: Mapping[str, Any]) -> Answer:
    """Return the steps with what each reads and writes and what it may take; nothing is run."""
    facts, lines, missing = [], [], missing_inputs(pipeline, configs)
    for number, (name, cfg) in enumerate(configs.items(), 1):
        stage = pipeline.steps[name].stage
        step_of_output = {
            each: other for other, c in configs.items() if (each := str(getattr(c, "out", None) or ""))
        }
        inputs = [f"{setting}={path}" for setting, path in inputs_of(stage, cfg)]
        reads = [f"{each} (missing)" if each in missing else each for each in inputs]
        resources = load(_SITE)("").resources(stage)
        fact = {
            "step": name,
            "stage": stage,
            "after": list(pipeline.steps[name].after),
            "reads": reads,
            "out": str(getattr(cfg, "out", None) or ""),
            "is_there": bool(getattr(cfg, "out", None)) and Path(cfg.out).exists(),
            "minutes": _minutes(cfg),
            "at_most": {
                "minutes": resources.timeout_min,
                "cpus": resources.cpus_per_task,
                "gib": resources.mem_gb,
            },
        }
        facts.append(fact)
        own_minutes = f"{fact['minutes']:g} minutes of updates; " if fact["minutes"] else ""
        lines.append(f"[{number}/{len(configs)}] {name}: xling {stage}")
        lines.append(
            f"    cost: {own_minutes}at most {resources.timeout_min} minutes, {resources.cpus_per_task} cores and "
            f"{resources.mem_gb:g} GiB"
        )
        after = [step for step in step_of_output.values() if step in pipeline.steps[name].after]
        lines += [f"    needs: {', '.join([*after, *reads])}"] if after or reads else []
        lines += (
            [f"    writes: {fact['out']}{' (is there)' if fact['is_there'] else ''}"] if fact["out"] else []
        )
    total = sum(fact["at_most"]["minutes"] * fact["at_most"]["cpus"] for fact in facts) / 60  # type: ignore[index]
    lines.append(
        f"{len(facts)} steps, {pipeline.steps_at_once} at a time; at most {total:.0f} core-hours; nothing was run"
    )
    lines += [f"missing: {each}" for each in missing]
    return Answer("\n".join(lines), facts, 2 if missing else 0)


def _minutes(cfg: Any) -> float:
    minutes = getattr(cfg, "minutes", 0)
    return float(minutes) if isinstance(minutes, (int, float)) and not getattr(cfg, "updates", 0) else 0.0
