"""The ``xling`` command: a thin layer that turns words into a stage and its configuration.

Usage::

    xling STAGE [RECIPE.yaml] [key=value ...]     run one stage
    xling run PIPELINE.yaml [key=value ...]       run a pipeline of stages
    xling quickstart [key=value ...]              run recipes/quickstart.yaml
    xling encoder data=FOLDER langs=sw,en [...]   run recipes/encoder.yaml: an encoder of your own translated text
    xling run PIPELINE.yaml --dry-run             print its steps, what each needs and may cost; run nothing
    xling config STAGE [RECIPE.yaml] [...]        print the resolved settings and stop
    xling config run PIPELINE.yaml [...]          the same for every step of a pipeline
    xling why-rerun STAGE [RECIPE.yaml] [...]     say whether the stage would run, and what differs; run nothing
    xling recipes                                 list the recipes, each with the command that runs it
    xling schema [STAGE] > xling.schema.json      the settings of recipes as a JSON Schema, for editors
    xling slurm status|logs|cancel|requeue|plan   see and steer what was submitted; `xling slurm` says more
    xling --version                               print the version

Every stage takes these words too:

- ``--json`` prints the answer as one JSON value.
- ``cluster=local|slurm|debug`` says where the stage runs.
- ``workers=N`` is the number of processes for the parts of a stage on this machine; ``auto``, the default, is one for
  each core where much is to be read.
- ``slurm.nodes=2`` and the like say what it asks of the cluster.
- ``sweep.seed=1,2`` runs the stage once per value.
- ``overwrite=true`` lets it replace an output, finished or not, that was made with other settings or inputs.
- ``XLING_QUIET=true`` in the environment leaves out the lines about the time that passes.
- ``verify=never|once|always`` says how often files are compared with their digests; see `xling.core.output.digests`.

A stage is imported only when it is called, so a login node never loads torch.
"""

import contextlib
import itertools
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, get_type_hints

from xling.core import progress, signals
from xling.core.commands import closing, inputs
from xling.core.commands import help as manual
from xling.core.commands.help import KEY, first_words, refuse_blanks, refuse_misspelt, without_blank
from xling.core.commands.machine_errors import is_of_machine, machine_error
from xling.core.commands.pipeline import recipes
from xling.core.commands.runner import STAGES, Stage, load, run_local
from xling.core.commands.table import NAMED_PIPELINES, OTHER_WORDS, PLANNED_PIPELINES
from xling.core.errors import UserError, nearest, unknown
from xling.core.output import digests, manifest
from xling.core.output.command_result import Answer, JsonLines, as_json, tell, visible
from xling.core.settings import config, schema

_AUTO = "auto"
_CLUSTERS = ("local", "slurm", "debug", "plan")
JSON = "--json"
DRY_RUN = "--dry-run"
OVERWRITING = ("overwrite=true", "--overwrite", "--overwrite=true")
VERIFYING = "verify"
HELP = ("-h", "--help")
VERSION = "--version"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 (done), 1 (a problem), 2 (a user's mistake) or 130 (interrupted)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    try:
        with asked_by_environment(arguments) as words, watched(words):
            code = show(dispatch(words), JSON in arguments)
        sys.stdout.flush()
        closing.tell_end()
        return code
    except manifest.WhyAnswer as answer:
        return show(Answer(str(answer), {"why": str(answer)}), JSON in arguments)
    except UserError as error:
        tell(
            "xling: " + " ".join(str(error).splitlines())
        )  # names of files and words of libraries may have several
        if JSON in arguments and error.data is not None:
            print(as_json(error.data, 1))
        return error.exit_code
    except ModuleNotFoundError as error:
        if (explanation := inputs.explain_import_error(error, f"xling {' '.join(arguments[:1])}")) is None:
            raise
        tell(f"xling: {explanation}")
        return 2
    except KeyboardInterrupt:
        tell("xling: interrupted; run the same command again to go on")
        return 130
    except signals.Stopped:
        tell("xling: stopped, what was saved counts; run the same command again to go on")
        return signals.STOPPED_EXIT_CODE
    except BrokenPipeError:
        _discard_output()
        return 0
    except Exception as error:
        if os.environ.get("XLING_TRACEBACK") or not is_of_machine(error):
            raise
        if sys.stdout is sys.__stdout__:
            _discard_output()
        out = next((word.partition("=")[2] for word in arguments if word.startswith("out=")), "")
        tell(f"xling: {machine_error(error, out)}")
        return 2


def watched(words: Sequence[str]) -> contextlib.AbstractContextManager[object]:
    """Return what says that a command runs while it is silent; who types what to translate is not disturbed."""
    if words[:1] == ["translate"] and sys.stdin is not None and sys.stdin.isatty():
        return contextlib.nullcontext()
    names = itertools.takewhile(lambda word: "=" not in word and not word.startswith("-"), words[:2])
    title = " ".join(names)
    return progress.Watch(
        f"xling {title if title in STAGES or words[:1] == ['run'] else ' '.join(words[:1])}"
    )


def _discard_output() -> None:
    """Discard buffered output for a closed or full standard output, so that exit does not fail on it."""
    with contextlib.suppress(OSError):  # too many open files
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def asked_by_environment(arguments: list[str]) -> Iterator[list[str]]:
    """Put ``overwrite=true``, ``verify=`` and ``why-rerun`` into the environment, which workers inherit.

    Yields:
        The other words.

    Raises:
        UserError: ``verify=`` is given another value than those of `xling.core.output.digests.MODES`.
    """
    words = [word for word in arguments if word not in OVERWRITING]
    is_overwriting = len(words) < len(arguments)
    words, verifying = _split_verify(words)
    asked = {
        manifest.OVERWRITE_VARIABLE: "true" if is_overwriting else "",
        manifest.ONLY_WHY_VARIABLE: "true" if words[:1] == ["why-rerun"] else "",
        digests.VERIFY_VARIABLE: verifying,
    }
    before = {name: os.environ.get(name) for name in asked}
    os.environ.update({name: value for name, value in asked.items() if value})
    try:
        digests.mode()
        yield words[1:] if asked[manifest.ONLY_WHY_VARIABLE] else words
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _split_verify(words: list[str]) -> tuple[list[str], str]:
    """Return the other words, and the value of ``verify=V``, ``--verify=V`` or ``--verify V``; "" if it is not given.

    Raises:
        UserError: it is given twice.
    """
    rest, values = [], []
    remaining = iter(words)
    for word in remaining:
        key, sign, value = word.removeprefix("--").partition("=")
        if key == VERIFYING and (sign or word != key):
            values.append((value if sign else next(remaining, "")) or "nothing")
        else:
            rest.append(word)
    if len(values) > 1:
        raise UserError(f"verify={' and verify='.join(values)}", "each key once", "leave one of them out")
    return rest, "".join(values)


def dispatch(arguments: list[str]) -> Any:
    """Run the command given by the words and return its answer."""
    as_json, arguments = JSON in arguments, [word for word in arguments if word != JSON]
    only_why = os.environ.get(manifest.ONLY_WHY_VARIABLE) == "true"
    if (not arguments and not only_why) or arguments[:1] in ([word] for word in HELP):
        return Answer(manual.front_page(), {name: stage.help for name, stage in STAGES.items()})
    if arguments[:1] == ["help"]:
        return help_on(arguments[1:])
    word, rest = (arguments or [""])[0], arguments[1:]
    if word == VERSION:
        return Answer(f"xling {metadata.version('xling')}", {"xling": metadata.version("xling")})
    if only_why and (word in ("", *OTHER_WORDS) or word == "eval"):
        raise UserError(
            f"xling why-rerun {word}".rstrip() + " names no stage that it can explain",
            "one stage that publishes a directory, for example pretrain",
        )
    if word == "slurm" and rest[:1] != ["plan"]:
        return load("xling.slurm.commands:main")(rest)
    if word == "slurm":
        word, *rest = arguments = [*rest[1:], "cluster=plan"]
    if word in ("recipes", "schema"):
        return (
            manual.list_recipes()
            if word == "recipes"
            else manual.recipe_schema([w for w in rest if w not in HELP])
        )
    # With --json nothing but the answer reaches standard output.
    with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout):
        goal = "run"
        pipelines = ("run", *NAMED_PIPELINES, *PLANNED_PIPELINES)
        if word == "config" and rest[:1] and rest[0] in pipelines:
            goal, word, rest = "config", rest[0], rest[1:]
        elif DRY_RUN in rest and word in pipelines:
            goal, rest = "outline", [each for each in rest if each != DRY_RUN]
        if word == "run" and rest[:1] and rest[0] in PLANNED_PIPELINES:
            word, rest = rest[0], rest[1:]
        if word in PLANNED_PIPELINES and f"{word} {rest[0] if rest else ''}" not in STAGES:
            return run_planned(word, rest, as_json, goal)
        if word in NAMED_PIPELINES:
            word, rest = "run", [word, *rest]
        if word == "run":
            if not rest or rest[0] in HELP:
                return manual.list_pipelines()
            path = recipe_path(rest[0])
            if not set(HELP).isdisjoint(rest):
                said = manual.opening_comment(path)
                return Answer(said, {"recipe": str(path), "help": said})
            word = rest[0] if rest[0] in NAMED_PIPELINES else ""
            return run_pipeline(path, rest[1:], as_json, goal, word)
        return run_stage(arguments, as_json)


def help_on(words: list[str]) -> Answer:
    """Answer ``xling help``, ``xling help all`` and ``xling help COMMAND``."""
    if words == ["all"]:
        return Answer(usage(), {name: stage.help for name, stage in STAGES.items()})
    if len(words) == 1 and words[0] not in (names := first_words()):
        raise unknown("command", words[0], names)
    return dispatch([*words, HELP[-1]])


def run_stage(words: list[str], as_json: bool) -> Any:
    """Run one stage, print its help or its settings, as the words say."""
    printing = words[0] == "config"
    if words == ["config"]:
        raise UserError("xling config names no command", "xling config COMMAND [key=value ...]", "name one")
    if words[0] not in STAGES and manual.commands_of(words[0]) and {*words[1:]} <= {*HELP}:
        return manual.list_group(words[0])
    stage, rest = find_stage(words[1:] if printing else words)
    if not set(HELP).isdisjoint(rest):
        settings = [key.plain() for key in schema.keys(load(stage.config))]
        facts = {"stage": stage.name, "help": stage.help, "settings": settings}
        return Answer(manual.stage_help(stage), facts)
    if any(w.startswith("sweep.") for w in rest) and not printing:
        return run_sweep(stage, rest)
    cfg, launch = resolve(stage, rest)
    if printing:
        settings = config.to_dict(cfg)
        return Answer(json.dumps(settings, indent=1, ensure_ascii=False), settings)
    if as_json and stage.run and get_type_hints(load(stage.run))["return"] is type(None):
        raise UserError(
            f"xling {stage.name} has no answer for --json: it prints lines of text", fix="leave --json out"
        )
    return execute(stage.name, cfg, launch)


def show(result: Any, for_program: bool) -> int:
    """Print a command's answer; return the exit code."""
    if isinstance(result, JsonLines):
        for line in result.json_lines() if for_program else result.lines():
            print(visible(line))
    elif for_program:
        print(as_json(values_of(result), 1))
    elif isinstance(result, str):
        print(visible(result))
    return result.exit_code if isinstance(result, Answer) else 0


def values_of(result: Any) -> Any:
    """Return a command's answer as JSON-ready values; for a finished output its manifest."""
    return config.to_dict(result.data if isinstance(result, Answer) else result)


def find_stage(words: list[str]) -> tuple[Stage, list[str]]:
    """Return the stage named by the first one or two words, and the remaining words."""
    for length in (2, 1):
        name = " ".join(words[:length]).replace(" --", " ")
        if name in STAGES:
            return STAGES[name], words[length:]
    two = " ".join(word for word in words[:2] if "=" not in word)
    names = [*manual.commands_of(words[0] if words else "")] or {*STAGES, *OTHER_WORDS, *first_words()}
    raise unknown("command", two if nearest(two, names) else words[0] if words else "", names)


def recipe_path(name: str) -> Path:
    """Return a recipe by path, or by its bare name in recipes/."""
    path, known = Path(name), recipes()
    if path.suffix in (".yaml", ".yml"):
        return path if path.is_file() else known.get(path.stem, path)
    if name not in known:
        raise unknown("recipe", name, known)
    return known[name]


def resolve(stage: Stage, words: Sequence[str]) -> tuple[Any, dict[str, str]]:
    """Return the configuration of ``stage`` and the launch settings (``cluster``, ``workers``) from the words."""
    recipe: Path | None = None
    overrides: list[str] = []
    bare: list[str] = []
    refuse_blanks(words)
    launch, rest = split_launch(words)
    waiting = iter(rest)
    for word in waiting:
        key, sign, value = word.removeprefix("--").partition("=")
        if sign and KEY.fullmatch(key):
            overrides.append(f"{key}={value}")
        elif word.endswith((".yaml", ".yml")) or (not stage.positional and word in recipes()):
            if recipe is not None:
                raise UserError(
                    f"two recipes are given: {recipe} and {word}", "one recipe", "leave one of them out"
                )
            recipe = recipe_path(word)
        elif word.startswith("--"):
            name = word[2:].replace("-", "_")
            overrides.append(f"{name}={'true' if _is_flag(load(stage.config), name) else next(waiting, '')}")
        else:
            bare.append(word)
    refuse_misspelt(stage.name, bare[:1], stage.words)
    names = stage.positional.split()
    if len(names) != 1 and (unused := bare[len(names) :]):
        raise UserError(
            f"xling {stage.name} cannot use {unused[0]!r}",
            stage.positional.upper() or "the name of a recipe, one ending in .yaml, or key=value",
            without_blank(words, unused[0]),
        )
    if len(bare) > 1 and len(names) == 1:
        overrides.append(f"{stage.positional}={json.dumps(bare, ensure_ascii=False)}")
    else:
        overrides += [f"{name}={word}" for name, word in zip(names, bare, strict=False)]
    config.refuse_repeated(overrides)
    try:
        return config.load(load(stage.config), recipe, overrides), launch
    except UserError:
        refuse_misspelt(stage.name, bare[:1], stage.words, also_values=True)
        raise


def _is_flag(cls: Any, name: str) -> bool:
    """Return whether ``--name`` takes no value; also for unknown settings, which are then rejected by name."""
    known = {key.name: key for key in schema.keys(cls)}
    inside = any(key.is_open and name.startswith(f"{key.name}.") for key in known.values())
    return known[name].kind == "true or false" if name in known else not inside


def split_launch(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Split off the launch settings (``cluster``, ``workers``, ``slurm.*``) from the other words."""
    launch = {"cluster": "local", "workers": _AUTO}
    rest = []
    for word in words:
        key, sign, value = word.partition("=")
        if sign and (key in launch or key.startswith("slurm.")):
            launch[key] = value
        else:
            rest.append(word)
    if launch["cluster"] not in _CLUSTERS:
        raise unknown("cluster", launch["cluster"], _CLUSTERS)
    num_workers(launch)
    return launch, rest


def num_workers(launch: dict[str, str]) -> int | None:
    """Return the number of processes for the parts of a stage, None where the machine and the work decide."""
    workers = launch["workers"]
    if workers == _AUTO:
        return None
    if not workers.isdecimal() or int(workers) < 1:
        raise UserError(f"workers={workers}", f"a whole number from 1, or {_AUTO}")
    return int(workers)


def slurm_settings(launch: dict[str, str]) -> dict[str, str]:
    """Convert ``slurm.nodes=2`` to ``{"nodes": "2"}``."""
    return {k.removeprefix("slurm."): v for k, v in launch.items() if k.startswith("slurm.")}


def execute(name: str, cfg: Any, launch: dict[str, str]) -> Any:
    """Run a stage here or hand it to the cluster; a dry run is never queued.

    Raises:
        UserError: a setting of Slurm without a cluster, or one that `xling.slurm` refuses, also for a dry run.
    """
    is_dry = launch["cluster"] == "slurm" and getattr(cfg, "dry_run", False) is True
    if launch["cluster"] == "local" or is_dry:
        if is_dry:
            load("xling.slurm.launch:check_settings")(name, slurm_settings(launch))
        else:
            refuse_slurm_settings(launch)
        before, started_at = closing.state_of(name, vars(cfg)), time.monotonic()
        result = run_local(name, cfg, num_workers(launch))
        if not getattr(result, "exit_code", 0):
            closing.note_end(name, vars(cfg), before, time.monotonic() - started_at)
        return result
    return load("xling.slurm.launch:submit")(name, cfg, launch["cluster"], slurm_settings(launch))


def refuse_slurm_settings(launch: dict[str, str]) -> None:
    """Raise UserError for ``slurm.*`` settings without ``cluster=``, which would have no effect."""
    if slurm := slurm_settings(launch):
        key, value = next(iter(slurm.items()))
        raise UserError(
            f"slurm.{key}={value} without cluster=", "cluster=slurm beside it", "add it, or leave both out"
        )


def run_sweep(stage: Stage, words: Sequence[str]) -> Any:
    """Run one stage under every combination of the ``sweep.key=a,b`` words, on a cluster as one array."""
    resolved = [resolve(stage, each) for each in load("xling.slurm.sweep:expand")(words)]
    configs, launch = [cfg for cfg, _ in resolved], resolved[0][1]
    settings = slurm_settings(launch)
    return load("xling.slurm.launch:submit_sweep")(stage.name, configs, launch["cluster"], settings)


def run_planned(word: str, words: Sequence[str], as_json: bool, goal: str) -> Any:
    """Run the stage that plans a pipeline, then the pipeline; ``STEP.key=value`` changes one of its steps."""
    stage = STAGES[PLANNED_PIPELINES[word]]
    refuse_misspelt(word, [each for each in words[:1] if "=" not in each])
    if not words or not set(HELP).isdisjoint(words):
        return Answer(manual.stage_help(stage), {"stage": stage.name, "help": stage.help})
    own_names = {key.name.partition(".")[0] for key in schema.keys(load(stage.config))}
    of_steps = [
        each for each in words if "." in each.partition("=")[0] and each.partition(".")[0] not in own_names
    ]
    _, others = split_launch([each for each in words if each not in of_steps])
    cfg, _ = resolve(stage, others)
    answer = run_local(stage.name, cfg, 1)
    if not as_json and goal != "config":
        show(answer, as_json)
    path = load("xling.language.survey:folder_of")(cfg) / "pipeline.yaml"
    given = [each for each in words if each not in others and each not in of_steps]
    return run_pipeline(path, [*of_steps, *given], as_json, goal, word)


def run_pipeline(
    path: Path, words: Sequence[str], as_json: bool = False, goal: str = "run", word: str = ""
) -> Any:
    """Run the steps of a pipeline in order, or submit them as a graph; of a sweep each step under all settings.

    Args:
        words: variables and settings.
        goal: ``run``; ``outline`` and ``config`` say what would run.
        word: what runs it, if that is not ``run``.
    """
    from xling.core.commands import pipeline
    from xling.core.commands.needs import missing_inputs, outline, settings_of, with_what_is_there
    from xling.core.commands.parallel_steps import run_steps

    refuse_blanks(words)
    launch, overrides = split_launch(words)
    if stage := manual.stage_of_recipe(path):
        raise UserError(
            f"{path.name} is a recipe of the stage {stage!r}",
            "a pipeline; `xling run` lists them",
            manual.command_of(path),
        )
    config.refuse_repeated(overrides)
    swept = load("xling.slurm.sweep:expand")(overrides, pipeline.read_sweep(path))
    plans = [pipeline.read(path, each) for each in swept]
    if launch["cluster"] != "local" and goal == "run":
        return load("xling.slurm.launch:submit_pipeline")(plans, launch["cluster"], slurm_settings(launch))
    refuse_slurm_settings(launch)
    plan, configs = pipeline.merge_pipelines(plans)
    if goal == "config":
        return settings_of(plan, configs)
    if goal == "run" or not missing_inputs(plan, configs):
        plan, configs = with_what_is_there(plan, configs)
    if goal == "outline":
        return outline(plan, configs)
    for step in plan.steps.values():
        inputs.require(STAGES[step.stage].extra, f"xling {step.stage}")
    answers: dict[str, Any] = {}
    steps = [(plan.steps[name].stage, vars(cfg)) for name, cfg in configs.items()]
    before, started_at = [closing.state_of(*step) for step in steps], time.monotonic()
    printed_later = pipeline.tables_printed_later(plan, configs)
    for name, result in run_steps(plan, configs, plan.steps_at_once, num_workers(launch)):
        answers[name] = values_of(result) if as_json else None
        if not as_json and name not in printed_later:
            show(result, as_json)
    closing.note_pipeline_end(
        word or f"run {path.stem}", steps, before, time.monotonic() - started_at, plan.next
    )
    return answers


def usage() -> str:
    """Return the help of the whole command, ``xling help all``."""
    lines = [(__doc__ or "").strip(), "", "Stages:", *manual.table(STAGES)]
    return "\n".join([*lines, "", "`xling STAGE --help` lists its settings."])


if __name__ == "__main__":
    sys.exit(main())
