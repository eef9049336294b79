"""Texts of ``--help``, ``xling recipes`` and ``xling schema``, generated from stages, settings and recipes.

Also the answers to a misspelt word after a command, and to a blank beside the sign of a setting.
"""

import inspect
import itertools
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from xling.core.commands import pipeline
from xling.core.commands.runner import STAGES, Stage, load
from xling.core.commands.table import NAMED_PIPELINES, OTHER_WORDS, PLANNED_PIPELINES
from xling.core.errors import UserError, nearest, unknown
from xling.core.output.command_result import Answer
from xling.core.settings import config, schema

WIDTH = 110
COMMON_SETTINGS = ("langs", "alpha", "tokens_per_sample")
"""Settings that every objective has; the training run sets them for each of them."""


STARTS: tuple[tuple[str, str, str], ...] = (
    ("nothing", "quickstart", "a model and its scores on synthetic text, in minutes"),
    ("text", "corpus mono", "a clean corpus; then vocab, binarize, pretrain"),
    ("pairs", "encoder", "an encoder of your languages and a page with its score, in minutes"),
    ("", "corpus parallel", "clean sentence pairs; then align, finetune mt, mine, umt"),
    ("labels", "eval", "train and score a task in every language; then report"),
    ("", "finetune", "a model that labels your texts; then predict"),
    ("a model", "import hf", "use it here; then eval, finetune, export hf"),
    ("a cluster", "slurm", "see and steer what runs there: any command with cluster=slurm"),
)
"""What one has, the first command for it, and what comes out."""


def front_page() -> str:
    """Return the first help: what to begin with, by what one has."""
    rows = [(have, f"xling {command}", about) for have, command, about in STARTS]
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    return "\n".join(
        [
            "xling COMMAND [RECIPE.yaml] [key=value ...]",
            "",
            "You have",
            *(f"  {have:<{widths[0]}}  {command:<{widths[1]}}  {about}" for have, command, about in rows),
            "",
            "`xling COMMAND --help` lists the settings of a command, `xling corpus` the commands of a group.",
            "`xling recipes` lists what runs whole, `xling doctor` checks this machine.",
            "`xling help all` lists every command and word.",
        ]
    )


def commands_of(first: str) -> dict[str, Stage]:
    """Return the commands of two words that begin with ``first``, by name."""
    return {name: stage for name, stage in STAGES.items() if name.startswith(f"{first} ")}


def list_group(first: str) -> Answer:
    """List the commands that begin with one word, such as ``corpus``."""
    commands = commands_of(first)
    text = "\n".join(
        [f"xling {first} ...", "", *table(commands), "", "`xling COMMAND --help` lists its settings."]
    )
    return Answer(text, {name: stage.help for name, stage in commands.items()})


def table(commands: Mapping[str, Stage]) -> list[str]:
    """Return a line for each command, with what it does."""
    width = max(map(len, commands))
    return [f"  {name:<{width}}  {stage.help}" for name, stage in commands.items()]


def stage_help(stage: Stage) -> str:
    """List the settings of one stage in groups, each with its default, its description and its valid values."""
    cls = load(stage.config)
    positionals = "".join(f" [{name}]" for name in stage.positional.split())
    lines = [f"xling {stage.name}{positionals} [RECIPE.yaml] [key=value ...]", "", stage.help]
    if description := _stage_description(cls):
        lines += ["", description]
    for prefix, about, keys in schema.groups(cls):
        lines += ["", f"{prefix or 'Settings'}: {about}" if prefix else "Settings:"]
        for key in keys:
            lines += _key_lines(key)
    if any(key.name == "objectives" for key in schema.keys(cls)):
        lines += ["", *_objective_lines()]
    return "\n".join(lines)


def _stage_description(cls: Any) -> str:
    """Return the docstring's text before its list of attributes, without a first line that only repeats the name."""
    text = inspect.cleandoc(cls.__doc__ or "")
    description = re.split(r"^(?:Attributes|Args):$", text, maxsplit=1, flags=re.M)[0].strip()
    return re.sub(r"\ASettings of [`\w -]+\.\s*", "", description)


def _key_lines(key: schema.Key) -> Iterator[str]:
    yield f"  {key.name} = {'(required)' if key.required else key.default}"
    yield from textwrap.wrap(
        schema.described(key),
        WIDTH,
        initial_indent=" " * 6,
        subsequent_indent=" " * 6,
        break_on_hyphens=False,
    )


def _objective_lines() -> Iterator[str]:
    common_keys: set[str] = set()
    for name, keys in schema.objectives().items():
        yield f"objectives.{name}:"
        own_keys = [key for key in keys if key.name.rpartition(".")[2] not in COMMON_SETTINGS]
        for key in own_keys:
            yield from _key_lines(key)
        if not own_keys:
            yield "  none of its own"
        common_keys |= {key.name.rpartition(".")[2] for key in keys} & {*COMMON_SETTINGS}
    common = ", ".join(sorted(common_keys))
    yield f"objectives.NAME: each also has {common}; in a mix also weight and schedule (0:1,1000:0.5)"


def recipe_schema(words: Iterable[str] = ()) -> Answer:
    """Return the JSON Schema of the recipes of all stages, or of the stage named by ``words``.

    Raises:
        UserError: the stage does not exist.
    """
    stage_name = " ".join(words)
    if stage_name and stage_name not in STAGES:
        raise unknown("command", stage_name, STAGES)
    stages = [STAGES[stage_name]] if stage_name else list(STAGES.values())
    json_schema = schema.json_schema({stage.name: load(stage.config) for stage in stages})
    return Answer(json.dumps(json_schema, indent=1, ensure_ascii=False), json_schema)


def stage_of_recipe(path: Path) -> str:
    """Return the stage whose settings a recipe holds; empty for a pipeline and for keys that fit no stage."""
    keys = config.read_yaml(path).keys() - {"scales"}
    if not keys or keys & {"steps", "base"}:
        return ""
    fitting = (name for name, stage in STAGES.items() if keys <= get_type_hints(load(stage.config)).keys())
    return next(fitting, "")


def list_recipes() -> Answer:
    """List every recipe with the command that runs it and the first sentence of its opening comment."""
    rows = [
        {"recipe": path.stem, "command": command_of(path), "about": first_sentence(path)}
        for path in pipeline.recipes().values()
    ]
    width = max(len(row["command"]) for row in rows)
    return Answer("\n".join(f"  {row['command']:<{width}}  {row['about']}" for row in rows), rows)


def command_of(path: Path) -> str:
    """Return the command that runs a recipe: ``xling run`` for a pipeline, else the recipe's stage."""
    stage = stage_of_recipe(path)
    return f"xling {stage or 'run'} {path.stem}{'.yaml' if stage else ''}"


def list_pipelines() -> Answer:
    """List the pipelines in recipes/, each with the first sentence of its opening comment."""
    sentences = {
        name: first_sentence(path) for name, path in pipeline.recipes().items() if not stage_of_recipe(path)
    }
    width = max(map(len, sentences))
    lines = ["xling run NAME|PIPELINE.yaml [key=value ...]", ""]
    lines += [f"  {name:<{width}}  {text}" for name, text in sentences.items()]
    hint = "`xling run NAME --help` says more; `xling recipes` lists those of single stages too."
    return Answer("\n".join([*lines, "", hint]), sentences)


def first_sentence(path: Path) -> str:
    """Return the first sentence of a recipe's opening comment, on one line."""
    sentence = re.split(r"\n\n|(?<!\bal)\.\s", opening_comment(path) + "\n\n")[0]
    return textwrap.shorten(sentence, 120, placeholder=" ...")


def opening_comment(path: Path) -> str:
    """Return the comment at the start of a recipe, without the ``#`` marks."""
    config.read_yaml(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    comment_lines = itertools.takewhile(lambda line: line.startswith("#"), lines)
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in comment_lines)


def first_words() -> list[str]:
    """Return what ``xling help`` may be followed by; commands of two words by their whole name too."""
    firsts = [name.partition(" ")[0] for name in STAGES]
    return list(dict.fromkeys(["all", *STAGES, *firsts, *OTHER_WORDS, *NAMED_PIPELINES, *PLANNED_PIPELINES]))


def refuse_misspelt(
    command: str, words: Sequence[str], known_words: str = "", also_values: bool = False
) -> None:
    """Raise UserError for an unknown word after a command whose nearest is the second word of a longer command.

    Args:
        command: words of the command, as ``eval``.
        words: what follows.
        known_words: see `xling.core.commands.stage_type.Stage.words`.
        also_values: an unknown word whose nearest is a value of the command is refused too.
    """
    after = [name.removeprefix(f"{command} ") for name in commands_of(command)]
    known = load(known_words)() if known_words and words else []
    for word in ",".join(words).split(","):
        suggestions = nearest(word, [*after, *known])
        is_value = word in known or Path(word).exists() or "/" in word
        if not is_value and suggestions and (suggestions[0] in after or (also_values and known)):
            raise unknown(f"word after `xling {command}`", word, [*after, *known], suggestions)


KEY = re.compile(r"[A-Za-z_][\w.-]*")
"""Name of a setting."""


def without_blank(words: Sequence[str], unused: str) -> str:
    """Return the fix for ``size= 1000``, "" where the word before the unused one does not end in ``=``."""
    before = next((name for name, word in itertools.pairwise(words) if word == unused), "")
    return f"write {before}{unused}, without a blank" if before.endswith("=") else ""


def refuse_blanks(words: Sequence[str]) -> None:
    """Refuse ``size = 1000``, which a shell hands on as three words.

    Raises:
        UserError: a word begins with ``=`` behind the name of a setting.
    """
    for number, (name, word) in enumerate(itertools.pairwise(words)):
        if word.startswith("=") and KEY.fullmatch(name.removeprefix("--")):
            value = word[1:] or "".join(words[number + 2 : number + 3])
            raise UserError(
                f"{name} {word}: a blank before the sign =", "key=value as one word", f"write {name}={value}"
            )
