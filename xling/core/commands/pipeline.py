"""Pipelines: stages with their settings and dependencies in one YAML file.

Format::

    vars:
      out: runs/quickstart
    steps_at_once: 2          # on this machine; default 1
    steps:
      raw:    {stage: toyworld, config: {out: "${out}/raw"}}
      vocab:
        stage: vocab
        after: [raw]
        config: {corpora: {en: "${out}/raw/mono/en.txt"}, out: "${out}/vocab"}

``${name}`` is replaced, in keys too, by its value under ``vars``; a variable may use those above it.
``${style_${start}}`` is the variable whose name ends in the value of another.
Overrides are ``name=value`` for a variable, ``step.key=value`` for a setting of one step, and
``steps_at_once=2``. ``scale=NAME`` applies the settings under ``scales: NAME:`` over the file. A file with
``base: NAME.yaml`` is applied over that file of the same folder, which may have a base too.
``${scale}`` is the name of the scale. ``sweep: NAME: [VALUE, ...]`` names the values of variables, or the scales,
for which a file runs, once for each combination. ``next: COMMAND`` is shown at the end of a run without a sweep.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from xling.core.commands.runner import STAGES, load
from xling.core.errors import UserError, unknown
from xling.core.settings import config

# Package data: in a checkout xling/recipes is a link to recipes/.
RECIPES_FOLDER = Path(str(files("xling") / "recipes"))

STEPS_AT_ONCE = "steps_at_once"
_VARIABLE = re.compile(r"\$\{((?:[^{}]|\$\{[^{}]*\})*)\}")


@dataclass(frozen=True)
class Step:
    """One stage of a pipeline with its settings as written.

    Attributes:
        stage: a name in `xling.core.commands.runner.STAGES`.
        config: settings of the stage; scalars are text.
        after: names of the steps that must have ended.
        recipe: a recipe file; ``config`` overrides its settings.
        optional: what the data folder lacks is left out, and the step if nothing is left.
    """

    stage: str
    config: dict[str, Any] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    recipe: str = ""
    optional: bool = False


@dataclass(frozen=True)
class _File:
    vars: dict[str, str] = field(default_factory=dict)
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    sweep: dict[str, tuple[str, ...]] = field(default_factory=dict)
    steps_at_once: int = 1
    next: str = ""


@dataclass(frozen=True)
class Pipeline:
    """Named steps in topological order: each comes after the steps it depends on."""

    steps: dict[str, Step]
    path: Path | None = None
    steps_at_once: int = 1
    next: str = ""

    def settings(self, name: str) -> Any:
        """Return the resolved configuration dataclass of step ``name``."""
        step = self.steps[name]
        base = config.read_yaml(Path(step.recipe)) if step.recipe else {}
        base.pop("scales", None)
        try:
            return config.from_dict(
                load(STAGES[step.stage].config), config.merge(base, step.config), f"step {name!r}"
            )
        except UserError as error:
            if self.path is None:
                raise
            raise config.located(error, self.path, inside=f"steps.{name}.config") from None


def recipes() -> dict[str, Path]:
    """Return the recipes of this package by name, sorted; those of papers lie in a folder of their own."""
    return {path.stem: path for path in sorted(RECIPES_FOLDER.rglob("*.yaml"), key=lambda path: path.stem)}


def read(path: Path, overrides: Iterable[str] = ()) -> Pipeline:
    """Read a pipeline file.

    Raises:
        UserError: the file does not exist or has no step, a stage, step or variable is unknown, or steps wait
            for each other.
    """
    override_pairs = [config.split_override(item) for item in overrides]
    scale = "".join(value for key, value in override_pairs if key == "scale")
    file = config.from_dict(_File, config.scaled(_read_with_base(path), scale, str(path)), str(path))
    variables, steps = dict(file.vars), dict(file.steps)
    for key, value in override_pairs:
        if key == "scale":
            continue
        if key == STEPS_AT_ONCE:
            file = replace(file, steps_at_once=int(value) if value.isdecimal() else 0)
            continue
        name, _, setting = key.partition(".")
        if not setting and name in variables:
            variables[name] = value
        elif setting and name in steps:
            nested = config.nested(f"config.{setting}", value)
            steps[name] = config.merge(steps[name], nested)
        else:
            raise unknown("variable or step", name, sorted({*variables, *steps}))
    if file.steps_at_once < 1:
        raise UserError(f"{path}: {STEPS_AT_ONCE}={file.steps_at_once}", "a whole number from 1")
    filled = substitute({**steps, "": {"next": file.next}}, {"scale": scale, **variables}, path)
    following = filled.pop("")["next"]
    resolved = {name: config.from_dict(Step, step, f"{path}: step {name!r}") for name, step in filled.items()}
    if not resolved:
        raise UserError(f"{path} has no steps", "steps: NAME: {stage: STAGE, config: {...}}")
    for step in resolved.values():
        STAGES[step.stage]
    in_order = {name: resolved[name] for name in _ordered(resolved, path)}
    return Pipeline(in_order, path, file.steps_at_once, following)


def substitute(
    steps: Mapping[str, Mapping[str, Any]], variables: Mapping[str, str], path: Path
) -> dict[str, dict[str, Any]]:
    """Return steps with the values of variables in place of their names; a variable may use those before it.

    Raises:
        UserError: an unknown variable.
    """
    values: dict[str, str] = {}
    for name, text in variables.items():
        values[name] = _substitute(text, values, path)
    return {name: _substitute(step, values, path) for name, step in steps.items()}


def merge_pipelines(pipelines: Sequence[Pipeline]) -> tuple[Pipeline, dict[str, Any]]:
    """Join pipelines of the same steps into one, and return it with the settings of each of its steps.

    A step is there once for each of its different settings, as ``NAME`` or ``NAME#NUMBER``.

    Raises:
        UserError: two steps, or two different settings of a step, write to the same place.
    """
    steps: dict[str, Step] = {}
    configs: dict[str, Any] = {}
    for pipeline in pipelines:
        key_of_step: dict[str, str] = {}
        for name, step in pipeline.steps.items():
            cfg = pipeline.settings(name)
            earlier_keys = [key for key in steps if key.partition("#")[0] == name]
            key = next(
                (key for key in earlier_keys if configs[key] == cfg),
                f"{name}#{len(earlier_keys) + 1}" if earlier_keys else name,
            )
            same_output = next(
                (other for other in steps if _output_of(cfg) == _output_of(configs[other])), key
            )
            if key not in steps and same_output in earlier_keys:
                raise UserError(
                    f"the sweep writes to out={_output_of(cfg)} more than once",
                    "an out= with each swept key in it",
                )
            if key not in steps and same_output != key:
                raise UserError(
                    f"the steps {same_output} and {name} write to the same out={_output_of(cfg)}",
                    "an out= for each",
                )
            needed = (
                *(steps[key].after if key in steps else ()),
                *(key_of_step[before] for before in step.after),
            )
            steps[key], configs[key] = replace(step, after=(*dict.fromkeys(needed),)), cfg
            key_of_step[name] = key
    path = pipelines[0].path
    order = _ordered(steps, path or Path())
    following = pipelines[0].next if len(pipelines) == 1 else ""
    combined = Pipeline({name: steps[name] for name in order}, path, pipelines[0].steps_at_once, following)
    return combined, {name: configs[name] for name in order}


def tables_printed_later(pipeline: Pipeline, configs: Mapping[str, Any]) -> set[str]:
    """Return the name of the only evaluation if a report prints its table again, else nothing."""
    outs = [(name, Path(configs[name].out)) for name, step in pipeline.steps.items() if step.stage == "eval"]
    runs = [configs[name].runs for name, step in pipeline.steps.items() if step.stage == "report"]
    shown = [Path(each[0]) for each in runs if len(outs) == len(each) == 1]
    return {name for name, out in outs if any(each in (out, *out.parents) for each in shown)}


def _output_of(cfg: Any) -> Any:
    return getattr(cfg, "out", None) or object()


def read_sweep(path: Path) -> dict[str, tuple[str, ...]]:
    """The ``sweep`` of a pipeline file: variable, or ``scale`` -> its values.

    Raises:
        UserError: no such file, or no mapping of names to lists.
    """
    return config.from_dict(_File, config.scaled(_read_with_base(path), "", str(path)), str(path)).sweep


def _read_with_base(path: Path, overlays: tuple[Path, ...] = ()) -> dict[str, Any]:
    if path in overlays:
        raise UserError(
            f"{path}: the file is its own base, over {', '.join(each.name for each in overlays)}",
            "bases without a circle",
            f"remove base from {overlays[-1].name}",
        )
    data = config.read_yaml(path)
    if not (base := str(data.pop("base", ""))):
        return data
    if Path(base).name != base:
        raise UserError(f"{path}: base {base}", "the name of a file", f"put the file into {path.parent}")
    return config.merge(_read_with_base(path.with_name(base), (*overlays, path)), data)


def _substitute(value: Any, variables: Mapping[str, str], path: Path) -> Any:
    if isinstance(value, Mapping):
        pairs = [(_substitute(k, variables, path), _substitute(v, variables, path)) for k, v in value.items()]
        if len(substituted := dict(pairs)) < len(pairs):
            raise UserError(
                f"{path}: two of the keys {', '.join(k for k, _ in value.items())} become the same name",
                "different names",
                "give the variables in them different values",
            )
        return substituted
    if isinstance(value, list):
        return [_substitute(v, variables, path) for v in value]

    def replace(match: re.Match[str]) -> str:
        name = _VARIABLE.sub(replace, match[1])
        if name not in variables:
            raise unknown(f"variable in {path}:", name, variables)
        return variables[name]

    return _VARIABLE.sub(replace, value)


def _ordered(steps: Mapping[str, Step], path: Path) -> list[str]:
    order: list[str] = []
    while len(order) < len(steps):
        for step in steps.values():
            for name in step.after:
                if name not in steps:
                    raise unknown(f"step in {path}:", name, steps)
        ready = [n for n, s in steps.items() if n not in order and all(a in order for a in s.after)]
        if not ready:
            waiting = ", ".join(n for n in steps if n not in order)
            raise UserError(f"{path}: steps {waiting} wait for each other", fix="break the cycle in `after`")
        order += ready
    return order
