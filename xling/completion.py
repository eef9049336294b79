"""``xling completion bash|zsh|fish``: a script that completes commands, settings and their values in a shell.

The script holds every word, made from the stages and their configurations, so a press of the Tab key starts no Python.
Which words fit is decided by one AWK program, the same in every shell: its rows are "command<TAB>word", and the words
typed before the cursor's decide which command's words fit. Generate the script again after an update.

    xling completion bash > ~/.local/share/bash-completion/completions/xling
    xling completion zsh > ~/.zfunc/_xling         # a folder of $fpath
    xling completion fish > ~/.config/fish/completions/xling.fish
"""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

from xling.core.commands.pipeline import recipes
from xling.core.commands.runner import STAGES, load
from xling.core.errors import UserError, unknown
from xling.core.output.command_result import Answer
from xling.core.settings import schema

COMMON = ("--json", "--help", "workers=", "cluster=local", "cluster=slurm", "cluster=debug", "slurm.")

SHELLS = ("bash", "zsh", "fish")


def run(words: Sequence[str]) -> Answer:
    """Return the completion script for a shell.

    Raises:
        UserError: no shell is named, or one that is not known.
    """
    if len(words) != 1:
        raise UserError("xling completion needs a shell", "xling completion bash|zsh|fish")
    if words[0] not in SHELLS:
        raise unknown("shell", words[0], SHELLS)
    rows = list(table())
    return Answer(script(words[0], rows), [list(row) for row in rows])


def script(shell: str, rows: Sequence[tuple[str, str]]) -> str:
    """Build the completion script of a shell around the words."""
    lines = [f"{command}\t{word}" for command, word in rows]
    awk, body = "\n" + _source("awk"), _source(shell)
    if shell == "fish":
        quoted = "\n".join(f"    {_quoted(line, fish=True)} \\" for line in lines)
        return f"set -g _xling_awk {_quoted(awk, fish=True)}\nset -g _xling_words \\\n{quoted}\n\n{body}"
    tables = f"_xling_awk={_quoted(awk)}\n_xling_words={_quoted(chr(10).join(lines))}\n"
    if shell == "bash":
        return tables + body
    head, _, body = body.partition("\n")  # the first line has to be the first of the file
    return f'{head}\n{tables}{body}\n_xling "$@"\n'


def _source(name: str) -> str:
    """Return the part of a script that is the same for all words, ``completion.NAME`` beside this module."""
    return (files("xling") / f"completion.{name}").read_text(encoding="utf-8")


def _quoted(text: str, fish: bool = False) -> str:
    """Quote text in single quotes; only fish allows escaped quotes in them."""
    if fish:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + text.replace("'", "'\\''") + "'"


def table() -> Iterator[tuple[str, str]]:
    """Yield every command with each word that may follow it, "" for the first word."""
    from xling.slurm.commands import ACTIONS

    others = {
        "run": [*recipes()],
        "quickstart": ["out="],
        "encoder": ["data=", "langs=", "out=", "minutes="],
        "config": [],
        "recipes": [],
        "schema": [],
        "why-rerun": [],
    }
    others |= {"completion": [*SHELLS], "slurm": [*ACTIONS, "plan"]}
    for name in sorted({name.split()[0] for name in STAGES} | set(others)):
        yield "", name
    for name, follow in others.items():
        yield from ((name, word) for word in follow)
    for name, stage in STAGES.items():
        first, _, second = name.partition(" ")
        if second:
            yield first, second
        yield from ((name, word) for word in [*settings(load(stage.config)), *COMMON])


def settings(cls: Any) -> Iterator[str]:
    """Yield ``key=`` of every setting of a configuration, or ``key=value`` where its values are a closed list."""
    for key in schema.keys(cls):
        if key.choices:
            yield from (f"{key.name}={value}" for value in key.choices)
        elif key.kind == "true or false":
            yield from (f"{key.name}=true", f"{key.name}=false")
        else:
            yield f"{key.name}." if key.is_open else f"{key.name}="
        if key.name == "objectives":
            yield from (f"{each.name}=" for keys in schema.objectives().values() for each in keys)
